"""The scripted servers and the two-flavoured client face do what tests lean on."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
from collections.abc import Callable
from http.client import HTTPConnection

import pytest

from tests.support import child as on_stdio
from tests.support.child import ScriptedChild
from tests.support.clients import Running, run_async
from tests.support.scripted import ScriptedServer
from tests.support.steps import answer, close, progress, reset, result, stream, text, turns, wait

CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"a": 1}},
}


def post(server: ScriptedServer, message: object = CALL) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", "/mcp", json.dumps(message))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_scripted_server_answers_what_no_script_covers(
    serve: Callable[..., ScriptedServer],
) -> None:
    server = serve()
    status, body = post(server)
    assert status == 200
    assert json.loads(body)["result"]["content"][0]["text"] == '{"a": 1}'
    assert server.methods == ["tools/call"]
    assert server.requests[0].params["arguments"] == {"a": 1}


def test_scripts_take_turns_and_the_last_one_stays(serve: Callable[..., ScriptedServer]) -> None:
    server = serve({"tools/call": turns(reset(), answer(text("later")))})
    with pytest.raises(OSError):
        post(server)
    assert b"later" in post(server)[1]
    assert b"later" in post(server)[1]
    assert server.count("tools/call") == 3


def test_a_scripted_stream_is_held_until_the_test_lets_it_go(
    serve: Callable[..., ScriptedServer],
) -> None:
    go = threading.Event()
    server = serve({"tools/call": [wait(go), stream(progress(1, 2), result()), close()]})
    call = Running(lambda: post(server))
    server.wait_until(lambda: server.count("tools/call") == 1)
    assert not call.done
    go.set()
    assert call.result()[1].count(b"data: ") == 2


def test_closing_a_scripted_server_ends_a_held_script() -> None:
    never = threading.Event()
    with ScriptedServer({"tools/call": wait(never)}) as server:
        call = Running(lambda: post(server))
        server.wait_until(lambda: server.count("tools/call") == 1)
    assert isinstance(call.outcome(), Exception)


def test_a_mistake_in_a_script_fails_the_test() -> None:
    def broken(turn: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), ScriptedServer({"tools/call": broken}) as server:
        with pytest.raises(Exception, match=r".*"):
            post(server)
        server.wait_until(lambda: server.open == 0)


def test_a_scripted_child_counts_over_its_lives(child: Callable[..., ScriptedChild]) -> None:
    scripted = child({"tools/call": [[on_stdio.die(3)], [on_stdio.echo()]]})
    line = json.dumps(CALL).encode() + b"\n"
    first = subprocess.run(scripted.argv, input=line, capture_output=True, check=False, timeout=20)
    second = subprocess.run(scripted.argv, input=line, capture_output=True, check=False, timeout=20)
    assert (first.returncode, first.stdout) == (3, b"")
    assert second.returncode == 0
    assert json.loads(second.stdout)["result"]["content"][0]["text"] == '{"a": 1}'
    assert scripted.count("tools/call") == 2
    assert len(set(scripted.pids)) == 2


def test_an_error_nobody_took_fails_an_asyncio_test() -> None:
    async def main() -> None:
        asyncio.get_running_loop().create_future().set_exception(ValueError("lost"))

    with pytest.raises(AssertionError, match="lost"):
        run_async(main())


def test_a_task_left_running_fails_an_asyncio_test() -> None:
    kept: list[asyncio.Task[None]] = []

    async def main() -> None:
        kept.append(asyncio.create_task(asyncio.sleep(60)))

    with pytest.raises(AssertionError, match="tasks left"):
        run_async(main(), patience=0.01)


def test_ports_are_free_again_after_the_server_closed() -> None:
    with ScriptedServer() as server:
        port = server.port
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
