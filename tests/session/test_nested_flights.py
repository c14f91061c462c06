"""Calls from handlers that share a request with others: they must not wait for a place that their own call holds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any

import pytest

from ferrule import Limits
from tests.support.caches import hinted
from tests.support.clients import Running
from tests.support.listening import until
from tests.support.rounds import done
from tests.support.steps import (
    CHUNKED,
    LAST_CHUNK,
    SSE,
    Message,
    Turn,
    answer,
    chunk,
    error,
    event,
    http,
    initialized,
    turns,
)
from tests.support.tooling import REGION, listed, tool

ANNOTATED = tool(properties={"region": REGION})


class Slow:
    """The script of a call that makes progress and is answered when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self, turn: Turn) -> None:
        def say(message: Message) -> None:
            turn.send(chunk(event({"jsonrpc": "2.0", **message})))

        turn.send(http(200, b"", [SSE, CHUNKED], length=False))
        progress = {"progress": 1, "progressToken": turn.request.meta["progressToken"]}
        say({"method": "notifications/progress", "params": progress})
        turn.wait(self.go)
        say({"id": turn.request.message["id"], "result": done()})
        turn.send(LAST_CHUNK)


def nested(flavour: Any, client: Any, slow: Slow, call: Callable[[Any], Any]) -> Any:
    """What a call gives that is made while its handler's own call holds the only connection's place."""
    found: list[Any] = []

    async def later() -> None:
        await in_turn(call(client._target))

    async def in_turn(given: Awaitable[Any]) -> None:
        try:
            found.append(await given)
        except Exception as problem:
            found.append(problem)
        slow.go.set()

    def at_once() -> None:
        try:
            found.append(call(client))
        except Exception as problem:
            found.append(problem)
        slow.go.set()

    client.call_tool("slow", on_progress=lambda *_: later() if flavour.is_async else at_once())
    return found[0]


@pytest.mark.req("E6", "W25", "I3")
def test_a_handlers_call_that_is_refused_for_its_headers_lists_the_tools_past_the_limit(
    flavour: Any, serve: Any
) -> None:
    slow = Slow()
    calls = turns(slow, error(-32020, status=400), answer(done()))
    server = serve({"tools/list": listed(ANNOTATED), "tools/call": calls})
    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    result = nested(flavour, client, slow, lambda one: one.call_tool("echo", {"region": "eu"}, timeout=5))
    assert result.text == "ok"


@pytest.mark.req("C12", "W25", "I3")
def test_a_handler_gets_a_list_that_is_kept_past_the_limit(flavour: Any, serve: Any) -> None:
    slow = Slow()
    server = serve({"tools/call": slow}, era="handshake")
    client = flavour.connect(server.url, limits=Limits(max_connections=1), keep_lists=True, listen=False)
    assert [one.name for one in nested(flavour, client, slow, lambda one: one.list_tools(timeout=5))] == ["echo"]


@pytest.mark.req("L2", "W25", "I3")
def test_a_handler_subscribes_to_a_resource_past_the_limit(flavour: Any, serve: Any) -> None:
    slow = Slow()
    opening = answer(initialized(capabilities={"tools": {}, "resources": {"subscribe": True}}))
    rules = {"tools/call": slow, "initialize": opening, "resources/subscribe": answer({})}
    server = serve({**rules, "resources/unsubscribe": answer({})}, era="handshake")
    client = flavour.connect(server.url, limits=Limits(max_connections=1), listen=False)

    def subscribe(one: Any) -> Any:
        subscription = one.subscribe(uris=["demo://a"], timeout=5)
        if flavour.is_async:
            return through(subscription)
        with subscription as agreed:
            return agreed.honored.uris

    async def through(subscription: Any) -> Any:
        async with subscription as agreed:
            return agreed.honored.uris

    assert nested(flavour, client, slow, subscribe) == ("demo://a",)


@pytest.mark.req("C5", "W25", "I3")
def test_a_handler_does_not_wait_for_the_request_of_one_who_waits_for_a_place(flavour: Any, serve: Any) -> None:
    slow = Slow()
    server = serve({**hinted(), "tools/call": slow})
    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    others: list[Any] = []

    # Another caller misses the same list first, and finds no place to ask from: the handler's own call holds it.
    def second(one: Any) -> Any:
        if flavour.is_async:
            return second_on_a_loop(one)
        others.append(flavour.start(one.list_tools))
        until(lambda: is_waited_for(one))
        return one.list_tools(timeout=5)

    async def second_on_a_loop(one: Any) -> Any:
        # In a context of its own: this one is a handler's.
        others.append(asyncio.get_running_loop().create_task(one.list_tools(), context=Context()))
        while not is_waited_for(one):
            await asyncio.sleep(0)
        return await one.list_tools(timeout=5)

    assert [one.name for one in nested(flavour, client, slow, second)] == ["echo"]
    until(lambda: bool(others[0].done if isinstance(others[0], Running) else others[0].done()))
    assert [one.name for one in others[0].result()] == ["echo"]


def is_waited_for(client: Any) -> bool:
    """Does somebody wait for a connection's place?"""
    return bool(client._session.transport._pool._waiters)
