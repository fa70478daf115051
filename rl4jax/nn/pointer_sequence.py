"""Several entities chosen one after another by a pointer, as AlphaStar (Vinyals et al. 2019) and SCC select units."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from rl4jax.core.errors import is_count, require

from .distributions import Categorical, Composite
from .distributions.head import Earlier
from .entity_mask import EntityMask, as_entity_mask, check_entities, leave_out
from .orthogonal import orthogonal_linear
from .pointer_net import PointerNet


class PointerSequence(eqx.Module):
    """Up to `num_picks` of N entities, no one twice: a `Composite` of choices among N + 1, of which the last, N, means "no more".

    Each choice points with `query + Wc mean(keys chosen so far)`. After "no more" every further choice is "no more" too, and it is
    what is left when the entities run out, so the probabilities of all sequences always sum to one. `log_prob`, `entropy` and `mode` are
    the Composite's: exact, by the chain rule, and in PPO unchanged.

    >>> sequence = PointerSequence(6, 4, 5, key=jax.random.key(0))
    >>> pi = sequence(jnp.ones(6), jnp.ones((3, 4)), num_picks=2, mask=jnp.array([True, False, False]), at_least=1)
    >>> [int(i) for i in pi.mode()]
    [0, 3]
    """

    pointer: PointerNet
    chosen_weight: Float[Array, "K Q"]
    no_more: Float[Array, " K"]  # the key of the choice to stop

    def __init__(self, query_dim: int, key_dim: int, d_hidden: int, *, key: PRNGKeyArray):
        pointer_key, chosen_key = jax.random.split(key)
        self.pointer = PointerNet(query_dim, key_dim, d_hidden, key=pointer_key)
        self.chosen_weight = orthogonal_linear(key_dim, query_dim, 1.0, key=chosen_key).weight
        self.no_more = jnp.zeros(key_dim)

    def __call__(
        self, query: Float[Array, " Q"], keys: Float[Array, "N K"], num_picks: int, mask: EntityMask = None, at_least: int = 0
    ) -> Composite:
        """The distribution of `num_picks` choices. The first `at_least` are entities, as long as there are any."""
        require(is_count(num_picks), "PointerSequence: num_picks", num_picks, "a positive integer")
        require(0 <= at_least <= num_picks, "PointerSequence: at_least", at_least, f"between 0 and num_picks = {num_picks}")
        return Composite(tuple(Pick(self, query, keys, mask, may_stop=i >= at_least) for i in range(num_picks)))

    def pick(
        self,
        query: Float[Array, " Q"],
        keys: Float[Array, "N K"],
        earlier: Int[Array, " C"],
        mask: EntityMask = None,
        *,
        may_stop: bool = True,
    ) -> tuple[Float[Array, " N+1"], Bool[Array, " N+1"]]:
        """The next choice, given the earlier ones: logits, and what is left to choose from."""
        check_entities("PointerSequence: keys", keys, self.pointer.key_dim)
        num_entities = len(keys)
        if mask is not None:
            mask = as_entity_mask("PointerSequence: mask", mask, (num_entities,))
            keys = leave_out(keys, mask)
        chosen = (jnp.arange(num_entities + 1) == earlier[:, None]).any(0)
        chosen, stopped = chosen[:-1], chosen[-1]
        left = ~chosen & ~stopped & (True if mask is None else mask)
        left = jnp.append(left, ~left.any() | may_stop)
        mean = chosen @ keys / jnp.maximum(chosen.sum(), 1)
        return self.pointer.logits(query + mean @ self.chosen_weight, jnp.vstack([keys, self.no_more]), left), left


class Pick(eqx.Module):
    """One choice of a `PointerSequence`, as a head of a `Composite`."""

    sequence: PointerSequence
    query: Float[Array, " Q"]
    keys: Float[Array, "N K"]
    mask: EntityMask
    may_stop: bool = eqx.field(static=True)

    def __call__(self, earlier: Earlier) -> Categorical:
        picks = jnp.array([earlier[i] for i in sorted(earlier)], jnp.int32)
        logits, _ = self.sequence.pick(self.query, self.keys, picks, self.mask, may_stop=self.may_stop)
        return Categorical(logits)
