"""What cloning and distillation share: batches, a share that is held out, steps that are skipped."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rl4jax as rl
from rl4jax import bc, distill
from rl4jax.algo import epochs
from rl4jax.algo.closeness import closeness


@pytest.mark.parametrize(("n", "batch_size"), [(10, 4), (12, 4), (3, 64), (1, 1), (65, 64)])
def test_an_epoch_sees_each_example_once_and_fills_the_last_batch(n, batch_size, getkey):
    batches = np.asarray(epochs.in_batches(n, batch_size, getkey()))
    assert batches.shape == (-(-n // min(n, batch_size)), min(n, batch_size))
    assert (np.bincount(batches.ravel(), minlength=n)[:n] >= 1).all()
    assert (np.bincount(batches.ravel()) <= 2).all()
    assert all(len(set(batch)) == len(batch) for batch in batches.tolist()), "no example twice in one batch"
    assert not np.array_equal(batches, epochs.in_batches(n, batch_size, getkey())) or n < 4


@pytest.mark.parametrize(("n", "holdout", "held_out"), [(10, 0.1, 1), (100, 0.25, 25), (3, 0.01, 1), (7, 0.0, 0)])
def test_the_split_is_a_partition_that_does_not_change(n, holdout, held_out):
    learned, unseen = epochs.split(n, holdout)
    assert len(unseen) == held_out
    assert sorted([*learned.tolist(), *unseen.tolist()]) == list(range(n))
    assert unseen.tolist() == epochs.split(n, holdout)[1].tolist()


class Counter(eqx.Module):
    """A model of one number per example, which falls by one each time the example is learned."""

    seen: jax.Array

    def __call__(self, obs):
        return rl.nn.Categorical(jnp.zeros(2)), self.seen[obs]


def count_loss(model, batch, cfg):
    total = jax.vmap(model)(batch.obs)[1]
    return total.mean(), {"train/loss": total.mean()}


def test_what_is_held_out_is_never_learned():
    n, cfg, opt = 50, bc.Config(batch_size=9, holdout=0.2), optax.sgd(9.0)
    data = bc.Demonstrations(jnp.arange(n), jnp.zeros(n, int))
    state = epochs.begin("test", Counter(jnp.zeros(n)), cfg, key=jax.random.key(0), opt=opt)
    state, metrics = epochs.train("test", count_loss, state, data, cfg, 3, opt)
    times = -np.asarray(state.model.seen).round(3)
    learned, unseen = epochs.split(n, 0.2)
    assert (times[np.asarray(unseen)] == 0).all()
    assert (times[np.asarray(learned)] >= 3).all()
    assert times.sum() == 3 * 45, "five batches of nine, three times"
    np.testing.assert_allclose(metrics["eval/loss"], 0.0)
    again, _ = epochs.train("test", count_loss, state, data, cfg, 1, opt)
    assert (np.asarray(again.model.seen)[np.asarray(unseen)] == 0).all(), "nor by another call"


def test_held_out_metrics_are_those_of_one_large_batch(monkeypatch):
    monkeypatch.setattr(epochs, "AT_ONCE", 4)  # 11 examples: two and a half goes
    data = bc.Demonstrations(jnp.arange(11), jnp.zeros(11, int))
    model = Counter(jnp.arange(11.0) ** 2)
    got = epochs.evaluate(count_loss, model, data, None)
    assert float(got["eval/loss"]) == pytest.approx(np.mean(np.arange(11.0) ** 2))


def test_a_step_that_is_not_finite_is_skipped_and_counted_and_the_others_are_learned():
    n, cfg, opt = 8, bc.Config(batch_size=1, holdout=0), optax.sgd(1.0)
    data = bc.Demonstrations(jnp.arange(n), jnp.zeros(n).at[3].set(jnp.nan))

    def poisoned(model, batch, cfg):
        total = count_loss(model, batch, cfg)[0] + batch.action.mean()
        return total, {"train/loss": total}

    state = epochs.begin("test", Counter(jnp.zeros(n)), cfg, key=jax.random.key(0), opt=opt)
    state, metrics = epochs.train("test", poisoned, state, data, cfg, 2, opt)
    assert metrics["train/skipped"].tolist() == [1.0, 1.0]
    assert np.isfinite(metrics["train/loss"]).all(), "the mean is over the steps that were made"
    assert np.asarray(state.model.seen).tolist() == [-2, -2, -2, 0, -2, -2, -2, -2]
    assert int(state.num_updates) == 16


def test_closeness_is_per_head_and_per_part():
    chosen = {"go": np.array([0, 1, 2, 1]), "turn": np.array([[0, 0], [0, 1], [1, 1], [1, 0]]), "power": np.zeros((4, 2)), "x": np.zeros(4)}
    wanted = {
        "go": np.array([0, 1, 2, 0]),
        "turn": np.array([[0, 1], [0, 1], [1, 1], [1, 1]]),
        "power": np.ones((4, 2)),
        "x": np.full(4, 2.0),
    }
    got = {name: float(x) for name, x in closeness("accuracy", *jax.tree.map(jnp.asarray, (chosen, wanted))).items()}
    assert got == pytest.approx(
        {
            "train/accuracy": 0.5,
            "train/accuracy/go": 0.75,
            "train/accuracy/turn/0": 1.0,
            "train/accuracy/turn/1": 0.5,
            "train/mse": (2 * 1 + 4) / 3,
            "train/mse/power": 1.0,
            "train/mse/x": 4.0,
        }
    )
    assert set(closeness("agreement", jnp.zeros(3, int), jnp.zeros(3, int))) == {"train/agreement"}
    assert set(closeness("agreement", jnp.zeros((3, 2)), jnp.zeros((3, 2)))) == {"train/mse"}


@pytest.mark.parametrize("module", [bc, distill])
@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("batch_size", 0, "a positive integer"),
        ("holdout", 1.0, "a share in [0, 1). 0 holds nothing out"),
        ("holdout", -0.1, "a share in [0, 1)"),
        ("lr", -1.0, "zero or more, or a schedule"),
        ("max_grad_norm", -1.0, "positive, or 0 for no clipping"),
        ("adam_eps", 0.0, "positive"),
    ],
)
def test_settings_out_of_range_are_refused(module, field, value, rule):
    name = module.__name__.split(".")[-1]
    with pytest.raises(rl.ConfigError, match=re.escape(f"{name}.Config.{field} = {value!r} must be {rule}")):
        module.Config(**{field: value})
