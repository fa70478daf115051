"""Distributions over actions, as values that a model returns for one observation. A batch is `jax.vmap` around the whole function."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
