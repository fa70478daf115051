"""Environments by the names that are typed: `gym:ID`, one of ours such as `Catch,rows=16`, `module:Class` of somebody's own. No JAX."""

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


def to_play(typed: str | None) -> str | None:
    """The name to play a policy by, without JAX where Gymnasium has the same; None where `deploy.run` knows no such environment.

    >>> to_play("CartPole"), to_play("Catch,rows=16"), to_play("my_game:Maze")
    ('gym:CartPole-v1', 'Catch,rows=16', None)
    """
    if typed is None or not (typed.startswith(GYM) or typed.split(",")[0] in BUILT_IN):
        return None
    return {ours: theirs for theirs, ours in GYMNASIUM.items()}.get(typed, typed)
