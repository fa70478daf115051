"""What holds for every distribution."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax.nn.distributions as d
from tests.fresh_process import run
from tests.nn.distributions.oracles import all_finite, log_probs, measures, samples

BUILDERS = {
    "Categorical": (lambda x: d.Categorical(x), 5),
    "MultiCategorical": (lambda x: d.MultiCategorical(x, (3, 2, 4)), 9),
    "equal MultiCategorical": (lambda x: d.MultiCategorical(x, (2, 2, 2, 2), (2, 2)), 8),
    "EpsilonGreedy": (lambda x: d.EpsilonGreedy(x, jnp.float32(0.3)), 4),
    "Normal": (lambda x: d.Normal(x[:3], 0.3 * x[3]), 4),
    "TanhNormal": (lambda x: d.TanhNormal(x[:2], 0.3 * x[2:], -2.0, 3.0), 4),
    "Composite dict": (lambda x: d.Composite({"b": d.Normal(x[:2], x[2:4]), "a": d.Categorical(x[4:])}), 7),
    "Composite tuple": (lambda x: d.Composite((d.TanhNormal(x[:1], x[1:2], 0.0, 1.0), d.MultiCategorical(x[2:], (2, 3)))), 7),
}
ALL = pytest.mark.parametrize(("build", "size"), BUILDERS.values(), ids=BUILDERS)


@ALL
def test_entropy_and_kl_are_means_over_samples(build, size, getkey):
    p, q = 0.7 * jax.random.normal(getkey(), (2, size))
    pi, other = build(p), build(q)
    drawn = samples(pi, jax.random.split(getkey(), 8192))
    log_p, log_q = np.asarray(log_probs(pi, drawn)), np.asarray(log_probs(other, drawn))
    out = measures(pi, other, jax.tree.map(lambda x: x[0], drawn))
    error = 5 / np.sqrt(len(log_p))
    assert abs(out["entropy"] + log_p.mean()) < error * log_p.std() + 1e-3
    assert abs(out["kl"] - (log_p - log_q).mean()) < error * (log_p - log_q).std() + 1e-3


@ALL
def test_noise_is_known_before_the_parameters(build, size, getkey):
    shapes, key = jax.eval_shape(build, jnp.zeros(size)), getkey()
    pi = build(jax.random.normal(getkey(), (size,)))
    early, late = pi.sample_from(shapes.noise(jax.random.clone(key))), pi.sample(key)
    assert jax.tree.all(jax.tree.map(np.array_equal, early, late))


def everything(build, p, q, key):
    pi, other = build(p), build(q)
    action = pi.sample(key)
    values = {"log_prob": pi.log_prob(action), "entropy": pi.entropy(action), "kl": pi.kl(other, action), "to itself": pi.kl(pi, action)}
    return {"sample": action, "mode": pi.mode()}, values


def everything_and_gradients(build, p, q, key):
    def total(p, q, action):
        pi, other = build(p), build(q)
        return pi.log_prob(action) + pi.entropy(action) + pi.kl(other, action)

    return everything(build, p, q, key), jax.grad(total, (0, 1))(p, q, build(q).mode())


@ALL
def test_a_batch_agrees_with_single_calls_and_is_finite_and_kl_is_a_divergence(build, size, getkey):
    batched = jax.jit(jax.vmap(functools.partial(everything_and_gradients, build)))  # compiled once for all that follows
    p, q = jax.random.normal(getkey(), (2, 64, size))
    keys = jax.random.split(getkey(), 64)
    (actions, values), _ = batched(p, q, keys)
    alone = jax.jit(functools.partial(everything, build))(p[1], q[1], jax.random.clone(keys)[1])
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y[1], rtol=1e-4, atol=1e-4), alone, (actions, values))
    assert all(x.dtype in (jnp.float32, jnp.int32) for x in jax.tree.leaves(actions))
    assert all((x.shape, x.dtype) == ((64,), jnp.float32) for x in values.values())
    assert jax.tree.structure(actions["sample"]) == jax.tree.structure(actions["mode"])

    assert (values["to itself"] == 0).all()
    assert (values["kl"] >= 0).all()
    assert (values["kl"] > 0).mean() > 0.5  # greedy ones are equal where their best choices are
    near = batched(p, p + 1e-4, jax.random.split(getkey(), 64))[0][1]["kl"]
    assert (near > -1e-5).all()

    for scale in (1e2, 1e4):  # as from a network that went astray
        assert all_finite(batched(scale * p, scale * q, jax.random.split(getkey(), 64)))


def test_compiled_and_plain_calls_agree(getkey):
    key, p = getkey(), jnp.array([0.5, -1.0, 2.0])
    program = functools.partial(everything, lambda x: d.Composite((d.Categorical(x), d.Normal(x, x))))
    plain, compiled = program(p, -p, key), jax.jit(program)(p, -p, jax.random.clone(key))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), plain, compiled)


@ALL
def test_no_mask_changes_nothing(build, size):
    pi = build(jnp.zeros(size))
    assert pi.masked(None) is pi


CASES = {
    "d.Categorical(jnp.zeros((8, 3)))": "ShapeError: Categorical.logits has shape (8, 3); it must have one axis. For a batch use jax.vmap",
    "d.Categorical(jnp.zeros(3)).log_prob(jnp.zeros(8, int))": "Categorical.log_prob: action has shape (8,); it must be (). For a batch use jax.vmap.",
    "d.Categorical(jnp.zeros(3)).masked(jnp.ones(3))": "ShapeError: Categorical.masked: mask is float32 (3,); it must be bool (3,), true where allowed.",
    "d.Categorical(jnp.zeros(3)).masked(jnp.ones(4, bool))": "mask is bool (4,); it must be bool (3,)",
    "d.Categorical(jnp.zeros(3)).kl(d.Normal(jnp.zeros(3), jnp.zeros(3)))": "TypeError: Categorical.kl: other is a Normal; it must be a Categorical too.",
    "d.Categorical(jnp.zeros(3)).kl(d.Categorical(jnp.zeros(1)))": "Categorical.kl: other has size 1, self 3; both must have the same action space.",
    "d.MultiCategorical(jnp.zeros(6), (3, 2))": "MultiCategorical.logits has shape (6,); nvec = (3, 2) needs (5,), all heads in a row.",
    "d.MultiCategorical(jnp.zeros(5), (3, 2), (3,))": "MultiCategorical.shape = (3,) must hold 2 actions, one per head of nvec = (3, 2).",
    "d.MultiCategorical(jnp.zeros(0), ())": "ConfigError: MultiCategorical.nvec = () must be a tuple of positive integers, one per head.",
    "d.MultiCategorical(jnp.zeros(5), (3, 2)).kl(d.MultiCategorical(jnp.zeros(5), (2, 3)))": "other.nvec = (2, 3) and self.nvec = (3, 2) must be the same.",
    "d.Normal(jnp.zeros(3), jnp.zeros(2))": "Normal.log_std has shape (2,); it must be that of mean, (3,), or broadcast to it.",
    "d.Normal(jnp.zeros(3), jnp.zeros((2, 3)))": "Normal.log_std has shape (2, 3); it must be that of mean, (3,)",
    "d.Normal(jnp.zeros(3), jnp.zeros(3)).log_prob(jnp.zeros((8, 3)))": "Normal.log_prob: action has shape (8, 3); it must be (3,). For a batch",
    "d.Normal(jnp.zeros(3), jnp.zeros(3)).masked(jnp.ones(3, bool))": "ShapeError: Normal.masked: mask has shape (3,); continuous actions cannot be masked.",
    "d.Normal(jnp.zeros((1, 4)), jnp.zeros(4)).kl(d.Normal(jnp.zeros((4, 1)), jnp.zeros(1)))": "other.mean has shape (4, 1); it must be (1, 4), as of self.",
    "d.TanhNormal(jnp.zeros(1), jnp.zeros(1), -1.0, 1.0).masked(jnp.ones(1, bool))": "TanhNormal.masked: mask has shape (1,); continuous actions cannot",
    "d.TanhNormal(jnp.zeros(1), jnp.zeros(1), -np.inf, 1.0)": "ConfigError: TanhNormal.low = -inf must be finite. For actions without bounds use Normal.",
    "d.TanhNormal(jnp.zeros(1), jnp.zeros(1), 1.0, 1.0)": "TanhNormal.low = 1.0 must be less than high = 1.0 everywhere.",
    "d.TanhNormal(jnp.zeros(1), jnp.zeros(1), np.zeros(2), 1.0)": "TanhNormal.low has shape (2,); it must be that of mean, (1,)",
    "d.TanhNormal(jnp.zeros(1), jnp.zeros(1), -1.0, 1.0).kl(d.TanhNormal(jnp.zeros(1), jnp.zeros(1), -1.0, 2.0))": "other.high = 2.0 and self.high = 1.0 must",
    "d.TwoHot(jnp.zeros(9), space='log')": "ConfigError: TwoHot.space = 'log' must be 'real' or 'symlog'.",
    "d.TwoHot(jnp.zeros(9)).loss(jnp.zeros(3))": "ShapeError: TwoHot.encode: target has shape (3,); it must be one number. For a batch use jax.vmap.",
    "d.Composite({})": "Composite.parts = {} must be a dict or tuple of at least one distribution.",
    "pi.log_prob({'b': jnp.int32(0)})": "Composite.log_prob: action is a dict with the parts ['b']; it must be a dict with ['a'].",
    "pi.log_prob((jnp.int32(0),))": "Composite.log_prob: action is a tuple with the parts [0]; it must be a dict with ['a'].",
    "pi.log_prob(jnp.int32(0))": "it must be a dict with ['a'].",
    "pi.masked(jnp.ones(2, bool))": "Composite.masked: mask is bool (2,); it must be bool (3,)",
    "pi.kl(d.Composite({'b': d.Categorical(jnp.zeros(3))}))": "Composite.kl: other has the parts ['b']; they must be ['a'], as of self.",
}  # fmt: skip


@pytest.fixture(scope="module")
def answers():
    program = (
        "import json, sys, jax, jax.numpy as jnp, numpy as np, rl4jax.nn.distributions as d\nout = {}\n"
        "pi = d.Composite({'a': d.Categorical(jnp.zeros(3))})\n"
        "for case in json.loads(sys.argv[1]):\n"
        "    try: out[case] = f'no error: {eval(case)}'\n"
        "    except Exception as error: out[case] = f'{type(error).__name__}: {error}'\n"
        "print(json.dumps(out))"
    )
    return json.loads(run(program, json.dumps(list(CASES))).stdout)


@pytest.mark.parametrize("case", CASES)
def test_the_answer_names_argument_value_rule_and_fix(case, answers):
    assert CASES[case] in answers[case]
