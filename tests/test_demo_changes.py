"""What the demo server says unasked, read as bytes: subscriptions of both eras, on both transports."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from subprocess import PIPE
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from ferrule._demo import changes
from ferrule._demo.http import HTTPServer
from tests.test_demo_server import HEADERS, ask, initialize, message, post

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
LISTEN = {**HEADERS, "Mcp-Method": "subscriptions/listen"}
COMMAND = [sys.executable, "-X", "dev", "-W", "error", "-m", "ferrule.demo_server"]
NOTE = "demo://note"


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """A server of this test's own, in this process."""
    with HTTPServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def connected(url: str) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def listening(url: str, body: dict[str, Any]) -> Iterator[HTTPResponse]:
    with connected(url) as connection, post(connection, body, LISTEN) as response:
        assert (response.status, response.getheader("Content-Type")) == (200, "text/event-stream")
        yield response


def listen(*uris: str, id: Any = "s", **wanted: bool) -> dict[str, Any]:
    return message("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris, **wanted}}, id)


def event(stream: IO[bytes] | HTTPResponse) -> Any:
    """The next message of an event stream, or of lines; None at the end."""
    for line in stream:
        if line.startswith((b"data: ", b"{")):
            return json.loads(line.removeprefix(b"data: "))
    return None


def note(text: str = "hello") -> dict[str, Any]:
    return message("tools/call", {"name": "note", "arguments": {"text": text}}, "n")


def write_note(url: str, text: str = "hello") -> None:
    with connected(url) as connection:
        status, answer = ask(connection, note(text), {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "note"})
    assert (status, answer["result"]["content"][0]["text"]) == (200, "Noted.")


def test_a_subscription_begins_with_what_is_honored_and_each_message_is_tagged(server: HTTPServer) -> None:
    asked = listen(NOTE, "demo://nowhere", id=7, toolsListChanged=True)
    with listening(server.url, asked) as one, listening(server.url, listen("demo://greeting", NOTE)) as two:
        for stream, id, uris in ((one, 7, [NOTE]), (two, "s", ["demo://greeting", NOTE])):
            params = {"_meta": {SUBSCRIPTION_ID: id}, "notifications": {"resourceSubscriptions": uris}}
            assert event(stream) == {"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}
        write_note(server.url)
        for stream, id in ((one, 7), (two, "s")):
            params = {"_meta": {SUBSCRIPTION_ID: id}, "uri": NOTE}
            assert event(stream) == {"jsonrpc": "2.0", "method": UPDATED, "params": params}


@pytest.mark.parametrize("wanted", [{}, {"notifications": []}, {"notifications": {"resourceSubscriptions": [1]}}])
def test_a_filter_in_another_shape_is_refused(server: HTTPServer, wanted: dict[str, Any]) -> None:
    with connected(server.url) as connection:
        status, answer = ask(connection, message("subscriptions/listen", wanted), LISTEN)
    assert (status, answer["error"]["code"]) == (400, -32602)


def test_a_quiet_subscription_shows_that_it_is_there(server: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "KEEP_ALIVE", 0.01)
    with listening(server.url, listen(NOTE)) as stream:
        assert event(stream)["method"] == ACKNOWLEDGED
        assert [stream.readline() for _ in range(3)] == [b"\n", b": still here\n", b"\n"]
        write_note(server.url)
        assert event(stream)["method"] == UPDATED


@contextmanager
def child(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([*COMMAND, *arguments], stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes, int]:
    """What a server writes when its input has ended, its complaints, and its exit status."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    return process.stdout.read(), process.stderr.read(), process.wait(20)


def test_a_server_that_is_told_to_stop_answers_its_subscriptions() -> None:
    with child("--http") as process:
        url = process.stdout.readline().decode().strip()  # type: ignore[union-attr] # it is a pipe
        with listening(url, listen(NOTE)) as stream:
            assert event(stream)["method"] == ACKNOWLEDGED
            process.terminate()
            end = event(stream)
            assert (end["id"], end["result"]["resultType"]) == ("s", "complete")
            assert end["result"]["_meta"][SUBSCRIPTION_ID] == "s"
            assert event(stream) is None
        assert rest(process) == (b"", b"", 0)


def call(method: str, uri: str = NOTE) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": method, "params": {"uri": uri}}


def test_a_session_is_told_of_what_it_subscribed_to_on_its_newest_stream(server: HTTPServer) -> None:
    with connected(server.url) as connection, connected(server.url) as first, connected(server.url) as second:
        session = initialize(connection)
        assert ask(connection, call("resources/subscribe"), session)[1]["result"] == {}
        first.request("GET", "/mcp", headers=session)
        with first.getresponse() as old:
            write_note(server.url)
            assert event(old) == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": NOTE}}
            second.request("GET", "/mcp", headers=session)
            with second.getresponse() as stream:
                assert event(old) is None
                write_note(server.url)
                assert event(stream)["params"] == {"uri": NOTE}
                assert ask(connection, call("resources/unsubscribe"), session)[1]["result"] == {}
                write_note(server.url)
                connection.request("DELETE", "/mcp", headers=session)
                assert connection.getresponse().read() == b""
                assert event(stream) is None


def test_what_cannot_be_read_cannot_be_watched(server: HTTPServer) -> None:
    with connected(server.url) as connection:
        session = initialize(connection)
        for method in ("resources/subscribe", "resources/unsubscribe"):
            _, answer = ask(connection, call(method, "demo://nowhere"), session)
            assert answer["error"]["code"] == -32002


def test_a_stream_of_an_unknown_session_is_refused(server: HTTPServer) -> None:
    with connected(server.url) as connection:
        connection.request("GET", "/mcp", headers={"Mcp-Session-Id": "x"})
        response = connection.getresponse()
        assert (response.status, json.loads(response.read())["error"]["message"]) == (404, "Unknown session")


def say(process: subprocess.Popen[bytes], *messages: dict[str, Any]) -> Any:
    """Write lines to a server over stdio, and read one message."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
    process.stdin.flush()
    return event(process.stdout)


def test_over_stdio_a_cancelled_subscription_says_nothing_more_and_another_ends_with_its_answer() -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    with child() as process:
        for id in (1, 2):
            assert say(process, listen(NOTE, id=id))["params"]["_meta"] == {SUBSCRIPTION_ID: id}
        told = [say(process, cancel, note()), say(process)]
        assert [one["params"]["_meta"] for one in told if "method" in one] == [{SUBSCRIPTION_ID: 2}]
        last, *end = rest(process)
    assert json.loads(last)["result"]["_meta"][SUBSCRIPTION_ID] == 2
    assert end == [b"", 0]


def test_over_stdio_the_session_is_told_of_what_it_subscribed_to() -> None:
    params = {"name": "note", "arguments": {"text": "hello"}}
    written = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
    with child() as process:
        assert say(process, call("resources/subscribe"))["result"] == {}
        told = [say(process, written), say(process)]
        assert [one["params"] for one in told if "method" in one] == [{"uri": NOTE}]
        assert say(process, call("resources/unsubscribe"))["result"] == {}
        assert say(process, written)["id"] == 3
        assert rest(process) == (b"", b"", 0)
