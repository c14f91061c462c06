"""How the bytes of a response become calls of an exchange, whatever the reads look like."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest

from ferrule.errors import ConnectionClosed, InvalidMessage, LimitExceeded
from tests.http.fakes import FakeIO, open_exchange, pool_on
from tests.http.wire import LAST_CHUNK, STREAM_HEAD, answer, chunk

SECRET = b"hunter2"


def coded(data: bytes, encoding: str, kind: str = "application/json") -> bytes:
    """A response whose body is compressed."""
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: {encoding}\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    ).encode() + data


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


EVENTS = b": hello\n\nid: 7\nretry: 20\ndata: one\n\ndata: two\ndata: three\n\n"
EVENT_LOG = [
    ("comment",),
    ("event", b"one", "7", 20),
    ("event", b"two\nthree", None, None),
]

RESPONSES: dict[str, tuple[bytes, list[Any]]] = {
    "json": (answer(b'{"a":1}'), [("head", 200), ("body", b'{"a":1}'), ("end",)]),
    "202": (
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        [("head", 202), ("end",)],
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", [("head", 204), ("end",)]),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\n" + answer(b"[]"),
        [("head", 200), ("body", b"[]"), ("end",)],
    ),
    "chunked json": (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunk(b'{"a"')
        + chunk(b":1}")
        + LAST_CHUNK,
        [("head", 200), ("body", b'{"a":1}'), ("end",)],
    ),
    "events": (
        STREAM_HEAD + chunk(EVENTS[:20]) + chunk(EVENTS[20:]) + LAST_CHUNK,
        [("head", 200), *EVENT_LOG, ("end",)],
    ),
    "typed events": (
        STREAM_HEAD + chunk(b"event: endpoint\ndata: /x\n\n") + chunk(b"event: ping\nid: 9\ndata: /y\n\n") + LAST_CHUNK,
        [("head", 200), ("typed", b"/x", "endpoint"), ("typed", b"/y", "ping"), ("event", b"", "9", None), ("end",)],
    ),
    "gzip": (
        coded(gzip.compress(b'{"a":1}'), "gzip"),
        [("head", 200), ("body", b'{"a":1}'), ("end",)],
    ),
    "x-gzip": (
        coded(gzip.compress(b'{"a":1}'), "X-GZip"),
        [("head", 200), ("body", b'{"a":1}'), ("end",)],
    ),
    "zlib": (
        coded(zlib.compress(b'{"a":1}'), "deflate"),
        [("head", 200), ("body", b'{"a":1}'), ("end",)],
    ),
    "raw deflate": (
        coded(raw_deflate(b'{"a":1}'), "deflate"),
        [("head", 200), ("body", b'{"a":1}'), ("end",)],
    ),
    "gzip events": (
        coded(gzip.compress(EVENTS), "gzip", "text/event-stream"),
        [("head", 200), *EVENT_LOG, ("end",)],
    ),
    "two members": (
        coded(gzip.compress(b'{"a"') + gzip.compress(b":1}"), "gzip"),
        [("head", 200), ("body", b'{"a":1}'), ("end",)],
    ),
    "gzip of nothing": (coded(b"", "gzip"), [("head", 200), ("end",)]),
    "unknown coding of nothing": (coded(b"", "br"), [("head", 200), ("end",)]),
    "text": (
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>",
        [("head", 502), ("body", b"<p/>"), ("end",)],
    ),
}
each_response = pytest.mark.parametrize("name", RESPONSES)


def without_comments(log: list[Any]) -> list[Any]:
    """A comment is told once a read, so that their number depends on the reads."""
    return [entry for entry in log if entry != ("comment",)]


@pytest.mark.req("W1", "W6", "W8")
@each_response
def test_a_response_in_one_read_is_told_frame_by_frame(name: str) -> None:
    data, log = RESPONSES[name]
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)

    stream.arrive(data)

    assert exchange.log == log
    assert connection.state == "idle"
    assert pool.take() is connection


@pytest.mark.req("W1", "W6", "W8")
@each_response
def test_any_cut_of_the_bytes_tells_the_same(name: str) -> None:
    data, log = RESPONSES[name]
    io = FakeIO()
    pool = pool_on(io)
    for cut in range(1, len(data)):
        exchange, connection, stream = open_exchange(io, pool)
        stream.arrive(data[:cut])
        stream.arrive(data[cut:])
        assert without_comments(exchange.log) == without_comments(log), cut
        assert connection.state == "idle", cut
    assert len(io.streams) == 1


@pytest.mark.req("W1", "W6", "W8")
@each_response
def test_byte_by_byte_tells_the_same(name: str) -> None:
    data, log = RESPONSES[name]
    io = FakeIO()
    exchange, connection, stream = open_exchange(io, pool_on(io))

    stream.arrive(data, at_once=1)

    assert without_comments(exchange.log) == without_comments(log)
    assert connection.state == "idle"


@pytest.mark.req("W6")
@pytest.mark.parametrize(
    ("data", "log"),
    [
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[]",
            [("head", 200), ("body", b"[]"), ("end",)],
        ),
        (
            b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\ndata: cut",
            [("head", 200), ("event", b"a", None, None), ("end",)],
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n"
            + gzip.compress(b"[]"),
            [("head", 200), ("body", b"[]"), ("end",)],
        ),
    ],
)
def test_a_body_without_length_ends_with_the_stream(data: bytes, log: list[Any]) -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)

    stream.arrive(data)
    stream.end()

    assert exchange.log == log
    assert connection.state == "closed"
    assert not pool.connections


@pytest.mark.req("W6")
@pytest.mark.parametrize("cut", range(len(answer(b'{"a":1}'))))
def test_a_stream_that_ends_inside_a_response_is_a_closed_connection(cut: int) -> None:
    io = FakeIO()
    exchange, connection, stream = open_exchange(io, pool_on(io))

    stream.arrive(answer(b'{"a":1}')[:cut])
    stream.end()

    assert exchange.log[-1] == ("failed", "ConnectionClosed")
    with pytest.raises(ConnectionClosed) as caught:
        exchange.slot.result()
    assert caught.value.request_sent
    assert connection.state == "closed"


@pytest.mark.req("W6", "W16")
def test_a_reset_ends_even_a_body_without_length_badly() -> None:
    io = FakeIO()
    exchange, _, stream = open_exchange(io, pool_on(io))

    stream.arrive(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
    stream.end(ConnectionResetError(104, "peer said " + SECRET.decode()))

    with pytest.raises(ConnectionClosed, match="the connection was reset") as caught:
        exchange.slot.result()
    assert SECRET.decode() not in str(caught.value)
    assert caught.value.request_sent


@pytest.mark.req("W6")
@pytest.mark.parametrize(
    "data",
    [
        b"SMTP ready\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhunter2",
        b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\nhunter2",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhunter2\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n hunter2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: hunter2\0\r\n\r\n",
    ],
)
def test_what_is_no_http_fails_the_exchange_and_closes_the_connection(data: bytes) -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)

    stream.arrive(data)

    with pytest.raises(InvalidMessage, match=r"http://h: .* at byte \d+") as caught:
        exchange.slot.result()
    assert SECRET.decode() not in str(caught.value)
    assert caught.value.request_sent
    assert (connection.state, stream.closed, len(pool.connections)) == ("closed", True, 0)


@pytest.mark.req("W9")
@pytest.mark.parametrize(
    ("data", "limit"),
    [
        (answer(b'"' + b"a" * 2000 + b'"'), "max_message_bytes"),
        (STREAM_HEAD + chunk(b"data: " + b"a" * 2000), "max_message_bytes"),
        (coded(gzip.compress(bytes(5000)), "gzip"), "max_message_bytes"),
        (
            coded(gzip.compress(b"data: " + bytes(5000)), "gzip", "text/event-stream"),
            "max_message_bytes",
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 5000, "max_head_bytes"),
    ],
)
def test_a_limit_fails_the_exchange_and_names_itself(data: bytes, limit: str) -> None:
    io = FakeIO()
    pool = pool_on(io, max_message_bytes=1000, max_head_bytes=4000)
    exchange, connection, stream = open_exchange(io, pool)

    stream.arrive(data)

    with pytest.raises(LimitExceeded) as caught:
        exchange.slot.result()
    assert caught.value.limit == limit
    assert caught.value.request_sent
    assert connection.state == "closed"


@pytest.mark.req("W8", "W9")
def test_a_small_body_that_would_fill_the_memory_is_not_expanded() -> None:
    import tracemalloc

    deflater = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    bomb = b"".join(deflater.compress(block) for _ in range(300)) + deflater.flush()
    assert len(bomb) < 400_000
    io = FakeIO()
    exchange, _, stream = open_exchange(io, pool_on(io, max_message_bytes=1 << 20))

    tracemalloc.start()
    stream.arrive(coded(bomb, "gzip"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    with pytest.raises(LimitExceeded):
        exchange.slot.result()
    assert peak < 8 << 20


@pytest.mark.req("W8", "W9")
def test_events_and_comments_that_are_mostly_expansion_are_refused() -> None:
    io = FakeIO()
    exchange, connection, stream = open_exchange(io, pool_on(io, max_message_bytes=1 << 16))

    stream.arrive(coded(gzip.compress(b": nothing\n" * 100_000), "gzip", "text/event-stream"))

    with pytest.raises(LimitExceeded, match="expands too much") as caught:
        exchange.slot.result()
    assert caught.value.limit == "max_message_bytes"
    assert caught.value.request_sent
    assert connection.state == "closed"


@pytest.mark.req("W8", "W9")
def test_a_long_lived_compressed_stream_may_be_longer_than_a_message() -> None:
    io = FakeIO()
    exchange, connection, stream = open_exchange(io, pool_on(io, max_message_bytes=1000))
    stream.arrive(STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"))
    deflater = zlib.compressobj(wbits=31)

    for number in range(100):
        data = deflater.compress(b"data: %0500d\n\n" % number)
        stream.arrive(chunk(data + deflater.flush(zlib.Z_SYNC_FLUSH)))
        assert exchange.events[-1] == b"%0500d" % number
        assert len(exchange.events) == number + 1
    stream.arrive(chunk(deflater.flush()) + LAST_CHUNK)

    assert exchange.log[-1] == ("end",)
    assert connection.state == "idle"


@pytest.mark.req("W8", "T5")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (coded(b"hunter2 is not gzip", "gzip"), "corrupt"),
        (coded(b"hunter2 is no deflate", "deflate"), "corrupt"),
        (coded(gzip.compress(b"hunter2")[:-1], "gzip"), "cut short"),
        (coded(gzip.compress(b"hunter2") + b"more", "gzip"), "corrupt"),
        (coded(zlib.compress(b"hunter2") + b"more", "deflate"), "followed by something else"),
        (coded(b"hunter2", "br"), "encoded in a way that was not asked for"),
        (coded(b"hunter2", "gzip, gzip"), "encoded in a way that was not asked for"),
    ],
)
def test_a_corrupt_body_fails_its_exchange_alone(data: bytes, problem: str) -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)
    other, other_connection, other_stream = open_exchange(io, pool)

    stream.arrive(data)
    other_stream.arrive(answer())

    with pytest.raises(InvalidMessage, match=problem) as caught:
        exchange.slot.result()
    assert SECRET.decode() not in str(caught.value)
    assert connection.state == "closed"
    assert other.slot.result() == "end"
    assert other_connection.state == "idle"


@pytest.mark.req("W8")
def test_a_compressed_response_leaves_nothing_behind_for_the_next() -> None:
    io = FakeIO()
    pool = pool_on(io)
    for data in (coded(gzip.compress(b"[1]"), "gzip"), answer(b"[1]"), coded(b"", "gzip")) * 2:
        exchange, _, stream = open_exchange(io, pool)
        stream.arrive(data)
        assert exchange.slot.result() == "end"
        assert exchange.body in (b"[1]", b"")
    assert len(io.streams) == 1
