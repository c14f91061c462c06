"""An HTTP server on 127.0.0.1 that does, byte for byte, what a test scripts.

`steps` has the vocabulary.

Every request is recorded. What a script does not cover is answered as a well-behaved server of the
chosen era would. A mistake in a script fails the test when the server closes.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from tests.support.steps import (
    Request,
    Rules,
    Script,
    default_rules,
    turns,
)

PATIENCE = 10.0


class ScriptedServer:
    """`with ScriptedServer({"tools/call": reset()}) as server: ... server.url ... server.requests`.

    Args:
        rules: JSON-RPC method -> script. Also "GET", "DELETE", "reply" (a response from the
            client), "batch", "*" (any other), and "accept" (run when a connection opens, before a
            request is read).
        era: whose defaults fill the gaps: "stateless", "handshake", or None for none.
        session: the Mcp-Session-Id of the handshake era, None for a server without sessions.
        tls: a server-side SSLContext (fixture `certificates`).
        path: the path of `url`; requests are answered whatever their path.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        *,
        era: str | None = "stateless",
        session: str | None = "session-1",
        tls: ssl.SSLContext | None = None,
        path: str = "/mcp",
    ) -> None:
        self.rules: dict[str, Script | turns] = {**default_rules(era, session), **(rules or {})}
        self.requests: list[Request] = []
        self.accepted = 0
        """Connections accepted so far."""
        self.open = 0
        """Connections open now, as far as the server has seen."""
        self._tls = tls
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._errors: list[BaseException] = []
        self._connections: set[_Connection] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.url = self.origin + path
        self._spawn(self._accept)

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if kind is None and self._errors:
            raise self._errors[0]

    @property
    def methods(self) -> list[str]:
        """The method of each request so far, in order of arrival."""
        return [request.method for request in list(self.requests)]

    def count(self, method: str) -> int:
        """How many requests with this method arrived."""
        return self.methods.count(method)

    def calls(self, method: str = "tools/call") -> list[Request]:
        """The requests with this method."""
        return [request for request in list(self.requests) if request.method == method]

    def wait_until(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Wait until the condition holds; looked at again whenever a request came or a connection
        changed.
        """
        with self._changed:
            assert self._changed.wait_for(condition, timeout), f"not within {timeout:g} s"

    def stop_listening(self) -> None:
        """Refuse further connections; those that are open go on."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        """Close everything and wait for the threads."""
        self._closing.set()
        self.stop_listening()
        for connection in list(self._connections):
            connection.shut()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                number, self.accepted, self.open = self.accepted, self.accepted + 1, self.open + 1
                self._changed.notify_all()
            self._spawn(self._serve, sock, number)

    def _serve(self, sock: socket.socket, number: int) -> None:
        connection = _Connection(self, sock, number)
        self._connections.add(connection)
        try:
            if self._closing.is_set():
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection.sock = self._tls.wrap_socket(sock, server_side=True)
            if "accept" in self.rules:
                connection.run(_script(self.rules["accept"]))
            for request in connection.requests():
                with self._changed:
                    self.requests.append(request)
                    self._changed.notify_all()
                rule = self.rules.get(request.method, self.rules.get("*"))
                assert rule is not None, f"no script for {request.method}"
                connection.run(_script(rule), request)
        except OSError:
            pass  # the client, or the test's end, closed it
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._connections.discard(connection)
            connection.sock.close()
            with self._changed:
                self.open -= 1
                self._changed.notify_all()


def _script(rule: Script | turns) -> Script:
    return rule.next() if isinstance(rule, turns) else rule


class _Connection:
    """One accepted connection; the `Turn` of its scripts."""

    def __init__(self, server: ScriptedServer, sock: socket.socket, number: int) -> None:
        self.server = server
        self.sock = sock
        self.number = number
        self.ended = False
        self._buffer = b""
        self._request: Request | None = None

    @property
    def request(self) -> Request:
        assert self._request is not None, "there is no request yet"
        return self._request

    def run(self, script: Script, request: Request | None = None) -> None:
        self._request = request
        for step in [script] if callable(script) else script:
            if not self.ended:
                step(self)

    def requests(self) -> Iterator[Request]:
        while not self.ended:
            request = self._read_request()
            if request is None:
                return
            yield request

    def _read_request(self) -> Request | None:
        while b"\r\n\r\n" not in self._buffer:
            if not self._fill():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        verb, target, _ = first.split(" ", 2)
        headers = tuple((n, v.strip()) for n, _, v in (line.partition(":") for line in lines))
        length = int(next((v for n, v in headers if n.lower() == "content-length"), "0"))
        while len(self._buffer) < length:
            if not self._fill():
                return None
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Request(verb, target, headers, body, self.number)

    def _fill(self) -> bool:
        data = self.sock.recv(1 << 18)
        self._buffer += data
        return bool(data)

    def send(self, data: bytes) -> None:
        try:
            self.sock.sendall(data)
        except OSError:
            self.ended = True

    def close(self) -> None:
        self.ended = True
        with contextlib.suppress(OSError):
            if isinstance(self.sock, ssl.SSLSocket):
                self.sock.settimeout(1.0)
                self.sock.unwrap()
            self.sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        self.ended = True
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def shut(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def wait(self, event: threading.Event) -> bool:
        limit = time.monotonic() + 30
        while not event.wait(0.02):
            if self.server._closing.is_set() or time.monotonic() > limit:
                self.ended = True
                return False
        return True

    def wait_gone(self) -> None:
        self.ended = True
        with selectors.DefaultSelector() as selector:
            selector.register(self.sock, selectors.EVENT_READ)
            while not self.server._closing.is_set():
                if selector.select(0.05) and not self.sock.recv(1 << 16):
                    return
