"""Recurrent cores against PyTorch's (see scripts/golden_recurrent.py, which made the numbers), and sequences against single steps."""

import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import nn

CASES = json.loads((pathlib.Path(__file__).parent / "golden" / "recurrent.json").read_text())
CORES = {"lstm": nn.LSTM, "gru": nn.GRU, "block_gru": lambda *sizes, key: nn.BlockGRU(*sizes, num_blocks=2, key=key)}


def by_blocks(x, num_blocks):
    """PyTorch's order (gate, block, unit) along the last axis as ours, (block, gate, unit)."""
    return np.swapaxes(x.reshape(*x.shape[:-1], 3, num_blocks, -1), -3, -2).reshape(x.shape)


def as_ours(case, weights):
    """PyTorch's weights as ours has them. Its two biases are one here, but for gate n of a GRU."""
    w_ih, w_hh, b_ih, b_hh = (np.array(weights[f"{name}_l0"]) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    if case["cell"] == "LSTM":
        return {"weight_ih": w_ih.T, "weight_hh": w_hh.T, "bias": b_ih + b_hh}
    size = len(b_hh) // 3
    bias = b_ih + np.where(np.arange(3 * size) < 2 * size, b_hh, 0.0)
    ours = {"weight_ih": w_ih.T, "weight_hh": w_hh.T, "bias": bias, "bias_n": b_hh[2 * size :]}
    if case["num_blocks"] is None:
        return ours
    blocks, unit = case["num_blocks"], size // case["num_blocks"]
    whole = w_hh.T.reshape(blocks, unit, 3, blocks, unit)
    diagonal = np.stack([whole[k, :, :, k].reshape(unit, 3 * unit) for k in range(blocks)])
    ours["weight_hh"] = diagonal
    return ours | {name: by_blocks(ours[name], blocks) for name in ("weight_ih", "bias")}


def gradients_as_ours(case):
    """A bias of ours that is the sum of two of PyTorch's has the gradient of either."""
    gradients = {name: np.array(x) for name, x in case["gradients"].items()}
    ours = as_ours(case, gradients | {"bias_ih_l0": 0 * gradients["bias_ih_l0"]})
    bias = gradients["bias_ih_l0"]
    return ours | {"bias": bias if case["num_blocks"] is None else by_blocks(bias, case["num_blocks"])}


def golden_core(case):
    d_in, d_hidden = len(case["xs"][0][0]), len(case["carry"][0][0])
    blocks = () if case["num_blocks"] is None else (case["num_blocks"],)
    make = {"LSTM": nn.LSTM, "GRU": nn.BlockGRU if blocks else nn.GRU}[case["cell"]]
    core = make(d_in, d_hidden, *blocks, key=jax.random.key(0))
    weights = as_ours(case, case["weights"])
    assert {name: x.shape for name, x in vars(core).items()} == {name: x.shape for name, x in weights.items()}
    return eqx.tree_at(lambda c: [getattr(c, name) for name in weights], core, [jnp.array(x, jnp.float32) for x in weights.values()])


@pytest.mark.parametrize("name", CASES)
def test_sequences_and_their_gradients_are_pytorchs(name):
    case = CASES[name]
    core, xs = golden_core(case), jnp.array(case["xs"])
    carry = tuple(jnp.array(case["carry"])) if case["cell"] == "LSTM" else jnp.array(case["carry"][0])
    is_first = None if case["is_first"] is None else jnp.array(case["is_first"])

    @jax.jit
    def total(core, xs, carry):
        features, after = core.scan(xs, carry, is_first)
        return (features * jnp.array(case["cotangent"])).sum() + sum(x.sum() for x in jax.tree.leaves(after)), (features, after)

    (d_core, d_xs, d_carry), (features, after) = jax.grad(total, argnums=(0, 1, 2), has_aux=True)(core, xs, carry)
    np.testing.assert_allclose(features, case["features"], atol=1e-5)
    np.testing.assert_allclose(jnp.stack(jax.tree.leaves(after)), case["after"], atol=1e-5)
    np.testing.assert_allclose(d_xs, case["gradients"]["xs"], atol=1e-5)
    np.testing.assert_allclose(jnp.stack(jax.tree.leaves(d_carry)), case["gradients"]["carry"], atol=1e-5)
    for part, x in gradients_as_ours(case).items():
        np.testing.assert_allclose(getattr(d_core, part), x, atol=1e-5, err_msg=part)


def stepped(core, xs, carry=None, is_first=None):
    """`core.scan` as a loop of single steps, reset by hand, for one sequence."""
    carry, features = core.initial_carry() if carry is None else carry, []
    for t, x in enumerate(xs):
        if is_first is not None:
            carry = jax.tree.map(lambda fresh, old, t=t: jnp.where(is_first[t], fresh, old), core.initial_carry(), carry)
        out, carry = core(x, carry)
        features.append(out)
    return jnp.stack(features), carry


def assert_same(found, wanted, atol=1e-5):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=atol)


def played(kind, getkey, batch=()):
    """A core with biases, a sequence, the memory before it, and where episodes begin."""
    core = CORES[kind](3, 4, key=getkey())
    core = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(getkey(), x.shape), core)
    carry = jax.tree.map(lambda x: jax.random.normal(getkey(), (*batch, *x.shape)), core.initial_carry())
    return core, jax.random.normal(getkey(), (5, *batch, 3)), carry, jax.random.bernoulli(getkey(), 0.4, (5, *batch))


@pytest.mark.parametrize("kind", CORES)
def test_a_sequence_is_its_steps_and_so_is_its_gradient(kind, getkey):
    core, xs, carry, is_first = played(kind, getkey)
    weights = jax.random.normal(getkey(), (5, 4))

    def total(run):
        def of(core, xs, carry):
            features, after = run(core, xs, carry)
            return (features * weights).sum() + sum((x**2).sum() for x in jax.tree.leaves(after)), (features, after)

        return jax.jit(jax.value_and_grad(of, argnums=(0, 1, 2), has_aux=True))(core, xs, carry)

    assert_same(total(lambda core, *args: core.scan(*args, is_first)), total(lambda core, *args: stepped(core, *args, is_first)))
    assert_same(core.scan(xs), stepped(core, xs))  # from a fresh memory, without resets


@pytest.mark.parametrize("kind", CORES)
@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_batches_go_in_as_they_are_or_by_vmap(kind, batch, getkey):
    core, xs, carry, is_first = played(kind, getkey, batch)

    def mapped(core, xs, carry, is_first):
        run = lambda *args: core.scan(*args)  # noqa: E731
        for _ in batch:
            run = jax.vmap(run, in_axes=(1, 0, 1), out_axes=(1, 0))
        return run(xs, carry, is_first)

    def gradient(run):
        return jax.jit(jax.grad(lambda core: (run(core, xs, carry, is_first)[0] ** 2).sum()))(core)

    assert_same(core.scan(xs, carry, is_first), mapped(core, xs, carry, is_first))
    assert_same(gradient(lambda core, *args: core.scan(*args)), gradient(mapped), atol=1e-4)


@pytest.mark.parametrize("kind", CORES)
def test_gradients_of_each_sequence_and_of_several_networks(kind, getkey):
    core, xs, _, _ = played(kind, getkey, (2,))
    stack = lambda trees: jax.tree.map(lambda *x: jnp.stack(x), *trees)  # noqa: E731
    gradient = jax.grad(lambda core, xs: (core.scan(xs)[0] ** 2).sum())
    by_steps = jax.jit(jax.grad(lambda core, xs: (stepped(core, xs)[0] ** 2).sum()))
    of_each_sequence = jax.jit(jax.vmap(gradient, in_axes=(None, 1)))(core, xs)
    assert_same(of_each_sequence, stack([by_steps(core, xs[:, b]) for b in range(2)]))

    cores = [core, jax.tree.map(lambda x: 0.9 * x, core)]
    of_each_core = jax.jit(jax.vmap(gradient, in_axes=(0, None)))(stack(cores), xs[:, 0])
    assert_same(of_each_core, stack([by_steps(core, xs[:, 0]) for core in cores]))


@pytest.mark.parametrize("kind", CORES)
def test_second_derivatives_are_those_of_the_steps(kind, getkey):
    core, xs, _, is_first = played(kind, getkey)

    def curvature(run):
        slope = lambda xs: jax.grad(lambda xs: (run(core, xs, None, is_first)[0] ** 3).sum())(xs).ravel()  # noqa: E731
        return jax.jit(jax.jacrev(slope))(xs)

    assert_same(curvature(lambda core, *args: core.scan(*args)), curvature(stepped), atol=1e-4)


@pytest.mark.parametrize("kind", CORES)
def test_a_reset_inside_a_sequence_is_a_fresh_start(kind, getkey):
    core, xs, carry, _ = played(kind, getkey)
    is_first = jnp.arange(5) == 3
    features, after = core.scan(xs, carry, is_first)
    assert_same((features[3:], after), core.scan(xs[3:]), atol=1e-6)
    assert_same(features[:3], core.scan(xs[:3], carry)[0], atol=1e-6)

    @jax.jit
    def later(xs, carry):
        return core.scan(xs, carry, is_first)[0][3:].sum()

    d_xs, d_carry = jax.grad(later, argnums=(0, 1))(xs, carry)
    assert (d_xs[:3] == 0).all()
    assert all((x == 0).all() for x in jax.tree.leaves(d_carry))
    assert (d_xs[3:] != 0).any()
    assert_same(later(xs.at[0].set(jnp.nan), carry), later(xs, carry), atol=1e-6)
    broken = jax.grad(later)(xs.at[0].set(jnp.nan), carry)
    assert_same(broken[3:], d_xs[3:], atol=1e-6)


def test_one_block_is_a_gru(getkey):
    key = getkey()
    gru, block = nn.GRU(3, 4, key=key), nn.BlockGRU(3, 4, 1, key=jax.random.clone(key))
    assert_same((gru.weight_ih, gru.weight_hh[None], gru.bias, gru.bias_n), (block.weight_ih, block.weight_hh, block.bias, block.bias_n))
    xs = jax.random.normal(getkey(), (5, 2, 3))
    assert_same(gru.scan(xs), block.scan(xs))


def test_blocks_see_the_input_and_themselves(getkey):
    core = nn.BlockGRU(3, 8, 4, key=getkey())
    assert core.weight_hh.size == nn.GRU(3, 8, key=getkey()).weight_hh.size / 4
    assert nn.BlockGRU(3, 16, key=getkey()).weight_hh.shape == (8, 2, 6)  # DreamerV3's eight blocks, unless told otherwise
    x, h = jax.random.normal(getkey(), (3,)), jax.random.normal(getkey(), (8,))
    by_x, by_h = jax.jit(jax.jacrev(lambda x, h: core(x, h)[0], argnums=(0, 1)))(x, h)
    same_block = np.arange(8)[:, None] // 2 == np.arange(8) // 2
    assert ((np.asarray(by_h) != 0) == same_block).all()
    assert (by_x != 0).all()


def test_the_gates_of_dreamerv3():
    """Its core subtracts 1 from the update gate u, and `1 - u` is our z: without any signal, h keeps sigmoid(1) of itself."""
    core = jax.tree.map(jnp.zeros_like, nn.BlockGRU(3, 8, 4, key=jax.random.key(0)))
    bias_z = jnp.zeros((4, 3, 2)).at[:, 1].set(1.0).ravel()
    core = eqx.tree_at(lambda c: c.bias, core, bias_z)
    h = jnp.arange(1.0, 9.0)
    np.testing.assert_allclose(core(jnp.ones(3), h)[0], 0.7310586 * h, rtol=1e-6)
    np.testing.assert_allclose(core.scan(jnp.ones((2, 3)), h)[0][1], 0.7310586**2 * h, rtol=1e-6)


@pytest.mark.parametrize("kind", CORES)
def test_every_gate_begins_as_a_rotation(kind, getkey):
    core = CORES[kind](6, 4, key=getkey())
    blocks = core.weight_hh if core.weight_hh.ndim == 3 else core.weight_hh[None]
    size = blocks.shape[1]
    for gate in (gate for block in blocks for gate in np.split(np.asarray(block), block.shape[1] // size, 1)):
        np.testing.assert_allclose(gate.T @ gate, np.eye(size), atol=1e-5)
    assert (core.bias == 0).all()
    assert all((x == 0).all() for x in jax.tree.leaves(core.initial_carry()))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda key: nn.BlockGRU(3, 12, key=key),
            rl.ConfigError,
            r"num_blocks = 8 must be a divisor of d_hidden = 12\. Choose one of \[1, 2, 3",
        ),
        (lambda key: nn.BlockGRU(3, 12, 0, key=key), rl.ConfigError, r"num_blocks = 0 must be a divisor"),
        (lambda key: nn.LSTM(0, 4, key=key), rl.ConfigError, r"LSTM: d_in = 0 must be a positive integer"),
        (lambda key: nn.GRU(3, 0, key=key), rl.ConfigError, r"GRU: d_hidden = 0 must be a positive integer"),
        (lambda key: nn.GRU(3, 4, key=key).scan(jnp.ones((5, 2))), rl.ShapeError, r"GRU: xs has shape \(5, 2\); it must be \[T, 3\]"),
        (lambda key: nn.GRU(3, 4, key=key).scan(jnp.ones(3)), rl.ShapeError, r"xs has shape \(3,\)"),
        (lambda key: nn.LSTM(3, 4, key=key).scan(jnp.ones((0, 3))), rl.ShapeError, r"xs has shape \(0, 3\)"),
        (
            lambda key: nn.LSTM(3, 4, key=key).scan(jnp.ones((5, 2, 3)), None, jnp.zeros(5, bool)),
            rl.ShapeError,
            r"is_first has shape \(5,\); for xs \(5, 2, 3\) it must be \(5, 2\)",
        ),
        (
            lambda key: nn.LSTM(3, 4, key=key).scan(jnp.ones((5, 2, 3)), (jnp.zeros(4), jnp.zeros(4))),
            rl.ShapeError,
            r"carry has shape \(\(4,\), \(4,\)\); it must be \(\(2, 4\), \(2, 4\)\) for a batch \(2,\), one for each sequence\. Leave it out",
        ),
        (
            lambda key: nn.LSTM(3, 4, key=key)(jnp.ones(3), jnp.zeros(4)),
            rl.ShapeError,
            r"LSTM: carry has shape \(4,\); it must be \(\(4,\), \(4,\)\), as initial_carry\(\) gives it",
        ),
    ],
)
def test_bad_cores_and_sequences_are_refused(call, error, said, getkey):
    with pytest.raises(error, match=said):
        call(getkey())


@pytest.mark.parametrize("kind", CORES)
def test_a_batch_or_another_width_of_one_step_is_refused(kind, getkey):
    core = CORES[kind](3, 4, key=getkey())
    name = type(core).__name__
    for x in (jnp.ones((7, 3)), jnp.ones(4)):
        with pytest.raises(rl.ShapeError, match=rf"{name}: x has shape .*; it must be \(3,\)\. For a batch use jax\.vmap"):
            core(x, core.initial_carry())
    with pytest.raises(rl.ShapeError, match=rf"{name}: carry has shape .*5.*; it must be .*4.*, as initial_carry\(\) gives it"):
        core(jnp.ones(3), jax.tree.map(lambda x: jnp.zeros(5), core.initial_carry()))


@pytest.mark.parametrize("cell", CORES)
def test_gradients_are_as_precise_as_the_weights(cell):
    core = CORES[cell](3, 4, key=jax.random.key(0))
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), core)
    grads = jax.grad(lambda core: core.scan(jnp.ones((2, 5, 3)))[0].sum())(half)
    assert {x.dtype for x in jax.tree.leaves(grads)} == {jnp.dtype(jnp.bfloat16)}
    assert core.scan(jnp.zeros((2, 0, 3)))[0].shape == (2, 0, 4)
