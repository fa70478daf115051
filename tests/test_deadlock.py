import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent.parent / "scripts" / "deadlock_check.py"


def test_a_fresh_process_finishes_a_program_vmapped_over_16_copies():
    subprocess.run([sys.executable, SCRIPT, "1"], check=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_fresh_processes_in_a_row_finish():
    subprocess.run([sys.executable, SCRIPT, "50"], check=True)
