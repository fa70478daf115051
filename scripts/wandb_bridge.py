"""Send JSONL logs (see `rl4jax.JsonLogger`) to Weights & Biases.

some_program 2>&1 | python scripts/wandb_bridge.py --project my_project
python scripts/wandb_bridge.py --offline runs/*.jsonl
"""

import argparse
import fileinput
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rl4jax.core.log import Logger, WandbLogger


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="JSONL files; standard input if none is given")
    parser.add_argument("--project", default="rl4jax", help="the W&B project (default: rl4jax)")
    parser.add_argument("--offline", action="store_true", help="write the run to ./wandb instead of sending it")
    args = parser.parse_args()
    if missing := [name for name in args.files if name != "-" and not Path(name).exists()]:
        parser.error(f"no such file: {', '.join(missing)}")  # before a run is started
    # Programs print all sorts of things: bytes that are not text must not end the bridge.
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    with (
        fileinput.input(args.files, encoding="utf-8", errors="replace") as lines,
        WandbLogger(args.project, offline=args.offline) as logger,
    ):
        sent, skipped = bridge(lines, logger)
    print(f"wandb_bridge: sent {sent} records, skipped {skipped} lines that are not records", file=sys.stderr)


def bridge(lines: Iterable[str], logger: Logger) -> tuple[int, int]:
    """Log every line that is a record; returns how many were, and how many were not."""
    sent = skipped = 0
    try:
        for line in lines:
            try:
                send(json.loads(line), logger)
                sent += 1
            except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
                skipped += 1
    except KeyboardInterrupt:  # Ctrl-C reaches both ends of a pipe; what was sent until then is a run all the same
        pass
    return sent, skipped


def send(record: Any, logger: Logger) -> None:
    """Log one record. Raises if it is not one: the logger itself would only warn."""
    kind, key, step = record["type"], record["key"], record["step"]
    if not isinstance(key, str) or not isinstance(step, int) or step < 0:
        raise ValueError(f"key = {key!r}, step = {step!r}")
    if kind == "scalar":
        logger.log_scalar(key, float(record["value"]), step)  # float() reads "NaN", "Infinity" and "-Infinity"
    elif kind == "scalars":
        logger.log_scalars(key, {name: float(value) for name, value in dict(record["values"]).items()}, step)
    elif kind == "text":
        logger.log_text(key, str(record["text"]), step)
    elif kind == "histogram":
        logger.log_histogram(key, [float(value) for value in record["values"]], step)
    else:
        raise ValueError(f"type = {kind!r}")


if __name__ == "__main__":
    main()
