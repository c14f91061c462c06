"""A forward proxy on 127.0.0.1, as small as one can be: CONNECT is tunnelled, absolute-form requests are passed on.

Whatever host a client asks for is found at 127.0.0.1. What the proxy was asked is recorded; `answer` makes it say
something else instead.
"""

from __future__ import annotations

import contextlib
import socket
from base64 import b64encode

from tests.support.threaded import PATIENCE, ThreadedServer


class ForwardProxy(ThreadedServer):
    """`with ForwardProxy() as proxy: Client(url, proxy=proxy.url)`.

    Args:
        port: Where every host's server really listens, whatever port was asked for; None: the port that was asked for.
        user: "user:password" to insist on.
        answer: Bytes that are sent instead of doing what was asked; b"" to say nothing at all.
    """

    def __init__(self, port: int | None = None, *, user: str | None = None, answer: bytes | None = None) -> None:
        self._port = port
        self._answer = answer
        self._expected = None if user is None else f"Basic {b64encode(user.encode()).decode()}"
        super().__init__(socket.create_server(("127.0.0.1", 0)))
        at = "" if user is None else f"{user}@"
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{at}127.0.0.1:{self.port}"
        self.heads: list[str] = []
        """The head of each request that the proxy read."""

    @property
    def lines(self) -> list[str]:
        """The request line of each."""
        return [head.partition("\r\n")[0] for head in self.heads]

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (head := self._read_head(client)) is not None:
                text, rest = head
                self.heads.append(text)
                if self._answer is not None:
                    client.sendall(self._answer)
                elif self._expected is not None and f"Proxy-Authorization: {self._expected}" not in text:
                    client.sendall(b"HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
                elif text.startswith("CONNECT "):
                    server = self._connect(text.split(" ")[1])
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    return self._tunnel(client, server)
                else:
                    self._pass_on(client, text, rest)

    def _read_head(self, client: socket.socket) -> tuple[str, bytes] | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = client.recv(65536)
            if not more:
                return None
            data += more
        head, _, rest = data.partition(b"\r\n\r\n")
        return head.decode("latin-1"), rest

    def _connect(self, authority: str) -> socket.socket:
        port = self._port or int(authority.rpartition(":")[2])
        server = socket.create_connection(("127.0.0.1", port))
        self._sockets.append(server)
        return server

    def _pass_on(self, client: socket.socket, head: str, rest: bytes) -> None:
        """One request in origin form to the server, its answer back."""
        lines = head.split("\r\n")
        verb, target, version = lines[0].split(" ")
        authority, _, path = target.partition("://")[2].partition("/")
        fields = [line for line in lines[1:] if not line.lower().startswith("proxy-")]
        length = next((int(line.split(":")[1]) for line in fields if line.lower().startswith("content-length:")), 0)
        while len(rest) < length:
            rest += client.recv(65536)
        request = "\r\n".join([f"{verb} /{path} {version}", *fields, "Connection: close", "", ""])
        server = self._connect(authority if ":" in authority else f"{authority}:80")
        server.sendall(request.encode("latin-1") + rest)
        server.settimeout(PATIENCE)
        answer = b""
        while not _is_whole(answer):
            more = server.recv(65536)
            if not more:
                break
            answer += more
        server.close()
        client.sendall(answer)

    def _tunnel(self, client: socket.socket, server: socket.socket) -> None:
        self._start(_pour, server, client)
        _pour(client, server)


def _is_whole(answer: bytes) -> bool:
    """Is a response with a length complete?"""
    head, found, body = answer.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return bool(found) and bool(lengths) and len(body) >= int(lengths[0])


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
