"""Golden numbers for tests/collect/test_returns.py and test_vtrace.py: V-trace, lambda-returns, TD(lambda), n steps, by rlax in float64.

rlax 0.1.9 imports distrax, and that TensorFlow Probability, which uses names that jax 0.10.2 has deprecated: it cannot be imported where
warnings are errors, as in our tests. So it runs here, in an environment of its own that has rlax==0.1.9 and jax==0.10.2, from the root:

    python scripts/golden_returns.py

Nothing of rl4jax is imported. One file is written, tests/collect/golden/rlax.json: all inputs and all results of all cases.
"""

import json
import pathlib

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402
import rlax  # noqa: E402  # pyright: ignore[reportMissingImports]

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "collect" / "golden" / "rlax.json"

# rlax clips the trace at 1 always. It has no truncation: there the value of the next step is not that of what this one led to.
CASES = [
    {"num_steps": 1, "lambda": 1.0},
    {"num_steps": 2, "lambda": 0.5},
    {"num_steps": 7, "lambda": 1.0},
    {"num_steps": 7, "lambda": 0.0},
    {"num_steps": 20, "lambda": 0.9, "clip_rho": 2.5, "clip_pg_rho": 0.7},
    {"num_steps": 20, "lambda": "random", "clip_rho": 0.6, "clip_pg_rho": 3.0},
    {"num_steps": 40, "lambda": "random"},
]
N_STEPS = (1, 3, 50)


def main() -> None:
    results = [compute(case, np.random.default_rng(seed)) for seed, case in enumerate(CASES)]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(result) for result in results) + "\n]\n")
    print(f"{OUT.name}: {len(results)} cases")


def compute(case: dict, rng: np.random.Generator) -> dict:
    """One case: inputs are short decimals, so that the same numbers are read everywhere; a fifth of the steps terminate."""
    shape = case["num_steps"]
    reward, values, log_rho = (rng.normal(size=n).round(3) for n in (shape, shape + 1, shape))
    value, next_value = values[:-1], values[1:]
    discount = np.where(rng.random(shape) < 0.2, 0.0, 0.97)
    trace = rng.random(shape).round(3) if case["lambda"] == "random" else np.full(shape, case["lambda"])
    clips = {"clip_rho": case.get("clip_rho", 1.0), "clip_pg_rho": case.get("clip_pg_rho", 1.0)}
    v = rlax.vtrace_td_error_and_advantage(
        value, next_value, reward, discount, np.exp(log_rho), trace,
        clip_rho_threshold=clips["clip_rho"], clip_pg_rho_threshold=clips["clip_pg_rho"],
    )  # fmt: skip
    outcome = {
        "vtrace_target": v.errors + value,
        "vtrace_advantage": v.pg_advantage,
        "lambda_returns": rlax.lambda_returns(reward, discount, next_value, trace),
        "td_lambda": rlax.td_lambda(value, reward, discount, next_value, trace),
    } | {f"n_step_{n}": rlax.n_step_bootstrapped_returns(reward, discount, next_value, n, trace) for n in N_STEPS}
    inputs = {"log_rho": log_rho, "reward": reward, "value": value, "next_value": next_value, "discount": discount, "trace": trace}
    return clips | {name: np.asarray(x).tolist() for name, x in (inputs | outcome).items()}


if __name__ == "__main__":
    main()
