"""Settings that are known to learn, by environment as it is typed. Each is what a TOML file for `--config` would say.

They may change hyper-parameters, network and normalisation; never reward, dynamics, time limit, action repeat or evaluation.
"""

from typing import Any

PPO: dict[str, dict[str, Any]] = {
    "CartPole": {"total_steps": 200_000, "num_envs": 4, "lr": "linear(2.5e-4, 0)"},
}
