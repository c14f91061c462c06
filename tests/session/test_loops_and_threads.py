"""Where clients are used: inside a running loop, under uvloop, in several loops, and without threads of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ferrule import AsyncClient, Client
from ferrule.errors import ConfigError, ConnectionClosed, RequestTimeout
from tests.support import child as on_stdio
from tests.support.clients import Running, run_async
from tests.support.steps import answer, hang, progress, result, stream, text, turns

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
SCRIPTS = pytest.mark.parametrize(
    "script",
    [answer(text("good")), stream(progress(1), result(text("good")))],
    ids=["json", "stream"],
)

# --- inside a running loop -----------------------------------------------------------------------


@pytest.mark.req("V3")
@ERAS
@SCRIPTS
def test_the_sync_client_works_where_a_loop_is_running(serve: Any, era: str, script: Any) -> None:
    server = serve(
        {"tools/call": script, "tools/list": turns(answer({"tools": [], "nextCursor": "2"}), hang())}, era=era
    )
    seen: list[Any] = []

    async def main() -> None:
        before = asyncio.all_tasks()
        with Client(server.url) as client:
            view = client.with_options(headers={"X-User": "1"})
            for one in (client, view):
                assert one.call_tool("echo", {}, on_progress=lambda *args: seen.append(args)).text == "good"
            with pytest.raises(RequestTimeout):
                list(client.iter_tools(timeout=0.1))
        assert asyncio.all_tasks() == before

    run_async(main())
    assert seen in ([], [(1, None, None)] * 2)
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("V3")
@ERAS
def test_the_sync_client_runs_a_child_where_a_loop_is_running(child: Any, era: str) -> None:
    server = child({"tools/call": [[on_stdio.echo()]]}, era=era)

    async def main() -> None:
        with Client(server.stdio(stderr="discard")) as client:
            assert client.call_tool("echo", {"n": 1}).text == '{"n": 1}'

    run_async(main())
    assert not on_stdio.is_alive(server.pids[0])


@pytest.mark.req("V3")
def test_both_clients_work_side_by_side_in_one_loop(serve: Any) -> None:
    server = serve()

    async def main() -> None:
        async with AsyncClient(server.url) as other:
            waiting = asyncio.ensure_future(other.call_tool("echo", {"n": 1}))
            with Client(server.url) as client:
                assert client.call_tool("echo", {"n": 2}).text == '{"n": 2}'
            assert (await waiting).text == '{"n": 1}'

    run_async(main())


# --- loops ---------------------------------------------------------------------------------------


def with_uvloop(body: Coroutine[Any, Any, Any]) -> Any:
    """As `run_async`, on uvloop."""
    import uvloop

    complaints: list[Any] = []

    async def main() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        value = await body
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return value

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        value = runner.run(main())
    assert complaints == []
    return value


@pytest.mark.req("V3", "T1", "T4")
@ERAS
@SCRIPTS
def test_the_async_client_works_under_uvloop(serve: Any, era: str, script: Any) -> None:
    server = serve({"tools/call": script, "tools/list": hang()}, era=era, session=None)
    seen: list[float] = []

    async def main() -> None:
        async with AsyncClient(server.url) as client:
            calls = (client.call_tool("echo", {}, on_progress=lambda n, *_: seen.append(n)) for _ in range(20))
            assert [one.text for one in await asyncio.gather(*calls)] == ["good"] * 20
            with pytest.raises(RequestTimeout):
                await client.list_tools(timeout=0.05)
            task = asyncio.create_task(client.list_tools())
            await asyncio.to_thread(server.wait_until, lambda: server.count("tools/list") == 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            waiting = asyncio.create_task(client.list_tools())
            await asyncio.to_thread(server.wait_until, lambda: server.count("tools/list") == 3)
            assert (await client.call_tool("echo", {})).text == "good"
        with pytest.raises(ConnectionClosed):
            await waiting

    with_uvloop(main())
    server.wait_until(lambda: server.open == 0)
    assert server.count("notifications/cancelled") == (2 if era == "handshake" else 0)


@pytest.mark.req("V3", "W23")
def test_the_async_client_speaks_tls_under_uvloop(serve: Any, certificates: Any) -> None:
    server = serve(tls=certificates.server)

    async def main() -> None:
        async with AsyncClient(server.url, tls=certificates.ca_path) as client:
            assert (await client.call_tool("echo", {"n": 1})).text == '{"n": 1}'
            assert (await client.call_tool("echo", {"n": 2})).text == '{"n": 2}'

    with_uvloop(main())
    assert server.accepted == 1


@pytest.mark.req("V3", "D6")
@ERAS
def test_the_async_client_runs_a_child_under_uvloop(child: Any, era: str) -> None:
    server = child({"tools/call": [[on_stdio.stderr("noise\n"), on_stdio.echo()]]}, era=era)
    lines: list[bytes] = []

    async def main() -> None:
        async with AsyncClient(server.stdio(stderr=lines.append)) as client:
            calls = (client.call_tool("echo", {"n": n}) for n in range(20))
            assert [one.text for one in await asyncio.gather(*calls)] == [f'{{"n": {n}}}' for n in range(20)]

    with_uvloop(main())
    assert not on_stdio.is_alive(server.pids[0])
    assert lines == [b"noise"] * 20


USES: dict[str, Callable[[AsyncClient], Coroutine[Any, Any, Any]]] = {
    "connect": lambda client: client.connect(),
    "call_tool": lambda client: client.call_tool("echo", {}),
    "a view": lambda client: client.with_options(timeout=3).call_tool("echo", {}),
    "request": lambda client: client.request("tools/list"),
    "aclose": lambda client: client.aclose(),
}


@pytest.mark.req("V3")
@pytest.mark.parametrize("first", ["over", "running"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_an_async_client_in_a_second_loop_says_that_it_belongs_to_the_first(serve: Any, use: Any, first: str) -> None:
    server = serve()

    async def elsewhere(client: AsyncClient) -> None:
        with pytest.raises(ConfigError, match="event loop"):
            await use(client)

    async def main() -> AsyncClient:
        client = AsyncClient(server.url)
        await client.call_tool("echo", {})
        if first == "running":
            await asyncio.to_thread(lambda: Running(lambda: asyncio.run(elsewhere(client))).result(10))
            assert (await client.call_tool("echo", {})).text == "{}"
            await client.aclose()
        return client

    client = run_async(main())
    if first == "over":
        run_async(elsewhere(client))
    assert server.count("tools/call") == (1 if first == "over" else 2)
    del client


@pytest.mark.req("V3")
def test_an_async_client_outside_of_any_loop_says_so(serve: Any) -> None:
    client = AsyncClient(serve().url)
    coroutine = client.call_tool("echo", {})
    with pytest.raises(ConfigError, match="loop"):
        coroutine.send(None)


@pytest.mark.req("V3")
def test_each_thread_may_have_a_loop_and_a_client_of_its_own(serve: Any) -> None:
    server = serve(era="handshake")

    async def main(seat: int) -> list[str]:
        async with AsyncClient(server.url) as client:
            calls = (client.call_tool("echo", {"n": f"{seat}-{n}"}) for n in range(20))
            return [one.text for one in await asyncio.gather(*calls)]

    running = [Running(lambda seat=seat: run_async(main(seat))) for seat in range(4)]  # type: ignore[misc]
    for seat, one in enumerate(running):
        assert one.result() == [f'{{"n": "{seat}-{n}"}}' for n in range(20)]
    assert server.count("DELETE") == 4


# --- threads -------------------------------------------------------------------------------------

WITHOUT_THREADS = """
import sys, threading
import ferrule
started = []
start = threading.Thread.start
threading.Thread.start = lambda self: (started.append(self.name), start(self))
with ferrule.Client(sys.argv[1], timeout=5) as client:
    view = client.with_options(headers={"X-User": "1"})
    for one in (client, view):
        one.call_tool("echo", {})
        one.call_tool("echo", {}, on_progress=print)
        one.list_tools()
        list(one.iter_prompts())
    try:
        client.call_tool("slow", {}, timeout=0.05)
    except TimeoutError:
        pass
    assert threading.active_count() == 1, threading.enumerate()
assert threading.active_count() == 1, threading.enumerate()
print(started, "asyncio" in sys.modules)
"""


@pytest.mark.req("V3", "V2")
def test_no_call_over_http_makes_a_thread_or_a_loop(serve: Any) -> None:
    def call(turn: Any) -> None:
        (hang() if turn.request.params["name"] == "slow" else answer())(turn)

    server = serve({"tools/call": call})
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", WITHOUT_THREADS, server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr, done.returncode) == ("[] False\n", "", 0)


@pytest.mark.req("V3")
def test_a_name_is_looked_up_in_a_thread_that_ends_with_that(serve: Any) -> None:
    server = serve()
    with Client(server.url.replace("127.0.0.1", "localhost")) as client:
        client.call_tool("echo", {})
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("ferrule")]
        assert names == []


@pytest.mark.req("V3", "T2")
def test_the_thread_that_tells_of_a_timeout_ends_with_that(serve: Any) -> None:
    server = serve({"tools/call": hang()}, era="handshake", session=None)
    with Client(server.url) as client:
        with pytest.raises(RequestTimeout):
            client.call_tool("echo", {}, timeout=0.05)
        server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    assert not any(thread.name.startswith("ferrule") for thread in threading.enumerate())
