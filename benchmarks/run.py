"""`make bench`: print every comparison with both sides and their ratio, write them down, and fail if a promise is not kept."""

import rl4jax as rl  # first: it makes CPU runs safe

rl.setup()

import dataclasses  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pathlib  # noqa: E402
import platform  # noqa: E402
import sys  # noqa: E402
from statistics import median  # noqa: E402

import act_speed  # noqa: E402
import dqn_speed  # noqa: E402
import dreamer_shares  # noqa: E402
import dreamer_speed  # noqa: E402
import env_steps  # noqa: E402
import jax  # noqa: E402
import nn_speed  # noqa: E402
import ppo_speed  # noqa: E402
import replay_speed  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402


def main() -> int:
    rows = [row for module in (env_steps, ppo_speed, dqn_speed, replay_speed, nn_speed, dreamer_speed, act_speed) for row in module.rows()]
    table = Table("comparison", "rl4jax", "peer", "ratio", "promised", title=f"{os.cpu_count()} cores, jax {jax.__version__}, medians")
    for row in rows:
        kept = "[green]" if row.ratio >= row.at_least else "[red]"
        ours, peer = f"{in_short(median(row.ours))} {row.unit}", f"{in_short(median(row.peer))} ({row.peer_name})"
        table.add_row(row.name, ours, peer, f"{kept}{row.ratio:.2f}x", f"{row.at_least:.1f}x" if row.at_least else "")
    Console(width=150).print(table)
    seconds = dreamer_shares.shares()
    parts = ", ".join(f"{part} {spent / sum(seconds.values()):.0%}" for part, spent in seconds.items())
    print(f"Dreamer tiny, CartPole, {dreamer_shares.NUM_STEPS:,} steps, in {sum(seconds.values()):.0f} s: {parts}")

    results = pathlib.Path("bench-results") / "bench.json"
    results.parent.mkdir(exist_ok=True)
    machine = {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version(), "jax": jax.__version__}
    written = [dataclasses.asdict(row) | {"ratio": row.ratio} for row in rows]
    results.write_text(json.dumps({"machine": machine, "rows": written, "dreamer_seconds": seconds}, indent=2))
    print(f"written to {results}")
    return sum(row.ratio < row.at_least for row in rows)


def in_short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


if __name__ == "__main__":
    sys.exit(main())
