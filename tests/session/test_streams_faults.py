"""Streams beside what programs do to them: cancellation at any turn, forks, many threads, clients that are dropped."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from ferrule import AsyncClient, Limits, Retry
from tests.session.test_cancelled_tasks import Call, Stepper, check_wire
from tests.session.test_fork import numbered_sessions, play
from tests.support.old_sse import OldServer
from tests.support.steps import event, hang, result_for, stream, text

KEPT = [stream(end=False), hang()]
PRIOR = {"era": "handshake", "revision": "2025-11-25", "transport": "http+sse"}


@pytest.fixture
def stepper() -> Stepper:
    return Stepper()


def resuming(serve: Any) -> Any:
    """A server whose tools end their streams early and answer, with their argument n, on the GET that asks for it."""
    asked: dict[str, Any] = {}

    def call(turn: Any) -> None:
        name = str(turn.request.message["id"])
        asked[name] = result_for(turn.request, text(str(turn.request.params["arguments"]["n"])))
        stream(event(b"", id=name, retry=10))(turn)

    def get(turn: Any) -> None:
        stream(event(asked[turn.request.header("Last-Event-ID")]))(turn)

    return serve({"tools/call": call, "GET": get}, era="handshake", session=None)


@pytest.mark.req("S5", "T4", "R2")
def test_a_call_that_is_resumed_can_be_cancelled_at_every_turn(stepper: Stepper, serve: Any) -> None:
    server = resuming(serve)

    async def scenario() -> int:
        async with AsyncClient(server.url, retry=Retry(attempts=1)) as client:
            await client.connect()

            def make(turn: int) -> Call:
                return lambda: client.call_tool("echo", {"n": 2 * turn})

            async def then(turn: int) -> None:
                assert (await client.call_tool("echo", {"n": 2 * turn + 1})).text == str(2 * turn + 1)

            return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario(), server) >= 6
    check_wire([request.message for request in server.requests], told=True)


@pytest.mark.req("S4", "T4", "N10")
def test_connecting_with_a_stream_can_be_cancelled_at_every_turn(stepper: Stepper, serve: Any) -> None:
    server = serve({"GET": KEPT, "initialize": numbered_sessions()}, era="handshake")

    async def scenario() -> int:
        clients: list[AsyncClient] = []

        def make(turn: int) -> Call:
            clients.append(AsyncClient(server.url, listen=True))
            return clients[-1].connect

        async def then(turn: int) -> None:
            client = clients.pop()
            assert (await client.call_tool("echo", {})).text == "{}"
            await client.aclose()

        return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario(), server) >= 8


@pytest.mark.req("O2", "T4", "N10")
def test_connecting_and_calling_over_the_old_transport_can_be_cancelled_at_every_turn(
    stepper: Stepper, serve: Any
) -> None:
    plan = OldServer()
    server = serve(plan.rules, era=None, path="/sse")

    async def scenario() -> int:
        clients: list[AsyncClient] = []

        def make(turn: int) -> Call:
            clients.append(AsyncClient(server.url, prior=PRIOR))
            return lambda: clients[-1].call_tool("echo", {"n": 2 * turn})

        async def then(turn: int) -> None:
            client = clients.pop()
            answered = await client.call_tool("echo", {"n": 2 * turn + 1})
            assert answered.text == f'{{"n": {2 * turn + 1}}}'
            await client.aclose()

        return await stepper.at_every_turn(make, then)

    # The old server answers on its latest stream: one client at a time.
    assert stepper.run(scenario(), server) >= 8
    check_wire([request.message for request in server.requests], told=True, clients=2)


@pytest.mark.req("S4", "V3")
def test_a_fork_leaves_the_stream_to_its_parent_and_opens_its_own(serve: Any) -> None:
    server = serve({"GET": KEPT, "initialize": numbered_sessions()}, era="handshake")
    report = play(
        """
client = Client(target, listen=True)
say(client, "parent 1")

def child():
    assert say(client, "child 1") == '{"who": "child 1"}'
    client.close()

report["child"] = ended(fork(child))
report["after"] = say(client, "parent 2")
client.close()
""",
        server.url,
    )
    assert report == {"child": 0, "after": '{"who": "parent 2"}'}
    assert [get.header("Mcp-Session-Id") for get in server.calls("GET")] == ["s-0", "s-1"]
    assert [get.header("Mcp-Session-Id") for get in server.calls("DELETE")] == ["s-1", "s-0"]


@pytest.mark.req("S4", "T7")
def test_a_program_may_end_without_closing_its_streams(serve: Any) -> None:
    server = serve({"GET": KEPT}, era="handshake")
    report = play(
        """
client = Client(target, listen=True, limits=Limits(listen_wait=5.0))
report["said"] = say(client, "me")
""",
        server.url,
    )
    assert report == {"said": '{"who": "me"}'}
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("S5", "V5", "W11")
def test_many_calls_that_are_resumed_at_once_each_get_their_own_answer(flavour: Any, serve: Any) -> None:
    server = resuming(serve)
    client = flavour.connect(server.url, limits=Limits(max_connections=4))
    numbers = itertools.count(1)

    def many() -> list[bool]:
        mine = [next(numbers) for _ in range(10)]
        return [client.call_tool("echo", {"n": n}).text == str(n) for n in mine]

    assert flavour.together(*[many] * 8) == [[True] * 10] * 8
    assert server.count("tools/call") == 80


@pytest.mark.req("S4", "T4")
def test_an_event_loop_that_ends_with_a_stream_open_complains_of_nothing_after_aclose(serve: Any) -> None:
    server = serve({"GET": KEPT}, era="handshake")

    async def scenario() -> None:
        client = AsyncClient(server.url, listen=True)
        views = [client.with_options(headers={"X-User": str(n)}) for n in range(5)]
        await asyncio.gather(*(view.call_tool("echo", {}) for view in views))
        await client.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario(), debug=True)
    server.wait_until(lambda: server.open == 0)
