"""Programs that do not learn as they should, each with what `report` must say of it.

A model is a dict of parameters; in each fault the parameter `w` is the one that is wrong, unless said otherwise.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

X = jnp.array([0.5, -1.0, 2.0])


class Fault(NamedTuple):
    loss: Callable[..., Any]
    status: str  # "loss": of the loss, while the gradient is finite
    what: str = ""  # is in the cause
    line: str = ""  # of the source that the cause must point to
    model: Any = None


FAULTS: dict[str, Fault] = {}


def fault(status, what="", line="", **model):
    def add(loss):
        FAULTS[loss.__name__] = Fault(loss, status, what, line, {"w": X, "v": X} | model)
        return loss

    return add


@fault("disconnected")
def unused_head(m):
    return jnp.square(m["v"]).sum()


@fault("disconnected")
def the_wrong_network(m):
    old = m["v"]  # should be m["w"]
    return jnp.square(old @ X - 1.0)


@fault("disconnected")
def only_among_the_metrics(m):
    return m["v"] @ X, {"norm": m["w"] @ m["w"]}


FROZEN = np.asarray(X)


@fault("disconnected")
def a_copy_in_numpy(m):
    return FROZEN @ m["v"]


@fault("zero", "vanishes in scatter", ".at[:].set")
def overwritten(m):
    return m["w"].at[:].set(m["v"]) @ X


@fault("blocked", "stop_gradient", "jax.lax.stop_gradient(m")
def detached_loss(m):
    error = jnp.square(m["w"] - 1.0).mean()
    return m["v"] @ X + jax.lax.stop_gradient(m["v"] @ X * error)


@fault("blocked", "stop_gradient", "hidden = jax.lax.stop_gradient")
def stop_gradient_in_the_middle(m):
    hidden = jnp.tanh(m["w"] * X)
    hidden = jax.lax.stop_gradient(hidden)
    return hidden @ m["v"]


@fault("blocked", "stop_gradient", "jax.lax.stop_gradient(advantage")
def the_loss_inside_of_its_weight(m):
    log_prob = jax.nn.log_softmax(m["w"])  # has a stop_gradient of its own, which is no fault
    advantage = m["v"] @ X
    return -(jax.lax.stop_gradient(advantage * log_prob)).sum() + advantage


@fault("blocked", "argmax", "jnp.argmax")
def the_best_action(m):
    action = jnp.argmax(m["w"])
    return m["v"][action]


@fault("blocked", "argmax", "jax.nn.one_hot")
def one_hot_of_the_best(m):
    chosen = jax.nn.one_hot(jnp.argmax(m["w"]), 3)
    return chosen @ m["v"]


@fault("blocked", "sampling", "jax.random.categorical")
def a_sampled_action(m):
    action = jax.random.categorical(jax.random.key(0), m["w"])
    return m["v"][action]


@fault("blocked", "sampling", "jax.random.bernoulli")
def a_sampled_switch(m):
    on = jax.random.bernoulli(jax.random.key(0), jax.nn.sigmoid(m["w"]))
    return jnp.where(on, m["v"], 0.0).sum()


@fault("blocked", "argmax", "jnp.argmax", hidden=jnp.ones((3, 3)))
def the_best_action_behind_dropout(m):
    kept = jax.random.bernoulli(jax.random.key(0), 0.5, (3,))
    logits = m["hidden"] @ jnp.where(kept, m["w"], 0.0)
    return m["v"][jnp.argmax(logits)] + m["hidden"].sum()


@fault("blocked", "a cast to int32", "astype(jnp.int32)")
def cast_to_integers(m):
    bins = (10 * m["w"]).astype(jnp.int32)
    return (bins * m["v"]).sum()


@fault("blocked", "a cast to bool", "astype(bool)")
def cast_to_bool(m):
    return jnp.where(m["w"].astype(bool), m["v"], 0.0).sum()


@fault("blocked", "round", "jnp.round")
def rounded(m):
    return jnp.round(m["w"]) @ m["v"]


@fault("blocked", "floor", "jnp.floor")
def rounded_down(m):
    return jnp.floor(m["w"] * 4) @ m["v"]


@fault("blocked", "sign", "jnp.sign")
def only_its_sign(m):
    return jnp.sign(m["w"]) @ m["v"]


@fault("blocked", "a comparison", 'm["w"] > 0')
def a_hard_threshold(m):
    accuracy = (m["w"] > 0).astype(jnp.float32)
    return accuracy @ m["v"]


@fault("blocked", "sort", "jnp.argsort")
def its_order_only(m):
    ranks = jnp.argsort(m["w"])
    return m["v"][ranks] @ X


@fault("blocked", "a comparison", "lambda left: left[0] < limit")
def how_often_only(m):
    limit = m["w"].sum()
    body = lambda left: (left[0] + 0.5, left[1] + 1.0)  # noqa: E731
    count = jax.lax.while_loop(lambda left: left[0] < limit, body, (jnp.zeros(()), jnp.zeros(())))[1]
    return count * m["v"].sum()


@fault("blocked", "stop_gradient", "carry = jax.lax.stop_gradient")
def blocked_inside_scan(m):
    def step(carry, x):
        carry = jax.lax.stop_gradient(carry + m["w"] * x)
        return carry, carry @ m["v"]

    return jax.lax.scan(step, jnp.zeros(3), X)[1].sum()


@fault("blocked", "round", "lambda w: jnp.round(w)")
def blocked_inside_both_branches(m):
    return jax.lax.cond(m["v"].sum() > 0, lambda w: jnp.round(w), lambda w: jnp.zeros_like(w), m["w"]) @ m["v"]


@jax.jit
def quantized(x):
    return jnp.floor(x)


@fault("blocked", "floor", "return jnp.floor(x)")
def blocked_inside_jit(m):
    return quantized(m["w"]) @ m["v"]


@fault("blocked", "stop_gradient", "jax.lax.stop_gradient(w * x)")
def blocked_inside_vmap(m):
    each = jax.vmap(lambda w, x: jax.lax.stop_gradient(w * x))(m["w"], X)
    return each @ m["v"]


@fault("blocked", "round", "jax.checkpoint")
def blocked_inside_remat(m):
    return jax.checkpoint(jnp.round)(m["w"]) @ m["v"]


@jax.custom_jvp
def deaf(x):
    return jnp.sin(x)


deaf.defjvp(lambda primals, tangents: (deaf(primals[0]), jnp.zeros_like(tangents[0])))


@fault("blocked", "the rule of custom_jvp", "deaf(jax.nn.relu")
def blocked_by_a_custom_jvp(m):
    return deaf(jax.nn.relu(m["w"])) @ m["v"]


@jax.custom_vjp
def numb(x):
    return jnp.sin(x)


numb.defvjp(lambda x: (numb(x), None), lambda _, g: (jnp.zeros_like(g),))


@fault("blocked", "the rule of custom_vjp", "numb(m")
def blocked_by_a_custom_vjp(m):
    return numb(m["w"]) @ m["v"]


@fault("blocked", "stop_gradient", "online = jax.lax.stop_gradient")
def twice_blocked(m):
    online = jax.lax.stop_gradient(m["w"])
    return jnp.round(online) @ m["v"]


@fault("zero", "vanishes in relu", "jax.nn.relu")
def dead_relu(m):
    return jax.nn.relu(m["w"] - 10.0) @ m["v"]


@fault("zero", "vanishes in tanh", "jnp.tanh")
def saturated_tanh(m):
    return jnp.tanh(m["w"] * 1000) @ m["v"]


@fault("zero", "vanishes in sigmoid", "jax.nn.sigmoid")
def saturated_sigmoid(m):
    return jax.nn.sigmoid(jnp.abs(m["w"]) * 1000) @ m["v"]


@fault("zero", "vanishes in where", "jnp.where(False")
def untaken_side_of_where(m):
    return jnp.where(False, m["w"], m["v"]).sum()


@fault("zero", "vanishes in", "jax.lax.cond")
def untaken_branch(m):
    return jax.lax.cond(X[0] > 10, lambda: m["w"] @ X, lambda: m["v"] @ X)


@fault("zero", "a matrix product", 'm["last"] @', last=jnp.zeros((1, 3)))
def zero_last_layer(m):
    return (m["last"] @ jnp.tanh(m["w"] * X)).sum() + m["v"].sum()


@fault("zero", "vanishes in clip", "jnp.clip")
def clipped_away(m):
    return jnp.clip(m["w"], 10.0, 20.0) @ m["v"]


@fault("zero", "vanishes in maximum", "jnp.maximum(")
def below_the_maximum(m):
    return jnp.maximum(m["w"], 5.0) @ m["v"]


@fault("zero", "vanishes in exp", "jax.nn.softmax")
def saturated_softmax(m):
    return jax.nn.softmax(1e4 * m["w"])[0] + m["v"].sum()


@fault("zero", "vanishes in mul", "0.0 * m")
def weight_of_zero(m):
    return m["v"] @ X + (0.0 * m["w"]).sum()


@fault("non-finite", "nan in the gradient", "jnp.log(m", w=jnp.array([1.0, 0.0]))
def where_around_log(m):
    return jnp.where(m["w"] > 0, jnp.log(m["w"]), 0.0).sum()


@fault("non-finite", "inf in the loss, from log", "jnp.log(m", w=jnp.array([1.0, 0.0]))
def log_of_zero(m):
    return jnp.log(m["w"]).sum()


@fault("non-finite", "in the gradient of a finite loss, from sqrt", "jnp.sqrt(", w=jnp.zeros(2))
def sqrt_of_zero(m):
    return jnp.sqrt(m["w"] ** 2).sum()


@fault("non-finite", "in the gradient of a finite loss", "jnp.linalg.norm", w=jnp.zeros(2))
def norm_of_zeros(m):
    return jnp.linalg.norm(m["w"])


@fault("non-finite", "in the loss, from div", "/ m[", w=jnp.zeros(3))
def division_by_zero(m):
    return (X / m["w"]).sum() + m["v"].sum()


@fault("non-finite", "in the gradient of a finite loss", "jnp.std", w=jnp.ones(3))
def spread_of_equal_numbers(m):
    return jnp.std(m["w"])


@fault("non-finite", "inf in the loss, from exp", "jnp.exp(")
def overflow(m):
    return jnp.exp(m["w"] * 1000).sum()


@fault("non-finite", "nan in the loss, from log", "carry = jnp.log(")
def nan_inside_scan(m):
    def step(carry, x):
        carry = jnp.log(carry) * m["w"].sum()
        return carry, None

    return jax.lax.scan(step, jnp.array(3.0), None, length=4)[0]


@fault("loss", "nan in the loss, from log", "lambda w: jnp.log(")
def nan_inside_cond(m):
    return jax.lax.cond(m["v"].sum() > 0, lambda w: jnp.log(w - 10.0), lambda w: w, m["w"]).sum()


@fault("non-finite", "nan in the data")
def nan_in_the_data(m):
    return (m["w"] * jnp.array([1.0, jnp.nan, 1.0])).sum()


@fault("loss", "nan in the parameter w", w=jnp.array([1.0, jnp.nan, 1.0]))
def nan_in_the_parameter(m):
    return (m["w"] * X).sum()


class Straight(eqx.Module):
    """A straight-through estimator: a rule that lets through what its value does not."""

    w: jax.Array

    def __call__(self):
        return straight(self.w) @ X


@jax.custom_jvp
def straight(x):
    return jnp.round(x)


straight.defjvp(lambda primals, tangents: (straight(primals[0]), tangents[0]))
