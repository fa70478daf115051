"""A server of HTTP for many clients, bounded in how many there are and in how many requests are worked on at once.

A thread waits on each client, so that whatever one does or does not do disturbs only itself. Standard library only.
"""

import contextlib
import dataclasses
import logging
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from typing import Any

from rl4jax.core.errors import is_count, require

from .http_handler import Handler
from .http_json import Route
from .local_askers import own_names

FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
log = logging.getLogger(__name__)


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


class JsonServer(socketserver.TCPServer):
    """Answers the routes until it is stopped.

    `observe(path, status, seconds)` is told of each answer; seconds are None if no request was read.
    """

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        routes: dict[str, Route],
        observe: Callable[[str, int, float | None], None],
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
        self.host, self.names = address[0], own_names(address[0], str(self.server_address[0]))

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
                self.observe("other", 503, None)
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
        if silent.waiting_since > time.monotonic():
            return False  # all are being answered
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
