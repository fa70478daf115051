"""`report` names the right cause of each fault, and points to its line."""

import io
import json
import linecache
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console

import rl4jax as rl
from rl4jax import gradients
from rl4jax.gradients import source
from tests.gradients import faults
from tests.gradients.faults import FAULTS, Straight


@pytest.mark.parametrize("name", FAULTS)
def test_the_right_cause_is_named(name):
    fault = FAULTS[name]
    report = gradients.report(fault.loss, fault.model)
    if fault.status == "loss":
        cause = str(report.causes[0])
    else:
        assert report["w"].status == fault.status, report["w"]
        cause = report["w"].cause
    assert fault.what in cause
    if fault.line:
        file, line = re.search(r"(\S+):(\d+)", cause).groups()
        assert file == "faults.py"
        assert fault.line in linecache.getline(faults.__file__, int(line)), f"line {line}"
    assert report.ok == (fault.status == "zero")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Files of tests are then shown by their name."""
    monkeypatch.chdir(tmp_path)


def test_the_other_parameter_of_each_fault_is_in_order():
    for name in ("stop_gradient_in_the_middle", "the_best_action", "blocked_inside_scan", "dead_relu", "untaken_branch"):
        report = gradients.report(FAULTS[name].loss, {"w": faults.X, "v": faults.X + 3.0})
        assert report["v"].flows, name


def small(w, x, key=None):
    """A loss with one parameter of each kind."""
    total = jnp.square(w["layers"][0] @ x).sum() + jnp.round(w["rounded"])
    return total + (0 * w["zero"]).sum(), {"aux": w["unused"]}


@pytest.fixture
def report():
    weights = {"layers": [jnp.ones((2, 3))], "rounded": jnp.array(1.5), "zero": jnp.ones(2), "unused": jnp.ones(4)}
    return gradients.report(small, weights | {"count": jnp.arange(3), "name": "small", "fixed": 1.5}, jnp.arange(3.0))


def test_parameters_are_arrays_of_floats_named_by_the_way_to_them(report):
    assert [gradient.name for gradient in report] == ["layers.0", "rounded", "unused", "zero"]
    assert [gradient.shape for gradient in report] == [(2, 3), (), (4,), (2,)]
    assert len(report) == 4


def test_norms_and_shares(report):
    gradient = 2 * np.outer([3, 3], [0, 1, 2])
    assert report["layers.0"].norm == pytest.approx(np.linalg.norm(gradient))
    assert report.norm == pytest.approx(np.linalg.norm(gradient))
    assert report["layers.0"].share == pytest.approx(1.0)
    assert report.loss == pytest.approx(2 * 9 + 2)


def test_norms_agree_with_jax(getkey):
    mlp = eqx.nn.MLP(3, 1, 8, 2, key=getkey())
    x = jax.random.normal(getkey(), (5, 3))
    loss = lambda mlp, x: jnp.square(jax.vmap(mlp)(x)).mean()  # noqa: E731
    report, grads = gradients.report(loss, mlp, x), eqx.filter_grad(loss)(mlp, x)
    for gradient, g in zip(report, jax.tree.leaves(grads), strict=True):
        assert gradient.norm == pytest.approx(float(jnp.linalg.norm(g)), rel=1e-5)
        assert (gradient.status, gradient.cause) == ("ok", "")
    assert sum(gradient.share for gradient in report) == pytest.approx(1.0)
    assert report.ok
    assert report.faults == ()


def test_the_text_is_a_table_and_its_causes(report):
    line = small.__code__.co_firstlineno
    assert str(report).splitlines() == [
        "loss 20, norm of the gradient 18.97",
        "parameter  shape  norm   share  status",
        "layers.0   2x3      19  100.0%  ok",
        "rounded              0    0.0%  blocked",
        "unused     4         0    0.0%  disconnected",
        "zero       2         0    0.0%  zero",
        f"rounded: blocked, round at test_report.py:{line + 2}",
        f"zero: zero, vanishes in mul at test_report.py:{line + 3}",
    ]
    healthy = str(gradients.report(lambda w: w.sum(), jnp.ones(2)))
    assert healthy.splitlines()[1:] == ["parameter  shape  norm   share  status", "model      2      1.41  100.0%  ok"]


def test_the_same_for_rich(report):
    console = rich.console.Console(width=100, file=io.StringIO())
    console.print(report.table())
    text = [line.strip() for line in console.file.getvalue().splitlines()]
    assert [line.split() for line in text] == [line.split() for line in str(report).splitlines()], "causes are below, once each"


def test_the_table_for_rich_fits_a_terminal():
    model = rl.nn.MLP(3, (4, 4), "relu", key=jax.random.key(0))
    model = eqx.tree_at(lambda m: m.layers[1].bias, model, jnp.full(4, -100.0))
    report = gradients.report(lambda m, x: m(x).sum(), model, x=jnp.ones(3))
    console = rich.console.Console(width=80, file=io.StringIO())
    console.print(report.table())
    rows = [line for line in console.file.getvalue().splitlines() if line.startswith(" layers.")]
    assert [row.split()[-1] for row in rows] == ["zero"] * 4


def test_the_same_as_json():
    found = json.loads(gradients.report(FAULTS["log_of_zero"].loss, FAULTS["log_of_zero"].model).to_json())
    assert (found["ok"], found["loss"], found["norm"]) == (False, None, None)
    row = {gradient["name"]: gradient for gradient in found["gradients"]}["w"]
    assert (row["status"], row["norm"], row["shape"]) == ("non-finite", None, [2])
    assert row["causes"][0]["what"] == "inf in the loss, from log"
    assert row["causes"][0]["place"].startswith("faults.py:")


def test_a_name_that_is_not_there_is_said(report):
    with pytest.raises(KeyError, match=r"no parameter 'layer.0'. Did you mean 'layers.0'\?"):
        report["layer.0"]


@pytest.mark.parametrize("answer", [lambda w: w, lambda w: jnp.argmax(w), lambda w: 1.0, lambda w: (w, {})])
def test_what_is_no_loss_is_refused(answer):
    with pytest.raises(rl.ShapeError, match=r"report: loss_fn gave .*; it must give one float"):
        gradients.report(answer, jnp.ones(3))


def test_a_model_without_parameters_is_refused():
    with pytest.raises(rl.ConfigError, match="None of its leaves is an array of floats"):
        gradients.report(lambda m: jnp.zeros(()), {"a": 1.5, "b": jnp.arange(2)})


def test_a_straight_through_estimator_is_no_fault():
    assert gradients.report(lambda m: m(), Straight(faults.X)).ok


def test_a_softmax_is_no_fault():
    """JAX's own functions stop gradients inside, and have rules."""
    fs = (
        jax.nn.softmax,
        jax.nn.log_softmax,
        jax.nn.logsumexp,
        jax.nn.relu,
        jax.nn.gelu,
        jax.nn.softplus,
        jnp.sort,
        jnp.abs,
        jnp.max,
        jnp.std,
    )
    for f in fs:
        report = gradients.report(lambda w: (f(w) * jnp.arange(1.0, 4.0)).sum(), faults.X)  # noqa: B023
        assert [gradient.status for gradient in report] == ["ok"], f.__name__


def test_a_line_inside_the_library_is_shown_with_the_one_that_led_there():
    def loss(w):
        return rl.losses.value_loss(jnp.zeros(3), w)  # the wrong way round

    (found,) = gradients.report(loss, faults.X)
    line = loss.__code__.co_firstlineno + 1
    assert re.fullmatch(rf"stop_gradient at rl4jax/algo/losses.py:\d+ \(from test_report.py:{line}\)", found.cause)


@pytest.mark.parametrize(
    ("called", "f"),
    [
        ("relu", jax.nn.relu),
        ("relu", jax.vmap(jax.nn.relu)),
        ("relu", jax.jit(jax.nn.relu)),
        ("relu6", jax.nn.relu6),
        ("elu", jax.nn.elu),
        ("clip", lambda x: jnp.clip(x, -1.0, 1.0)),
        ("where", lambda x: jnp.where(x > 0, x, 0.0)),
        ("where", lambda x: jnp.where(x > 0, jax.nn.relu(x), 0.0)),
        ("a matrix product", lambda x: jax.nn.relu(-x) @ jnp.zeros(3)),
    ],
)
def test_an_operation_has_the_name_that_was_typed(called, f):
    (found,) = gradients.report(lambda w: f(w - 1000.0).sum(), faults.X)
    assert found.cause.startswith(f"vanishes in {called} at test_report.py:")


def test_without_lines_there_is_still_a_report(monkeypatch):
    monkeypatch.setattr(source.source_info_util, "summarize", None)
    found = gradients.report(FAULTS["rounded"].loss, FAULTS["rounded"].model)["w"]
    assert (found.status, found.cause) == ("blocked", "round")


def test_several_causes_are_all_named():
    def loss(w):
        best = jnp.argmax(w)
        return faults.X[best] + jnp.round(w).sum()

    (found,) = gradients.report(loss, faults.X)
    assert [cause.what for cause in found.causes] == ["argmax", "round"]


def test_a_long_program_is_no_trouble(getkey):
    """Two hundred operations inside of a scan, blocked in the last one."""

    def loss(w, xs):
        def step(carry, x):
            for _ in range(66):
                carry = jnp.tanh(carry * w["gain"] + x)
            return carry, jnp.round(carry * w["last"])

        carry, ys = jax.lax.scan(step, jnp.zeros(16), xs)
        return carry.sum() + ys.sum()

    report = gradients.report(loss, {"gain": jnp.full(16, 0.5), "last": jnp.ones(())}, jax.random.normal(getkey(), (32, 16)))
    assert report["gain"].status == "ok"
    assert (report["last"].status, report["last"].causes[0].what) == ("blocked", "round")


def test_half_precision_and_complex_parameters():
    weights = {"half": jnp.ones(3, jnp.bfloat16), "complex": jnp.ones(3, jnp.complex64)}
    report = gradients.report(lambda w: w["half"].sum().astype(jnp.float32) + jnp.abs(w["complex"]).sum(), weights)
    assert report.ok
    assert report["half"].norm == pytest.approx(3**0.5)


def test_a_gradient_that_a_rule_makes_of_nothing_counts():
    """A loss that is added in the backward pass alone, as some balance the load of experts."""
    inject = jax.custom_vjp(lambda x, penalty: x)
    inject.defvjp(lambda x, penalty: (x, penalty), lambda penalty, g: (g, jnp.ones_like(penalty)))
    found = gradients.report(lambda w: inject(w["a"].sum(), (w["b"] ** 2).sum()), {"a": jnp.ones(2), "b": jnp.array([3.0, 4.0])})
    assert {row.name: (row.status, row.norm) for row in found}["b"] == ("ok", 10.0)
