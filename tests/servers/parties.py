"""Small HTTP servers on 127.0.0.1 that answer with what a function returns: the parties of an authorization.

Knows how a request comes in and an answer goes out, honest or not: slowly, endlessly, as a redirect. What it means is
said in `authority` and `protected`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

PATIENCE = 10.0


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    verb: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form; a field given twice fails the test."""
        pairs = parse_qsl(self.body.decode(), keep_blank_values=True)
        assert len(dict(pairs)) == len(pairs), "a field was sent twice"
        return dict(pairs)

    @property
    def message(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return self.headers.get(name.lower())


@dataclass
class Reply:
    """One answer. `pieces` go out chunked, one after the other, in place of a body."""

    status: int = 200
    body: Any = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    pieces: Iterator[bytes] | None = None

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def refuse(error: str, status: int = 400, **more: Any) -> Reply:
    """An error of an authorization server (RFC 6749, section 5.2)."""
    return Reply(status, {"error": error, **more})


def redirect(location: str) -> Reply:
    return Reply(302, headers=[("Location", location)])


def endless(party: Party) -> Reply:
    """A JSON document that never ends."""

    def pieces() -> Iterator[bytes]:
        yield b'{"issuer": "'
        while not party.closing.is_set():
            yield b"x" * 65536

    return Reply(pieces=pieces())


def slow(party: Party) -> Reply:
    """A JSON document of which nothing more comes after the beginning."""

    def pieces() -> Iterator[bytes]:
        yield b'{"issuer": "'
        party.closing.wait(PATIENCE)

    return Reply(pieces=pieces())


Answer = Callable[[Asked], Reply]


class Party:
    """One server. Closed by `close`; `seen` are the requests it had. `host` is what its origin calls it."""

    def __init__(self, answer: Answer, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.seen: list[Asked] = []
        self.closing = threading.Event()
        self._server = _Server(self)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.host = host
        self.origin = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self.closing.is_set():
            self._server.handle_request()

    def close(self) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._thread.join(PATIENCE)
        self._server.server_close()

    @property
    def paths(self) -> list[str]:
        """Verb and path of each request so far."""
        return [f"{asked.verb} {asked.path}" for asked in list(self.seen)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, party: Party) -> None:
        self.party = party
        self._connections: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Also ends the connections that clients keep open, so that no thread is left."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, self.path, headers, body)
        party = self.server.party
        party.seen.append(asked)
        reply = party.answer(asked)
        self.send_response(reply.status)
        named = {name.lower() for name, _ in reply.headers}
        for name, value in reply.headers:
            self.send_header(name, value.encode().decode("latin-1"))
        if "content-type" not in named:
            self.send_header("Content-Type", "application/json")
        if reply.pieces is None:
            self.send_header("Content-Length", str(len(reply.data)))
            self.end_headers()
            self.wfile.write(reply.data)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_DELETE = _serve
