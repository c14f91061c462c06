"""Lists that are kept because the user asked for it, until the server says that they changed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ferrule import Limits
from ferrule.errors import InvalidParams, RequestTimeout
from tests.support import child as on_stdio
from tests.support.pushes import Pushes, Sessions, note, opened, opening
from tests.support.steps import TOOL, Request, answer, error, result, stream, turns, wait

KINDS: dict[str, tuple[str, str]] = {
    "list_tools": ("tools/list", "tools/list_changed"),
    "list_prompts": ("prompts/list", "prompts/list_changed"),
    "list_resources": ("resources/list", "resources/list_changed"),
    "list_resource_templates": ("resources/templates/list", "resources/list_changed"),
}
EACH = pytest.mark.parametrize("way", KINDS)


def keeping(flavour: Any, serve: Any, **rules: Any) -> tuple[Any, Any]:
    """A client that keeps lists, and its server."""
    server = serve({"initialize": opening(), "GET": Pushes(), **rules}, era="handshake")
    return flavour.connect(server.url, keep_lists=True), server


def tools(*names: str, cursor: str | None = None) -> dict[str, Any]:
    page: dict[str, Any] = {"tools": [{**TOOL, "name": name} for name in names]}
    return page if cursor is None else {**page, "nextCursor": cursor}


@pytest.mark.req("C12")
@EACH
def test_a_list_is_asked_for_once_when_it_is_to_be_kept(flavour: Any, serve: Any, way: str) -> None:
    client, server = keeping(flavour, serve)
    first = getattr(client, way)()
    assert getattr(client, way)() == first
    assert getattr(client, f"{way}_page")().items == tuple(first)
    assert list(getattr(client, way.replace("list_", "iter_"))()) == first
    assert server.count(KINDS[way][0]) == 1


@pytest.mark.req("C12")
def test_nothing_is_kept_unless_asked(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": opening(), "GET": Pushes()}, era="handshake")
    client = flavour.connect(server.url)
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 2
    assert server.count("GET") == 0


@pytest.mark.req("C12")
def test_the_stateless_era_keeps_no_list_without_hints(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url, keep_lists=True)
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 2


@pytest.mark.req("C12", "L4")
@EACH
def test_a_notification_drops_the_list_it_is_about_and_no_other(flavour: Any, serve: Any, way: str) -> None:
    method, notification = KINDS[way]
    client, server = keeping(flavour, serve, **{"tools/call": stream(note(notification), result())})
    for each in KINDS:
        getattr(client, each)()
    client.call_tool("echo", {})
    for each in KINDS:
        getattr(client, each)()
    for other, changed in KINDS.values():
        assert server.count(other) == (2 if changed == notification else 1), (other, method)


@pytest.mark.req("C12", "L4", "S4")
def test_the_stream_that_brings_the_notification_is_open_from_the_beginning(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client, server = keeping(flavour, serve, GET=pushes)
    assert pushes.opened == 1
    client.list_tools()
    pushes.send("tools/list_changed")

    def asks_again() -> bool:
        client.list_tools()
        return bool(server.count("tools/list") == 2)

    for _ in range(1000):
        if asks_again():
            break
        threading.Event().wait(0.005)
    assert server.count("tools/list") == 2


@pytest.mark.req("C12", "L4")
@pytest.mark.parametrize("listen", [None, False], ids=["in between", "only with calls"])
def test_over_stdio_a_change_that_has_arrived_is_heard_before_the_list_is_used(
    flavour: Any, child: Any, tmp_path: Path, listen: bool | None
) -> None:
    go = tmp_path / "go"
    pushes = [on_stdio.wait(go), on_stdio.send(note("tools/list_changed"))]
    server = child(
        {
            "initialize": [opened()],
            "tools/list": [[on_stdio.answer(tools("a")), *pushes], [on_stdio.answer(tools("b"))]],
        },
        era="handshake",
    )
    client = flavour.connect(server.stdio(), keep_lists=True, listen=listen)
    assert [tool.name for tool in client.list_tools()] == ["a"]
    assert [tool.name for tool in client.list_tools()] == ["a"]
    assert server.count("tools/list") == 1
    go.touch()
    for _ in range(1000):
        if [tool.name for tool in client.list_tools()] == ["b"]:
            break
        threading.Event().wait(0.005)
    assert [tool.name for tool in client.list_tools()] == ["b"]
    assert server.count("tools/list") == 2


@pytest.mark.req("C12")
def test_clear_cache_has_the_lists_asked_for_again(flavour: Any, serve: Any) -> None:
    client, server = keeping(flavour, serve)
    client.list_tools()
    client.clear_cache()
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 2
    plain = flavour.client(serve().url)
    plain.clear_cache()


@pytest.mark.req("C12", "S8")
def test_another_session_has_lists_of_its_own(flavour: Any, serve: Any) -> None:
    sessions = Sessions()
    guarded = sessions.guard(answer({"content": []}))
    client, server = keeping(
        flavour, serve, **{"initialize": opening(sessions=sessions), "resources/read": guarded, "tools/call": guarded}
    )
    client.list_tools()
    view = client.with_options(headers={"X-User": "a"})
    view.list_tools()
    view.list_tools()
    assert server.count("tools/list") == 2
    sessions.end()
    with pytest.raises(Exception, match="does not know the session"):
        view.call_tool("echo", {})
    view.list_tools()
    assert server.count("tools/list") == 3
    client.list_tools()
    assert server.count("tools/list") == 3


@pytest.mark.req("C12")
def test_what_a_caller_does_to_a_list_reaches_nobody_else(flavour: Any, serve: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}}
    page = {"tools": [{**TOOL, "inputSchema": schema, "_meta": {"a": [1]}}]}
    client, _ = keeping(flavour, serve, **{"tools/list": answer(page)})
    for _ in range(3):
        (tool,) = client.list_tools()
        assert (tool.input_schema, tool.meta) == (schema, {"a": [1]})
        tool.input_schema["properties"].clear()
        tool.meta["a"].append(2)


@pytest.mark.req("C12", "W10")
def test_numbers_of_any_size_are_kept_exactly(flavour: Any, serve: Any) -> None:
    schema = {"type": "object", "maximum": 10**30, "default": 0.1, "title": "\ud800"}
    client, server = keeping(flavour, serve, **{"tools/list": answer({"tools": [{**TOOL, "inputSchema": schema}]})})
    assert [client.list_tools()[0].input_schema for _ in range(2)] == [schema, schema]
    assert server.count("tools/list") == 1


@pytest.mark.req("C12")
def test_those_who_miss_a_list_at_the_same_time_send_one_request(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    client, server = keeping(flavour, serve, **{"tools/list": [wait(go), answer(tools("a"))]})
    running = [flavour.start(client.list_tools) for _ in range(5)]
    server.wait_until(lambda: server.count("tools/list") == 1)
    with pytest.raises(RequestTimeout):
        client.list_tools(timeout=0.05)
    go.set()
    assert [[tool.name for tool in each.result()] for each in running] == [["a"]] * 5
    # One may have come late; it found what the others had fetched.
    assert server.count("tools/list") == 1


@pytest.mark.req("C12", "L4")
def test_a_list_that_changes_while_it_is_fetched_is_not_kept(flavour: Any, serve: Any) -> None:
    changing = stream(note("tools/list_changed"), result(tools("old")))
    client, server = keeping(flavour, serve, **{"tools/list": turns(changing, answer(tools("new")))})
    assert [tool.name for tool in client.list_tools()] == ["old"]
    assert [tool.name for tool in client.list_tools()] == ["new"]
    assert [tool.name for tool in client.list_tools()] == ["new"]
    assert server.count("tools/list") == 2


@pytest.mark.req("C12")
def test_pages_are_kept_one_by_one(flavour: Any, serve: Any) -> None:
    pages = {None: tools("a", cursor="1"), "1": tools("b", cursor=""), "": tools("c")}

    def page(request: Request) -> Any:
        return pages[request.params.get("cursor")]

    client, server = keeping(flavour, serve, **{"tools/list": answer(page)})
    assert client.list_tools_page("1").tools[0].name == "b"
    assert [tool.name for tool in client.list_tools()] == ["a", "b", "c"]
    assert [tool.name for tool in client.list_tools()] == ["a", "b", "c"]
    assert server.count("tools/list") == 3


@pytest.mark.req("C12")
def test_a_kept_cursor_that_is_refused_starts_the_list_over_once(flavour: Any, serve: Any) -> None:
    rules = turns(answer(tools("a", cursor="old")), error(-32602), answer(tools("a", cursor="new")), answer(tools("b")))
    client, server = keeping(flavour, serve, **{"tools/list": rules})
    client.list_tools_page()
    assert [tool.name for tool in client.list_tools()] == ["a", "b"]
    assert [call.params.get("cursor") for call in server.calls("tools/list")] == [None, "old", None, "new"]
    server.rules["prompts/list"] = error(-32602)
    with pytest.raises(InvalidParams):
        client.list_prompts()
    assert server.count("prompts/list") == 1


@pytest.mark.req("C12")
def test_errors_and_wrong_shapes_are_not_kept(flavour: Any, serve: Any) -> None:
    rules = turns(error(-32000), answer({"tools": 7}), answer(tools("a")))
    client, server = keeping(flavour, serve, **{"tools/list": rules})
    for _ in range(2):
        with pytest.raises(Exception, match="tools"):
            client.list_tools()
    assert [tool.name for tool in client.list_tools()] == ["a"]
    assert [tool.name for tool in client.list_tools()] == ["a"]
    assert server.count("tools/list") == 3


@pytest.mark.req("C12")
def test_what_is_kept_is_bounded_and_the_oldest_makes_room(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": opening(), "GET": Pushes()}, era="handshake")
    client = flavour.connect(server.url, keep_lists=True, limits=Limits(max_cache_bytes=300))
    client.list_tools()
    client.list_prompts()
    client.list_resources()
    client.list_tools()
    counts = [server.count(method) for method in ("tools/list", "prompts/list", "resources/list")]
    assert counts == [2, 1, 1]
    tiny = flavour.connect(server.url, keep_lists=True, limits=Limits(max_cache_bytes=1))
    tiny.list_tools()
    tiny.list_tools()
    assert server.count("tools/list") == 4
