"""Children: their pipes, their stderr, their end and their descendants' end."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ferrule._io import Expired
from tests.io.drivers import ById, Driver, Receiver, ask, until

ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"
SLEEP = "import time\ntime.sleep(600)\n"


async def start(io: Any, program: str, receiver: Any = None, **options: Any) -> Any:
    """Start a Python child."""
    options = {"env": dict(os.environ), "cwd": None, "stderr": "discard", **options}
    return await io.spawn([sys.executable, "-c", program], receiver=receiver or Receiver(), **options)


def alive(pid: int) -> bool:
    """Does the process exist and is it no zombie?"""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and not alive(pid)


@pytest.mark.req("D1", "D7")
def test_lines_go_in_and_come_out_also_long_ones(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        receiver = Receiver()
        process = await start(io, ECHO, receiver)
        assert await ask(io, process.stream, receiver, b"hello\n") == b"hello\n"
        big = b"x" * 10_000_000 + b"\n"
        assert await ask(io, process.stream, receiver, big) == big
        assert process.exit_code() is None
        process.stream.finish_writing()
        assert await process.wait_exit(io.now() + 10) == 0
        assert process.exit_code() == 0

    driver.run(scenario)


@pytest.mark.req("D1")
@pytest.mark.parametrize("size", [1, 3])
def test_a_receiver_with_a_tiny_buffer_gets_every_byte(driver: Driver, size: int) -> None:
    async def scenario(io: Any) -> None:
        receiver = Receiver(size)
        process = await start(io, ECHO, receiver)
        line = bytes(range(32, 127)) * 20 + b"\n"
        assert await ask(io, process.stream, receiver, line) == line
        process.kill()

    driver.run(scenario)


@pytest.mark.req("D1")
@pytest.mark.parametrize(
    ("argv", "cwd", "error"),
    [
        (["no-such-command-7f3a"], None, FileNotFoundError),
        ([sys.executable], "/no/such/folder", FileNotFoundError),
        (["/etc"], None, PermissionError),
        (["nul\0byte"], None, OSError),
    ],
)
def test_a_command_that_cannot_be_started_is_an_os_error(
    driver: Driver, argv: list[str], cwd: str | None, error: type[OSError]
) -> None:
    async def scenario(io: Any) -> None:
        receiver = Receiver()
        with pytest.raises(error):
            await io.spawn(argv, env={"PATH": "/usr/bin"}, cwd=cwd, stderr="discard", receiver=receiver)
        assert receiver.lost == []

    driver.run(scenario)


@pytest.mark.req("D1")
def test_the_child_has_the_environment_and_the_folder_it_was_given_and_a_session_of_its_own(
    driver: Driver, tmp_path: Any
) -> None:
    program = "import os\nprint(sorted(os.environ)[:1], os.getcwd(), os.getsid(0) == os.getpid(), flush=True)"

    async def scenario(io: Any) -> bytes:
        receiver = Receiver()
        process = await start(io, program, receiver, env={"A_NAME": "x"}, cwd=str(tmp_path))
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        return bytes(slot.result())

    assert driver.run(scenario).decode() == f"['A_NAME'] {tmp_path} True\n"


@pytest.mark.req("D4")
def test_the_end_of_the_child_is_the_end_of_the_stream_and_its_status_is_known(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await start(io, "import sys\nsys.exit(3)", receiver)
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        with pytest.raises(EOFError):
            slot.result()
        assert receiver.lost == [None]
        assert await process.wait_exit(io.now() + 10) == 3
        with pytest.raises(OSError):
            await process.stream.write(b"x\n", io.now() + 1)

    driver.run(scenario)


@pytest.mark.req("D6")
def test_waiting_for_the_end_of_a_child_that_lives_on_gives_none_at_the_deadline(driver: Driver) -> None:
    async def scenario(io: Any) -> float:
        process = await start(io, SLEEP)
        began = io.now()
        assert await process.wait_exit(io.now() + 0.1) is None
        took = io.now() - began
        process.kill()
        assert await process.wait_exit(io.now() + 10) == -signal.SIGKILL
        process.kill()
        process.terminate()
        return float(took)

    assert 0.1 <= driver.run(scenario) < 2


@pytest.mark.req("D6")
def test_a_child_that_ignores_sigterm_ends_by_sigkill_and_leaves_no_zombie(driver: Driver) -> None:
    program = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\ntime.sleep(600)\n"
    )

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await start(io, program, receiver)
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        process.terminate()
        assert await process.wait_exit(io.now() + 0.1) is None
        process.kill()
        assert await process.wait_exit(io.now() + 10) == -signal.SIGKILL
        assert not zombie(process.pid)

    driver.run(scenario)


GRANDCHILD = (
    "import subprocess, sys, os\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
)


@pytest.mark.req("D6")
@pytest.mark.parametrize("leader", ["lives", "has exited"])
@pytest.mark.parametrize("method", ["terminate", "kill"])
def test_grandchildren_end_with_the_group_also_when_the_child_is_gone(driver: Driver, leader: str, method: str) -> None:
    program = GRANDCHILD + ("sys.stdin.read()\n" if leader == "lives" else "os._exit(0)\n")

    async def scenario(io: Any) -> int:
        receiver = Receiver()
        process = await start(io, program, receiver)
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        grandchild = int(slot.result())
        if leader == "has exited":
            assert await process.wait_exit(io.now() + 10) == 0
        assert alive(grandchild)
        getattr(process, method)()
        await driver.until(lambda: not alive(grandchild), "the grandchild's end")
        assert await process.wait_exit(io.now() + 10) is not None
        return grandchild

    assert driver.run(scenario) > 0


@pytest.mark.req("D6")
def test_a_group_that_is_empty_is_never_signalled_again(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(io: Any) -> None:
        process = await start(io, "pass")
        assert await process.wait_exit(io.now() + 10) == 0
        sent: list[int] = []
        monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(number))
        process.terminate()
        process.kill()
        assert sent == []
        monkeypatch.undo()

    driver.run(scenario)


@pytest.mark.req("D2")
def test_the_last_8_kib_of_a_flood_on_stderr_are_kept_and_the_child_never_blocks_on_it(driver: Driver) -> None:
    program = "import sys\nsys.stderr.write('x' * 3_000_000 + 'the end')\nsys.stderr.flush()\n" + ECHO

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await start(io, program, receiver)
        assert await ask(io, process.stream, receiver, b"hello\n") == b"hello\n"
        process.stream.finish_writing()
        assert await process.wait_exit(io.now() + 10) == 0
        tail = process.stderr_tail()
        assert len(tail) == 8192
        assert tail.endswith(b"xxthe end")

    driver.run(scenario)


@pytest.mark.req("D2", "D4")
def test_the_last_words_of_a_child_are_there_as_soon_as_it_has_ended(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        for _ in range(5):
            process = await start(io, "import sys\nsys.stderr.write('cannot go on')\nsys.exit(1)")
            assert await process.wait_exit(io.now() + 10) == 1
            assert process.stderr_tail() == b"cannot go on"

    driver.run(scenario)


@pytest.mark.req("D2")
def test_a_callable_gets_each_line_of_stderr_and_one_that_raises_harms_nothing(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    program = "import sys\nsys.stderr.write('one\\ntwo\\r\\n\\nbad\\nlast')"

    async def scenario(io: Any) -> list[bytes]:
        lines: list[bytes] = []

        def take(line: bytes) -> None:
            lines.append(line)
            if line == b"bad":
                raise ValueError("secret-7f3a")

        process = await start(io, program, stderr=take)
        assert await process.wait_exit(io.now() + 10) == 0
        await driver.until(lambda: b"last" in lines)
        assert process.stderr_tail().endswith(b"last")
        return lines

    assert driver.run(scenario) == [b"one", b"two", b"", b"bad", b"last"]
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.req("D2")
def test_a_stderr_line_without_an_end_is_handed_over_in_pieces_of_at_least_64_kib(driver: Driver) -> None:
    async def scenario(io: Any) -> list[bytes]:
        lines: list[bytes] = []
        process = await start(io, "import sys\nsys.stderr.write('y' * 1_000_000)", stderr=lines.append)
        assert await process.wait_exit(io.now() + 10) == 0
        process.stderr_tail()
        await driver.until(lambda: sum(map(len, lines)) == 1_000_000)
        return lines

    lines = driver.run(scenario)
    assert max(map(len, lines)) <= 2 * 65536 + 65536
    assert set(b"".join(lines)) == set(b"y")


@pytest.mark.req("D2")
def test_inherited_stderr_goes_to_this_process_and_keeps_nothing(
    driver: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scenario(io: Any) -> None:
        process = await start(io, "import sys\nsys.stderr.write('to everybody')", stderr="inherit")
        assert await process.wait_exit(io.now() + 10) == 0
        assert process.stderr_tail() == b""

    driver.run(scenario)
    assert "to everybody" in capfd.readouterr().err


@pytest.mark.req("D5", "T1")
def test_a_child_that_stops_reading_costs_the_deadline_and_what_was_begun_is_finished_later(driver: Driver) -> None:
    program = "import signal, sys\nsignal.sigwait([signal.SIGUSR1])\n" + ECHO
    setup = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\nprint('ready', flush=True)\n"

    async def scenario(io: Any) -> None:
        receiver = ById()
        ready = receiver.slots[b"ready"] = io.slot()
        process = await start(io, setup + program, receiver)
        await process.stream.wait(ready, io.now() + 10)
        began = io.now()
        with pytest.raises(Expired):
            await process.stream.write(b"1 " + b"a" * 1_000_000 + b"\n", io.now() + 0.1)
        assert 0.1 <= io.now() - began < 2
        # The next one is not begun at all: it waits for the first one's rest.
        with pytest.raises(Expired):
            await process.stream.write(b"2 never\n", io.now() + 0.05)
        os.kill(process.pid, signal.SIGUSR1)
        slots = [io.slot(), io.slot()]
        receiver.slots[b"1"], receiver.slots[b"3"] = slots
        await process.stream.write(b"3 now\n", io.now() + 10)
        for slot in slots:
            await process.stream.wait(slot, io.now() + 10)
        assert slots[0].result() == b"1 " + b"a" * 1_000_000
        assert slots[1].result() == b"3 now"
        assert process.exit_code() is None
        process.kill()

    driver.run(scenario)


@pytest.mark.req("D5")
def test_big_lines_of_8_writers_at_once_come_back_whole(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        receiver = ById()
        process = await start(io, ECHO, receiver)

        async def call(number: int) -> int:
            name = b"%d" % number
            line = name + b" " + name * 400_000
            slot = receiver.slots[name] = io.slot()
            await process.stream.write(line + b"\n", io.now() + 20)
            await process.stream.wait(slot, io.now() + 20)
            assert slot.result() == line
            return number

        assert await driver.together(*map(call, range(8))) == list(range(8))
        process.kill()

    driver.run(scenario)


@pytest.mark.req("D4", "D5")
def test_writing_to_a_child_that_has_ended_is_an_os_error_and_no_signal(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        process = await start(io, "pass")
        assert await process.wait_exit(io.now() + 10) == 0
        with pytest.raises(OSError):
            for _ in range(3):
                await process.stream.write(b"x" * 1000, io.now() + 1)

    driver.run(scenario)


@pytest.mark.req("D4", "D5")
def test_a_child_that_closes_its_stdin_fails_the_writers_and_can_still_be_read(driver: Driver) -> None:
    program = (
        "import os, sys, time\nos.close(0)\nprint('closed', flush=True)\nprint('more', flush=True)\ntime.sleep(600)"
    )

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await start(io, program, receiver)
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        with pytest.raises(OSError):
            await process.stream.write(b"x" * 1_000_000, io.now() + 5)
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        assert slot.result() == b"more\n"
        process.kill()

    driver.run(scenario)


@pytest.mark.req("D6")
def test_finishing_writes_what_was_begun_or_says_that_it_did_not(driver: Driver) -> None:
    program = "import sys\ndata = sys.stdin.read()\nprint(len(data), flush=True)"

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await start(io, program, receiver)
        slot = receiver.expect(io.slot())
        await process.stream.write(b"z" * 2_000_000, io.now() + 10)
        process.stream.finish_writing()
        process.stream.finish_writing()
        await process.stream.wait(slot, io.now() + 10)
        assert slot.result() == b"2000000\n"
        with pytest.raises(OSError):
            await process.stream.write(b"more", io.now() + 1)
        assert await process.wait_exit(io.now() + 10) == 0

    driver.run(scenario)


@pytest.mark.req("D6", "T7")
def test_a_forgotten_process_object_takes_its_child_and_grandchildren_with_it(driver: Driver) -> None:
    if not driver.blocking:
        pytest.skip("the loop holds what reads from it; closing the IO ends the child")

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await start(io, GRANDCHILD + "sys.stdin.read()\n", receiver)
        slot = receiver.expect(io.slot())
        await process.stream.wait(slot, io.now() + 10)
        pid, grandchild = process.pid, int(slot.result())
        del process
        gc.collect()
        until(lambda: not alive(grandchild))
        until(lambda: not Path(f"/proc/{pid}").exists())

    driver.run(scenario)


@pytest.mark.req("D6")
@pytest.mark.parametrize("way", ["return", "exception", "interrupt"])
def test_a_program_that_ends_without_closing_leaves_no_child_behind(driver: Driver, way: str) -> None:
    import subprocess

    end = {
        "return": "pass",
        "exception": "raise ValueError",
        "interrupt": "import signal; signal.raise_signal(signal.SIGINT)",
    }[way]
    program = f"""
import sys, asyncio
from tests.io.drivers import Driver, Receiver
driver = Driver({driver.name!r})
async def scenario(io):
    process = await io.spawn([sys.executable, "-c", "import time; time.sleep(600)"], env={{}}, cwd=None,
                             stderr="discard", receiver=Receiver())
    print(process.pid, flush=True)
    {end}
driver.run(scenario, close=False)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    pid = int(done.stdout.splitlines()[0])
    end_at = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < end_at
        time.sleep(0.01)
    assert "ResourceWarning" not in done.stderr


@pytest.mark.req("D6", "V3")
def test_pipes_bridged_to_a_socket_carry_lines_and_both_ends(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where pipes cannot be polled; the bridge itself is the same everywhere."""
    import asyncio

    from ferrule._io import processes
    from ferrule._io.asyncio_stream import BridgeStream
    from ferrule._io.blocking_stream import BlockingStream
    from ferrule._io.channels import SocketChannel

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        child = processes.Child([sys.executable, "-c", ECHO], env=dict(os.environ), cwd=None, stderr="inherit")
        sock = processes.bridge(child.stdin, child.stdout)
        sock.setblocking(False)
        stream: Any
        if io.blocking:
            stream = BlockingStream(io._wakers, SocketChannel(sock), receiver)
        else:
            io.check()
            stream = BridgeStream(io, sock, receiver)
            await asyncio.get_running_loop().create_connection(lambda: stream, sock=sock)
        assert await ask(io, stream, receiver, b"hello\n") == b"hello\n"
        big = b"x" * 5_000_000 + b"\n"
        assert await ask(io, stream, receiver, big) == big
        slot = receiver.expect(io.slot())
        stream.finish_writing()
        await stream.wait(slot, io.now() + 10)
        assert receiver.lost == [None]
        await driver.until(lambda: child.group.exit_code() == 0)
        stream.close()

    driver.run(scenario)
