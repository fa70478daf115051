"""Environments written in JAX: whole rollouts run inside one compiled program. Imported on first use."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
