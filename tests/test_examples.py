"""The examples run, each in a short form, as a user starts them."""

import json
import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def run(name, *args, cwd):
    return subprocess.run([sys.executable, EXAMPLES / name, *args], cwd=cwd, capture_output=True, text=True, check=True)


def test_random_agent_logs_and_draws(tmp_path):
    for _ in range(2):  # the second run begins a new log
        run("random_agent.py", "Memory", "MultiDiscreteNav", cwd=tmp_path)
    records = [json.loads(line) for line in (tmp_path / "runs/random/log.jsonl").read_text().splitlines()]
    values = {record["key"]: record["value"] for record in records}
    assert len(records) == 4
    assert abs(values["Memory/mean_return"] - 17 / 4) < 0.1, "17 recalls at chance"
    assert values["Memory/episodes"] == 64 * 1000 / 20
    assert (tmp_path / "runs/random/Memory.gif").stat().st_size > 1000
