"""What happens to a request that its caller has given up: on the wire, and to what still comes of it."""

import asyncio
import time
from threading import Event
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Limits
from ferrule._transports import streamable_http
from ferrule.errors import ConnectionClosed, RequestTimeout
from tests.support.clients import run_async
from tests.support.steps import (
    LAST_CHUNK,
    answer,
    error,
    hang,
    progress,
    raw,
    result,
    status,
    stream,
    text,
    turns,
    wait,
)


def give_up(client: Any, server: Any, method: str = "tools/call") -> int:
    """Call a tool that does not answer; the id of the request that was given up."""
    with pytest.raises(RequestTimeout):
        client.request(method, {"name": "echo"}, timeout=0.1)
    return int(server.calls(method)[-1].message["id"])


@pytest.mark.req("T2")
@pytest.mark.parametrize("script", [hang(), [stream(end=False), hang()]], ids=["before the head", "inside the stream"])
def test_a_stateless_server_is_told_by_closing_the_stream_and_nothing_is_posted(
    flavour: Any, serve: Any, script: Any
) -> None:
    server = serve({"tools/call": turns(script, answer(text("good")))})
    client = flavour.connect(server.url)
    give_up(client, server)
    server.wait_until(lambda: server.open == 0)
    assert client.call_tool("echo", {}).text == "good"
    assert server.methods == ["server/discover", "tools/call", "tools/call"]


@pytest.mark.req("T2")
@pytest.mark.parametrize("script", [hang(), [stream(end=False), hang()]], ids=["before the head", "inside the stream"])
def test_a_handshake_server_is_told_once_and_only_then_the_stream_is_closed(
    flavour: Any, serve: Any, script: Any
) -> None:
    taken = Event()
    rules = {"tools/call": turns(script, answer(text("good"))), "notifications/cancelled": [wait(taken), status(202)]}
    server = serve(rules, era="handshake", session="s-1")
    client = flavour.connect(server.url)
    id = give_up(client, server)
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    assert server.open == 2  # the call's own, and the one that carries the notification
    taken.set()
    server.wait_until(lambda: server.open == 1)
    assert client.call_tool("echo", {}).text == "good"
    (cancelled,) = server.calls("notifications/cancelled")
    assert cancelled.params["requestId"] == id
    assert "id" not in cancelled.message
    assert cancelled.header("Mcp-Session-Id") == "s-1"
    assert cancelled.header("MCP-Protocol-Version") == "2025-11-25"


@pytest.mark.req("T2")
@pytest.mark.parametrize("refusal", [status(400), status(404), status(500), hang(), error(-32601)])
def test_a_handshake_server_that_will_not_hear_of_it_changes_nothing(flavour: Any, serve: Any, refusal: Any) -> None:
    gone = Event()

    def silence(turn: Any) -> None:
        turn.wait_gone()
        gone.set()

    rules = {"tools/call": turns(silence, answer(text("good"))), "notifications/cancelled": refusal}
    server = serve(rules, era="handshake", session=None)
    client = flavour.connect(server.url, limits=Limits(cancel_timeout=0.1))
    give_up(client, server)
    assert client.call_tool("echo", {}).text == "good"
    assert gone.wait(10)
    assert server.count("notifications/cancelled") == 1


@pytest.mark.req("T2")
def test_nothing_is_cancelled_that_was_never_written(flavour: Any, serve: Any) -> None:
    go = Event()
    server = serve({"tools/call": [wait(go), answer()]}, era="handshake")
    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    first = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("tools/call") == 1)
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.1)
    assert caught.value.request_sent is False
    go.set()
    first.result()
    client.close()
    assert server.methods[3:] == ["tools/call", "DELETE"]


@pytest.mark.req("T2")
@pytest.mark.parametrize(("silent", "era"), [("server/discover", None), ("initialize", "handshake")])
def test_the_handshake_and_the_probe_are_never_cancelled(
    flavour: Any, serve: Any, silent: str, era: str | None
) -> None:
    server = serve({silent: hang()}, era="handshake")
    client = flavour.client(server.url, protocol=era or "auto")
    with pytest.raises(RequestTimeout):
        client.connect(timeout=0.1)
    server.wait_until(lambda: server.open == 0)
    client.close()
    assert server.methods == [silent]


@pytest.mark.req("T3")
@pytest.mark.parametrize("by", ["json", "stream"])
def test_a_late_answer_completes_nobody_elses_call(flavour: Any, serve: Any, by: str) -> None:
    late, sent = Event(), Event()
    if by == "json":
        script = [wait(late), answer(text("late")), lambda turn: sent.set()]
    else:
        script = [stream(end=False), wait(late), lambda turn: turn.send(b"x"), lambda turn: sent.set()]
    server = serve({"tools/call": turns(script, answer(text("mine")))})
    client = flavour.connect(server.url)
    give_up(client, server)
    late.set()
    assert sent.wait(10)
    assert client.call_tool("echo", {}).text == "mine"


@pytest.mark.req("T3", "T5")
def test_an_answer_that_comes_while_the_cancellation_is_told_harms_no_call_that_follows(
    flavour: Any, serve: Any
) -> None:
    answered, told, accepted, go = Event(), Event(), Event(), Event()
    rules = {
        # The late answer makes the first connection whole again, so that the next call goes over it.
        "tools/call": turns(
            [wait(told), answer(text("late")), lambda turn: answered.set()],
            [wait(go), answer(text("mine"))],
        ),
        "notifications/cancelled": [lambda turn: told.set(), wait(accepted), status(202)],
    }
    server = serve(rules, era="handshake", session=None)
    client = flavour.connect(server.url)
    give_up(client, server)
    assert answered.wait(10)
    running = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("tools/call") == 2)
    accepted.set()  # now the cancellation is told, and its clean-up happens under the call
    client.ping()  # over the connection that the cancellation went over: it is done
    go.set()
    assert running.result().text == "mine"


@pytest.mark.req("T2", "T3")
def test_progress_after_the_timeout_reaches_no_handler(flavour: Any, serve: Any) -> None:
    late, seen = Event(), []
    script = [stream(progress(1), end=False), wait(late), raw(lambda request: b""), raw(LAST_CHUNK)]
    server = serve({"tools/call": turns(script, stream(progress(7), result()))}, era="handshake", session=None)
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {}, timeout=0.15, on_progress=lambda *args: seen.append(args))
    late.set()
    client.call_tool("echo", {})
    assert seen == [(1, None, None)]


# --- asyncio -------------------------------------------------------------------------------------


@pytest.mark.req("T2", "T4")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize("script", [hang(), [stream(end=False), hang()]], ids=["before the head", "inside the stream"])
def test_a_cancelled_task_ends_at_once_and_tells_the_server_as_a_timeout_does(
    serve: Any, era: str, script: Any
) -> None:
    server = serve({"tools/call": turns(script, answer(text("good")))}, era=era, session=None)

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            task = asyncio.create_task(client.call_tool("echo", {}))
            await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.call_tool("echo", {})).text == "good"
            if era == "handshake":
                await asyncio.to_thread(server.wait_until, lambda: server.count("notifications/cancelled") == 1)

    run_async(main())
    told = server.calls("notifications/cancelled")
    assert len(told) == (era == "handshake")
    if told:
        assert told[0].params["requestId"] == server.calls()[0].message["id"]


@pytest.mark.req("T4", "T5")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_cancellation_that_comes_with_the_answer_harms_nobody_who_has_the_connection_next(
    serve: Any, era: str
) -> None:
    server = serve(era=era, session=None)
    usual: Any = server.rules["tools/call"]

    async def main() -> None:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()
        server.rules["tools/call"] = [lambda turn: loop.call_soon_threadsafe(arrived.set), usual]
        async with AsyncClient(server.url, limits=Limits(max_connections=1)) as client:
            for _ in range(50):
                arrived.clear()
                first = asyncio.create_task(client.call_tool("echo", {"n": 1}))
                second = asyncio.create_task(client.call_tool("echo", {"n": 2}))
                await arrived.wait()
                # The answer is on its way or there already; the second call waits for the connection.
                first.cancel()
                assert (await second).text == '{"n": 2}'
                await asyncio.gather(first, return_exceptions=True)

    run_async(main())


class Interruption(BaseException):
    """What a signal's handler may raise anywhere."""


@pytest.mark.req("T2", "W25")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize("where", ["the write", "the exchange"])
def test_an_interruption_right_after_a_write_costs_no_place_and_harms_no_other_call(
    flavour: Any, serve: Any, monkeypatch: pytest.MonkeyPatch, era: str, where: str
) -> None:
    unanswered = [stream(end=False), hang()]
    server = serve({"tools/call": turns(answer(), unanswered, answer())}, era=era, session=None)
    client = flavour.connect(server.url, timeout=5, limits=Limits(max_connections=1))
    client.call_tool("echo", {})
    connection = getattr(client, "_target", client)._session.transport._pool._idle[-1]
    ask = type(connection.stream).ask

    def interrupted(*args: Any) -> Any:
        if where == "the write":
            ask(*args)
        raise Interruption

    with monkeypatch.context() as patched, pytest.raises(Interruption):
        if where == "the write":
            patched.setattr(type(connection.stream), "ask", interrupted)
        else:
            patched.setattr(streamable_http, "PostExchange", interrupted)
        client.call_tool("echo", {"n": 1})
    assert client.call_tool("echo", {"n": 2}).text == "ok"
    told = 0 if era == "stateless" else 1
    server.wait_until(lambda: server.count("notifications/cancelled") == told)
    server.wait_until(lambda: connection.state == "closed")


@pytest.mark.req("T2", "W25")
def test_a_connection_whose_caller_was_interrupted_is_nobody_elses_while_the_server_is_told(
    flavour: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, late = Event(), Event()
    server = serve(
        {
            "tools/call": turns(answer(), answer(), [wait(late), answer()]),
            "notifications/cancelled": [wait(told), status(202)],
        },
        era="handshake",
        session=None,
    )
    client = flavour.connect(server.url, timeout=10, limits=Limits(max_connections=1))
    client.call_tool("echo", {})
    connection = getattr(client, "_target", client)._session.transport._pool._idle[-1]
    ask = type(connection.stream).ask

    def interrupted(*args: Any) -> Any:
        ask(*args)
        raise Interruption

    with monkeypatch.context() as patched, pytest.raises(Interruption):
        patched.setattr(type(connection.stream), "ask", interrupted)
        client.call_tool("echo", {"n": 1})
    last = flavour.start(client.call_tool, "echo", {"n": 2})
    if flavour.is_async:  # the loop has read the answer meanwhile, and the place is free
        server.wait_until(lambda: server.count("tools/call") == 3)
    told.set()
    server.wait_until(lambda: connection.state == "closed")
    late.set()
    assert last.result().text == "ok"


@pytest.mark.req("T4", "R4")
def test_a_cancelled_call_that_waited_for_a_connection_passes_its_turn_on(serve: Any) -> None:
    go = Event()
    server = serve({"tools/call": [wait(go), answer()]})

    async def main() -> None:
        async with AsyncClient(server.url, limits=Limits(max_connections=1)) as client:
            tasks = [asyncio.create_task(client.call_tool("echo", {"n": n})) for n in range(4)]
            await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") == 1)
            tasks[1].cancel()
            tasks[2].cancel()
            go.set()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(one).__name__ for one in outcomes[1:3]] == ["CancelledError"] * 2
            assert [call.params["arguments"]["n"] for call in server.calls()] == [0, 3]

    run_async(main())


@pytest.mark.req("T4", "T7")
def test_aclose_fails_what_is_under_way_and_leaves_no_task(serve: Any) -> None:
    server = serve({"tools/call": hang()}, era="handshake")

    async def main() -> None:
        client = AsyncClient(server.url)
        await client.connect()
        tasks = [asyncio.create_task(client.call_tool("echo", {})) for _ in range(3)]
        await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") == 3)
        await client.aclose()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in outcomes] == [ConnectionClosed] * 3

    run_async(main())


@pytest.mark.req("T2", "T7")
@pytest.mark.parametrize("session", [None, "s-1"])
def test_a_client_that_is_closed_right_after_a_timeout_still_tells_the_server(
    flavour: Any, serve: Any, session: str | None
) -> None:
    for _ in range(5):
        server = serve({"tools/call": hang()}, era="handshake", session=session)
        client = flavour.connect(server.url)
        id = give_up(client, server)
        client.close()
        assert [call.params["requestId"] for call in server.calls("notifications/cancelled")] == [id]


@pytest.mark.req("T2", "T7")
def test_closing_does_not_wait_longer_for_that_than_a_cancellation_may_take(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": hang(), "notifications/cancelled": hang()}, era="handshake", session=None)
    client = flavour.connect(server.url, limits=Limits(cancel_timeout=0.1))
    give_up(client, server)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 3


@pytest.mark.req("T2")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_an_interrupted_caller_gives_its_call_up_as_its_era_wants_it(
    serve: Any, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(era=era)
    with Client(server.url) as client:
        client.call_tool("echo", {})
        transport: Any = client._session.transport
        connection = transport._pool._idle[-1]
        stream = type(connection.stream)
        ask = stream.ask

        def interrupted(*args: Any) -> int:
            ask(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(stream, "ask", interrupted)
            client.call_tool("echo", {"n": 1})
        told = 0 if era == "stateless" else 1
        server.wait_until(lambda: server.count("notifications/cancelled") == told)
        server.wait_until(lambda: connection.state == "closed")
        assert client.call_tool("echo", {"n": 2}).text == '{"n": 2}'
        assert server.count("tools/call") == 3
