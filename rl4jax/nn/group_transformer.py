"""Group transformer, after SCC (Wang et al. 2021): attention within groups of entities, then from group to group."""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from rl4jax.core.errors import ConfigError, ShapeError, did_you_mean, is_count, require

from .attention import MultiHeadAttention
from .entity_mask import EntityMask, as_entity_mask, check_entities, leave_out
from .transformer import FeedForward, TransformerBlock


class GroupTransformer(eqx.Module):
    """Layers in which each group of entities attends to itself, and then to the groups it looks at.

    `looks_at` names the groups, and for each those it reads from: with `{"ally": ("enemy",), "enemy": ()}` allies see enemies but not the
    reverse. Every group has weights of its own. A mask per group, bool `[N]`, says which slots are there; the others may hold anything,
    even NaN, and give zeros. A group may be empty: whoever looks at it reads zeros.

    >>> model = GroupTransformer({"ally": ("enemy",), "enemy": ()}, 8, num_heads=2, num_layers=1, key=jax.random.key(0))
    >>> seen = model({"ally": jnp.ones((3, 8)), "enemy": jnp.ones((5, 8))}, {"enemy": jnp.arange(5) < 2})
    >>> {name: x.shape for name, x in seen.items()}
    {'ally': (3, 8), 'enemy': (5, 8)}
    """

    layers: tuple["GroupLayer", ...]
    d_model: int = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        looks_at: Mapping[str, Sequence[str]],
        d_model: int,
        num_heads: int,
        num_layers: int,
        d_ff: int | None = None,
        *,
        key: PRNGKeyArray,
    ):
        require(len(looks_at) > 0, "GroupTransformer: looks_at", looks_at, "one group at least, each with the groups it looks at")
        require(is_count(num_layers), "GroupTransformer: num_layers", num_layers, "a positive integer")
        for name, others in looks_at.items():
            unknown = [others] if isinstance(others, str) else [other for other in others if other == name or other not in looks_at]
            if unknown:
                hint = did_you_mean(unknown[0], set(looks_at) - {name})
                raise ConfigError(f"GroupTransformer: looks_at[{name!r}] = {others!r} must be a tuple of other groups. {hint}")
        self.layers = tuple(GroupLayer(looks_at, d_model, num_heads, d_ff, key=k) for k in jax.random.split(key, num_layers))
        self.d_model, self.names = d_model, tuple(looks_at)

    def __call__(self, groups: dict[str, Float[Array, "_ D"]], masks: Mapping[str, EntityMask] | None = None) -> dict[str, Array]:
        masks = masks or {}
        for what, given, wanted in (("groups", groups, set(self.names)), ("masks", masks, set(self.names) & set(masks))):
            if set(given) != wanted:
                raise ShapeError(f"GroupTransformer: {what} has {sorted(given)}; the groups are {sorted(self.names)}.")
        for name, x in groups.items():
            check_entities(f"GroupTransformer: groups[{name!r}]", x, self.d_model)
        there = {name: jnp.ones(len(x), bool) if masks.get(name) is None else masks[name] for name, x in groups.items()}
        present = {name: as_entity_mask(f"GroupTransformer: masks[{name!r}]", there[name], (len(x),)) for name, x in groups.items()}
        for layer in self.layers:
            groups = layer(groups, present)
        return groups


class GroupLayer(eqx.Module):
    """Attention within each group, then from each to the others it looks at, all at the same time."""

    within: dict[str, TransformerBlock]
    across: dict[str, "CrossBlock"]  # for groups that look at any
    looks_at: tuple[tuple[str, tuple[str, ...]], ...] = eqx.field(static=True)

    def __init__(self, looks_at: Mapping[str, Sequence[str]], d_model: int, num_heads: int, d_ff: int | None, *, key: PRNGKeyArray):
        keys = dict(zip(looks_at, jax.random.split(key, (len(looks_at), 2)), strict=True))
        self.within = {name: TransformerBlock(d_model, num_heads, d_ff, key=keys[name][0]) for name in looks_at}
        self.across = {name: CrossBlock(d_model, num_heads, d_ff, key=keys[name][1]) for name in looks_at if looks_at[name]}
        self.looks_at = tuple((name, tuple(others)) for name, others in looks_at.items())

    def __call__(self, groups: dict[str, Float[Array, "_ D"]], present: dict[str, Bool[Array, " _"]]) -> dict[str, Array]:
        groups = {name: block(groups[name], present[name]) for name, block in self.within.items()}
        seen = {}
        for name, others in self.looks_at:
            seen[name] = groups[name]
            if others:
                context, there = (jnp.concatenate([x[other] for other in others]) for x in (groups, present))
                seen[name] = self.across[name](groups[name], context, present[name], there)
        return seen


class CrossBlock(eqx.Module):
    """`x += attention(norm(x), norm(context))`, then `x += feed_forward(norm(x))`."""

    norm: eqx.nn.LayerNorm
    context_norm: eqx.nn.LayerNorm
    attention: MultiHeadAttention
    feed_forward_norm: eqx.nn.LayerNorm
    feed_forward: FeedForward

    def __init__(self, d_model: int, num_heads: int, d_ff: int | None, *, key: PRNGKeyArray):
        attention_key, feed_forward_key = jax.random.split(key)
        self.attention = MultiHeadAttention(d_model, num_heads, key=attention_key)
        self.feed_forward = FeedForward(d_model, d_ff or 4 * d_model, key=feed_forward_key)
        self.norm, self.context_norm, self.feed_forward_norm = (eqx.nn.LayerNorm(d_model) for _ in range(3))

    def __call__(
        self, x: Float[Array, "S D"], context: Float[Array, "C D"], present: Bool[Array, " S"], there: Bool[Array, " C"]
    ) -> Float[Array, "S D"]:
        x = x + self.attention(jax.vmap(self.norm)(x), jax.vmap(self.context_norm)(context), mask=there)
        return leave_out(x + self.feed_forward(jax.vmap(self.feed_forward_norm)(x)), present)
