"""One module per algorithm, the same verbs in each: Config, State, init, act, collect, loss, update, train."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
