"""How good a policy is: the returns of whole episodes."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.core.errors import EnvError, is_count, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.number import is_concrete
from rl4jax.core.spaces import clip_action
from rl4jax.core.vec_env import VecEnv, VecStep, check_vec_env
from rl4jax.nn.model import Model
from rl4jax.nn.model_check import check_model
from rl4jax.nn.packed import Packed, pack

from .play import choose, choose_on_host, next_is_first, noise_maker
from .playing import AnyVecEnv, Playing, begin


class Evaluation(NamedTuple):
    """Raw returns and lengths of the episodes that were played, the same number from each environment."""

    returns: Float[Array, " N"]
    lengths: Int32[Array, " N"]

    def __repr__(self) -> str:
        return f"Evaluation(mean={self.mean}, std={self.std}, num_episodes={self.returns.size})"

    @property
    def mean(self) -> Float[Array, ""]:
        """Mean return."""
        return self.returns.mean()

    @property
    def std(self) -> Float[Array, ""]:
        """Standard deviation of the returns."""
        return self.returns.std()


def evaluate(
    model: Model, env: AnyVecEnv, num_episodes: int = 100, *, key: PRNGKeyArray, greedy: bool = True, max_steps: int = 1_000_000
) -> Evaluation:
    """Play whole episodes from fresh starts, with the most likely actions or with sampled ones.

    Every environment plays `num_episodes / num_envs` of them (rounded up), because taking the first to finish would favour short ones.
    Give `state.policy`, which knows the statistics of a normalised run. A host environment is reset: use another one than for training.
    """
    check_vec_env(env, "evaluate")
    check_model(model, env.single_observation_space, env.single_action_space)
    require(is_count(num_episodes), "evaluate: num_episodes", num_episodes, "a positive integer")
    require(is_count(max_steps), "evaluate: max_steps", max_steps, "a positive integer")
    each = -(-num_episodes // env.num_envs)
    if isinstance(env, GymVecEnv):
        result = _evaluate_on_host(pack(model), env, each, greedy, max_steps, key)
    else:
        result = _evaluate_in_graph(pack(model), env, each, greedy, max_steps, key)
    if is_concrete(result.lengths) and not np.all(np.asarray(result.lengths)):
        unfinished = int((np.asarray(result.lengths) == 0).sum())
        raise EnvError(
            f"evaluate: {unfinished} of {each * env.num_envs} episodes did not end within max_steps = {max_steps} steps per environment. "
            f"Give the environment a time limit, such as rl.TimeLimit(env, 1000), or raise max_steps."
        )
    if is_concrete(result.returns) and not np.isfinite(np.asarray(result.returns)).all():
        bad = int((~np.isfinite(np.asarray(result.returns))).sum())
        raise EnvError(f"evaluate: {bad} of {len(result.returns)} returns are not finite. Find the reward with rl.check_env(env).")
    return result


class Tally(NamedTuple):
    """Episodes so far: where each environment stands, and what it has finished, one row per episode."""

    playing: Playing
    finished: Int32[Array, " B"]
    returns: Float[Array, "E B"]
    lengths: Int32[Array, "E B"]  # 0 = not finished

    @classmethod
    def begin(cls, playing: Playing, each: int) -> "Tally":
        num_envs = playing.is_first.shape[0]
        return cls(playing, jnp.zeros(num_envs, jnp.int32), jnp.zeros((each, num_envs)), jnp.zeros((each, num_envs), jnp.int32))

    def add(self, playing: Playing, step: VecStep) -> "Tally":
        """After one more step. Episodes beyond the quota are played and not counted."""
        ended = (step.terminated | step.truncated) & step.valid
        total = playing.episode_return + jnp.where(step.valid, step.reward, 0.0)
        length = playing.episode_length + jnp.asarray(step.valid, jnp.int32)
        here = ended & (jnp.arange(self.returns.shape[0])[:, None] == self.finished)
        playing = playing._replace(episode_return=jnp.where(ended, 0.0, total), episode_length=jnp.where(ended, 0, length))
        return Tally(playing, self.finished + ended, jnp.where(here, total, self.returns), jnp.where(here, length, self.lengths))

    def result(self) -> Evaluation:
        return Evaluation(self.returns.ravel(), self.lengths.ravel())


@functools.partial(jax.jit, static_argnames=("each", "greedy", "max_steps"))
def _evaluate_in_graph(packed: Packed, env: VecEnv, each: int, greedy: bool, max_steps: int, key: PRNGKeyArray) -> Evaluation:
    begin_key, play_key = jax.random.split(key)
    model = packed.model

    def one(now):
        t, tally = now
        playing = tally.playing
        act_key, step_key = jax.random.split(jax.random.fold_in(play_key, t))
        noise = None if greedy else jax.vmap(noise_maker(model, playing))(jax.random.split(act_key, env.num_envs))
        mask = env.action_mask(playing.env_state)
        action, _, _, carry = choose(model, playing.obs, playing.is_first, playing.carry, mask, noise)
        env_state, step = env.step(playing.env_state, clip_action(env.single_action_space, action), step_key)
        playing = playing._replace(env_state=env_state, obs=step.obs, is_first=next_is_first(step), carry=carry)
        return t + 1, tally.add(playing, step)

    def go_on(now):
        t, tally = now
        return (t < max_steps) & (tally.finished < each).any()

    tally = Tally.begin(begin(model, env, key=begin_key), each)
    return jax.lax.while_loop(go_on, one, (jnp.zeros((), jnp.int32), tally))[1].result()


def _evaluate_on_host(packed: Packed, env: GymVecEnv, each: int, greedy: bool, max_steps: int, key: PRNGKeyArray) -> Evaluation:
    begin_key, play_key = jax.random.split(key)
    tally = Tally.begin(begin(packed.model, env, key=begin_key), each)
    for t in range(max_steps):
        if not (np.asarray(tally.finished) < each).any():
            break
        playing = tally.playing
        noise = None if greedy else _noise(packed, playing._replace(env_state=None), jax.random.fold_in(play_key, t))
        mask = env.action_mask(playing.env_state)
        action, _, carry = choose_on_host(packed, playing.obs, playing.is_first, playing.carry, mask, noise)
        env_state, step = env.step(playing.env_state, clip_action(env.single_action_space, jax.tree.map(np.asarray, action)))
        tally = _add(
            tally._replace(playing=playing._replace(env_state=None, obs=None, carry=None)), step._replace(obs=None, final_obs=None)
        )
        tally = tally._replace(playing=tally.playing._replace(env_state=env_state, obs=step.obs, is_first=next_is_first(step), carry=carry))
    return tally.result()


@jax.jit
def _noise(packed: Packed, playing: Playing, key: PRNGKeyArray) -> PyTree:
    return jax.vmap(noise_maker(packed.model, playing))(jax.random.split(key, playing.is_first.shape[0]))


@jax.jit
def _add(tally: Tally, step: VecStep) -> Tally:
    return tally.add(tally.playing, step)
