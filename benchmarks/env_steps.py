"""CartPole under a random policy: in-graph against Gymnasium's two ways of running many environments."""

from collections.abc import Callable

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from measure import Row, compare

import rl4jax as rl


def rows() -> list[Row]:
    return [
        compare(
            "CartPole, random policy, 1,024 envs",
            unit="env steps/s",
            ours=in_graph(1024, num_steps=1000),
            peer_name="Gymnasium's vectorised CartPole",
            peer=on_host(gymnasium.make_vec("CartPole-v1", 1024, vectorization_mode="vector_entry_point"), num_steps=500),
            at_least=2.0,
        ),
        compare(
            "CartPole, random policy, 16 envs",
            unit="env steps/s",
            ours=in_graph(16, num_steps=20_000),
            peer_name="Gymnasium's SyncVectorEnv",
            peer=on_host(gymnasium.make_vec("CartPole-v1", 16, vectorization_mode="sync"), num_steps=2000),
            at_least=80.0,
        ),
    ]


def in_graph(num_envs: int, num_steps: int) -> Callable[[], int]:
    """Through the public `reset` and `step`, as a user writes it: one compiled rollout after another, going on from the last."""
    env = rl.VecEnv(rl.envs.CartPole(), num_envs)

    @jax.jit
    def rollout(env: rl.VecEnv, state: rl.VecState, key: jax.Array) -> tuple[rl.VecState, list[jax.Array]]:
        action_key, step_key = jax.random.split(key)
        actions = jax.random.randint(action_key, (num_steps, num_envs), 0, 2)

        def one(carry, now):
            state, sums = carry
            state, step = env.step(state, *now)
            seen = (step.obs, step.reward, step.terminated, step.truncated)  # all of it is used: nothing is optimised away
            return (state, [total + x for total, x in zip(sums, seen, strict=True)]), None

        sums = [jnp.zeros((num_envs, 4)), jnp.zeros(num_envs), jnp.zeros(num_envs), jnp.zeros(num_envs)]
        return jax.lax.scan(one, (state, sums), (actions, jax.random.split(step_key, num_steps)))[0]

    key = jax.random.key(0)
    state, _ = env.reset(key)

    def work() -> int:
        nonlocal key, state
        key, rollout_key = jax.random.split(key)
        state, sums = rollout(env, state, rollout_key)
        jax.block_until_ready((state, sums))
        return num_envs * num_steps

    return work


def on_host(envs: gymnasium.vector.VectorEnv, num_steps: int) -> Callable[[], int]:
    rng = np.random.default_rng(0)
    envs.reset(seed=0)

    def work() -> int:
        for action in rng.integers(0, 2, (num_steps, envs.num_envs)):
            envs.step(action)
        return num_steps * envs.num_envs

    return work
