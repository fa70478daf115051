"""No false alarm: every parameter of every model has a gradient by every loss of the library that should train it."""

import dataclasses
import functools
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import rl4jax as rl
from rl4jax import bc, distill, dqn, gradients, impala, losses, nn, ppo
from tests.algo.small import Mixed
from tests.nn.luck import Luck

ENVS = {
    "discrete": rl.envs.CartPole,
    "continuous": rl.envs.Pendulum,
    "multi-discrete": rl.envs.MultiDiscreteNav,
    "picture": functools.partial(rl.envs.Catch, rows=6),
    "masked dict": Mixed,
}
NETWORKS = {
    "feed-forward": {},
    "shared": {"shared": True, "activation": "relu"},
    "lstm": {"core": "lstm"},
    "gru": {"core": "gru", "shared": True},
    "squashed": {"squash": True, "log_std": "model"},
}
PPO = ppo.Config(num_steps=6, num_minibatches=1)


@functools.cache
def played(env_name, network):
    """A rollout, the model that played it, and what of it PPO's loss is given."""
    env = rl.VecEnv(ENVS[env_name](), num_envs=3)
    model = nn.ActorCritic(env, key=jax.random.key(0), hidden=(8,), **NETWORKS[network])
    state, rollout = ppo.collect(ppo.init(model, env, PPO, key=jax.random.key(1)), env, PPO)
    batch, _, carry = ppo.loss_args(state, rollout, PPO)
    return model, rollout, batch, carry


def alarms(report, unless=()):
    """Parameters that the report complains about, and why."""
    return {gradient.name: (gradient.status, gradient.cause) for gradient in report.faults if not gradient.name.startswith(tuple(unless))}


CASES = [("discrete", network) for network in NETWORKS] + [("continuous", network) for network in ("feed-forward", "lstm", "squashed")]
CASES += [(env, "feed-forward") for env in ("multi-discrete", "picture")] + [("masked dict", "gru"), ("masked dict", "squashed")]


@pytest.mark.parametrize(("env", "network"), CASES)
def test_ppo(env, network):
    model, _, batch, carry = played(env, network)
    report = gradients.report(ppo.loss, model, batch, dataclasses.replace(PPO, dual_clip_coef=3.0), carry)
    assert not alarms(report)
    assert report.ok
    assert "zero" not in {gradient.status for gradient in report}


@pytest.mark.parametrize("network", ["feed-forward", "lstm"])
def test_the_loss_of_a_whole_rollout_is_what_an_update_begins_with(network):
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=3)
    cfg = ppo.Config(num_steps=6, num_minibatches=1, update_epochs=1, normalize_obs=True, normalize_reward=True)
    model = nn.ActorCritic(env, key=jax.random.key(0), hidden=(8,), **NETWORKS[network])
    state, rollout = ppo.collect(ppo.init(model, env, cfg, key=jax.random.key(1)), env, cfg)
    _, metrics = ppo.update(state, rollout, cfg)
    total, _ = ppo.loss(state.model, *ppo.loss_args(state, rollout, cfg))
    assert float(total) == pytest.approx(float(metrics["train/loss"]), rel=1e-4)


def test_a_rollout_is_not_what_the_loss_of_ppo_takes():
    model, rollout, _, _ = played("discrete", "feed-forward")
    with pytest.raises(TypeError, match=r"ppo.loss: batch is a Rollout; .*ppo.loss_args\(state, rollout, cfg\)"):
        gradients.report(inspect.unwrap(ppo.loss), model, rollout, PPO)  # without the tests' type checker


@pytest.mark.parametrize("options", [{}, {"core": "lstm", "norm": "layer"}])
def test_a_critic_that_sees_more(options):
    env = rl.VecEnv(Luck(), num_envs=3)
    model = nn.PrivilegedActorCritic(env, key=jax.random.key(0), hidden=(8,), **options)
    state, rollout = ppo.collect(ppo.init(model, env, PPO, key=jax.random.key(1)), env, PPO)
    assert not alarms(gradients.report(ppo.loss, model, *ppo.loss_args(state, rollout, PPO)))
    assert not alarms(gradients.report(impala.loss, model, rollout, impala.Config()))


@pytest.mark.parametrize(("env", "network"), [("discrete", "feed-forward"), ("discrete", "lstm"), ("masked dict", "squashed")])
@pytest.mark.parametrize("options", [{}, {"upgo_coef": 1.0, "td_lambda": 0.8}])
def test_impala(env, network, options):
    model, rollout, _, _ = played(env, network)
    assert not alarms(gradients.report(impala.loss, model, rollout, impala.Config(**options)))


@pytest.mark.parametrize(
    ("env_name", "dueling", "double"), [("discrete", False, False), ("discrete", True, True), ("picture", True, False)]
)
def test_dqn_trains_the_online_network_alone(env_name, dueling, double):
    env = rl.VecEnv(ENVS[env_name](), num_envs=3)
    keys = jax.random.split(jax.random.key(0), 2)
    online, target = (nn.QNetwork(env, key=key, hidden=(8,), dueling=dueling) for key in keys)
    _, rollout, _, _ = played(env_name, "feed-forward")
    n, num_actions = 12, int(env.single_action_space.n)
    obs, next_obs = (x.reshape(-1, *x.shape[2:])[:n] for x in (rollout.obs, rollout.next_obs))
    action, reward = jnp.arange(n, dtype=jnp.int32) % num_actions, jnp.arange(n) / n
    mask = jnp.ones((n, num_actions), bool).at[:, 0].set(False)
    batch = rl.collect.Transition(obs, action, reward, jnp.full(n, 0.9), next_obs, mask)
    loss = lambda nets, batch: dqn.loss(nets["online"], nets["target"], batch, dqn.Config(double=double))  # noqa: E731
    gradients.assert_flow(loss, {"online": online, "target": target}, batch, not_reaches="target")
    assert not alarms(gradients.report(loss, {"online": online, "target": target}, batch), unless=["target"])


@pytest.mark.parametrize("env", ["discrete", "continuous", "multi-discrete", "masked dict"])
def test_bc_trains_all_but_the_critic(env):
    model, rollout, _, _ = played(env, "squashed" if env == "masked dict" else "feed-forward")
    data = bc.from_rollouts(rollout)
    report = gradients.report(bc.loss, model, data, bc.Config())
    critic = ("value.", "trunks.1.")
    assert not alarms(report, unless=critic)
    assert {gradient.status for gradient in report if gradient.name.startswith(critic)} == {"disconnected"}


@pytest.mark.parametrize("env", ["discrete", "continuous", "multi-discrete", "masked dict"])
def test_distillation(env):
    network = "squashed" if env == "masked dict" else "feed-forward"
    model, rollout, _, _ = played(env, network)
    data = bc.from_rollouts(rollout)
    targets = distill.label(model, data.obs, data.mask)
    student = jax.tree.map(lambda x: x + 0.1 if eqx.is_inexact_array(x) else x, model)
    cfg = distill.Config(temperature=2.0, hard_weight=0.5, value_weight=0.5)
    assert not alarms(gradients.report(distill.loss, student, targets, cfg))


def test_a_weight_of_zero_is_merely_zero():
    model, rollout, _, _ = played("discrete", "feed-forward")
    data = bc.from_rollouts(rollout)
    report = gradients.report(distill.loss, model, distill.label(model, data.obs), distill.Config(hard_weight=1.0))
    assert not alarms(report)
    assert report["value.weight"].status == "zero"
    assert "vanishes in mul at rl4jax/algo/distill.py" in report["value.weight"].cause


@pytest.mark.parametrize(
    "loss",
    [
        lambda w, x: losses.value_loss(x @ w[:, 0], jnp.ones(5)),
        lambda w, x: losses.policy_loss_discrete(x @ w, jnp.arange(5) % 3, None, jnp.arange(5.0)),
        lambda w, x: losses.policy_loss_discrete(x @ w, jnp.zeros(5, int), jnp.ones((5, 3), bool).at[:, 2].set(False), jnp.arange(5.0)),
        lambda w, x: losses.policy_loss_continuous(x @ w, jnp.ones((5, 3)), jnp.arange(5.0)),
        lambda w, x: losses.multi_head_value_loss(x @ w, jnp.ones((5, 3))),
        lambda w, x: losses.multi_head_value_loss(x @ w, jnp.ones((5, 3)), jnp.arange(3.0)),
    ],
)
def test_losses_for_algorithms_of_your_own(loss, getkey):
    assert gradients.report(loss, jax.random.normal(getkey(), (2, 3)), jax.random.normal(getkey(), (5, 2))).ok


@pytest.mark.parametrize("env", ["discrete", "picture"])
def test_the_predictor_of_rnd(env, getkey):
    explorer = rl.collect.RND(rl.VecEnv(ENVS[env](), num_envs=3), key=getkey(), hidden=(8,))
    _, rollout, _, _ = played(env, "feed-forward")
    obs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]).astype(jnp.float32), rollout.next_obs)

    def loss(nets, obs):
        return jnp.square(jax.vmap(nets["predictor"])(obs) - jax.lax.stop_gradient(jax.vmap(nets["target"])(obs))).mean()

    nets = {"predictor": explorer.predictor, "target": explorer.target}
    gradients.assert_flow(loss, nets, obs, not_reaches="target")
    assert not alarms(gradients.report(loss, nets, obs), unless=["target"])


@pytest.mark.parametrize(
    "pi",
    [
        lambda x: nn.Categorical(x),
        lambda x: nn.Categorical(x).masked(jnp.array([True, True, False, True])),
        lambda x: nn.MultiCategorical(x, (1, 3)),
        lambda x: nn.Normal(x[:2], x[2:]),
        lambda x: nn.TanhNormal(x[:2], x[2:], -1.0, 1.0),
        lambda x: nn.Composite({"a": nn.Categorical(x[:2]), "b": nn.Normal(x[2:3], x[3:])}),
    ],
)
@pytest.mark.parametrize("verb", ["log_prob", "entropy", "kl"])
def test_distributions(pi, verb, getkey):
    other = pi(jnp.array([0.1, 0.2, 0.3, 0.4]))
    action = jax.tree.map(lambda x: x + 0.1 if jnp.issubdtype(x.dtype, jnp.inexact) else x, other.sample(getkey()))
    of = {"log_prob": lambda pi: pi.log_prob(action), "entropy": lambda pi: pi.entropy(action), "kl": lambda pi: pi.kl(other, action)}[verb]
    assert gradients.report(lambda x: of(pi(x)), jnp.array([0.5, -0.5, 0.25, 1.0])).ok


def test_a_custom_space_of_bounded_and_unbounded_parts(getkey):
    space = spaces.Dict(go=spaces.Discrete(3), turn=spaces.Box(-1, 1, (2,), np.float32))
    head = nn.ActionHead(space, 4, key=getkey())
    x, action = jax.random.normal(getkey(), (4,)), {"go": jnp.int32(1), "turn": jnp.array([0.1, -0.2])}
    assert not alarms(gradients.report(lambda head: -head(x).log_prob(action), head))


ENTITIES = jnp.sin(jnp.arange(20.0).reshape(5, 4))
PRESENT = jnp.array([True, True, False, True, True])
VECTOR, OTHER = jnp.array([0.5, -1.0, 2.0, 0.1]), jnp.array([1.0, 2.0, -1.0])
SPACE = spaces.Dict(
    image=spaces.Box(0, 255, (8, 8, 1), np.uint8), units=spaces.Box(-9, 9, (5, 4), np.float32), units_mask=spaces.MultiBinary(5)
)
PARTS = {
    "MLP": (lambda key: nn.MLP(4, (8, 8), key=key), lambda net: net(VECTOR)),
    "MLP with a norm": (lambda key: nn.MLP(4, (8, 8), norm="rms", key=key), lambda net: net(VECTOR)),
    "CNN": (lambda key: nn.CNN((8, 8, 1), 6, key=key), lambda net: net(jnp.arange(64, dtype=jnp.uint8).reshape(8, 8, 1))),
    "CNNDecoder": (lambda key: nn.CNNDecoder(4, (8, 8, 1), key=key), lambda net: net(VECTOR)),
    "LSTM": (lambda key: nn.LSTM(4, 6, key=key), lambda core: unroll(core)),
    "GRU": (lambda key: nn.GRU(4, 6, key=key), lambda core: unroll(core)),
    "BlockGRU": (lambda key: nn.BlockGRU(4, 6, 3, key=key), lambda core: unroll(core)),
    "MultiHeadAttention": (lambda key: nn.MultiHeadAttention(4, 2, key=key), lambda net: net(ENTITIES, mask=PRESENT)),
    "TransformerEncoder": (lambda key: nn.TransformerEncoder(4, 2, 2, key=key), lambda net: net(ENTITIES, PRESENT)),
    "AttentionPool": (lambda key: nn.AttentionPool(4, 2, key=key), lambda net: net(ENTITIES, PRESENT)),
    "TargetAttention": (lambda key: nn.TargetAttention(3, 4, key=key), lambda net: net(OTHER, ENTITIES, PRESENT)),
    "PointerNet": (lambda key: nn.PointerNet(3, 4, 6, key=key), lambda net: net(OTHER, ENTITIES, PRESENT)),
    "PointerSequence": (
        lambda key: nn.PointerSequence(3, 4, 6, key=key),
        lambda net: net(OTHER, ENTITIES, 3, PRESENT).log_prob((jnp.int32(0), jnp.int32(3), jnp.int32(5))),
    ),
    "GroupTransformer": (
        lambda key: nn.GroupTransformer({"mine": ["theirs"], "theirs": []}, 4, 2, 1, key=key),
        lambda net: net({"mine": ENTITIES, "theirs": ENTITIES[:3]}),
    ),
    "SetEncoder": (lambda key: nn.SetEncoder(4, 6, key=key), lambda net: net(ENTITIES, PRESENT)),
    "MultiEncoder": (lambda key: nn.MultiEncoder(SPACE, d_image=6, d_entity=6, key=key), lambda net: net(seen())),
    "FiLM": (lambda key: nn.FiLM(3, 4), lambda net: net(VECTOR, OTHER)),
    "ZConditioning": (lambda key: nn.ZConditioning(3, 4, 6, key=key), lambda net: net(VECTOR, OTHER)),
    "BetaVAE": (lambda key: nn.BetaVAE(4, key=key, latent_dim=2, hidden_dim=6), lambda net: net.loss(VECTOR, key=jax.random.key(9))[0]),
    "TwoHot": (lambda key: jax.random.normal(key, (9,)), lambda logits: nn.TwoHot(logits).log_prob(jnp.array(3.0))),
}


def unroll(core):
    """A core along a few steps."""

    def step(carry, x):
        features, carry = core(x, carry)
        return carry, features

    return jax.lax.scan(step, core.initial_carry(), ENTITIES)[1]


def seen():
    return {"image": jnp.arange(64, dtype=jnp.uint8).reshape(8, 8, 1), "units": ENTITIES, "units_mask": PRESENT.astype(jnp.int8)}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_networks(name, getkey):
    build, use = PARTS[name]

    def loss(net):
        return sum(jnp.sin(1.0 + x).sum() for x in jax.tree.leaves(use(net)))

    report = gradients.report(loss, build(getkey()))
    assert not alarms(report)
    assert report.ok
