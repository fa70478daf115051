"""Many copies of one in-graph environment, stepped together and reset as their episodes end."""

import operator
from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree, UInt8

from .contract import check_action, check_contract, check_key
from .env import AbstractEnv, EnvState
from .errors import EnvError, is_count, require
from .spaces import StaticSpace


class VecStep(NamedTuple):
    """What one step of B environments returns, in-graph or from the host; each array starts with axis B.

    `obs` is what to act on next, and `final_obs` what this step led to. Where an episode ended, `obs` is already the first
    observation of the next one and `final_obs` the true last one: a truncated episode is bootstrapped from it. Elsewhere the
    two are equal.

    `valid` is false on a slot in which nothing happened: a Gymnasium environment in NEXT_STEP mode shows the last observation
    once more and spends the step after an end on the reset. Such a slot belongs in no loss, no buffer and no mean. In-graph
    environments have none.

    `final_privileged` is what a critic may see beside `final_obs`; None if there is nothing.
    """

    obs: PyTree
    reward: Float[Array | np.ndarray, " B"]
    terminated: Bool[Array | np.ndarray, " B"]
    truncated: Bool[Array | np.ndarray, " B"]
    final_obs: PyTree
    valid: Bool[Array | np.ndarray, " B"]
    final_privileged: PyTree = None


class VecState(eqx.Module):
    """The B states, and for each environment the start of its next episode, drawn ahead."""

    env: EnvState
    start: tuple[EnvState, PyTree]  # state and first observation
    used: Bool[Array, " B"]  # this start has been played: draw another before the next end


class VecEnv(eqx.Module):
    """`num_envs` copies of an environment under `vmap`, reset in the same step in which their episode ends.

    One key serves all copies; actions, observations and rewards start with the axis of the environments.

    >>> import rl4jax as rl
    >>> env = rl.VecEnv(rl.make("CartPole"), num_envs=4)
    >>> state, obs = env.reset(jax.random.key(0))
    >>> state, step = env.step(state, jnp.array([0, 1, 0, 1]), jax.random.key(1))
    >>> obs.shape, step.reward
    ((4, 4), Array([1., 1., 1., 1.], dtype=float32))

    Random numbers cost more than most physics, so starts are not drawn every step: each environment keeps one ready, and
    all used ones are drawn again when some environment ends a second time. No two episodes share a draw.
    """

    env: AbstractEnv
    num_envs: int = eqx.field(static=True)
    # Kept outside the traced fields of `env`, so that they can be read inside jit too.
    _observation_space: StaticSpace = eqx.field(static=True, repr=False)
    _action_space: StaticSpace = eqx.field(static=True, repr=False)

    def __init__(self, env: AbstractEnv, num_envs: int):
        observation_space, action_space = check_contract(env)
        require(is_count(num_envs), "VecEnv.num_envs", num_envs, "a positive integer", "Use VecEnv(env, num_envs=4).")
        self.env = env
        self.num_envs = operator.index(num_envs)
        self._observation_space = StaticSpace(observation_space)
        self._action_space = StaticSpace(action_space)

    @property
    def single_observation_space(self) -> gymnasium.Space:
        """Of one of the environments."""
        return self._observation_space.space

    @property
    def single_action_space(self) -> gymnasium.Space:
        """Of one of the environments."""
        return self._action_space.space

    @jax.jit
    def reset(self, key: PRNGKeyArray) -> tuple[VecState, PyTree]:
        """Start all episodes: their states and first observations."""
        check_key(key, "VecEnv.reset")
        now, later = jax.random.split(key)
        env_state, obs = self._starts(now)
        return VecState(env_state, self._starts(later), jnp.zeros(self.num_envs, bool)), obs

    @jax.jit
    def step(self, state: VecState, action: PyTree, key: PRNGKeyArray) -> tuple[VecState, VecStep]:
        """Move all environments on by one action each, and start the next episode of those that ended."""
        check_key(key, "VecEnv.step")
        check_action(action, self.single_action_space, self.num_envs)
        # `split` gives the subkeys 0 to B-1 to the environments; folding in B makes one more for the starts, where needed only.
        # The bare data goes there, because JAX's check for reused keys does not follow a key into a vmapped `cond`.
        key_data, impl = jax.random.key_data(key), jax.random.key_impl(key)
        env_state, step = jax.vmap(self.env.step)(state.env, action, jax.random.split(key, self.num_envs))
        ended = step.terminated | step.truncated
        final_privileged = jax.vmap(self.env.privileged, axis_size=self.num_envs)(env_state)

        def draw_used_starts():
            start_key = jax.random.fold_in(jax.random.wrap_key_data(key_data, impl=impl), self.num_envs)
            drawn = self._starts(start_key)
            return _where(state.used, drawn, state.start), jnp.zeros_like(state.used)

        start, used = jax.lax.cond(jnp.any(ended & state.used), draw_used_starts, lambda: (state.start, state.used))
        start_state, start_obs = start
        next_start = (jax.vmap(self.env.carry_over, axis_size=self.num_envs)(env_state, start_state), start_obs)
        env_state, obs = _where(ended, next_start, (env_state, step.obs))
        valid = jnp.ones_like(ended)
        vec_step = VecStep(obs, step.reward, step.terminated, step.truncated, step.obs, valid, final_privileged)
        return VecState(env_state, start, used | ended), vec_step

    def action_mask(self, state: VecState) -> Bool[Array, "B A"] | None:
        """Which actions are allowed now, per environment; None if all always are."""
        return jax.vmap(self.env.action_mask, axis_size=self.num_envs)(state.env)

    def privileged(self, state: VecState) -> PyTree:
        """What only the critic may see, per environment; None if there is nothing."""
        return jax.vmap(self.env.privileged, axis_size=self.num_envs)(state.env)

    def render(self, state: VecState, index: int = 0) -> UInt8[np.ndarray, "H W 3"]:
        """A picture of one of the environments."""
        require(index in range(self.num_envs), "VecEnv.render: index", index, f"one of the {self.num_envs} environments")
        return self.env.render(jax.tree.map(lambda x: x[index], state.env))

    def _starts(self, key: PRNGKeyArray) -> tuple[EnvState, PyTree]:
        return jax.vmap(self.env.reset)(jax.random.split(key, self.num_envs))


def check_vec_env(env: Any, name: str) -> None:
    """Raise unless env is a vector environment of ours, or at least has its spaces: one environment alone is a common mistake."""
    is_gymnasiums = isinstance(env, gymnasium.vector.VectorEnv)
    if is_gymnasiums or not hasattr(env, "single_observation_space"):
        fix = "rl.GymVecEnv(env)" if is_gymnasiums else "rl.VecEnv(env, num_envs=4)"
        if isinstance(env, gymnasium.Env):
            fix = "rl.GymVecEnv(lambda: env, num_envs=1)"
        elif isinstance(env, str):
            fix = f"rl.VecEnv(rl.make({env!r}), num_envs=4) or rl.GymVecEnv({env!r}, num_envs=4)"
        raise EnvError(f"{name}: env is a {type(env).__name__}; it must be a vector environment. Use {fix}.")


def _where(mask: Bool[Array, " B"], yes: PyTree, no: PyTree) -> PyTree:
    """Choose per environment, leaf by leaf, whatever axes follow B."""
    return jax.tree.map(lambda y, n: jnp.where(mask.reshape(mask.shape + (1,) * (y.ndim - 1)), y, n), yes, no)
