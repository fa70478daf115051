"""The model card of a bundle: what it is, how good, and how to run it, for people and for Hugging Face."""

import json
import shlex

from .bundle import REPLAY, Config


def write_card(config: Config, name: str, has_replay: bool) -> str:
    """README.md, with front matter. `name` is the folder's: Python that is started inside of it would import what lies there."""
    env, algorithm, result = config.get("env"), config.get("algorithm") or "policy", config.get("evaluation")
    title = f"{algorithm} on {env or 'an environment'}"
    how = "greedy" if result and result.get("greedy", True) else "sampled"
    scores = f"{result['mean']:.4g} +/- {result['std']:.2g}" if result else "not measured"
    quoted = json.dumps(env)  # JSON is YAML, whatever the name
    front = ["---", "library_name: rl4jax", "tags:", "- reinforcement-learning", "- rl4jax", "- onnx", *([f"- {quoted}"] if env else [])]
    if result and env:
        front += ["model-index:", f"- name: {json.dumps(title)}", "  results:", "  - task:", "      type: reinforcement-learning"]
        front += ["    dataset:", f"      name: {quoted}", f"      type: {quoted}"]
        front += ["    metrics:", "    - type: mean_reward", f"      value: {scores}", "      name: mean_reward"]
    use = [
        "from rl4jax import deploy",
        "",
        f'act = deploy.load({json.dumps(name, ensure_ascii=False)})  # or runtime="jax", or "numpy"',
        "action, carry = act(obs)  # carry goes into the next call: act(obs, carry)",
    ]
    parts = [
        "\n".join([*front, "---"]),
        f"# {title}",
        *([f"![an episode]({REPLAY})"] if has_replay else []),
        f"Mean return: **{scores}**" + (f" over {result['episodes']} {how} episodes of the exported weights." if result else "."),
        "## Use\n\nFrom outside of this folder:",
        "\n".join(["```python", *use, "```"]),
        f"Or play an episode: `python -m rl4jax.deploy.run {shlex.quote(name)} --env {shlex.quote(str(env))}`." if env else "",
        "Without Python: `policy.onnx` runs wherever ONNX does. A batch of any size goes in, and comes out.",
        "## Inputs and outputs",
        _table("input", config["inputs"]),
        _table("output", config["outputs"]),
        _notes(config),
        f"Made with rl4jax {config['versions'].get('rl4jax', 'from source')}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(kind: str, ports: list[dict]) -> str:
    rows = [f"| `{port['name']}` | [batch{''.join(f', {n}' for n in port['shape'])}] | {port['dtype']} |" for port in ports]
    return "\n".join([f"| {kind} | shape | dtype |", "|---|---|---|", *rows])


def _notes(config: Config) -> str:
    notes = []
    if config["carry"]:
        notes.append("- `carry` is the memory: at the start of an episode what `config.json` says, then `next_carry` of the step before.")
    if config["noise"]:
        notes.append("- `noise` is the chance: fresh numbers for each step, of the kind that `config.json` says.")
    if config["mask"]:
        notes.append("- `mask` is true where an action is allowed.")
    if config["normalisation"]:
        notes.append("- Observations go in raw: the program normalises them.")
    return "\n".join(notes)
