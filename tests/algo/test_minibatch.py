"""Random parts of a batch."""

import jax
import numpy as np
import pytest

from rl4jax.algo.minibatch import random_order


@pytest.mark.parametrize("n", [1, 2, 3, 512, 2**16 + 1])
def test_a_random_order_is_a_permutation(n, getkey):
    assert sorted(random_order(n, getkey()).tolist()) == list(range(n))


def test_every_order_is_equally_likely(getkey):
    orders = jax.vmap(lambda key: random_order(4, key))(jax.random.split(getkey(), 24_000))
    _, counts = np.unique(np.asarray(orders), axis=0, return_counts=True)
    assert len(counts) == 24
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)
