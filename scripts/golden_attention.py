"""Golden numbers for tests/nn/test_attention_golden.py: PyTorch's multi-head attention and transformer encoder, in float64.

Nothing of rl4jax or JAX is imported. From the root, in any environment with torch==2.13.0 and numpy:

    .venv-peers/bin/python scripts/golden_attention.py

One file is written, tests/nn/golden/attention.json: for every case the weights by PyTorch's names, inputs, mask (true = attend), output,
and the gradients of `sum(output * cotangent)` to inputs and weights. Rows of slots that are not there are left out of that sum.
"""

import json
import pathlib
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "nn" / "golden" / "attention.json"

CASES: dict[str, dict[str, Any]] = {
    "self": {"module": "attention", "d_model": 8, "num_heads": 2, "queries": 5},
    "self_one_head": {"module": "attention", "d_model": 6, "num_heads": 1, "queries": 4},
    "self_padded": {"module": "attention", "d_model": 8, "num_heads": 4, "queries": 5, "mask": "keys"},
    "self_pairs": {"module": "attention", "d_model": 8, "num_heads": 2, "queries": 5, "mask": "pairs"},
    "cross": {"module": "attention", "d_model": 8, "num_heads": 2, "queries": 3, "keys": 6},
    "cross_padded": {"module": "attention", "d_model": 8, "num_heads": 2, "queries": 3, "keys": 6, "mask": "keys"},
    "cross_pairs": {"module": "attention", "d_model": 8, "num_heads": 2, "queries": 3, "keys": 6, "mask": "pairs"},
    "block": {"module": "encoder", "d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 12, "queries": 5},
    "encoder": {"module": "encoder", "d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 16, "queries": 5},
    "encoder_padded": {"module": "encoder", "d_model": 8, "num_heads": 4, "num_layers": 2, "d_ff": 16, "queries": 6, "mask": "keys"},
    "encoder_pairs": {"module": "encoder", "d_model": 8, "num_heads": 2, "num_layers": 2, "d_ff": 16, "queries": 5, "mask": "pairs"},
}


def main() -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(compute(case, np.random.default_rng(i)))}" for i, (name, case) in enumerate(CASES.items())]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{OUT.name}: {len(lines)} cases")


def compute(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """One case. Inputs are short decimals, so that the file is small and the same numbers are read everywhere."""
    d_model, num_queries, num_keys = case["d_model"], case["queries"], case.get("keys", case["queries"])
    if case["module"] == "attention":
        module = torch.nn.MultiheadAttention(d_model, case["num_heads"], batch_first=True)
    else:
        layer = torch.nn.TransformerEncoderLayer(d_model, case["num_heads"], case["d_ff"], dropout=0.0, norm_first=True, batch_first=True)
        module = torch.nn.TransformerEncoder(layer, case["num_layers"], enable_nested_tensor=False)
    with torch.no_grad():
        for name, weight in module.named_parameters():  # norms and biases too: PyTorch begins with ones and zeros
            center = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            weight.copy_(torch.tensor((center + 0.4 * rng.normal(size=tuple(weight.shape))).round(3)))
    query = torch.tensor(rng.normal(size=(num_queries, d_model)).round(3), requires_grad=True)
    key_value = torch.tensor(rng.normal(size=(num_keys, d_model)).round(3), requires_grad=True) if "keys" in case else query
    mask = draw_mask(case.get("mask"), num_queries, num_keys, rng)
    cotangent = rng.normal(size=(num_queries, d_model)).round(3)
    if mask is not None and mask.ndim == 1 and "keys" not in case:
        cotangent[~mask] = 0.0  # slots that are not there

    # PyTorch's masks are the reverse: true = leave out.
    left_out = None if mask is None else torch.tensor(~mask)
    if case["module"] == "attention":
        masks = {"key_padding_mask" if case.get("mask") == "keys" else "attn_mask": left_out}
        output = module(query, key_value, key_value, need_weights=False, **masks)[0]
    else:
        masks = {"src_key_padding_mask" if case.get("mask") == "keys" else "mask": left_out}
        output = module(
            query[None], **{name: m[None] if name == "src_key_padding_mask" and m is not None else m for name, m in masks.items()}
        )[0]
    (output * torch.tensor(cotangent)).sum().backward()
    inputs = {"query": query} | ({"key_value": key_value} if "keys" in case else {})
    return case | {
        "weights": {name: weight.tolist() for name, weight in module.named_parameters()},
        "inputs": {name: x.tolist() for name, x in inputs.items()},
        "mask_values": None if mask is None else mask.tolist(),
        "cotangent": cotangent.tolist(),
        "output": rounded(output.detach()),
        "input_grads": {name: rounded(x.grad) for name, x in inputs.items()},
        "weight_grads": {name: rounded(weight.grad) for name, weight in module.named_parameters()},
    }


def draw_mask(kind: str | None, num_queries: int, num_keys: int, rng: np.random.Generator) -> np.ndarray | None:
    """Each query attends to something: where there is nothing, PyTorch has no answer. A pair of oneself is always there."""
    if kind is None:
        return None
    if kind == "keys":
        return np.arange(num_keys) < num_keys - 2
    return (rng.random((num_queries, num_keys)) < 0.5) | np.eye(num_queries, num_keys, dtype=bool)


def rounded(x: torch.Tensor) -> list:
    return x.numpy().round(9).tolist()


if __name__ == "__main__":
    main()
