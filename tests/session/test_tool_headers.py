"""Arguments that a tool's definition sends into headers, over Streamable HTTP in the stateless era."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ferrule import Limits
from tests.support import child as on_stdio
from tests.support.steps import answer, result, stream, text, turns, wait
from tests.support.tooling import REGION, listed, page, paged, param_headers, tool

INVALID = {"size": {"type": "number", "x-mcp-header": "Size"}}


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.req("E5", "E4")
def test_annotated_arguments_are_repeated_in_headers(flavour: Any, serve: Any) -> None:
    properties = {
        "region": REGION,
        "empty": {"type": "string", "x-mcp-header": "Empty"},
        "deep": {"type": "object", "properties": {"level": {"type": "integer", "x-mcp-header": "Level"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "null": {"type": "string", "x-mcp-header": "Null"},
        "absent": {"type": "string", "x-mcp-header": "Absent"},
        "word": {"type": "string", "x-mcp-header": "Word"},
        "query": {"type": "string"},
    }
    server = serve({"tools/list": listed(tool(properties=properties))})
    client = flavour.connect(server.url)
    client.list_tools()
    arguments = {
        "region": "eu",
        "empty": "",
        "deep": {"level": -7},
        "dry": False,
        "null": None,
        "word": "Grüße",
        "query": "q",
    }
    assert client.call_tool("echo", arguments).text
    [request] = server.calls("tools/call")
    assert param_headers(request) == {
        "Region": "eu",
        "Empty": "",
        "Level": "-7",
        "Dry": "false",
        "Word": "=?base64?R3LDvMOfZQ==?=",
    }
    assert (request.header("Mcp-Method"), request.header("Mcp-Name")) == ("tools/call", "echo")
    assert request.params["arguments"] == arguments


@pytest.mark.req("E5")
@pytest.mark.parametrize("way", ["list_tools", "list_tools_page", "iter_tools"])
def test_any_way_of_listing_teaches_the_headers(flavour: Any, serve: Any, way: str) -> None:
    server = serve({"tools/list": listed(tool(properties={"region": REGION}))})
    client = flavour.connect(server.url)
    listing = getattr(client, way)()
    if way == "iter_tools":
        list(listing)
    client.call_tool("echo", {"region": "eu"})
    client.request("tools/call", {"name": "echo", "arguments": {"region": "us"}})
    assert [param_headers(call) for call in server.calls("tools/call")] == [{"Region": "eu"}, {"Region": "us"}]
    assert server.count("tools/list") == 1


@pytest.mark.req("E5")
def test_headers_come_with_progress_and_meta_too(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool(properties={"region": REGION}))})
    client = flavour.connect(server.url)
    client.list_tools()
    client.call_tool("echo", {"region": "eu", "_meta": {"k": 1}}, on_progress=print, max_total=20)
    [call] = server.calls("tools/call")
    assert (param_headers(call), call.meta["k"]) == ({"Region": "eu"}, 1)
    assert "progressToken" in call.meta
    assert call.params["arguments"] == {"region": "eu"}


@pytest.mark.req("E5", "P1")
def test_an_invalid_tool_is_left_out_of_every_list_with_one_warning(
    flavour: Any, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    good = [tool("a"), tool("b", {"region": REGION})]
    server = serve({"tools/list": paged([good[0], tool("bad\x1b[2J", INVALID)], [], [good[1]])})
    client = flavour.connect(server.url)
    assert [each.name for each in client.list_tools()] == ["a", "b"]
    first = client.list_tools_page()
    assert ([each.name for each in first.items], first.next_cursor) == (["a"], "1")
    assert [each.name for each in client.iter_tools()] == ["a", "b"]
    [warning] = warnings_of(caplog)
    assert "the tool bad\\x1b[2J is left out" in warning
    assert "x-mcp-header" in warning
    assert server.count("tools/list") == 7


@pytest.mark.req("E5")
def test_another_invalid_definition_is_worth_another_warning(
    flavour: Any, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    other = {"size": {"type": "string", "x-mcp-header": "no token"}}
    server = serve({"tools/list": turns(*[listed(tool("bad", each)) for each in (INVALID, INVALID, other)])})
    client = flavour.connect(server.url)
    for _ in range(3):
        assert client.list_tools() == []
    first, second = warnings_of(caplog)
    assert first != second


@pytest.mark.req("E5")
def test_a_tool_that_is_mended_is_listed_and_one_that_lost_its_headers_is_called_without(
    flavour: Any, serve: Any
) -> None:
    pages = [listed(tool(properties=each)) for each in (INVALID, {"region": REGION}, {}, {"region": REGION}, INVALID)]
    server = serve({"tools/list": turns(*pages)})
    client = flavour.connect(server.url)
    sent: list[dict[str, str]] = []
    for shown in (0, 1, 1, 1, 0):
        assert len(client.list_tools()) == shown
        client.call_tool("echo", {"region": "eu"})
        sent.append(param_headers(server.calls("tools/call")[-1]))
    assert sent == [{}, {"Region": "eu"}, {}, {"Region": "eu"}, {}]


@pytest.mark.req("E5")
def test_the_handshake_era_keeps_every_tool_and_mirrors_nothing(flavour: Any, serve: Any, caplog: Any) -> None:
    server = serve({"tools/list": listed(tool(properties={"region": REGION}), tool("bad", INVALID))}, era="handshake")
    client = flavour.connect(server.url)
    assert [each.name for each in client.list_tools()] == ["echo", "bad"]
    client.call_tool("echo", {"region": "eu"})
    assert param_headers(server.calls("tools/call")[0]) == {}
    assert warnings_of(caplog) == []


@pytest.mark.req("E5")
def test_stdio_keeps_every_tool(flavour: Any, child: Any) -> None:
    server = child({"tools/list": [[on_stdio.answer(page(tool(), tool("bad", INVALID)))]]})
    client = flavour.connect(server.stdio())
    assert [each.name for each in client.list_tools()] == ["echo", "bad"]
    assert client.call_tool("bad", {"size": 1}).text


@pytest.mark.req("E5", "N14")
def test_what_was_listed_holds_for_its_view_alone(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool(properties={"region": REGION}))})
    client = flavour.connect(server.url)
    view = client.with_options(headers={"X-User": "a"})
    view.list_tools()
    client.call_tool("echo", {"region": "eu"})
    view.call_tool("echo", {"region": "eu"})
    assert [param_headers(call) for call in server.calls("tools/call")] == [{}, {"Region": "eu"}]


@pytest.mark.req("E5")
def test_beyond_max_items_a_tool_counts_as_never_listed(flavour: Any, serve: Any) -> None:
    names = ["a", "b", "c"]
    server = serve({"tools/list": listed(*[tool(name, {"region": REGION}) for name in names])})
    client = flavour.connect(server.url, limits=Limits(max_items=2))
    client.list_tools_page()
    for name in names:
        client.call_tool(name, {"region": "eu"})
    assert [bool(param_headers(call)) for call in server.calls("tools/call")] == [True, True, False]


@pytest.mark.req("E7")
def test_a_list_that_is_read_meanwhile_does_not_change_a_call_that_is_under_way(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve(
        {
            "tools/list": turns(
                listed(tool(properties={"region": REGION})),
                listed(tool(properties={"region": {**REGION, "x-mcp-header": "Zone"}})),
            ),
            "tools/call": turns([wait(go), answer(text("first"))], answer()),
        }
    )
    client = flavour.connect(server.url)
    client.list_tools()
    running = flavour.start(client.call_tool, "echo", {"region": "eu"})
    server.wait_until(lambda: server.count("tools/call") == 1)
    client.list_tools()
    client.call_tool("echo", {"region": "us"})
    go.set()
    assert running.result().text == "first"
    assert [param_headers(call) for call in server.calls("tools/call")] == [{"Region": "eu"}, {"Zone": "us"}]


@pytest.mark.req("E7")
def test_what_a_caller_does_to_a_list_changes_no_call(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool(properties={"region": REGION}))})
    client = flavour.connect(server.url)
    [found] = client.list_tools()
    found.input_schema["properties"].clear()
    client.call_tool("echo", {"region": "eu"})
    assert param_headers(server.calls("tools/call")[0]) == {"Region": "eu"}


@pytest.mark.req("E7")
def test_no_call_makes_the_client_ask_for_the_list(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool(properties={"region": REGION})), "tools/call": stream(result())})
    client = flavour.connect(server.url, validate_output="strict")
    client.call_tool("echo", {"region": "eu"})
    client.list_tools()
    client.call_tool("echo", {"region": "eu"})
    assert server.count("tools/list") == 1
