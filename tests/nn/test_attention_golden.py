"""Attention and the transformer against PyTorch's own modules on the same weights: see scripts/golden_attention.py, which made the numbers."""

import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rl4jax import nn

CASES = json.loads((pathlib.Path(__file__).parent / "golden" / "attention.json").read_text())
PYTORCH = {  # our names by PyTorch's
    "in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias", "out_proj.weight": "out.weight", "out_proj.bias": "out.bias",
    "linear1.weight": "feed_forward.inner.weight", "linear1.bias": "feed_forward.inner.bias", "linear2.weight": "feed_forward.outer.weight",
    "linear2.bias": "feed_forward.outer.bias", "norm1.weight": "attention_norm.weight", "norm1.bias": "attention_norm.bias",
    "norm2.weight": "feed_forward_norm.weight", "norm2.bias": "feed_forward_norm.bias",
}  # fmt: skip


def leaf(model, name):
    """The part of our model that PyTorch calls by this name; the names need no change of layout."""
    if name.startswith("layers."):
        _, i, name = name.split(".", 2)
        model = model.blocks[int(i)]
    if name.startswith("self_attn."):
        model, name = model.attention, name.removeprefix("self_attn.")
    for part in PYTORCH[name].split("."):
        model = getattr(model, part)
    return model


def with_weights(case):
    key = jax.random.key(0)
    if case["module"] == "attention":
        model = nn.MultiHeadAttention(case["d_model"], case["num_heads"], key=key)
    else:
        model = nn.TransformerEncoder(case["d_model"], case["num_heads"], case["num_layers"], case["d_ff"], key=key)
    new = [jnp.array(weight, jnp.float32) for weight in case["weights"].values()]
    assert len(new) == len(jax.tree.leaves(eqx.filter(model, eqx.is_array)))
    return eqx.tree_at(lambda m: [leaf(m, name) for name in case["weights"]], model, new)


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_pytorchs(name):
    case = CASES[name]
    model = with_weights(case)
    mask = None if case["mask_values"] is None else jnp.array(case["mask_values"])
    inputs = {name: jnp.array(x, jnp.float32) for name, x in case["inputs"].items()}

    @eqx.filter_jit
    @eqx.filter_value_and_grad(has_aux=True)
    def weighted(both):
        model, inputs = both
        output = model(*[inputs[name] for name in ("query", "key_value") if name in inputs], mask=mask)
        return (output * jnp.array(case["cotangent"])).sum(), output

    (_, output), (grads, input_grads) = weighted((model, inputs))
    rows = np.ones(len(output), bool)
    if mask is not None and mask.ndim == 1 and "key_value" not in inputs:
        rows = np.asarray(mask)  # of slots that are not there PyTorch makes something, we make zeros
        assert (output[~rows] == 0).all()
    np.testing.assert_allclose(output[rows], np.array(case["output"])[rows], atol=1e-5, rtol=1e-5)
    for name, expected in case["input_grads"].items():
        np.testing.assert_allclose(input_grads[name], expected, atol=1e-5, rtol=1e-5, err_msg=name)
    for name, expected in case["weight_grads"].items():
        np.testing.assert_allclose(leaf(grads, name), expected, atol=1e-5, rtol=1e-5, err_msg=name)
