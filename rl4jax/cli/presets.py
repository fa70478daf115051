"""Settings that are known to learn, by environment as it is typed. Each is what a TOML file for `--config` would say.

They may change hyper-parameters, network and normalisation; never reward, dynamics, time limit, action repeat or evaluation.
"""

from typing import Any

_CONTINUOUS = {
    "num_envs": 4, "num_steps": 256, "lr": "linear(1e-3, 0)", "update_epochs": 10, "num_minibatches": 8, "ent_coef": 0.0,
    "normalize_obs": True, "normalize_reward": True,
}  # fmt: skip
# The goal is found by chance, and until then moving only costs: more environments, an entropy bonus and small steps keep it moving.
_FAR_GOAL = _CONTINUOUS | {"num_envs": 16, "num_steps": 128, "lr": "linear(3e-4, 0)", "ent_coef": 0.05}
_RECURRENT = {"core": "lstm", "num_envs": 16, "num_minibatches": 4, "lr": "linear(2.5e-3, 0)"}
# Values are far from 0 at first, even scaled: a clipped value loss would hold the critic back.
_LUNAR = {
    "num_envs": 16, "num_steps": 256, "lr": "linear(1e-3, 0)", "num_minibatches": 16, "gamma": 0.999, "gae_lambda": 0.98,
    "normalize_obs": True, "normalize_reward": True, "clip_vloss": False,
}  # fmt: skip

PPO: dict[str, dict[str, Any]] = {
    "Acrobot": {
        "total_steps": 500_000, "num_envs": 16, "num_steps": 64, "lr": "linear(2.5e-3, 0)", "gae_lambda": 0.94, "normalize_obs": True,
    },
    "CartPole": {"total_steps": 200_000, "num_envs": 4, "lr": "linear(2.5e-3, 0)"},
    "CartPoleNoVel": {"total_steps": 500_000} | _RECURRENT,
    "Catch,rows=16,columns=16": {"total_steps": 100_000, "num_envs": 16, "num_steps": 32, "lr": "linear(1e-3, 0)", "shared": True},
    "GridWorld": {"total_steps": 200_000, "num_envs": 8, "num_steps": 64, "lr": "linear(1e-3, 0)"},
    "Memory": {"total_steps": 1_000_000} | _RECURRENT,
    "MountainCarContinuous": {"total_steps": 200_000} | _FAR_GOAL,
    "MultiDiscreteNav": {"total_steps": 300_000, "num_envs": 8, "num_steps": 64, "lr": "linear(1e-3, 0)"},
    "Pendulum": {"total_steps": 200_000, "gamma": 0.97} | _CONTINUOUS,
    "gym:LunarLander-v3": {"total_steps": 1_000_000} | _LUNAR,
}  # fmt: skip

# One step and one gradient step per env step carry rewards too slowly: after 50,000 steps the values are still half of what they should be.
# A target network that follows faster makes them too high instead. Three steps and two gradient steps carry them six times as fast.
# CartPole's last weights balance on most seeds anyway. On one in ten to twenty they do not, unless layers are normalised, the target
# network follows more slowly and more is remembered.
# MountainCar's goal is never found by chance: what was not tried has to look good for long, so values fall slowly and are not doubled.
DQN: dict[str, dict[str, Any]] = {
    "Acrobot": {
        "total_steps": 100_000, "num_envs": 4, "lr": "linear(1e-3, 0)", "batch_size": 128, "capacity": 100_000, "tau": 0.01, "n_step": 3,
        "gradient_steps": 2, "double": True, "epsilon": "linear(1, 0.1, 50000)",
    },
    "CartPole": {
        "total_steps": 200_000, "num_envs": 1, "lr": "linear(1e-3, 0)", "batch_size": 64, "capacity": 100_000, "tau": 0.005, "n_step": 3,
        "gradient_steps": 2, "double": True, "epsilon": "linear(1, 0.05, 5000)", "norm": "layer",
    },
    "MountainCar": {
        "total_steps": 150_000, "num_envs": 1, "num_steps": 8, "gradient_steps": 4, "lr": "linear(4e-3, 0)", "batch_size": 64,
        "capacity": 150_000, "tau": 0.2, "target_every": 100, "n_step": 3, "epsilon": "linear(1, 0.05, 5000)", "hidden": [128, 128],
    },
}  # fmt: skip

# Rollouts of 40 steps and unclipped gradients are enough on-policy; with actors eight updates behind, 2 of 8 seeds fell back.
IMPALA: dict[str, dict[str, Any]] = {
    "CartPole": {"total_steps": 1_000_000, "num_envs": 8, "num_steps": 80, "lr": "linear(1e-3, 0)", "max_grad_norm": 1.0},
}

# Small worlds: networks and batches that a core can afford, and a learning rate that fits them. Little is new in a step of such a world, so
# the free nat of the paper would leave everything to chance; and a few numbers weigh so little beside it that a decoder needs a large
# coefficient: with 1, Memory stayed at 75 %. Half of the dreams are enough.
_SMALL_WORLD = {
    "size": "tiny", "num_envs": 4, "lr": "linear(3e-3, 3e-4)", "batch_size": 16, "length": 16, "capacity": 50_000,
    "learning_starts": 500, "imagine_from": 8, "free_nats": 0.1, "dyn_coef": 0.3, "rep_coef": 0.03, "representation_coef": 10.0,
}  # fmt: skip

# On Catch a ball in an outer column is caught by chance once in a hundred times, unless chance lasts: `hold`. With one half all columns
# are reached about as often. Chance plays first, until most of them have been caught in. What was caught a few times only has to be dreamed
# of, too: that takes weight on the representation and on what is expected. Time is better spent on the model than on dreams.
_CATCH = {
    "total_steps": 20_000, "learning_starts": 8_000, "train_ratio": 320.0, "lr": "linear(1.5e-3, 3e-5)", "b2": 0.99,
    "hold": 0.5, "entropy_coef": "linear(0.02, 0.003)", "representation": "barlow", "dyn_coef": 1.0, "rep_coef": 0.1, "imagine_from": 4,
}  # fmt: skip

DREAMER: dict[str, dict[str, Any]] = {
    "CartPole": _SMALL_WORLD | {"total_steps": 50_000, "train_ratio": 64.0},
    "Catch,rows=16,columns=16": _SMALL_WORLD | _CATCH,
    "Memory": _SMALL_WORLD | {"total_steps": 50_000, "train_ratio": 64.0},
    "Pendulum": _SMALL_WORLD | {"total_steps": 30_000, "train_ratio": 64.0, "lr": "linear(1e-3, 1e-4)"},
}
