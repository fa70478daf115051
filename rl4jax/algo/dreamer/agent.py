"""The agent: a world model, and a policy and a critic that live in it."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from rl4jax.core.errors import ConfigError, did_you_mean, require
from rl4jax.core.spaces import StaticSpace, struct_of
from rl4jax.core.vec_env import check_vec_env
from rl4jax.nn.distributions import AbstractDistribution
from rl4jax.nn.distributions.chance import Chance
from rl4jax.nn.distributions.two_hot import TwoHot
from rl4jax.nn.obs_encoder import ObsEncoder
from rl4jax.nn.readout import Readout
from rl4jax.nn.rssm import RSSM, Latent
from rl4jax.nn.trunk import HasSpaces

from .actions import as_vector, check_actions, distribution, num_outputs
from .prototypes import Prototypes
from .representation import BarlowTwins, Decoder, InfoNCE, Representation
from .sizes import Size, size_named

REPRESENTATIONS = {
    "decoder": Decoder,
    "blurred": functools.partial(Decoder, blur=3.0),
    "barlow": BarlowTwins,
    "infonce": InfoNCE,
    "prototypes": Prototypes,
    "none": Representation,
}

Memory = tuple[Latent, Float[Array, " A"]]  # the last latent, and the action that followed it


class Agent(eqx.Module):
    """All networks of DreamerV3 for the spaces of `env`; `size` is a name of `dreamer.SIZES` or a `Size`.

    It acts by itself: `act(obs, memory, mask, noise)`, since its latents are drawn and its memory has to know what it did. `representation`
    is what teaches the latents to hold what was seen: a name of `dreamer.REPRESENTATIONS` or a class such as `dreamer.Decoder`;
    `functools.partial(dreamer.BarlowTwins, weight=0.1)` is one with settings of its own.
    """

    encoder: ObsEncoder
    rssm: RSSM
    reward: Readout
    goes_on: Readout
    policy: Readout
    value: Readout
    representation: Representation
    action_space: StaticSpace = eqx.field(static=True)

    def __init__(
        self, env: HasSpaces, size: str | Size = "12m", representation: str | Callable[..., Any] = "decoder", *, key: PRNGKeyArray
    ):
        check_vec_env(env, "dreamer.Agent")
        space: gymnasium.Space = env.single_action_space
        check_actions(space)
        struct_of(env.single_observation_space)  # raises if we do not know the space
        s = size_named(size)
        keys = jax.random.split(key, 7)
        self.encoder = ObsEncoder(env.single_observation_space, s.units, s.depth, key=keys[0])
        self.rssm = RSSM(
            self.encoder.d_out, int(spaces.flatdim(space)), deter=s.deter, hidden=s.hidden, groups=s.groups, classes=s.classes,
            num_blocks=s.num_blocks, key=keys[1],
        )  # fmt: skip
        d_in = self.rssm.d_features
        self.reward = Readout(d_in, s.num_bins, s.units, 1, 0.0, key=keys[2])
        self.goes_on = Readout(d_in, 1, s.units, 1, key=keys[3])
        self.policy = Readout(d_in, num_outputs(space), s.units, 3, 0.01, key=keys[4])
        self.value = Readout(d_in, s.num_bins, s.units, 3, 0.0, key=keys[5])
        made = representation_named(representation)(self, env.single_observation_space, s, key=keys[6])
        of_ours = isinstance(made, Representation)
        require(of_ours, "dreamer.Agent: representation(agent, space, size, key=)", type(made).__name__, "a dreamer.Representation")
        self.representation = made
        self.action_space = StaticSpace(space)

    def initial_carry(self) -> Memory:
        """Nothing seen and nothing done."""
        return self.rssm.initial(), jnp.zeros(int(spaces.flatdim(self.action_space.space)))

    @property
    def chance(self) -> PyTree[Chance]:
        """What is random in one step: the latent, and the action."""
        features = jax.ShapeDtypeStruct((self.rssm.d_features,), jnp.float32)
        return self.rssm.chance, eqx.filter_eval_shape(self.pi, features).chance

    def act(self, obs: PyTree, carry: Memory, mask: Bool[Array, " A"] | None = None, noise: PyTree[Array] | None = None) -> tuple:
        """An action, its distribution, the value and the next memory. Without noise latent and action are the most likely ones."""
        latent_noise, action_noise = (None, None) if noise is None else noise
        latent, _ = self.rssm.observe_step(*carry, self.encoder(obs), jnp.zeros((), bool), latent_noise)
        pi = self.pi(latent.features).masked(mask)
        action = pi.mode() if action_noise is None else pi.sample_from(action_noise)
        return action, pi, self.value_of(latent.features).mean(), (latent, self.as_vector(action))

    def __call__(self, obs: PyTree, carry: Memory) -> tuple[AbstractDistribution, Float[Array, ""], Memory]:
        """As of other models, with the most likely latent, and as if the most likely action followed."""
        _, pi, value, memory = self.act(obs, carry)
        return pi, value, memory

    def pi(self, features: Float[Array, " F"]) -> AbstractDistribution:
        """What to do in a latent."""
        return distribution(self.action_space.space, self.policy(features))

    def as_vector(self, action: PyTree) -> Float[Array, " A"]:
        """An action as the world model takes it."""
        return as_vector(self.action_space.space, action)

    def reward_of(self, features: Float[Array, " F"]) -> TwoHot:
        """What reward came with a latent."""
        return TwoHot(self.reward(features))

    def value_of(self, features: Float[Array, " F"]) -> TwoHot:
        """What is yet to come."""
        return TwoHot(self.value(features))

    def goes_on_logit(self, features: Float[Array, " F"]) -> Float[Array, ""]:
        """Of going on, times the discount."""
        return self.goes_on(features)[0]


def representation_named(representation: str | Callable[..., Any]) -> Callable[..., Any]:
    """A representation by its name; what makes one as it is."""
    if callable(representation):
        return representation
    if not isinstance(representation, str) or representation not in REPRESENTATIONS:
        guess = did_you_mean(str(representation), REPRESENTATIONS)
        raise ConfigError(f"dreamer: representation = {representation!r} is not one we know. {guess} Or give a class.")
    return REPRESENTATIONS[representation]
