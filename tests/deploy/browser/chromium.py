"""Debian's Chromium without a window, driven by playwright-core: `browser.open(url)`, `browser.evaluate("return 1 + 1")`."""

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

from rl4jax.deploy.web import npm_package
from tests.deploy.browser.node import NODE

PLAYWRIGHT = "playwright-core@1.65.0"
PLAYWRIGHT_INTEGRITY = "sha512-vNSKgH6YqtN7cdT/L334zo0a+YwkrpicyrHJlWWPIm/Q+Nn2SWInil01oT0mbu96U4GgoRtCYQD9CzJQgju+lA=="
SOFTWARE_GPU = ("--enable-unsafe-webgpu", "--enable-features=Vulkan", "--use-webgpu-adapter=swiftshader", "--use-vulkan=swiftshader")
DRIVER = Path(__file__).with_name("driver.mjs")


def find_chromium():
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "Chromium is missing. Install it: apt-get install -y --no-install-recommends chromium; or set CHROMIUM to its path."
    return found


class Browser:
    """One process of the driver; `folder` is where playwright-core is unpacked to."""

    def __init__(self, folder, *args):
        with tarfile.open(npm_package(PLAYWRIGHT, PLAYWRIGHT_INTEGRITY)) as tar:
            tar.extractall(folder, filter="data")
        sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()  # root has none
        command = [NODE, str(DRIVER), str(folder / "package" / "index.js"), find_chromium(), *sandbox, *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def do(self, command, **given):
        self.process.stdin.write(json.dumps({"command": command, **given}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "The driver ended. What it said is above."
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def open(self, url, width=1440, height=900, scheme="light", motion="no-preference"):
        self.do("open", url=url, width=width, height=height, scheme=scheme, motion=motion)

    def evaluate(self, script, given=None):
        return self.do("evaluate", script=script, given=given)


class Plain(http.server.SimpleHTTPRequestHandler):
    """As a server that knows neither .mjs nor .wasm: nginx, as it comes, is one."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | dict.fromkeys((".mjs", ".wasm"), "application/octet-stream")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serve(folder):
    """The folder at an address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Plain, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
