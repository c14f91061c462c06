"""Callers that miss the same answer at the same time: one request, and what happens when it fails."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ferrule import AsyncClient, Retry
from ferrule.errors import FerruleError, HTTPStatusError, RequestTimeout, RPCError
from tests.support.caches import HOUR, Counting, hinted, tools
from tests.support.clients import run_async
from tests.support.steps import Turn, answer, error, hang, reset, status, turns, wait

ONCE = Retry(attempts=1)
SCOPES = pytest.mark.parametrize("scope", ["public", "private"])


def names(found: Any) -> list[str]:
    return [tool.name for tool in found]


@pytest.mark.req("C5", "C8")
@SCOPES
def test_those_who_miss_at_the_same_time_send_one_request(flavour: Any, serve: Any, scope: str) -> None:
    go, meta = threading.Event(), Counting()
    server = serve({"tools/list": [wait(go), answer(tools("a", scope=scope))]})
    client = flavour.connect(server.url, request_meta=meta)
    before = meta.count
    running = [flavour.start(client.list_tools) for _ in range(6)]
    server.wait_until(lambda: server.count("tools/list") == 1 and meta.count == before + 6)
    go.set()
    found = [one.result() for one in running]
    assert [names(one) for one in found] == [["a"]] * 6
    assert server.count("tools/list") == 1
    # Each has evaluated for itself, and those who were served have used that up.
    assert meta.count == before + 6
    client.call_tool("echo", {})
    assert meta.count == before + 7
    # What came is each one's own.
    found[0][0].input_schema["x"] = 1
    assert all("x" not in one[0].input_schema for one in found[1:])


@pytest.mark.req("C5")
@pytest.mark.parametrize("failure", [error(-32000), status(500), reset(), answer({"tools": 7}), status(400)])
def test_when_the_first_fails_the_next_sends_its_own(flavour: Any, serve: Any, failure: Any) -> None:
    go = threading.Event()
    server = serve({"tools/list": turns([wait(go), failure], answer(tools("a")))})
    client = flavour.connect(server.url, retry=ONCE)
    first = flavour.start(client.list_tools)
    server.wait_until(lambda: server.count("tools/list") == 1)
    others = [flavour.start(client.list_tools) for _ in range(4)]
    go.set()
    assert isinstance(first.outcome(), FerruleError)
    assert [names(one.result()) for one in others] == [["a"]] * 4
    assert server.count("tools/list") == 2


@pytest.mark.req("C5")
def test_each_failure_is_one_callers_own(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({"tools/list": turns([wait(go), error(-32001)], error(-32002), error(-32003), answer(tools("a")))})
    client = flavour.connect(server.url)
    running = [flavour.start(client.list_tools) for _ in range(3)]
    server.wait_until(lambda: server.count("tools/list") == 1)
    go.set()
    outcomes = [one.outcome() for one in running]
    codes = sorted(one.code for one in outcomes if isinstance(one, RPCError))
    # One that came late found nobody to wait for: all have sent, and each got what was said to it.
    assert codes == [-32003, -32002, -32001]


@pytest.mark.req("C5", "T1")
def test_followers_keep_their_own_deadlines(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({"tools/list": [wait(go), answer(tools("a"))]})
    client = flavour.connect(server.url)
    leader = flavour.start(client.list_tools, timeout=20.0)
    server.wait_until(lambda: server.count("tools/list") == 1)
    with pytest.raises(RequestTimeout):
        client.list_tools(timeout=0.05)
    go.set()
    assert names(leader.result()) == ["a"]
    assert server.count("tools/list") == 1


@pytest.mark.req("C5", "T1")
def test_when_the_first_runs_out_of_time_the_next_asks_with_its_own_deadline(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(hang(), answer(tools("a")))})
    client = flavour.connect(server.url)
    leader = flavour.start(client.list_tools, timeout=0.5)
    server.wait_until(lambda: server.count("tools/list") == 1)
    follower = flavour.start(client.list_tools, timeout=20.0)
    assert isinstance(leader.outcome(), RequestTimeout)
    assert names(follower.result()) == ["a"]
    assert server.count("tools/list") == 2


@pytest.mark.req("C5", "C10")
def test_when_the_first_is_cancelled_the_next_sends_its_own(serve: Any) -> None:
    meta = Counting()
    server = serve({"tools/list": turns(hang(), answer(tools("a")))})

    async def body() -> None:
        async with AsyncClient(server.url, request_meta=meta) as client:
            before = meta.count
            leader = asyncio.ensure_future(client.list_tools())
            while server.count("tools/list") < 1:
                await asyncio.sleep(0.001)
            followers = [asyncio.ensure_future(client.list_tools()) for _ in range(3)]
            while meta.count < before + 4:
                await asyncio.sleep(0.001)
            leader.cancel()
            assert [names(await one) for one in followers] == [["a"]] * 3
            assert leader.cancelled()
            assert server.count("tools/list") == 2
            sent = [value for method, value in meta.sent(server.requests) if method == "tools/list"]
            assert sent == [before + 1, before + 2]
            assert meta.count == before + 4

    run_async(body())


@pytest.mark.req("C5")
def test_an_answer_that_may_not_be_kept_is_not_shared(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({"tools/list": [wait(go), answer(tools("a", ttl=0))]})
    client = flavour.connect(server.url)
    running = [flavour.start(client.list_tools) for _ in range(4)]
    server.wait_until(lambda: server.count("tools/list") == 1)
    go.set()
    assert [names(one.result()) for one in running] == [["a"]] * 4
    assert server.count("tools/list") == 4


@pytest.mark.req("C5", "C6")
def test_who_wants_a_new_answer_waits_for_no_older_one(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({"tools/list": turns([wait(go), answer(tools("old"))], answer(tools("new")))})
    client = flavour.connect(server.url)
    first = flavour.start(client.list_tools)
    server.wait_until(lambda: server.count("tools/list") == 1)
    assert names(client.list_tools(cache="refresh")) == ["new"]
    assert server.count("tools/list") == 2
    go.set()
    assert names(first.result()) == ["old"]


@pytest.mark.req("C5", "C6")
def test_followers_of_a_request_that_fails_get_the_stale_answer_too(flavour: Any, serve: Any) -> None:
    go = threading.Event()

    def script(turn: Turn) -> None:
        (answer(tools("old", ttl=1)) if server.count("tools/list") == 1 else status(503))(turn)

    server = serve({"tools/list": script})
    client = flavour.connect(server.url, retry=ONCE, stale_if_error=60.0)
    client.list_tools()
    for _ in range(2000):
        if client.list_tools() and client.cache_info().stale_hits:
            break
        threading.Event().wait(0.002)
    server.rules["tools/list"] = [wait(go), status(503)]
    running = [flavour.start(client.list_tools) for _ in range(4)]
    go.set()
    assert [names(one.result()) for one in running] == [["old"]] * 4
    assert client.cache_info().stale_hits == 5


@pytest.mark.req("C5")
def test_other_questions_do_not_wait(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({**hinted(ttl=HOUR), "tools/list": [wait(go), answer(tools("a"))]})
    client = flavour.connect(server.url)
    held = flavour.start(client.list_tools)
    server.wait_until(lambda: server.count("tools/list") == 1)
    assert client.list_prompts()
    assert client.read_resource("demo://a")
    assert not held.done
    go.set()
    held.result()


@pytest.mark.req("C5", "R1")
def test_a_failure_after_all_attempts_carries_what_led_to_it(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": status(503)})
    client = flavour.connect(server.url, retry=Retry(attempts=2, backoff=0.0, max_backoff=0.0))
    with pytest.raises(HTTPStatusError) as caught:
        client.list_tools()
    assert isinstance(caught.value.__cause__, HTTPStatusError)
    assert caught.value.request_sent
    assert server.count("tools/list") == 2
