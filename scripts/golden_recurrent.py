"""Golden numbers for tests/nn/test_recurrent.py: PyTorch's LSTM and GRU along sequences, in float64.

Nothing of rl4jax or JAX is imported. From the root, in any environment with torch==2.13.0 and numpy:

    .venv-peers/bin/python scripts/golden_recurrent.py

One file is written, tests/nn/golden/recurrent.json: for every case the weights by PyTorch's names, inputs `[T, B, D]`, the memory before,
where episodes begin, the features of all steps, the memory after, and the gradients of `sum(features * cotangent)` plus the sum of the
memory after. PyTorch knows no resets: each episode is a call of its own, from zeros. Where there are blocks, the recurrent weights between
them are zero.
"""

import itertools
import json
import pathlib
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "nn" / "golden" / "recurrent.json"
NUM_STEPS, BATCH, D_IN, D_HIDDEN = 6, 3, 3, 4
BEGINS = [[0, 0, 1], [0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]  # by step, of three sequences

CASES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "LSTM"},
    "lstm_resets": {"cell": "LSTM", "is_first": BEGINS},
    "gru": {"cell": "GRU"},
    "gru_resets": {"cell": "GRU", "is_first": BEGINS},
    "block_gru": {"cell": "GRU", "num_blocks": 2},
    "block_gru_resets": {"cell": "GRU", "num_blocks": 2, "is_first": BEGINS},
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
    module = getattr(torch.nn, case["cell"])(D_IN, D_HIDDEN)
    with torch.no_grad():
        for name, weight in module.named_parameters():
            drawn = (0.6 * rng.normal(size=tuple(weight.shape))).round(3)
            if name == "weight_hh_l0":
                drawn *= within_blocks(case.get("num_blocks", 1), len(drawn) // D_HIDDEN)
            weight.copy_(torch.tensor(drawn))
    xs = torch.tensor(rng.normal(size=(NUM_STEPS, BATCH, D_IN)).round(3), requires_grad=True)
    parts = 2 if case["cell"] == "LSTM" else 1
    carry = torch.tensor((0.5 * rng.normal(size=(parts, BATCH, D_HIDDEN))).round(3), requires_grad=True)
    is_first = np.array(case.get("is_first", np.zeros((NUM_STEPS, BATCH))), bool)
    cotangent = rng.normal(size=(NUM_STEPS, BATCH, D_HIDDEN)).round(3)

    columns = [run_column(module, xs[:, b], carry[:, b], is_first[:, b]) for b in range(BATCH)]
    features = torch.stack([column for column, _ in columns], 1)
    after = torch.stack([last for _, last in columns], 1)
    ((features * torch.tensor(cotangent)).sum() + after.sum()).backward()
    return {
        "cell": case["cell"],
        "num_blocks": case.get("num_blocks"),
        "weights": {name: weight.tolist() for name, weight in module.named_parameters()},
        "xs": xs.tolist(),
        "carry": carry.tolist(),
        "is_first": is_first.tolist() if "is_first" in case else None,
        "cotangent": cotangent.tolist(),
        "features": features.tolist(),
        "after": after.tolist(),
        "gradients": {name: weight.grad.tolist() for name, weight in module.named_parameters()}
        | {"xs": xs.grad.tolist(), "carry": carry.grad.tolist()},
    }


def within_blocks(num_blocks: int, num_gates: int) -> np.ndarray:
    """1 where a weight `[gate * to, from]` stays within its block, 0 elsewhere."""
    block = np.arange(D_HIDDEN) // (D_HIDDEN // num_blocks)
    return np.tile(block[:, None] == block[None, :], (num_gates, 1))


def run_column(module: Any, xs: Any, carry: Any, is_first: np.ndarray) -> tuple[Any, Any]:
    """One sequence `[T, D]`, episode by episode; the memory is `[parts, H]`."""
    starts = [0, *(t for t in range(1, NUM_STEPS) if is_first[t]), NUM_STEPS]
    carry = torch.zeros_like(carry) if is_first[0] else carry
    out = []
    for start, end in itertools.pairwise(starts):
        memory = carry if start == 0 else torch.zeros_like(carry)
        lstm = len(carry) == 2
        features, after = module(xs[start:end], (memory[:1], memory[1:]) if lstm else memory)
        out.append(features)
        carry = torch.cat(after) if lstm else after
    return torch.cat(out), carry


if __name__ == "__main__":
    main()
