"""Subscriptions in the stateless era: what is asked of the server, which events come, and how they end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import (
    CapabilityError,
    ConnectionClosed,
    InvalidResult,
    MethodNotFound,
    RequestTimeout,
    RPCError,
)
from ferrule.types import Missed, PromptsChanged, ResourcesChanged, ResourceUpdated, TaskChanged, ToolsChanged
from tests.support.listening import QUICK, TAG, HttpEars, LineEars, Place, until
from tests.support.steps import Request, raw, status, turns

URI = "demo://a"


# --- what is asked of the server -----------------------------------------------------------------


@pytest.mark.req("L1")
def test_one_listen_request_asks_for_what_the_caller_wants(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True, prompts=True, resources=True, uris=[URI, "demo://b"]) as changes:
        [listen] = place.listens()
        assert listen["params"]["notifications"] == {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourcesListChanged": True,
            "resourceSubscriptions": [URI, "demo://b"],
        }
        assert listen["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        assert "extensions" not in listen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        honored = changes.honored
    assert (honored.tools, honored.prompts, honored.resources, honored.uris) == (True, True, True, (URI, "demo://b"))
    with client.subscribe(prompts=True):
        assert place.listens()[1]["params"]["notifications"] == {"promptsListChanged": True}


@pytest.mark.req("L1", "E4")
def test_over_http_the_request_carries_its_method_and_no_name(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url)
    with client.subscribe(tools=True):
        [request] = http.calls("subscriptions/listen")
        assert request.header("mcp-method") == "subscriptions/listen"
        assert request.header("mcp-name") is None
        assert request.header("mcp-protocol-version") == "2026-07-28"
        assert request.header("accept-encoding") == "identity"


@pytest.mark.req("L1", "K2")
def test_tasks_are_watched_with_their_extension_declared_for_that_request_alone(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(task_ids=["t-1", "t-2"]) as changes:
        [listen] = place.listens()
        assert listen["params"]["notifications"] == {"taskIds": ["t-1", "t-2"]}
        capabilities = listen["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert capabilities["extensions"] == {"io.modelcontextprotocol/tasks": {}}
        times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
        told = {"taskId": "t-2", "status": "completed", **times, "ttlMs": None, "pollIntervalMs": 40}
        place.ears.streams[0].send("tasks", **told, result={"content": []})
        event = changes.next(timeout=10)
    assert isinstance(event, TaskChanged)
    assert (event.task.task_id, event.task.is_final, event.task.poll_interval) == ("t-2", True, 40)
    assert (event.task.result, event.task.ttl) == ({"content": []}, None)


@pytest.mark.req("L1")
def test_the_honoured_subset_is_visible(flavour: Any, place: Place) -> None:
    place.ears.granted = lambda filter: {
        "toolsListChanged": True,
        "promptsListChanged": "yes",
        "resourceSubscriptions": [URI, "demo://never-asked", 7, {}],
        "somethingElse": 1,
    }
    client = flavour.connect(place.target)
    with client.subscribe(tools=True, prompts=True, resources=True, uris=["demo://b", URI]) as changes:
        honored = changes.honored
    assert (honored.tools, honored.prompts, honored.resources, honored.uris) == (True, False, False, (URI,))
    assert honored.task_ids == ()


@pytest.mark.req("L1", "N12")
def test_a_server_that_agrees_to_nothing_is_a_capability_error_and_told_so(flavour: Any, place: Place) -> None:
    place.ears.granted = lambda filter: {}
    client = flavour.connect(place.target)
    with pytest.raises(CapabilityError, match="agreed to announce none") as caught, client.subscribe(tools=True):
        pass
    assert caught.value.request_sent is True
    place.ears.wait_for(lambda: place.ears.cancelled == [place.listens()[0]["id"]])


@pytest.mark.req("L1")
def test_a_server_without_subscriptions_says_so(flavour: Any, serve: Any) -> None:
    client = flavour.connect(serve().url)
    with pytest.raises(MethodNotFound), client.subscribe(tools=True):
        pass


@pytest.mark.req("L1", "X1")
def test_an_acknowledgment_of_the_wrong_shape_is_an_invalid_result(flavour: Any, place: Place) -> None:
    place.ears.granted = lambda filter: ["toolsListChanged"]
    client = flavour.connect(place.target)
    with pytest.raises(InvalidResult, match="notifications: expected object"), client.subscribe(tools=True):
        pass


@pytest.mark.req("L1", "T1")
def test_a_server_that_does_not_acknowledge_in_time_is_a_timeout_and_told(flavour: Any, place: Place) -> None:
    place.ears.granted = None
    client = flavour.connect(place.target)
    with pytest.raises(RequestTimeout) as caught, client.subscribe(tools=True, timeout=0.15):
        pass
    assert caught.value.request_sent is True
    place.ears.wait_for(lambda: len(place.ears.cancelled) == 1)
    place.ears.granted = lambda filter: filter
    with client.subscribe(tools=True) as changes:
        assert changes.honored.tools


@pytest.mark.req("L1", "T1")
def test_once_acknowledged_there_is_no_deadline(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target, timeout=0.3)
    with client.subscribe(tools=True) as changes:
        with pytest.raises(RequestTimeout):
            changes.next(timeout=0.5)
        place.ears.streams[0].send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert len(place.listens()) == 1


@pytest.mark.req("L1", "R1")
def test_opening_is_repeated_as_any_idempotent_request(flavour: Any, serve: Any) -> None:
    ears = HttpEars()
    server = serve({"subscriptions/listen": turns(status(503), ears)})
    client = flavour.connect(server.url, retry=Retry(backoff=0.01))
    with client.subscribe(tools=True) as changes:
        assert changes.honored.tools
    first, second = server.calls("subscriptions/listen")
    assert first.message["id"] != second.message["id"]


@pytest.mark.req("L1", "W19")
def test_a_redirect_within_the_origin_is_followed(flavour: Any, serve: Any) -> None:
    ears = HttpEars()
    server = serve({"subscriptions/listen": turns(status(307, headers=[("Location", "/mcp/")]), ears)})
    client = flavour.connect(server.url)
    with client.subscribe(tools=True) as changes:
        ears.opened(1).send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert [one.target for one in server.calls("subscriptions/listen")] == ["/mcp", "/mcp/"]


@pytest.mark.req("L1")
def test_a_plain_json_error_is_the_error(flavour: Any, serve: Any) -> None:
    problem = {"jsonrpc": "2.0", "error": {"code": -32000, "message": "full"}}

    def body(request: Request) -> bytes:
        data = json.dumps({**problem, "id": request.message["id"]}).encode()
        head = b"HTTP/1.1 429 Busy\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)
        return head + data

    client = flavour.connect(serve({"subscriptions/listen": raw(body)}).url)
    with pytest.raises(RPCError) as caught, client.subscribe(tools=True):
        pass
    assert (caught.value.code, caught.value.http_status) == (-32000, 429)


# --- events --------------------------------------------------------------------------------------


@pytest.mark.req("L1")
def test_changes_arrive_as_the_same_typed_events_as_in_the_other_era(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True, prompts=True, resources=True, uris=[URI]) as changes:
        stream = place.ears.streams[0]
        stream.send("tools/list_changed")
        stream.send("prompts/list_changed", _meta={"a": 1})
        stream.send("resources/list_changed")
        stream.send("resources/updated", uri=f"{URI}/part", title="A")
        events = [changes.next(timeout=10) for _ in range(4)]
    assert events[:3] == [ToolsChanged(), PromptsChanged(meta={"a": 1}), ResourcesChanged()]
    assert events[3] == ResourceUpdated(uri=f"{URI}/part", extra={"title": "A"})


@pytest.mark.req("L1")
def test_each_subscription_gets_what_is_tagged_with_its_id(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True, uris=[URI]) as first, client.subscribe(tools=True, prompts=True) as second:
        one, two = place.ears.streams
        assert one.id != two.id
        two.send("tools/list_changed")
        two.send("resources/updated", uri=URI)  # it did not ask for that
        two.send("prompts/list_changed")
        one.send("resources/updated", uri=URI)
        assert first.next(timeout=10) == ResourceUpdated(uri=URI)
        assert [second.next(timeout=10), second.next(timeout=10)] == [ToolsChanged(), PromptsChanged()]
        one.raw(
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": {TAG: str(one.id)}}}
        )
        assert first.next(timeout=10) == ToolsChanged()
        for each in (first, second):
            with pytest.raises(RequestTimeout):
                each.next(timeout=0.05)


@pytest.mark.req("L1")
def test_over_http_the_stream_tells_whose_an_untagged_event_is(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url)
    with client.subscribe(tools=True) as first, client.subscribe(tools=True) as second:
        http.ears.streams[1].raw({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        assert second.next(timeout=10) == ToolsChanged()
        with pytest.raises(RequestTimeout):
            first.next(timeout=0.05)


@pytest.mark.req("L1", "W4")
def test_an_event_that_is_no_message_is_dropped_and_the_stream_goes_on(flavour: Any, http: Any, caplog: Any) -> None:
    client = flavour.connect(http.url)
    with client.subscribe(tools=True) as changes:
        stream = http.ears.streams[0]
        for data in (b"data: {s3cr3t\n\n", b"data: \xff\n\n", b"data: [1]\n\n"):
            stream.bytes(b"%x\r\n%b\r\n" % (len(data), data))
        stream.send("resources/updated")
        stream.send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert caplog.text.count("no JSON-RPC message was dropped") == 3
    assert "s3cr3t" not in caplog.text


@pytest.mark.req("L1", "X1")
def test_a_notification_of_the_wrong_shape_is_dropped(flavour: Any, place: Place, caplog: Any) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True, uris=[URI]) as changes:
        stream = place.ears.streams[0]
        stream.send("resources/updated", uri=["s3cr3t"])
        stream.send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert "not in the schema's shape" in caplog.text
    assert "s3cr3t" not in caplog.text


@pytest.mark.req("L1", "I4")
def test_events_beyond_the_queue_are_counted_and_told_at_their_place(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target, limits=Limits(max_queue=4))
    with client.subscribe(tools=True, uris=[URI]) as changes:
        stream = place.ears.streams[0]
        for n in range(10):
            stream.send("resources/updated", uri=f"{URI}/{n}")
        until(lambda: changes.lost == 6)
        events = [changes.next(timeout=10) for _ in range(5)]
        stream.send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
    assert events == [*(ResourceUpdated(uri=f"{URI}/{n}") for n in range(4)), Missed(count=6)]


@pytest.mark.req("L1", "W25")
def test_streams_take_no_places_from_calls(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url, limits=Limits(max_connections=1))
    with client.subscribe(tools=True), client.subscribe(tools=True):
        assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'


@pytest.mark.req("L1")
def test_calls_go_on_beside_a_subscription_on_one_channel(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True) as changes:
        assert [tool.name for tool in client.list_tools()] == ["echo"]
        place.ears.streams[0].send("tools/list_changed")
        assert changes.next(timeout=10) == ToolsChanged()
        assert [tool.name for tool in client.list_tools()] == ["echo"]


@pytest.mark.req("L4")
def test_what_a_notification_makes_stale_is_dropped_before_any_handler_sees_it(flavour: Any, place: Place) -> None:
    order: list[str] = []
    came = threading.Event()

    def note(notification: Any, context: Any) -> None:
        order.append("handler")
        came.set()

    client = flavour.connect(place.target, on_notification=note, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        assert came.wait(10)  # the acknowledgment
        came.clear()
        order.clear()
        standing = bare(client)._session.standing
        standing.kept = Dropping(order.append)
        place.ears.streams[0].send("tools/list_changed")
        assert came.wait(10)
        assert changes.next(timeout=10) == ToolsChanged()
        place.ears.streams[0].drop()
        assert changes.next(timeout=10) == Missed()
    assert order[:3] == ["dropped", "handler", "dropped all"]


def bare(client: Any) -> Any:
    """The client itself, without the portal that calls an async one."""
    return getattr(client, "_target", client)


class Dropping:
    """Stands for the lists that a session keeps; says when it is told to drop some."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told

    def heard(self, method: str) -> None:
        if method.endswith("list_changed"):
            self._told("dropped")

    def clear(self) -> None:
        self._told("dropped all")


# --- the end -------------------------------------------------------------------------------------


@pytest.mark.req("L1", "L3")
@pytest.mark.parametrize("way", ["response", "cancelled"])
def test_a_graceful_end_ends_the_iteration_after_what_waits(flavour: Any, place: Place, way: str) -> None:
    client = flavour.connect(place.target, retry=QUICK)
    with client.subscribe(tools=True) as changes:
        stream = place.ears.streams[0]
        stream.send("tools/list_changed")
        if way == "response":
            stream.finish()
        else:
            stream.send("cancelled", requestId=stream.id)
        assert list(changes) == [ToolsChanged()]
        with pytest.raises(ConnectionClosed, match="over"):
            changes.next(timeout=1)
    assert len(place.listens()) == 1
    assert "notifications/cancelled" not in place.methods()
    assert client.list_tools()


@pytest.mark.req("L1", "T2")
def test_closing_tells_the_server_as_the_transport_wants_it(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True), client.subscribe(tools=True) as second:
        first, other = place.ears.streams
        second.close()
        second.close()
        place.ears.wait_for(lambda: place.ears.cancelled == [other.id])
    place.ears.wait_for(lambda: place.ears.cancelled == [other.id, first.id])
    told = ["notifications/cancelled"] * 2 if isinstance(place.ears, LineEars) else []
    assert [one for one in place.methods() if one.startswith("notifications")] == told
    assert client.list_tools()


@pytest.mark.req("L1", "T7")
def test_closing_the_client_ends_the_iteration(flavour: Any, place: Place) -> None:
    client = flavour.connect(place.target)
    with client.subscribe(tools=True) as changes:
        reading = flavour.start(lambda: list(changes))
        client.close()
        assert reading.result(timeout=10) == []
    assert len(place.listens()) == 1


@pytest.mark.req("L1")
def test_closing_a_view_ends_its_subscriptions_alone(flavour: Any, http: Any) -> None:
    client = flavour.connect(http.url)
    view = client.with_options(headers={"X-User": "a"})
    with view.subscribe(tools=True) as theirs, client.subscribe(tools=True) as ours:
        assert http.calls("subscriptions/listen")[0].header("x-user") == "a"
        view.close()
        assert list(theirs) == []
        http.ears.wait_for(lambda: http.ears.cancelled == [http.ears.streams[0].id])
        http.ears.streams[1].send("tools/list_changed")
        assert ours.next(timeout=10) == ToolsChanged()
