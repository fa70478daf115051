"""What the presets of the command line reach: greedy evaluation of the last weights over 100 episodes."""

import numpy as np

import rl4jax as rl
from rl4jax.cli.algorithms import ALGORITHMS
from rl4jax.cli.build import build_run
from rl4jax.cli.environment import make_eval_env
from rl4jax.cli.settings import checked, defaults


def evaluations(name, env, seeds, tmp_path, **changes):
    """The mean return of each seed, trained as `rl4jax train NAME ENV --seed SEED` does."""
    runs = [prepared(name, env, seed, tmp_path, **changes) for seed in range(seeds)]
    return np.array([means[-1] for means in (curve(run, run.last_step)[1] for run in runs)])


def prepared(name, env, seed, tmp_path, **changes):
    """The run that `rl4jax train NAME ENV --seed SEED` would make."""
    algorithm = ALGORITHMS[name]
    settings = defaults(algorithm) | checked(algorithm, dict(algorithm.presets.get(env, {})) | {"env": env, "seed": seed} | changes, "test")
    return build_run(algorithm, settings, tmp_path / str(seed))


def curve(run, every, *, state=None, until=np.inf):
    """Environment steps, and the mean return of the weights of then, about every so many steps: to the end, or until it is reached."""
    state, done, steps, means = state or run.fresh(), 0, [], []
    while done < run.num_updates and not (means and means[-1] >= until):
        num = min(max(every // run.steps_per_update, 1), run.num_updates - done)
        state, metrics = run.algorithm.module.train(state, run.env, run.cfg, num)
        assert not np.asarray(metrics["train/skipped"]).any()
        done += num
        steps.append(done * run.steps_per_update)
        means.append(evaluate(state, run.options.env, run.key("eval", steps[-1])))
    return np.array(steps), np.array(means)


def evaluate(state, env, key):
    return float(rl.evaluate(state.policy, make_eval_env(env, 100), 100, key=key).mean)


def budget(name, env):
    return ALGORITHMS[name].presets[env]["total_steps"]
