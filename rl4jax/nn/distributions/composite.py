"""Several distributions side by side, or one after the other."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from rl4jax.core.errors import ConfigError, ShapeError, is_count, require
from rl4jax.core.number import Number

from .categorical import Categorical
from .distribution import AbstractDistribution, Mask, check_mask, same_kind
from .head import Head, MaskedHead, TemperedHead

Part = AbstractDistribution | Head
Parts = dict[str, Part] | tuple[Part, ...]


def _by_name(parts: Parts) -> Parts:
    """A dict by name, as `jax.tree` and `gymnasium.spaces.Dict` have it; a tuple as it is."""
    return dict(sorted(parts.items())) if isinstance(parts, dict) else parts


class Composite(AbstractDistribution):
    """Parts, named or numbered: the actions of a `Dict` or `Tuple` space, as a dict or tuple of the parts' actions.

    A part is a distribution, independent of the others, or a head: an `eqx.Module` that is called with the parts chosen before it,
    `{name: action}`, and returns its distribution. `log p(a) = sum_i log p_i(a_i | a_1 .. a_i-1)`, in the `order` in which the parts are
    chosen: with heads it must be said, since named parts are always kept by name. A mask is flat over all parts, in the order of
    `gymnasium.spaces.flatten`; a continuous part has a slice as long as its action, and ignores it.

    >>> from rl4jax.nn.distributions import Normal
    >>> pi = Composite({"steer": Normal(jnp.zeros(2), jnp.zeros(2)), "gear": Categorical(jnp.array([0.0, 1.0]))})
    >>> print(pi.mask_size, pi.mode()["gear"])
    4 1
    """

    parts: Parts = eqx.field(converter=_by_name)
    order: tuple[Any, ...] | None = eqx.field(default=None, static=True, converter=lambda x: None if x is None else tuple(x))

    def __check_init__(self):
        require(len(self.parts) > 0, "Composite.parts", self.parts, "a dict or tuple of at least one distribution")
        for name, part in self._named():
            if not isinstance(part, AbstractDistribution) and not (isinstance(part, eqx.Module) and callable(part)):
                raise TypeError(
                    f"Composite.parts[{name!r}] is a {type(part).__name__}; it must be a distribution, or an eqx.Module that is called "
                    f"with the earlier parts and returns one. (The arrays inside of a plain function would be hidden from JAX.)"
                )
        if self.order is not None and (len(self.order) != len(self.parts) or set(self.order) != set(self._names())):
            raise ConfigError(f"Composite.order = {self.order!r} must have each of the parts once: {self._names()}.")
        if self.order is None and isinstance(self.parts, dict) and self.conditional:
            raise ConfigError(
                f"Composite.order = None must name the parts in the order in which they are chosen, because some depend on earlier ones. "
                f"Use order={tuple(self.parts)!r}, or another."
            )

    @classmethod
    def from_heads(cls, names: Sequence[str], sizes: Sequence[int], logits: Float[Array, " A"] | None = None) -> "Composite":
        """Independent choices, named and each among so many, from one row of logits in the order of `names`; without logits all alike.

        >>> pi = Composite.from_heads(("action_type", "target", "ability"), (11, 30, 8))
        >>> pi.total_logits
        49
        """
        named = len(names) == len(sizes) == len(set(names)) and all(is_count(n) for n in sizes)
        require(named, "Composite.from_heads: sizes", tuple(sizes), f"one positive integer for each of {tuple(names)!r}, all different")
        logits = jnp.zeros(sum(sizes)) if logits is None else logits
        if logits.shape != (sum(sizes),):
            raise ShapeError(
                f"Composite.from_heads: logits has shape {logits.shape}; the sizes {tuple(sizes)} need ({sum(sizes)},), head after head."
            )
        heads = jnp.split(logits, np.cumsum(sizes)[:-1])
        return cls({name: Categorical(head) for name, head in zip(names, heads, strict=True)})

    @property
    def total_logits(self) -> int:
        """How many logits the choices have together; continuous parts have none."""
        forms = self._forms().values()
        return sum(part.total_logits if isinstance(part, Composite) else part.mask_size * part.maskable for part in forms)

    @property
    def conditional(self) -> bool:
        """Whether some part depends on the earlier ones."""
        return not all(isinstance(part, AbstractDistribution) for _, part in self._named())

    @property
    def mask_size(self) -> int:
        return sum(part.mask_size for part in self._forms().values())

    @property
    def maskable(self) -> bool:
        return any(part.maskable for part in self._forms().values())

    @property
    def chance(self) -> dict[str, Any] | tuple[Any, ...]:
        """That of each part."""
        return self._pack({name: part.chance for name, part in self._forms().items()})

    def sample_from(self, noise: PyTree[Array]) -> dict[str, Any] | tuple[Any, ...]:
        """A random action of each part, one after the other."""
        noises = self._split("sample_from", noise, self.conditional)
        return self._pack(self._choose(lambda name, part: part.sample_from(noises[name])))

    def log_prob(self, action: PyTree[Array]) -> Float[Array, ""]:
        """The sum over the parts, of each given those before it: exact."""
        actions = self._split("log_prob", action, self.conditional)
        return _total(part.log_prob(actions[name]) for name, part in self._given(actions).items())

    def entropy(self, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        """The sum over the parts, of each given those of `action` before it. Its mean over sampled actions is the joint entropy."""
        actions = self._split("entropy", action, self.conditional)
        return _total(part.entropy(actions[name]) for name, part in self._given(actions).items())

    def kl(self, other: AbstractDistribution, action: PyTree[Array] | None = None) -> Float[Array, ""]:
        """The sum over the parts, of each given those of `action` before it. Its mean over actions sampled from self is the joint KL."""
        other = same_kind(self, other)
        if self._names() != other._names():
            raise ShapeError(f"Composite.kl: other has the parts {other._names()}; they must be {self._names()}, as of self.")
        if self.conditional and other.conditional and self._in_order() != other._in_order():
            raise ConfigError(
                f"Composite.kl: other chooses in the order {other._in_order()}, self in {self._in_order()}; both must have the same."
            )
        actions = self._split("kl", action, self.conditional or other.conditional)
        others = other._given(actions)
        return _total(part.kl(others[name], actions[name]) for name, part in self._given(actions).items())

    def mode(self) -> dict[str, Any] | tuple[Any, ...]:
        """The mode of each part, given the modes before it: with heads, not always the most likely action as a whole."""
        return self._pack(self._choose(lambda _, part: part.mode()))

    def masked(self, mask: Mask) -> "Composite":
        """Each discrete part without what its slice of the mask forbids; continuous parts as they are.

        A head may forbid more, by what was chosen before it: something must be left that both allow.
        """
        if mask is None:
            return self
        check_mask(self, mask)
        parts, end = dict(self._named()), 0
        for name, form in self._forms().items():
            part, start, end = parts[name], end, end + form.mask_size
            if form.maskable:
                here = mask[start:end]
                parts[name] = part.masked(here) if isinstance(part, AbstractDistribution) else MaskedHead(part, here)
        return Composite(self._pack(parts), self.order)

    def tempered(self, temperature: Number) -> "Composite":
        """Each part at that temperature. With heads that is not proportional to `p^(1 / temperature)` of the action as a whole."""
        parts = {
            name: part.tempered(temperature) if isinstance(part, AbstractDistribution) else TemperedHead(part, temperature)
            for name, part in self._named()
        }
        return Composite(self._pack(parts), self.order)

    def given(self, action: PyTree[Array]) -> dict[Any, AbstractDistribution]:
        """The distribution of each part, given the parts of `action` that were chosen before it."""
        return self._given(self._split("given", action, self.conditional))

    def _names(self) -> list[Any]:
        return list(self.parts) if isinstance(self.parts, dict) else list(range(len(self.parts)))

    def _named(self) -> Iterable[tuple[Any, Part]]:
        return self.parts.items() if isinstance(self.parts, dict) else enumerate(self.parts)

    def _in_order(self) -> tuple[Any, ...]:
        """The names in the order in which the parts are chosen."""
        return tuple(self._names()) if self.order is None else self.order

    def _part(self, name: Any, chosen: dict[Any, PyTree]) -> AbstractDistribution:
        """The distribution of a part, given what was chosen before it."""
        part, order = self.parts[name], self._in_order()
        if isinstance(part, AbstractDistribution):
            return part
        before = order[: order.index(name)]
        try:
            pi = part({earlier: chosen[earlier] for earlier in before})
        except KeyError as error:
            missing = error.args[0] if error.args else None
            if missing not in order or missing in before:
                raise  # a matter of the head's own
            raise ConfigError(
                f"Composite.order = {order!r} must have {missing!r} before {name!r}, whose {type(part).__name__} asks for it: "
                f"it is given {list(before)}."
            ) from error
        if not isinstance(pi, AbstractDistribution):
            got = f"{type(part).__name__} gave a {type(pi).__name__}"
            raise TypeError(f"Composite.parts[{name!r}]: {got}; a head must return a distribution.")
        return pi

    def _given(self, actions: dict[Any, PyTree]) -> dict[Any, AbstractDistribution]:
        """The distribution of each part, given the actions of those before it."""
        return {name: self._part(name, actions) for name in self._names()}

    def _choose(self, choose: Callable[[Any, AbstractDistribution], PyTree]) -> dict[Any, PyTree]:
        """What `choose(name, distribution)` gives for one part after the other, each knowing the earlier choices."""
        chosen = {}
        for name in self._in_order():
            chosen[name] = choose(name, self._part(name, chosen))
        return chosen

    def _forms(self) -> dict[Any, AbstractDistribution]:
        """The distribution of each part, as far as shapes tell: those of a head are the same whatever was chosen before."""
        independent = {name: part for name, part in self._named() if isinstance(part, AbstractDistribution)}
        if len(independent) == len(self.parts):
            return independent
        return eqx.filter_eval_shape(lambda pi: pi._given(pi._choose(lambda _, part: part.mode())), self)

    def _pack(self, values: dict[Any, Any]) -> dict[str, Any] | tuple[Any, ...]:
        """A value per part, as a dict or a tuple like the parts."""
        return {n: values[n] for n in self.parts} if isinstance(self.parts, dict) else tuple(values[i] for i in self._names())

    def _split(self, verb: str, action: PyTree[Array] | None, needed: bool) -> dict[Any, Any]:
        """The action of each part by its name, all None if there is none and none is needed."""
        if action is None:
            if needed:
                raise ShapeError(
                    f"Composite.{verb}: action is None, but some parts depend on earlier ones. Give the action that was taken."
                )
            return dict.fromkeys(self._names())
        given = sorted(action) if isinstance(action, dict) else list(range(len(action))) if isinstance(action, tuple | list) else None
        if given != self._names():
            got = type(action).__name__ if given is None else f"{type(action).__name__} with the parts {given}"
            raise ShapeError(f"Composite.{verb}: action is a {got}; it must be a {type(self.parts).__name__} with {self._names()}.")
        return {name: action[name] for name in self._names()}


def _total(terms: Iterable[Float[Array, ""]]) -> Float[Array, ""]:
    return jnp.stack(list(terms)).sum()
