"""Replay: rings of items (any pytree) that forget the oldest first, in-graph, in memory and on disk, with the same verbs."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
