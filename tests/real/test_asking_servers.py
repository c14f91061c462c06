"""Servers that nobody here wrote, asking: elicitation, sampling, roots and log messages, on each transport."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Client, CreateMessageResult, ElicitResult, Stdio
from ferrule.errors import RPCError, URLElicitationRequired
from tests.support.asking import wait_for
from tests.support.clients import Flavour

pytestmark = pytest.mark.timeout(120)

sdk = pytest.mark.parametrize("place", ["sdk_http_url", "sdk_sse_url", "sdk_command"])
everything = pytest.mark.parametrize("place", ["everything_url", "everything_sse_url", "everything_command"])

Make = Callable[..., Client]


class Handlers:
    """Handlers that note what they were asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.said: list[Any] = []

    def elicit(self, request: Any, context: Any) -> ElicitResult:
        self.asked.append((request, context))
        if request.mode == "url":
            return ElicitResult.accept()
        return ElicitResult.accept(request.fill_defaults({"name": "Ann"}))

    def sample(self, request: Any, context: Any) -> CreateMessageResult:
        self.asked.append((request, context))
        return CreateMessageResult.of_text(f"You said {request.messages[-1].text}", model="parrot")

    def log(self, message: Any, context: Any) -> None:
        self.said.append(message)

    def all(self) -> dict[str, Any]:
        return {
            "on_elicitation": self.elicit,
            "on_sampling": self.sample,
            "on_log": self.log,
            "roots": lambda: ["file:///charts"],
        }


@pytest.fixture
def handlers() -> Handlers:
    return Handlers()


@pytest.fixture
def connect(request: pytest.FixtureRequest, flavour: Flavour, place: str) -> Make:
    """Connects a client to the server in the handshake era."""
    where = request.getfixturevalue(place)

    def make(**options: Any) -> Client:
        target = where if isinstance(where, str) else Stdio(*where, stderr="discard")
        return flavour.connect(target, protocol="handshake", timeout=20, **options)

    return make


@sdk
@pytest.mark.req("I1", "I2", "I5", "I8")
def test_the_sdks_server_gets_what_it_asks_for(connect: Make, handlers: Handlers) -> None:
    client = connect(**handlers.all())
    assert client.call_tool("ask_name").text == "accept Ann 7"
    assert client.call_tool("ask_visit").text == "accept"
    assert client.call_tool("ask_model").text == "parrot: You said Hello?"
    assert client.call_tool("ask_roots").text == "file:///charts"
    assert [context.method for _, context in handlers.asked][:2] == ["elicitation/create"] * 2
    assert handlers.asked[1][0].url == "https://x.example/pay?a=1"
    assert {context.server_name for _, context in handlers.asked} == {"sdk-server"}
    client.close()


@sdk
@pytest.mark.req("I1")
def test_the_sdks_server_is_told_no(connect: Make, handlers: Handlers) -> None:
    client = connect(on_elicitation=lambda *_: ElicitResult.decline())
    assert client.call_tool("ask_name").text == "decline"
    # Not declared, so it is refused on one side or the other.
    for tool in ("ask_model", "ask_roots"):
        try:
            assert client.call_tool(tool).is_error
        except RPCError as error:
            assert error.request_sent
    client.close()


@sdk
@pytest.mark.req("I4", "I6")
def test_the_sdks_server_logs_in_order(connect: Make, handlers: Handlers) -> None:
    client = connect(on_log=handlers.log)
    client.call_tool("say", {"n": 50})
    wait_for(lambda: len(handlers.said) == 50)
    assert [(message.level, message.logger, message.data) for message in handlers.said] == [
        ("info", "sdk", {"step": step}) for step in range(50)
    ]
    client.close()


@everything
@pytest.mark.req("I1", "I2", "I5")
def test_server_everything_elicits_and_samples(connect: Make, handlers: Handlers) -> None:
    given = handlers.all()
    del given["roots"]
    client = connect(**given)
    elicited = client.call_tool("trigger-elicitation-request")
    assert "- Name: Ann" in elicited.text and "- Favorite Integer: 42" in elicited.text
    sampled = client.call_tool("trigger-sampling-request", {"prompt": "Ahoy", "maxTokens": 9})
    assert "Ahoy" in sampled.text and "parrot" in sampled.text
    assert handlers.asked[-1][0].max_tokens == 9
    client.close()


@everything
@pytest.mark.req("I12")
def test_server_everything_wants_a_page_visited(connect: Make, handlers: Handlers) -> None:
    client = connect(on_elicitation=handlers.elicit)
    arguments = {"url": "https://x.example/a?b=c", "elicitationId": "e-1", "errorPath": True}
    with pytest.raises(URLElicitationRequired) as caught:
        client.call_tool("trigger-url-elicitation", arguments)
    assert caught.value.elicitations[0]["url"] == "https://modelcontextprotocol.io"
    assert handlers.asked == []
    assert "completed the URL elicitation" in client.call_tool("trigger-url-elicitation", arguments).text
    assert [request.url for request, _ in handlers.asked] == ["https://x.example/a?b=c"]
    client.close()


@everything
@pytest.mark.req("I8", "S4")
def test_server_everything_lists_the_roots_and_hears_of_changes(connect: Make, handlers: Handlers) -> None:
    roots = ["file:///charts"]
    client = connect(roots=lambda: roots, on_log=handlers.log)
    assert "file:///charts" in client.call_tool("get-roots-list").text
    roots.append("file:///tides")
    client.notify_roots_changed()
    wait_for(lambda: any("2 root(s)" in str(message.data) for message in handlers.said))
    assert "file:///tides" in client.call_tool("get-roots-list").text
    client.close()
