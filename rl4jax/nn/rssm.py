"""The recurrent state-space model (Hafner et al. 2019; here that of DreamerV3, 2025): what happens next, in a small state of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from rl4jax.core.errors import choose_divisor, is_count, is_number, require

from .block_linear import BlockLinear, by_blocks
from .distributions.chance import Chance, draw as draw_noise
from .distributions.one_hots import OneHots
from .linear import Linear
from .mlp import MLP, NormLayer, norm_named
from .truncated_normal import dense, truncated_linear


class Latent(NamedTuple):
    """The state of the world as the model knows it: a part that follows from the past, and one that is drawn."""

    deter: Float[Array, "*N D"]
    stoch: Float[Array, "*N G K"]  # one-hot

    @property
    def features(self) -> Float[Array, "*N F"]:
        """Both side by side, for heads to read."""
        return jnp.concatenate([self.deter, self.stoch.reshape(*self.stoch.shape[:-2], -1)], -1)


class RSSM(eqx.Module):
    """From one latent and an action to the next, with (`observe`) or without (`imagine`) a look at what really came.

    `deter` units of memory in `num_blocks` blocks, `groups` choices among `classes` each, `hidden` units in between. All is for one
    sequence, as everywhere in `rl.nn`; `observe` takes a batch `[T, B, ...]`. Noise is given from outside, see `noise`, so that the numbers
    of all steps are drawn at once; without it the most likely latent is taken.
    """

    from_deter: MLP
    from_stoch: MLP
    from_action: MLP
    mix: BlockLinear
    mix_norm: NormLayer
    gates: BlockLinear
    before_posterior: MLP
    posterior_logits: Linear
    before_prior: MLP
    prior_logits: Linear
    groups: int = eqx.field(static=True)
    classes: int = eqx.field(static=True)
    unimix: float = eqx.field(static=True)

    def __init__(
        self,
        d_tokens: int,
        d_action: int,
        *,
        deter: int = 512,
        hidden: int = 64,
        groups: int = 32,
        classes: int = 4,
        num_blocks: int = 8,
        unimix: float = 0.01,
        key: PRNGKeyArray,
    ):
        sizes = {"d_tokens": d_tokens, "d_action": d_action, "deter": deter, "hidden": hidden, "groups": groups, "classes": classes}
        for name, size in sizes.items():
            require(is_count(size), f"RSSM: {name}", size, "a positive integer")
        fits = is_count(num_blocks) and deter % num_blocks == 0
        require(fits, "RSSM: num_blocks", num_blocks, f"a divisor of deter = {deter}", choose_divisor(deter))
        require(is_number(unimix) and 0 <= unimix < 1, "RSSM: unimix", unimix, "in [0, 1): a share of the probability")
        keys = iter(jax.random.split(key, 9))
        self.from_deter, self.from_stoch, self.from_action = (
            dense(size, hidden, key=next(keys)) for size in (deter, groups * classes, d_action)
        )
        self.mix = BlockLinear(deter + num_blocks * 3 * hidden, deter, num_blocks, key=next(keys))
        self.mix_norm = norm_named("rms", deter)
        self.gates = BlockLinear(deter, 3 * deter, num_blocks, key=next(keys))
        self.before_posterior = dense(deter + d_tokens, hidden, key=next(keys))
        self.posterior_logits = truncated_linear(hidden, groups * classes, key=next(keys))
        self.before_prior = dense(deter, hidden, hidden, key=next(keys))
        self.prior_logits = truncated_linear(hidden, groups * classes, key=next(keys))
        self.groups, self.classes, self.unimix = groups, classes, unimix

    @property
    def d_features(self) -> int:
        """How many numbers `Latent.features` are."""
        return len(self.from_deter.layers[0].weight) + self.groups * self.classes

    def initial(self) -> Latent:
        """Before the first step of an episode: zeros."""
        return Latent(jnp.zeros(len(self.from_deter.layers[0].weight)), jnp.zeros((self.groups, self.classes)))

    @property
    def chance(self) -> Chance:
        """What is random in one latent."""
        return Chance("gumbel", (self.groups, self.classes))

    def noise(self, key: PRNGKeyArray) -> Float[Array, "G K"]:
        """The chance in one latent, drawn."""
        return draw_noise(self.chance, key)

    def advance(self, latent: Latent, action: Float[Array, " A"]) -> Float[Array, " D"]:
        """The memory after an action: discrete ones one-hot. Numbers beyond 1 are scaled to it, each by itself."""
        return self._advance(latent, self.from_action(bounded(action)))

    def prior(self, deter: Float[Array, " D"]) -> OneHots:
        """What the model expects to be drawn."""
        return self._distribution(self.prior_logits(self.before_prior(deter)))

    def posterior(self, deter: Float[Array, " D"], tokens: Float[Array, " E"]) -> OneHots:
        """The same once it has seen what came: `tokens` are the features of an observation."""
        return self._distribution(self.posterior_logits(self.before_posterior(jnp.concatenate([deter, tokens]))))

    def imagine(self, latent: Latent, action: Float[Array, " A"], noise: Float[Array, "G K"] | None = None) -> Latent:
        """The next latent without a look at the world."""
        deter = self.advance(latent, action)
        return Latent(deter, draw(self.prior(deter), noise))

    def observe_step(
        self,
        latent: Latent,
        action: Float[Array, " A"],
        tokens: Float[Array, " E"],
        is_first: Bool[Array, ""],
        noise: Float[Array, "G K"] | None = None,
    ) -> tuple[Latent, OneHots]:
        """The latent after the action and a look at what it led to; and what it was drawn from. A first step forgets both."""
        latent, action = jax.tree.map(lambda x: jnp.where(is_first, 0.0, x), (latent, action))
        deter = self.advance(latent, action)
        posterior = self.posterior(deter, tokens)
        return Latent(deter, draw(posterior, noise)), posterior

    def observe(
        self,
        latent: Latent,
        actions: Float[Array, "T B A"],
        tokens: Float[Array, "T B E"],
        is_first: Bool[Array, "T B"],
        noise: Float[Array, "T B G K"] | None = None,
    ) -> tuple[Latent, Float[Array, "T B G K"]]:
        """The latents `[T, B]` along columns, each after the action that led to its tokens; and the logits of their posteriors.

        What does not wait for the memory is computed for all steps at once: actions, and the tokens' part of the posterior.
        """
        actions = jnp.where(is_first[..., None], 0.0, actions)
        moved = each(self.from_action)(bounded(actions))
        first = self.before_posterior.layers[0]
        seen = tokens @ first.weight[latent.deter.shape[-1] :] + first.bias
        by_deter = first.weight[: latent.deter.shape[-1]]

        def one(latent, now):
            moved, seen, is_first, noise = now
            latent = jax.tree.map(lambda x: jnp.where(is_first.reshape(-1, *[1] * (x.ndim - 1)), 0.0, x), latent)
            deter = jax.vmap(self._advance)(latent, moved)
            logits = jax.vmap(lambda x: self.posterior_logits(self._activate(x)))(deter @ by_deter + seen)
            logits = logits.reshape(-1, self.groups, self.classes)
            stoch = jax.vmap(lambda x, noise: draw(OneHots(x, self.unimix), noise))(logits, noise)
            return Latent(deter, stoch), (Latent(deter, stoch), logits)

        _, (latents, logits) = jax.lax.scan(one, latent, (moved, seen, is_first, noise))
        return latents, logits

    def _activate(self, x: Float[Array, " H"]) -> Float[Array, " H"]:
        """The rest of `before_posterior` behind its matrix."""
        return self.before_posterior.activation(self.before_posterior.norms[0](x))

    def _advance(self, latent: Latent, moved: Float[Array, " H"]) -> Float[Array, " D"]:
        deter, num_blocks = latent.deter, len(self.mix.weight)
        inputs = jnp.concatenate([self.from_deter(deter), self.from_stoch(latent.stoch.ravel()), moved])
        own, to_all = jnp.split(self.mix.weight, [deter.size // num_blocks], 1)
        to_all = jnp.swapaxes(to_all, 0, 1).reshape(inputs.size, -1)  # all blocks see all inputs: one product instead of many
        mixed = jnp.concatenate(by_blocks(deter, own)) + inputs @ to_all + self.mix.bias
        mixed = jax.nn.silu(self.mix_norm(mixed))
        gates = zip(*(jnp.split(gate, 3) for gate in jnp.split(self.gates(mixed), num_blocks)), strict=True)  # in each block
        reset, candidate, update = (jnp.concatenate(gate) for gate in gates)
        update = jax.nn.sigmoid(update - 1)  # at first it rather keeps what it knows
        return update * jnp.tanh(jax.nn.sigmoid(reset) * candidate) + (1 - update) * deter

    def _distribution(self, logits: Float[Array, " L"]) -> OneHots:
        return OneHots(logits.reshape(self.groups, self.classes), self.unimix)


def bounded(action: Float[Array, "*N A"]) -> Float[Array, "*N A"]:
    """Each number divided by its size, if that is beyond 1."""
    return action / jax.lax.stop_gradient(jnp.maximum(1.0, jnp.abs(action)))


def draw(distribution: OneHots, noise: Float[Array, "G K"] | None) -> Float[Array, "G K"]:
    """A sample, or without noise the most likely one."""
    return distribution.mode() if noise is None else distribution.sample_from(noise)


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """For all steps of all sequences, `[T, B, ...]`."""
    return as_one_batch(jax.vmap(function))


def as_one_batch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a batch `[N, ...]` for all steps of all sequences, `[T, B, ...]`.

    With two axes XLA on CPUs would turn every gradient around in memory before it sums the weights' part of it.
    """

    def of_all(*args):
        length, num = jax.tree.leaves(args)[0].shape[:2]
        out = function(*jax.tree.map(lambda x: x.reshape(length * num, *x.shape[2:]), args))
        return jax.tree.map(lambda x: x.reshape(length, num, *x.shape[1:]), out)

    return of_all
