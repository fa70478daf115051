"""Distillation: its loss by hand, what reaches a teacher (nothing), and what a student makes of several."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import rl4jax as rl
from rl4jax import bc, distill
from rl4jax.nn.q_policy import QPolicy
from tests.algo.small import Mixed, started
from tests.algo.tables import Head, Table, softmax

TEACHER = np.array([[2.0, 0.5, -1.0], [0.0, 1.0, 3.0]])
STUDENT = np.array([[0.2, 0.4, 0.1], [1.0, -0.5, 0.0]])
VALUES, GUESSES = np.array([3.0, -1.0]), np.array([1.0, 0.5])
OBS = np.array([0, 1, 1])


def targets(mask=None):
    return distill.label(Table(TEACHER, VALUES), jnp.asarray(OBS), mask)


def by_hand(cfg, mask=True):
    """Soft, hard and value loss in NumPy, from the formulas on the page."""
    soft_teacher, soft_student = (softmax(x[OBS] / cfg.temperature, mask) for x in (TEACHER, STUDENT))
    terms = np.where(
        soft_teacher > 0, soft_teacher * np.log(np.where(soft_teacher > 0, soft_teacher, 1) / np.maximum(soft_student, 1e-300)), 0
    )
    soft = terms.sum(-1).mean() * (cfg.temperature**2 if cfg.t_squared else 1)
    choice = np.where(mask, TEACHER[OBS], -np.inf).argmax(-1)
    hard = -np.log(softmax(STUDENT[OBS], mask)[np.arange(3), choice]).mean()
    return soft, hard, ((GUESSES - VALUES)[OBS] ** 2).mean()


@pytest.mark.parametrize(
    "cfg",
    [
        distill.Config(),
        distill.Config(temperature=2.0, hard_weight=0.5, value_weight=0.25),
        distill.Config(temperature=5.0, soft_weight=0.3, hard_weight=1.0, t_squared=False),
        distill.Config(soft_weight=0.0, hard_weight=1.0),
        distill.Config(soft_weight=0.0, value_weight=2.0),
    ],
    ids=["default", "all", "unscaled", "hard", "value"],
)
@pytest.mark.parametrize("mask", [None, np.array([[True, True, False], [True, True, False], [False, True, True]])], ids=["free", "masked"])
def test_the_loss_is_the_one_worked_out_by_hand(cfg, mask):
    soft, hard, value = by_hand(cfg, True if mask is None else mask)
    loss, metrics = distill.loss(Table(STUDENT, GUESSES), targets(mask), cfg)
    assert float(loss) == pytest.approx(cfg.soft_weight * soft + cfg.hard_weight * hard + cfg.value_weight * value, rel=1e-5)
    got = [float(metrics[f"train/{name}_loss"]) for name in ("soft", "hard", "value")]
    assert got == pytest.approx([soft, hard, value], rel=1e-5)


def test_the_numbers_of_one_observation_are_these():
    """Teacher logits 2, 0.5, -1, value 3; student 0.2, 0.4, 0.1, value 1. Golden numbers, worked out with `math.exp` and `math.log`.

    At temperature 2 the teacher has 0.589798 0.278601 0.131602, the student 0.327182 0.361592 0.311225.
    """
    one = jax.tree.map(lambda x: x[:1], targets())
    for cfg, soft, total in (
        (distill.Config(), 0.4870996, 0.4870996),
        (distill.Config(temperature=2.0, t_squared=False), 0.1616291, 0.1616291),
        (distill.Config(temperature=2.0, hard_weight=0.5, value_weight=0.25), 0.6465166, 2.2164321),
    ):
        loss, metrics = distill.loss(Table(STUDENT, GUESSES), one, cfg)
        assert float(metrics["train/soft_loss"]) == pytest.approx(soft, abs=1e-6)
        assert float(metrics["train/hard_loss"]) == pytest.approx(1.1398311, abs=1e-6)
        assert float(metrics["train/value_loss"]) == 4.0
        assert float(metrics["train/agreement"]) == 0.0, "the student prefers the second"
        assert float(loss) == pytest.approx(total, abs=1e-6)


def test_the_soft_gradient_is_the_difference_of_the_tempered_probabilities():
    cfg = distill.Config(temperature=3.0)
    got = jax.grad(lambda x: distill.loss(Table(x, GUESSES), targets(), cfg)[0])(jnp.asarray(STUDENT, jnp.float32))
    each = 3.0 * (softmax(STUDENT / 3) - softmax(TEACHER / 3))  # T^2 / T
    np.testing.assert_allclose(got, each * np.array([[1 / 3], [2 / 3]]), atol=1e-5)


def test_no_gradient_reaches_the_teacher():
    cfg = distill.Config(temperature=2.0, hard_weight=0.5, value_weight=0.5)

    def whole(both):
        return distill.loss(both["student"], distill.label(both["teacher"], jnp.asarray(OBS)), cfg)[0]

    env = rl.VecEnv(rl.envs.ProbeContext(), 1)  # also a network, with names
    nets = {name: rl.nn.ActorCritic(env, key=jax.random.key(i), hidden=(8,)) for i, name in enumerate(("teacher", "student"))}
    obs = jax.random.normal(jax.random.key(5), (6, *env.single_observation_space.shape))
    grads = eqx.filter_grad(lambda both: distill.loss(both["student"], distill.label(both["teacher"], obs), cfg)[0])(nets)
    named = rl.nn.pack(grads).params
    assert all((x == 0).all() for name, x in named.items() if name.startswith("teacher"))
    assert all((x != 0).any() for name, x in named.items() if name.startswith("student"))

    tables = jax.grad(whole)({"teacher": Table(TEACHER, VALUES), "student": Table(STUDENT, GUESSES)})
    assert (tables["teacher"].logits == 0).all()
    assert (tables["teacher"].value == 0).all()
    assert (tables["student"].logits != 0).all()
    assert (tables["student"].value != 0).all()


def test_targets_made_by_hand_are_detached_too():
    def through(logits):
        made = distill.Targets(jnp.asarray(OBS), None, jax.vmap(rl.nn.Categorical)(logits[OBS]), jnp.zeros(3))
        return distill.loss(Table(STUDENT), made, distill.Config())[0]

    assert (jax.grad(through)(jnp.asarray(TEACHER, jnp.float32)) == 0).all()


def test_the_square_of_the_temperature_keeps_gradients_at_their_size():
    def size(temperature, t_squared):
        cfg = distill.Config(temperature=temperature, t_squared=t_squared)
        return float(jnp.linalg.norm(jax.grad(lambda x: distill.loss(Table(x), targets(), cfg)[0])(jnp.asarray(STUDENT, jnp.float32))))

    cold = size(1.0, True)
    for hot in (4.0, 16.0):
        assert size(hot, True) == pytest.approx(hot**2 * size(hot, False), rel=1e-4)
        assert 0.5 * cold < size(hot, True) < 3 * cold
    assert size(16.0, False) < 0.02 * cold


def test_a_great_temperature_matches_centred_logits():
    """Hinton et al., section 2.1: the gradient tends to the difference of the logits, each minus its mean, divided by their number."""
    one = jax.tree.map(lambda x: x[:1], targets())
    cfg = distill.Config(temperature=1000.0)
    got = jax.grad(lambda x: distill.loss(Table(x), one, cfg)[0])(jnp.asarray(STUDENT, jnp.float32))[0]
    centred = (STUDENT - STUDENT.mean(1, keepdims=True)) - (TEACHER - TEACHER.mean(1, keepdims=True))
    np.testing.assert_allclose(got, centred[0] / 3, rtol=0.05, atol=1e-2)


def test_continuous_and_composite_policies_are_compared_in_their_own_terms():
    def build(x):
        box = rl.nn.TanhNormal(x[3:4], x[4:5], -2.0, 2.0)
        return rl.nn.Composite({"go": rl.nn.Categorical(x[:3]), "push": box, "x": rl.nn.Normal(x[5:6], x[6:7])})

    teacher, student = (Head(jnp.asarray(x, jnp.float32), build) for x in ([1, 0, 0, 0.5, 0, 1, 0.2], [0, 0, 1, 0, -0.5, 0, 0]))
    made = distill.label(teacher, jnp.zeros((4, 1)))
    _, metrics = distill.loss(student, made, distill.Config(temperature=2.0))
    choices, others = softmax(np.array([1, 0, 0]) / 2), softmax(np.array([0, 0, 1]) / 2)
    kl = (choices * np.log(choices / others)).sum()
    for mean, log_std, other_mean, other_log_std in ((0.5, 0, 0, -0.5), (1, 0.2, 0, 0)):
        var, other_var = 2 * np.exp(2 * log_std), 2 * np.exp(2 * other_log_std)
        kl += 0.5 * np.log(other_var / var) + (var + (mean - other_mean) ** 2) / (2 * other_var) - 0.5
    assert float(metrics["train/soft_loss"]) == pytest.approx(4 * kl, rel=1e-5)
    assert float(metrics["train/agreement"]) == 0
    assert float(metrics["train/mse"]) == pytest.approx(((2 * np.tanh(0.5)) ** 2 + 1) / 2, rel=1e-5)


def test_labels_are_what_the_teacher_says_at_each_observation(monkeypatch):
    monkeypatch.setattr(distill.epochs, "AT_ONCE", 4)
    env = rl.VecEnv(Mixed(), num_envs=3)
    cfg = rl.ppo.Config(num_steps=3, num_minibatches=1)
    state = started(env, cfg, squash=True)
    data = bc.from_rollouts(rl.ppo.collect(state, env, cfg)[1])
    made = distill.label(state.policy, data.obs, data.mask)
    for i in (0, 8):
        one = jax.tree.map(lambda x, i=i: x[i], made)
        pi, value = state.policy(one.obs)
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), (one.pi, one.value), (pi.masked(data.mask[i]), value))
    loss, metrics = distill.loss(state.policy, made, distill.Config(hard_weight=0.0, value_weight=1.0))
    assert float(loss) == pytest.approx(0, abs=1e-6), "of a policy from itself"
    assert float(metrics["train/agreement"]) == 1
    assert set(metrics) >= {"train/agreement/move/0", "train/agreement/pair/0", "train/mse"}


class Specialist(eqx.Module):
    """Knows what to do on its side of zero, and does the opposite on the other."""

    side: int = eqx.field(static=True)

    def __call__(self, obs):
        right = obs[1] > 0
        best = jnp.where(jnp.sign(obs[0]) == self.side, right, ~right)
        return rl.nn.Categorical(jnp.where(best, jnp.array([-2.0, 2.0]), jnp.array([2.0, -2.0]))), obs[0] * 3


def test_a_student_of_two_specialists_is_good_at_both():
    obs = jax.random.normal(jax.random.key(0), (600, 2))
    left, right = obs[obs[:, 0] < 0], obs[obs[:, 0] > 0]
    made = distill.merge([distill.label(Specialist(-1), left), distill.label(Specialist(1), right)])
    assert len(made.value) == 600
    cfg = distill.Config(temperature=2.0, value_weight=0.1, lr=1e-2, batch_size=32)
    network = eqx.nn.MLP(2, 3, 16, 1, key=jax.random.key(1))

    class Student(eqx.Module):
        net: eqx.nn.MLP

        def __call__(self, obs):
            out = self.net(obs)
            return rl.nn.Categorical(out[:2]), out[2]

    state = distill.init(Student(network), made, cfg, key=jax.random.key(2))
    state, metrics = distill.train(state, made, cfg, 15)
    assert all(x.shape == (15,) for x in metrics.values())
    assert float(metrics["eval/agreement"][-1]) > 0.9
    assert float(metrics["eval/value_loss"][-1]) < 0.1 * float(metrics["eval/value_loss"][0]) + 0.1
    truth = np.asarray(obs[:, 1] > 0)
    chosen = np.asarray(jax.vmap(lambda o: state.policy(o)[0].mode())(obs))
    for here in (np.asarray(obs[:, 0] < 0), np.asarray(obs[:, 0] > 0)):
        assert (chosen[here] == truth[here]).mean() > 0.9, "where each is the expert"
        for side in (-1, 1):  # a specialist alone is right in one half and wrong in the other
            alone = np.asarray(jax.vmap(lambda o, side=side: Specialist(side)(o)[0].mode())(obs))
            assert (alone[here] == truth[here]).mean() in (0.0, 1.0)


@pytest.mark.parametrize(("weights", "moves"), [({"soft_weight": 1.0}, True), ({"soft_weight": 0.0, "value_weight": 1.0}, False)])
def test_a_step_moves_what_its_weights_ask_for(weights, moves):
    cfg, opt = distill.Config(**weights), optax.sgd(0.1)
    state = distill.init(Table(STUDENT, GUESSES), targets(), cfg, key=jax.random.key(0), opt=opt)
    after, metrics = distill.update(state, targets(), cfg, opt)
    assert (not np.allclose(after.model.logits, STUDENT)) == moves
    assert np.allclose(after.model.value, GUESSES) == moves
    assert float(metrics["train/skipped"]) == 0


def test_value_distillation_finds_the_teacher_values():
    cfg, opt = distill.Config(soft_weight=0.0, value_weight=1.0, holdout=0.0, batch_size=3), optax.sgd(0.3)
    state = distill.init(Table(STUDENT, GUESSES), targets(), cfg, key=jax.random.key(0), opt=opt)
    state, metrics = distill.train(state, targets(), cfg, 60, opt)
    np.testing.assert_allclose(state.model.value, VALUES, atol=1e-3)
    np.testing.assert_allclose(metrics["train/value_loss"][-1], 0, atol=1e-5)


def test_a_q_network_can_teach_a_policy():
    class Q(eqx.Module):
        def __call__(self, obs):
            return jnp.asarray(TEACHER, jnp.float32)[obs]

    made = distill.label(QPolicy(Q(), jnp.array(0.3)), jnp.asarray(OBS))
    loss, _ = distill.loss(Table(STUDENT), made, distill.Config())
    best = np.log(softmax(STUDENT[OBS]))[np.arange(len(OBS)), TEACHER[OBS].argmax(-1)]
    assert float(loss) == pytest.approx(-best.mean(), rel=1e-5), "its best choices, whatever its epsilon"
    together = distill.merge([made, targets()])
    assert together.value.shape == (2 * len(OBS),), "and beside a policy of another kind"


def test_teacher_and_student_must_have_the_same_actions():
    cfg = distill.Config()
    said = "the teacher has a Categorical of 3, actions int32[]; the student a Categorical of 4, actions int32[]. Both must have the same"
    for call in (distill.loss, lambda *args: distill.init(*args, key=jax.random.key(0))):
        with pytest.raises(rl.ShapeError, match=re.escape(said)):
            call(Table(np.zeros((2, 4))), targets(), cfg)
    normal = Head(jnp.zeros(2), lambda x: rl.nn.Normal(x[:1], x[1:]))
    with pytest.raises(rl.ShapeError, match=r"the teacher has a Categorical of 3.*the student a Normal of 1, actions float32\[1\]"):
        distill.loss(normal, targets(), cfg)
    wide, narrow = (Head(jnp.zeros(2), lambda x, high=high: rl.nn.TanhNormal(x[:1], x[1:], -1.0, high)) for high in (2.0, 1.0))
    with pytest.raises(rl.ConfigError, match=r"TanhNormal.kl: other.high = 1.0 and self.high = 2.0 must be the same"):
        distill.init(narrow, distill.label(wide, jnp.zeros((2, 1))), cfg, key=jax.random.key(0))
    mixed = distill.merge([distill.label(teacher, jnp.zeros((2, 1))) for teacher in (narrow, wide)])
    with pytest.raises(rl.ShapeError, match=r"targets.pi.high differs from teacher to teacher\. All must have the same action space"):
        distill.init(narrow, mixed, cfg, key=jax.random.key(0))


def test_a_q_network_has_no_probabilities_to_learn():
    env = rl.VecEnv(rl.envs.CartPole(), 1)
    student = QPolicy(rl.nn.QNetwork(env, key=jax.random.key(0), hidden=(8,)), jnp.array(0.1))
    made = distill.label(student, jnp.zeros((3, 4)))
    with pytest.raises(rl.ConfigError, match=r"distill.init: student: QPolicy chooses by values.*Use rl.nn.ActorCritic"):
        distill.init(student, made, distill.Config(), key=jax.random.key(0))


def test_what_does_not_fit_is_refused_with_a_reason():
    recurrent = rl.nn.ActorCritic(rl.VecEnv(rl.envs.ProbeContext(), 1), key=jax.random.key(0), hidden=(8,), core="gru")
    obs = jnp.zeros((3, *rl.envs.ProbeContext().observation_space.shape))
    with pytest.raises(rl.ConfigError, match=r"distill.label: teacher: ActorCritic is recurrent"):
        distill.label(recurrent, obs)
    with pytest.raises(rl.ConfigError, match=r"distill.loss: student: ActorCritic is recurrent"):
        distill.loss(recurrent, targets(), distill.Config())
    with pytest.raises(rl.ShapeError, match=r"distill.merge: targets\[1\] has examples .*mask='bool\[3\]'"):
        distill.merge([targets(), targets(jnp.ones((3, 3), bool))])
    with pytest.raises(rl.ConfigError, match=r"distill.Config.temperature = 0.0 must be positive"):
        distill.Config(temperature=0.0)
    with pytest.raises(rl.ConfigError, match=r"distill.Config.hard_weight = -1.0 must be zero or more"):
        distill.Config(hard_weight=-1.0)
    with pytest.raises(rl.ConfigError, match=r"value_weight = \(0.0, 0.0, 0.0\) must be positive, at least one of them"):
        distill.Config(soft_weight=0.0)


def test_temperatures_and_weights_run_side_by_side():
    def run(temperature, hard_weight):
        cfg = dataclasses.replace(distill.Config(), temperature=temperature, hard_weight=hard_weight)
        return distill.loss(Table(STUDENT, GUESSES), targets(), cfg)[0]

    together = jax.vmap(run)(jnp.array([1.0, 4.0]), jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(together, [run(1.0, 0.0), run(4.0, 1.0)], rtol=1e-5)
