"""The lines of stdio over sockets and pipes: both clients, both eras, and streams that end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ferrule import ByteStream, Client, Limits, Retry, errors
from tests.support.clients import Flavour
from tests.support.lines import HANG, HANG_UP, LineServer
from tests.support.steps import text
from tests.support.texts import logged, texts_of

pytestmark = pytest.mark.req("D8")

Serve = Callable[..., LineServer]

KINDS = ("tcp", "unix", "socket", "pipes")


@pytest.fixture
def lines() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(LineServer(*args, **kwargs))


@pytest.fixture(params=KINDS)
def reach(request: pytest.FixtureRequest, lines: Serve, tmp_path: Path) -> Callable[..., tuple[LineServer, ByteStream]]:
    """`reach(rules, era=...)` starts a server and says how it is reached."""

    def start(rules: dict[str, list[Any]] | None = None, **options: Any) -> tuple[LineServer, ByteStream]:
        if request.param == "unix":
            path = str(tmp_path / "server.sock")
            return lines(rules, path=path, **options), ByteStream.unix(path)
        server = lines(rules, **options)
        if request.param == "tcp":
            return server, ByteStream.tcp("127.0.0.1", server.port)
        if request.param == "socket":
            return server, ByteStream(server.pair())
        return server, ByteStream(*server.pipes())

    return start


Reach = Callable[..., tuple[LineServer, ByteStream]]


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_calls_are_lines_and_answers_too(flavour: Flavour, reach: Reach, era: str) -> None:
    server, stream = reach(era=era)
    with flavour.client(stream) as client:
        assert client.era == era
        assert client.call_tool("echo", {"a": "ü\n"}).text == json.dumps({"a": "ü\n"})
        assert [tool.name for tool in client.list_tools()] == ["echo"]

    assert server.count("tools/call") == 1
    assert server.count("notifications/initialized") == (era == "handshake")


@pytest.mark.req("D5", "T5")
def test_calls_at_once_each_get_their_own_answer(flavour: Flavour, reach: Reach) -> None:
    _, stream = reach()
    client = flavour.connect(stream)

    def call(number: int) -> Callable[[], Any]:
        return lambda: client.call_tool("echo", {"n": number, "pad": "x" * 20_000}).text

    answers = flavour.together(*(call(number) for number in range(16)))

    assert [json.loads(answer)["n"] for answer in answers] == list(range(16))


def test_a_stream_that_ends_fails_the_calls_that_wait_and_is_not_written_to_twice(
    flavour: Flavour, reach: Reach
) -> None:
    server, stream = reach({"tools/call": [HANG_UP]})
    client = flavour.connect(stream)

    with pytest.raises(errors.ServerExited) as caught:
        client.call_tool("echo")

    assert str(caught.value) == f"tools/call at {stream.label}: the server closed its output before it answered"
    assert caught.value.exit_code is None
    assert caught.value.request_sent
    assert server.count("tools/call") == 1


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_an_address_is_connected_to_again(flavour: Flavour, lines: Serve, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "s.sock") if kind == "unix" else None
    server = lines({"tools/call": [HANG_UP, text("again")]}, path=path)
    client = flavour.connect(ByteStream.unix(path) if path else ByteStream.tcp("127.0.0.1", server.port))
    with pytest.raises(errors.ServerExited):
        client.call_tool("echo")

    assert client.call_tool("echo").text == "again"
    client.ping()
    assert server.accepted == 2


@pytest.mark.req("N4")
def test_a_server_that_hangs_up_at_the_probe_is_one_of_the_handshake_era(flavour: Flavour, lines: Serve) -> None:
    server = lines({"server/discover": [HANG_UP]}, era="handshake")
    client = flavour.connect(ByteStream.tcp("127.0.0.1", server.port))

    assert client.era == "handshake"
    assert client.call_tool("echo").text == "{}"
    assert server.accepted == 2
    assert server.count("server/discover") == 1


@pytest.mark.req("R1")
def test_a_list_is_asked_for_again_over_a_new_connection(flavour: Flavour, lines: Serve) -> None:
    server = lines({"tools/list": [HANG_UP, None]})
    client = flavour.connect(ByteStream.tcp("127.0.0.1", server.port), retry=Retry(backoff=0.01))

    assert [tool.name for tool in client.list_tools()] == ["echo"]
    assert server.accepted == 2


@pytest.mark.parametrize("kind", ["socket", "pipes"])
def test_a_stream_that_was_given_is_used_once(flavour: Flavour, lines: Serve, kind: str) -> None:
    server = lines({"tools/call": [HANG_UP]})
    stream = ByteStream(server.pair()) if kind == "socket" else ByteStream(*server.pipes())
    client = flavour.connect(stream, retry=Retry(attempts=1))
    with pytest.raises(errors.ServerExited):
        client.call_tool("echo")
    for again in (client, flavour.client(stream, retry=Retry(attempts=1))):
        with pytest.raises(errors.ConnectError) as caught:
            again.call_tool("echo")
        assert "has been used" in str(caught.value)
        assert not caught.value.request_sent


def test_closing_the_client_ends_the_stream(flavour: Flavour, lines: Serve) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        client = flavour.client(ByteStream(ours), protocol="2026-07-28", timeout=5)
        running = flavour.start(client.call_tool, "echo")
        theirs.settimeout(10)
        assert theirs.recv(65536).endswith(b"\n")
        client.close()
        assert isinstance(running.outcome(), errors.ConnectionClosed)
        theirs.settimeout(10)
        assert theirs.recv(65536) == b""
        assert ours.fileno() == -1


@pytest.mark.req("T1", "T2")
def test_a_silent_server_meets_the_deadline_and_is_told(flavour: Flavour, reach: Reach) -> None:
    server, stream = reach({"tools/call": [HANG]})
    client = flavour.connect(stream)
    with pytest.raises(errors.RequestTimeout):
        client.call_tool("echo", timeout=0.1)
    client.ping()

    assert server.count("notifications/cancelled") == 1


@pytest.mark.req("W4", "W5", "D3")
def test_what_is_no_message_is_skipped_and_the_stream_goes_on(flavour: Flavour, reach: Reach) -> None:
    noise = b'hunter2\n\xff\xfe\n\r\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"resultType":"complete"}}\r\n'
    _, stream = reach({"tools/call": [noise, None]})
    with logged() as seen:
        client = flavour.connect(stream)
        assert client.call_tool("echo").content == ()
        assert client.call_tool("echo", {"b": 1}).text == '{"b": 1}'

    assert "hunter2" not in "\n".join(seen)
    assert sum("was skipped" in line for line in seen) == 2


@pytest.mark.req("W9")
def test_a_line_may_be_as_long_as_a_message_and_no_longer(flavour: Flavour, reach: Reach) -> None:
    def line(size: int) -> bytes:
        return b'{"id":$ID,"result":{"resultType":"complete","content":[],"x":"' + b"x" * size + b'"}}\n'

    _, stream = reach({"tools/call": [line(19_000), line(21_000), None]})
    client = flavour.connect(stream, limits=Limits(max_message_bytes=20_000))
    client.call_tool("echo")
    with pytest.raises(errors.LimitExceeded) as caught:
        client.call_tool("echo")
    assert caught.value.limit == "max_message_bytes"
    client.call_tool("echo")


def test_a_request_of_the_servers_is_answered_on_the_stream(flavour: Flavour, reach: Reach) -> None:
    asks = b'{"jsonrpc":"2.0","id":"q","method":"ping"}\n{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}\n'
    server, stream = reach({"tools/call": [asks]}, era="handshake")
    with flavour.client(stream) as client:
        client.call_tool("echo")
        for _ in range(100):
            client.ping()
            if {"jsonrpc": "2.0", "id": "q", "result": {}} in server.messages:
                return
    raise AssertionError("the ping was not answered")


@pytest.mark.req("W13")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
def test_a_batch_is_taken_apart_where_the_revision_allows_it(flavour: Flavour, reach: Reach, revision: str) -> None:
    batch = b'[{"jsonrpc":"2.0","id":"q","method":"ping"},{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]\n'
    greeting = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    server, stream = reach({"initialize": [greeting], "tools/call": [batch]}, era="handshake")
    client = flavour.connect(stream, protocol="handshake")
    if revision == "2025-03-26":
        assert client.call_tool("echo").content == ()
        assert server.count("tools/call") == 1
    else:
        with pytest.raises(errors.InvalidMessage, match="batch"):
            client.call_tool("echo")


def test_nobody_there_is_a_connect_error_that_names_the_address(flavour: Flavour, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    cases = [
        (ByteStream.tcp("127.0.0.1", port), f"cannot connect to 127.0.0.1:{port}: connection refused"),
        (ByteStream.unix(tmp_path / "none"), f"cannot connect to {tmp_path / 'none'}: there is no such socket"),
    ]
    for stream, expected in cases:
        client = flavour.client(stream, retry=Retry(attempts=1))
        with pytest.raises(errors.ConnectError) as caught:
            client.ping()
        assert str(caught.value) == expected


def test_a_closed_stream_is_a_connect_error(flavour: Flavour) -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    theirs.close()
    client = flavour.client(ByteStream(ours), retry=Retry(attempts=1))
    with pytest.raises(errors.ConnectError):
        client.ping()


def test_a_server_that_always_hangs_up_is_not_connected_to_for_ever(flavour: Flavour, lines: Serve) -> None:
    server = lines({"server/discover": [HANG_UP], "initialize": [HANG_UP], "tools/call": [HANG_UP]})
    client = flavour.client(ByteStream.tcp("127.0.0.1", server.port), retry=Retry(attempts=1))
    said = []
    for _ in range(3):
        with pytest.raises(errors.TransportError) as caught:
            client.call_tool("echo")
        said.append(texts_of(caught.value))

    assert "closed the stream repeatedly just after it was opened" in said[-1]
    assert "exited" not in said[-1]
    assert server.accepted <= 4


FORKING = """
import os, sys, warnings
from ferrule import ByteStream, Client, Retry, errors
warnings.simplefilter("ignore", DeprecationWarning)
port = int(sys.argv[1])
fresh = Client(ByteStream.tcp("127.0.0.1", port))
import socket
given = Client(ByteStream(socket.create_connection(("127.0.0.1", port))), retry=Retry(attempts=1))
for client in (fresh, given):
    client.call_tool("echo", {"who": "parent"})
pid = os.fork()
if not pid:
    code = 1
    try:
        fresh.call_tool("echo", {"who": "child"})
        try:
            given.call_tool("echo", {"who": "child of given"})
        except errors.ConnectError:
            code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
for client in (fresh, given):
    client.call_tool("echo", {"who": "parent"})
    client.close()
"""


@pytest.mark.req("V3")
def test_a_fork_opens_a_connection_of_its_own_and_leaves_the_parents_alone(lines: Serve) -> None:
    server = lines()
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", FORKING, str(server.port)],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    calls = [one["params"]["arguments"]["who"] for one in server.messages if one.get("method") == "tools/call"]
    assert calls == ["parent", "parent", "child", "parent", "parent"]
    assert server.accepted == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: ByteStream(object()),
        lambda: ByteStream(b"x", b"y"),
        lambda: ByteStream.tcp("", 1),
        lambda: ByteStream.tcp("h", 0),
        lambda: ByteStream.tcp("h", "1"),  # type: ignore[arg-type]
        lambda: ByteStream.unix(""),
        lambda: ByteStream.unix("a\0b"),
        lambda: Client(ByteStream.tcp("h", 1), tls="/ca.pem"),
        lambda: Client(ByteStream.tcp("h", 1), proxy="http://p:1"),
        lambda: Client(ByteStream.tcp("h", 1), headers={"X-A": "b"}),
        lambda: Client(object()),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_a_config_error(make: Callable[[], Any]) -> None:
    with pytest.raises(errors.ConfigError):
        make()


def test_it_shows_its_label_alone() -> None:
    assert repr(ByteStream.tcp("::1", 7)) == "<ByteStream [::1]:7>"
    assert repr(ByteStream.unix("/run/x")) == "<ByteStream /run/x>"
    assert repr(ByteStream.unix("/run/x", label="mine")) == "<ByteStream mine>"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert repr(ByteStream(ours)) == "<ByteStream byte stream>"
