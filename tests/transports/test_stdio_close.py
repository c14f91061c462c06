"""The end of a child and of its client: closed, left alone, or taken along by the program that ends."""

import asyncio
import gc
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Limits
from ferrule.errors import ConnectionClosed, ServerExited
from tests.support.child import ScriptedChild, die, echo, grandchild, is_alive, is_running, sleep, stderr, stubborn

both_eras = pytest.mark.parametrize("era", ["stateless", "handshake"])
QUICK = Limits(exit_grace=0.2)


def ended(server: ScriptedChild) -> bool:
    return not any(is_alive(pid) for pid in server.pids)


# --- closing -------------------------------------------------------------------------------------


@pytest.mark.req("D6", "T7")
@both_eras
def test_closing_ends_the_input_and_the_child_goes_by_itself(
    flavour: Any, child: Any, tmp_path: Path, era: str
) -> None:
    server = child({"eof": [[stderr("goodbye\n")]]}, era=era)
    taken: list[bytes] = []
    client = flavour.connect(server.stdio(stderr=taken.append))
    client.call_tool("x", {})
    client.close()
    assert ended(server)
    server.wait_until(lambda: taken == [b"goodbye"])


@pytest.mark.req("D6", "T7")
@pytest.mark.parametrize(
    ("rules", "grace"),
    [
        ({"start": [[stubborn()]]}, 0.2),  # ignores the end of its input and SIGTERM
        ({"eof": [[sleep(60)]]}, 0.2),  # ignores the end of its input
        ({"tools/call": [[echo(), sleep(60)]]}, 0.2),  # reads no more
        ({"start": [[stubborn()]]}, 0),
    ],
)
def test_a_child_that_does_not_want_to_end_is_made_to(flavour: Any, child: Any, rules: Any, grace: float) -> None:
    server = child(rules)
    client = flavour.connect(server.stdio(), limits=Limits(exit_grace=grace))
    client.call_tool("x", {})
    client.close()
    assert ended(server)


@pytest.mark.req("T7")
def test_close_timeout_bounds_the_close_of_a_stubborn_child(flavour: Any, child: Any) -> None:
    server = child({"start": [[stubborn()]]})
    client = flavour.connect(server.stdio(), limits=Limits(close_timeout=0.5))
    started = time.monotonic()
    client.close()
    assert time.monotonic() - started < 2
    assert ended(server)


@pytest.mark.req("D6")
@pytest.mark.parametrize("leave", ["close", "exit"])
def test_what_the_child_started_does_not_survive(flavour: Any, child: Any, tmp_path: Path, leave: str) -> None:
    pid_file = tmp_path / "pid"
    server = child({"start": [[grandchild(pid_file)]], "tools/call": [[die(1)]]})
    client = flavour.connect(server.stdio(), limits=QUICK)
    server.wait_until(pid_file.exists)
    if leave == "close":
        client.close()
    else:
        with pytest.raises(ServerExited):
            client.call_tool("x", {})
    server.wait_until(lambda: not is_running(int(pid_file.read_text())))


@pytest.mark.req("T7", "T3")
@both_eras
def test_closing_fails_waiting_calls_at_once_and_cancels_none(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None)
    running = [flavour.start(client.call_tool, "x", {}) for _ in range(4)]
    server.wait_until(lambda: server.count("tools/call") == 4)
    client.close()
    for each in running:
        outcome = each.outcome()
        assert isinstance(outcome, ConnectionClosed)
        assert outcome.request_sent
    assert ended(server)
    assert server.count("notifications/cancelled") == 0


@pytest.mark.req("T7")
def test_closing_fails_waiting_calls_before_a_stubborn_child_has_ended(flavour: Any, child: Any) -> None:
    server = child({"start": [[stubborn()]], "tools/call": [[]]})
    client = flavour.connect(server.stdio(), timeout=None, limits=Limits(exit_grace=0.5))
    running = flavour.start(client.call_tool, "x", {})
    server.wait_until(lambda: server.count("tools/call") == 1)
    closing = flavour.start(client.close)
    assert isinstance(running.outcome(), ConnectionClosed)
    assert not closing.done
    assert is_running(server.pids[0])
    closing.result()
    assert ended(server)


@pytest.mark.req("T7", "D5")
def test_closing_frees_a_writer_whose_child_reads_no_more(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[sleep(60)]]})
    client = flavour.connect(server.stdio(), timeout=None, limits=QUICK)
    first = flavour.start(client.call_tool, "x", {})
    server.wait_until(lambda: server.count("tools/call") == 1)
    second = flavour.start(client.call_tool, "x", {"fill": "x" * 1_000_000})
    third = flavour.start(client.call_tool, "x", {})
    client.close()
    for running in (first, second, third):
        assert isinstance(running.outcome(), ConnectionClosed)
    assert ended(server)


@pytest.mark.req("D6")
def test_an_exception_of_the_callers_leaves_no_process(flavour: Any, child: Any) -> None:
    server = child()
    with pytest.raises(ZeroDivisionError), flavour.client(server.stdio()) as client:
        client.call_tool("x", {})
        raise ZeroDivisionError
    assert ended(server)


# --- programs that end without closing -----------------------------------------------------------

SYNC = """
import sys
from ferrule import Client, Limits, Stdio
client = Client(Stdio(*sys.argv[2:]), limits=Limits(exit_grace=0.2))
client.call_tool("first", {})
if sys.argv[1] == "raise":
    raise ValueError("mine")
if sys.argv[1] == "with":
    with client:
        client.call_tool("second", {})
client.call_tool("second", {})
"""

ASYNC = """
import asyncio, sys
from ferrule import AsyncClient, Limits, Stdio
async def main():
    client = AsyncClient(Stdio(*sys.argv[2:]), limits=Limits(exit_grace=0.2))
    await client.call_tool("first", {})
    if sys.argv[1] == "raise":
        raise ValueError("mine")
    if sys.argv[1] == "with":
        async with client:
            await client.call_tool("second", {})
    await client.call_tool("second", {})
asyncio.run(main())
"""


@pytest.mark.req("D6")
@pytest.mark.parametrize("how", ["raise", "interrupt", "with"])
@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_no_process_survives_a_program_that_ends_by_an_exception(
    child: Any, tmp_path: Path, how: str, program: str
) -> None:
    pid_file = tmp_path / "pid"
    # It ignores the end of its input and SIGTERM, and has a child of its own.
    script = {"start": [[stubborn(), grandchild(pid_file)]], "tools/call": [[echo()], []]}
    server = child(script)
    parent = subprocess.Popen(
        [sys.executable, "-W", "error::ResourceWarning", "-c", program, how, *server.argv],
        stderr=subprocess.PIPE,
        text=True,
    )
    if how != "raise":
        server.wait_until(lambda: server.count("tools/call") == 2 and pid_file.exists())
        parent.send_signal(signal.SIGINT)
    _, shown = parent.communicate(timeout=20)
    assert ("ValueError: mine" if how == "raise" else "KeyboardInterrupt") in shown
    assert "ResourceWarning" not in shown
    assert "never awaited" not in shown
    server.wait_until(lambda: not is_running(server.pids[0]))
    server.wait_until(lambda: not is_running(int(pid_file.read_text())))


MEMORY = """
import resource, sys
from ferrule import Client, Stdio
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Client(Stdio(*sys.argv[1:])) as client:
    client.call_tool("small", {})
    before = peak()
    size = len(client.call_tool("big", {}).text)
    print(size, (peak() - before) * 1024)
"""


@pytest.mark.req("D7")
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB there")
def test_a_long_line_takes_memory_in_proportion(child: Any) -> None:
    size = 40 << 20
    server = child({"tools/call": [[echo()], [["big", size]]]})
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, *server.argv], capture_output=True, text=True, check=True, timeout=30
    )
    received, grown = map(int, run.stdout.split())
    assert received == size
    # The line in the framer, the line as bytes, the text; not one copy for each read.
    assert grown < 4.5 * size


@pytest.mark.req("T7")
def test_an_async_client_that_nobody_closed_takes_its_child_along(child: Any) -> None:
    server = child()

    async def main() -> None:
        client = AsyncClient(server.stdio())
        await client.call_tool("x", {})
        del client
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
        server.wait_until(lambda: ended(server), timeout=3)

    asyncio.run(main())


@pytest.mark.req("T7")
def test_a_client_that_nobody_closed_takes_its_child_along(child: Any) -> None:
    server = child()
    client = Client(server.stdio())
    client.call_tool("x", {})
    del client
    gc.collect()
    assert ended(server)
