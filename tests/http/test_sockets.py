"""Exchanges over real sockets, on each driver: what a server may do, and what the caller sees of it."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.errors import InvalidMessage
from tests.http.wire import (
    CLOSE,
    GONE,
    LAST_CHUNK,
    READ,
    STREAM_HEAD,
    Driver,
    Recorder,
    WireServer,
    again,
    answer,
    call,
    chunk,
    event,
    pool_to,
    post,
    trickle,
    wait,
)

Serve = Callable[..., WireServer]


def coded(data: bytes, kind: bytes = b"application/json", encoding: bytes = b"gzip") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
        % (kind, encoding, len(data))
    ) + data


@pytest.mark.req("W6", "W18")
def test_all_kinds_of_answers_share_one_connection(driver: Driver, wire: Serve) -> None:
    server = wire(
        [
            *(READ, answer(b"[1]")),
            *(READ, b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
            *(READ, STREAM_HEAD + event("a") + event("b") + LAST_CHUNK),
            *(READ, b"HTTP/1.1 204 No Content\r\n\r\n"),
            *(READ, coded(gzip.compress(b"[2]"))),
            *(READ, answer(b"{}", status="404 Not Found")),
            *(READ, answer(b"[3]"), GONE),
        ]
    )

    async def body(io: Any) -> list[Any]:
        async with pool_to(io, server) as pool:
            return [(await call(io, pool, post(name=str(n)))).log for n in range(7)]

    logs = driver(body)

    assert [log[0] for log in logs] == [("head", n) for n in (200, 202, 200, 204, 200, 404, 200)]
    assert [log[1:-1] for log in logs] == [
        [("body", b"[1]")],
        [],
        [("event", b"a", None, None), ("event", b"b", None, None)],
        [],
        [("body", b"[2]")],
        [("body", b"{}")],
        [("body", b"[3]")],
    ]
    assert server.accepted == [0]
    assert [request for _, request in server.requests] == [post(name=str(n)) for n in range(7)]


@pytest.mark.req("W1", "W6", "W8")
@pytest.mark.parametrize(
    "data",
    [
        answer(b'{"a":1}'),
        STREAM_HEAD + chunk(b"data: on") + chunk(b"e\n\ndata: two\n\n") + LAST_CHUNK,
        coded(gzip.compress(b"data: one\n\ndata: two\n\n"), b"text/event-stream"),
        coded(zlib.compress(b"data: one\n\ndata: two\n\n"), b"text/event-stream", b"deflate"),
    ],
)
def test_an_answer_that_trickles_in_is_the_same(driver: Driver, wire: Serve, data: bytes) -> None:
    server = wire([READ, data, READ, trickle(data), GONE])

    async def body(io: Any) -> list[Any]:
        async with pool_to(io, server) as pool:
            return [(await call(io, pool)).log for _ in range(2)]

    whole, trickled = driver(body)
    assert trickled == whole
    assert whole[-1] == ("end",)
    assert server.accepted == [0]


@pytest.mark.req("W6")
def test_a_body_without_length_ends_with_the_stream(driver: Driver, wire: Serve) -> None:
    server = wire([READ, b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n[1,", b"2]", CLOSE])

    async def body(io: Any) -> Recorder:
        async with pool_to(io, server) as pool:
            return await call(io, pool)

    assert driver(body).log == [("head", 200), ("body", b"[1,2]"), ("end",)]


@pytest.mark.req("W9")
def test_a_large_answer_arrives_whole(driver: Driver, wire: Serve) -> None:
    large = b'"' + bytes(range(65, 91)) * 100_000 + b'"'
    server = wire([READ, answer(large), READ, coded(gzip.compress(large)), GONE])

    async def body(io: Any) -> list[bytes]:
        async with pool_to(io, server) as pool:
            return [(await call(io, pool)).body for _ in range(2)]

    assert driver(body) == [large, large]


@pytest.mark.req("W16")
def test_a_large_request_and_an_answer_that_streams_meanwhile_do_not_block_each_other(
    driver: Driver, wire: Serve
) -> None:
    large = b"x" * (8 << 20)

    def answer_first(peer: Any) -> None:
        peer.read_some()
        peer.socket.sendall(STREAM_HEAD)
        for _ in range(100):
            peer.socket.sendall(event("y" * 60_000))

    server = wire([answer_first, READ, event("end") + LAST_CHUNK, READ, answer(b"[]"), GONE])

    async def body(io: Any) -> list[bytes]:
        async with pool_to(io, server) as pool:
            exchange = await call(io, pool, post(large))
            assert exchange.events[0] == b"y" * 60_000
            await call(io, pool)
            return exchange.events

    events = driver(body)
    assert len(events) == 101
    assert len(server.requests[0][1]) > len(large)
    assert server.accepted == [0]


@pytest.mark.req("W8")
def test_compressed_events_come_out_as_the_server_flushes_them(driver: Driver, wire: Serve) -> None:
    deflater = zlib.compressobj(wbits=31)
    seen = [threading.Event() for _ in range(3)]
    steps: list[Any] = [READ, STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")]
    for number, one in enumerate(seen):
        data = deflater.compress(b"data: %d\n\n" % number) + deflater.flush(zlib.Z_SYNC_FLUSH)
        steps += [chunk(data), wait(one)]
    server = wire([*steps, chunk(deflater.flush()) + LAST_CHUNK, GONE])

    class Releasing(Recorder):
        """Lets the server go on only when the event has been told."""

        __slots__ = ()

        def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
            super().on_event(data, flags, id, retry)
            seen[int(data)].set()

    async def body(io: Any) -> Recorder:
        async with pool_to(io, server) as pool:
            exchange = Releasing(io)
            deadline = io.now() + 10
            connection = await pool.send(exchange, post(), deadline)
            await connection.wait(exchange.slot, deadline)
            connection.leave(exchange)
            return exchange

    exchange = driver(body)
    assert exchange.events == [b"0", b"1", b"2"]
    assert exchange.slot.result() == "end"


@pytest.mark.req("W8", "T5")
def test_corrupt_compression_fails_one_call_of_many(driver: Driver, wire: Serve) -> None:
    bad = coded(b"hunter2 is not gzip at all")
    server = wire([READ, bad, GONE], [again(READ, answer(b"[1]"))])

    async def body(io: Any) -> None:
        async with pool_to(io, server) as pool:
            with pytest.raises(InvalidMessage, match="corrupt") as caught:
                await call(io, pool)
            assert caught.value.request_sent
            assert "hunter2" not in str(caught.value)
            for _ in range(3):
                assert (await call(io, pool)).body == b"[1]"

    driver(body)
    server.wait_until(lambda: server.gone == [0])
    assert server.accepted == [0, 1]
