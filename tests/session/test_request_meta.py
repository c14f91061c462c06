"""How often `request_meta` is evaluated, and which request carries what it gave (seed of C8 to C11).

A counting `request_meta` gives n = 1, 2, ... where no answer depends on it; the server sees which n came with which
request.
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from ferrule import AsyncClient, MemoryCache, Retry
from ferrule.errors import FerruleError, InvalidParams, RequestTimeout
from tests.support.caches import WAYS, Counting, Table, hinted, tools
from tests.support.clients import run_async
from tests.support.pushes import note
from tests.support.steps import Request, Turn, answer, error, hang, reset, result, status, stream, turns

EACH = pytest.mark.parametrize("way", WAYS)
QUICK = Retry(attempts=3, backoff=0.0, max_backoff=0.0)


def counted(flavour: Any, serve: Any, rules: Any = None, **options: Any) -> tuple[Any, Any, Counting]:
    """A connected client; what connecting took is not counted."""
    meta = Counting(options.pop("key", "traceparent"))
    server = serve({**hinted(), **(rules or {})})
    client = flavour.connect(server.url, request_meta=meta, **options)
    assert meta.sent(server.requests) == [("server/discover", 1)]
    server.requests.clear()
    meta.count = 0
    return client, server, meta


# --- once for the decision and the request (C8) --------------------------------------------------


@pytest.mark.req("C8")
@EACH
def test_a_miss_evaluates_once_and_sends_that(flavour: Any, serve: Any, way: str) -> None:
    client, server, meta = counted(flavour, serve)
    WAYS[way][1](client)
    assert meta.sent(server.requests) == [(WAYS[way][0], 1)]
    assert meta.count == 1


@pytest.mark.req("C8")
@EACH
def test_a_hit_uses_its_evaluation_up(flavour: Any, serve: Any, way: str) -> None:
    client, server, meta = counted(flavour, serve)
    for _ in range(3):
        WAYS[way][1](client)
    client.call_tool("echo", {})
    assert meta.sent(server.requests) == [(WAYS[way][0], 1), ("tools/call", 4)]
    assert meta.count == 4


@pytest.mark.req("C8")
@pytest.mark.parametrize("mode", ["use", "refresh", "bypass"])
def test_whatever_the_caller_wishes_one_request_is_one_evaluation(flavour: Any, serve: Any, mode: str) -> None:
    client, server, meta = counted(flavour, serve)
    client.list_tools(cache=mode)
    client.list_tools(cache=mode)
    if mode != "use":
        assert meta.sent(server.requests) == [("tools/list", 1), ("tools/list", 2)]
    assert meta.count == 2


@pytest.mark.req("C8")
def test_a_stale_entry_keeps_the_evaluation_for_the_request(flavour: Any, serve: Any) -> None:
    client, server, meta = counted(flavour, serve, hinted(ttl=1))
    while server.count("tools/list") < 2:
        client.list_tools()
    values = [value for _, value in meta.sent(server.requests)]
    assert values == [1, meta.count]


@pytest.mark.req("C8", "C2")
def test_what_was_weighed_is_what_is_sent(flavour: Any, serve: Any) -> None:
    client, server, meta = counted(flavour, serve, key="com.example/n", cache=(table := Table()))
    for _ in range(3):
        client.list_tools()
    # Each one depends on another n, so each is another question.
    assert meta.sent(server.requests) == [("tools/list", 1), ("tools/list", 2), ("tools/list", 3)]
    assert len(table.answers()) == 3
    # And what was kept for n = 2 is what is found for n = 2.
    meta.count = 1
    client.list_tools()
    assert server.count("tools/list") == 3


@pytest.mark.req("C8")
def test_a_mapping_that_changes_after_the_decision_changes_nothing(serve: Any) -> None:
    given: dict[str, Any] = {"com.example/a": {"n": 1}}

    class Meddling(Table):
        async def get(self, keys: Any, /) -> Any:  # type: ignore[override]
            given["com.example/a"]["n"] = 2
            return super().get(keys)

    table = Meddling()
    server = serve(hinted())

    async def body() -> None:
        async with AsyncClient(server.url, request_meta=given, cache=table) as client:
            await client.list_tools()
            given["com.example/a"]["n"] = 1
            await client.list_tools()

    run_async(body())
    assert [one.meta["com.example/a"]["n"] for one in server.calls("tools/list")] == [1]


@pytest.mark.req("C8")
def test_without_hints_a_request_is_one_evaluation_too(flavour: Any, serve: Any) -> None:
    client, server, meta = counted(flavour, serve, hinted(ttl=...))
    for _ in range(3):
        client.list_tools()
    assert meta.sent(server.requests) == [("tools/list", 1), ("tools/list", 2), ("tools/list", 3)]
    assert meta.count == 3


@pytest.mark.req("C8")
def test_the_members_of_one_call_join_what_was_evaluated(flavour: Any, serve: Any) -> None:
    client, server, meta = counted(flavour, serve)
    client.read_resource("demo://a", meta={"com.example/call": 1})
    (sent,) = server.calls("resources/read")
    assert (sent.meta["traceparent"], sent.meta["com.example/call"]) == ("1", 1)
    assert meta.count == 1


# --- for the first request alone (C9) ------------------------------------------------------------


@pytest.mark.req("C9")
def test_connecting_evaluates_for_itself(flavour: Any, serve: Any) -> None:
    meta = Counting()
    server = serve(hinted())
    client = flavour.client(server.url, request_meta=meta)
    client.list_tools()
    # The probe comes first; the list is weighed when there is a link.
    assert meta.sent(server.requests) == [("server/discover", 1), ("tools/list", 2)]
    assert meta.count == 2


@pytest.mark.req("C9")
def test_a_revision_that_is_refused_has_the_probe_evaluate_for_itself(flavour: Any, serve: Any) -> None:
    refused = error(-32022, data={"supported": ["2026-07-28"], "requested": "2026-07-28"}, status=400)
    client, server, meta = counted(flavour, serve, {"tools/list": turns(refused, answer(tools("a")))})
    client.list_tools()
    client.list_tools()
    sent = meta.sent(server.requests)
    assert sent[0] == ("tools/list", 1)
    assert sent[-1] == ("tools/list", len(sent))
    assert [method for method, _ in sent[1:-1]] == ["server/discover"] * (len(sent) - 2)
    assert meta.count == len(sent) + 1


@pytest.mark.req("C9")
@pytest.mark.parametrize("failure", [status(503), reset(), status(429)])
def test_a_retry_evaluates_anew(flavour: Any, serve: Any, failure: Any) -> None:
    rules = {"tools/list": turns(failure, failure, answer(tools("a")))}
    client, server, meta = counted(flavour, serve, rules, retry=QUICK)
    client.list_tools()
    assert meta.sent(server.requests) == [("tools/list", 1), ("tools/list", 2), ("tools/list", 3)]
    assert meta.count == 3


@pytest.mark.req("C9", "C2")
def test_an_answer_is_filed_under_what_the_attempt_carried_that_brought_it(flavour: Any, serve: Any) -> None:
    rules = {"tools/list": turns(status(503), answer(tools("a")), answer(tools("b")))}
    client, server, meta = counted(flavour, serve, rules, retry=QUICK, key="com.example/n")
    client.list_tools()
    assert meta.sent(server.requests) == [("tools/list", 1), ("tools/list", 2)]
    meta.count = 1  # the next one weighs n = 2
    assert [tool.name for tool in client.list_tools()] == ["a"]
    meta.count = 0  # and the next n = 1, under which nothing came
    assert [tool.name for tool in client.list_tools()] == ["b"]
    assert server.count("tools/list") == 3


@pytest.mark.req("C9")
def test_later_pages_evaluate_anew(flavour: Any, serve: Any) -> None:
    pages = {None: tools("a", cursor="1"), "1": tools("b", cursor="2"), "2": tools("c")}

    def page(request: Request) -> Any:
        return pages[request.params.get("cursor")]

    client, server, meta = counted(flavour, serve, {"tools/list": answer(page)})
    client.list_tools()
    assert [value for _, value in meta.sent(server.requests)] == [1, 2, 3]
    client.list_tools()
    assert meta.count == 6
    list(client.iter_tools())
    assert meta.count == 9
    assert server.count("tools/list") == 3


@pytest.mark.req("C9", "C7")
def test_a_list_that_is_started_over_evaluates_anew(flavour: Any, serve: Any) -> None:
    rules = turns(answer(tools("a", cursor="x")), error(-32602), answer(tools("a", cursor="y")), answer(tools("b")))
    client, server, meta = counted(flavour, serve, {"tools/list": rules})
    client.list_tools()
    assert [value for _, value in meta.sent(server.requests)] == [1, 2, 3, 4]
    assert meta.count == 4


@pytest.mark.req("C9", "C10")
def test_what_a_handler_sends_evaluates_for_itself(flavour: Any, serve: Any) -> None:
    """A notification that comes before the answer: its handler lists, asks and calls while the outer list waits."""
    go = threading.Event()
    nested: list[Any] = []

    def held(turn: Turn) -> None:
        if server.count("tools/list") > 1:
            return answer(tools("nested"))(turn)
        stream(note("prompts/list_changed"), end=False)(turn)
        turn.wait(go)
        from tests.support.steps import LAST_CHUNK, more, raw

        more(result(tools("outer")))(turn)
        raw(LAST_CHUNK)(turn)

    def work() -> None:
        nested.append(box[0].request("tools/list"))
        nested.append(box[0].call_tool("echo", {}))
        nested.append(box[0].list_prompts())
        go.set()

    async def work_async() -> None:
        target = box[0]._target
        nested.append(await target.request("tools/list"))
        nested.append(await target.call_tool("echo", {}))
        nested.append(await target.list_prompts())
        go.set()

    def heard(notification: Any, context: Any) -> Any:
        return work_async() if flavour.is_async else work()

    meta = Counting()
    server = serve({**hinted(), "tools/list": held})
    box = [flavour.connect(server.url, request_meta=meta, on_notification=heard)]
    server.requests.clear()
    meta.count = 0
    assert [tool.name for tool in box[0].list_tools()] == ["outer"]
    expected = [("tools/list", 1), ("tools/list", 2), ("tools/call", 3), ("prompts/list", 4)]
    assert meta.sent(server.requests) == expected
    assert meta.count == 4
    assert len(nested) == 3


@pytest.mark.req("C9")
def test_a_cancellation_evaluates_nothing_of_the_operations(flavour: Any, child: Any) -> None:
    """Over stdio giving up is told: by a notification, which has no evaluation to take."""
    from tests.support import child as on_stdio

    meta = Counting()
    server = child({"tools/list": [[on_stdio.hold()]], "notifications/cancelled": [[]]}, era="stateless")
    client = flavour.connect(server.stdio(), request_meta=meta, protocol="stateless")
    client.call_tool("echo", {})
    with pytest.raises(RequestTimeout):
        client.list_tools(timeout=0.5)
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    assert meta.count == 2
    client.call_tool("echo", {})
    assert [call["params"]["_meta"]["traceparent"] for call in server.calls()] == ["1", "3"]


# --- never beyond the operation (C10) ------------------------------------------------------------


@pytest.mark.req("C10")
@pytest.mark.parametrize("failure", [error(-32000), status(400), answer({"tools": 7}), answer({"resultType": "odd"})])
def test_an_error_leaves_nothing_behind(flavour: Any, serve: Any, failure: Any) -> None:
    client, server, meta = counted(flavour, serve, {"tools/list": turns(failure, answer(tools("a")))})
    with pytest.raises(FerruleError):
        client.list_tools()
    client.call_tool("echo", {})
    client.list_tools()
    assert meta.sent(server.requests) == [("tools/list", 1), ("tools/call", 2), ("tools/list", 3)]
    assert meta.count == 3


@pytest.mark.req("C10")
def test_an_operation_that_sends_nothing_leaves_nothing_behind(flavour: Any, serve: Any) -> None:
    meta = Counting()
    server = serve(hinted())
    client = flavour.connect(server.url, request_meta=meta)
    server.stop_listening()
    broken = flavour.client(server.url, request_meta=meta, retry=Retry(attempts=1), protocol="stateless")
    before = meta.count
    with pytest.raises(FerruleError):
        broken.list_tools(timeout=5.0)
    with pytest.raises(TypeError):
        client.read_resource("demo://a", meta={"a": object()})
    with pytest.raises(TypeError):
        client.read_resource(7)
    sent = len(server.requests)
    client.call_tool("echo", {})
    assert [value for _, value in meta.sent(server.requests[sent:])] == [meta.count]
    assert meta.count == before + 3


@pytest.mark.req("C10")
def test_a_cancelled_operation_leaves_nothing_behind(serve: Any) -> None:
    meta = Counting()
    server = serve({**hinted(), "tools/list": turns(hang(), answer(tools("a")))})

    async def body() -> None:
        async with AsyncClient(server.url, request_meta=meta) as client:
            before = meta.count
            task = asyncio.ensure_future(client.list_tools())
            while server.count("tools/list") < 1:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await client.call_tool("echo", {})
            await client.list_tools()
            sent = [value for method, value in meta.sent(server.requests) if method != "server/discover"]
            assert sent == [before + 1, before + 2, before + 3]

    run_async(body())


@pytest.mark.req("C10")
def test_operations_at_the_same_time_have_each_their_own(flavour: Any, serve: Any) -> None:
    client, server, meta = counted(flavour, serve, key="com.example/n")
    calls = [client.list_tools, client.list_prompts, lambda: client.read_resource("demo://a"), client.list_tools]
    flavour.together(*calls)
    values = sorted(value for _, value in meta.sent(server.requests))
    assert values == [1, 2, 3, 4]
    assert meta.count == 4


@pytest.mark.req("C10")
def test_what_is_asked_of_the_cache_itself_evaluates_nothing(flavour: Any, serve: Any) -> None:
    client, _, meta = counted(flavour, serve)
    client.cache_info()
    client.clear_cache()
    client.list_tools()
    client.cache_info()
    client.clear_cache()
    repr(client)
    assert meta.count == 1


@pytest.mark.req("C10")
def test_a_request_meta_that_fails_fails_one_operation(flavour: Any, serve: Any) -> None:
    def meta() -> dict[str, Any]:
        if bad:
            raise KeyError("no user")
        return {}

    bad: list[int] = []
    server = serve(hinted())
    client = flavour.connect(server.url, request_meta=meta)
    bad.append(1)
    with pytest.raises(KeyError):
        client.list_tools()
    bad.clear()
    assert client.list_tools()
    assert server.count("tools/list") == 1


USER: ContextVar[str] = ContextVar("user", default="nobody")


@pytest.mark.req("C9", "C10")
def test_every_attempt_evaluates_in_the_callers_context(serve: Any) -> None:
    server = serve({**hinted(), "tools/list": turns(status(503), answer(tools("a", scope="private")))})

    async def body() -> None:
        client = AsyncClient(server.url, request_meta=lambda: {"com.example/user": USER.get()}, retry=QUICK)
        async with client:
            USER.set("ann")
            await client.list_tools()

    run_async(body())
    assert [one.meta["com.example/user"] for one in server.calls("tools/list")] == ["ann", "ann"]


# --- several servers (C11) -----------------------------------------------------------------------


@pytest.mark.req("C11")
def test_clients_of_several_servers_evaluate_each_for_its_own_fetch(flavour: Any, serve: Any) -> None:
    """One counter and one store for two servers: each list carries what was evaluated for it, and is filed there."""
    meta, store = Counting(), MemoryCache()
    servers = [serve({"tools/list": answer(tools(name))}) for name in ("a", "b")]
    clients = [flavour.client(one.url, request_meta=meta, cache=store, protocol="stateless") for one in servers]
    assert [client.list_tools()[0].name for client in clients] == ["a", "b"]
    assert [meta.sent(server.requests) for server in servers] == [[("tools/list", 1)], [("tools/list", 2)]]
    assert [client.list_tools()[0].name for client in reversed(clients)] == ["b", "a"]
    assert meta.count == 4
    for server, client, value in zip(servers, clients, (5, 6), strict=True):
        client.call_tool("echo", {})
        assert meta.sent(server.requests)[-1] == ("tools/call", value)


@pytest.mark.req("C11", "C10")
def test_a_listing_of_several_servers_that_fails_midway_leaves_nothing_behind(flavour: Any, serve: Any) -> None:
    meta, store = Counting(), MemoryCache()
    good = serve({"tools/list": answer(tools("a"))})
    bad = serve({"tools/list": turns(error(-32602), answer(tools("b")))})
    first, second = (
        flavour.client(one.url, request_meta=meta, cache=store, protocol="stateless") for one in (good, bad)
    )
    first.list_tools()
    with pytest.raises(InvalidParams):
        second.list_tools()
    assert [client.list_tools()[0].name for client in (first, second)] == ["a", "b"]
    assert [value for _, value in meta.sent([*good.requests, *bad.requests])] == [1, 2, 4]
