"""A contestant in a process of its own. The other libraries have an interpreter of their own too: torch never enters our environment."""

import contextlib
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Self

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parents[1] / ".venv-peers" / "bin" / "python"


class Peer:
    """A program of this folder, started and warmed up. It rests while nobody calls `go`.

    with Peer("sb3_ppo", "--threads", "1") as peer:
        rate = peer.go()
    """

    def __init__(self, program: str, *args: str, timeout: float = 300.0):
        python = sys.executable if program.startswith("rl4jax") else PYTHON
        if not pathlib.Path(python).exists():
            raise FileNotFoundError(f"{PYTHON.parents[1].name} is not there. Build it with: make peers")
        self.program, self.timeout = program, timeout
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        command = [python, HERE / f"{program}.py", *args]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True, bufsize=1, cwd=HERE
        )

    def __enter__(self) -> Self:
        try:
            self._expect("ready")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def go(self) -> float:
        """Train for one chunk; env steps per second by the peer's own clock."""
        num_steps, seconds = self.turn()
        return num_steps / seconds

    def turn(self) -> tuple[int, float]:
        """Train for one chunk; its env steps, and its seconds by the peer's own clock."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: `answer` tells why
            self._process.stdin.write("go\n")
        num_steps, seconds = self.answer().split()
        return int(num_steps), float(seconds)

    def answer(self) -> str:
        """The next line from the peer. One that says nothing for `timeout` seconds is killed."""
        assert self._process.stdout is not None
        start = time.monotonic()
        alarm = threading.Timer(self.timeout, self._process.kill)
        alarm.start()
        line = self._process.stdout.readline()
        alarm.cancel()
        if not line:
            why = (
                f"said nothing for {self.timeout:.0f} s"
                if time.monotonic() - start >= self.timeout
                else f"ended with code {self._process.wait()}"
            )
            raise RuntimeError(f"the peer {self.program} {why}. The end of its stderr:\n{self._stderr_tail()}")
        return line.strip()

    def close(self) -> int:
        """End the process, by force after 10 s; its exit code."""
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()
        return self._process.returncode

    def _expect(self, word: str) -> None:
        said = self.answer()
        if said != word:
            raise RuntimeError(f"the peer {self.program} said {said!r} where {word!r} was expected")

    def _stderr_tail(self, num_lines: int = 20) -> str:
        self._stderr.seek(0)
        return "\n".join(self._stderr.read().decode(errors="replace").splitlines()[-num_lines:])


@contextlib.contextmanager
def best_of_threads(program: str, *args: str, num_rounds: int = 3) -> Iterator[tuple[Peer, dict[int, float]]]:
    """The peer with one thread or with two, whichever is faster here now, and the median rate of both; they take turns.

    with best_of_threads("rejax_ppo") as (peer, rates):
        rate = peer.go()
    """
    with contextlib.ExitStack() as stack:
        peers = {threads: stack.enter_context(Peer(program, "--threads", str(threads), *args)) for threads in (1, 2)}
        rounds = [{threads: peer.go() for threads, peer in peers.items()} for _ in range(num_rounds)]
        rates = {threads: statistics.median(rates[threads] for rates in rounds) for threads in peers}
        best = max(peers, key=lambda threads: rates[threads])
        for threads in peers.keys() - {best}:
            peers[threads].close()
        yield peers[best], rates


def solve(program: str, *args: str, timeout: float = 600.0) -> tuple[int, float]:
    """Train until solved. Env steps, and the seconds from before the process starts until it says that it is done."""
    start = time.perf_counter()
    peer = Peer(program, "--solve", *args, timeout=timeout)
    try:
        num_steps, seconds = int(peer.answer().split()[0]), time.perf_counter() - start
    finally:
        code = peer.close()
    if code != 0:
        raise RuntimeError(f"the peer {' '.join((program, *args))} did not solve its task in {num_steps:,} steps")
    return num_steps, seconds
