"""Golden numbers for tests/algo/test_ppo_golden.py: losses, gradients and whole updates of PPO, by PyTorch in float64.

The formulas are those of CleanRL's `ppo.py` and of its continuous, masked and LSTM siblings, written again from the mathematics, with the
changes that rl4jax documents: a truncated episode is bootstrapped from its last observation, metrics are means over all minibatches, and
slots in which nothing happened are left out. Nothing of rl4jax or JAX is imported: the order of samples in the minibatches, which
`ppo.update` draws from its key, comes in as JSON on standard input. After a change of that order (`ppo.random_order`), from the root:

    .venv/bin/python tests/algo/test_ppo_golden.py | .venv-peers/bin/python scripts/golden_ppo.py

where `.venv-peers` is any environment with torch==2.13.0 and numpy. One file per case is written to tests/algo/golden/: all inputs (weights
by name, rollout, settings, order) and all results.
"""

import json
import pathlib
import sys
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests" / "algo" / "golden"
NUM_ENVS, D_OBS = 4, 4

# Most are not the defaults, so that a setting which is ignored shows.
SETTINGS = {
    "lr": 3e-3, "gamma": 0.97, "gae_lambda": 0.9, "clip_eps": 0.15, "vf_coef": 0.7, "ent_coef": 0.03, "update_epochs": 2,
    "num_minibatches": 4, "num_steps": 16, "clip_vloss": True, "max_grad_norm": 0.5, "adam_eps": 1e-5, "normalize_advantage": True,
    "dual_clip_coef": None,
}  # fmt: skip
UNCLIPPED = {"clip_vloss": False, "normalize_advantage": False, "max_grad_norm": 0.0}

CASES: dict[str, dict[str, Any]] = {
    "discrete": {"space": {"discrete": 3}},
    "discrete_masked": {"space": {"discrete": 5}, "masked": True},
    "multi_discrete_masked": {"space": {"multi_discrete": [3, 2]}, "masked": True},
    "continuous": {"space": {"box": 2}},
    "dual_clip": {"space": {"discrete": 3}, "settings": {"dual_clip_coef": 1.2}},
    "unclipped": {"space": {"discrete": 3}, "settings": UNCLIPPED},
    "dead_slots": {"space": {"discrete": 3}, "dead": True},
    "lstm": {"space": {"discrete": 3}, "hidden": [6], "core": "lstm", "settings": {"num_steps": 6, "num_minibatches": 2}},
}


def main() -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    orders = json.load(sys.stdin)
    OUT.mkdir(parents=True, exist_ok=True)
    for seed, (name, case) in enumerate(CASES.items()):
        inputs = draw_inputs(case, np.random.default_rng(seed))
        inputs["order"] = orders["columns" if case.get("core") else "steps"]
        results, seen = compute(inputs)
        check_coverage(name, inputs, seen)
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in (inputs | results).items()]
        (OUT / f"ppo_{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"ppo_{name}.json", {key: round(value, 3) for key, value in seen.items()})


# Inputs: short decimals, so that the files are small and the same numbers are read everywhere.


def draw_inputs(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Weights and a rollout as another policy may have played it: ratios far from 1, values off, both kinds of end."""
    space, hidden, core = case["space"], case.get("hidden", [8, 8]), case.get("core")
    settings = SETTINGS | case.get("settings", {})
    shape = (settings["num_steps"], NUM_ENVS)
    weights = draw_weights(space, hidden, core, rng)
    end = rng.uniform(size=shape)
    terminated, truncated, dead = end < 0.12, end > 0.88, np.zeros(shape, bool)
    if case.get("dead"):  # the step after an end is spent on the reset
        dead[1:] = (terminated | truncated)[:-1]
        terminated, truncated = terminated & ~dead, truncated & ~dead
    is_first = np.concatenate([rng.uniform(size=(1, NUM_ENVS)) < 0.5, (terminated | truncated | dead)[:-1]])
    mask = draw_mask(space, shape, rng) if case.get("masked") else None
    rollout: dict[str, Any] = {
        "obs": rng.normal(size=(*shape, D_OBS)).round(4), "action": draw_action(space, mask, shape, rng), "mask": mask,
        "is_first": is_first, "terminated": terminated, "truncated": truncated, "valid": ~dead,
        "reward": rng.normal(size=shape).round(4),
        "carry": rng.normal(size=(2, 2, NUM_ENVS, hidden[-1])).round(4) if core else None,  # actor and critic, h and c
    }  # fmt: skip
    with torch.no_grad():
        log_prob, _, value = evaluate(tensors(weights), tensors(rollout), nvec(space))
    value = (value.numpy() + 0.3 * rng.normal(size=shape)).round(6)
    led_to = np.concatenate([value[1:], rng.normal(size=(1, NUM_ENVS)).round(6)])  # of what the step led to, if the episode went on
    elsewhere = rng.normal(size=shape).round(6)  # after an end; after a termination it must not count
    rollout |= {
        "log_prob": (log_prob.numpy() + 0.25 * rng.normal(size=shape)).round(6),
        "value": value,
        "next_value": np.where(terminated | truncated, elsewhere, led_to),
    }
    return {
        "space": space, "hidden": hidden, "core": core, "config": settings,
        "weights": {name: w.tolist() for name, w in weights.items()},
        "rollout": {name: None if x is None else x.tolist() for name, x in rollout.items()},
    }  # fmt: skip


def draw_weights(space: dict[str, Any], hidden: list[int], core: str | None, rng: np.random.Generator) -> dict[str, np.ndarray]:
    d_last, d_action = hidden[-1], space["box"] if "box" in space else sum(nvec(space))
    shapes: dict[str, tuple[int, ...]] = {}
    for trunk in ("actor", "critic"):
        for i, (d_in, d_out) in enumerate(zip([D_OBS, *hidden[:-1]], hidden, strict=True)):
            shapes |= {f"{trunk}.{i}.weight": (d_out, d_in), f"{trunk}.{i}.bias": (d_out,)}
        if core:
            cell = {"weight_ih": (4 * d_last, d_last), "weight_hh": (4 * d_last, d_last), "bias": (4 * d_last,)}
            shapes |= {f"{trunk}.core.{name}": shape for name, shape in cell.items()}
    shapes |= {"policy.weight": (d_action, d_last), "policy.bias": (d_action,), "value.weight": (1, d_last), "value.bias": (1,)}
    if "box" in space:
        shapes["log_std"] = (d_action,)
    return {name: (0.5 * rng.normal(size=shape)).round(4) for name, shape in shapes.items()}


def draw_mask(space: dict[str, Any], shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Of each head some choices, at least one; sometimes exactly one."""
    heads = [rng.uniform(size=(*shape, n)) for n in nvec(space)]
    return np.concatenate([(head < 0.6) | (head == head.min(-1, keepdims=True)) for head in heads], -1)


def draw_action(space: dict[str, Any], mask: np.ndarray | None, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if "box" in space:
        return rng.normal(size=(*shape, space["box"])).round(4)
    liking = rng.uniform(size=(*shape, sum(nvec(space)))) * (1 if mask is None else mask)
    parts = np.split(liking, np.cumsum(nvec(space))[:-1], -1)
    action = np.stack([part.argmax(-1) for part in parts], -1)
    return action[..., 0] if "discrete" in space else action


def nvec(space: dict[str, Any]) -> list[int]:
    """Choices per head; none for continuous actions."""
    return [space["discrete"]] if "discrete" in space else space.get("multi_discrete", [])


def tensors(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: None if x is None else torch.tensor(x) for name, x in arrays.items()}


# The networks and their distributions.


def evaluate(weights: dict[str, Any], batch: dict[str, Any], heads: list[int]) -> tuple[Any, Any, Any]:
    """Log-probability and entropy of what was done, and the value; all with the leading axes of the batch."""
    actor, critic = (features(weights, trunk, batch["obs"]) for trunk in ("actor", "critic"))
    if batch["carry"] is not None:
        actor = remember(weights, "actor", actor, batch["is_first"], batch["carry"][0])
        critic = remember(weights, "critic", critic, batch["is_first"], batch["carry"][1])
    out = torch.nn.functional.linear(actor, weights["policy.weight"], weights["policy.bias"])
    value = torch.nn.functional.linear(critic, weights["value.weight"], weights["value.bias"]).squeeze(-1)
    if "log_std" in weights:
        pi = torch.distributions.Normal(out, weights["log_std"].exp())
        return pi.log_prob(batch["action"]).sum(-1), pi.entropy().sum(-1), value
    logits = out if batch["mask"] is None else torch.where(batch["mask"], out, -1e8)
    pis = [torch.distributions.Categorical(logits=part) for part in logits.split(heads, -1)]
    actions = batch["action"].reshape(*value.shape, len(heads)).unbind(-1)
    log_prob = sum(pi.log_prob(action) for pi, action in zip(pis, actions, strict=True))
    return log_prob, sum(pi.entropy() for pi in pis), value


def features(weights: dict[str, Any], trunk: str, x: Any) -> Any:
    for i in range(9):
        if f"{trunk}.{i}.weight" in weights:
            x = torch.tanh(torch.nn.functional.linear(x, weights[f"{trunk}.{i}.weight"], weights[f"{trunk}.{i}.bias"]))
    return x


def remember(weights: dict[str, Any], trunk: str, x: Any, is_first: Any, carry: Any) -> Any:
    """An LSTM over `[T, M, D]`, with zeros for memory where an episode begins.

    PyTorch adds two biases, Equinox has one: here the second is zero and not trained. Both order the gates as i, f, g, o.
    """
    cell = torch.nn.LSTMCell(x.shape[-1], carry.shape[-1])
    bias = weights[f"{trunk}.core.bias"]
    own = {"weight_ih": weights[f"{trunk}.core.weight_ih"], "weight_hh": weights[f"{trunk}.core.weight_hh"]}
    own |= {"bias_ih": bias, "bias_hh": torch.zeros_like(bias)}
    (h, c), out = carry, []
    for x_now, first in zip(x, is_first, strict=True):
        goes_on = (~first).to(h.dtype)[:, None]
        h, c = torch.func.functional_call(cell, own, (x_now, (h * goes_on, c * goes_on)))
        out.append(h)
    return torch.stack(out)


# The algorithm.


def compute(inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """Advantages, the loss and its gradients on the whole rollout, and one full update; and how often each branch was taken."""
    cfg, heads = inputs["config"], nvec(inputs["space"])
    batch = tensors(inputs["rollout"])
    weights = {name: torch.tensor(w, requires_grad=True) for name, w in inputs["weights"].items()}
    advantage = gae(batch, cfg)
    target = advantage + batch["value"]
    batch |= {"advantage": advantage, "target": target}

    total, metrics, seen = loss(weights, batch, cfg, heads)
    total.backward()
    norm = torch.stack([w.grad.norm() for w in weights.values()]).norm()
    gradients = {name: w.grad.tolist() for name, w in weights.items()}

    optimizer = torch.optim.Adam(weights.values(), lr=cfg["lr"], eps=cfg["adam_eps"])
    rows = []
    for epoch in inputs["order"]:
        for part in epoch:
            total, row, _ = loss(weights, minibatch(batch, part), cfg, heads)
            optimizer.zero_grad()
            total.backward()
            limit = cfg["max_grad_norm"] or float("inf")
            rows.append(row | {"grad_norm": torch.nn.utils.clip_grad_norm_(weights.values(), limit).item()})
            optimizer.step()
    value, target_ = (batch[name][batch["valid"]].numpy() for name in ("value", "target"))
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    means["explained_variance"] = float(1 - np.var(target_ - value) / np.var(target_))
    seen["clipped_gradient"] = float(np.mean([0 < cfg["max_grad_norm"] < row["grad_norm"] for row in rows]))
    return {
        "advantage": advantage.tolist(), "target": target.tolist(),
        "loss": metrics | {"grad_norm": norm.item()}, "gradients": gradients,
        "update": means, "weights_after": {name: w.tolist() for name, w in weights.items()},
    }, seen  # fmt: skip


def gae(rollout: dict[str, Any], cfg: dict[str, Any]) -> Any:
    """`terminated` cuts the bootstrap, an end of either kind cuts the trace."""
    goes_on = (~rollout["terminated"]).double()
    same_episode = (~(rollout["terminated"] | rollout["truncated"])).double()
    delta = rollout["reward"] + cfg["gamma"] * goes_on * rollout["next_value"] - rollout["value"]
    advantage, later = torch.zeros_like(delta), torch.zeros_like(delta[0])
    for t in reversed(range(len(delta))):
        later = delta[t] + cfg["gamma"] * cfg["gae_lambda"] * same_episode[t] * later
        advantage[t] = later
    return advantage


def minibatch(batch: dict[str, Any], part: list[int]) -> dict[str, Any]:
    """Steps of the flat batch; or of a recurrent model whole columns, with their carries."""
    steps = {name: x for name, x in batch.items() if x is not None and name != "carry"}
    if batch["carry"] is not None:
        return {"mask": None} | {name: x[:, part] for name, x in steps.items()} | {"carry": batch["carry"][:, :, part]}
    return {"mask": None} | {name: x.flatten(0, 1)[part] for name, x in steps.items()} | {"carry": None}


def loss(weights: dict[str, Any], batch: dict[str, Any], cfg: dict[str, Any], heads: list[int]) -> tuple[Any, dict[str, float], dict]:
    valid, eps = batch["valid"], cfg["clip_eps"]
    log_prob, entropy, value = (x[valid] for x in evaluate(weights, batch, heads))
    old_log_prob, old_value, advantage, target = (batch[name][valid] for name in ("log_prob", "value", "advantage", "target"))
    if cfg["normalize_advantage"]:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

    ratio = torch.exp(log_prob - old_log_prob)
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - eps, 1 + eps) * advantage)
    clipped_ratio, floored = surrogate < ratio * advantage, torch.zeros_like(advantage, dtype=torch.bool)
    if cfg["dual_clip_coef"] is not None:
        floor = cfg["dual_clip_coef"] * advantage
        floored = (advantage < 0) & (surrogate < floor)
        surrogate = torch.where(advantage < 0, torch.max(surrogate, floor), surrogate)
    policy_loss = -surrogate.mean()

    error = (value - target) ** 2
    clipped_error = (old_value + (value - old_value).clamp(-eps, eps) - target) ** 2
    value_loss = 0.5 * (torch.max(error, clipped_error) if cfg["clip_vloss"] else error).mean()

    total = policy_loss + cfg["vf_coef"] * value_loss - cfg["ent_coef"] * entropy.mean()
    metrics = {
        "loss": total, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy.mean(),
        "approx_kl": (ratio - 1 - (log_prob - old_log_prob)).mean(), "clip_fraction": ((ratio - 1).abs() > eps).double().mean(),
    }  # fmt: skip
    branches = {"clipped_ratio": clipped_ratio, "floored": floored, "clipped_value": clipped_error > error}
    return total, {name: x.item() for name, x in metrics.items()}, {name: x.double().mean().item() for name, x in branches.items()}


def check_coverage(name: str, inputs: dict[str, Any], seen: dict[str, float]) -> None:
    """Each branch that a case is about must be taken, or its numbers would prove nothing."""
    cfg, rollout = inputs["config"], inputs["rollout"]
    wanted = {"clipped_ratio": True, "clipped_value": cfg["clip_vloss"], "floored": cfg["dual_clip_coef"] is not None}
    wanted["clipped_gradient"] = cfg["max_grad_norm"] > 0
    for branch in (branch for branch, is_wanted in wanted.items() if is_wanted):
        assert seen[branch] > 0, f"{name}: {branch} is never taken"
    assert np.any(rollout["terminated"]), f"{name}: no episode terminates"
    assert np.any(rollout["truncated"]), f"{name}: no episode is truncated"
    assert np.any(rollout["is_first"][1:]), f"{name}: no episode begins inside"


if __name__ == "__main__":
    main()
