"""Gradients one can trust: a report on them, assertions about them, clipping, a guard, and idioms without NaN."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
