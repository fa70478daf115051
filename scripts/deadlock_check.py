"""Start `deadlock_program.py` in many fresh processes, one after another, and fail if one hangs or dies.

python scripts/deadlock_check.py [NUMBER, default 50]
"""

import os
import pathlib
import signal
import subprocess
import sys
import time

PROGRAM = pathlib.Path(__file__).with_name("deadlock_program.py")
LIMIT = 180  # seconds; a run takes some 15


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}  # importing rl4jax must set it
    for i in range(1, count + 1):
        start = time.monotonic()
        # faulthandler in the child prints every thread's stack when it gets SIGABRT.
        process = subprocess.Popen([sys.executable, "-X", "faulthandler", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment)
        try:
            out, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            process.communicate()
            print(f"run {i} of {count} hung: no result in {LIMIT} s. Its stacks are above.")
            return 1
        if process.returncode:
            print(f"run {i} of {count} died with code {process.returncode}.")
            return 1
        print(f"{i}/{count}: {out.strip()} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{count} of {count} fresh processes finished.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
