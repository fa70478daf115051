"""rl4jax: reinforcement-learning building blocks on JAX, Equinox and Optax. Functions, not a framework.

Names are loaded when first used, so that parts which need no JAX import without it. `__init__.pyi` lists them.
"""

import lazy_loader as lazy

from rl4jax.core.runtime import make_cpu_safe
from rl4jax.envs.gymnasium_ids import register_with_gymnasium

make_cpu_safe()
register_with_gymnasium()

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
