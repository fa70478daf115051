"""The model card of a bundle: what it is, how good, and how to run it, for people and for Hugging Face."""

import json
import re
import shlex

import numpy as np

from rl4jax.core.figures import plus_minus

from .bundle import CARD, CONFIG, ONNX, OPSET, REPLAY, STABLEHLO, WEIGHTS, Config
from .codec import MASK, SpaceSpec
from .env_names import GYM, to_play
from .space_words import in_words

TITLES = {"ppo": "PPO", "dqn": "DQN", "impala": "IMPALA", "dreamer": "Dreamer", "bc": "Behavioral cloning", "distill": "Distillation"}
FILES = {
    ONNX: f"the policy for a batch of any size: ONNX, opset {OPSET}, which onnxruntime 1.15 and newer runs, in any language",
    STABLEHLO: "the same as JAX traced it, without the weights",
    WEIGHTS: "the weights by name",
    CONFIG: "spaces, inputs and outputs, the memory at the start, versions, a hash of each file",
    CARD: "this card",
    REPLAY: "an episode",
}
INSTALL = """```text
pip install numpy gymnasium lazy_loader onnxruntime
pip install --no-deps PATH_TO_A_CLONE_OF_RL4JAX
```"""


def write_card(config: Config, name: str, has_replay: bool) -> str:
    """README.md, with front matter. `name` is the folder's: Python that is started inside of it would import what lies there."""
    env, algorithm, result = config.get("env"), config.get("algorithm"), config.get("evaluation")
    play, with_jax = play_command(name, env), "" if (to_play(env) or "").startswith(GYM) else ", with JAX for the environment"
    title = " on ".join(filter(None, (title_of(algorithm), env)))
    parts = [
        _front_matter(title, env, result),
        f"# {_escaped(title)}",
        *([f"![an episode]({REPLAY})"] if has_replay else []),
        _result(config, result),
        f"## Use\n\nWith rl4jax and onnxruntime, without JAX:\n\n{INSTALL}\n\nFrom outside of this folder, here with zeros:",
        _fenced("python", "\n".join(_code(config, name))),
        f"Or play episodes{with_jax}:\n\n{_fenced('text', play)}" if play else "",
        "With onnxruntime alone:",
        _fenced("python", "\n".join(_bare_code(config, name))),
        "## Inputs and outputs\n\n" + _spaces(config),
        _table("input", config["inputs"]),
        _table("output", config["outputs"]),
        _notes(config),
        "## Files",
        "\n".join(f"- `{file}`: {what}" for file, what in FILES.items() if file != REPLAY or has_replay),
        f"Made with rl4jax {config['versions'].get('rl4jax', 'from source')}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def title_of(algorithm: str | None) -> str:
    return TITLES.get(algorithm or "", algorithm) or "A policy"


def play_command(folder: str, env: str | None, python: str = "python") -> str | None:
    """What to type to see it play, if there is a command that knows the environment."""
    known = to_play(env)
    return None if known is None else f"{python} -m rl4jax.deploy.run {in_shell(folder)} --env {shlex.quote(known)}"


def in_shell(path: str) -> str:
    """A path to type, which nothing takes for a flag.

    >>> in_shell("-my bundle")
    "'./-my bundle'"
    """
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _fenced(language: str, code: str) -> str:
    """A block that no line of the code ends."""
    longest = max(map(len, re.findall("`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


def _front_matter(title: str, env: str | None, result: dict | None) -> str:
    quoted = _quoted(env or "")  # JSON is YAML, whatever the name
    front = ["---", "library_name: rl4jax", "pipeline_tag: reinforcement-learning", "tags:"]
    front += ["- reinforcement-learning", "- deep-reinforcement-learning", "- rl4jax", "- onnx", *([f"- {quoted}"] if env else [])]
    if result and env:
        front += ["model-index:", f"- name: {_quoted(title)}", "  results:"]
        front += ["  - task:", "      type: reinforcement-learning", "      name: reinforcement-learning"]
        front += ["    dataset:", f"      name: {quoted}", f"      type: {quoted}"]
        score = plus_minus(result["mean"], result["std"], "+/-")
        front += ["    metrics:", "    - type: mean_reward", f"      value: {score}", "      name: mean_reward"]
    return "\n".join([*front, "---"])


def _result(config: Config, result: dict | None) -> str:
    if not result:
        return "Its mean return was not measured."
    how = "greedy" if result.get("greedy", True) else "sampled"
    score = plus_minus(result["mean"], result["std"], "+/-")
    said = f"Mean return: **{score}** over {result['episodes']} {how} episodes of the exported weights"
    if not isinstance(config.get("step"), int):
        return f"{said}."
    seed = f", seed {config['seed']}" if isinstance(config.get("seed"), int) else ""
    best = ", the best by evaluation" if config.get("checkpoint") == "best" else ""
    return f"{said}: those after {config['step']:,} steps{seed}{best}."


def _code(config: Config, name: str) -> list[str]:
    """With observations of zeros. A mask allows all."""
    mask, memory = config["mask"], bool(config["carry"])
    allowed = f'np.ones({mask["size"]}, "bool")' if mask else ""
    obs = config["observation_space"]
    separate = mask and not mask["in_obs"]
    return [
        "import numpy as np",
        "from rl4jax import deploy",
        "",
        f'act = deploy.load({_quoted(name)})  # or runtime="jax", or "numpy"',
        f"obs = {_zeros(obs, {MASK: allowed} if mask and mask['in_obs'] else {})}  # yours",
        *([f"mask = {allowed}  # yours: true where allowed"] if separate else []),
        f"action, {'carry' if memory else '_'} = act(obs{', mask=mask' if separate else ''})",
        *([f"action, carry = act(obs, carry{', mask' if separate else ''})  # the next steps: carry is its memory"] if memory else []),
    ]


def _zeros(spec: SpaceSpec, more: dict[str, str]) -> str:
    """The first there is of a space, in Python."""
    if spec["type"] == "Dict":
        parts = {key: _zeros(part, {}) for key, part in spec["spaces"].items()} | more
        return "{" + ", ".join(f"{_quoted(key)}: {part}" for key, part in parts.items()) + "}"
    if spec["type"] == "Tuple":
        return "(" + "".join(f"{_zeros(part, {})}, " for part in spec["spaces"]) + ")"
    start = f" + {spec['start']}" if np.any(spec.get("start", 0)) else ""
    return f'np.zeros({tuple(spec["own_shape"])}, "{spec["own_dtype"]}"){start}'


def _plain(text: str) -> str:
    """A text for between backticks, also in a table, and on one line: keys of a dict may be anything."""
    return "".join(sign if sign.isprintable() and sign not in "`|" else f"\\x{ord(sign):02x}" for sign in text)


def _escaped(text: str) -> str:
    """A text for outside of backticks."""
    return re.sub(r"([\[\]<*_`])", r"\\\1", text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _bare_code(config: Config, name: str) -> list[str]:
    """Without anything of ours. A mask allows all; memory is that of the start, if it is one number."""
    fill = {"mask": 1} | {part["name"]: part["initial"] for part in config["carry"] if not isinstance(part["initial"], list)}
    outputs = ", ".join(_plain(port["name"]) for port in config["outputs"])
    return [
        "import numpy as np",
        "import onnxruntime",
        "",
        f"policy = onnxruntime.InferenceSession({_quoted(f'{name}/{ONNX}')})",
        "inputs = {",
        *(f"    {_quoted(port['name'])}: {_filled(port, fill.get(port['name'], 0))}," for port in config["inputs"]),
        "}",
        f"outputs = policy.run(None, inputs)  # {outputs}",
    ]


def _filled(port: dict, x: int | float) -> str:
    shape, kind = (1, *port["shape"]), f'"{port["dtype"]}"'
    if x in (0, 1):
        return f"np.{'ones' if x else 'zeros'}({shape}, {kind})"
    return f"np.full({shape}, {x}, {kind})"


def _spaces(config: Config) -> str:
    return f"Observations are `{_plain(in_words(config['observation_space']))}`, actions `{_plain(in_words(config['action_space']))}`."


def _table(kind: str, ports: list[dict]) -> str:
    rows = [f"| `{_plain(port['name'])}` | [batch{''.join(f', {n}' for n in port['shape'])}] | {port['dtype']} |" for port in ports]
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
    if config.get("value"):
        notes.append(f"- `value`: {config['value']}.")
    return "\n".join(notes)
