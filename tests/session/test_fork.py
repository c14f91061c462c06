"""A client in a process that forks: the child starts afresh, and the parent never notices."""

from __future__ import annotations

import json
import subprocess
import sys
from threading import Event
from typing import Any

import pytest

from ferrule import Client
from tests.support import child as on_stdio
from tests.support.steps import answer, initialized, text, wait

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])

PRELUDE = """
import asyncio, gc, json, os, signal, sys, threading, time, traceback
from ferrule import AsyncClient, Client, Limits, Stdio
from ferrule.errors import ConfigError, ConnectionClosed
target = sys.argv[1] if len(sys.argv) == 2 else Stdio(*sys.argv[1:], stderr="discard")
report = {}

def until(condition):
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.002)

def fork(body, exits=os._exit):
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(15)    # a child that hangs is a failure, not a hang of the parent
    code = 1
    try:
        body()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        exits(code)

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def say(client, who):
    return client.call_tool("echo", {"who": who}).text
"""


def play(program: str, *target: str) -> Any:
    """Run the program in a process of its own, warnings as errors; what it reported."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-W", "ignore:.*fork.*:DeprecationWarning", "-c"]
    done = subprocess.run(
        [*command, f"{PRELUDE}\n{program}\nprint(json.dumps(report))", *target],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])


def numbered_sessions() -> Any:
    """Answer each `initialize` with a session of its own."""
    count = iter(range(1000))
    return lambda turn: answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn)


def speakers(server: Any) -> dict[int, set[str]]:
    """Who spoke over each connection, as far as tool calls tell."""
    found: dict[int, set[str]] = {}
    for call in server.calls():
        found.setdefault(call.connection, set()).add(call.params["arguments"]["who"].partition(" ")[0])
    return found


def check_apart(server: Any) -> None:
    """No connection and no session was used by two processes."""
    assert all(len(who) == 1 for who in speakers(server).values())
    sessions: dict[str, set[str]] = {}
    for call in server.calls():
        id = call.header("Mcp-Session-Id") or f"connection {call.connection}"
        sessions.setdefault(id, set()).add(call.params["arguments"]["who"].partition(" ")[0])
    assert all(len(who) == 1 for who in sessions.values())


@pytest.mark.req("V3", "T7", "S3")
@ERAS
def test_a_fork_in_the_midst_of_a_call_leaves_that_call_alone_and_makes_its_own_connection(
    serve: Any, era: str
) -> None:
    go = Event()

    def call(turn: Any) -> None:
        who = turn.request.params["arguments"]["who"]
        if who == "parent slow":
            wait(go)(turn)
        if who == "child 2":
            go.set()
        answer(text(who))(turn)

    server = serve({"tools/call": call, "initialize": numbered_sessions()}, era=era)
    report = play(
        """
client = Client(target)
say(client, "parent 1")
answers = []
thread = threading.Thread(target=lambda: answers.append(say(client, "parent slow")))
thread.start()
until(lambda: len(client._session.transport._pool._idle) == 0)

def child():
    assert [say(client, "child 1"), say(client, "child 2")] == ["child 1", "child 2"]
    client.close()
    client.close()
    try:
        say(client, "child 3")
    except ConnectionClosed:
        return
    raise AssertionError("closed, and still at work")

report["child"] = ended(fork(child))
thread.join(10)
report["answers"] = answers
report["after"] = say(client, "parent 2")
client.close()
""",
        server.url,
    )
    assert report == {"child": 0, "answers": ["parent slow"], "after": "parent 2"}
    check_apart(server)
    assert len(speakers(server)) == 2  # the parent's, and the child's
    assert server.count("server/discover") == 1  # what is known of the server is inherited
    if era == "handshake":
        ended = [request.header("Mcp-Session-Id") for request in server.calls("DELETE")]
        assert sorted(ended) == ["s-0", "s-1"]
        assert {call.header("Mcp-Session-Id") for call in server.calls() if call.connection == 0} == {"s-0"}


@pytest.mark.req("V3", "T7", "S3")
@ERAS
@pytest.mark.parametrize(
    "leave",
    [
        "sys.exit(0)",
        "client.close()",
        "view.close(); client.close()",
        "client = view = None; gc.collect()",
        "view.close()",
    ],
)
def test_a_child_that_only_leaves_says_nothing_on_the_wire(serve: Any, era: str, leave: str) -> None:
    server = serve({"initialize": numbered_sessions()}, era=era)
    report = play(
        f"""
with Client(target) as client:
    view = client.with_options(headers={{"X-User": "1"}})
    say(view, "parent 1")
    pid = os.fork()
    if pid == 0:
        {leave}
        os._exit(0)
    report["child"] = ended(pid)
    seen = say(client, "parent 2"), say(view, "parent 3")
""",
        server.url,
    )
    assert report == {"child": 0}
    methods = [method for method in server.methods if method.startswith("tools/") or method == "DELETE"]
    assert methods == ["tools/call"] * 3 + ["DELETE"] * (2 if era == "handshake" else 0)
    assert server.accepted <= 2  # one, and perhaps one to end two sessions at once


@pytest.mark.req("V3", "N14")
@ERAS
@pytest.mark.parametrize("first", ["view", "client"])
def test_views_are_made_anew_with_their_client_and_keep_their_credentials(serve: Any, era: str, first: str) -> None:
    server = serve({"initialize": numbered_sessions()}, era=era)
    order = "(view, client)" if first == "view" else "(client, view)"
    report = play(
        f"""
client = Client(target, auth="root")
view = client.with_options(auth="user")
say(client, "parent 1"), say(view, "parent 2")

def child():
    for one in {order}:
        say(one, "child 1")
    newer = view.with_options(headers={{"X-User": "2"}})
    say(newer, "child 2")
    client.close()

report["child"] = ended(fork(child))
say(view, "parent 3")
client.close()
""",
        server.url,
    )
    assert report == {"child": 0}
    check_apart(server)
    said = [(call.params["arguments"]["who"], (call.header("Authorization") or "")[7:]) for call in server.calls()]
    middle = [("child 1", "user"), ("child 1", "root")]
    assert said[:2] == [("parent 1", "root"), ("parent 2", "user")]
    assert said[2:4] == (middle if first == "view" else middle[::-1])
    assert said[4:] == [("child 2", "user"), ("parent 3", "user")]
    if era == "handshake":
        assert server.count("initialize") == server.count("DELETE") == 5


@pytest.mark.req("V3", "D6", "N14")
@ERAS
@pytest.mark.parametrize("first", ["view", "client"])
def test_a_fork_starts_a_server_of_its_own_and_leaves_the_parents_running(child: Any, era: str, first: str) -> None:
    server = child({"tools/call": [[on_stdio.echo()]]}, era=era)
    report = play(
        f"""
client = Client(target)
view = client.with_options(timeout=20)
say(client, "parent 1")

def child():
    say({first}, "child 1")
    say(client, "child 2")
    say(view, "child 3")
    client.close()

report["child"] = ended(fork(child))
report["after"] = say(view, "parent 2")
report["left"] = ended(fork(lambda: None, sys.exit))
say(client, "parent 3")
client.close()
""",
        *server.argv,
    )
    assert report == {"child": 0, "left": 0, "after": '{"who": "parent 2"}'}
    assert len(server.pids) == 2
    assert server.count("initialize") == (2 if era == "handshake" else 0)
    assert server.count("tools/call") == 6
    assert not any(on_stdio.is_running(pid) for pid in server.pids)


@pytest.mark.req("V3", "N10", "V5")
@ERAS
def test_threads_of_the_child_that_come_at_once_agree_on_one_new_beginning(serve: Any, era: str) -> None:
    server = serve({"initialize": numbered_sessions()}, era=era)
    report = play(
        """
client = Client(target)
say(client, "parent 1")
sys.setswitchinterval(1e-6)

def child(number):
    failures = []
    barrier = threading.Barrier(8)
    def work():
        try:
            barrier.wait(10)
            say(client, f"child{number} 1")
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [], failures
    client.close()

report["children"] = [ended(fork(lambda: child(number))) for number in range(10)]
say(client, "parent 2")
client.close()
""",
        server.url,
    )
    assert report == {"children": [0] * 10}
    check_apart(server)
    assert server.count("tools/call") == 82
    if era == "handshake":
        assert server.count("initialize") == server.count("DELETE") == 11


@pytest.mark.req("V3", "V5")
def test_a_thread_that_comes_late_to_the_new_beginning_finds_it_made(serve: Any, monkeypatch: Any) -> None:
    with Client(serve().url) as client:
        client.call_tool("echo", {})
        peer = client._session.peer
        monkeypatch.setattr(peer.io, "_pid", -1)
        made = []
        for _ in range(3):
            peer.renew_after_fork()
            made.append((peer.io, peer.transport, peer.generation))
        assert made[0] == made[1] == made[2]
        assert client.call_tool("echo", {}).text == "{}"


@pytest.mark.req("V3", "V5")
@ERAS
def test_whatever_threads_are_at_when_the_process_forks_the_child_is_free_of_it(serve: Any, era: str) -> None:
    server = serve(era=era, session=None)
    report = play(
        """
sys.setswitchinterval(1e-6)
client = Client(target, limits=Limits(max_connections=2))
say(client, "parent 1")
over, failures = threading.Event(), []

def work():
    try:
        while not over.is_set():
            say(client, "parent n")
    except BaseException as error:
        failures.append(repr(error))

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()

def child():
    say(client, "child n")
    client.close()

report["children"] = [ended(fork(child)) for _ in range(25)]
over.set()
for thread in threads:
    thread.join()
report["failures"] = failures
client.close()
""",
        server.url,
    )
    assert report == {"children": [0] * 25, "failures": []}
    assert all(len(who) == 1 for who in speakers(server).values())


@pytest.mark.req("V3")
def test_a_fork_of_a_fork_starts_afresh_too(serve: Any) -> None:
    server = serve(era="handshake", session=None)
    report = play(
        """
client = Client(target)
say(client, "parent 1")

def grandchild():
    say(client, "grandchild 1")
    client.close()

def child():
    say(client, "child 1")
    assert ended(fork(grandchild)) == 0
    say(client, "child 2")
    client.close()

report["child"] = ended(fork(child))
say(client, "parent 2")
client.close()
""",
        server.url,
    )
    assert report == {"child": 0}
    check_apart(server)
    assert len(speakers(server)) == 3


@pytest.mark.req("V3", "T7")
@ERAS
@pytest.mark.parametrize("target", ["http", "stdio"])
def test_an_async_client_says_that_it_is_the_parents_and_the_parent_goes_on(
    serve: Any, child: Any, era: str, target: str
) -> None:
    if target == "http":
        server = serve({"initialize": numbered_sessions()}, era=era)
    else:
        server = child({"tools/call": [[on_stdio.echo()]]}, era=era)
    report = play(
        """
async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # the fork is
    async with AsyncClient(target) as client:
        await client.call_tool("echo", {"who": "parent 1"})

        def child():
            async def use():
                view = client.with_options(timeout=3)
                for call in (client.call_tool("echo", {}), view.list_tools(), client.aclose(), client.connect()):
                    try:
                        await call
                    except ConfigError as error:
                        assert "fork" in str(error)
                    else:
                        raise AssertionError("it worked")
                async with AsyncClient(target) as other:
                    await other.call_tool("echo", {"who": "child 1"})

            # The loop that runs is the parent's; the child makes one of its own, as it must.
            asyncio.set_event_loop(None)
            asyncio.run(use())

        report["child"] = ended(fork(child))
        await client.call_tool("echo", {"who": "parent 2"})

asyncio.run(main())
""",
        *([server.url] if target == "http" else server.argv),
    )
    assert report == {"child": 0}
    if target == "http":
        check_apart(server)
        assert server.count("DELETE") == (2 if era == "handshake" else 0)
    else:
        assert len(server.pids) == 2
        assert not any(on_stdio.is_running(pid) for pid in server.pids)
    assert server.count("tools/call") == 3
