"""Broken servers of every kind, over HTTP and stdio: the right error in time, and nobody else disturbed.

Whatever is broken says `MARKER`; no text of the library ever does.
"""

import gzip
import json
import socket
import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from ferrule import Limits, Retry, Stdio
from ferrule.errors import (
    ConfigError,
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    InvalidMessage,
    InvalidResult,
    LimitExceeded,
    RequestTimeout,
    RPCError,
    ServerExited,
)
from tests.support import child as on_stdio
from tests.support.steps import (
    CHUNKED,
    JSON,
    SSE,
    answer,
    chunk,
    close,
    error,
    event,
    hang,
    http,
    raw,
    reset,
    result_for,
    status,
    text,
    turns,
    wait,
)
from tests.support.texts import logged, texts_of

MARKER = "secret-7f3a"
SAID = MARKER.encode()
DEADLINE = 0.4
"""Seconds for the calls that a silent server makes wait."""
PATIENT = 10.0
ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])


def cut(data: bytes, headers: list[tuple[str, str]]) -> list[Any]:
    """A response that ends in the middle."""
    return [raw(http(200, b"", headers, length=False) + data), close()]


def half_gzip(request: Any) -> bytes:
    body = gzip.compress(json.dumps(result_for(request, text(MARKER))).encode())
    return http(200, body[:-10] + SAID, [JSON, ("Content-Encoding", "gzip")])


def other_id(request: Any) -> bytes:
    return http(200, json.dumps({"jsonrpc": "2.0", "id": 10**6, "result": text(MARKER)}).encode(), [JSON])


def bad_number(request: Any) -> bytes:
    return http(200, b'{"jsonrpc":"2.0","id":%d,"result":{"x":NaN,"%b":1}}' % (request.message["id"], SAID), [JSON])


LONG = [JSON, ("Content-Length", "1000")]
CODED = [JSON, ("Content-Encoding", "gzip")]

HTTP_FAULTS: dict[str, tuple[Any, type[FerruleError]]] = {
    # a page, or noise, instead of an answer
    "a page": (status(200, b"<html>" + SAID, content_type="text/html"), InvalidMessage),
    "an error page": (status(502, b"<html>" + SAID, content_type="text/html"), HTTPStatusError),
    "a page under a json type": (status(200, b"<html>" + SAID, content_type="application/json"), InvalidMessage),
    "an error page under a json type": (
        status(500, b"<html>" + SAID, content_type="application/json"),
        HTTPStatusError,
    ),
    "another protocol": ([raw(b"SSH-2.0-OpenSSH_" + SAID + b"\r\n\r\n"), close()], InvalidMessage),
    "binary noise": ([raw(b"\x16\x03\x01\x00" + SAID + bytes(range(256))), close()], InvalidMessage),
    "noise in the head": ([raw(b"HTTP/1.1 200 OK\r\n" + SAID + b"\r\n\r\n"), close()], InvalidMessage),
    "noise after the status": (raw(b"HTTP/1.1 2x0 " + SAID + b"\r\n\r\n"), InvalidMessage),
    "events that are none": (raw(http(200, b"data: " + SAID + b"\n\n", [SSE])), InvalidMessage),
    "a stream of noise": (raw(http(200, SAID + b"\n\xff\x00\n\n", [SSE])), ConnectionClosed),
    # dies in the middle of the call
    "closes at once": (close(), ConnectionClosed),
    "resets at once": (reset(), ConnectionClosed),
    "cuts the head": ([raw(b"HTTP/1.1 200 OK\r\nX-A: " + SAID), close()], ConnectionClosed),
    "cuts the body": (cut(b'{"jsonrpc": "' + SAID, LONG), ConnectionClosed),
    "cuts a chunk": (cut(b"ff\r\n" + SAID, [JSON, CHUNKED]), ConnectionClosed),
    "cuts before the last chunk": (cut(chunk(SAID), [JSON, CHUNKED]), ConnectionClosed),
    "cuts an event": (cut(chunk(b"data: " + SAID), [SSE, CHUNKED]), ConnectionClosed),
    "resets inside the body": ([raw(http(200, SAID, LONG, length=False)), reset()], ConnectionClosed),
    "ends without an answer": (raw(http(200, b": " + SAID + b"\n\n", [SSE])), ConnectionClosed),
    # hangs
    "never answers": (hang(), RequestTimeout),
    "never ends the head": ([raw(b"HTTP/1.1 200 OK\r\nX-A: " + SAID), hang()], RequestTimeout),
    "never ends the body": ([raw(http(200, SAID, LONG, length=False)), hang()], RequestTimeout),
    "never ends the chunk": ([raw(http(200, b"ff\r\n" + SAID, [JSON, CHUNKED], length=False)), hang()], RequestTimeout),
    "never answers on its stream": (
        [raw(http(200, chunk(event({"jsonrpc": "2.0", "method": MARKER})), [SSE, CHUNKED], length=False)), hang()],
        RequestTimeout,
    ),
    # an answer that is none
    "another id": (raw(other_id), InvalidMessage),
    "no message": (status(200, b'["%b"]' % SAID, content_type="application/json"), InvalidMessage),
    "half a message": (status(200, b'{"%b"' % SAID, content_type="application/json"), InvalidMessage),
    "not utf-8": (status(200, b'{"\xff%b"}' % SAID, content_type="application/json"), InvalidMessage),
    "a number that is none": (raw(bad_number), InvalidMessage),
    "a wrong result": (answer({"content": MARKER}), InvalidResult),
    "an empty answer": (status(202), InvalidMessage),
    "an error": (error(-32000, MARKER, {"a": MARKER}), RPCError),
    # bad framing and coding
    "a bad chunk size": (raw(http(200, SAID + b"\r\nx\r\n", [JSON, CHUNKED], length=False)), InvalidMessage),
    "a bad length": (raw(http(200, SAID, [JSON, ("Content-Length", MARKER)], length=False)), InvalidMessage),
    "two lengths": (raw(http(200, SAID, [JSON, ("Content-Length", "1"), ("Content-Length", "2")])), InvalidMessage),
    "length and chunks": (raw(http(200, SAID, [JSON, CHUNKED])), InvalidMessage),
    "bad gzip": (raw(http(200, SAID, CODED)), InvalidMessage),
    "half a gzip": (raw(half_gzip), InvalidMessage),
    "a huge body": (raw(http(200, SAID, [JSON, ("Content-Length", str(10**15))], length=False)), LimitExceeded),
    "a huge head": (raw(b"HTTP/1.1 200 OK\r\nX-A: " + SAID * 10_000), LimitExceeded),
    "a redirect elsewhere": (
        status(307, headers=[("Location", f"http://example.invalid/{MARKER}")]),
        HTTPStatusError,
    ),
}


# What the eras differ in is how a call is given up.
CASES = [(name, "stateless") for name in HTTP_FAULTS]
CASES += [(name, "handshake") for name, (_, kind) in HTTP_FAULTS.items() if kind in (RequestTimeout, ConnectionClosed)]


@pytest.mark.req("R4", "T1", "T5", "W4", "W6", "W7", "W8", "W11", "W14")
@pytest.mark.parametrize(("name", "era"), CASES)
def test_a_broken_http_server_costs_one_call_its_named_error(flavour: Any, serve: Any, name: str, era: str) -> None:
    fault, kind = HTTP_FAULTS[name]
    go = Event()
    rules = {
        "tools/call": turns(fault, answer(text("good"))),
        "prompts/get": [wait(go), answer({"description": "other", "messages": []})],
    }
    server = serve(rules, era=era, session=None)
    with logged() as lines:
        client = flavour.connect(server.url, timeout=PATIENT)
        other = flavour.start(client.get_prompt, "greet")
        server.wait_until(lambda: server.count("prompts/get") == 1)
        began = time.monotonic()
        with pytest.raises(kind) as caught:
            client.call_tool("echo", {"secret": MARKER}, timeout=DEADLINE if kind is RequestTimeout else PATIENT)
        assert time.monotonic() - began < PATIENT / 2
        assert type(caught.value) is kind
        assert caught.value.request_sent is True
        assert server.count("tools/call") == 1
        assert not other.done
        go.set()
        assert other.result().description == "other"
        assert client.call_tool("echo", {}).text == "good"
        client.close()
    shown = [texts_of(caught.value), repr(client), *lines]
    assert MARKER not in "\n".join(shown)


@pytest.mark.req("R4", "W16")
@pytest.mark.parametrize(
    "name",
    [name for name, (_, kind) in HTTP_FAULTS.items() if kind in (ConnectionClosed, InvalidMessage)],
)
def test_what_may_be_asked_again_survives_a_broken_answer(flavour: Any, serve: Any, name: str) -> None:
    server = serve({"tools/list": turns(HTTP_FAULTS[name][0], answer({"tools": []}))})
    with logged() as lines:
        client = flavour.connect(server.url, retry=Retry(attempts=2, backoff=0.01))
        assert client.list_tools() == []
    assert server.count("tools/list") == 2
    assert MARKER not in "\n".join(lines)


# --- no server at all ----------------------------------------------------------------------------


@pytest.mark.req("W20", "R4")
@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1/", f"http://{MARKER}:{MARKER}@/", "http://[::1", ""])
def test_a_wrong_url_is_a_config_error_at_once(flavour: Any, url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flavour.client(url)
    assert caught.value.request_sent is False
    assert MARKER not in texts_of(caught.value)


@pytest.mark.req("N10", "R4")
def test_a_refused_port_is_a_connect_error_and_the_client_works_once_there_is_a_server(
    flavour: Any, serve: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    client = flavour.client(f"http://u:{MARKER}@127.0.0.1:{port}/mcp?k={MARKER}", retry=Retry(attempts=2, backoff=0.01))
    with pytest.raises(ConnectError, match=rf"127\.0\.0\.1:{port}.*refused") as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is False
    assert MARKER not in texts_of(caught.value)


@pytest.mark.req("R4", "T1")
def test_a_host_that_does_not_exist_is_a_connect_error(flavour: Any) -> None:
    with pytest.raises((ConnectError, RequestTimeout)) as caught:
        flavour.connect("http://nothing.invalid/mcp", retry=Retry(attempts=1), timeout=5)
    assert caught.value.request_sent is False


@pytest.mark.req("D1", "R4")
@pytest.mark.parametrize("command", ["no-such-command-7f3a", "/nowhere/at/all", "/", "/etc/hostname"])
def test_a_command_that_cannot_be_started_is_a_connect_error_that_names_it(flavour: Any, command: str) -> None:
    client = flavour.client(Stdio(command, MARKER, env={"TOKEN": MARKER}), retry=Retry(attempts=1))
    for _ in range(2):
        with pytest.raises(ConnectError) as caught:
            client.call_tool("echo", {})
        assert command in str(caught.value)
        assert caught.value.request_sent is False
        assert MARKER not in texts_of(caught.value)
    assert MARKER not in repr(client)


@pytest.mark.req("D2", "D4", "R4")
@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(3)",
        f"print('<html>{MARKER}</html>')",
        f"import sys; sys.stderr.write('{MARKER}'); sys.exit(1)",
        f"import os; os.write(1, b'{MARKER}' * 100_000)",
    ],
    ids=["exits", "prints a page and exits", "complains and exits", "prints noise and exits"],
)
def test_a_program_that_is_no_server_is_a_server_exited(flavour: Any, program: str) -> None:
    target = Stdio(sys.executable, "-I", "-S", "-c", program, stderr="discard")
    with logged() as lines:
        client = flavour.client(target, retry=Retry(attempts=1), timeout=PATIENT)
        with pytest.raises(ServerExited) as caught:
            client.call_tool("echo", {})
    assert MARKER not in "\n".join([texts_of(caught.value), repr(client), *lines])


@pytest.mark.req("D3", "T1", "R4")
def test_a_program_that_says_nothing_but_noise_times_out(flavour: Any) -> None:
    program = (
        f"import sys\nprint('<html>{MARKER}</html>', flush=True)\nfor _ in sys.stdin: print('{MARKER}', flush=True)"
    )
    with logged() as lines:
        client = flavour.client(Stdio(sys.executable, "-I", "-S", "-c", program, stderr="discard"))
        with pytest.raises(RequestTimeout) as caught:
            client.call_tool("echo", {}, timeout=DEADLINE)
        client.close()
    assert caught.value.request_sent is False
    assert any("skipped" in line for line in lines)
    assert MARKER not in "\n".join([texts_of(caught.value), *lines])


# --- a broken child ------------------------------------------------------------------------------

STDIO_FAULTS: dict[str, tuple[list[on_stdio.Step], type[FerruleError]]] = {
    "exits": ([on_stdio.die(3)], ServerExited),
    "is killed": ([on_stdio.die(by_signal=9)], ServerExited),
    "dies inside a line": ([on_stdio.raw(b'{"jsonrpc": "' + SAID), on_stdio.die(1)], ServerExited),
    "complains and dies": ([on_stdio.stderr(MARKER), on_stdio.die(1)], ServerExited),
    "prints a page and dies": ([on_stdio.raw(b"<html>" + SAID + b"\n"), on_stdio.die(0)], ServerExited),
    "never answers": ([], RequestTimeout),
    "prints a page": ([on_stdio.raw(b"<html>\n" + SAID + b"\n</html>\n")], RequestTimeout),
    "prints noise": ([on_stdio.raw(b"\xff\xfe\0" + SAID + b"\n")], RequestTimeout),
    "prints half a message": ([on_stdio.raw(b'{"jsonrpc": "2.0", "id": ' + SAID + b"\n")], RequestTimeout),
    "gives another id": ([on_stdio.answer({"content": [], "x": MARKER}, id=10**6)], RequestTimeout),
    "gives no id": ([on_stdio.answer({"content": [], "x": MARKER}, id=None)], RequestTimeout),
    "sends a batch": ([on_stdio.send([{"jsonrpc": "2.0", "id": 1, "result": MARKER}])], RequestTimeout),
    "sends a text": ([on_stdio.send(MARKER)], RequestTimeout),
    "gives no object": ([on_stdio.answer([MARKER])], InvalidMessage),
    "gives a wrong result": ([on_stdio.answer({"content": MARKER})], InvalidResult),
    "gives an error": ([on_stdio.error(-32000, MARKER, {"a": MARKER})], RPCError),
    "gives too much": ([on_stdio.big(200_000)], LimitExceeded),
}


@pytest.mark.req("D3", "D4", "R4", "T1", "T5", "W4", "W9", "W11", "W14")
@ERAS
@pytest.mark.parametrize(("fault", "kind"), STDIO_FAULTS.values(), ids=STDIO_FAULTS.keys())
def test_a_broken_child_costs_one_call_its_named_error(
    flavour: Any,
    child: Any,
    tmp_path: Path,
    fault: list[on_stdio.Step],
    kind: type[FerruleError],
    era: str,
) -> None:
    server = child({"tools/call": [fault, [on_stdio.answer()]], "prompts/get": [[]]}, era=era)
    with logged() as lines:
        client = flavour.connect(server.stdio(stderr="discard"), limits=Limits(max_message_bytes=100_000))
        # Not answered until the client closes; a child that dies takes it along.
        other = flavour.start(client.get_prompt, "greet", timeout=PATIENT)
        server.wait_until(lambda: server.count("prompts/get") == 1)
        began = time.monotonic()
        with pytest.raises(kind) as caught:
            client.call_tool("echo", {"secret": MARKER}, timeout=DEADLINE if kind is RequestTimeout else PATIENT)
        assert time.monotonic() - began < PATIENT / 2
        assert type(caught.value) is kind
        assert caught.value.request_sent is True
        assert server.count("tools/call") == 1
        assert client.call_tool("echo", {}).text == "ok"
        if kind is not ServerExited:
            assert not other.done
            assert len(server.pids) == 1
        client.close()
        assert isinstance(other.outcome(), (ConnectionClosed, ServerExited))
    shown = [texts_of(caught.value), repr(client), *lines]
    assert MARKER not in "\n".join(shown)


@pytest.mark.req("D5", "T1", "R4")
@ERAS
def test_a_child_that_stops_reading_meets_the_deadline(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[on_stdio.hang()]]}, era=era)
    client = flavour.connect(server.stdio(stderr="discard"), limits=Limits(exit_grace=0.2, cancel_timeout=0.1))
    for size in (10, 1_000_000):
        with pytest.raises(RequestTimeout):
            client.call_tool("echo", {"data": "x" * size}, timeout=DEADLINE)
