"""Servers of the stateless era that ask before they answer, over HTTP and on stdio alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support import child as on_stdio
from tests.support.asking import SCHEMA
from tests.support.child import ScriptedChild
from tests.support.scripted import ScriptedServer
from tests.support.steps import Message, answer, text, turns

FORM: Message = {"method": "elicitation/create", "params": {"message": "Who are you?", "requestedSchema": SCHEMA}}
VISIT: Message = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Log in", "url": "https://x.example/a?b=1#c"},
}
SAMPLING: Message = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}], "maxTokens": 10},
}
ROOTS: Message = {"method": "roots/list"}

ANN: Message = {"action": "accept", "content": {"name": "Ann"}}

METHODS: dict[str, Callable[..., Any]] = {
    "tools/call": lambda client, **more: client.call_tool("echo", {"a": [1, 2.0, "ü"]}, **more),
    "prompts/get": lambda client, **more: client.get_prompt("greet", {"who": "ü"}, **more),
    "resources/read": lambda client, **more: client.read_resource("demo://ü", **more),
}
"""The methods whose servers may ask, each with a call of it."""


def accept(request: Any, context: Any) -> Message:
    """A user who agrees to everything."""
    return ANN if request.mode == "form" else {"action": "accept"}


def done(method: str = "tools/call") -> Any:
    """A complete result."""
    results = {"prompts/get": {"messages": []}, "resources/read": {"contents": []}, "tools/call": text("ok")}
    return {"resultType": "complete", **results[method]}


def needs(requests: Any = ..., state: Any = ...) -> Message:
    """An InputRequiredResult."""
    result: Message = {"resultType": "input_required"}
    if requests is not ...:
        result["inputRequests"] = requests
    if state is not ...:
        result["requestState"] = state
    return result


class Server:
    """A server that answers the requests of one method with these results, in order, the last one for ever."""

    def __init__(self, target: Any, server: ScriptedServer | ScriptedChild, method: str) -> None:
        self.target = target
        self.server = server
        self.method = method

    @property
    def everything(self) -> list[Message]:
        """All messages that arrived."""
        if isinstance(self.server, ScriptedServer):
            return [request.message for request in self.server.requests]
        return self.server.messages

    @property
    def sent(self) -> list[Message]:
        """The requests of that method."""
        return [message for message in self.everything if message["method"] == self.method]

    @property
    def params(self) -> list[Message]:
        """Their parameters without `_meta`."""
        return [{name: part for name, part in each["params"].items() if name != "_meta"} for each in self.sent]

    @property
    def metas(self) -> list[Message]:
        """Their `_meta`."""
        return [each["params"]["_meta"] for each in self.sent]


def over_http(serve: Callable[..., ScriptedServer], *results: Any, method: str = "tools/call") -> Server:
    """Each result is a JSON answer."""
    server = serve({method: turns(*[answer(result) for result in results])})
    return Server(server.url, server, method)


def over_stdio(child: Callable[..., ScriptedChild], *results: Any, method: str = "tools/call") -> Server:
    """Each result is a line."""
    script = child({method: [[on_stdio.answer(result)] for result in results]})
    return Server(script.stdio(), script, method)
