"""A policy whose parts are chosen one after the other goes through the algorithms like any other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import bc, distill, dqn, impala, ppo
from rl4jax.nn import Categorical, Composite, Linear, orthogonal_linear


class Orders(rl.AbstractEnv):
    """+1 for the target that goes with the kind: 2 with 0 and 0 with 1, if a light is on the other way round. Target 1 is never allowed."""

    @property
    def observation_space(self):
        return spaces.Box(0, 1, (1,))

    @property
    def action_space(self):
        return spaces.Dict({"kind": spaces.Discrete(2), "target": spaces.Discrete(3)})

    def reset(self, key):
        light = jax.random.bernoulli(key, 0.5, (1,)).astype(jnp.float32)
        return light, light

    def step(self, state, action, key):
        right = action["target"] == jnp.where(action["kind"] == state[0], 2, 0)
        return state, rl.Step(state, right.astype(jnp.float32), terminated=jnp.array(True), truncated=jnp.array(False))

    def action_mask(self, state):
        return jnp.array([True, True, True, False, True])


class TargetHead(eqx.Module):
    mlp: eqx.nn.MLP  # has its activation as a leaf, which is no array
    obs: jax.Array

    def __call__(self, earlier):
        return Categorical(self.mlp(jnp.concatenate([self.obs, jax.nn.one_hot(earlier["kind"], 2)])))


class Model(eqx.Module):
    kind: Linear
    target: eqx.nn.MLP
    value: Linear

    def __init__(self, key):
        keys = jax.random.split(key, 3)
        self.kind = orthogonal_linear(1, 2, 0.01, key=keys[0])
        self.target = eqx.nn.MLP(3, 3, 16, 1, key=keys[1])
        self.value = orthogonal_linear(1, 1, key=keys[2])

    def __call__(self, obs):
        pi = Composite({"target": TargetHead(self.target, obs), "kind": Categorical(self.kind(obs))}, order=("kind", "target"))
        return pi, self.value(obs)[0]


SETTINGS = {
    "ppo": (ppo, ppo.Config(num_steps=16, lr=1e-2), 30),
    "impala": (impala, impala.Config(num_steps=16, lr=1e-2), 150),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_learns_and_never_does_what_is_forbidden(name, getkey):
    algo, cfg, num_updates = SETTINGS[name]
    env = rl.VecEnv(Orders(), 16)
    state = algo.init(Model(getkey()), env, cfg, key=getkey())
    state, rollout = algo.collect(state, env, cfg)
    assert (np.asarray(rollout.action["target"]) != 1).all()
    again = jax.vmap(jax.vmap(lambda obs, mask, action: state.model(obs)[0].masked(mask).log_prob(action)))
    np.testing.assert_allclose(again(rollout.obs, rollout.mask, rollout.action), rollout.log_prob, rtol=1e-4, atol=1e-5)
    state, metrics = algo.train(state, env, cfg, num_updates)
    assert np.isfinite(metrics["train/loss"]).all()
    assert rl.evaluate(state.policy, env, 256, key=getkey(), greedy=False).mean > 0.9
    assert rl.evaluate(state.policy, env, 32, key=getkey()).mean == 1
    action, _ = algo.act(state.policy, jnp.ones(1), mask=Orders().action_mask(None))
    assert set(action) == {"kind", "target"}


def test_it_clones_an_expert_that_correlates_its_choices_under_masks(getkey):
    light = jax.random.bernoulli(getkey(), 0.5, (512, 1)).astype(jnp.float32)
    kind = jax.random.bernoulli(getkey(), 0.5, (512,)).astype(jnp.int32)  # any, and the target goes with it
    action = {"kind": kind, "target": jnp.where(kind == light[:, 0], 2, 0)}
    mask = jnp.broadcast_to(Orders().action_mask(None), (512, 5))
    cfg = bc.Config(lr=1e-2)
    data = bc.from_arrays(light, action, mask)
    state = bc.init(Model(getkey()), data, cfg, key=getkey())
    state, metrics = bc.train(state, data, cfg, 20)
    assert float(metrics["eval/loss"][-1]) == pytest.approx(np.log(2), abs=0.05), "one bit: the kind. Independent heads would need two"
    forbidden = {"kind": kind, "target": jnp.ones_like(kind)}
    with pytest.raises(rl.ShapeError, match="512 of 512 actions of data cannot be chosen by Model"):
        bc.init(Model(getkey()), bc.from_arrays(light, forbidden, mask), cfg, key=getkey())


class TableHead(eqx.Module):
    logits: jax.Array  # [2, 3]

    def __call__(self, earlier):
        return Categorical(jax.nn.one_hot(earlier["kind"], 2) @ self.logits)


class Table(eqx.Module):
    kind: Linear
    target: jax.Array

    def __call__(self, obs):
        pi = Composite({"kind": Categorical(self.kind(obs)), "target": TableHead(self.target)}, order=("kind", "target"))
        return pi, jnp.zeros(())


def test_it_can_teach_and_be_taught(getkey):
    def model():
        return Table(orthogonal_linear(1, 2, key=getkey()), jax.random.normal(getkey(), (2, 3)))

    targets, cfg = distill.label(model(), jax.random.normal(getkey(), (128, 1))), distill.Config(lr=3e-2)
    _, metrics = distill.train(distill.init(model(), targets, cfg, key=getkey()), targets, cfg, 30)
    assert metrics["eval/loss"][-1] < 0.05 * metrics["eval/loss"][0]
    assert metrics["eval/agreement"][-1] == 1
    with pytest.raises(rl.ConfigError, match="the Composite of Model has a head that holds something else than arrays"):
        distill.label(Model(getkey()), jnp.zeros((4, 1)))


def test_q_learning_refuses_it(getkey):
    env = rl.VecEnv(Orders(), 2)
    with pytest.raises(rl.EnvError, match="Q-learning needs Discrete actions, one value each"):
        dqn.init(Model(getkey()), env, dqn.Config(), key=getkey())
