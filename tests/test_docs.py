"""The documentation is true: its code runs, and it describes every public name."""

import inspect
import operator
import re
from pathlib import Path

import jax
import pytest

import rl4jax as rl

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
VMAP_OVER_SCAN = ("docs/concepts/environments.md", "docs/concepts/vec-env.md")  # where JAX takes any scan over keys for their reuse
BLOCK = re.compile(r"^(<!-- no-run -->\n+)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def runnable_blocks(page: Path) -> list[tuple[int, str]]:
    """The line at which each block begins, and its code. `<!-- no-run -->` before a block leaves it out."""
    text = page.read_text()
    return [(text[: found.start(2)].count("\n"), found[2]) for found in BLOCK.finditer(text) if not found[1]]


def test_blocks_are_found_and_marked_ones_left_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\na = 1\n```\n\n<!-- no-run -->\n```python\nb\n```\n\n```text\nc\n```\n\n```python\nd = 2\n```\n")
    assert runnable_blocks(page) == [(3, "a = 1\n"), (16, "d = 2\n")]


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")  # EnvPool's spaces
@pytest.mark.parametrize(
    "name", [str(page.relative_to(ROOT)) for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if runnable_blocks(page)]
)
def test_the_code_of_a_page_runs_from_top_to_bottom(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    with jax.debug_key_reuse(name not in VMAP_OVER_SCAN):
        for line, code in runnable_blocks(ROOT / name):
            exec(compile("\n" * line + code, str(ROOT / name), "exec"), namespace)


def public_names(package):
    return {name: getattr(package, name) for name in vars(package)["__all__"] if not inspect.ismodule(getattr(package, name))}


VERBS = ("Config", "State", "init", "act", "collect", "loss", "update", "train")
PACKAGES = ("collect", "deploy", "envs", "gradients", "nn")
PUBLIC = {f"rl4jax.{name}": getattr(rl, name) for name in vars(rl)["__all__"] if not inspect.ismodule(getattr(rl, name))}
PUBLIC |= {f"rl4jax.{package}.{name}": value for package in PACKAGES for name, value in public_names(getattr(rl, package)).items()}
MODULES = {
    "ppo": (*VERBS, "loss_args"),
    "dqn": (*VERBS, "move_target", "transition_like", "replay_on_disk"),
    "impala": VERBS,
    "dreamer": (
        *VERBS, "Agent", "world_model_loss", "actor_critic_loss", "imagine_rollout", "Imagined", "kl_balanced_loss", "Representation", "Decoder",
        "BarlowTwins", "InfoNCE", "Prototypes", "Size", "Moment", "moment_like", "replay_on_disk", "clip_by_weight", "scale_by_laprop",
    ),
    "bc": ("Config", "State", "Demonstrations", "from_arrays", "from_rollouts", "from_minari", "init", "act", "loss", "update", "train"),
    "distill": ("Config", "State", "Targets", "label", "merge", "init", "act", "loss", "update", "train"),
    "losses": ("value_loss", "policy_loss_discrete", "policy_loss_continuous", "multi_head_value_loss"),
    "gradients.safe": ("where", "log", "sqrt", "norm", "max"),
}  # fmt: skip
PUBLIC |= {f"rl4jax.{module}.{name}": getattr(operator.attrgetter(module)(rl), name) for module, names in MODULES.items() for name in names}


@pytest.mark.parametrize("path", PUBLIC)
def test_every_public_name_is_in_the_reference_and_has_a_docstring(path):
    assert re.search(rf"^::: {re.escape(path)}$", (DOCS / "reference.md").read_text(), re.MULTILINE), "add it to docs/reference.md"
    value = PUBLIC[path]
    if inspect.isclass(value) or inspect.isroutine(value):  # others, such as BUILT_IN, cannot have one
        assert has_own_docstring(value)


def has_own_docstring(value) -> bool:
    """Not inherited, and not the one that dataclasses and named tuples write for themselves: `Name(field: type, ...)`."""
    doc = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    return bool(doc) and not doc.startswith(f"{value.__name__}(")


def test_the_reference_names_nothing_that_is_not_public():
    listed = re.findall(r"^::: (\S+)$", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(PUBLIC)


def test_the_files_that_the_architecture_names_exist():
    section = (DOCS / "architecture.md").read_text().split("## Inside `core`")[1].split("## ")[0]
    named = set(re.findall(r"`(\w+\.py|\w+/)`", section))
    core = ROOT / "rl4jax" / "core"
    there = {path.name + "/" * path.is_dir() for path in core.iterdir() if not path.name.startswith("__")}
    assert named == there
