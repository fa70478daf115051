"""Let a model play T steps in B environments, in-graph or on the host."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Key, PRNGKeyArray, PyTree

from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.spaces import clip_action, mask_allows
from rl4jax.core.vec_env import VecEnv, VecStep
from rl4jax.nn.model import Model, apply, reset_carry
from rl4jax.nn.packed import Packed, pack

from .playing import AnyVecEnv, Faults, Playing
from .rollout import Rollout


class Moment(NamedTuple):
    """One step of B environments; stacked, T of them. Their values are computed afterwards, all at once."""

    obs: PyTree
    action: PyTree
    log_prob: Float[Any, "*T B"]
    mask: Bool[Any, "*T B A"] | None
    is_first: Any  # [T, B], filled in after the scan if in-graph
    carry: PyTree  # acted with
    next_carry: PyTree
    privileged: PyTree
    reward: Float[Any, "*T B"]
    terminated: Bool[Any, "*T B"]
    truncated: Bool[Any, "*T B"]
    final_obs: PyTree
    valid: Any  # likewise


def unroll(model: Model, env: AnyVecEnv, playing: Playing, num_steps: int, *, key: PRNGKeyArray) -> tuple[Playing, Rollout]:
    """Play `num_steps` steps with sampled actions, from where the last rollout ended. In-graph environments may be traced."""
    if isinstance(env, GymVecEnv):
        return play_on_host(pack(model), env, playing, num_steps, key=key)
    return play_in_graph(pack(model), env, playing, num_steps, key=key)


@functools.partial(jax.jit, static_argnames="num_steps")
def play_in_graph(packed: Packed, env: VecEnv, playing: Playing, num_steps: int, *, key: PRNGKeyArray) -> tuple[Playing, Rollout]:
    """One program: a scan over the steps."""
    act_key, step_key = jax.random.split(key)

    def one(now, keys):
        env_state, obs, is_first, carry = now
        mask, privileged = env.action_mask(env_state), env.privileged(env_state)
        action, log_prob, carry, next_carry = choose(packed.model, obs, is_first, carry, mask, keys[0])
        env_state, step = env.step(env_state, clip_action(env.single_action_space, action), keys[1])
        moment = Moment(obs, action, log_prob, mask, None, carry, next_carry, privileged, *what_happened(step)[:-1], valid=None)
        return (env_state, step.obs, next_is_first(step), next_carry), moment

    # All keys at once: drawing them step by step would cost more than a small network.
    keys = jax.random.split(act_key, (num_steps, env.num_envs)), jax.random.split(step_key, num_steps)
    end, moments = jax.lax.scan(one, playing[:4], keys)
    # Known without being written down at each step, which costs time.
    is_first = jnp.concatenate([playing.is_first[None], (moments.terminated | moments.truncated)[:-1]])
    moments = moments._replace(is_first=is_first, valid=jnp.ones_like(is_first))
    rollout, episode_return, episode_length = judge(packed, playing, moments)
    faults = jax.tree.map(jnp.add, playing.faults, find_faults(env, moments))
    return Playing(*end, episode_return, episode_length, faults), rollout


def play_on_host(packed: Packed, env: GymVecEnv, playing: Playing, num_steps: int, *, key: PRNGKeyArray) -> tuple[Playing, Rollout]:
    """The same from Python: one compiled call per step, and one per rollout."""
    env_state, obs, is_first, carry = playing[:4]
    impl = jax.random.key_impl(key)
    moments = []
    for key_data in np.asarray(_key_data(key, num_steps, env.num_envs)):
        mask = env.action_mask(env_state)
        action, log_prob, carry, next_carry = _choose_with_key_data(packed, obs, is_first, carry, mask, key_data, impl)
        action = jax.tree.map(np.asarray, action)
        env_state, step = env.step(env_state, clip_action(env.single_action_space, action))
        moments.append(Moment(obs, action, log_prob, mask, is_first, carry, next_carry, None, *what_happened(step)))
        obs, is_first, carry = step.obs, next_is_first(step), next_carry
    stacked = jax.tree.map(lambda *x: np.stack(x), *moments)
    rollout, episode_return, episode_length = _judge_on_host(packed, playing._replace(env_state=None), stacked)
    return Playing(env_state, obs, is_first, carry, episode_return, episode_length, playing.faults), rollout


def choose(
    model: Model, obs: PyTree, is_first: Bool[Any, " B"], carry: PyTree, mask: Bool[Any, "B A"] | None, keys: Key[Array, " B"] | None
) -> tuple[PyTree, Float[Array, " B"], PyTree, PyTree]:
    """An action for each environment, sampled, or without keys the most likely one; its log-probability; the carry before and after."""

    def one(obs, is_first, carry, mask, key):
        carry = reset_carry(model, carry, is_first)
        pi, _, next_carry = apply(model, obs, carry, mask)
        action = pi.mode() if key is None else pi.sample(key)
        return action, pi.log_prob(action), carry, next_carry

    return jax.vmap(one)(obs, is_first, carry, mask, keys)


def judge(packed: Packed, playing: Playing, moments: Moment) -> tuple[Rollout, Float[Array, " B"], Int32[Array, " B"]]:
    """T moments with their values, as a rollout; and of the episodes that go on, their returns and lengths so far."""

    def value_of(obs, carry):
        return apply(packed.model, obs, carry)[1]

    value = jax.vmap(jax.vmap(value_of))(moments.obs, moments.carry)
    last_value = jax.vmap(value_of)(*jax.tree.map(lambda x: x[-1], (moments.final_obs, moments.next_carry)))
    # What a step led to is what the next one sees, except where an episode was truncated. That is rare, and the values of all last
    # observations cost as much as those of all others: so they are computed only if there is one.
    next_value = jax.lax.cond(
        moments.truncated.any(),
        lambda: jax.vmap(jax.vmap(value_of))(moments.final_obs, moments.next_carry),
        lambda: jnp.concatenate([value[1:], last_value[None]]),
    )
    episode_return, episode_length, so_far = episodes(moments, playing.episode_return, playing.episode_length)
    rollout = Rollout(
        obs=moments.obs,
        action=moments.action,
        log_prob=moments.log_prob,
        value=value,
        next_value=jnp.where(moments.terminated, 0.0, next_value),
        reward=moments.reward,
        terminated=moments.terminated,
        truncated=moments.truncated,
        is_first=moments.is_first,
        mask=moments.mask,
        valid=moments.valid,
        carry=playing.carry,
        privileged=moments.privileged,
        episode_return=episode_return,
        episode_length=episode_length,
    )
    return rollout, *so_far


def episodes(
    moments: Moment, return_so_far: Float[Array, " B"], length_so_far: Int32[Array, " B"]
) -> tuple[Float[Array, "T B"], Int32[Array, "T B"], tuple[Float[Array, " B"], Int32[Array, " B"]]]:
    """Return and length of each episode where it ended (NaN and 0 elsewhere), and of those that go on."""

    def one(so_far, now):
        reward, ended, valid = now
        total, length = so_far[0] + jnp.where(valid, reward, 0.0), so_far[1] + valid
        shown = jnp.where(ended, total, jnp.nan), jnp.where(ended, length, 0)
        return (jnp.where(ended, 0.0, total), jnp.where(ended, 0, length)), shown

    ended = (moments.terminated | moments.truncated) & moments.valid
    so_far, shown = jax.lax.scan(one, (return_so_far, length_so_far), (moments.reward, ended, moments.valid), unroll=16)
    return *shown, so_far


def what_happened(step: VecStep) -> tuple:
    """The last fields of a moment."""
    return step.reward, step.terminated, step.truncated, step.final_obs, step.valid


def next_is_first(step: VecStep) -> Bool[Any, " B"]:
    """An episode begins after an end, or after the dead slot that some host environments spend on the reset."""
    return step.terminated | step.truncated | ~step.valid


def find_faults(env: VecEnv, moments: Moment) -> Faults:
    """Count what an environment must not do; one on the host is checked at each step instead."""
    floats = [x for x in jax.tree.leaves(moments.final_obs) if jnp.issubdtype(x.dtype, jnp.floating)]
    empty = jnp.zeros((), bool) if moments.mask is None else ~mask_allows(env.single_action_space, moments.mask)
    bad = ~jnp.isfinite(moments.reward), sum((~jnp.isfinite(x)).sum(dtype=jnp.int32) for x in floats), empty
    return Faults(*(jnp.sum(x, dtype=jnp.int32) for x in bad))


@functools.partial(jax.jit, static_argnames=("num_steps", "num_envs"))
def _key_data(key: PRNGKeyArray, num_steps: int, num_envs: int) -> Array:
    act_key, _ = jax.random.split(key)  # as in-graph, so that both kinds play alike
    return jax.random.key_data(jax.random.split(act_key, (num_steps, num_envs)))


@jax.jit
def choose_on_host(packed: Packed, obs: PyTree, is_first: Array, carry: PyTree, mask: Array | None, keys: Key[Array, " B"] | None) -> tuple:
    """`choose`, compiled."""
    return choose(packed.model, obs, is_first, carry, mask, keys)


@functools.partial(jax.jit, static_argnames="impl")
def _choose_with_key_data(packed: Packed, obs: PyTree, is_first: Array, carry: PyTree, mask: Array | None, data: Array, impl: Any) -> tuple:
    return choose(packed.model, obs, is_first, carry, mask, jax.random.wrap_key_data(data, impl=impl))


_judge_on_host = jax.jit(judge)
