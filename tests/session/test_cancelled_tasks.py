"""asyncio cancellation at every turn of the loop: at once, and with nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ferrule import AsyncClient, Retry
from ferrule.errors import FerruleError
from tests.io.drivers import SteppingLoop, open_descriptors
from tests.support import child as on_stdio
from tests.support.steps import answer, initialized, progress, status, stream, text, turns

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
AT_ONCE = 3
"""Turns of the loop that a cancelled task may still take: for the future it waits on, its own, and its parent's."""

Call = Callable[[], Coroutine[Any, Any, Any]]


class Stepper:
    """Runs a scenario on a loop of its own, and cancels calls in it after so many turns."""

    def __init__(self) -> None:
        self.loop = SteppingLoop()
        self.complaints: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(context))

    def run(self, scenario: Coroutine[Any, Any, Any], server: Any = None) -> Any:
        """Run it; no thread, descriptor, task or exception is left when it, and the server with it, has ended."""
        descriptors = open_descriptors()
        try:
            value = self.loop.run_until_complete(scenario)
            self.loop.run_until_complete(asyncio.sleep(0))
            left = asyncio.all_tasks(self.loop)
        finally:
            self.loop.close()
        gc.collect()
        assert left == set()
        assert self.complaints == []
        assert [thread for thread in threading.enumerate() if thread.name.startswith("ferrule")] == []
        if server is not None:
            server.wait_until(lambda: server.open == 0)
        assert open_descriptors() <= descriptors
        return value

    async def cancelled(self, call: Call, after: int) -> bool:
        """Begin the call and cancel it after so many turns. False when it was over by then."""
        task: asyncio.Task[Any] = asyncio.ensure_future(call())
        left, since = after, 0

        def step() -> None:
            nonlocal left, since
            left -= 1
            if left == 0:
                task.cancel()
            elif left < 0 and not task.done():
                since += 1

        self.loop.on_step = step
        try:
            await task
        except asyncio.CancelledError:
            return True
        finally:
            self.loop.on_step = None
            assert since <= AT_ONCE, f"cancelled after turn {after}, it went on for {since} turns"
        return False

    async def at_every_turn(self, make: Callable[[int], Call], then: Callable[[int], Coroutine[Any, Any, Any]]) -> int:
        """Cancel `make(k)` after turn k, see that `then(k)` works, for every k until the call is faster."""
        for turn in range(1, 1000):
            cancelled = await self.cancelled(make(turn), turn)
            await then(turn)
            if not cancelled:
                return turn
        raise AssertionError("the call does not come to an end")


@pytest.fixture
def stepper() -> Stepper:
    return Stepper()


def check_wire(messages: list[Any], *, told: bool, clients: int = 1) -> None:
    """No call arrived twice; what was cancelled is a call that arrived, told once; or nothing is told at all."""
    calls = [m for m in messages if isinstance(m, dict) and m.get("method") == "tools/call"]
    keys = [str(m["params"]["arguments"]) for m in calls]
    assert len(keys) == len(set(keys))
    cancelled = [m["params"]["requestId"] for m in messages if m.get("method") == "notifications/cancelled"]
    assert told or cancelled == []
    assert set(cancelled) <= {m["id"] for m in calls}
    assert clients > 1 or len(cancelled) == len(set(cancelled))


SCRIPTS: dict[str, Any] = {
    "json": answer(lambda request: text(str(request.params["arguments"]["n"]))),
    "stream": stream(progress(1), progress(2), lambda r: {"result": text(str(r.params["arguments"]["n"]))}),
}


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.mark.req("T4", "T2", "T5", "R2")
@ERAS
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_call_can_be_cancelled_at_every_turn(stepper: Stepper, serve: Any, era: str, script: Any) -> None:
    server = serve({"tools/call": script}, era=era, session=None)

    async def scenario() -> int:
        async with AsyncClient(server.url, retry=Retry(attempts=1)) as client:
            await client.connect()

            async def other(n: int) -> None:
                assert (await client.call_tool("echo", {"n": -n})).text == str(-n)

            async def handler(*_: Any) -> None:
                await asyncio.sleep(0)

            def make(turn: int) -> Call:
                beside.append(asyncio.ensure_future(other(3 * turn)))
                return lambda: client.call_tool("echo", {"n": 3 * turn}, on_progress=handler)

            async def then(turn: int) -> None:
                await beside.pop()  # not disturbed
                await other(3 * turn + 1)  # and as good as new

            beside: list[asyncio.Future[None]] = []
            return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario(), server) >= 3
    check_wire([request.message for request in server.requests], told=era == "handshake")


@pytest.mark.req("T4", "N10")
@ERAS
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "with another caller"])
def test_the_first_call_can_be_cancelled_at_every_turn_of_connecting(
    stepper: Stepper, serve: Any, era: str, shared: bool
) -> None:
    count = iter(range(10_000))
    begin: Any = lambda turn: answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn)  # noqa: E731
    server = serve({"tools/call": SCRIPTS["json"], "initialize": begin}, era=era)

    async def scenario() -> int:
        clients: list[AsyncClient] = []

        def make(turn: int) -> Call:
            client = AsyncClient(server.url)
            clients.append(client)
            if shared:
                beside.append(asyncio.ensure_future(client.call_tool("echo", {"n": -3 * turn})))
            return lambda: client.call_tool("echo", {"n": 3 * turn})

        async def then(turn: int) -> None:
            client = clients.pop()
            if shared:
                assert (await beside.pop()).text == str(-3 * turn)
            assert (await client.call_tool("echo", {"n": 3 * turn + 1})).text == str(3 * turn + 1)
            await client.aclose()

        beside: list[asyncio.Future[Any]] = []
        return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario(), server) >= 6
    messages = [request.message for request in server.requests]
    check_wire(messages, told=era == "handshake", clients=2)
    ended = [request.header("Mcp-Session-Id") for request in server.calls("DELETE")]
    assert len(ended) == len(set(ended))
    # A session whose `initialize` was cancelled is one that the client never heard of.
    assert set(ended) == {request.header("Mcp-Session-Id") for request in server.calls("notifications/initialized")}


@pytest.mark.req("T4")
@ERAS
def test_a_call_can_be_cancelled_at_every_turn_of_a_retry(stepper: Stepper, serve: Any, era: str) -> None:
    fault = status(503)
    server = serve({"tools/list": turns(*[fault, answer({"tools": []})] * 400)}, era=era, session=None)

    async def scenario() -> int:
        async with AsyncClient(server.url, retry=Retry(attempts=5, backoff=0.001, max_backoff=0.001)) as client:
            await client.connect()

            async def then(turn: int) -> None:
                assert await client.list_tools() == []

            return await stepper.at_every_turn(lambda turn: client.list_tools, then)

    assert stepper.run(scenario(), server) >= 4


@pytest.mark.req("T4", "S1")
def test_a_call_can_be_cancelled_at_every_turn_of_a_new_session(stepper: Stepper, serve: Any) -> None:
    count = iter(range(10_000))
    dead: set[str] = set()

    def begin(turn: Any) -> None:
        answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn)

    def listing(turn: Any) -> None:
        session = turn.request.header("Mcp-Session-Id")
        (status(404) if session in dead else answer({"tools": []}))(turn)

    server = serve({"tools/list": listing, "initialize": begin}, era="handshake")

    async def scenario() -> int:
        async with AsyncClient(server.url) as client:
            await client.connect()

            def make(turn: int) -> Call:
                if client.session_id is not None:
                    dead.add(client.session_id)
                return client.list_tools

            async def then(turn: int) -> None:
                assert await client.list_tools() == []

            return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario(), server) >= 6
    ended = [request.header("Mcp-Session-Id") for request in server.calls("DELETE")]
    begun = {request.header("Mcp-Session-Id") for request in server.calls("notifications/initialized")}
    assert len(ended) == len(set(ended))
    assert set(ended) == begun - dead


@pytest.mark.req("T4", "W23")
@ERAS
def test_the_first_call_over_tls_can_be_cancelled_at_every_turn(
    stepper: Stepper, serve: Any, certificates: Any, era: str
) -> None:
    server = serve({"tools/call": SCRIPTS["json"]}, era=era, tls=certificates.server, session=None)
    context = certificates.client()

    async def scenario() -> int:
        clients: list[AsyncClient] = []

        def make(turn: int) -> Call:
            clients.append(AsyncClient(server.url, tls=context))
            return lambda: clients[-1].call_tool("echo", {"n": 2 * turn})

        async def then(turn: int) -> None:
            client = clients.pop()
            assert (await client.call_tool("echo", {"n": 2 * turn + 1})).text == str(2 * turn + 1)
            await client.aclose()

        return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario(), server) >= 6


# --- over stdio ----------------------------------------------------------------------------------


@pytest.mark.req("T4", "T2", "T5", "R2")
@ERAS
def test_a_call_over_stdio_can_be_cancelled_at_every_turn(stepper: Stepper, child: Any, era: str) -> None:
    rules = {"tools/call": [[on_stdio.progress(1), on_stdio.progress(2), on_stdio.echo()]]}
    server = child(rules, era=era)

    async def scenario() -> int:
        async with AsyncClient(server.stdio(stderr="discard")) as client:
            await client.connect()

            async def other(n: int) -> None:
                assert (await client.call_tool("echo", {"n": -n})).text == f'{{"n": {-n}}}'

            async def handler(*_: Any) -> None:
                await asyncio.sleep(0)

            def make(turn: int) -> Call:
                beside.append(asyncio.ensure_future(other(3 * turn)))
                return lambda: client.call_tool("echo", {"n": 3 * turn}, on_progress=handler)

            async def then(turn: int) -> None:
                await beside.pop()
                await other(3 * turn + 1)

            beside: list[asyncio.Future[None]] = []
            return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario()) >= 3
    check_wire(server.messages, told=True)
    assert len(server.pids) == 1
    assert not on_stdio.is_alive(server.pids[0])


@pytest.mark.req("T4", "N10", "D6")
@ERAS
def test_the_first_call_over_stdio_can_be_cancelled_at_every_turn_and_leaves_no_process(
    stepper: Stepper, child: Any, era: str
) -> None:
    server = child({"tools/call": [[on_stdio.echo()]]}, era=era)

    async def scenario() -> int:
        clients: list[AsyncClient] = []

        def make(turn: int) -> Call:
            clients.append(AsyncClient(server.stdio(stderr="discard")))
            return lambda: clients[-1].call_tool("echo", {"n": 2 * turn})

        async def then(turn: int) -> None:
            client = clients.pop()
            n = 2 * turn + 1
            assert (await client.call_tool("echo", {"n": n})).text == f'{{"n": {n}}}'
            await client.aclose()

        return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario()) >= 4
    messages = server.messages
    calls = [str(call["params"]["arguments"]) for call in server.calls()]
    assert len(calls) == len(set(calls))
    methods = [message.get("method") for message in messages]
    assert methods.count("notifications/cancelled") <= 2  # never for the probe or the handshake
    assert [pid for pid in server.pids if on_stdio.is_alive(pid)] == []


@pytest.mark.req("T4", "D4")
def test_a_call_can_be_cancelled_at_every_turn_while_its_child_exits_and_the_next_one_starts(
    stepper: Stepper, child: Any
) -> None:
    from ferrule import Limits

    server = child({"tools/call": [[on_stdio.die(3)], [on_stdio.echo()]] * 60})
    limits = Limits(restart_window=0, restart_backoff=0)

    async def scenario() -> int:
        async with AsyncClient(server.stdio(stderr="discard"), limits=limits) as client:

            def make(turn: int) -> Call:
                async def both() -> None:
                    try:
                        await client.call_tool("echo", {"n": turn})
                    except FerruleError:
                        await client.list_tools()

                return both

            async def then(turn: int) -> None:
                for _ in range(3):
                    try:
                        await client.call_tool("echo", {"n": -turn})
                        return
                    except FerruleError as error:
                        assert type(error).__name__ == "ServerExited"
                raise AssertionError("the client does not recover")

            return await stepper.at_every_turn(make, then)

    assert stepper.run(scenario()) >= 3
    assert [pid for pid in server.pids if on_stdio.is_alive(pid)] == []
