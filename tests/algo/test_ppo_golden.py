"""PPO against numbers that PyTorch computed from CleanRL's formulas: see scripts/golden_ppo.py, which also says how to make them anew.

PyTorch computed in float64 and rl4jax computes in float32: the largest difference is a sixth of the tolerance.
"""

import functools
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import ppo
from rl4jax.algo.minibatch import random_order
from rl4jax.core.spaces import StaticSpace

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = [
    "discrete",
    "discrete_masked",
    "multi_discrete_masked",
    "continuous",
    "dual_clip",
    "unclipped",
    "dead_slots",
    "lstm",
]
SEED = 7  # of the order of samples

close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)


@pytest.fixture(params=CASES)
def case(request):
    return json.loads((GOLDEN / f"ppo_{request.param}.json").read_text())


def test_gae_equals_the_reference(case):
    cfg, rollout = ppo.Config(**case["config"]), make_rollout(case)
    discount = jnp.where(rollout.terminated, 0.0, cfg.gamma)
    trace = jnp.where(rollout.terminated | rollout.truncated, 0.0, cfg.gae_lambda)
    advantage = rl.collect.gae(rollout.reward, rollout.value, rollout.next_value, discount, trace)
    close(advantage, case["advantage"])
    close(advantage + rollout.value, case["target"])


def test_loss_and_gradients_equal_the_reference(case):
    cfg, rollout, model = ppo.Config(**case["config"]), make_rollout(case), make_model(case)
    batch = ppo.Batch(
        rollout.obs, rollout.action, rollout.mask, rollout.log_prob, rollout.value,
        advantage=jnp.array(case["advantage"]), target=jnp.array(case["target"]), valid=rollout.valid, is_first=rollout.is_first,
    )  # fmt: skip
    if rollout.carry is None:
        batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
    gradients, metrics = eqx.filter_jit(eqx.filter_grad(ppo.loss, has_aux=True))(model, batch, cfg, rollout.carry)
    _, norm = rl.gradients.clip_by_global_norm(gradients, cfg.max_grad_norm)
    compare_metrics(metrics | {"train/grad_norm": norm}, case["loss"])
    compare_weights(gradients, case["gradients"])


def test_minibatches_are_those_of_the_reference(case):
    cfg = ppo.Config(**case["config"])
    assert order_of_samples(cfg, recurrent=case["core"] is not None) == case["order"]


def test_one_update_equals_the_reference(case):
    cfg = ppo.Config(**case["config"])
    state = ppo.init(make_model(case), make_env(case), cfg, key=jax.random.key(0))
    state = state._replace(key=jax.random.key(SEED))
    state, metrics = ppo.update(state, make_rollout(case), cfg)
    compare_metrics(metrics, case["update"])
    compare_weights(state.model, case["weights_after"])
    assert metrics["train/skipped"] == 0


# The order of samples is an input of the reference, and only this function knows how `ppo.update` draws it.


def order_of_samples(cfg, *, recurrent, num_envs=4):
    """Indices by epoch and minibatch, of steps or of whole environments, as lists."""
    size = num_envs if recurrent else cfg.num_steps * num_envs
    _, shuffle_key = jax.random.split(jax.random.key(SEED))
    orders = [random_order(size, key) for key in jax.random.split(shuffle_key, cfg.update_epochs)]
    return [order.reshape(cfg.num_minibatches, -1).tolist() for order in orders]


# From JSON to what rl4jax takes.


def make_rollout(case):
    played = {name: None if x is None else jnp.array(x) for name, x in case["rollout"].items()}
    if played["carry"] is not None:
        played["carry"] = tuple((h, c) for h, c in played["carry"])
    none_ended = {
        "episode_return": jnp.full(played["reward"].shape, jnp.nan),
        "episode_length": jnp.zeros(played["reward"].shape, jnp.int32),
    }
    return rl.Rollout(**played, **none_ended, next_obs=None, privileged=None)


class Still(rl.AbstractEnv):
    """Nothing happens: PPO only asks for the spaces."""

    actions: StaticSpace = eqx.field(static=True)

    @property
    def observation_space(self):
        return spaces.Box(-np.inf, np.inf, (4,))

    @property
    def action_space(self):
        return self.actions.space

    def reset(self, key):
        return jnp.zeros(()), jnp.zeros(4)

    def step(self, state, action, key):
        return state, rl.Step(jnp.zeros(4), jnp.zeros(()), jnp.array(False), jnp.array(False))


def make_env(case):
    ((kind, size),) = case["space"].items()
    space = {"discrete": spaces.Discrete, "multi_discrete": spaces.MultiDiscrete, "box": lambda n: spaces.Box(-1.0, 1.0, (n,))}[kind](size)
    return rl.VecEnv(Still(StaticSpace(space)), num_envs=4)


def make_model(case):
    model = rl.nn.ActorCritic(make_env(case), key=jax.random.key(0), hidden=case["hidden"], core=case["core"])
    weights = {name: jnp.array(w) for name, w in case["weights"].items()}
    shapes = {name: w.shape for name, w in named(transposed(model)).items()}
    assert shapes == {name: w.shape for name, w in weights.items()}
    assert len(weights) == len(jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    model = eqx.tree_at(lambda m: list(named(m).values()), transposed(model), [weights[name] for name in shapes])
    return transposed(model)


def transposed(model):
    """The weights of PyTorch are [out, in], ours [in, out]."""
    return jax.tree.map(lambda x: x.T if eqx.is_array(x) and x.ndim == 2 else x, model)


def named(model):
    """The weights of an `ActorCritic`, or their gradients, by the names of the reference and as it has them."""
    layers = {"policy": model.policy.linear, "value": model.value}
    found = {} if model.policy.log_std is None else {"log_std": model.policy.log_std}
    for trunk_name, trunk in zip(("actor", "critic"), model.trunks, strict=True):
        layers |= {f"{trunk_name}.{i}": layer for i, layer in enumerate(trunk.mlp.layers)}
        if trunk.core is not None:
            parts = ("weight_ih", "weight_hh", "bias")  # gates i, f, g, o as in PyTorch, whose two biases are one here
            found |= {f"{trunk_name}.core.{part}": getattr(trunk.core, part) for part in parts}
    return found | {f"{name}.{part}": getattr(layer, part) for name, layer in layers.items() for part in ("weight", "bias")}


def compare_metrics(metrics, expected):
    for name, x in expected.items():
        close(metrics[f"train/{name}"], x, err_msg=name)


def compare_weights(tree, expected):
    found = named(transposed(tree))
    assert set(found) == set(expected)
    for name, x in expected.items():
        close(found[name], x, err_msg=name)


if __name__ == "__main__":  # the input of scripts/golden_ppo.py
    steps = ppo.Config(num_steps=16, num_minibatches=4, update_epochs=2)
    columns = ppo.Config(num_steps=6, num_minibatches=2, update_epochs=2)
    print(json.dumps({"steps": order_of_samples(steps, recurrent=False), "columns": order_of_samples(columns, recurrent=True)}))
