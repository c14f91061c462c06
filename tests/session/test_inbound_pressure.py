"""Many requests of the server's at once, handlers that use the client, and the end of a client that is being asked."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from typing import Any

import pytest

from ferrule import Limits
from ferrule.types import ElicitResult
from tests.support import child as on_stdio
from tests.support.asking import PING, ask, form, over_http, wait_for
from tests.support.clients import run_async
from tests.support.steps import LAST_CHUNK, answer, more, raw, result, stream, text, turns
from tests.support.texts import logged


def workers() -> int:
    """The client's own threads."""
    return sum(thread.name == "ferrule-work" for thread in threading.enumerate())


def blocker(flavour: Any) -> tuple[Any, Any, list[int]]:
    """A handler that waits until it is released, the release, and how many waited at once."""
    go = threading.Event()
    now, seen = [0], [0]
    lock = threading.Lock()

    def begin() -> None:
        with lock:
            now[0] += 1
            seen[0] = max(seen[0], now[0])

    def end() -> Any:
        with lock:
            now[0] -= 1
        return ElicitResult.decline()

    def plain(*_: Any) -> Any:
        begin()
        assert go.wait(30)
        return end()

    async def coroutine(*_: Any) -> Any:
        begin()
        while not go.is_set():
            await asyncio.sleep(0.005)
        return end()

    return coroutine if flavour.is_async else plain, go, seen


@pytest.mark.req("I1", "I3")
def test_a_ping_is_answered_while_every_handler_is_busy(flavour: Any, asking: Any) -> None:
    handler, go, _ = blocker(flavour)
    server = asking(form("a"), form("b"), PING, replies=3)
    client = flavour.connect(server.target, on_elicitation=handler, limits=Limits(max_handlers=1))
    running = flavour.start(client.call_tool, "echo", {})
    wait_for(lambda: server.replies)
    assert server.reply["id"] == "ping-1"
    assert not running.done
    go.set()
    running.result()
    assert [reply["id"] for reply in server.replies] == ["ping-1", "a", "b"]


@pytest.mark.req("I3")
def test_no_more_handlers_run_at_once_than_allowed_and_the_others_have_their_turn(flavour: Any, asking: Any) -> None:
    handler, go, seen = blocker(flavour)
    server = asking(*[form(n) for n in range(20)], PING, replies=21)
    client = flavour.connect(server.target, on_elicitation=handler, limits=Limits(max_handlers=3))
    running = flavour.start(client.call_tool, "echo", {})
    wait_for(lambda: server.replies and seen[0] == 3)
    go.set()
    running.result()
    assert seen == [3]
    assert sorted(reply["id"] for reply in server.replies[1:]) == list(range(20))
    assert {reply["result"]["action"] for reply in server.replies[1:]} == {"decline"}


@pytest.mark.req("I3")
def test_requests_that_find_no_room_are_refused_and_counted(flavour: Any, asking: Any) -> None:
    handler, go, _ = blocker(flavour)
    server = asking(*[form(n) for n in range(7)], replies=7)
    with logged() as lines:
        client = flavour.connect(server.target, on_elicitation=handler, limits=Limits(max_handlers=1, max_queue=2))
        running = flavour.start(client.call_tool, "echo", {})
        wait_for(lambda: len(server.replies) == 4)
        go.set()
        running.result()
        wait_for(lambda: [line for line in lines if "were refused" in line])
    refused = {reply["id"]: reply["error"] for reply in server.replies if "error" in reply}
    assert refused == {key: {"code": -32603, "message": "Too many requests at once"} for key in refused}
    answered = {reply["id"] for reply in server.replies if "result" in reply}
    assert answered == {0, 1, 2}
    warnings = [line for line in lines if line.startswith("WARNING")]
    assert len([line for line in warnings if "further ones are refused" in line]) == 1
    assert len([line for line in warnings if f"{len(refused)} requests of the server's were refused" in line]) == 1


@pytest.mark.req("I3")
def test_a_burst_of_a_thousand_pings_is_answered_by_a_few_workers(flavour: Any, asking: Any) -> None:
    before, most = workers(), [0]
    stop = threading.Event()

    def count() -> None:
        while not stop.wait(0.001):
            most[0] = max(most[0], workers() - before)

    watcher = threading.Thread(target=count)
    watcher.start()
    try:
        server = asking(*[ask("ping", id=n) for n in range(1000)], replies=1000)
        client = flavour.connect(server.target, timeout=60)
        client.call_tool("echo", {})
    finally:
        stop.set()
        watcher.join()
    assert sorted(reply["id"] for reply in server.replies) == list(range(1000))
    assert most[0] <= 10


@pytest.mark.req("I3", "W25")
def test_a_handler_may_call_the_client_although_every_connection_is_taken(flavour: Any, serve: Any) -> None:
    def until_replied(turn: Any) -> None:
        server.wait_until(lambda: server.count("reply") >= 1, 20)

    outer = [stream(form(), end=False), until_replied, more(result(text("outer"))), raw(LAST_CHUNK)]
    server = serve({"tools/call": turns(outer, answer(text("inner")))}, era="handshake")

    def plain(*_: Any) -> Any:
        inner.append(client.call_tool("echo", {}).text)
        return ElicitResult.accept({"name": inner[-1]})

    async def coroutine(*_: Any) -> Any:
        inner.append((await client._target.call_tool("echo", {})).text)
        return ElicitResult.accept({"name": inner[-1]})

    inner: list[str] = []
    handler = coroutine if flavour.is_async else plain
    client = flavour.connect(server.url, on_elicitation=handler, limits=Limits(max_connections=1))
    assert client.call_tool("echo", {}).text == "outer"
    assert server.calls("reply")[0].message["result"]["content"] == {"name": "inner"}


@pytest.mark.req("T6", "W25")
def test_a_progress_handler_may_call_the_client_although_every_connection_is_taken(flavour: Any, serve: Any) -> None:
    from tests.support.steps import progress

    server = serve({"tools/call": turns(stream(progress(1), result(text("outer"))), answer(text("inner")))})
    inner: list[str] = []

    def plain(*_: Any) -> None:
        inner.append(client.call_tool("echo", {}).text)

    async def coroutine(*_: Any) -> None:
        inner.append((await client._target.call_tool("echo", {})).text)

    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    handler = coroutine if flavour.is_async else plain
    assert client.call_tool("echo", {}, on_progress=handler).text == "outer"
    assert inner == ["inner"]


@pytest.mark.req("I3")
def test_a_handler_may_call_the_client_on_the_same_child(flavour: Any, child: Any) -> None:
    held = [on_stdio.hold(), on_stdio.send(form())]
    server = child({"tools/call": [held, [on_stdio.answer()]], "reply": [[on_stdio.release()]]}, era="handshake")

    def plain(*_: Any) -> Any:
        client.call_tool("echo", {})
        return ElicitResult.decline()

    async def coroutine(*_: Any) -> Any:
        await client._target.call_tool("echo", {})
        return ElicitResult.decline()

    client = flavour.connect(server.stdio(), on_elicitation=coroutine if flavour.is_async else plain)
    assert client.call_tool("echo", {"n": 1}).text == '{"n": 1}'
    assert server.count("tools/call") == 2


@pytest.mark.req("I1")
def test_a_request_that_comes_while_no_call_is_under_way_is_answered_too(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[on_stdio.answer(), on_stdio.send(ask("roots/list"))]]}, era="handshake")
    client = flavour.connect(server.stdio(), roots=["file:///a"])
    client.call_tool("echo", {})
    server.wait_until(lambda: any("result" in message for message in server.messages))
    for n in range(5):
        assert client.call_tool("echo", {"n": n}).text == "ok"
    client.close()
    assert workers() == 0 or flavour.is_async


@pytest.mark.req("T7")
def test_an_unclosed_sync_client_that_listens_to_a_child_is_collected(child: Any) -> None:
    from ferrule import Client

    before = workers()
    server = child(era="handshake")
    client = Client(server.stdio(), on_notification=lambda *_: None)
    client.connect()
    assert workers() == before + 1
    gone = weakref.ref(client._session)
    del client
    gc.collect()
    assert gone() is None
    wait_for(lambda: workers() == before)


# --- the end ---------------------------------------------------------------------------------------


@pytest.mark.req("T7", "I9")
def test_close_gives_up_what_the_server_asked_and_is_bounded(flavour: Any, asking: Any) -> None:
    begun, ended = threading.Event(), threading.Event()

    def plain(request: Any, context: Any) -> Any:
        begun.set()
        wait_for(lambda: context.cancelled)
        ended.set()
        return ElicitResult.decline()

    async def coroutine(request: Any, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    server = asking(form(), replies=0)
    client = flavour.connect(server.target, on_elicitation=coroutine if flavour.is_async else plain)
    client.call_tool("echo", {})
    assert begun.wait(20)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 4
    assert ended.is_set()
    assert server.replies == []


@pytest.mark.req("T7")
def test_close_is_bounded_when_a_handler_never_ends(serve: Any) -> None:
    from ferrule import Client

    begun, go = threading.Event(), threading.Event()

    def handler(*_: Any) -> Any:
        begun.set()
        go.wait(30)
        return ElicitResult.decline()

    server = over_http(serve, (form(),), 0)
    client = Client(server.target, on_elicitation=handler, limits=Limits(close_timeout=0.2))
    try:
        client.call_tool("echo", {})
        assert begun.wait(20)
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < 4
    finally:
        go.set()
    wait_for(lambda: workers() == 0)
    assert server.replies == []


@pytest.mark.req("T7", "I3")
def test_a_handler_may_close_the_client(flavour: Any, asking: Any) -> None:
    closed = threading.Event()

    def plain(*_: Any) -> Any:
        client.close()
        closed.set()
        return ElicitResult.decline()

    async def coroutine(*_: Any) -> Any:
        await client._target.aclose()
        closed.set()
        return ElicitResult.decline()

    server = asking(form(), replies=0)
    client = flavour.connect(server.target, on_elicitation=coroutine if flavour.is_async else plain)
    flavour.start(client.call_tool, "echo", {}).outcome()
    assert closed.wait(20)
    assert server.replies == []


@pytest.mark.req("I3")
def test_closing_one_view_gives_up_its_own_requests_only(flavour: Any, serve: Any) -> None:
    handler, go, _ = blocker(flavour)
    contexts: list[Any] = []

    def noting(request: Any, context: Any) -> Any:
        contexts.append(context)
        return handler(request, context)

    server = over_http(serve, (form(),), 0)
    client = flavour.connect(server.target, on_elicitation=noting)
    view = client.with_options(headers={"X-User": "a"})
    view.call_tool("echo", {})
    wait_for(lambda: len(contexts) == 1)
    client.call_tool("echo", {})
    wait_for(lambda: len(contexts) == 2)
    view.close()
    assert [context.cancelled for context in contexts] == [True, False]
    go.set()
    wait_for(lambda: server.replies)
    assert len(server.replies) == 1


@pytest.mark.req("T4")
def test_handlers_leave_no_task_behind(serve: Any) -> None:
    from ferrule import AsyncClient

    async def handler(*_: Any) -> Any:
        await asyncio.sleep(0)
        return ElicitResult.accept({"name": "x"})

    server = over_http(serve, (form(), PING), 2)

    async def body() -> None:
        async with AsyncClient(server.target, on_elicitation=handler) as client:
            assert (await client.call_tool("echo", {})).content

    run_async(body())
