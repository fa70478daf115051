"""A bonus for what a network cannot foretell yet: random network distillation (Burda et al. 2019)."""

from collections.abc import Sequence

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import optax
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.collect.playing import AnyVecEnv
from rl4jax.collect.rollout import Rollout
from rl4jax.core.contract import check_key
from rl4jax.core.errors import ShapeError, is_count, require
from rl4jax.core.number import Number
from rl4jax.core.number_rules import POSITIVE, SHARE, check_counts, check_numbers
from rl4jax.core.running_stats import RunningStats
from rl4jax.core.spaces import StaticSpace, flatten, struct_of
from rl4jax.gradients.finite import all_finite, keep_if
from rl4jax.nn.linear import Linear
from rl4jax.nn.orthogonal import orthogonal_linear
from rl4jax.nn.trunk import Trunk, check_network

CLIP = 5.0  # of normalised observations


class Features(eqx.Module):
    """From an observation to some numbers."""

    trunk: Trunk
    head: Linear

    def __init__(self, space: gymnasium.Space, hidden: Sequence[int], num_features: int, *, key: PRNGKeyArray):
        trunk_key, head_key = jax.random.split(key)
        self.trunk = Trunk(space, hidden, "relu", None, key=trunk_key)
        self.head = orthogonal_linear(hidden[-1], num_features, key=head_key)

    def __call__(self, obs: PyTree) -> Float[Array, " F"]:
        return self.head(self.trunk(obs, None)[0])


class RND(eqx.Module):
    """The error with which a predictor foretells the features that a fixed random network makes of what a step led to.

    The predictor learns from every rollout, by an Adam of its own, so that what was seen often is foretold well and pays little, and what
    is new pays. Observations are normalised by their running statistics and clipped to [-5, 5] first, symbols as one-hot vectors and
    pixels too: what never varied and now does stands out. Errors are divided by the running standard deviation of their discounted sums,
    which run over the ends of episodes. Images go through a CNN.
    """

    target: Features  # stays as it is
    predictor: Features
    opt_state: PyTree
    obs_stats: RunningStats
    return_stats: RunningStats
    discounted_return: Float[Array, " B"]
    lr: Float[Array, ""]
    gamma: Float[Array, ""]
    num_passes: int = eqx.field(static=True)
    space: StaticSpace = eqx.field(static=True)

    def __init__(
        self,
        env: AnyVecEnv,
        *,
        key: PRNGKeyArray,
        hidden: Sequence[int] = (128,),
        num_features: int = 64,
        lr: Number = 1e-3,
        gamma: Number = 0.99,
        num_passes: int = 4,
    ):
        check_network("RND", env, hidden)
        check_key(key, "RND")
        require(is_count(num_features), "RND.num_features", num_features, "a positive integer")
        target_key, predictor_key = jax.random.split(key)
        self.space = StaticSpace(env.single_observation_space)
        space = _space_of_floats(self.space.space)
        self.target = Features(space, hidden, num_features, key=target_key)
        # One layer more than the target has: it should be able to learn what that says.
        self.predictor = Features(space, (*hidden, hidden[-1]), num_features, key=predictor_key)
        self.opt_state = optax.adam(lr).init(self.predictor)  # pyright: ignore[reportArgumentType]
        self.obs_stats = RunningStats.like(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), struct_of(space)))
        self.return_stats = RunningStats.like(jnp.zeros(()))
        self.discounted_return = jnp.zeros(env.num_envs)
        self.lr, self.gamma, self.num_passes = jnp.asarray(lr, jnp.float32), jnp.asarray(gamma, jnp.float32), num_passes

    def __check_init__(self):
        check_counts(self, "RND", "num_passes")
        check_numbers(self, "RND", {"lr": POSITIVE, "gamma": SHARE})

    def reward(self, rollout: Rollout) -> tuple[Float[Array, "T B"], "RND"]:
        """The bonus of each step, by the predictor as it was before the rollout, and all that was learned from the rollout."""
        if rollout.valid.shape[1:] != self.discounted_return.shape:
            num_envs = self.discounted_return.shape[0]
            raise ShapeError(
                f"RND.reward: the rollout has shape {rollout.valid.shape}; it must be [T, B] with the B = {num_envs} of its env."
            )
        return _pay_and_learn(self, rollout.next_obs, rollout.valid)


@jax.jit
def _pay_and_learn(explorer: RND, obs: PyTree, valid: Bool[Array, "T B"]) -> tuple[Float[Array, "T B"], RND]:
    obs = jax.vmap(jax.vmap(lambda x: _as_floats(explorer.space.space, x)))(obs)
    obs_stats = explorer.obs_stats.update(obs, valid)  # before it is used: the first rollout has no other
    obs = obs_stats.normalize(obs, CLIP)
    target = jax.vmap(jax.vmap(explorer.target))(obs)

    def errors(predictor):
        error = jnp.mean((jax.vmap(jax.vmap(predictor))(obs) - target) ** 2, -1)
        return jnp.where(valid, error, 0.0)

    def one_pass(learner, _):
        predictor, opt_state = learner
        grads = jax.grad(lambda p: errors(p).sum() / jnp.maximum(valid.sum(), 1))(predictor)
        changes, opt_state = optax.adam(explorer.lr).update(grads, opt_state)
        return (optax.apply_updates(predictor, changes), opt_state), None

    def forward(so_far, error):
        total = explorer.gamma * so_far + error
        return total, total

    error = errors(explorer.predictor)
    discounted_return, returns = jax.lax.scan(forward, explorer.discounted_return, error, unroll=8)
    return_stats = explorer.return_stats.update(returns, valid)
    learner, _ = jax.lax.scan(one_pass, (explorer.predictor, explorer.opt_state), length=explorer.num_passes)
    learned = eqx.tree_at(
        lambda e: (e.predictor, e.opt_state, e.obs_stats, e.return_stats, e.discounted_return),
        explorer, (*learner, obs_stats, return_stats, discounted_return),
    )  # fmt: skip
    learned = keep_if(all_finite(learned), learned, explorer)  # else all that follows would be NaN
    return error / jnp.sqrt(return_stats.var + 1e-8), learned


def _as_floats(space: gymnasium.Space, x: PyTree) -> PyTree:
    """An observation with its symbols one-hot and its pixels as floats, so that everything has statistics."""
    if isinstance(space, spaces.Dict):
        return {name: _as_floats(part, x[name]) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_as_floats(part, part_x) for part, part_x in zip(space, x, strict=True))
    if not isinstance(space, spaces.Box):
        return flatten(space, x)
    return x / 255.0 if x.dtype == jnp.uint8 else x.astype(jnp.float32)  # means of small numbers have smaller errors


def _space_of_floats(space: gymnasium.Space) -> gymnasium.Space:
    """The space of these."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _space_of_floats(part) for name, part in space.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_space_of_floats(part) for part in space])
    shape = space.shape if isinstance(space, spaces.Box) else (int(spaces.flatdim(space)),)
    return spaces.Box(-CLIP, CLIP, shape)
