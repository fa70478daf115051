"""Environments by the names that are typed: `gym:ID`, one of ours such as `Catch,rows=16`, `module:Class` of somebody's own. No JAX."""

import re

from rl4jax.envs.registry import BUILT_IN

GYM = "gym:"
# Gymnasium's environments that move exactly as ours: `tests/envs/test_parity.py` compares each.
GYMNASIUM = {
    "gym:CartPole-v0": "CartPole,max_steps=200",
    "gym:CartPole-v1": "CartPole",
    "gym:Pendulum-v1": "Pendulum",
    "gym:MountainCar-v0": "MountainCar",
    "gym:Acrobot-v1": "Acrobot",
}


def in_ours(typed: str) -> str:
    """The name of the same environment among ours, without spaces; else as it was typed.

    >>> in_ours("gym:CartPole-v1"), in_ours("gym:rl4jax/Catch-v0"), in_ours("Catch, rows = 16"), in_ours("gym:Ant-v5")
    ('CartPole', 'Catch', 'Catch,rows=16', 'gym:Ant-v5')
    """
    typed = typed.strip()
    registered = re.fullmatch(r"gym:rl4jax/(\w+)-v0", typed)
    if registered:
        return registered[1]
    built_in = typed.split(",")[0].strip() in BUILT_IN
    return re.sub(r"\s*([,=])\s*", r"\1", typed) if built_in else GYMNASIUM.get(typed, typed)


def to_play(typed: str | None) -> str | None:
    """The name to play a policy by, without JAX where Gymnasium has the same; None where `deploy.run` knows no such environment.

    >>> to_play("CartPole"), to_play("Catch,rows=16"), to_play("my_game:Maze")
    ('gym:CartPole-v1', 'Catch,rows=16', None)
    """
    if typed is None:
        return None
    ours = in_ours(typed)
    if ours.split(",")[0] in BUILT_IN:
        return {name: theirs for theirs, name in GYMNASIUM.items()}.get(ours, ours)
    return ours if ours.startswith(GYM) else None
