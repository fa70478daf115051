"""Experience: rollouts from both kinds of environment, advantages, evaluation."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
