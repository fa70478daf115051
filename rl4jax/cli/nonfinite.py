"""Where a number that is not finite came from."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from rl4jax.collect.rollout import Rollout

METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "grad_norm")
ROLLOUT = {"obs": "observations", "reward": "rewards", "log_prob": "log_probs", "value": "values", "next_value": "next values"}


def explain(metrics: Mapping[str, Any], rollout: Rollout) -> str:
    """What was not finite in an update that learned nothing, and in the rollout it was given."""
    losses = [name for name in METRICS if not np.isfinite(metrics[f"train/{name}"])]
    fields = {what: getattr(rollout, name) for name, what in ROLLOUT.items()}
    given = [f"{what} ({bad})" for what, tree in fields.items() if (bad := count(tree))]
    learned = f"Not finite in the update: {', '.join(losses)}." if losses else "The losses are finite, the new weights are not."
    if given:
        return f"{learned} Not finite already in the rollout: {', '.join(given)}. Look at the environment: rl.check_env finds the step."
    return (
        f"{learned} The rollout's observations, rewards and log_probs are finite, so the update itself diverged. "
        "Try a smaller --lr, --max-grad-norm 0.5, --normalize-obs or --normalize-reward."
    )


def count(tree: Any) -> int:
    leaves = [np.asarray(x) for x in jax.device_get(jax.tree.leaves(tree))]
    return sum(int((~np.isfinite(x)).sum()) for x in leaves if x.dtype.kind == "f")
