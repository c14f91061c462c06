"""The end of a client: from wherever it is asked for, whatever the server does, and when nobody asks for it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Limits
from ferrule.errors import ConfigError, ConnectionClosed
from tests.io.drivers import SteppingLoop
from tests.support import child as on_stdio
from tests.support.clients import Running, run_async
from tests.support.steps import answer, event, hang, initialized, progress, result_for, status, stream, text, wait

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])

USES: dict[str, Any] = {
    "connect": lambda client: client.connect(),
    "ping": lambda client: client.ping(),
    "discover": lambda client: client.discover(),
    "list_tools": lambda client: client.list_tools(),
    "list_prompts_page": lambda client: client.list_prompts_page(),
    "call_tool": lambda client: client.call_tool("echo", {}),
    "read_resource": lambda client: client.read_resource("demo://a"),
    "get_prompt": lambda client: client.get_prompt("greet"),
    "request": lambda client: client.request("tools/list"),
}


def closes_within(client: Any, seconds: float) -> None:
    """Close, and see that it did not take longer than that."""
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < seconds


# --- once, and then never again ------------------------------------------------------------------


@pytest.mark.req("T7")
@ERAS
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_a_closed_client_says_that_it_is_closed(flavour: Any, serve: Any, era: str, use: Any) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    client.close()
    sent = len(server.requests)
    with pytest.raises(ConnectionClosed, match="closed") as caught:
        use(client)
    assert caught.value.request_sent is False
    assert (len(server.requests), server.accepted) == (sent, 1)


@pytest.mark.req("T7", "S3")
def test_closing_again_and_from_many_sides_at_once_ends_the_session_once(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url)
    assert flavour.together(*[client.close] * 8) == [None] * 8
    client.close()
    assert server.count("DELETE") == 1
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T7")
def test_a_client_that_never_connected_closes_without_a_word(flavour: Any, serve: Any, child: Any) -> None:
    server, program = serve(), child()
    for target in (server.url, program.stdio()):
        client = flavour.client(target)
        client.close()
        with pytest.raises(ConnectionClosed):
            client.call_tool("echo", {})
    assert (server.accepted, program.pids) == (0, [])


@pytest.mark.req("T7", "S3")
def test_many_sessions_at_a_server_that_answers_no_delete_take_no_longer_than_one(flavour: Any, serve: Any) -> None:
    count = iter(range(100))
    rules = {
        "initialize": lambda turn: answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn),
        "DELETE": hang(),
    }
    server = serve(rules, era="handshake")
    client = flavour.connect(server.url, limits=Limits(close_timeout=0.4))
    for n in range(40):
        client.with_options(headers={"X-User": str(n)}).call_tool("echo", {})
    before = server.accepted
    closes_within(client, 3)
    assert 0 < server.count("DELETE") <= 16
    assert server.accepted - before <= 16  # nor are there forty connections, or threads, for it
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T7")
def test_close_timeout_is_the_whole_of_it_also_with_a_cancellation_and_a_session_to_end(
    flavour: Any, serve: Any
) -> None:
    rules = {"tools/call": hang(), "notifications/cancelled": hang(), "DELETE": hang()}
    server = serve(rules, era="handshake")
    client = flavour.connect(server.url, limits=Limits(close_timeout=0.5, cancel_timeout=30))
    with pytest.raises(TimeoutError):
        client.call_tool("echo", {}, timeout=0.05)
    closes_within(client, 3)
    server.wait_until(lambda: server.open == 0)


# --- what is under way ---------------------------------------------------------------------------


@pytest.mark.req("T7", "W25", "R4")
def test_who_waits_for_an_answer_or_for_a_connection_learns_that_the_client_was_closed(
    flavour: Any, serve: Any
) -> None:
    server = serve({"tools/call": hang()})
    client = flavour.connect(server.url, limits=Limits(max_connections=2))
    running = [flavour.start(client.call_tool, "echo", {}, timeout=None) for _ in range(6)]
    server.wait_until(lambda: server.count("tools/call") == 2)
    client.close()
    errors = [one.outcome() for one in running]
    assert all(isinstance(error, ConnectionClosed) for error in errors)
    assert sorted(error.request_sent for error in errors) == [False] * 4 + [True] * 2
    assert server.count("tools/call") == 2


@pytest.mark.req("T7", "V5")
@ERAS
def test_closing_in_the_midst_of_busy_threads_leaves_answers_or_the_news_and_no_socket(
    flavour: Any, serve: Any, era: str
) -> None:
    for _ in range(5):
        server = serve(era=era)
        client = flavour.connect(server.url)

        def call_until_closed(client: Any = client) -> Any:
            for n in range(100_000):
                try:
                    assert client.call_tool("echo", {"n": n}).text == f'{{"n": {n}}}'
                except ConnectionClosed as error:
                    return error
            return None

        running = [flavour.start(call_until_closed) for _ in range(6)]
        server.wait_until(lambda server=server: server.count("tools/call") > 30)
        client.close()
        assert [one for one in (one.outcome() for one in running) if not isinstance(one, ConnectionClosed)] == []
        server.wait_until(lambda server=server: server.open == 0)


@pytest.mark.req("T7", "D6")
def test_closing_in_the_midst_of_busy_threads_leaves_no_process(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[on_stdio.echo()]]})
    client = flavour.connect(server.stdio(stderr="discard"))

    def call_until_closed() -> Any:
        for n in range(100_000):
            try:
                assert client.call_tool("echo", {"n": n}).text == f'{{"n": {n}}}'
            except ConnectionClosed as error:
                return error
        return None

    running = [flavour.start(call_until_closed) for _ in range(6)]
    server.wait_until(lambda: server.count("tools/call") > 30)
    client.close()
    assert all(isinstance(one.outcome(), ConnectionClosed) for one in running)
    assert [on_stdio.is_alive(pid) for pid in server.pids] == [False]


@pytest.mark.req("T7")
def test_a_client_may_be_closed_in_another_thread_than_it_was_used_in(serve: Any) -> None:
    server = serve({"tools/call": hang()})
    client = Client(server.url)
    calling = Running(lambda: client.call_tool("echo", {}, timeout=None))
    server.wait_until(lambda: server.count("tools/call") == 1)
    Running(client.close).result(5)
    assert isinstance(calling.outcome(5), ConnectionClosed)


@pytest.mark.req("T7", "T6")
@ERAS
def test_a_progress_handler_may_close_the_client(serve: Any, era: str) -> None:
    server = serve({"tools/call": [stream(progress(1), end=False), hang()]}, era=era)
    client = Client(server.url)
    with pytest.raises(ConnectionClosed) as caught:
        client.call_tool("echo", {}, on_progress=lambda *_: client.close())
    assert caught.value.request_sent is True

    async def main() -> None:
        client = AsyncClient(server.url)

        async def handler(*_: Any) -> None:
            await client.aclose()

        with pytest.raises(ConnectionClosed) as caught:
            await client.call_tool("echo", {}, on_progress=handler)
        assert caught.value.request_sent is True

    run_async(main())
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T7")
def test_an_answer_that_was_there_before_the_end_is_still_an_answer(serve: Any) -> None:
    both = stream(lambda r: event(progress(1)(r)) + event(result_for(r, text("in time"))))  # type: ignore[operator]
    server = serve({"tools/call": both})
    client = Client(server.url)
    assert client.call_tool("echo", {}, on_progress=lambda *_: client.close()).text == "in time"


# --- asyncio -------------------------------------------------------------------------------------


@pytest.mark.req("T7", "V3")
@ERAS
def test_aclose_from_another_loop_is_refused_and_closes_nothing(serve: Any, era: str) -> None:
    server = serve(era=era)

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            outcome = await asyncio.to_thread(lambda: Running(lambda: asyncio.run(client.aclose())).outcome(5))
            assert isinstance(outcome, ConfigError)
            assert "loop" in str(outcome)
            assert (await client.call_tool("echo", {})).text == "{}"
            assert server.count("DELETE") == 0

    run_async(main())
    assert server.count("DELETE") == (era == "handshake")


@pytest.mark.req("T7")
def test_any_task_of_the_loop_may_close_and_the_others_are_told(serve: Any) -> None:
    server = serve({"tools/call": hang()}, era="handshake")

    async def main() -> None:
        client = AsyncClient(server.url)
        tasks = [asyncio.create_task(client.call_tool("echo", {}, timeout=None)) for _ in range(5)]
        await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") == 5)
        await asyncio.gather(*(asyncio.create_task(client.aclose()) for _ in range(3)))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in outcomes] == [ConnectionClosed] * 5

    run_async(main())
    assert server.count("DELETE") == 1


def cancelled_at_every_turn(scenario: Any) -> int:
    """Run `scenario(closing)` with its `aclose` cancelled after the 1st, 2nd, ... turn, until one runs through."""
    for turns in range(1, 500):
        loop = SteppingLoop()
        complaints: list[Any] = []
        loop.set_exception_handler(lambda *context, complaints=complaints: complaints.append(context))

        async def closing(client: Any, turns: int = turns, loop: Any = loop) -> bool:
            task = asyncio.create_task(client.aclose())
            left = iter(range(turns - 1))
            loop.on_step = lambda: None if next(left, None) is not None else task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                return False
            finally:
                loop.on_step = None
            return True

        try:
            through = loop.run_until_complete(scenario(closing))
            assert asyncio.all_tasks(loop) == set()
        finally:
            loop.close()
        gc.collect()
        assert complaints == []
        if through:
            return turns
    raise AssertionError("closing does not come to an end")


@pytest.mark.req("T4", "T7")
@ERAS
def test_an_aclose_that_is_cancelled_has_let_go_of_everything(serve: Any, era: str) -> None:
    server = serve({"tools/call": hang()}, era=era)

    async def scenario(closing: Any) -> bool:
        client = AsyncClient(server.url)
        await client.connect()
        view = client.with_options(headers={"X-User": "1"})
        await view.connect()
        arrived = server.count("tools/call")
        calling = asyncio.create_task(client.call_tool("echo", {}, timeout=None))
        await asyncio.to_thread(server.wait_until, lambda: server.count("tools/call") > arrived)
        through: bool = await closing(client)
        await client.aclose()  # it may have been cancelled before it began
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(calling, 5)
        with pytest.raises(ConnectionClosed):
            await view.call_tool("echo", {})
        await asyncio.sleep(0)
        return through

    least = cancelled_at_every_turn(scenario)
    assert least >= (4 if era == "handshake" else 2)
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T4", "T7")
def test_an_aclose_that_is_cancelled_waits_for_nothing_any_more(serve: Any) -> None:
    rules = {"tools/call": hang(), "notifications/cancelled": hang(), "DELETE": hang()}
    server = serve(rules, era="handshake")

    async def main() -> None:
        client = AsyncClient(server.url, limits=Limits(close_timeout=25, cancel_timeout=25))
        with pytest.raises(TimeoutError):
            await client.call_tool("echo", {}, timeout=0.05)
        closing = asyncio.create_task(client.aclose())
        await asyncio.to_thread(server.wait_until, lambda: server.count("DELETE") == 1)
        began = time.monotonic()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert time.monotonic() - began < 3
        await client.aclose()
        assert time.monotonic() - began < 3

    run_async(main())
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T4", "T7", "D6")
@ERAS
def test_an_aclose_that_is_cancelled_leaves_no_process(child: Any, era: str) -> None:
    server = child({"tools/call": [[on_stdio.hold()]]}, era=era)

    async def scenario(closing: Any) -> bool:
        client = AsyncClient(server.stdio(stderr="discard"))
        await client.connect()
        calling = asyncio.create_task(client.call_tool("echo", {}, timeout=None))
        await asyncio.sleep(0.001)
        through: bool = await closing(client)
        await client.aclose()  # it may have been cancelled before it began
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(calling, 5)
        return through

    assert cancelled_at_every_turn(scenario) >= 2
    assert [pid for pid in server.pids if on_stdio.is_alive(pid)] == []


# --- when nobody closes --------------------------------------------------------------------------


@pytest.mark.req("T7")
@ERAS
def test_a_client_that_nobody_closed_is_collected_with_its_connections(serve: Any, era: str) -> None:
    server = serve(era=era)
    client = Client(server.url)
    view = client.with_options(headers={"X-User": "1"})
    client.call_tool("echo", {})
    view.call_tool("echo", {})
    gone = weakref.ref(client._session.peer)
    del client
    gc.collect()
    assert view.call_tool("echo", {}).text == "{}"  # a view keeps alive what it needs
    del view
    gc.collect()
    assert gone() is None
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T7")
@ERAS
@pytest.mark.parametrize("when", ["in its loop", "in another thread", "after its loop"])
def test_an_async_client_that_nobody_closed_is_collected_with_its_connections(serve: Any, era: str, when: str) -> None:
    server = serve(era=era)
    kept: list[Any] = []

    async def main() -> None:
        kept.append(AsyncClient(server.url))
        assert (await kept[0].call_tool("echo", {})).text == "{}"
        gone = weakref.ref(kept[0]._session.peer)
        if when != "after its loop":
            kept.clear()
            if when == "in its loop":
                gc.collect()
            else:
                await asyncio.to_thread(gc.collect)
            assert gone() is None
            await asyncio.to_thread(server.wait_until, lambda: server.open == 0)

    run_async(main())
    kept.clear()
    gc.collect()
    server.wait_until(lambda: server.open == 0)


FORGETFUL = {
    "sync": """
client = Client(sys.argv[1])
print(client.call_tool("echo", {"n": 1}).text)
""",
    "a sync call that is under way in a daemon thread": """
client = Client(sys.argv[1])
threading.Thread(target=client.list_tools, daemon=True).start()
print(client.call_tool("echo", {"n": 1}).text)
""",
    "async": """
async def main():
    global client
    client = AsyncClient(sys.argv[1])
    print((await client.call_tool("echo", {"n": 1})).text)
asyncio.run(main())
""",
    "async, and an exception": """
async def main():
    client = AsyncClient(sys.argv[1])
    print((await client.call_tool("echo", {"n": 1})).text)
    raise SystemExit(0)
asyncio.run(main())
""",
}


@pytest.mark.req("T7")
@ERAS
@pytest.mark.parametrize("program", FORGETFUL.values(), ids=FORGETFUL.keys())
def test_a_program_that_forgets_its_client_ends_at_once_and_without_a_warning(
    serve: Any, era: str, program: str
) -> None:
    server = serve({"tools/list": hang()}, era=era)
    # asyncio's debug mode logs, as a warning, every step that takes long: on a busy machine any does.
    quiet = 'logging.getLogger("asyncio").setLevel(logging.ERROR)\n'
    prelude = "import asyncio, logging, sys, threading\nfrom ferrule import AsyncClient, Client\n" + quiet
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", prelude + program, server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"n": 1}\n', "")


# --- a failed beginning --------------------------------------------------------------------------


@pytest.mark.req("N10", "T7")
def test_a_client_whose_connect_failed_can_still_be_closed_and_is_quick_about_it(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": status(401)})
    client = flavour.client(server.url)
    with pytest.raises(Exception, match="401"):
        client.connect()
    closes_within(client, 2)
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("N10", "T7", "S3")
def test_closing_during_the_handshake_ends_the_session_that_comes_of_it(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    late = [wait(go), answer(initialized(), headers=[("Mcp-Session-Id", "late")])]
    server = serve({"initialize": late}, era="handshake")
    client = flavour.client(server.url, protocol="handshake")
    running = flavour.start(client.connect)
    server.wait_until(lambda: server.count("initialize") == 1)
    client.close()
    go.set()
    assert isinstance(running.outcome(5), ConnectionClosed)
    assert "tools/call" not in server.methods
    server.wait_until(lambda: server.open == 0)
