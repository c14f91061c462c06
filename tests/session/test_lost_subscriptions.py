"""Subscriptions that end, and those whose session or child is lost."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import ConfigError, RequestTimeout
from ferrule.types import (
    Missed,
    ResourceUpdated,
    ToolsChanged,
)
from tests.session.test_fork import play
from tests.support import child as on_stdio
from tests.support.clients import run_async
from tests.support.pushes import CHANGING, URI, Pushes, Sessions, note, opened, opening, subscribing, uris
from tests.support.steps import answer, error, hang, status, turns, wait


@pytest.mark.req("L2", "T7")
@pytest.mark.parametrize("wire", ["http", "stdio"])
def test_closing_the_client_ends_the_iteration(flavour: Any, serve: Any, child: Any, wire: str) -> None:
    if wire == "http":
        target: Any = subscribing(serve, Pushes()).url
    else:
        target = child({"initialize": [opened()]}, era="handshake").stdio()
    client = flavour.connect(target)
    with client.subscribe(tools=True) as changes:
        reading = flavour.start(lambda: list(changes))
        with pytest.raises(ConfigError):  # the reader waits by now
            while True:
                with pytest.raises(RequestTimeout):
                    changes.next(timeout=0.001)
        client.close()
        assert reading.result(timeout=10) == []


@pytest.mark.req("L2")
def test_closing_a_view_ends_its_subscriptions_alone(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    view = client.with_options(headers={"X-User": "a"})
    with view.subscribe(tools=True) as theirs, client.subscribe(tools=True) as ours:
        view.close()
        assert list(theirs) == []
        pushes.send("tools/list_changed")
        assert ours.next(timeout=10) == ToolsChanged()


@pytest.mark.req("L2", "S8")
def test_a_new_session_watches_what_the_old_one_did_and_says_that_changes_may_be_missed(
    flavour: Any, serve: Any
) -> None:
    pushes, sessions = Pushes(), Sessions()
    server = subscribing(
        serve,
        pushes,
        **{"initialize": opening(sessions=sessions), "tools/list": sessions.guard(answer({"tools": []}))},
    )
    client = flavour.connect(server.url)
    with client.subscribe(tools=True, uris=[URI, "demo://b"]) as changes:
        with client.subscribe(uris=["demo://gone"]):
            pass
        sessions.end()
        assert client.list_tools() == []
        assert changes.next(timeout=10) == Missed()
        renewed = [call for call in server.calls("resources/subscribe") if call.header("mcp-session-id") == "session-2"]
        assert [call.params["uri"] for call in renewed] == [URI, "demo://b"]
        pushes.send("resources/updated", uri=URI)
        assert changes.next(timeout=10) == ResourceUpdated(uri=URI)
    ended = [call for call in server.calls("resources/unsubscribe") if call.header("mcp-session-id") == "session-2"]
    assert [call.params["uri"] for call in ended] == [URI, "demo://b"]


@pytest.mark.req("L2", "S8")
def test_a_reader_opens_a_session_that_was_lost(flavour: Any, serve: Any) -> None:
    pushes, sessions = Pushes(), Sessions()
    lost = sessions.guard(answer({"content": []}))
    server = subscribing(serve, pushes, **{"initialize": opening(sessions=sessions), "tools/call": lost})
    client = flavour.connect(server.url)
    with client.subscribe(uris=[URI]) as changes:
        waiting = flavour.start(changes.next, timeout=10)
        sessions.end()
        with pytest.raises(Exception, match="does not know the session"):
            client.call_tool("echo", {})
        # Nobody calls any more: the reader alone has the new session opened.
        assert waiting.result() == Missed()
        assert uris(server, "resources/subscribe") == [URI, URI]


@pytest.mark.req("L2", "S8", "D4")
def test_a_child_that_exits_is_started_again_for_the_reader(flavour: Any, child: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    dies = [on_stdio.answer({}), on_stdio.wait(go), on_stdio.die(3)]
    lives = [on_stdio.answer({}), on_stdio.send(note("resources/updated", uri=URI))]
    server = child(
        {
            "initialize": [opened()],
            "resources/subscribe": [dies, lives],
            "resources/unsubscribe": [[on_stdio.answer({})]],
        },
        era="handshake",
    )
    client = flavour.connect(server.stdio(), retry=Retry(backoff=0.01))
    with client.subscribe(uris=[URI]) as changes:
        go.touch()
        events = {changes.next(timeout=10), changes.next(timeout=10)}
        assert events == {Missed(), ResourceUpdated(uri=URI)}
    assert len(server.pids) == 2


@pytest.mark.req("L2")
def test_a_server_that_cannot_be_reached_is_tried_again(flavour: Any, serve: Any, caplog: Any) -> None:
    sessions = Sessions()
    ill = turns(opening(sessions=sessions), status(503), opening(sessions=sessions))
    lost = sessions.guard(answer({"content": []}))
    server = subscribing(serve, Pushes(), **{"initialize": ill, "tools/call": lost})
    client = flavour.connect(server.url, retry=Retry(attempts=1, backoff=0.01))
    with client.subscribe(tools=True) as changes:
        sessions.end()
        with pytest.raises(Exception, match="does not know the session"):
            client.call_tool("echo", {})
        assert changes.next(timeout=10) == Missed()
    assert "cannot be reached" in caplog.text


@pytest.mark.req("L2", "S8")
def test_a_resource_that_the_new_session_refuses_is_named_in_the_log_by_method_alone(
    flavour: Any, serve: Any, caplog: Any
) -> None:
    pushes, sessions = Pushes(), Sessions()
    rules: dict[str, Any] = {
        "initialize": opening(sessions=sessions),
        "tools/list": sessions.guard(answer({"tools": []})),
        "resources/subscribe": turns(answer({}), error(-32602, "s3cr3t")),
    }
    client = flavour.connect(subscribing(serve, pushes, **rules).url)
    with client.subscribe(uris=["demo://s3cr3t"]) as changes:
        sessions.end()
        client.list_tools()
        assert changes.next(timeout=10) == Missed()
    assert "resources/subscribe at" in caplog.text
    assert "s3cr3t" not in caplog.text


@pytest.mark.req("G1")
def test_what_is_watched_stays_out_of_reprs(flavour: Any, serve: Any) -> None:
    client = flavour.connect(subscribing(serve, Pushes()).url)
    with client.subscribe(uris=["demo://s3cr3t"]) as changes:
        shown = repr(changes) + repr(changes.honored)
    assert "uris=tuple[1]" in shown
    assert "s3cr3t" not in shown


@pytest.mark.req("L2")
def test_the_blocking_client_waits_in_the_calling_thread(serve: Any, child: Any) -> None:
    from ferrule import Client

    server = child({"initialize": [opened(CHANGING)]}, era="handshake")
    with Client(server.stdio()) as client, client.subscribe(tools=True) as changes:
        before = threading.active_count()
        with pytest.raises(RequestTimeout):
            changes.next(timeout=0.05)
        assert threading.active_count() == before


@pytest.mark.req("L2", "T4")
def test_a_cancelled_reader_has_the_server_told_in_the_background(serve: Any) -> None:
    import asyncio

    from ferrule import AsyncClient

    server = subscribing(serve, Pushes())

    async def read(client: Any, entered: asyncio.Event) -> None:
        async with client.subscribe(uris=[URI]) as changes:
            entered.set()
            async for _ in changes:
                pass

    async def body() -> None:
        async with AsyncClient(server.url) as client:
            entered = asyncio.Event()
            reading = asyncio.ensure_future(read(client, entered))
            await entered.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            while not server.count("resources/unsubscribe"):
                await asyncio.sleep(0.005)
            await client.call_tool("echo", {})

    run_async(body())
    assert uris(server, "resources/unsubscribe") == [URI]


@pytest.mark.req("L2", "T4")
def test_an_interrupt_leaves_the_block_at_once(serve: Any) -> None:
    from ferrule import Client

    go = threading.Event()
    server = subscribing(serve, Pushes(), **{"resources/unsubscribe": [wait(go), answer({})]})
    with Client(server.url) as client:
        with pytest.raises(KeyboardInterrupt), client.subscribe(uris=[URI]):
            raise KeyboardInterrupt
        server.wait_until(lambda: server.count("resources/unsubscribe") == 1)
        go.set()


@pytest.mark.req("L2", "T1")
def test_a_server_that_does_not_agree_in_time_is_a_timeout(flavour: Any, serve: Any) -> None:
    server = subscribing(serve, Pushes(), **{"resources/subscribe": hang()})
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout) as caught, client.subscribe(uris=[URI], timeout=0.1):
        pass
    assert caught.value.request_sent is True
    server.rules["resources/subscribe"] = answer({})
    with client.subscribe(uris=[URI]) as changes:
        assert changes.honored.uris == (URI,)


@pytest.mark.req("L2", "V3")
def test_a_fork_ends_the_subscription_in_the_child_alone(serve: Any) -> None:
    server = subscribing(serve, Pushes(), initialize=opening(sessions=Sessions()))
    report = play(
        """
client = Client(target, keep_lists=True)
client.list_tools()
changes = client.subscribe(uris=["demo://a"])
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
        server.url,
    )
    assert report == {"child": 0, "parent": 1}
    assert uris(server, "resources/subscribe") == uris(server, "resources/unsubscribe") == [URI]
    assert [call.header("mcp-session-id") for call in server.calls("tools/list")] == ["session-1", "session-2"]
    assert {call.header("mcp-session-id") for call in server.calls("resources/unsubscribe")} == {"session-1"}
