"""A server that speaks newline-delimited messages over sockets or pipes, scripted by message.

`rules` maps a method to a list of answers, one for each request of it over all connections, the last one again and
again. An answer is a result (dict), bytes to send (`$ID` is the request's id), `HANG` or `HANG_UP`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from tests.support.child import ordinary_result
from tests.support.threaded import ThreadedServer

HANG, HANG_UP = "hang", "hang up"


class LineServer(ThreadedServer):
    """`with LineServer() as server: Client(ByteStream.tcp("127.0.0.1", server.port))`."""

    def __init__(
        self, rules: dict[str, list[Any]] | None = None, *, era: str = "stateless", path: str | None = None
    ) -> None:
        self._rules = rules or {}
        self._era = era
        self._used: dict[str, int] = {}
        self.messages: list[Any] = []
        if path is None:
            listener = socket.create_server(("127.0.0.1", 0))
            self.port: int = listener.getsockname()[1]
        else:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path)
            listener.listen()
        super().__init__(listener)

    def count(self, method: str) -> int:
        """How many messages with this method arrived."""
        return sum(isinstance(one, dict) and one.get("method") == method for one in self.messages)

    def pair(self) -> socket.socket:
        """One end of a connected pair of sockets; the server is at the other."""
        ours, theirs = socket.socketpair()
        self._sockets.append(theirs)
        self._start(self._serve, theirs)
        return ours

    def pipes(self) -> tuple[Any, Any]:
        """What to read from and to write to; the server is at the other ends."""
        read_theirs, write_ours = os.pipe()
        read_ours, write_theirs = os.pipe()

        def serve() -> None:
            source, sink = os.fdopen(read_theirs, "rb"), os.fdopen(write_theirs, "wb", buffering=0)
            with source, sink, contextlib.suppress(OSError):
                while (line := source.readline()) and self._answer(line, lambda data: _write_all(sink, data)):
                    pass

        # Not waited for: it ends when the client closes its ends, which nobody else can.
        threading.Thread(target=serve, daemon=True).start()
        return os.fdopen(read_ours, "rb", buffering=0), os.fdopen(write_ours, "wb", buffering=0)

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock.makefile("rb") as source:
            for line in source:
                if not self._answer(line, sock.sendall):
                    break
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def _answer(self, line: bytes, send: Callable[[bytes], Any]) -> bool:
        """Do what the rules say. False: hang up."""
        message = json.loads(line)
        self.messages.append(message)
        if not isinstance(message, dict) or "method" not in message:
            return True
        method = message["method"]
        answer = self._next(method)
        if answer == HANG_UP:
            return False
        if answer == HANG or "id" not in message:
            return True
        if isinstance(answer, bytes):
            send(answer.replace(b"$ID", json.dumps(message["id"]).encode()))
            return True
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        result = ordinary_result(message, self._era) if answer is None else answer
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        send(json.dumps(reply).encode() + b"\n")
        return True

    def _next(self, method: str) -> Any:
        answers = self._rules.get(method)
        if not answers:
            return None
        used = self._used.get(method, 0)
        self._used[method] = used + 1
        return answers[min(used, len(answers) - 1)]


def _write_all(sink: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[sink.write(view) :]
