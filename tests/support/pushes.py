"""Servers of the handshake era that say things unasked: over HTTP on the GET stream, over stdio after a request."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from tests.support import child as on_stdio
from tests.support.steps import (
    CHUNKED,
    SERVER_INFO,
    SSE,
    Message,
    Step,
    Turn,
    answer,
    chunk,
    event,
    http,
    initialized,
)

CHANGING: Message = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "logging": {},
    "completions": {},
}
TASKS: Message = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
ALL: Message = {**CHANGING, "tasks": TASKS}


class Pushes:
    """The script of GET: streams that a test writes to. The latest stream gets what is sent."""

    def __init__(self) -> None:
        self._streams: list[queue.Queue[Message | None]] = []

    @property
    def opened(self) -> int:
        """How many streams the client opened so far."""
        return len(self._streams)

    def __call__(self, turn: Turn) -> None:
        waiting: queue.Queue[Message | None] = queue.Queue()
        self._streams.append(waiting)  # before the client can know that it is open
        turn.send(http(200, b"", [SSE, CHUNKED], length=False))
        server: Any = turn
        while not server.ended and not server.server._closing.is_set():
            try:
                message = waiting.get(timeout=0.02)
            except queue.Empty:
                continue
            if message is None:
                turn.close()
            else:
                turn.send(chunk(event(message)))

    def send(self, method: str, **params: Any) -> None:
        """A notification on the latest stream."""
        self._streams[-1].put(note(method, **params))


def note(method: str, **params: Any) -> Message:
    """A notification."""
    message: Message = {"jsonrpc": "2.0", "method": f"notifications/{method}"}
    return {**message, "params": params} if params else message


def opening(
    capabilities: Message = ALL, *, version: str = "2025-11-25", sessions: Callable[[], str] | None = None
) -> Step:
    """An answer to `initialize`; `sessions` names each session."""

    def step(turn: Turn) -> None:
        headers = [("Mcp-Session-Id", sessions() if sessions is not None else "session-1")]
        answer(initialized(version, capabilities), headers=headers)(turn)

    return step


def opened(capabilities: Message = ALL, *, version: str = "2025-11-25") -> list[on_stdio.Step]:
    """The same as the script of a child."""
    result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": SERVER_INFO}
    return [on_stdio.answer(result)]


class Sessions:
    """Names sessions one after another, and answers 404 to the ones that were ended."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.ended: set[str] = set()

    def __call__(self) -> str:
        self.made.append(f"session-{len(self.made) + 1}")
        return self.made[-1]

    def end(self) -> None:
        """Forget the session that was made last."""
        self.ended.add(self.made[-1])

    def guard(self, script: Step) -> Step:
        """The script, for sessions that are alive."""

        def step(turn: Turn) -> None:
            if turn.request.header("mcp-session-id") in self.ended:
                turn.send(http(404))
            else:
                script(turn)

        return step


URI = "demo://a"


def subscribing(serve: Any, pushes: Pushes, **rules: Any) -> Any:
    """A server over HTTP that announces changes."""
    return serve(
        {
            "initialize": opening(),
            "GET": pushes,
            "resources/subscribe": answer({}),
            "resources/unsubscribe": answer({}),
            **rules,
        },
        era="handshake",
    )


def uris(server: Any, method: str) -> list[str]:
    """The resources that requests of this method named, in order."""
    return [call.params["uri"] for call in server.calls(method)]
