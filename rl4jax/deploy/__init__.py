"""Trained policies without the training: bundles, and what runs them. `load` needs no JAX."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
