"""Servers of the stateless era that keep subscriptions open: over HTTP, and over lines on a socket (as on stdio).

Both do what a test says while it runs: `Ears` is what they have in common.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from ferrule import ByteStream, Retry
from tests.support.steps import (
    CHUNKED,
    LAST_CHUNK,
    SSE,
    Message,
    Turn,
    chunk,
    event,
    http,
    ordinary_results,
)
from tests.support.threaded import ThreadedServer

TAG = "io.modelcontextprotocol/subscriptionId"
PATIENCE = 10.0
QUICK = Retry(attempts=1, backoff=0.01, max_backoff=0.02)
"""Patience for tests of what is tried again."""


def as_asked(filter: Message) -> Message:
    """A server that agrees to everything."""
    return filter


class Stream:
    """One subscription, as its server sees it."""

    def __init__(self, message: Message, write: Callable[[Message], None], end: Callable[[], None]) -> None:
        self.message = message
        self.id = message["id"]
        self.filter: Message = message["params"]["notifications"]
        self._write = write
        self._end = end

    def send(self, method: str, **params: Any) -> None:
        """A notification of this subscription."""
        meta = {TAG: self.id, **params.pop("_meta", {})}
        self._write({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": meta}})

    def raw(self, message: Message) -> None:
        """Any message, as it is."""
        self._write(message)

    def finish(self, **answer: Any) -> None:
        """The response: a graceful end unless it is an error."""
        self._write({"jsonrpc": "2.0", "id": self.id, **(answer or {"result": {"resultType": "complete"}})})

    def drop(self) -> None:
        """End without a word."""
        self._end()


class Ears:
    """What happened to listen requests, and what is answered to them.

    Attributes:
        streams: The subscriptions that were opened, in order.
        granted: Makes of a filter what is agreed to; None: there is no acknowledgment.
        refusals: Errors to answer with before anything is agreed to, one request each.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.answered = 0
        self.cancelled: list[Any] = []
        self.granted: Callable[[Message], Any] | None = as_asked
        self.refusals: list[Message] = []
        self.changed = threading.Condition()

    def take(self, stream: Stream) -> None:
        """A listen request came."""
        with self.changed:
            refusal = self.refusals.pop(0) if self.refusals else None
            self.streams.append(stream)
            self.changed.notify_all()
        if refusal is not None:
            stream.finish(error=refusal)
        elif self.granted is not None:
            stream.send("subscriptions/acknowledged", notifications=self.granted(stream.filter))
        with self.changed:
            self.answered += 1
            self.changed.notify_all()

    def note_cancelled(self, request_id: Any) -> None:
        """The client is told to have gone."""
        with self.changed:
            self.cancelled.append(request_id)
            self.changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until something is as it should be."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), "not within 10 s"

    def opened(self, number: int) -> Stream:
        """The stream of this number, from 1, once it is there and the client was told so."""
        self.wait_for(lambda: self.answered >= number)
        return self.streams[number - 1]


class HttpEars(Ears):
    """The script of `subscriptions/listen` over HTTP. A subscription is cancelled when its stream is closed."""

    def __call__(self, turn: Turn) -> None:
        waiting: queue.Queue[bytes | None] = queue.Queue()
        message = turn.request.message
        stream = Stream(message, lambda one: waiting.put(chunk(event(one))), lambda: waiting.put(None))
        stream.comment = lambda text="ok": waiting.put(chunk(f": {text}\n\n".encode()))  # type: ignore[attr-defined]
        stream.bytes = waiting.put  # type: ignore[attr-defined]
        turn.send(http(200, b"", [SSE, CHUNKED], length=False))
        self.take(stream)
        server: Any = turn
        while not server.ended and not server.server._closing.is_set():
            with contextlib.suppress(queue.Empty):
                data = waiting.get(timeout=0.02)
                if data is None:
                    turn.close()
                    return
                turn.send(data)
                if b'"result"' in data or b'"error"' in data:
                    turn.send(LAST_CHUNK)
                    return
            if self._is_gone(server.sock):
                self.note_cancelled(stream.id)
                server.ended = True

    def _is_gone(self, sock: socket.socket) -> bool:
        sock.settimeout(0)
        try:
            return sock.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                sock.settimeout(None)


class LineEars(ThreadedServer, Ears):
    """A server of lines on a TCP port; each connection is a child of its own."""

    def __init__(self) -> None:
        ThreadedServer.__init__(self, socket.create_server(("127.0.0.1", 0)))
        Ears.__init__(self)
        self.messages: list[Message] = []

    def target(self) -> ByteStream:
        """What a client connects to."""
        return ByteStream.tcp("127.0.0.1", self._listener.getsockname()[1])

    def hang_up(self) -> None:
        """Lose the latest connection, as a child does that exits."""
        with contextlib.suppress(OSError):
            self._sockets[-1].shutdown(socket.SHUT_RDWR)

    def _serve(self, sock: socket.socket) -> None:
        def write(message: Message) -> None:
            with contextlib.suppress(OSError):
                sock.sendall(json.dumps(message).encode() + b"\n")

        with sock, contextlib.suppress(OSError), sock.makefile("rb") as source:
            for line in source:
                message = json.loads(line)
                self.messages.append(message)
                self._answer(message, write)

    def _answer(self, message: Message, write: Callable[[Message], None]) -> None:
        method = message["method"]
        if method == "subscriptions/listen":
            self.take(Stream(message, write, self.hang_up))
        elif method == "notifications/cancelled":
            self.note_cancelled(message["params"]["requestId"])
        elif "id" in message:
            results = {"server/discover": DISCOVERED, **ordinary_results()}
            result = results.get(method)
            reply: Message = {"result": result} if isinstance(result, dict) else {"error": REFUSED}
            write({"jsonrpc": "2.0", "id": message["id"], **reply})


REFUSED: Message = {"code": -32601, "message": "Method not found"}
DISCOVERED: Message = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, looking every 5 ms."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "not within 10 s"
        time.sleep(0.005)


class Place:
    """A server that listens to subscriptions, on one transport."""

    def __init__(self, ears: Ears, target: Any, requests: Callable[[], list[dict[str, Any]]]) -> None:
        self.ears = ears
        self.target = target
        self._requests = requests

    def listens(self) -> list[dict[str, Any]]:
        """The listen requests that arrived."""
        return [one for one in self._requests() if one["method"] == "subscriptions/listen"]

    def methods(self) -> list[str]:
        return [one["method"] for one in self._requests()]
