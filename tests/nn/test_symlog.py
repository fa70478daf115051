import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from rl4jax.nn import symexp, symlog

# Computed once with the reference implementation's formulas in NumPy.
SYMLOG = {0.5: 0.4054651, 1.0: 0.6931472, 10.0: 2.3978953, 100.0: 4.6151205, 1000.0: 6.9087548, -1e6: -13.8155116}
SYMEXP = {1.0: 1.7182818, 5.0: 147.41316, 10.0: 22025.466, 20.0: 4.8516520e8}


@pytest.mark.parametrize(("f", "table"), [(symlog, SYMLOG), (symexp, SYMEXP)])
def test_golden_numbers(f, table):
    np.testing.assert_allclose(f(jnp.array(list(table))), list(table.values()), rtol=2e-7)
    np.testing.assert_allclose(f(-jnp.array(list(table))), -np.array(list(table.values())), rtol=2e-7)


@settings(max_examples=200, deadline=None)
@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_each_undoes_the_other(x):
    np.testing.assert_allclose(symexp(symlog(jnp.float32(x))), np.float32(x), rtol=1e-5, atol=1e-37)  # JAX has no subnormal numbers


def test_small_numbers_keep_their_digits():
    x = np.array([1e-7, -3e-12, 1e-30, 0.0])
    np.testing.assert_allclose(symlog(jnp.asarray(x, jnp.float32)), x, rtol=1e-6)
    np.testing.assert_allclose(symexp(jnp.asarray(x, jnp.float32)), x, rtol=1e-6)


def test_slopes_are_the_closed_forms_also_at_zero():
    x = jnp.array([-1e6, -2.0, -0.0, 0.0, 1e-20, 3.0, 1e30])
    np.testing.assert_allclose(jax.vmap(jax.grad(symlog))(x), 1 / (1 + np.abs(np.asarray(x, np.float64))), rtol=1e-6)
    x = jnp.array([-20.0, 0.0, 1.0, 80.0])
    np.testing.assert_allclose(jax.vmap(jax.grad(symexp))(x), np.exp(np.abs(np.asarray(x, np.float64))), rtol=1e-5)


def test_huge_numbers_are_never_nan():
    x = jnp.array([3e38, -3e38, jnp.inf, -jnp.inf])
    assert not np.isnan(symlog(x)).any()
    assert not np.isnan(symexp(x)).any()
    assert np.isfinite(jax.vmap(jax.grad(symlog))(x)).all()


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_the_type_of_float_stays(dtype):
    assert symlog(jnp.ones(3, dtype)).dtype == symexp(jnp.ones(3, dtype)).dtype == dtype


def test_plain_numbers_are_taken_too():
    np.testing.assert_allclose(symlog(3.0), np.log(4.0), rtol=1e-6)
    np.testing.assert_allclose(symexp(-3.0), 1 - np.exp(3.0), rtol=1e-6)
