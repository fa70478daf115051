"""Let a model play T steps in B environments, in-graph or on the host."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32, Key, PRNGKeyArray, PyTree

from rl4jax.core.errors import is_count, require
from rl4jax.core.gym_vec_env import GymVecEnv
from rl4jax.core.host_arrays import map_arrays, read_only
from rl4jax.core.number import Number
from rl4jax.core.spaces import clip_action, mask_allows
from rl4jax.core.vec_env import VecEnv, VecStep
from rl4jax.nn.distributions.chance import draw
from rl4jax.nn.model import Actor, Model, apply, chance_of, choose as choose_one, reset_carry
from rl4jax.nn.packed import Packed, pack
from rl4jax.nn.privileged import informed

from .playing import AnyVecEnv, Playing
from .rollout import Rollout
from .values_after import next_values

Standing = tuple[Any, PyTree, Bool[Any, " B"], PyTree]  # the first four fields of Playing
MOST_AHEAD = 2**22  # numbers that are drawn before a rollout: 16 MB


class Moment(NamedTuple):
    """One step of B environments; stacked, T of them. Their values are computed afterwards, all at once."""

    obs: PyTree
    action: PyTree
    log_prob: Float[Any, "*T B"] | None  # None on the host: there each array of a step costs more than all log-probabilities at once
    mask: Bool[Any, "*T B A"] | None
    carry: PyTree  # acted with
    next_carry: PyTree
    privileged: PyTree
    next_privileged: PyTree  # of what the step led to, as final_obs
    reward: Float[Any, "*T B"]
    terminated: Bool[Any, "*T B"]
    truncated: Bool[Any, "*T B"]
    final_obs: PyTree
    valid: Any  # [T, B], filled in after the scan if in-graph
    is_first: Any  # likewise


def unroll(
    model: Model, env: AnyVecEnv, playing: Playing, num_steps: int, *, key: PRNGKeyArray, judged: bool = True, greedy: bool = False
) -> tuple[Playing, Rollout]:
    """Play `num_steps` steps from where the last rollout ended, with sampled actions or with the most likely ones.

    Unless `judged`, the rollout has no values: for learners that ask a critic of their own. In-graph environments may be traced.
    """
    require(is_count(num_steps), "unroll: num_steps", num_steps, "a positive integer")
    play = play_on_host if isinstance(env, GymVecEnv) else play_in_graph
    return play(pack(model), env, playing, num_steps, key=key, judged=judged, greedy=greedy)  # pyright: ignore[reportArgumentType]


@functools.partial(jax.jit, static_argnames=("num_steps", "judged", "greedy"))
def play_in_graph(
    packed: Packed,
    env: VecEnv,
    playing: Playing,
    num_steps: int,
    *,
    key: PRNGKeyArray,
    judged: bool = True,
    greedy: bool = False,
    hold: Number | None = None,
) -> tuple[Playing, Rollout]:
    """One program: a scan over the steps. `hold`: see `keys_of_actions`."""
    act_key, step_key = jax.random.split(key)
    noise, now_noise = None, lambda _: None
    if not greedy:  # all at once: drawing numbers step by step would cost more than a small network
        noise, now_noise = draw_ahead(packed.model, playing, keys_of_actions(act_key, num_steps, env.num_envs, hold))

    def one(now, chance):
        env_state, obs, is_first, carry = now
        drawn, key = chance
        mask, privileged = env.action_mask(env_state), env.privileged(env_state)
        action, log_prob, carry, next_carry = choose(packed.model, obs, is_first, carry, mask, now_noise(drawn))
        env_state, step = env.step(env_state, clip_action(env.single_action_space, action), key)
        moment = Moment(
            obs, action, log_prob, mask, carry, next_carry, privileged, step.final_privileged,
            step.reward, step.terminated, step.truncated, step.final_obs, valid=None, is_first=None,
        )  # fmt: skip
        return (env_state, step.obs, next_is_first(step), next_carry), moment

    begin = (playing.env_state, playing.obs, playing.is_first, playing.carry)
    end, moments = jax.lax.scan(one, begin, (noise, jax.random.split(step_key, num_steps)))
    # Known without being written down at each step, which costs time.
    is_first = jnp.concatenate([playing.is_first[None], (moments.terminated | moments.truncated)[:-1]])
    moments = moments._replace(is_first=is_first, valid=jnp.ones_like(is_first))
    rollout, episode_return, episode_length = (judge if judged else remember)(packed, playing, moments)
    return Playing(*end, episode_return, episode_length, playing.faults + find_faults(env, moments)), rollout


def play_on_host(
    packed: Packed,
    env: GymVecEnv,
    playing: Playing,
    num_steps: int,
    *,
    key: PRNGKeyArray,
    judged: bool = True,
    greedy: bool = False,
    hold: Number | None = None,
) -> tuple[Playing, Rollout]:
    """The same from Python: one compiled call per step, and two per rollout."""
    begun = playing._replace(env_state=None)
    noise, structure = jax.tree.flatten(None if greedy else _noise_on_host(packed, begun, num_steps, key, hold))
    noise = [np.asarray(x) for x in noise]

    def choose_at(t, obs, is_first, carry, mask):
        return choose_on_host(packed, obs, is_first, carry, mask, structure.unflatten([x[t] for x in noise]))

    now, moments = play_by(choose_at, env, playing, num_steps)
    rollout, episode_return, episode_length = (_judge_on_host if judged else _remember_on_host)(packed, begun, moments)
    return Playing(*now, episode_return, episode_length, playing.faults), rollout


def play_by(choose_at: Callable[..., tuple], env: GymVecEnv, playing: Playing, num_steps: int) -> tuple[Standing, Moment]:
    """By what `choose_at(t, obs, is_first, carry, mask)` gives: actions, and the carry before and after.

    Also where that leads, and all that happened, in NumPy's arrays.
    """
    env_state, obs, is_first, carry = playing.env_state, playing.obs, playing.is_first, playing.carry
    moments = []
    for t in range(num_steps):
        mask = env.action_mask(env_state)
        resets = None if carry is None else is_first  # each array that goes in or out costs time
        action, carry, next_carry = choose_at(t, obs, resets, carry, mask)
        action = map_arrays(np.asarray, action)
        env_state, step = env.step(env_state, clip_action(env.single_action_space, action))
        moment = Moment(
            obs, action, None, mask, carry, next_carry, None, None,
            step.reward, step.terminated, step.truncated, step.final_obs, step.valid, is_first,
        )  # fmt: skip
        moments.append(moment)
        obs, is_first, carry = step.obs, next_is_first(step), next_carry
    return (env_state, obs, is_first, carry), _stack(with_equal_masks(moments))


def _stack(moments: list[Moment]) -> Moment:
    """Read-only, like the arrays of JAX: a single step is not copied, and the agent goes on from the same memory."""
    if len(moments) == 1:
        return Moment(*[None if part is None else map_arrays(_as_first, part) for part in moments[0]])
    return jax.tree.map(lambda *x: read_only(np.stack(x)), *moments)


def _as_first(x: Any) -> np.ndarray:
    return read_only(np.asarray(x)[None])


def with_equal_masks(moments: list[Moment]) -> list[Moment]:
    """A host environment may give its first mask in the middle of a rollout: before it, all was allowed."""
    first = next((moment.mask for moment in moments if moment.mask is not None), None)
    if first is None:
        return moments
    return [moment._replace(mask=np.ones_like(first)) if moment.mask is None else moment for moment in moments]


def choose(
    model: Model, obs: PyTree, is_first: Bool[Any, " B"] | None, carry: PyTree, mask: Bool[Any, "B A"] | None, noise: PyTree
) -> tuple[PyTree, Float[Array, " B"], PyTree, PyTree]:
    """An action for each environment, sampled, or without noise the most likely one; its log-probability; the carry before and after."""

    def one(obs, is_first, carry, mask, noise):
        carry = reset_carry(model, carry, is_first)
        action, log_prob, next_carry = choose_one(model, obs, carry, mask, noise)
        return action, log_prob, carry, next_carry

    return jax.vmap(one)(obs, is_first, carry, mask, noise)


def noise_maker(model: Model, playing: Playing) -> Callable[[PRNGKeyArray], PyTree]:
    """What draws the noise of one action of this model."""
    return functools.partial(draw, chance_of(model, *jax.tree.map(lambda x: x[0], (playing.obs, playing.carry))))


def draw_ahead(model: Model, playing: Playing, keys: Key[Array, "T B"]) -> tuple[PyTree, Callable[[PyTree], PyTree]]:
    """What a scan should be given for each step, and what makes noise of it: the noise itself, or its keys if it is large."""
    make = noise_maker(model, playing)
    size = keys.size * sum(x.size for x in jax.tree.leaves(jax.eval_shape(lambda: make(jax.random.key(0)))))
    if size > MOST_AHEAD:
        return keys, jax.vmap(make)
    return jax.vmap(jax.vmap(make))(keys), lambda noise: noise


def remember(packed: Packed, playing: Playing, moments: Moment) -> tuple[Rollout, Float[Array, " B"], Int32[Array, " B"]]:
    """T moments as a rollout without values; and of the episodes that go on, their returns and lengths so far."""

    def log_prob_of(obs, carry, mask, action):
        return apply(packed.model, obs, carry, mask)[0].log_prob(action)

    by_itself = isinstance(packed.model, Actor)
    if moments.log_prob is None and not by_itself:
        log_prob = jax.vmap(jax.vmap(log_prob_of))(moments.obs, moments.carry, moments.mask, moments.action)
        moments = moments._replace(log_prob=log_prob)
    ended, so_far = episodes(moments, playing.episode_return, playing.episode_length)
    rollout = as_rollout(moments, playing.carry, *ended)
    return rollout._replace(memory=moments.next_carry if by_itself else None), *so_far


def as_rollout(moments: Moment, carry: PyTree, episode_return: Float[Any, "T B"], episode_length: Int32[Any, "T B"]) -> Rollout:
    return Rollout(
        obs=moments.obs,
        next_obs=moments.final_obs,
        action=moments.action,
        log_prob=moments.log_prob,
        value=None,
        next_value=None,
        reward=moments.reward,
        terminated=moments.terminated,
        truncated=moments.truncated,
        is_first=moments.is_first,
        mask=moments.mask,
        valid=moments.valid,
        carry=carry,
        privileged=moments.privileged,
        next_privileged=moments.next_privileged,
        episode_return=episode_return,
        episode_length=episode_length,
    )


def judge(packed: Packed, playing: Playing, moments: Moment) -> tuple[Rollout, Float[Array, " B"], Int32[Array, " B"]]:
    """The same with values."""

    def value_of(obs, carry, privileged):
        return apply(informed(packed.model, privileged), obs, carry)[1]

    value = jax.vmap(jax.vmap(value_of))(moments.obs, moments.carry, moments.privileged)
    after = (moments.final_obs, moments.next_carry, moments.next_privileged)
    next_value = next_values(packed.model, value, *after, moments.terminated, moments.truncated)
    rollout, episode_return, episode_length = remember(packed, playing, moments)
    rollout = rollout._replace(value=value, next_value=next_value)
    return rollout, episode_return, episode_length


Ended = tuple[Float[Any, "T B"], Int32[Any, "T B"]]
SoFar = tuple[Float[Any, " B"], Int32[Any, " B"]]


def episodes(moments: Moment, total: Float[Array, " B"], length: Int32[Array, " B"]) -> tuple[Ended, SoFar]:
    """Return and length of each episode where it ended (NaN and 0 elsewhere), and of those that go on."""

    def one(so_far, now):
        reward, ended, valid = now
        total, length = so_far[0] + jnp.where(valid, reward, 0.0), so_far[1] + valid
        shown = jnp.where(ended, total, jnp.nan), jnp.where(ended, length, 0)
        return (jnp.where(ended, 0.0, total), jnp.where(ended, 0, length)), shown

    ended = (moments.terminated | moments.truncated) & moments.valid
    so_far, shown = jax.lax.scan(one, (total, length), (moments.reward, ended, moments.valid), unroll=8)
    return shown, so_far


def episodes_on_host(moments: Moment, total: Float[Any, " B"], length: Int32[Any, " B"]) -> tuple[Ended, SoFar]:
    """The same in NumPy, which for a few steps takes less time than to start a compiled program."""
    total, length = np.asarray(total), np.asarray(length)  # those of `begin` are JAX's
    ended = (moments.terminated | moments.truncated) & moments.valid
    some_ended, shown = np.count_nonzero(ended) > 0, none_ended(ended.shape)
    if some_ended:
        shown = shown[0].copy(), shown[1].copy()
    for t, (gained, valid) in enumerate(zip(moments.reward * moments.valid, moments.valid, strict=True)):
        total, length = total + gained, length + valid
        if some_ended and np.count_nonzero(ended[t]):
            shown[0][t], shown[1][t] = np.where(ended[t], total, np.float32(np.nan)), np.where(ended[t], length, 0)
            total, length = total * ~ended[t], length * ~ended[t]
    if some_ended:
        shown = read_only(shown[0]), read_only(shown[1])
    return shown, (total, length)


@functools.lru_cache(maxsize=16)
def none_ended(shape: tuple[int, ...]) -> Ended:
    """What `episodes` shows of steps in which no episode ended."""
    return read_only(np.full(shape, np.nan, np.float32)), read_only(np.zeros(shape, np.int32))  # handed out again and again


def next_is_first(step: VecStep) -> Bool[Any, " B"]:
    """An episode begins after an end, or after the dead slot that some host environments spend on the reset."""
    return step.terminated | step.truncated | ~step.valid


def find_faults(env: VecEnv, moments: Moment) -> Int32[Array, "3"]:
    """Count what an environment must not do; one on the host is checked at each step instead."""

    def not_finite(obs):  # per step and environment
        floats = [x for x in jax.tree.leaves(obs) if jnp.issubdtype(x.dtype, jnp.floating)]
        found = [(~jnp.isfinite(x)).reshape(*moments.is_first.shape, -1).any(-1) for x in floats]
        return functools.reduce(jnp.logical_or, found, jnp.zeros((), bool))

    obs = not_finite(moments.final_obs) | (not_finite(moments.obs) & moments.is_first)
    empty = jnp.zeros((), bool) if moments.mask is None else ~mask_allows(env.single_action_space, moments.mask)
    bad = ~jnp.isfinite(moments.reward), obs, empty
    return jnp.stack([jnp.sum(x, dtype=jnp.int32) for x in bad])


def keys_of_actions(key: PRNGKeyArray, num_steps: int, num_envs: int, hold: Number | None = None) -> Key[Array, "T B"]:
    """For the chance in each action. With `hold`, so likely it is that of the step before: what is tried by chance is tried for longer.

    (Eberhard et al. 2023: noise that lasts explores further than noise that cancels itself out.)
    """
    keys = jax.random.split(key, (num_steps, num_envs))
    if hold is None:
        return keys
    hold_key = jax.random.fold_in(key, keys.size)  # a smaller number would give one of `keys` again
    steps, held = jnp.arange(num_steps)[:, None], jax.random.bernoulli(hold_key, hold, keys.shape)
    drawn_at = jax.lax.cummax(jnp.where(held, 0, steps), axis=0)
    return keys[drawn_at, jnp.arange(num_envs)]


def draw_noise(
    make: Callable[[PRNGKeyArray], PyTree], num_steps: int, num_envs: int, key: PRNGKeyArray, hold: Number | None = None
) -> PyTree:
    """The noise of a whole rollout on the host, the same as in-graph, so that both kinds play alike."""
    act_key, _ = jax.random.split(key)
    return jax.vmap(jax.vmap(make))(keys_of_actions(act_key, num_steps, num_envs, hold))


@functools.partial(jax.jit, static_argnames="num_steps")
def _noise_on_host(packed: Packed, playing: Playing, num_steps: int, key: PRNGKeyArray, hold: Number | None) -> PyTree:
    return draw_noise(noise_maker(packed.model, playing), num_steps, playing.is_first.shape[0], key, hold)


@jax.jit
def choose_on_host(packed: Packed, obs: PyTree, is_first: Array | None, carry: PyTree, mask: Array | None, noise: PyTree) -> tuple:
    """`choose`, compiled, without the log-probability."""
    action, _, carry, next_carry = choose(packed.model, obs, is_first, carry, mask, noise)
    return action, carry, next_carry


_judge_on_host = jax.jit(judge)
_remember_on_host = jax.jit(remember)
