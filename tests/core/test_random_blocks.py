"""Numbers that are drawn ahead are those that would have been drawn in their turn."""

import gc

import jax
import jax.numpy as jnp
import numpy as np

from rl4jax.core import on_device, random_blocks
from rl4jax.core.random_blocks import drawn_ahead


def draw(key, shape):
    return jax.random.bits(key, shape, jnp.uint32)


def other(key, shape):
    return jax.random.uniform(key, shape)


def now(key, turn, shape, draw=draw):
    with jax.debug_key_reuse(False):
        return np.asarray(draw(jax.random.fold_in(key, turn), shape))


def test_any_turn_in_any_order_is_as_if_drawn_alone():
    keys = [jax.random.key(0), jax.random.key(1)]
    rng = np.random.default_rng(0)
    for _ in range(60):
        key, turn, shape = keys[rng.integers(2)], int(rng.integers(400)), ((2, 3), (5,))[rng.integers(2)]
        for how in (draw, other):
            np.testing.assert_array_equal(drawn_ahead(how, key, turn, shape), now(key, turn, shape, how))


def test_many_numbers_are_drawn_one_turn_at_a_time():
    key = jax.random.key(3)
    shape = (random_blocks._MOST_NUMBERS * 2,)
    np.testing.assert_array_equal(drawn_ahead(draw, key, 7, shape), now(key, 7, shape))


def test_what_was_drawn_goes_with_its_key():
    key = jax.random.key(4)
    drawn_ahead(draw, key, 0, (2,))
    place = (random_blocks.no_blocks, id(key))
    assert draw in on_device._MADE[place][1]
    del key
    gc.collect()
    assert place not in on_device._MADE
