"""Kept answers of the stateless era that a server says are out of date: gone before anybody hears of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ferrule import MemoryCache
from ferrule.types.events import Honored
from tests.support.caches import HOUR, WAYS, AsyncTable, Broken, Table, hinted, tools
from tests.support.pushes import note
from tests.support.steps import LAST_CHUNK, Turn, answer, more, raw, result, stream, text, turns

LISTS = {way: WAYS[way] for way in ("tools", "prompts", "resources", "templates", "read")}
DROPPED = {
    "tools/list_changed": {"tools"},
    "prompts/list_changed": {"prompts"},
    "resources/list_changed": {"resources", "templates", "read"},
    "roots/list_changed": set[str](),
}


def saying(*notifications: Any) -> Any:
    """The script of a tool call that says these things first."""
    return stream(*notifications, result(text("said")))


@pytest.mark.req("L4")
@pytest.mark.parametrize("notification", DROPPED)
def test_a_notification_drops_what_it_is_about_and_nothing_else(flavour: Any, serve: Any, notification: str) -> None:
    server = serve({**hinted(), "tools/call": saying(note(notification))})
    client = flavour.connect(server.url)
    for _, ask in LISTS.values():
        ask(client)
    client.call_tool("echo", {})
    for way, (method, ask) in LISTS.items():
        ask(client)
        assert server.count(method) == (2 if way in DROPPED[notification] else 1), way


@pytest.mark.req("L4")
@pytest.mark.parametrize(
    ("updated", "dropped"),
    [
        ("demo://a/b", {"demo://a/b", "demo://a", "demo://a/"}),
        ("demo://a", {"demo://a"}),
        ("demo://a/b?x=1", {"demo://a/b", "demo://a", "demo://a/"}),
        ("demo://ab", set()),
        (7, set()),
        ("demo://a/b" + "/c" * 100, {"demo://a/b", "demo://a", "demo://a/", "demo://other"}),
    ],
)
def test_an_update_drops_the_resource_and_what_it_is_a_part_of(
    flavour: Any, serve: Any, updated: Any, dropped: set[str]
) -> None:
    server = serve({**hinted(), "tools/call": saying(note("resources/updated", uri=updated))})
    client = flavour.connect(server.url)
    uris = ["demo://a/b", "demo://a", "demo://a/", "demo://other"]
    for uri in uris:
        client.read_resource(uri)
    client.list_resources()
    client.call_tool("echo", {})
    for uri in uris:
        before = server.count("resources/read")
        client.read_resource(uri)
        assert server.count("resources/read") - before == (uri in dropped), uri
    client.list_resources()
    assert server.count("resources/list") == 1


@pytest.mark.req("L4", "C9")
def test_a_handler_that_asks_at_once_gets_the_new_list(flavour: Any, serve: Any) -> None:
    seen: list[str] = []
    done = threading.Event()

    def heard(notification: Any, context: Any) -> Any:
        if flavour.is_async:
            return ask_async()
        seen.extend(tool.name for tool in box[0].list_tools())
        return done.set()

    async def ask_async() -> None:
        seen.extend(tool.name for tool in await box[0]._target.list_tools())
        done.set()

    server = serve(
        {
            "tools/list": turns(answer(tools("old")), answer(tools("new"))),
            "tools/call": saying(note("tools/list_changed")),
        }
    )
    box = [flavour.connect(server.url, on_notification=heard)]
    box[0].list_tools()
    box[0].call_tool("echo", {})
    assert done.wait(10.0)
    assert seen == ["new"]


@pytest.mark.req("L4", "C4")
@pytest.mark.parametrize("store", [MemoryCache, Table])
def test_a_list_that_changes_while_it_is_fetched_is_not_kept(flavour: Any, serve: Any, store: Any) -> None:
    changing = stream(note("tools/list_changed"), result(tools("old")))
    server = serve({"tools/list": turns(changing, answer(tools("new")))})
    client = flavour.connect(server.url, cache=store())
    assert [[tool.name for tool in client.list_tools()] for _ in range(3)] == [["old"], ["new"], ["new"]]
    assert server.count("tools/list") == 2


@pytest.mark.req("L4", "C5")
def test_who_asks_after_the_change_does_not_wait_for_an_answer_from_before_it(flavour: Any, serve: Any) -> None:
    go = threading.Event()

    def held(turn: Turn) -> None:
        stream(end=False)(turn)
        turn.wait(go)
        more(result(tools("old")))(turn)
        raw(LAST_CHUNK)(turn)

    rules = {"tools/list": turns(held, answer(tools("new"))), "tools/call": saying(note("tools/list_changed"))}
    server = serve(rules)
    client = flavour.connect(server.url)
    first = flavour.start(client.list_tools)
    server.wait_until(lambda: server.count("tools/list") == 1)
    client.list_prompts()  # so that there is a cache to hear it
    client.call_tool("echo", {})
    assert [tool.name for tool in client.list_tools()] == ["new"]
    go.set()
    assert [tool.name for tool in first.result()] == ["old"]
    assert [tool.name for tool in client.list_tools()] == ["new"]


@pytest.mark.req("L4", "C3")
def test_what_one_client_hears_is_dropped_for_all_who_share_the_store(flavour: Any, serve: Any) -> None:
    for store in (MemoryCache(), AsyncTable() if flavour.is_async else Table()):
        server = serve({**hinted(), "tools/call": saying(note("tools/list_changed"))})
        clients = [flavour.client(server.url, cache=store, protocol="stateless") for _ in range(3)]
        for client in clients:
            client.list_tools()
        assert server.count("tools/list") == 1
        clients[0].call_tool("echo", {})
        if not isinstance(store, MemoryCache):  # told in the background, or by the next who asks
            server.wait_until(lambda: bool(store.deleted))  # noqa: B023
        for client in clients:
            client.list_tools()
        assert server.count("tools/list") == 2


@pytest.mark.req("L4", "C3")
def test_what_a_store_did_not_forget_is_not_believed(flavour: Any, serve: Any) -> None:
    store = Broken()
    server = serve({**hinted(), "tools/call": saying(note("tools/list_changed"))})
    client = flavour.connect(server.url, cache=store)
    client.list_tools()
    store.broken = {"delete"}
    client.call_tool("echo", {})
    for _ in range(3):
        client.list_tools()
    assert server.count("tools/list") == 4
    store.broken = set()
    for _ in range(3):
        client.list_tools()
    assert server.count("tools/list") == 5


@pytest.mark.req("L4", "C3")
def test_a_flood_of_updates_costs_a_bounded_memory(flavour: Any, serve: Any) -> None:
    store = Broken("delete")
    flood = [note("resources/updated", uri=f"demo://{number}") for number in range(3000)]
    server = serve({**hinted(), "tools/call": saying(*flood)})
    client = flavour.connect(server.url, cache=store)
    client.read_resource("demo://a")
    client.call_tool("echo", {})
    session = getattr(client, "_target", client)._session
    assert len(session.peer.caching.store._pending) <= 1024
    store.broken = set()
    client.read_resource("demo://a")
    assert server.count("resources/read") == 2


@pytest.mark.req("L4")
def test_over_stdio_a_change_that_has_arrived_is_heard_before_the_list_is_used(
    flavour: Any, child: Any, tmp_path: Any
) -> None:
    from tests.support import child as on_stdio

    go = tmp_path / "go"
    pushes = [on_stdio.wait(go), on_stdio.send(note("tools/list_changed"))]
    rules = {"tools/list": [[on_stdio.answer(tools("a")), *pushes], [on_stdio.answer(tools("b", ttl=HOUR))]]}
    server = child(rules, era="stateless")
    client = flavour.connect(server.stdio(), protocol="stateless")
    assert [tool.name for tool in client.list_tools()] == ["a"]
    assert [tool.name for tool in client.list_tools()] == ["a"]
    go.touch()
    for _ in range(1000):
        if [tool.name for tool in client.list_tools()] == ["b"]:
            break
        threading.Event().wait(0.005)
    assert [tool.name for tool in client.list_tools()] == ["b"]
    assert server.count("tools/list") == 2


@pytest.mark.req("L4")
@pytest.mark.parametrize(
    ("honored", "dropped"),
    [
        (Honored(tools=True), {"tools"}),
        (Honored(prompts=True), {"prompts"}),
        (Honored(resources=True), {"resources", "templates", "read"}),
        (Honored(uris=("demo://elsewhere",)), {"read"}),
        (Honored(), set()),
    ],
)
def test_what_may_have_changed_unheard_is_dropped(
    flavour: Any, serve: Any, honored: Honored, dropped: set[str]
) -> None:
    from ferrule._session.standing import standing_of

    server = serve(hinted())
    client = flavour.connect(server.url)
    session = getattr(client, "_target", client)._session
    standing_of(session).missed(honored)  # before there is a cache
    for _, ask in LISTS.values():
        ask(client)
    standing_of(session).missed(honored)
    for way, (method, ask) in LISTS.items():
        ask(client)
        assert server.count(method) == (2 if way in dropped else 1), way
