"""Servers that ask: over HTTP on the stream of a call, before its answer; on stdio while the call is held.

`asking(message, ...)` of the fixture makes one whose tool call sends the messages and is answered when `replies` of
them were.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.support import child as on_stdio
from tests.support.child import ScriptedChild
from tests.support.scripted import ScriptedServer
from tests.support.steps import LAST_CHUNK, Message, more, raw, result, stream

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "Bo"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


def ask(method: str, params: Any = None, id: Any = "q-1") -> Message:
    """A request of the server's."""
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def note(method: str, params: Any = None) -> Message:
    """A notification of the server's."""
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def form(id: Any = "q-1", **more: Any) -> Message:
    """A form elicitation by `SCHEMA`."""
    return ask("elicitation/create", {"message": "Who are you?", "requestedSchema": SCHEMA, **more}, id)


def visit(id: Any = "q-1") -> Message:
    """A URL elicitation."""
    params = {"mode": "url", "message": "Log in", "url": "https://x.example/a?b=1#c", "elicitationId": "e-1"}
    return ask("elicitation/create", params, id)


def sampling(id: Any = "q-1", **more: Any) -> Message:
    """A sampling request."""
    messages = [{"role": "user", "content": {"type": "text", "text": "Hello?"}}]
    return ask("sampling/createMessage", {"messages": messages, "maxTokens": 10, **more}, id)


PING = ask("ping", id="ping-1")


class Asking:
    """A server that asks, on either transport.

    Attributes:
        target: What a client is made with.
    """

    def __init__(self, target: Any, server: ScriptedServer | ScriptedChild) -> None:
        self.target = target
        self.server = server

    @property
    def replies(self) -> list[Message]:
        """What the client answered, in order."""
        if isinstance(self.server, ScriptedServer):
            return [request.message for request in self.server.calls("reply")]
        return [message for message in self.server.messages if "method" not in message]

    @property
    def reply(self) -> Message:
        """The only answer."""
        [reply] = self.replies
        return reply

    def declared(self) -> Message:
        """The capabilities the client declared in `initialize`."""
        call: Any = self.server.calls("initialize")[0]
        params = call.params if isinstance(self.server, ScriptedServer) else call["params"]
        capabilities: Message = params["capabilities"]
        return capabilities

    def count(self, method: str) -> int:
        """How many messages with this method arrived."""
        return self.server.count(method)


def over_http(serve: Callable[..., ScriptedServer], messages: tuple[Message, ...], replies: int) -> Asking:
    """Each call is a POST whose stream stays open until the replies are there."""

    def until_replied(turn: Any) -> None:
        server.wait_until(lambda: server.count("reply") >= replies * server.count("tools/call"), 30)

    call = [stream(*messages, end=False), until_replied, more(result()), raw(LAST_CHUNK)]
    server = serve({"tools/call": call}, era="handshake")
    return Asking(server.url, server)


def over_stdio(child: Callable[..., ScriptedChild], messages: tuple[Message, ...], replies: int) -> Asking:
    """The call is held until the replies are there."""
    sent = [on_stdio.raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))]
    if not replies:
        rules = {"tools/call": [[*sent, on_stdio.answer()]]}
    else:
        waiting: list[Any] = [[] for _ in range(replies - 1)]
        rules = {"tools/call": [[on_stdio.hold(), *sent]], "reply": [*waiting, [on_stdio.release()]]}
    script = child(rules, era="handshake")
    return Asking(script.stdio(), script)


def wait_for(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    """Wait until something is so; fail when it is not in time."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"not within {seconds:g} s"
        time.sleep(0.002)
