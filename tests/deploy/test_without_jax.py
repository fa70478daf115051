"""Where policies only run: with the packages that the documentation lists, and no others."""

import importlib.metadata as metadata
import re
from pathlib import Path

import pytest

import rl4jax as rl
from rl4jax import deploy
from tests.deploy.policies import actor_critic
from tests.fresh_process import run

DOCS = Path(__file__).parents[2] / "docs" / "deployment" / "bundles.md"
ONLY = """
import importlib, sys
for name in {blocked!r}:
    sys.modules[name] = None
{program}
"""


def listed():
    """The packages that the documentation installs."""
    line = re.search(r"^pip install (numpy .*?)(#|$)", DOCS.read_text(), re.MULTILINE)
    assert line is not None
    return line[1].split()


def with_requirements(packages):
    """And those that pip installs with them."""
    found, todo = set(), list(packages)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name not in found:
            found.add(name)
            needs = [need for need in metadata.requires(name) or () if "extra ==" not in need and "python_version" not in need]
            todo += [re.match(r"[\w.-]+", need)[0] for need in needs]
    return found


def blocked(packages):
    """All modules that are installed here but would not be there."""
    there = with_requirements(packages)
    normal = {
        module: {re.sub(r"[-_.]+", "-", name).lower() for name in names} for module, names in metadata.packages_distributions().items()
    }
    return sorted(module for module, names in normal.items() if not names & (there | {"rl4jax"}) and module.isidentifier())


def run_there(program, *args, packages=None):
    return run(ONLY.format(blocked=blocked(packages or listed()), program=program), *args)


COMMAND = "from rl4jax.cli.main import main\nsys.exit(main(sys.argv[1:]))"
PLAY = "from rl4jax.deploy.run import main\nsys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    env = rl.VecEnv(rl.envs.CartPole(), 2)
    return deploy.export(actor_critic(env), env, tmp_path_factory.mktemp("bundle"), about={"env": "CartPole"})


def test_what_is_not_listed_is_not_there():
    assert {"jax", "equinox", "rich", "PIL", "safetensors", "onnx"} <= set(blocked(listed()))
    assert not {"numpy", "gymnasium", "onnxruntime", "tyro", "rl4jax", "packaging"} & set(blocked(listed()))


def test_a_policy_plays(bundle):
    done = run_there(PLAY, str(bundle), "--env", "gym:CartPole-v1", "--episodes", "2")
    assert done.stdout.startswith("gym:CartPole-v1 on onnxruntime: return "), done.stderr
    assert done.returncode == 0


def test_what_was_trained_in_ours_plays_in_the_same_of_gymnasium(bundle):
    done = run_there(PLAY, str(bundle), "--episodes", "2")
    assert done.stdout.startswith("gym:CartPole-v1 on onnxruntime: return "), done.stderr
    done = run_there(PLAY, str(bundle), "--env", "CartPole")
    assert done.stderr.endswith(
        "is not installed. The built-in ones need all that rl4jax trains with; the same of Gymnasium does: --env gym:CartPole-v1.\n"
    )
    done = run_there(PLAY, str(bundle), "--env", "Catch")
    assert done.stderr.endswith(
        "is not installed. The built-in ones need all that rl4jax trains with; those of Gymnasium do: --env gym:ID.\n"
    )


@pytest.mark.parametrize(
    ("runtime", "needed"), [("onnxruntime", ["onnxruntime"]), ("numpy", ["onnx"]), ("jax", ["jax", "safetensors", "flatbuffers"])]
)
def test_each_runtime_needs_its_package_only(runtime, needed, bundle):
    args, common = (str(bundle), "--env", "gym:CartPole-v1", "--episodes", "1", "--runtime", runtime), ["numpy", "gymnasium", "lazy_loader"]
    done = run_there(PLAY, *args, packages=common)
    said = f"deploy.load(runtime={runtime!r}) needs {' and '.join(needed)}. Install with: pip install {' '.join(needed)}\n"
    assert (done.stderr, done.returncode) == (said, 2)
    done = run_there(PLAY, *args, packages=[*common, *needed])
    assert done.stdout.startswith(f"gym:CartPole-v1 on {runtime}: return "), done.stderr


def test_commands_say_what_is_wrong(tmp_path):
    done = run_there(COMMAND, "serve", str(tmp_path / "nowhere"))
    assert (done.stdout, done.returncode) == ("", 2)
    assert (
        done.stderr
        == f"{tmp_path / 'nowhere'} is not a folder, so it is no bundle. Give a folder that `rl4jax export RUN --out DIR` wrote.\n"
    )


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        (["serve", "bundle"], ["tyro"]),
        (["train", "ppo", "CartPole"], ["rich", "jax", "equinox", "jaxtyping", "optax", "beartype", "safetensors", "pillow"]),
    ],
)
def test_commands_say_what_they_lack(command, absent):
    done = run_there(COMMAND, *command, packages=[name for name in listed() if name not in absent])
    said = f"rl4jax {command[0]} needs {' and '.join(absent)}. Install with: pip install {' '.join(absent)}\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", said, 1)


def test_an_export_says_what_it_lacks(tmp_path):
    """Before the work, whatever else is there."""
    program = "from rl4jax.deploy import export\ntry:\n    export(None, None, '')\nexcept ImportError as error:\n    print(error)"
    done = run("import sys\nsys.modules['jax2onnx'] = None\n" + program)
    assert done.stdout == "deploy.export needs an optional package. Install it with: pip install 'rl4jax[onnx]'\n", done.stderr


def test_commands_warn(bundle):
    stop = "import time\ndef sleep(_): raise KeyboardInterrupt\ntime.sleep = sleep\n"
    done = run_there(stop + COMMAND, "serve", str(bundle), "--host", "0.0.0.0", "--port", "0")
    assert (
        done.stderr == "Warning: host = 0.0.0.0 lets other machines ask, and there is no token. Set RL4JAX_TOKEN, or give one.\nStopped.\n"
    )
    assert done.returncode == 130
