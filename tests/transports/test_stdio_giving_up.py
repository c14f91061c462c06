"""Calls over a child's pipes that are given up: by their deadline, by their task, behind a child that stops reading."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ferrule import AsyncClient, Retry
from ferrule.errors import InvalidMessage, RequestTimeout, RPCError
from tests.support.child import ScriptedChild, echo, error, is_alive, raw, wait
from tests.support.clients import run_async

both_eras = pytest.mark.parametrize("era", ["stateless", "handshake"])
ONCE = Retry(attempts=1)


def pending(client: Any) -> dict[int, Any]:
    """Who waits for an answer, as the transport sees it."""
    waiting: dict[int, Any] = client._session.transport._child.pending
    return waiting


def cancelled(server: ScriptedChild) -> list[int]:
    return [message["params"]["requestId"] for message in server.calls("notifications/cancelled")]


@pytest.mark.req("D5", "T2", "T3", "R4")
@both_eras
def test_a_child_that_stops_reading_costs_a_deadline_and_no_deadlock(
    flavour: Any, child: Any, tmp_path: Path, era: str
) -> None:
    server = child({"tools/call": [[wait(tmp_path / "go"), echo()], [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), retry=ONCE)
    first = flavour.start(client.call_tool, "first", {}, timeout=0.6)
    server.wait_until(lambda: server.count("tools/call") == 1)
    second = flavour.start(client.call_tool, "second", {"fill": "x" * 1_000_000}, timeout=0.5)
    for running in (first, second):
        caught = running.outcome()
        assert isinstance(caught, RequestTimeout)
        assert caught.request_sent
    # Behind a message that is stuck half-way, not a byte of another one leaves.
    third = flavour.start(client.call_tool, "third", {}, timeout=0.2).outcome()
    assert isinstance(third, RequestTimeout)
    assert not third.request_sent
    note = flavour.start(client.notify, "notifications/x", timeout=0.2).outcome()
    assert isinstance(note, RequestTimeout)
    assert not note.request_sent
    assert pending(client) == {}
    (tmp_path / "go").write_text("")
    assert client.call_tool("fourth", {"a": 1}).text == '{"a": 1}'
    calls = {call["params"]["name"]: call["id"] for call in server.calls()}
    assert list(calls) == ["first", "second", "fourth"]
    assert server.count("notifications/x") == 0
    assert set(cancelled(server)) <= {calls["first"], calls["second"]}
    assert len(server.pids) == 1


@pytest.mark.req("T2", "T3")
@both_eras
def test_a_call_that_times_out_is_cancelled_once_and_its_late_answer_dropped(
    flavour: Any, child: Any, tmp_path: Path, era: str
) -> None:
    server = child({"tools/call": [[wait(tmp_path / "go"), echo()], [echo()]]}, era=era)
    client = flavour.connect(server.stdio())
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("slow", {}, timeout=0.2)
    assert caught.value.request_sent
    assert pending(client) == {}
    (tmp_path / "go").write_text("")
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    slow, _ = server.calls()
    assert cancelled(server) == [slow["id"]]
    assert "id" not in server.calls("notifications/cancelled")[0]


@pytest.mark.req("T2")
@both_eras
def test_a_call_that_ended_is_not_cancelled(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[error(-32000)], [echo()]]}, era=era)
    client = flavour.connect(server.stdio())
    with pytest.raises(RPCError):
        client.call_tool("echo", {})
    client.call_tool("echo", {})
    client.close()
    assert cancelled(server) == []


@pytest.mark.req("T3")
@both_eras
def test_nothing_stays_pending_after_any_end(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[echo()], [error(-1)], [raw(b'{"id":$ID}\n')], []]}, era=era)
    client = flavour.connect(server.stdio())
    client.call_tool("echo", {})
    for expected in (RPCError, InvalidMessage, RequestTimeout):
        with pytest.raises(expected):
            client.call_tool("echo", {}, timeout=0.3)
        assert pending(client) == {}


@pytest.mark.req("T2", "T4", "T3")
@both_eras
def test_cancelling_a_task_ends_it_at_once_and_tells_the_server(child: Any, era: str) -> None:
    server = child({"tools/call": [[], [echo()]]}, era=era)

    async def main() -> None:
        async with AsyncClient(server.stdio(), timeout=None) as client:
            task = asyncio.create_task(client.call_tool("slow", {}))
            await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") == 1)
            task.cancel()
            await asyncio.wait([task], timeout=5)
            assert task.cancelled()
            assert pending(client) == {}
            assert (await client.call_tool("echo", {"a": 1})).text == '{"a": 1}'

    run_async(main())
    slow, _ = server.calls()
    assert cancelled(server) == [slow["id"]]


@pytest.mark.req("T4", "D5")
def test_a_cancelled_writer_leaves_whole_messages_behind(child: Any, tmp_path: Path) -> None:
    server = child({"tools/call": [[wait(tmp_path / "go"), echo()], [echo()]]})

    async def main() -> None:
        async with AsyncClient(server.stdio()) as client:
            first = asyncio.create_task(client.call_tool("first", {}))
            await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") == 1)
            half = asyncio.create_task(client.call_tool("half", {"fill": "x" * 1_000_000}))
            queued = asyncio.create_task(client.call_tool("queued", {}))
            for _ in range(5):
                await asyncio.sleep(0)
            half.cancel()
            queued.cancel()
            await asyncio.wait([half, queued], timeout=5)
            assert half.cancelled()
            assert queued.cancelled()
            (tmp_path / "go").write_text("")
            assert (await first).text == "{}"
            assert (await client.call_tool("last", {})).text == "{}"

    run_async(main())
    assert [call["params"]["name"] for call in server.calls()] == ["first", "half", "last"]


@pytest.mark.req("T4", "N10")
def test_cancelling_a_connect_leaves_no_process(child: Any) -> None:
    server = child({"server/discover": [[]]})

    async def main() -> None:
        client = AsyncClient(server.stdio())
        task = asyncio.create_task(client.connect())
        await asyncio.to_thread(server.wait_until, lambda: server.count("server/discover") == 1)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        await asyncio.to_thread(server.wait_until, lambda: not is_alive(server.pids[0]))
        await client.aclose()

    run_async(main())
    assert [message["method"] for message in server.messages] == ["server/discover"]
