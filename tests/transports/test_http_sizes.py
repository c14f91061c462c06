"""Compressed answers, and the limits on any answer."""

import gzip
import json
import zlib
from collections.abc import Callable
from functools import cache
from threading import Event
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import FerruleError, InvalidMessage, LimitExceeded
from tests.support.steps import (
    CHUNKED,
    JSON,
    LAST_CHUNK,
    SSE,
    Request,
    Step,
    answer,
    chunk,
    event,
    http,
    progress,
    raw,
    result_for,
    stream,
    text,
    turns,
    wait,
)

KIB = 1024
SMALL = Limits(max_message_bytes=64 * KIB)
ONCE = Retry(attempts=1)
MARKER = "secret-7f3a"

Compress = Callable[[bytes], bytes]


def raw_deflate(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-15)
    return made.compress(data) + made.flush()


CODINGS = pytest.mark.parametrize(
    ("coding", "compress"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("Deflate", raw_deflate)],
    ids=["gzip", "x-gzip", "deflate", "raw deflate"],
)


def message(request: Request, value: str = "ok") -> bytes:
    return json.dumps(result_for(request, text(value))).encode()


def coded(
    coding: str, make: Callable[[Request], bytes], kind: tuple[str, str] = JSON, pieces: int | None = None
) -> Step:
    return raw(lambda request: http(200, make(request), [kind, ("Content-Encoding", coding)]), pieces=pieces)


@pytest.mark.req("W8")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_compression_is_asked_for_in_the_ways_that_are_understood(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    flavour.connect(server.url).call_tool("echo", {})
    assert {request.header("Accept-Encoding") for request in server.requests} == {"gzip, deflate"}


@pytest.mark.req("W8")
@CODINGS
@pytest.mark.parametrize("pieces", [None, 1])
def test_a_compressed_json_answer_is_read_and_its_connection_used_again(
    flavour: Any, serve: Any, coding: str, compress: Compress, pieces: int | None
) -> None:
    server = serve({"tools/call": coded(coding, lambda request: compress(message(request)), pieces=pieces)})
    client = flavour.connect(server.url)
    assert [client.call_tool("echo", {}).text for _ in range(3)] == ["ok"] * 3
    assert server.accepted == 1


@pytest.mark.req("W8")
@CODINGS
def test_a_compressed_event_stream_is_read(flavour: Any, serve: Any, coding: str, compress: Compress) -> None:
    step = coded(coding, lambda request: compress(b": hi\n\n" + event(message(request))), SSE)
    client = flavour.connect(serve({"tools/call": step}).url)
    assert [client.call_tool("echo", {}).text for _ in range(2)] == ["ok", "ok"]


@pytest.mark.req("W8")
def test_events_of_a_compressed_stream_come_out_when_the_server_flushes_them(flavour: Any, serve: Any) -> None:
    seen, go = Event(), Event()
    packer = zlib.compressobj(wbits=31)

    def flushed(item: Any) -> Step:
        def step(turn: Any) -> None:
            data = event(item(turn.request))
            turn.send(chunk(packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)))

        return step

    head = raw(http(200, b"", [SSE, CHUNKED, ("Content-Encoding", "gzip")], length=False))
    end = [flushed(lambda request: result_for(request, text("ok"))), lambda turn: turn.send(chunk(packer.flush()))]
    server = serve({"tools/call": [head, flushed(progress(1)), wait(go), *end, raw(LAST_CHUNK)]})
    client = flavour.connect(server.url)
    running = flavour.start(client.call_tool, "echo", {}, on_progress=lambda *_: seen.set())
    assert seen.wait(10)
    assert not running.done
    go.set()
    assert running.result().text == "ok"


DAMAGE = {
    "corrupt": lambda data: data[:20] + b"\xff\x00\xff" + data[23:],
    "cut short": lambda data: data[:-9],
    "checksum": lambda data: data[:-8] + bytes(8),
    "no gzip at all": lambda data: b"hello " + MARKER.encode(),
    "nothing": lambda data: b"\x1f\x8b",
    "followed by noise": lambda data: data + b"noise",
}


@pytest.mark.req("W8", "T5")
@pytest.mark.parametrize("kind", [JSON, SSE], ids=["json", "sse"])
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_gzip_fails_its_own_call_only(
    flavour: Any, serve: Any, damage: Callable[[bytes], bytes], kind: tuple[str, str]
) -> None:
    def bad(request: Request) -> bytes:
        data = message(request, MARKER)
        # An event that was complete before the damage would be an answer: here none is.
        return damage(gzip.compress(data if kind is JSON else b"data: " + data + b"\n", mtime=0))

    server = serve({"tools/call": turns(coded("gzip", bad, kind), answer(text("good")))})
    client = flavour.connect(server.url)
    with pytest.raises(FerruleError) as caught:
        client.call_tool("echo", {})
    assert isinstance(caught.value, InvalidMessage)
    assert caught.value.request_sent is True
    assert MARKER not in str(caught.value)
    assert client.call_tool("echo", {}).text == "good"


@pytest.mark.req("W8")
@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress"])
def test_a_coding_nobody_asked_for_is_an_invalid_message(flavour: Any, serve: Any, coding: str) -> None:
    server = serve({"tools/call": turns(coded(coding, message), answer(text("good")))})
    client = flavour.connect(server.url)
    with pytest.raises(InvalidMessage, match="not asked for"):
        client.call_tool("echo", {})
    assert client.call_tool("echo", {}).text == "good"


@cache
def bomb(start: bytes) -> bytes:
    """64 MiB as 300 KiB."""
    return gzip.compress(start + bytes(64 << 20), compresslevel=1)


@pytest.mark.req("W8", "W9")
@pytest.mark.parametrize("kind", [JSON, SSE], ids=["json", "sse"])
def test_a_bomb_is_stopped_at_the_limit_on_a_message(flavour: Any, serve: Any, kind: tuple[str, str]) -> None:
    data = bomb(b"data: " if kind is SSE else b"")
    server = serve({"tools/call": turns(coded("gzip", lambda request: data, kind), answer(text("good")))})
    client = flavour.connect(server.url, limits=SMALL)
    with pytest.raises(LimitExceeded) as caught:
        client.call_tool("echo", {})
    assert caught.value.limit == "max_message_bytes"
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "good"


# --- limits --------------------------------------------------------------------------------------


def open_body(kind: tuple[str, str], start: bytes) -> Step:
    """A body that goes on for ever."""

    def step(turn: Any) -> None:
        turn.send(http(200, b"", [kind, CHUNKED], length=False) + chunk(start))
        for _ in range(64):
            turn.send(chunk(b"x" * 4096))
        turn.wait_gone()

    return step


TOO_LARGE = {
    "a body that says so": raw(http(200, b"", [JSON, ("Content-Length", str(1 << 40))], length=False)),
    "a body without an end": open_body(JSON, b"{"),
    "a page without an end": open_body(("Content-Type", "text/html"), b"<html>"),
    "an event": raw(lambda request: http(200, event(message(request, "x" * 65 * KIB)), [SSE])),
    "an event without an end": open_body(SSE, b"data: "),
    "a json body": answer(text("x" * 65 * KIB)),
}


@pytest.mark.req("W9", "T5")
@pytest.mark.parametrize("step", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_what_is_larger_than_a_message_may_be_fails_its_call_and_disturbs_no_other(
    flavour: Any, serve: Any, step: Step
) -> None:
    go = Event()
    server = serve({"tools/call": step, "prompts/get": [wait(go), answer({"messages": []})]})
    client = flavour.connect(server.url, limits=SMALL)
    other = flavour.start(client.get_prompt, "greet")
    server.wait_until(lambda: server.count("prompts/get") == 1)
    with pytest.raises(LimitExceeded) as caught:
        client.call_tool("echo", {})
    assert caught.value.limit == "max_message_bytes"
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1
    go.set()
    assert other.result().messages == ()
    assert [tool.name for tool in client.list_tools()] == ["echo"]


@pytest.mark.req("W9")
def test_a_message_of_just_the_limit_is_taken(flavour: Any, serve: Any) -> None:
    def padded(size: int) -> Step:
        def make(request: Request) -> bytes:
            empty = len(message(request, ""))
            return message(request, "x" * (size - empty))

        return raw(lambda request: http(200, make(request), [JSON]))

    server = serve({"tools/call": turns(padded(64 * KIB), padded(64 * KIB + 1))})
    client = flavour.connect(server.url, limits=SMALL)
    assert len(client.call_tool("echo", {}).text) > 60 * KIB
    with pytest.raises(LimitExceeded):
        client.call_tool("echo", {})


@pytest.mark.req("W9")
def test_a_stream_may_be_longer_than_one_message(flavour: Any, serve: Any) -> None:
    comment = b": " + b"x" * 200 * KIB + b"\n\n"
    items = [comment] + [{"jsonrpc": "2.0", "method": "notifications/x", "params": {"pad": "x" * 40 * KIB}}] * 10
    server = serve({"tools/call": stream(*items, {"result": text("ok")})})
    assert flavour.connect(server.url, limits=SMALL).call_tool("echo", {}).text == "ok"


HEADS = {
    "one long header": b"X-Pad: " + b"x" * 70 * KIB + b"\r\n",
    "many headers": b"X-Pad: x\r\n" * 7000,
    "no end of line": b"X-Pad: " + b"x" * 300 * KIB,
}


@pytest.mark.req("W9")
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
def test_a_head_beyond_its_limit_fails_its_call(flavour: Any, serve: Any, head: bytes) -> None:
    server = serve({"tools/call": turns(raw(b"HTTP/1.1 200 OK\r\n" + head), answer(text("good")))})
    client = flavour.connect(server.url, retry=ONCE)
    with pytest.raises(LimitExceeded) as caught:
        client.call_tool("echo", {})
    assert caught.value.limit == "max_head_bytes"
    assert client.call_tool("echo", {}).text == "good"
