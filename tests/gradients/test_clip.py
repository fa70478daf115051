"""Clipping is that of PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.gradients import clip_by_global_norm


def test_clipping_scales_all_gradients_together():
    grads = {"a": jnp.array([3.0, 0.0]), "b": jnp.array([[4.0]])}
    clipped, norm = clip_by_global_norm(grads, 1.0)
    assert norm == 5.0
    np.testing.assert_allclose(clipped["a"], [3 / (5 + 1e-6), 0.0], rtol=1e-7)
    np.testing.assert_allclose(clipped["b"], [[4 / (5 + 1e-6)]], rtol=1e-7)
    for max_norm in (10.0, 0.0):
        assert all(
            (a == b).all() for a, b in zip(jax.tree.leaves(clip_by_global_norm(grads, max_norm)[0]), jax.tree.leaves(grads), strict=True)
        )


def test_small_gradients_show_pytorchs_epsilon():
    (clipped,), norm = clip_by_global_norm((jnp.array([2e-6]),), 1e-6)
    np.testing.assert_allclose(clipped, [2e-6 * 1e-6 / (2e-6 + 1e-6)], rtol=1e-6)
    np.testing.assert_allclose(norm, 2e-6, rtol=1e-6)


def test_a_negative_norm_is_refused():
    with pytest.raises(rl.ConfigError, match=r"clip_by_global_norm: max_norm = -1\.0 must be positive, or 0 for no clipping"):
        clip_by_global_norm({"a": jnp.ones(2)}, -1.0)


def test_half_precision_does_not_overflow():
    clipped, norm = clip_by_global_norm({"a": jnp.array([300.0, 400.0], jnp.float16)}, 1.0)
    assert float(norm) == 500
    np.testing.assert_allclose(clipped["a"], [0.6, 0.8], rtol=2e-3)
