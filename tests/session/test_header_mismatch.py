"""A tool call that was refused for its headers: the tools are listed again, and it is sent once more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import (
    ConnectionClosed,
    HeaderMismatch,
    HTTPStatusError,
    InvalidParams,
    LimitExceeded,
    RequestTimeout,
)
from tests.support import child as on_stdio
from tests.support.steps import answer, error, hang, reset, status, text, turns, wait
from tests.support.tooling import REGION, demanding, listed, paged, param_headers, tool

ANNOTATED = tool(properties={"region": REGION})
MOVED = tool(properties={"region": {**REGION, "x-mcp-header": "Zone"}})
REFUSED = error(-32020, status=400)


def methods(server: Any) -> list[str]:
    return [request.method for request in server.requests if request.method.startswith("tools/")]


def waiting(client: Any) -> int:
    """How many callers wait for something that is done once for all of them, who does it included."""
    flights = list(client._session.peer.io._flights.values())
    return sum(len(each.followers) + 1 if hasattr(each, "followers") else len(each.waiters) for each in flights)


@pytest.mark.req("E6", "R2", "R4")
def test_a_tool_that_was_never_listed_is_called_once_more_with_its_headers(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(ANNOTATED), "tools/call": demanding("Mcp-Param-Region", text("done"))})
    client = flavour.connect(server.url, retry=Retry(1))
    assert client.call_tool("echo", {"region": "eu"}, meta={"k": 1}).text == "done"
    assert methods(server) == ["tools/call", "tools/list", "tools/call"]
    first, second = server.calls("tools/call")
    assert (param_headers(first), param_headers(second)) == ({}, {"Region": "eu"})
    assert first.params == second.params
    assert first.message["id"] != second.message["id"]
    assert client.call_tool("echo", {"region": "us"}).text == "done"
    assert server.count("tools/call") == 3  # what was read is remembered


@pytest.mark.req("E6", "R2")
def test_a_tool_whose_headers_changed_is_called_once_more_with_the_new_ones(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(listed(ANNOTATED), listed(MOVED)), "tools/call": demanding("Mcp-Param-Zone")})
    client = flavour.connect(server.url)
    client.list_tools()
    client.call_tool("echo", {"region": "eu"}, on_progress=print)
    assert [param_headers(call) for call in server.calls("tools/call")] == [{"Region": "eu"}, {"Zone": "eu"}]


@pytest.mark.req("E6", "R2", "R4")
@pytest.mark.parametrize("idempotent", [False, True])
def test_a_call_is_refused_twice_at_most(flavour: Any, serve: Any, idempotent: bool) -> None:
    server = serve({"tools/list": listed(ANNOTATED), "tools/call": REFUSED})
    client = flavour.connect(server.url)
    with pytest.raises(HeaderMismatch) as caught:
        client.call_tool("echo", {"region": "eu"}, idempotent=idempotent)
    assert methods(server) == ["tools/call", "tools/list", "tools/call"]
    assert isinstance(caught.value.__cause__, HeaderMismatch)
    assert caught.value.request_sent


@pytest.mark.req("E6", "R2", "R4")
@pytest.mark.parametrize(
    ("second", "kind"), [(status(503), HTTPStatusError), (reset(), ConnectionClosed), (error(-32602), InvalidParams)]
)
def test_the_second_request_is_not_written_again_either(flavour: Any, serve: Any, second: Any, kind: Any) -> None:
    server = serve({"tools/list": listed(ANNOTATED), "tools/call": turns(REFUSED, second, answer(text("ran twice")))})
    client = flavour.connect(server.url, retry=Retry(3, 0.01, 0.01))
    with pytest.raises(kind) as caught:
        client.call_tool("echo", {"region": "eu"})
    assert server.count("tools/call") == 2
    assert isinstance(caught.value.__cause__, HeaderMismatch)


@pytest.mark.req("E6")
def test_pages_are_read_until_the_tool_is_found(flavour: Any, serve: Any) -> None:
    rules = {"tools/list": paged([tool("a")], [], [ANNOTATED], [tool("z")])}
    server = serve({**rules, "tools/call": demanding("Mcp-Param-Region")})
    client = flavour.connect(server.url)
    client.call_tool("echo", {"region": "eu"})
    assert [call.params.get("cursor") for call in server.calls("tools/list")] == [None, "1", "2"]


@pytest.mark.req("E6")
@pytest.mark.parametrize("tools", [[], [tool("other")], [tool(properties={"size": {"x-mcp-header": "Size"}})]])
def test_the_refusal_is_raised_when_no_valid_definition_is_listed(flavour: Any, serve: Any, tools: Any) -> None:
    server = serve({"tools/list": listed(*tools), "tools/call": REFUSED})
    client = flavour.connect(server.url)
    with pytest.raises(HeaderMismatch) as caught:
        client.call_tool("echo", {"region": "eu"})
    assert caught.value.__cause__ is None
    assert methods(server) == ["tools/call", "tools/list"]


@pytest.mark.req("E6", "R4")
def test_when_the_tools_cannot_be_listed_that_is_raised_with_the_refusal_as_its_cause(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": status(503), "tools/call": REFUSED})
    client = flavour.connect(server.url, retry=Retry(1))
    with pytest.raises(HTTPStatusError) as caught:
        client.call_tool("echo", {})
    assert isinstance(caught.value.__cause__, HeaderMismatch)
    assert caught.value.request_sent


@pytest.mark.req("E6", "T1")
def test_listing_again_ends_with_the_deadline_of_the_call(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": hang(), "tools/call": REFUSED})
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.3)
    assert caught.value.request_sent
    assert server.count("tools/call") == 1


@pytest.mark.req("E6", "P1")
def test_a_list_without_end_is_not_read_without_end(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool("a"), cursor="again"), "tools/call": REFUSED})
    client = flavour.connect(server.url, limits=Limits(max_pages=3))
    with pytest.raises(LimitExceeded):
        client.call_tool("echo", {})
    assert server.count("tools/list") == 3


@pytest.mark.req("E6")
def test_calls_that_are_refused_at_once_read_the_list_once(flavour: Any, serve: Any) -> None:
    together, go = threading.Barrier(4), threading.Event()

    def call(turn: Any) -> None:
        if turn.request.header("Mcp-Param-Region") is None:
            together.wait(10)
        demanding("Mcp-Param-Region")(turn)

    server = serve({"tools/list": [wait(go), listed(ANNOTATED)], "tools/call": call})
    client = flavour.connect(server.url)
    running = [flavour.start(client.call_tool, "echo", {"region": "eu"}) for _ in range(4)]
    server.wait_until(lambda: server.count("tools/list") == 1)
    for _ in range(2000):
        if waiting(client) == 4:
            break
        threading.Event().wait(0.005)
    go.set()
    assert [each.result().text for each in running] == ["ok"] * 4
    assert server.count("tools/list") == 1
    assert server.count("tools/call") == 8


@pytest.mark.req("E6")
def test_who_looks_for_another_tool_than_the_one_that_reads_goes_on_reading(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    rules = {"tools/list": [wait(go), paged([ANNOTATED], [tool("late", {"region": REGION})])]}
    server = serve({**rules, "tools/call": demanding("Mcp-Param-Region", text("done"))})
    client = flavour.connect(server.url)
    first = flavour.start(client.call_tool, "echo", {"region": "eu"})
    server.wait_until(lambda: server.count("tools/list") == 1)
    late = flavour.start(client.call_tool, "late", {"region": "eu"})
    server.wait_until(lambda: server.count("tools/call") == 2)
    go.set()
    assert (first.result().text, late.result().text) == ("done", "done")
    assert 3 <= server.count("tools/list") <= 4


@pytest.mark.req("E6", "R2")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_only_streamable_http_in_the_stateless_era_has_headers_to_mend(
    flavour: Any, serve: Any, child: Any, era: str
) -> None:
    if era == "handshake":
        server: Any = serve({"tools/call": error(-32020)}, era=era)
        client = flavour.connect(server.url)
    else:
        server = child({"tools/call": [[on_stdio.error(-32020)]]})
        client = flavour.connect(server.stdio())
    with pytest.raises(HeaderMismatch):
        client.call_tool("echo", {})
    assert (server.count("tools/call"), server.count("tools/list")) == (1, 0)


@pytest.mark.req("E6")
def test_the_low_level_request_is_not_sent_again(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": REFUSED})
    client = flavour.connect(server.url)
    with pytest.raises(HeaderMismatch):
        client.request("tools/call", {"name": "echo", "arguments": {}})
    assert methods(server) == ["tools/call"]


@pytest.mark.req("E6", "E7")
def test_headers_are_made_of_the_arguments_as_they_went_out(serve: Any) -> None:
    import asyncio

    from ferrule import AsyncClient

    server = serve({"tools/list": listed(ANNOTATED), "tools/call": demanding("Mcp-Param-Region")})
    arguments = {"region": "eu"}

    async def body() -> None:
        async with AsyncClient(server.url) as client:
            call = asyncio.ensure_future(client.call_tool("echo", arguments))
            while not server.count("tools/call"):
                await asyncio.sleep(0.001)
            arguments["region"] = "us"
            await call

    asyncio.run(body())
    second = server.calls("tools/call")[1]
    assert (second.params["arguments"], param_headers(second)) == ({"region": "eu"}, {"Region": "eu"})
