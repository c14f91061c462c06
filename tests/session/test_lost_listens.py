"""Subscriptions in the stateless era that are lost, given up or forgotten."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Retry
from ferrule.errors import (
    ConnectionClosed,
    RequestTimeout,
    RPCError,
    ServerExited,
    SessionExpired,
    TransportError,
)
from ferrule.types import Missed, ResourceUpdated, ToolsChanged
from tests.session.test_fork import play
from tests.support import child as on_stdio
from tests.support.clients import run_async
from tests.support.listening import QUICK, TAG, HttpEars, Place, until
from tests.support.pushes import Pushes, Sessions, opening, subscribing
from tests.support.steps import answer, status, turns

URI = "demo://a"


# --- loss ----------------------------------------------------------------------------------------


@pytest.mark.req("L3")
def test_a_lost_subscription_is_opened_again_and_says_that_changes_may_be_missed(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target, retry=QUICK)
    with client.subscribe(tools=True, uris=[URI]) as changes:
        first = place.ears.streams[0]
        first.send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
        first.drop()
        second = place.ears.opened(2)
        assert second.filter == first.filter
        assert second.id != first.id
        second.send("resources/updated", uri=URI)
        assert changes.next(timeout=10) == Missed()
        assert changes.next(timeout=10) == ResourceUpdated(uri=URI)


@pytest.mark.req("L3")
def test_a_loss_is_told_where_no_other_stream_is_wanted(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target, retry=QUICK)
    with client.subscribe(tools=True, reconnect=False) as changes:
        stream = place.ears.streams[0]
        stream.send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
        stream.drop()
        with pytest.raises(TransportError, match=r"closed|ended|exited") as caught:
            changes.next(timeout=10)
        assert caught.value.request_sent is True
        assert list(changes) == []
    assert len(place.listens()) == 1


@pytest.mark.req("L3")
def test_a_server_that_cannot_be_reached_is_tried_until_it_can(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        http.rules["subscriptions/listen"] = turns(status(503), status(502), http.ears)
        http.ears.streams[0].drop()
        http.ears.opened(2).send("tools/list_changed")
        assert [changes.next(timeout=10), changes.next(timeout=10)] == [Missed(), ToolsChanged()]
    assert http.count("subscriptions/listen") == 4


@pytest.mark.req("L3")
def test_what_time_does_not_mend_ends_a_lost_subscription_with_the_error(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        place.ears.refusals = [{"code": -32603, "message": "no more"}]
        place.ears.streams[0].drop()
        with pytest.raises(RPCError):
            list(changes)
        assert list(changes) == []


@pytest.mark.req("L3")
def test_an_error_in_place_of_the_end_is_a_loss(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        place.ears.streams[0].finish(error={"code": -32603, "message": "restarting"})
        assert changes.next(timeout=10) == Missed()


@pytest.mark.req("L3")
def test_missed_keep_alives_open_the_stream_again(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        stream = http.ears.streams[0]
        for _ in range(3):
            stream.comment()
            with pytest.raises(RequestTimeout):
                changes.next(timeout=0.05)
        assert changes.next(timeout=10) == Missed()
        http.ears.opened(2)
        http.ears.wait_for(lambda: http.ears.cancelled == [stream.id])


@pytest.mark.req("L3")
def test_a_quiet_stream_is_left_alone(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        http.ears.streams[0].comment()
        with pytest.raises(RequestTimeout):
            changes.next(timeout=1.3)
        http.ears.streams[0].send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert len(http.ears.streams) == 1


@pytest.mark.req("L3", "E8")
def test_a_reopened_stream_evaluates_request_meta_afresh(flavour: Any, place: Place) -> None:
    given = iter(range(100))
    client = flavour.connect(place.target, retry=QUICK, request_meta=lambda: {"x/n": next(given)})
    with client.subscribe(tools=True) as changes:
        place.ears.streams[0].drop()
        assert changes.next(timeout=10) == Missed()
    first, second = [one["params"]["_meta"]["x/n"] for one in place.listens()]
    assert second > first


@pytest.mark.req("L3")
def test_a_request_meta_that_fails_later_ends_the_subscription_with_its_error(flavour: Any, http: Any) -> None:
    failing = threading.Event()

    def meta() -> dict[str, Any]:
        if failing.is_set():
            raise KeyError("mine")
        return {}

    client = flavour.connect(http.url, retry=QUICK, request_meta=meta)
    with client.subscribe(tools=True) as changes:
        failing.set()
        http.ears.streams[0].drop()
        with pytest.raises(KeyError):
            changes.next(timeout=10)


@pytest.mark.req("L1", "T7")
def test_a_forgotten_client_and_its_streams_go(place: Place) -> None:
    client = Client(place.target)
    changes = client.subscribe(tools=True)
    changes.__enter__()
    gone = weakref.ref(client._session)
    reader = place.ears.opened(1)
    reader.send("tools/list_changed")
    changes.next(timeout=10)
    del client, changes
    until(lambda: gc.collect() >= 0 and gone() is None)  # the reader may be about to let go
    if isinstance(place.ears, HttpEars):
        place.ears.wait_for(lambda: place.ears.cancelled == [reader.id])


@pytest.mark.req("L3", "T7")
def test_a_forgotten_client_goes_while_its_subscription_is_lost(http: Any) -> None:
    client = Client(http.url, retry=Retry(attempts=1, backoff=30, max_backoff=30))
    changes = client.subscribe(tools=True)
    changes.__enter__()
    gone = weakref.ref(client._session)
    http.ears.streams[0].drop()
    # The reader waits for its pause to be over.
    [under_way] = client._session.standing.listens.members  # type: ignore[union-attr]
    until(partial(is_lost, under_way))
    del client, changes
    until(lambda: gc.collect() >= 0 and gone() is None)


def is_lost(subscription: Any) -> bool:
    return subscription._under_way is None


@pytest.mark.req("L1", "T7")
def test_a_forgotten_client_of_a_loop_and_its_streams_go(place: Place) -> None:
    async def body() -> None:
        client = AsyncClient(place.target)
        changes = client.subscribe(tools=True)
        await changes.__aenter__()
        gone = weakref.ref(client._session)
        del client, changes
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None
        if isinstance(place.ears, HttpEars):
            await asyncio.to_thread(place.ears.wait_for, lambda: len(place.ears.cancelled) == 1)

    run_async(body())


@pytest.mark.req("L1")
def test_a_forgotten_subscription_ends(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url)
    changes = client.subscribe(tools=True)
    changes.__enter__()
    del changes
    gc.collect()
    http.ears.wait_for(lambda: http.ears.cancelled == [http.ears.streams[0].id])
    assert client.list_tools()


@pytest.mark.req("L1", "T4")
def test_a_cancelled_reader_and_a_cancelled_opening_have_the_server_told(http: Any) -> None:
    async def read(client: Any, entered: asyncio.Event) -> None:
        async with client.subscribe(tools=True) as changes:
            entered.set()
            async for _ in changes:
                pass

    async def body() -> None:
        async with AsyncClient(http.url) as client:
            entered = asyncio.Event()
            reading = asyncio.ensure_future(read(client, entered))
            await entered.wait()
            http.ears.granted = None
            opening = asyncio.ensure_future(read(client, entered))
            await asyncio.to_thread(http.ears.opened, 2)
            for each in (reading, opening):
                each.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await each
            await asyncio.to_thread(http.ears.wait_for, lambda: len(http.ears.cancelled) == 2)
            await client.call_tool("echo", {})

    run_async(body())


@pytest.mark.req("L1", "T4")
def test_an_interrupt_leaves_the_block_at_once(http: Any) -> None:
    with Client(http.url) as client:
        with pytest.raises(KeyboardInterrupt), client.subscribe(tools=True):
            raise KeyboardInterrupt
        http.ears.wait_for(lambda: len(http.ears.cancelled) == 1)


@pytest.mark.req("L3", "D4")
def test_a_child_that_exits_is_started_again_without_a_reader_or_a_call(
    flavour: Any, child: Any, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    dies = [*acknowledged(), on_stdio.wait(go), on_stdio.die(3)]
    lives = [*acknowledged(), tagged("notifications/tools/list_changed", {})]
    server = child({"subscriptions/listen": [dies, lives]})
    client = flavour.connect(server.stdio(), retry=QUICK)
    with client.subscribe(tools=True) as changes:
        go.touch()
        server.wait_until(lambda: server.count("subscriptions/listen") == 2)
        assert [changes.next(timeout=10), changes.next(timeout=10)] == [Missed(), ToolsChanged()]
    assert len(server.pids) == 2
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    first, second = [one["id"] for one in server.calls("subscriptions/listen")]
    assert server.calls("notifications/cancelled")[0]["params"]["requestId"] == second != first


@pytest.mark.req("L3")
def test_a_child_that_keeps_exiting_is_told_where_no_other_is_wanted(flavour: Any, child: Any) -> None:
    server = child({"subscriptions/listen": [[*acknowledged(), on_stdio.die(3)]]})
    client = flavour.connect(server.stdio())
    with client.subscribe(tools=True, reconnect=False) as changes, pytest.raises(ServerExited) as caught:
        changes.next(timeout=10)
    assert caught.value.exit_code == 3
    assert len(server.pids) == 1


def acknowledged() -> list[Any]:
    return [tagged("notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True}})]


def tagged(method: str, params: dict[str, Any]) -> Any:
    """A step of a child that sends a notification of the subscription that is being asked for."""
    message = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {TAG: "ID"}}}
    return on_stdio.raw(json.dumps(message).replace('"ID"', "$ID").encode() + b"\n")


@pytest.mark.req("L1", "V3")
def test_a_fork_ends_the_subscription_in_the_child_alone(http: Any) -> None:
    report = play(
        """
client = Client(target)
changes = client.subscribe(tools=True)
with changes:
    def body():
        assert list(changes) == []
        changes.close()
        client.list_tools()
        client.close()
    report["child"] = ended(fork(body))
    report["parent"] = len(client.list_tools())
client.close()
""",
        http.url,
    )
    assert report == {"child": 0, "parent": 1}
    assert http.count("subscriptions/listen") == 1


@pytest.mark.req("L2")
def test_in_the_handshake_era_a_loss_is_told_too_where_no_other_session_is_wanted(flavour: Any, serve: Any) -> None:
    sessions = Sessions()
    lost = sessions.guard(answer({"content": []}))
    server = subscribing(serve, Pushes(), **{"initialize": opening(sessions=sessions), "tools/call": lost})
    client = flavour.connect(server.url)
    with client.subscribe(uris=[URI], reconnect=False) as changes:
        sessions.end()
        with pytest.raises(SessionExpired):
            client.call_tool("echo", {})
        with pytest.raises(ConnectionClosed, match="session or the child was lost"):
            changes.next(timeout=10)
        assert list(changes) == []
