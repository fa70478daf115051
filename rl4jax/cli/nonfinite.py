"""Where a number that is not finite came from."""

from collections.abc import Container, Mapping
from typing import Any

import jax
import numpy as np

from rl4jax.collect.rollout import Rollout

MAY_BE_NAN = ("rollout/avg_return", "rollout/avg_length", "train/explained_variance")  # where no episode ended, or all returns are equal
ROLLOUT = {"obs": "observations", "reward": "rewards", "log_prob": "log_probs", "value": "values", "next_value": "next values"}
REMEDIES = {"lr": "a smaller --lr", "max_grad_norm": "--max-grad-norm 0.5", "normalize_obs": "--normalize-obs or --normalize-reward"}


def explain(metrics: Mapping[str, Any], rollout: Rollout | None, settings: Container[str]) -> str:
    """What was not finite in an update that learned nothing, and in the rollout that it was given, if that is at hand."""
    losses = [name.removeprefix("train/") for name in sorted(metrics) if name not in MAY_BE_NAN and not np.isfinite(metrics[name])]
    learned = f"Not finite in the update: {', '.join(losses)}." if losses else "The losses are finite, the new weights are not."
    fields = {} if rollout is None else {what: getattr(rollout, name) for name, what in ROLLOUT.items()}
    given = [f"{what} ({bad})" for what, tree in fields.items() if (bad := count(tree))]
    if given:
        return f"{learned} Not finite already in the rollout: {', '.join(given)}. Look at the environment: rl.check_env finds the step."
    advice = ", ".join(remedy for name, remedy in REMEDIES.items() if name in settings)
    return f"{learned} What the environments gave is finite, so the update itself diverged. Try {advice}."


def count(tree: Any) -> int:
    leaves = [np.asarray(x) for x in jax.device_get(jax.tree.leaves(tree))]
    return sum(int((~np.isfinite(x)).sum()) for x in leaves if x.dtype.kind == "f")
