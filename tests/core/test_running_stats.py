import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rl4jax as rl


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=6),
    offset=st.sampled_from([0.0, -3.0, 1000.0]),
    scale=st.sampled_from([0.1, 1.0, 50.0]),
    seed=st.integers(0, 1000),
)
def test_mean_and_variance_are_numpys_whatever_the_batches(sizes, offset, scale, seed):
    rng = np.random.default_rng(seed)
    batches = [(offset + scale * rng.standard_normal((n, 3))).astype(np.float32) for n in sizes]
    stats = rl.RunningStats.like(jnp.zeros(3))
    for batch in batches:
        stats = stats.update(jnp.asarray(batch))
    together = np.concatenate(batches).astype(np.float64)
    assert float(stats.count) == len(together)
    np.testing.assert_allclose(stats.mean, together.mean(0), rtol=1e-4, atol=1e-4 * scale)
    np.testing.assert_allclose(stats.var, together.var(0), rtol=2e-3, atol=1e-4 * scale**2 + 1e-7 * offset**2)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_merging_parts_equals_seeing_everything(wrap, getkey):
    x = 5 + 2 * jax.random.normal(getkey(), (40, 2))
    empty = rl.RunningStats.like(jnp.zeros(2))
    whole = empty.update(x)
    a, b, c = (empty.update(part) for part in (x[:3], x[3:20], x[20:]))
    for merged in (wrap(lambda a, b, c: a.merge(b).merge(c))(a, b, c), c.merge(a.merge(b)), whole.merge(empty), empty.merge(whole)):
        for got, wanted in zip(jax.tree.leaves(merged), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_a_long_stream_far_from_zero_keeps_its_variance():
    """A sum of squares in float32 would be lost here: mean 1,000, deviation 1, two million samples."""
    rng = np.random.default_rng(0)
    data = (1000 + rng.standard_normal((2000, 1000))).astype(np.float32)
    start = rl.RunningStats.like(jnp.zeros(()))
    stats, _ = jax.jit(lambda s, xs: jax.lax.scan(lambda s, x: (s.update(x), None), s, xs))(start, data)
    np.testing.assert_allclose(stats.mean, data.astype(np.float64).mean(), rtol=1e-6)
    np.testing.assert_allclose(stats.var, data.astype(np.float64).var(), rtol=1e-3)


def test_slots_that_are_not_real_do_not_count(getkey):
    x = jax.random.normal(getkey(), (4, 5, 2))
    where = jax.random.bernoulli(getkey(), 0.6, (4, 5))
    poisoned = jnp.where(where[..., None], x, jnp.nan)
    got = rl.RunningStats.like(jnp.zeros(2)).update(poisoned, where=where)
    wanted = np.asarray(x)[np.asarray(where)]
    assert float(got.count) == len(wanted)
    np.testing.assert_allclose(got.mean, wanted.mean(0), rtol=1e-5)
    np.testing.assert_allclose(got.var, wanted.var(0), rtol=1e-5)
    nothing = got.update(x, where=jnp.zeros((4, 5), bool))
    assert jax.tree.all(jax.tree.map(lambda a, b: jnp.array_equal(a, b), nothing, got))


def test_frozen_statistics_stay(getkey):
    stats = rl.RunningStats.like(jnp.zeros(2)).update(jax.random.normal(getkey(), (9, 2))).freeze()
    after = stats.update(100 + jax.random.normal(getkey(), (9, 2))).merge(rl.RunningStats.like(jnp.zeros(2)))
    assert jax.tree.all(jax.tree.map(lambda a, b: jnp.array_equal(a, b), after, stats))


def test_dict_observations_are_normalised_by_part_and_images_left_alone(getkey):
    obs = {"speed": 3 + jax.random.normal(getkey(), (50, 2)), "image": jnp.full((50, 4, 4, 1), 7, jnp.uint8)}
    stats = rl.RunningStats.like(jax.tree.map(lambda x: x[0], obs)).update(obs)
    normal = stats.normalize(obs)
    np.testing.assert_allclose(normal["speed"].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(normal["speed"].std(0), 1, atol=1e-3)
    assert (normal["image"] == obs["image"]).all()
    assert normal["image"].dtype == jnp.uint8


def test_normalised_values_are_clipped():
    stats = rl.RunningStats.like(jnp.zeros(())).update(jnp.array([-1.0, 1.0]))
    assert stats.normalize(jnp.array([1e9, -1e9])).tolist() == [10.0, -10.0]
    assert stats.normalize(jnp.float32(8.0), clip=5.0) == 5.0


def test_batches_and_masks_of_another_shape_are_errors():
    stats = rl.RunningStats.like(jnp.zeros(2))
    with pytest.raises(rl.ShapeError, match=r"batch has shapes \[\(4, 3\)\]; they must be the same leading axes followed by \[\(2,\)\]"):
        stats.update(jnp.zeros((4, 3)))
    with pytest.raises(rl.ShapeError, match=r"where has shape \(3, 2\); it must be \(2, 3\)"):
        stats.update(jnp.zeros((2, 3, 2)), where=jnp.zeros((3, 2), bool))
    with pytest.raises(rl.ShapeError, match="same leading axes"):
        rl.RunningStats.like({"a": jnp.zeros(2), "b": jnp.zeros(())}).update({"a": jnp.zeros((4, 2)), "b": jnp.zeros(1)})


@pytest.mark.parametrize("scale", [1e-6, 1e-4, 1e3])
def test_the_first_batch_of_any_scale_is_exact(scale):
    x = (np.random.default_rng(0).standard_normal(1000) * scale).astype(np.float32)
    stats = rl.RunningStats.like(jnp.zeros(())).update(jnp.asarray(x))
    np.testing.assert_allclose(stats.var, x.astype(np.float64).var(), rtol=1e-5)


def test_half_precision_is_summed_in_single():
    x = np.full(2000, 100.5, np.float16)
    stats = rl.RunningStats.like(jnp.zeros((), jnp.float16)).update(x)
    np.testing.assert_allclose(stats.mean, 100.5)
    np.testing.assert_allclose(stats.var, 0.0, atol=1e-3)


def test_images_alone_have_no_statistics():
    image = jnp.full((8, 4, 4), 3, jnp.uint8)
    stats = rl.RunningStats.like(image[0]).update(image)
    assert (stats.normalize(image) == image).all()


def test_statistics_can_be_vmapped_over_seeds(getkey):
    x = jax.random.normal(getkey(), (3, 20, 2))
    stats = jax.vmap(lambda x: rl.RunningStats.like(jnp.zeros(2)).update(x))(x)
    np.testing.assert_allclose(stats.mean, x.mean(1), rtol=1e-4, atol=1e-6)
