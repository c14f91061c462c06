"""Subscriptions in the handshake era: what is asked of the server, which events come, and how they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule import Limits
from ferrule.errors import CapabilityError, ConfigError, ConnectionClosed, InvalidParams, RequestTimeout
from ferrule.types import (
    Missed,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    TaskChanged,
    ToolsChanged,
)
from tests.support import child as on_stdio
from tests.support.pushes import URI, Pushes, note, opened, opening, subscribing, uris
from tests.support.steps import answer, error, result, stream, turns

TASK = {"taskId": "t-1", "status": "completed", "createdAt": "2026-01-01T00:00:00Z", "ttl": None}


# --- events --------------------------------------------------------------------------------------


@pytest.mark.req("L2")
def test_changes_arrive_as_typed_events_in_order(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    wishes: dict[str, Any] = {"tools": True, "prompts": True, "resources": True}
    with client.subscribe(**wishes, uris=[URI], task_ids=["t-1"]) as changes:
        pushes.send("tools/list_changed")
        pushes.send("prompts/list_changed", _meta={"a": 1})
        pushes.send("resources/list_changed")
        pushes.send("resources/updated", uri=URI, title="A")
        pushes.send("tasks/status", **TASK)
        events = [changes.next(timeout=10) for _ in range(5)]
    assert events[:3] == [ToolsChanged(), PromptsChanged(meta={"a": 1}), ResourcesChanged()]
    updated, task = events[3:]
    assert isinstance(updated, ResourceUpdated)
    assert (updated.uri, updated.extra) == (URI, {"title": "A"})
    assert isinstance(task, TaskChanged)
    assert (task.task.task_id, task.task.status, task.task.is_final) == ("t-1", "completed", True)


@pytest.mark.req("L2")
def test_iteration_yields_events_until_the_subscription_is_closed(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    seen = []
    with client.subscribe(tools=True) as changes:
        pushes.send("tools/list_changed")
        for event in changes:
            seen.append(event)
            if len(seen) == 2:
                changes.close()
            else:
                pushes.send("tools/list_changed")
        with pytest.raises(ConnectionClosed):
            changes.next(timeout=1)
    assert seen == [ToolsChanged(), ToolsChanged()]


@pytest.mark.req("L2")
def test_only_what_was_asked_for_arrives(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    with client.subscribe(tools=True) as tools, client.subscribe(prompts=True, uris=[URI]) as others:
        pushes.send("resources/list_changed")
        pushes.send("resources/updated", uri="demo://b")
        pushes.send("resources/updated", uri="demo://ab")
        pushes.send("tasks/status", **TASK)
        pushes.send("prompts/list_changed")
        pushes.send("resources/updated", uri=f"{URI}/part")
        pushes.send("tools/list_changed")
        assert tools.next(timeout=10) == ToolsChanged()
        assert others.next(timeout=10) == PromptsChanged()
        assert others.next(timeout=10) == ResourceUpdated(uri=f"{URI}/part")
        for each in (tools, others):
            with pytest.raises(RequestTimeout) as caught:
                each.next(timeout=0.05)
            assert caught.value.request_sent is False


@pytest.mark.req("L2")
def test_changes_that_come_on_a_calls_own_stream_count(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    server = subscribing(serve, pushes, **{"tools/call": stream(note("tools/list_changed"), result())})
    client = flavour.connect(server.url)
    with client.subscribe(tools=True) as changes:
        client.call_tool("echo", {})
        assert changes.next(timeout=10) == ToolsChanged()


@pytest.mark.req("L2")
def test_changes_arrive_over_stdio_while_nobody_calls(flavour: Any, child: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    pushed = [on_stdio.send(note("resources/updated", uri=URI)), on_stdio.send(note("tools/list_changed"))]
    server = child(
        {
            "initialize": [opened()],
            "resources/subscribe": [[on_stdio.answer({}), on_stdio.wait(go), *pushed]],
            "resources/unsubscribe": [[on_stdio.answer({})]],
        },
        era="handshake",
    )
    client = flavour.connect(server.stdio())
    with client.subscribe(tools=True, uris=[URI]) as changes:
        waiting = flavour.start(changes.next, timeout=10)
        go.touch()
        assert waiting.result() == ResourceUpdated(uri=URI)
        assert changes.next(timeout=10) == ToolsChanged()
    server.wait_until(lambda: server.count("resources/unsubscribe") == 1)


@pytest.mark.req("L2", "X1")
def test_a_notification_of_the_wrong_shape_is_dropped(flavour: Any, serve: Any, caplog: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    with client.subscribe(tools=True, uris=[URI], task_ids=["t-1"]) as changes:
        pushes.send("resources/updated", uri=["s3cr3t"])
        pushes.send("resources/updated")
        pushes.send("tasks/status", taskId="t-1", status=7)
        pushes.send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert "s3cr3t" not in caplog.text


# --- what is asked of the server -----------------------------------------------------------------


@pytest.mark.req("L2")
def test_a_resource_is_watched_once_however_many_subscriptions_want_it(flavour: Any, serve: Any) -> None:
    server = subscribing(serve, Pushes())
    client = flavour.connect(server.url)
    with client.subscribe(uris=[URI, URI, "demo://b"]):
        with client.subscribe(uris=[URI]) as second:
            assert second.honored.uris == (URI,)
        assert uris(server, "resources/subscribe") == [URI, "demo://b"]
        assert server.count("resources/unsubscribe") == 0
    assert uris(server, "resources/unsubscribe") == [URI, "demo://b"]
    with client.subscribe(uris=[URI]):
        assert uris(server, "resources/subscribe") == [URI, "demo://b", URI]


@pytest.mark.req("L2")
def test_subscriptions_begun_at_once_share_one_request(flavour: Any, serve: Any) -> None:
    server = subscribing(serve, Pushes())
    client = flavour.connect(server.url)
    subscriptions = [client.subscribe(uris=[URI]) for _ in range(8)]
    assert not [e for e in flavour.together(*[s.__enter__ for s in subscriptions]) if isinstance(e, Exception)]
    assert uris(server, "resources/subscribe") == [URI]
    flavour.together(*[s.close for s in subscriptions])
    assert uris(server, "resources/unsubscribe") == [URI]


@pytest.mark.req("L2", "S4")
def test_a_subscription_opens_the_stream_and_nothing_else_does(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    client.list_tools()
    assert pushes.opened == 0
    with client.subscribe(tools=True):
        assert pushes.opened == 1
        with client.subscribe(tools=True):
            assert pushes.opened == 1


@pytest.mark.req("L2", "N12")
def test_what_the_server_did_not_declare_is_not_honored(flavour: Any, serve: Any) -> None:
    some = {"tools": {"listChanged": True}, "prompts": {"listChanged": False}, "resources": {"listChanged": True}}
    server = serve({"initialize": opening(some)}, era="handshake")
    client = flavour.connect(server.url)
    wishes: dict[str, Any] = {"tools": True, "prompts": True, "resources": True}
    with client.subscribe(**wishes, uris=[URI], task_ids=["t"]) as changes:
        honored = changes.honored
    assert (honored.tools, honored.prompts, honored.resources) == (True, False, True)
    assert (honored.uris, honored.task_ids) == ((), ())
    assert server.count("resources/subscribe") == 0


@pytest.mark.req("L2", "N12")
@pytest.mark.parametrize("capabilities", [{}, {"resources": {}, "tools": None}, {"resources": 7, "tools": [1]}])
def test_when_nothing_is_honored_it_is_a_capability_error(flavour: Any, serve: Any, capabilities: Any) -> None:
    server = serve({"initialize": opening(capabilities)}, era="handshake")
    client = flavour.connect(server.url)
    sent = len(server.requests)
    with pytest.raises(CapabilityError, match="did not declare") as caught, client.subscribe(tools=True, uris=[URI]):
        pass
    assert caught.value.request_sent is False
    assert len(server.requests) == sent


@pytest.mark.req("L2")
def test_a_refused_resource_fails_the_subscription_and_leaves_nothing(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    server = subscribing(serve, pushes, **{"resources/subscribe": turns(answer({}), error(-32602), answer({}))})
    client = flavour.connect(server.url)
    with pytest.raises(InvalidParams), client.subscribe(tools=True, uris=[URI, "demo://none"]):
        pass
    server.wait_until(lambda: uris(server, "resources/unsubscribe") == [URI])
    with client.subscribe(uris=[URI]) as changes:
        pushes.send("tools/list_changed")
        pushes.send("resources/updated", uri=URI)
        assert changes.next(timeout=10) == ResourceUpdated(uri=URI)


def test_asking_for_nothing_or_in_a_wrong_way_is_a_config_error(flavour: Any, serve: Any) -> None:
    client = flavour.client(serve().url)
    with pytest.raises(ConfigError, match="nothing was asked for"):
        client.subscribe()
    with pytest.raises(ConfigError, match="uris takes several"):
        client.subscribe(uris=URI)
    with pytest.raises(TypeError, match="task_ids"):
        client.subscribe(task_ids=[7])


def test_a_subscription_is_entered_before_it_is_read_and_used_once(flavour: Any, serve: Any) -> None:
    client = flavour.connect(subscribing(serve, Pushes()).url)
    changes = client.subscribe(tools=True)
    with pytest.raises(ConfigError, match="enter it first"):
        changes.next(timeout=1)
    with changes:
        pass
    with pytest.raises(ConfigError, match="used once"):
        changes.__enter__()


# --- what is queued ------------------------------------------------------------------------------


@pytest.mark.req("L2")
def test_a_list_that_changed_twice_before_anybody_looked_changed_once(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    with client.subscribe(tools=True, prompts=True, uris=[URI]) as changes:
        for _ in range(3):
            pushes.send("tools/list_changed")
            pushes.send("prompts/list_changed")
        pushes.send("resources/updated", uri=URI)
        pushes.send("resources/updated", uri=f"{URI}#end")
        events = [changes.next(timeout=10)]
        while events[-1] != ResourceUpdated(uri=f"{URI}#end"):
            events.append(changes.next(timeout=10))
    # How many fall together depends on how fast they are read; never more than were sent.
    assert 1 <= events.count(ToolsChanged()) <= 3
    assert events.count(ResourceUpdated(uri=URI)) == 1


@pytest.mark.req("L2", "I4")
def test_events_beyond_the_queue_are_counted_and_told_at_their_place(flavour: Any, serve: Any, caplog: Any) -> None:
    pushes = Pushes()
    burst = [note("resources/updated", uri=f"{URI}/{n}") for n in range(10)]
    server = subscribing(serve, pushes, **{"tools/call": stream(*burst, result())})
    client = flavour.connect(server.url, limits=Limits(max_queue=4))
    with client.subscribe(uris=[URI]) as changes:
        client.call_tool("echo", {})
        assert changes.lost == 6
        first = [changes.next(timeout=10) for _ in range(5)]
        client.call_tool("echo", {})
        later = changes.next(timeout=10)
    assert first == [*(ResourceUpdated(uri=f"{URI}/{n}") for n in range(4)), Missed(count=6)]
    assert later == ResourceUpdated(uri=f"{URI}/0")
    assert caplog.text.count("4 events behind") == 2


@pytest.mark.req("L2")
def test_a_second_reader_is_refused(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    client = flavour.connect(subscribing(serve, pushes).url)
    with client.subscribe(tools=True) as changes:
        waiting = flavour.start(changes.next, timeout=10)
        with pytest.raises(ConfigError, match="waits for its next event already"):
            for _ in range(1000):
                with pytest.raises(RequestTimeout):
                    changes.next(timeout=0.001)
        pushes.send("tools/list_changed")
        assert waiting.result() == ToolsChanged()
