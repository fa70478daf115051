"""HTTP/1.1 with JSON in and out, bounded on every side: bytes, seconds, clients, and requests worked on at once. Standard library only.

A thread waits on each client. Whatever a client sends or does not send, it is answered with a reason or hung up on, and only it.
"""

import contextlib
import dataclasses
import hmac
import http.server
import io
import json
import logging
import math
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rl4jax.core.errors import Rl4JaxError, is_count, require

MAX_HEAD = 1 << 16  # bytes of a request before its body
LONGEST_REASON = 500  # characters: a reason may quote the request
SLOW = 0.5  # seconds after which an answer that is not taken counts as silence
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
log = logging.getLogger(__name__)


class Refused(Rl4JaxError):
    """A request that is not answered, and why."""

    def __init__(self, status: int, reason: str, **headers: str):
        super().__init__(reason)
        self.status, self.headers = status, headers


class Answer(NamedTuple):
    """What goes back to a client."""

    status: int
    body: bytes
    headers: dict[str, str]


class Route(NamedTuple):
    """What answers a path: a function of the body of the request."""

    method: str
    answer: Callable[[bytes], bytes]
    kind: str = "application/json"
    open: bool = False  # to those without the token too


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one client may take of the server."""

    max_body: int = 1 << 20  # bytes
    max_clients: int = 128  # connected at once; one more, and whoever has been silent for longest is hung up on
    request_seconds: float = 10.0  # for a request to arrive, and as long for its answer to leave
    idle_seconds: float = 60.0  # between two requests

    def __post_init__(self):
        for name, value in vars(self).items():
            if name.startswith("max"):
                require(is_count(value), name, value, "a positive integer")
            else:
                require(isinstance(value, int | float) and 0 < value <= 86400, name, value, "a positive number, of a day at most")


def read_object(body: bytes) -> dict[str, Any]:
    """An object of JSON. Numbers may be too large or no numbers: whoever knows their names checks them."""
    try:
        value = json.loads(body, object_pairs_hook=_once_each)
    except RecursionError:
        raise Refused(400, "The body is nested too deep. Send lists as deep as the observation has axes, and one for a batch.") from None
    except ValueError as error:
        raise Refused(400, f'The body is not JSON: {error}. Send for example {{"obs": [0.0, 1.0]}}.') from None
    if not isinstance(value, dict):
        raise Refused(422, f'The body is a {type(value).__name__}; it must be an object, such as {{"obs": [0.0, 1.0]}}.')
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = {}
    for name, x in pairs:
        if name in value:
            raise Refused(400, f"{name!r} is given twice in one object. Give it once.")
        value[name] = x
    return value


def write_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"


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
            raise Refused(431, f"The head of the request is longer than {MAX_HEAD} bytes. Send fewer or shorter headers.")
        self.connection.settimeout(max(self.deadline - time.monotonic(), 1e-3))
        count = self.connection.recv_into(memoryview(buffer)[: self.left])
        self.left -= count
        return count


class Client:
    """Somebody connected, and since when we have waited for them: idle, with a request half sent, or with an answer half taken."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.idle, self.taking = True, False
        self.waiting_since = time.monotonic()  # infinite: they wait for us

    def hang_up(self, at_once: bool = False) -> None:
        """What has arrived is still read and answered, unless it is at once."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR if at_once else socket.SHUT_RD)


class Handler(http.server.BaseHTTPRequestHandler):
    """One client, request after request."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # even nonsense is answered with a status
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and body leave together
    server: "JsonServer"  # pyright: ignore[reportIncompatibleVariableOverride]

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.incoming = Incoming(self.connection)
        self.rfile = self.buffered = io.BufferedReader(self.incoming)
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
        try:
            self._send(answer)
        except OSError:  # they left, or do not read
            self.close_connection = True
        self.server.observe(self.path if self.path in self.server.routes else "other", answer.status, time.monotonic() - began)

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
        if not self.raw_requestline.endswith(b"\n") or not self.parse_request():
            raise Refused(400, "The request has no first line. Send for example GET /health HTTP/1.1.")
        if self.headers.defects:
            raise Refused(400, "The request has a line that is no header. Send headers as Name: value.")
        body = self._body()
        self.client.waiting_since = math.inf
        self.path = self.path.partition("?")[0]
        route = self._route()
        with self.server.workers:
            return Answer(200, route.answer(body), {"Content-Type": route.kind})

    def _body(self) -> bytes:
        if "Transfer-Encoding" in self.headers:
            raise Refused(411, "Transfer-Encoding is not taken here. Send the body whole, with its Content-Length.")
        lengths = {length.strip() for length in self.headers.get_all("Content-Length", [])}
        if not lengths and self.command == "POST":
            raise Refused(411, "Content-Length is missing. Send that of the body in bytes.")
        text = lengths.pop() if lengths else "0"
        if lengths or not (text.isascii() and text.isdigit()):
            raise Refused(400, f"Content-Length = {text[:18]!r} must be one whole number: that of the body in bytes.")
        most = self.server.limits.max_body
        if len(text) > 18 or int(text) > most:
            raise Refused(413, f"Content-Length = {text[:18]} is more than {most} bytes. Send smaller batches, or raise --max-body.")
        length = int(text)
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
            self.wfile.flush()
        self.incoming.left = length
        body = self.rfile.read(length) if length else b""
        if len(body) < length:
            raise Refused(400, f"Content-Length = {length}, but only {len(body)} bytes of the body came. Send all, or say how many.")
        self.unread = False
        return body

    def _route(self) -> Route:
        routes, token = self.server.routes, self.server.token
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
        self.wfile.flush()
        if self.unread:
            self._drain()

    def _drain(self) -> None:
        """Read on for a second, or the kernel would take the answer back from a client that is still sending."""
        self.connection.shutdown(socket.SHUT_WR)
        self.client.waiting_since, nowhere = time.monotonic(), bytearray(1 << 16)
        self.incoming.allow(1 << 62, 1.0)
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


def refusal(error: Refused) -> Answer:
    reason = str(error)
    reason = reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + " ..."
    return Answer(error.status, write_json({"error": reason}), {"Content-Type": "application/json", **error.headers})


class JsonServer(socketserver.TCPServer):
    """Answers the routes until it is stopped; `observe(path, status, seconds)` is told of each answer."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        routes: dict[str, Route],
        observe: Callable[[str, int, float], None],
        *,
        token: str | None = None,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
    ):
        readable = token is None or (isinstance(token, str) and all("!" <= sign <= "~" for sign in token) and token != "")
        require(readable, "token", "...", "one or more letters, digits and signs of ASCII, without spaces")
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.routes, self.observe, self.token, self.limits = routes, observe, token, limits
        self.workers = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))  # a body in JSON is large once it is read
        self.clients: dict[socket.socket, Client] = {}
        self.changed = threading.Condition()  # of clients
        self.stopping = False
        self.thread: threading.Thread | None = None
        super().__init__(address, Handler)

    def start(self) -> None:
        require(self.thread is None and not self.stopping, "Server.start: server", "used before", "new", "Make another one.")
        self.thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="rl4jax-serve", daemon=True)
        self.thread.start()

    def stop(self, seconds: float) -> None:
        """Take no more requests, answer those that have begun to arrive, but wait no longer than that."""
        self.stopping = True
        if self.thread is not None:
            self.shutdown()
            self.thread.join()
        self.server_close()
        with self.changed:
            for client in self.clients.values():
                if client.idle:
                    client.hang_up()
            self.changed.wait_for(lambda: not self.clients, seconds)
            for client in self.clients.values():
                client.hang_up(at_once=True)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.changed:
            if not self._has_room():
                with contextlib.suppress(OSError):
                    request.settimeout(0.1)
                    request.sendall(FULL)
                self.observe("other", 503, 0.0)
                self.shutdown_request(request)
                return
            self.clients[request] = Client(request)
        try:
            threading.Thread(target=self._attend, args=(request, client_address), daemon=True).start()
        except RuntimeError:  # the machine has no more threads
            self._forget(request)

    def _has_room(self) -> bool:
        """If need be after hanging up on whoever has kept us waiting for longest."""
        if len(self.clients) < self.limits.max_clients:
            return True
        silent = min(self.clients.values(), key=lambda client: client.waiting_since)
        if silent.waiting_since < time.monotonic():
            silent.hang_up(at_once=silent.taking)
        return self.changed.wait_for(lambda: len(self.clients) < self.limits.max_clients, timeout=1.0)

    def _attend(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:  # they left while we were answering
            pass
        except Exception:
            log.exception("a connection failed")
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        self.shutdown_request(request)
        with self.changed:
            del self.clients[request]
            self.changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.exception("a connection could not be taken")
