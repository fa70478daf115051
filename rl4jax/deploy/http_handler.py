"""One client of a server: its requests, one after the other, bounded in bytes and seconds. Standard library only.

Whatever it sends or does not send, it is answered with a reason or hung up on.
"""

import contextlib
import hmac
import http.server
import io
import logging
import math
import socket
import time
from typing import TYPE_CHECKING, Any

from .http_json import LONGEST_REASON, Answer, Refused, Route, refusal
from .local_askers import check_asker

if TYPE_CHECKING:
    from .http_server import JsonServer

MAX_HEAD = 1 << 16  # bytes of a request before its body
SLOW = 0.5  # seconds after which an answer that is not taken counts as silence
log = logging.getLogger(__name__)


def too_long() -> Refused:
    return Refused(431, f"The head of the request is longer than {MAX_HEAD} bytes. Send fewer or shorter headers.")


class Incoming(io.RawIOBase):
    """What a client sends: so many bytes, until then."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.allow(0, 0.0)

    def allow(self, num_bytes: int, seconds: float) -> None:
        self.left, self.deadline = num_bytes, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.left <= 0:
            raise too_long()
        self.connection.settimeout(max(self.deadline - time.monotonic(), 1e-3))
        count = self.connection.recv_into(memoryview(buffer)[: self.left])
        self.left -= count
        return count


class Handler(http.server.BaseHTTPRequestHandler):
    """One client, request after request."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # even nonsense is answered with a status
    disable_nagle_algorithm = True
    server: "JsonServer"  # pyright: ignore[reportIncompatibleVariableOverride]

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.incoming = Incoming(self.connection)
        self.rfile = self.buffered = io.BufferedReader(self.incoming)
        self.wfile = io.BytesIO()  # head and body leave together
        self.client = self.server.clients[self.connection]

    def handle(self) -> None:
        self.close_connection = False
        while not self.close_connection:
            self.handle_one_request()

    def handle_one_request(self) -> None:
        if not self._next_arrives():
            self.close_connection = True
            return
        began, self.unread = time.monotonic(), True
        self.command, self.path, self.request_version = "", "", self.protocol_version
        try:
            answer = self._answer()
        except TimeoutError:
            reason = f"The request did not arrive within {self.server.limits.request_seconds:g} seconds. Send all of its Content-Length."
            answer = refusal(Refused(408, reason))
        except Refused as error:
            answer = refusal(error)
        except OSError:  # they left
            self.close_connection = True
            return
        except Exception:
            log.exception("%s %s", self.command, self.path[:LONGEST_REASON])
            answer = refusal(Refused(500, "The server failed; its log says why. Please report this request."))
        # Before it leaves: who has an answer finds it counted, and slow readers are not our slowness.
        self.server.observe(self.path if self.path in self.server.routes else "other", answer.status, time.monotonic() - began)
        try:
            self._send(answer)
        except OSError:  # they left, or do not read
            self.close_connection, self.unread = True, False
        if self.unread:
            self._drain()

    def _next_arrives(self) -> bool:
        """Whether there is another request, by its first byte."""
        self.client.waiting_since, self.client.idle, self.client.taking = time.monotonic(), True, False
        if self.server.stopping:  # asked after we are idle, as `stop` looks for idle ones after it is set
            return False
        self.incoming.allow(MAX_HEAD, self.server.limits.idle_seconds)
        try:
            return bool(self.buffered.peek(1))
        except OSError:
            return False
        finally:
            self.client.idle = False

    def _answer(self) -> Answer:
        self.incoming.allow(MAX_HEAD, self.server.limits.request_seconds)
        self.raw_requestline = self.rfile.readline(MAX_HEAD)
        if len(self.raw_requestline) == MAX_HEAD:
            raise too_long()
        if not self.raw_requestline.endswith(b"\n") or not self.parse_request():
            raise Refused(400, "The request has no first line. Send for example GET /health HTTP/1.1.")
        self.path = self.path.partition("?")[0]
        if self.headers.defects:
            raise Refused(400, "The request has a line that is no header. Send headers as Name: value.")
        body = self._body()
        self.client.waiting_since = math.inf
        route = self._route()
        with self.server.workers if route.computes else contextlib.nullcontext():
            return Answer(200, route.answer(body), {"Content-Type": route.kind})

    def _body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise Refused(411, "Transfer-Encoding is not taken here. Send the body whole, with its Content-Length.")
        lengths = {length.strip() for length in self.headers.get_all("Content-Length", [])}
        if not lengths and self.command == "POST":
            raise Refused(411, "Content-Length is missing. Send that of the body in bytes.")
        if len(lengths) > 1:
            raise Refused(400, "Content-Length is given twice, and differs. Send it once: that of the body in bytes.")
        text = lengths.pop() if lengths else "0"
        if not (text.isascii() and text.isdigit()):
            raise Refused(400, f"Content-Length = {text[:18]!r} must be one whole number: that of the body in bytes.")
        most = self.server.limits.max_body
        if len(text) > 18 or int(text) > most:
            raise Refused(413, f"Content-Length = {text[:18]} is more than {most} bytes. Send smaller batches, or raise --max-body.")
        length = int(text)
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
            self._leave()
        self.incoming.left = length
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            raise Refused(400, f"Content-Length = {length}, but only {len(body)} bytes of the body came. Send all, or say how many.")
        self.unread = False
        return body

    def _route(self) -> Route:
        routes, token = self.server.routes, self.server.token
        if token is None:  # a token is enough: no page knows it
            check_asker(self.headers, self.server.names, self.server.host)
        if self.path not in routes:
            known = ", ".join(f"{route.method} {path}" for path, route in routes.items())
            raise Refused(404, f"There is no {self.path[:100]}. Ask one of: {known}.")
        route = routes[self.path]
        allowed = ["GET", "HEAD"] if route.method == "GET" else [route.method]
        if self.command not in allowed:
            raise Refused(405, f"{self.command[:20]} {self.path} cannot be asked. Use {route.method}.", Allow=", ".join(allowed))
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if token is not None and not route.open and not hmac.compare_digest(given, b"Bearer " + token.encode()):
            reason = "Authorization is missing or has another token. Send the header Authorization: Bearer TOKEN."
            raise Refused(401, reason, **{"WWW-Authenticate": 'Bearer realm="rl4jax"'})
        return route

    def _send(self, answer: Answer) -> None:
        if self.unread or self.server.stopping:
            self.close_connection = True
        self.client.waiting_since, self.client.taking = time.monotonic() + SLOW, True
        self.connection.settimeout(self.server.limits.request_seconds)
        self.send_response(answer.status)
        length, after = str(len(answer.body)), "close" if self.close_connection else "keep-alive"
        for name, value in {**answer.headers, "Content-Length": length, "Connection": after}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self._leave()

    def _leave(self) -> None:
        """Send what was written, all of it within the timeout of the connection: that of `sendall` is for the whole."""
        self.wfile.seek(0)
        written, self.wfile = self.wfile.read(), io.BytesIO()
        self.connection.sendall(written)

    def _drain(self) -> None:
        """Read on for a second, or the kernel would take the answer back from a client that is still sending."""
        self.client.waiting_since, nowhere = time.monotonic(), bytearray(1 << 16)
        self.incoming.allow(1 << 62, 1.0)
        with contextlib.suppress(OSError):  # they left
            self.connection.shutdown(socket.SHUT_WR)
            while self.incoming.readinto(nowhere) and time.monotonic() < self.incoming.deadline:
                pass

    def version_string(self) -> str:
        return "rl4jax"

    def handle_expect_100(self) -> bool:
        return True  # said by `_body`, once it wants one

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library cannot parse."""
        raise Refused(code if code < 500 else 400, f"{message}. Send a request of HTTP/1.1, with at most 100 headers.")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Requests are counted, not written down."""
