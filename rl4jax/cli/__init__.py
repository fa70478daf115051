"""The command line `rl4jax`, and what reads the runs it leaves. The only place that wires everything."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
