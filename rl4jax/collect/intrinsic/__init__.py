"""Rewards for what an agent found out, added to those of the environment before the update."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
