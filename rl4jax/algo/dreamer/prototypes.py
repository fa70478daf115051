"""DreamerPro (Deng et al. 2022): latents and two shifted views of a picture agree on the cluster they belong to."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, PRNGKeyArray, PyTree

from rl4jax.core.errors import EnvError, is_count, is_count_or_zero, is_number, require
from rl4jax.core.spaces import parts_of
from rl4jax.gradients import safe
from rl4jax.nn.distributions.categorical import log_softmax
from rl4jax.nn.linear import Linear
from rl4jax.nn.obs_encoder import ObsEncoder, split_space
from rl4jax.nn.rssm import as_one_batch, each
from rl4jax.nn.target_network import polyak
from rl4jax.nn.truncated_normal import truncated_linear, truncated_weights

from .looking import Seen, look
from .representation import Agent, Representation
from .sizes import Size
from .stream import Moment

SHARPNESS, TARGET_SHARPNESS = 0.1, 0.05  # temperatures of what is said and of what is to be said
NUM_ROUNDS = 3  # of Sinkhorn and Knopp
LEAST_SHARE = 1e-30  # of a cluster or a step that is too far from all others


class Prototypes(Representation):
    """Clusters of pictures, to which a slow encoder assigns each step, evenly: the encoder has to say so of another view, the latent too.

    A view is the picture shifted by up to `shift` pixels each way, all pictures of a stretch alike. The clusters stay as they were drawn
    for the first `frozen_for` gradient steps. The world model looks twice more at everything: it costs more than the others.
    """

    prototypes: Float[Array, "K P"]  # of length 1
    of_tokens: Linear
    of_latent: Linear
    slow_encoder: ObsEncoder
    slow_of_tokens: Linear
    num_steps: Int32[Array, ""]
    shift: int = eqx.field(static=True)
    frozen_for: int = eqx.field(static=True)
    slow_rate: float = eqx.field(static=True)

    def __init__(
        self,
        agent: Agent,
        space: gymnasium.Space,
        size: Size,
        num_prototypes: int = 2500,
        d_prototype: int = 32,
        shift: int = 3,
        frozen_for: int = 10_000,
        slow_rate: float = 0.05,
        *,
        key: PRNGKeyArray,
    ):
        if not split_space(space)[0]:
            raise EnvError(f"Prototypes: observations are {space}; there must be a picture to shift. Use BarlowTwins or InfoNCE instead.")
        for name, count in (("num_prototypes", num_prototypes), ("d_prototype", d_prototype)):
            require(is_count(count), f"Prototypes: {name}", count, "a positive integer")
        for name, count in (("shift", shift), ("frozen_for", frozen_for)):
            require(is_count_or_zero(count), f"Prototypes: {name}", count, "zero or a positive integer")
        require(is_number(slow_rate) and 0 <= slow_rate <= 1, "Prototypes: slow_rate", slow_rate, "in [0, 1]")
        prototype_key, token_key, latent_key = jax.random.split(key, 3)
        self.prototypes = unit(truncated_weights(prototype_key, (num_prototypes, d_prototype), d_prototype))
        self.of_tokens = truncated_linear(agent.encoder.d_out, d_prototype, key=token_key)
        self.of_latent = truncated_linear(agent.rssm.d_features, d_prototype, key=latent_key)
        self.slow_encoder, self.slow_of_tokens = jax.tree.map(lambda x: x.copy() if eqx.is_array(x) else x, (agent.encoder, self.of_tokens))
        self.num_steps = jnp.zeros((), jnp.int32)
        self.shift, self.frozen_for, self.slow_rate = int(shift), int(frozen_for), float(slow_rate)

    def loss(self, agent: Agent, moments: Moment, seen: Seen, *, key: PRNGKeyArray) -> Float[Array, ""]:
        *shift_keys, look_key = jax.random.split(key, 3)
        views = [moments._replace(obs=shifted(agent.encoder, moments.obs, self.shift, key=k)) for k in shift_keys]
        twice, _ = look(agent, jax.tree.map(lambda *x: jnp.concatenate(x, 1), *views), key=look_key)
        frozen = jax.lax.stop_gradient(self)
        said = each(self.of_tokens)(twice.tokens[1:])  # a first step has little to go by
        said_by_latent = each(self.of_latent)(twice.latents.features[1:])
        slow = each(frozen.slow_of_tokens)(as_one_batch(frozen.slow_encoder.of_batch)(jax.tree.map(lambda x: x[1:], twice.moments.obs)))
        targets = jnp.concatenate([assigned(frozen.scores(view)) for view in jnp.split(slow, 2, 1)], 1)
        other_targets = jnp.roll(targets, targets.shape[1] // 2, 1)  # of the other view
        learning = jnp.where(self.num_steps < self.frozen_for, frozen.prototypes, self.prototypes)
        alike = eqx.tree_at(lambda x: x.prototypes, self, learning)
        lengths = sum(jnp.square(safe.norm(x, -1) - 1).mean() for x in (said, said_by_latent))
        return cross_entropy(other_targets, alike.scores(said)) + cross_entropy(targets, alike.scores(said_by_latent)) + lengths

    def scores(self, projected: Float[Array, "L N P"]) -> Float[Array, "L N K"]:
        """How near each is to each prototype: the cosine."""
        return unit(projected) @ self.prototypes.T

    def after_step(self, agent: Agent) -> "Prototypes":
        slow = polyak((self.slow_encoder, self.slow_of_tokens), (agent.encoder, self.of_tokens), self.slow_rate)
        return eqx.tree_at(
            lambda x: (x.prototypes, x.slow_encoder, x.slow_of_tokens, x.num_steps),
            self, (unit(self.prototypes), *slow, self.num_steps + 1),
        )  # fmt: skip


def unit(x: Float[Array, "*N P"]) -> Float[Array, "*N P"]:
    """Rows of length 1."""
    return x / jnp.maximum(safe.norm(x, -1)[..., None], 1e-12)


def cross_entropy(target: Float[Array, "L N K"], scores: Float[Array, "L N K"]) -> Float[Array, ""]:
    return -(target * log_softmax(scores / SHARPNESS)).sum(-1).mean()


def assigned(scores: Float[Array, "L N K"]) -> Float[Array, "L N K"]:
    """To which prototypes each step belongs, if all of them are to have equally many."""
    return sinkhorn(scores.reshape(-1, scores.shape[-1]).T / TARGET_SHARPNESS).T.reshape(scores.shape)


def sinkhorn(scores: Float[Array, "K M"], num_rounds: int = NUM_ROUNDS) -> Float[Array, "K M"]:
    """Shares near `exp(scores)` whose columns sum to 1 and whose rows nearly to M / K (Sinkhorn and Knopp 1967)."""
    rows, columns = scores.shape
    shares = jnp.exp(scores - scores.max())
    of_row, of_column = jnp.ones(rows), jnp.ones(columns)  # what each is multiplied by: two products a round, and one exponential for all
    for _ in range(num_rounds):
        of_row = 1 / jnp.maximum(rows * (shares @ of_column), LEAST_SHARE)
        of_column = 1 / jnp.maximum(columns * (of_row @ shares), LEAST_SHARE)
    return shares * of_row[:, None] * of_column * columns


def shifted(encoder: ObsEncoder, obs: PyTree, pixels: int, *, key: PRNGKeyArray) -> PyTree:
    """Observations `[T, N]` whose pictures are moved by up to so many pixels each way, and repeat their edges; in each column all alike."""
    images, _ = split_space(encoder.space.space)

    def move(name, image, key):
        channels_last = encoder.pixels[name].channels_last
        sides = (2, 3) if channels_last else (3, 4)
        wide = jnp.pad(image, [(pixels, pixels) if axis in sides else (0, 0) for axis in range(5)], "edge")
        offsets = jax.random.randint(key, (image.shape[1], 2), 0, 2 * pixels + 1)

        def column(x, offset):  # [T, A, B, C]
            start = [0, *offset, 0] if channels_last else [0, 0, *offset]
            return jax.lax.dynamic_slice(x, start, (image.shape[0], *image.shape[2:]))

        return jax.vmap(column, (1, 0), 1)(wide, offsets)

    parts, keys = parts_of(obs), jax.random.split(key, len(images))
    parts |= {name: move(name, parts[name], k) for name, k in zip(images, keys, strict=True)}
    if isinstance(obs, dict):
        return parts
    return tuple(parts.values()) if isinstance(obs, tuple) else parts[""]
