"""What the presets of the command line reach: greedy evaluation of the last weights over 100 episodes."""

import numpy as np

import rl4jax as rl
from rl4jax.cli.algorithms import ALGORITHMS
from rl4jax.cli.build import build_run
from rl4jax.cli.environment import make_eval_env
from rl4jax.cli.settings import checked, defaults


def evaluations(name, env, seeds, tmp_path, **changes):
    """The mean return of each seed, trained as `rl4jax train NAME ENV --seed SEED` does."""
    algorithm, means = ALGORITHMS[name], []
    for seed in range(seeds):
        settings = defaults(algorithm) | checked(algorithm, algorithm.presets[env] | {"env": env, "seed": seed} | changes, "test")
        run = build_run(algorithm, settings, tmp_path / str(seed))
        state, metrics = algorithm.module.train(run.fresh(), run.env, run.cfg, run.num_updates)
        assert not np.asarray(metrics["train/skipped"]).any()
        means.append(evaluate(state, env, run.key("eval", run.last_step)))
    return np.array(means)


def evaluate(state, env, key):
    return float(rl.evaluate(state.policy, make_eval_env(env, 100), 100, key=key).mean)


def budget(name, env):
    return ALGORITHMS[name].presets[env]["total_steps"]
