"""Notifications: whose they are, in which order they come, and what a slow handler holds up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ferrule import Limits
from ferrule.types import LogMessage, Notification
from tests.support.asking import PING, note, wait_for
from tests.support.steps import LAST_CHUNK, answer, more, raw, result, stream, text, turns
from tests.support.texts import logged


def log(data: Any, level: str = "info", **more: Any) -> Any:
    return note("notifications/message", {"level": level, "data": data, **more})


CHANGED = note("notifications/tools/list_changed")


@pytest.mark.req("I4", "I11")
def test_log_messages_and_other_notifications_reach_their_handlers_in_order(flavour: Any, asking: Any) -> None:
    seen: list[Any] = []
    updated = note("notifications/resources/updated", {"uri": "a://b"})
    sent = [log(1), CHANGED, log({"a": [2]}, "error", logger="db"), updated, log(None, "odd")]
    server = asking(*sent, replies=0)
    client = flavour.connect(
        server.target,
        on_log=lambda *args: seen.append(args),
        on_notification=lambda *args: seen.append(args),
    )
    client.call_tool("echo", {})
    wait_for(lambda: len(seen) == 5)
    assert [value for value, _ in seen] == [
        LogMessage("info", 1),
        Notification("notifications/tools/list_changed"),
        LogMessage("error", {"a": [2]}, "db"),
        Notification("notifications/resources/updated", {"uri": "a://b"}),
        LogMessage("odd", None),
    ]
    methods = {context.method for _, context in seen}
    assert methods == {sent[0]["method"], CHANGED["method"], updated["method"]}
    assert {context.server for _, context in seen} == {client._session.label}


@pytest.mark.req("I4")
def test_a_thousand_notifications_come_in_order(flavour: Any, asking: Any) -> None:
    seen: list[int] = []

    def plain(message: Any, context: Any) -> None:
        seen.append(message.data)

    async def coroutine(message: Any, context: Any) -> None:
        await asyncio.sleep(0)
        seen.append(message.data)

    server = asking(*[log(n) for n in range(1000)], PING)
    client = flavour.connect(server.target, on_log=coroutine if flavour.is_async else plain)
    client.call_tool("echo", {})
    wait_for(lambda: len(seen) == 1000)
    assert seen == list(range(1000))


@pytest.mark.req("I4")
def test_what_came_before_close_is_delivered(flavour: Any, asking: Any) -> None:
    seen: list[int] = []
    server = asking(*[log(n) for n in range(100)], replies=0)
    client = flavour.connect(server.target, on_log=lambda message, _: seen.append(message.data))
    client.call_tool("echo", {})
    client.close()
    assert seen == list(range(100))


@pytest.mark.req("I4", "T7")
def test_close_does_not_wait_for_a_handler_for_ever_and_says_what_was_lost(flavour: Any, asking: Any) -> None:
    go, begun = threading.Event(), threading.Event()
    seen: list[int] = []

    def plain(message: Any, _: Any) -> None:
        seen.append(message.data)
        begun.set()
        go.wait(30)

    async def coroutine(message: Any, _: Any) -> None:
        seen.append(message.data)
        begun.set()
        await asyncio.sleep(60)

    server = asking(log(1), log(2), log(3), replies=0)
    client = flavour.connect(
        server.target, on_log=coroutine if flavour.is_async else plain, limits=Limits(close_timeout=0.2)
    )
    with logged() as lines:
        client.call_tool("echo", {})
        assert begun.wait(20)
        client.close()
        go.set()
        if not flavour.is_async:
            wait_for(lambda: [line for line in lines if "2 notifications were lost" in line])
    assert seen == [1]


@pytest.mark.req("I4")
def test_a_slow_handler_delays_neither_answers_nor_other_streams(flavour: Any, serve: Any) -> None:
    go, slow = threading.Event(), threading.Event()
    seen: list[str] = []

    def hold(message: Any) -> bool:
        seen.append(message.data)
        if message.data == "slow":
            slow.set()
        return bool(message.data == "slow")

    def plain(message: Any, _: Any) -> None:
        if hold(message):
            assert go.wait(30)
            seen.append("end of slow")

    async def coroutine(message: Any, _: Any) -> None:
        if hold(message):
            while not go.is_set():
                await asyncio.sleep(0.005)
            seen.append("end of slow")

    first = stream(log("slow"), log("after slow"), PING, result(text("first")))
    server = serve({"tools/call": turns(first, stream(log("fast"), result(text("second"))))}, era="handshake")
    client = flavour.connect(server.url, on_log=coroutine if flavour.is_async else plain)
    assert client.call_tool("echo", {}).text == "first"
    assert slow.wait(20)
    assert client.call_tool("echo", {}).text == "second"
    wait_for(lambda: "fast" in seen)
    server.wait_until(lambda: server.count("reply") == 1)
    assert seen == ["slow", "fast"]
    go.set()
    wait_for(lambda: len(seen) == 4)
    assert seen == ["slow", "fast", "end of slow", "after slow"]


@pytest.mark.req("I4")
def test_notifications_that_find_no_room_are_counted_and_reported(flavour: Any, asking: Any) -> None:
    go, begun = threading.Event(), threading.Event()
    seen: list[int] = []

    def plain(message: Any, _: Any) -> None:
        begun.set()
        assert go.wait(30)
        seen.append(message.data)

    async def coroutine(message: Any, _: Any) -> None:
        begun.set()
        while not go.is_set():
            await asyncio.sleep(0.005)
        seen.append(message.data)

    server = asking(*[log(n) for n in range(100)], PING)
    with logged() as lines:
        handler = coroutine if flavour.is_async else plain
        client = flavour.connect(server.target, on_log=handler, limits=Limits(max_queue=10))
        client.call_tool("echo", {})
        assert begun.wait(20)
        go.set()
        wait_for(lambda: [line for line in lines if "notifications were lost" in line])
    # The one that is being handled makes room for one more.
    assert seen == sorted(seen) and seen[:10] == list(range(10)) and len(seen) <= 11
    warnings = [line for line in lines if line.startswith("WARNING") and "notifications" in line]
    assert len(warnings) == 2
    assert f"{100 - len(seen)} notifications were lost" in warnings[1]


@pytest.mark.req("I4")
def test_handlers_of_notifications_are_bounded_and_every_stream_has_its_turn(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    now, most, seen = [0], [0], []
    lock = threading.Lock()

    def begin() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])

    def end(message: Any) -> None:
        with lock:
            now[0] -= 1
            seen.append(message.data)

    def plain(message: Any, _: Any) -> None:
        begin()
        assert go.wait(30)
        end(message)

    async def coroutine(message: Any, _: Any) -> None:
        begin()
        while not go.is_set():
            await asyncio.sleep(0.005)
        end(message)

    scripts = [stream(log([n, 0]), log([n, 1]), result()) for n in range(6)]
    server = serve({"tools/call": turns(*scripts)}, era="handshake")
    handler = coroutine if flavour.is_async else plain
    client = flavour.connect(server.url, on_log=handler, limits=Limits(max_handlers=2))
    for _ in range(6):
        client.call_tool("echo", {})
    wait_for(lambda: now[0] == 2)
    go.set()
    wait_for(lambda: len(seen) == 12)
    assert most[0] == 2
    for n in range(6):
        assert [item for item in seen if item[0] == n] == [[n, 0], [n, 1]]


@pytest.mark.req("I4")
def test_a_handler_that_raises_and_a_message_in_no_shape_disturb_nothing(flavour: Any, asking: Any) -> None:
    seen: list[Any] = []

    def handler(message: Any, _: Any) -> None:
        seen.append(message.data)
        raise RuntimeError("secret-7f3a")

    shapeless = [note("notifications/message"), log(1, level=5), note("notifications/message", [1])]  # type: ignore[arg-type]
    server = asking(log("a"), *shapeless, log("b"), replies=0)
    with logged() as lines:
        client = flavour.connect(server.target, on_log=handler)
        assert client.call_tool("echo", {}).content
        wait_for(lambda: len(seen) == 2)
        client.close()
    assert seen == ["a", "b"]
    warnings = [line for line in lines if line.startswith("WARNING")]
    assert len([line for line in warnings if "RuntimeError" in line]) == 2
    assert len([line for line in warnings if "InvalidResult" in line]) == 3
    assert "secret-7f3a" not in "\n".join(lines)


@pytest.mark.req("I4", "T6")
def test_progress_and_cancellations_are_the_clients_own_business(flavour: Any, asking: Any) -> None:
    seen: list[Any] = []
    strange = note("notifications/progress", {"progressToken": "x", "progress": 1})
    cancelled = note("notifications/cancelled", {"requestId": 5})
    server = asking(strange, cancelled, CHANGED, replies=0)
    client = flavour.connect(server.target, on_notification=lambda value, _: seen.append(value.method))
    client.call_tool("echo", {})
    client.close()
    assert seen == [CHANGED["method"]]


@pytest.mark.req("I6")
def test_what_the_server_logs_is_handed_over_as_it_is_and_shown_by_nobody(flavour: Any, asking: Any) -> None:
    said = "\x1b[31mred\x9b\u2028secret-7f3a\nforged line"
    seen: list[Any] = []
    server = asking(log(said, logger="\x1b]0;x\x07"), replies=0)
    with logged() as lines:
        client = flavour.connect(server.target, on_log=lambda message, _: seen.append(message))
        client.call_tool("echo", {})
        client.close()
    with logged() as more:
        deaf = flavour.connect(server.target)
        deaf.call_tool("echo", {})
        deaf.close()
    assert seen[0].data == said and seen[0].logger == "\x1b]0;x\x07"
    assert seen[0].text == "\\x1b[31mred\\x9b\\u2028secret-7f3a\\nforged line"
    assert "secret-7f3a" not in "\n".join([*lines, *more, repr(seen[0])])


@pytest.mark.req("I4")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_both_eras_have_log_messages(flavour: Any, serve: Any, era: str) -> None:
    seen: list[Any] = []
    server = serve({"tools/call": stream(log("a"), result())}, era=era)
    client = flavour.connect(server.url, on_log=lambda message, context: seen.append((message.data, context.era)))
    client.call_tool("echo", {})
    wait_for(lambda: seen)
    assert seen == [("a", era)]


# --- the client's own listeners, and progress that comes elsewhere ---------------------------------


@pytest.mark.req("I4")
def test_listeners_of_the_client_hear_everything_before_any_handler(flavour: Any, asking: Any) -> None:
    heard: list[Any] = []
    server = asking(CHANGED, log(1), replies=0)
    client = flavour.connect(
        server.target,
        on_log=lambda message, _: heard.append("handler"),
        on_notification=lambda value, _: heard.append("handler"),
    )
    link = client._session.link
    client._session.inbound.listeners = [lambda *args: heard.append(args)]
    client.call_tool("echo", {})
    client.close()
    told = [item for item in heard if item != "handler"]
    assert told == [(CHANGED["method"], None, link), ("notifications/message", {"level": "info", "data": 1}, link)]
    assert heard[0] == told[0] and len(heard) == 4


@pytest.mark.req("T6")
def test_progress_on_another_stream_reaches_the_call_it_names_while_that_waits(flavour: Any, serve: Any) -> None:
    go = threading.Event()

    def held(turn: Any) -> None:
        turn.wait(go)

    server = serve(
        {"tools/call": turns([stream(end=False), held, more(result(text("done"))), raw(LAST_CHUNK)], answer())},
        era="handshake",
    )
    client = flavour.connect(server.url)
    seen: list[float] = []
    running = flavour.start(client.call_tool, "echo", {}, on_progress=lambda value, *_: seen.append(value))
    server.wait_until(lambda: server.count("tools/call") == 1)
    token = server.calls()[0].meta["progressToken"]
    inbound, link = client._session.inbound, client._session.link

    def late(params: Any) -> None:
        if flavour.is_async:
            flavour._loop.call(lambda: inbound.late_progress(params, link))
        else:
            inbound.late_progress(params, link)

    for params in ({"progressToken": token + 99, "progress": 9}, {"progressToken": [1]}, {}, None, [1]):
        late(params)
    late({"progressToken": token, "progress": 1})
    wait_for(lambda: seen == [1])
    late({"progressToken": token, "progress": 2})
    go.set()
    assert running.result().text == "done"
    assert seen[0] == 1 and set(seen) <= {1, 2}
    before = list(seen)
    late({"progressToken": token, "progress": 3})
    client.call_tool("echo", {})
    assert seen == before


@pytest.mark.req("T6")
def test_progress_on_another_stream_is_heard_before_the_calls_own_says_anything(flavour: Any, serve: Any) -> None:
    go = threading.Event()

    def held(turn: Any) -> None:
        turn.wait(go)
        answer()(turn)

    server = serve({"tools/call": turns(answer(), held)}, era="handshake")
    client = flavour.connect(server.url)
    client.call_tool("echo", {})  # a connection that is idle then
    seen: list[float] = []
    running = flavour.start(client.call_tool, "echo", {}, on_progress=lambda value, *_: seen.append(value))
    server.wait_until(lambda: server.count("tools/call") == 2)
    token = server.calls()[1].meta["progressToken"]
    inbound, link = client._session.inbound, client._session.link

    def late() -> None:
        inbound.late_progress({"progressToken": token, "progress": 1}, link)

    flavour._loop.call(late) if flavour.is_async else late()
    go.set()
    running.result()
    assert seen == [1]
