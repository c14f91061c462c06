"""Each real server, in each way to talk to it, with each client: one connection serves many tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ferrule import Client, Stdio
from tests.support.clients import Flavour


@dataclass(frozen=True)
class Real:
    """A server somebody else wrote, and what is known about it."""

    name: str
    fixture: str
    """The fixture that gives its URL or command."""
    era: str
    """The era to be found in auto mode, or the one pinned."""
    server: str
    tools: frozenset[str]
    adding: tuple[str, str]
    """The tool that adds a and b, and the text it answers with."""
    steps: tuple[str, dict[str, Any], int]
    """A call and how often it reports progress."""
    failing: tuple[str, dict[str, Any], str]
    """A call that fails, and a part of its explanation."""
    resource: tuple[str, str]
    """A resource and a part of its text."""
    template: str
    expanded: tuple[str, str]
    """A resource made from the template, and a part of its text."""
    prompt: tuple[str, dict[str, str], str]
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def add(self, client: Client, a: int, b: int) -> None:
        """Have the server add; the answer must be right."""
        tool, text = self.adding
        result = client.call_tool(tool, {"a": a, "b": b})
        assert result.text == text.format(a=a, b=b, sum=a + b)
        assert not result.is_error


def _sdk(name: str, fixture: str, era: str, *, steps: int = 5, **options: Any) -> Real:
    return Real(
        name,
        fixture,
        era,
        server="sdk-server",
        tools=frozenset({"add", "slow", "boom", "big", "hang"}),
        adding=("add", "{sum}"),
        steps=("slow", {"n": 5}, steps),
        failing=("boom", {}, "boom was asked for"),
        resource=("demo://greeting", "Hello from the SDK."),
        template="demo://square/{n}",
        expanded=("demo://square/12", "144"),
        prompt=("greet", {"who": "Ann"}, "Greet Ann."),
        options=options,
    )


def _everything(name: str, fixture: str) -> Real:
    return Real(
        name,
        fixture,
        era="handshake",
        server="mcp-servers/everything",
        tools=frozenset({"echo", "get-sum", "trigger-long-running-operation"}),
        adding=("get-sum", "The sum of {a} and {b} is {sum}."),
        steps=("trigger-long-running-operation", {"duration": 0.2, "steps": 4}, 4),
        failing=("get-sum", {"a": "one"}, "a"),
        resource=("demo://resource/static/document/architecture.md", "Architecture"),
        template="demo://resource/dynamic/text/{resourceId}",
        expanded=("demo://resource/dynamic/text/1", "1"),
        prompt=("args-prompt", {"city": "Bern"}, "Bern"),
    )


def _demo(name: str, fixture: str, era: str, **options: Any) -> Real:
    return Real(
        name,
        fixture,
        era,
        server="ferrule-demo",
        tools=frozenset({"add", "count", "fail", "note", "welcome"}),
        adding=("add", "{sum}"),
        steps=("count", {"n": 3}, 3),
        failing=("fail", {}, "nothing is wrong with your call"),
        resource=("demo://greeting", "Hello from the demo server."),
        template="demo://square/{n}",
        expanded=("demo://square/12", "144"),
        prompt=("greet", {"who": "Ann"}, "Greet Ann"),
        options=options,
    )


SDK = [
    _sdk("sdk-http", "sdk_http_url", "stateless"),
    _sdk("sdk-http-handshake-events", "sdk_http_url", "handshake", protocol="handshake"),
    # One JSON answer has no room for progress.
    _sdk("sdk-http-handshake-json", "sdk_json_url", "handshake", steps=0, protocol="handshake"),
    _sdk("sdk-http-sse", "sdk_sse_url", "handshake"),
    _sdk("sdk-stdio", "sdk_command", "stateless"),
    _sdk("sdk-stdio-handshake", "sdk_command", "handshake", protocol="handshake"),
]
SERVERS = [
    *SDK,
    _everything("everything-http", "everything_url"),
    _everything("everything-http-sse", "everything_sse_url"),
    _everything("everything-stdio", "everything_command"),
    _demo("demo-http", "demo_url", "stateless"),
    _demo("demo-http-handshake", "demo_url", "handshake", protocol="handshake"),
    _demo("demo-stdio", "demo_command", "stateless"),
    _demo("demo-stdio-handshake", "demo_command", "handshake", protocol="handshake"),
]


EVERYTHING = [real for real in SERVERS if real.name.startswith("everything")]

DEMO = [real for real in SERVERS if real.name.startswith("demo")]

on_demo_servers = pytest.mark.parametrize("real", DEMO, ids=str, indirect=True)
on_everything = pytest.mark.parametrize("real", EVERYTHING, ids=str, indirect=True)
STATELESS_SDK = [real for real in SDK if real.era == "stateless"]
on_stateless_sdk_servers = pytest.mark.parametrize("real", STATELESS_SDK, ids=str, indirect=True)
on_sdk_servers = pytest.mark.parametrize("real", SDK, ids=str, indirect=True)


@pytest.fixture(scope="module", params=SERVERS, ids=str)
def real(request: pytest.FixtureRequest) -> Real:
    """One server in one way to talk to it."""
    chosen: Real = request.param
    return chosen


@pytest.fixture(scope="module", params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    """Each client in turn, for all tests on one server."""
    flavour = Flavour(request.param)
    yield flavour
    flavour.finish()


@pytest.fixture(scope="module")
def new_client(real: Real, flavour: Flavour, request: pytest.FixtureRequest) -> Callable[..., Client]:
    """Makes an unconnected client of the server."""
    place = request.getfixturevalue(real.fixture)

    def make(**options: Any) -> Client:
        target = place if isinstance(place, str) else Stdio(*place, stderr="discard")
        return flavour.client(target, **{"timeout": 20.0, **real.options, **options})

    return make


@pytest.fixture(scope="module")
def client(new_client: Callable[..., Client]) -> Client:
    """A connected client of the server, shared by the tests of a module."""
    client = new_client()
    client.connect()
    return client
