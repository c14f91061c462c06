"""Rule 8: a fork drops what it inherited without a word; the parent goes on as if nothing had happened."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

PRELUDE = """
import json, os, sys, threading, time
from tests.io.drivers import Receiver, ask, dial, until
from ferrule._io.blocking import BlockingIO, run
port = int(sys.argv[1])
report = {}

def in_child(body):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def play(program: str, port: int) -> Any:
    """Run the program; return what it reported."""
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-c",
            PRELUDE + program + "\nprint(json.dumps(report))",
            str(port),
        ],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


class Recording:
    """An echo that writes down, for each connection, what came and whether the end came."""

    def __init__(self) -> None:
        self.heard: list[bytearray] = []
        self.ended: list[bool] = []

    def __call__(self, sock: socket.socket) -> None:
        place = len(self.heard)
        self.heard.append(bytearray())
        self.ended.append(False)
        while data := sock.recv(65536):
            self.heard[place] += data
            sock.sendall(data)
        self.ended[place] = True


@pytest.mark.req("V3")
def test_a_fork_abandons_the_connection_and_dials_anew_while_the_parents_goes_on(peer: Any) -> None:
    recording = Recording()
    server = peer(recording)
    report = play(
        """
async def calls(io, receiver, stream, word):
    return (await ask(io, stream, receiver, word)).decode()

io = BlockingIO()
receiver = Receiver()
stream = run(dial(io, port, receiver))
report["before"] = run(calls(io, receiver, stream, b"parent 1\\n"))
report["forked in the parent"] = io.forked()

def child():
    assert io.forked()
    io.abandon()
    assert stream.closed
    assert receiver.lost == []
    fresh, ears = BlockingIO(), Receiver()
    other = run(dial(fresh, port, ears))
    assert run(calls(fresh, ears, other, b"child 1\\n")) == "child 1\\n"
    run(fresh.close(fresh.now() + 1))

report["child"] = in_child(child)
report["after"] = run(calls(io, receiver, stream, b"parent 2\\n"))
run(io.close(io.now() + 1))
""",
        server.port,
    )
    assert report == {
        "before": "parent 1\n",
        "forked in the parent": False,
        "child": 0,
        "after": "parent 2\n",
    }
    assert [bytes(heard) for heard in recording.heard] == [b"parent 1\nparent 2\n", b"child 1\n"]


@pytest.mark.req("V3")
def test_a_fork_while_another_thread_is_in_the_middle_of_a_call_touches_no_lock_and_no_byte(peer: Any) -> None:
    go = threading.Event()
    heard: list[bytes] = []

    def slow(sock: socket.socket) -> None:
        data = sock.recv(100)
        heard.append(data)
        if data == b"slow\n":
            go.wait(20)
        else:
            go.set()  # the child's call lets the parent's go on
        sock.sendall(data)
        while data := sock.recv(100):
            heard.append(data)

    server = peer(slow)
    report = play(
        """
io = BlockingIO()
receiver = Receiver()
stream = run(dial(io, port, receiver))
answers = []
thread = threading.Thread(target=lambda: answers.append(run(ask(io, stream, receiver, b"slow\\n")).decode()))
thread.start()
until(lambda: stream._waker.asleep)
held = [stream._lock, io._lock, io.mutex()]
for lock in held:
    lock.acquire()      # as if that thread had been in the middle of it

def child():
    io.abandon()
    fresh, ears = BlockingIO(), Receiver()
    other = run(dial(fresh, port, ears))
    assert run(ask(fresh, other, ears, b"child\\n")) == b"child\\n"
    run(fresh.close(fresh.now() + 1))

code = in_child(child)
for lock in held:
    lock.release()
thread.join(20)
report["child"], report["answers"] = code, answers
run(io.close(io.now() + 1))
""",
        server.port,
    )
    assert report == {"child": 0, "answers": ["slow\n"]}
    assert heard == [b"slow\n", b"child\n"]


@pytest.mark.req("V3", "W23")
def test_abandoning_a_tls_connection_puts_no_close_notify_on_the_wire(peer: Any, certificates: Any) -> None:
    recording = Recording()
    server = peer(recording, tls=certificates.server)
    report = play(
        f"""
import ssl
context = ssl.create_default_context(cafile={certificates.ca_path!r})
io = BlockingIO()
receiver = Receiver()
stream = run(dial(io, port, receiver, tls=context, server_hostname="localhost"))
run(ask(io, stream, receiver, b"parent 1\\n"))
def child():
    io.abandon()
    import gc
    gc.collect()
report["child"] = in_child(child)
report["after"] = run(ask(io, stream, receiver, b"parent 2\\n")).decode()
run(io.close(io.now() + 1))
""",
        server.port,
    )
    assert report == {"child": 0, "after": "parent 2\n"}
    assert bytes(recording.heard[0]) == b"parent 1\nparent 2\n"


@pytest.mark.req("V3", "D6")
def test_a_fork_leaves_the_parents_child_process_alone(peer: Any) -> None:
    report = play(
        """
program = "import sys\\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"
io = BlockingIO()
receiver = Receiver()
process = run(io.spawn([sys.executable, "-c", program], env={}, cwd=None, stderr="discard", receiver=receiver))
run(ask(io, process.stream, receiver, b"one\\n"))

def child():
    import gc
    global process, io
    io.abandon()
    process.kill()
    process.terminate()
    process = io = None
    gc.collect()

report["child"] = in_child(child)
report["answer"] = run(ask(io, process.stream, receiver, b"two\\n")).decode()
process.stream.finish_writing()
report["exit"] = run(process.wait_exit(io.now() + 10))
run(io.close(io.now() + 1))
""",
        9,
    )
    assert report == {"child": 0, "answer": "two\n", "exit": 0}


@pytest.mark.req("V3", "D6")
def test_a_fork_that_exits_normally_kills_nothing_of_the_parents(peer: Any) -> None:
    report = play(
        """
program = "import sys\\nfor line in sys.stdin: sys.stdout.write(line); sys.stdout.flush()"
io = BlockingIO()
receiver = Receiver()
process = run(io.spawn([sys.executable, "-c", program], env={}, cwd=None, stderr="discard", receiver=receiver))
pid = os.fork()
if pid == 0:
    sys.exit(0)     # with every finalizer and atexit handler
report["child"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
report["answer"] = run(ask(io, process.stream, receiver, b"two\\n")).decode()
run(io.close(io.now() + 1))
""",
        9,
    )
    assert report == {"child": 0, "answer": "two\n"}


@pytest.mark.req("V3")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_after_a_fork_the_asynchronous_driver_says_so_and_the_parents_loop_goes_on(peer: Any, loop: str) -> None:
    recording = Recording()
    server = peer(recording)
    report = play(
        f"""
import asyncio
from tests.io.drivers import Driver
from ferrule.errors import ConfigError
driver = Driver({loop!r})
async def scenario(io):
    receiver = Receiver()
    stream = await dial(io, port, receiver)
    await ask(io, stream, receiver, b"one\\n")

    def child():
        try:
            io.check()
        except ConfigError as error:
            assert "fork" in str(error)
            assert io.forked()
            io.abandon()
        else:
            raise AssertionError

    report["child"] = in_child(child)
    report["answer"] = (await ask(io, stream, receiver, b"two\\n")).decode()
driver.run(scenario)
""",
        server.port,
    )
    assert report == {"child": 0, "answer": "two\n"}
    assert bytes(recording.heard[0]) == b"one\ntwo\n"
