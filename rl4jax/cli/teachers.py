"""Runs that others learn from: their agents, at play."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from rl4jax.algo.demonstrations import Demonstrations, from_rollouts
from rl4jax.collect.play import unroll
from rl4jax.collect.playing import AnyVecEnv, begin, check_faults
from rl4jax.core.errors import EnvError

from .environment import close, make_env
from .options import ImitationOptions
from .run import AbstractRun


class Lesson(NamedTuple):
    """A teacher, and what it did."""

    policy: Any
    demonstrations: Demonstrations


def load_teachers(paths: Sequence[str], env: AnyVecEnv) -> list[AbstractRun]:
    """The runs in these folders, all of the spaces of an environment."""
    from .build import load_run

    teachers = [load_run(path) for path in paths]
    for teacher in teachers:
        for what in ("single_observation_space", "single_action_space"):
            theirs, ours = getattr(teacher.env, what), getattr(env, what)
            if theirs != ours:
                kind = "observations" if "observation" in what else "actions"
                raise EnvError(
                    f"{teacher.path}: its {kind} are {theirs}, those of the student {ours}. All teachers must have the spaces of the first."
                )
    return teachers


def play(teacher: AbstractRun, options: ImitationOptions, *, key: PRNGKeyArray) -> Lesson:
    """Let a teacher play in its own environment, as the options say."""
    try:
        _, state = teacher.need(options.which)
    finally:
        close(teacher.env)
    env = make_env(teacher.options.env, options.num_envs)
    begin_key, play_key = jax.random.split(key)
    how = {"judged": False, "greedy": not options.sample}
    try:
        begun = begin(state.policy, env, key=begin_key)
        playing, rollout = unroll(state.policy, env, begun, -(-options.num_steps // options.num_envs), key=play_key, **how)
        check_faults(playing.faults, env)
    finally:
        close(env)
    return Lesson(state.policy, from_rollouts(rollout))
