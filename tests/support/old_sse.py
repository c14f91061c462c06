"""A server of the HTTP+SSE transport of 2024-11-05, out of the scripted server's rules.

GET opens the stream and names the endpoint; each POST is accepted with 202 and answered on the stream.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from tests.support.steps import (
    CHUNKED,
    LAST_CHUNK,
    SSE,
    Message,
    Request,
    Turn,
    chunk,
    event,
    http,
    initialized,
    ordinary_results,
    result_for,
    status,
)


class OldServer:
    """Rules for `serve(old.rules, era=None, path="/sse")`, and the streams that are open.

    Args:
        endpoint: What the endpoint event names; "{n}" is the number of the stream, counted from 1. None: none is named.
        refusal: The status of a POST to anything but an endpoint.
        results: Method -> result, or function of the request; over those of an ordinary server. None: no answer.
        before: Called with the request before its 202 is sent.
    """

    def __init__(
        self,
        endpoint: str | None = "/messages?session={n}",
        *,
        refusal: int = 405,
        results: dict[str, Any] | None = None,
        before: Callable[[OldServer, Request], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.refusal = refusal
        self.results: dict[str, Any] = {
            "initialize": initialized(),
            "ping": {},
            **ordinary_results(),
            **(results or {}),
        }
        self.before = before
        self.streams: list[Turn] = []
        self.rules: dict[str, Any] = {"GET": self._open, "*": self._take, "batch": self._take}
        self._lock = threading.Lock()

    def _open(self, turn: Turn) -> None:
        with self._lock:
            self.streams.append(turn)
            number = len(self.streams)
        turn.send(http(200, b"", [SSE, CHUNKED], length=False))
        if self.endpoint is not None:
            named = self.endpoint.replace("{n}", str(number))
            turn.send(chunk(f"event: endpoint\ndata: {named}\n\n".encode()))
        turn.wait_gone()

    def _take(self, turn: Turn) -> None:
        request = turn.request
        if request.target == "/sse":
            return status(self.refusal)(turn)
        if self.before is not None:
            self.before(self, request)
        status(202, b"Accepted")(turn)
        if "id" in request.message and "method" in request.message:
            self.answer(request)

    def answer(self, request: Request) -> None:
        """Answer a request on the latest stream."""
        result = self.results.get(request.method)
        if result is not None:
            self.send(result_for(request, result(request) if callable(result) else result))

    def send(self, message: Message | bytes) -> None:
        """Send a message on the latest stream."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.streams[-1].send(chunk(event(data)))

    def end(self) -> None:
        """End the latest stream the polite way."""
        self.streams[-1].send(LAST_CHUNK)
        self.streams[-1].close()
