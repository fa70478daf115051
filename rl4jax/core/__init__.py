"""What an environment, a step, a log and a picture are. Imports nothing else of rl4jax."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
