"""Exchanges over real sockets, on each driver: what a server may do, and what the caller sees of it."""

from __future__ import annotations

import gzip
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from ferrule._http.pool import Pool
from ferrule._http.url import parse_url
from ferrule._io import Expired
from ferrule.errors import ConnectError, ConnectionClosed, InvalidMessage
from ferrule.limits import Limits
from tests.http.wire import (
    CLOSE,
    GONE,
    LAST_CHUNK,
    READ,
    RESET,
    STREAM_HEAD,
    Driver,
    Peer,
    Recorder,
    WireServer,
    again,
    answer,
    call,
    chunk,
    event,
    post,
    trickle,
    wait,
)

Serve = Callable[..., WireServer]


class pool_to:
    """A pool that is closed at the end of an `async with`."""

    def __init__(self, io: Any, server: WireServer, *, endpoint: Any = None, tls: Any = None, **limits: Any) -> None:
        self.pool = Pool(io, parse_url(server.url), limits=Limits(**limits), endpoint=endpoint, tls=tls)

    async def __aenter__(self) -> Pool:
        return self.pool

    async def __aexit__(self, *reason: object) -> None:
        await self.pool.close()
        assert not self.pool.connections


def coded(data: bytes, kind: bytes = b"application/json", encoding: bytes = b"gzip") -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
        % (kind, encoding, len(data))
    ) + data


# --- answers -------------------------------------------------------------------------------------


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


# --- connections that end ------------------------------------------------------------------------


@pytest.mark.req("W16")
@pytest.mark.parametrize("how", [CLOSE, RESET])
def test_a_connection_that_the_server_closed_while_idle_is_not_used_again(
    driver: Driver, wire: Serve, how: Any
) -> None:
    go = threading.Event()
    server = wire([READ, answer(), wait(go), how], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server) as pool:
            await call(io, pool)
            go.set()
            server.wait_until(lambda: server.ended == [0])
            await io.sleep(0.002)  # over the millisecond after which a connection is looked at
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.req("W16", "W11")
def test_a_connection_with_unasked_bytes_is_not_used_again(driver: Driver, wire: Serve) -> None:
    go, sent = threading.Event(), threading.Event()
    late = [wait(go), answer(b'{"late":1}'), lambda peer: sent.set(), GONE]
    server = wire([READ, answer(), *late], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server) as pool:
            await call(io, pool)
            go.set()
            assert sent.wait(10)
            await io.sleep(0.002)
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    server.wait_until(lambda: 0 in server.gone)


@pytest.mark.req("W16", "R2")
@pytest.mark.parametrize("how", [CLOSE, RESET])
@pytest.mark.parametrize("partial", [b"", answer()[:20], answer()[:-1], STREAM_HEAD + event("a")])
def test_a_connection_that_dies_before_the_answer_says_that_the_request_was_sent(
    driver: Driver, wire: Serve, how: Any, partial: bytes
) -> None:
    server = wire([READ, answer(), READ, partial, how], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server) as pool:
            await call(io, pool)
            with pytest.raises(ConnectionClosed) as caught:
                await call(io, pool)
            assert caught.value.request_sent
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    assert len(server.requests) == 3, "nothing is sent again down here"


@pytest.mark.req("W16")
@pytest.mark.parametrize("status", ["413 Content Too Large", "401 Unauthorized"])
def test_an_early_answer_is_read_although_the_server_stopped_reading(driver: Driver, wire: Serve, status: str) -> None:
    def hang_up(peer: Any) -> None:
        peer.socket.shutdown(1)  # it has said all; what it has not read makes no difference
        GONE(peer)

    early = answer(b"{}", "Connection: close", status=status)
    server = wire([Peer.read_some, early, hang_up])

    async def body(io: Any) -> Recorder:
        async with pool_to(io, server) as pool:
            return await call(io, pool, post(b"x" * (4 << 20)))

    assert driver(body).log == [("head", int(status[:3])), ("body", b"{}"), ("end",)]


@pytest.mark.req("W16", "T1")
def test_a_server_that_reads_nothing_and_answers_nothing_meets_the_deadline(driver: Driver, wire: Serve) -> None:
    go = threading.Event()
    server = wire([wait(go)])

    async def body(io: Any) -> None:
        async with pool_to(io, server) as pool:
            exchange = Recorder(io)
            large = post(b"x" * (32 << 20))
            with pytest.raises(Expired):
                deadline = io.now() + 0.5
                connection = await pool.send(exchange, large, deadline)
                try:
                    await connection.wait(exchange.slot, deadline)
                finally:
                    connection.leave(exchange)
            assert exchange.sent
            assert not pool.connections

    try:
        driver(body)
    finally:
        go.set()


@pytest.mark.req("W17")
def test_an_idle_connection_expires(driver: Driver, wire: Serve) -> None:
    server = wire([READ, answer(b"[1]"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, idle_timeout=0.02) as pool:
            await call(io, pool)
            await io.sleep(0.03)
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    server.wait_until(lambda: 0 in server.gone)


@pytest.mark.req("T2", "W18")
def test_giving_up_closes_the_connection_and_tells_the_server_nothing_else(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("progress"), GONE], [READ, answer(), GONE])

    async def body(io: Any) -> None:
        async with pool_to(io, server) as pool:
            with pytest.raises(Expired):
                await call(io, pool, seconds=0.05)
            await driver.until(lambda: server.gone == [0])
            await call(io, pool)

    driver(body)
    assert len(server.requests) == 2


# --- draining ------------------------------------------------------------------------------------


@pytest.mark.req("W18")
def test_the_caller_goes_at_the_result_and_the_connection_is_used_again(driver: Driver, wire: Serve) -> None:
    go, sent = threading.Event(), threading.Event()
    rest = [wait(go), event("late") + LAST_CHUNK, lambda peer: sent.set()]
    server = wire([READ, STREAM_HEAD + event("result"), *rest, READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, drain_timeout=10) as pool:
            exchange = await call(io, pool, on_first_event=True)
            (connection,) = pool.connections
            assert connection.state == "draining"
            go.set()
            assert sent.wait(10)
            if not driver.is_blocking:
                await driver.until(lambda: connection.state == "idle")
            second = await call(io, pool)
            assert exchange.events == [b"result"]
            return second.body

    assert driver(body) == b"[2]"
    assert server.accepted == [0]


@pytest.mark.req("W18")
def test_a_stream_that_the_server_keeps_open_is_closed_after_a_short_wait(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("result"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, drain_timeout=0.03) as pool:
            started = io.now()
            await call(io, pool, on_first_event=True)
            assert io.now() - started < 0.03 or server.accepted == [0], "the caller does not wait"
            (connection,) = pool.connections
            if driver.is_blocking:
                await io.sleep(0.04)
            else:
                await driver.until(lambda: connection.state == "closed")
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    server.wait_until(lambda: 0 in server.gone)


@pytest.mark.req("W18")
def test_while_one_drains_another_is_opened(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("result"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, drain_timeout=10, max_connections=1) as pool:
            await call(io, pool, on_first_event=True)
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"


@pytest.mark.req("W18", "T7")
def test_closing_does_not_wait_for_what_drains(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("result"), GONE])

    async def body(io: Any) -> float:
        async with pool_to(io, server, drain_timeout=10) as pool:
            await call(io, pool, on_first_event=True)
        started: float = io.now()
        await io.close(started + 5)
        return io.now() - started  # type: ignore[no-any-return]

    assert driver(body) < 1
    server.wait_until(lambda: server.gone == [0])


# --- the bound -----------------------------------------------------------------------------------


@pytest.mark.req("W25")
def test_callers_beyond_the_bound_wait_and_are_all_served(driver: Driver, wire: Serve) -> None:
    server = wire([again(READ, answer(b"[1]"))])

    async def body(io: Any) -> list[bytes]:
        async with pool_to(io, server, max_connections=3) as pool:
            calls = [call(io, pool, post(name=str(n))) for n in range(40)]
            return [one.body for one in await io.fan_out(*calls)]

    assert driver(body) == [b"[1]"] * 40
    assert len(server.accepted) <= 3
    assert len(server.requests) == 40


@pytest.mark.req("W25", "T1")
def test_waiting_for_a_place_counts_against_the_deadline_and_nothing_was_sent(driver: Driver, wire: Serve) -> None:
    go = threading.Event()
    server = wire([READ, wait(go), answer(b"[1]"), READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> None:
        async with pool_to(io, server, max_connections=1) as pool:
            first = driver.start(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            exchange = Recorder(io)
            with pytest.raises(Expired):
                await pool.send(exchange, post(), io.now() + 0.05)
            assert not exchange.sent
            go.set()
            assert (await driver.done(first)).body == b"[1]"
            assert (await call(io, pool)).body == b"[2]"

    driver(body)


@pytest.mark.req("W25")
def test_what_bypasses_the_bound_goes_through_when_all_places_are_taken(driver: Driver, wire: Serve) -> None:
    go = threading.Event()
    server = wire([READ, wait(go), answer(b"[1]"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> None:
        async with pool_to(io, server, max_connections=1) as pool:
            first = driver.start(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            assert (await call(io, pool, bypass=True)).body == b"[2]"
            go.set()
            assert (await driver.done(first)).body == b"[1]"

    driver(body)


@pytest.mark.req("T7")
def test_closing_wakes_who_waits_for_a_place_and_who_waits_for_an_answer(driver: Driver, wire: Serve) -> None:
    server = wire([READ, GONE])

    async def body(io: Any) -> list[bool]:
        async with pool_to(io, server, max_connections=1) as pool:
            first = driver.start(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            second = driver.start(call(io, pool))
            await driver.until(lambda: "1 waiting" in repr(pool))
            await pool.close()
            sent = []
            for one in (first, second):
                with pytest.raises(ConnectionClosed) as caught:
                    await driver.done(one)
                sent.append(caught.value.request_sent)
            return sent

    assert driver(body) == [True, False]
    server.wait_until(lambda: server.gone == [0])


@pytest.mark.req("W25", "T4")
def test_a_cancelled_task_gives_back_what_it_had(driver: Driver, wire: Serve) -> None:
    if driver.is_blocking:
        return
    server = wire([READ, GONE], [READ, answer(b"[2]"), READ, answer(b"[3]"), GONE])

    async def body(io: Any) -> None:
        import asyncio

        async with pool_to(io, server, max_connections=1) as pool:
            first = asyncio.create_task(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            second = asyncio.create_task(call(io, pool))
            third = asyncio.create_task(call(io, pool))
            await driver.until(lambda: "2 waiting" in repr(pool))
            second.cancel()
            first.cancel()
            assert (await third).body == b"[2]"
            assert (await call(io, pool)).body == b"[3]"
            for task in (first, second):
                with pytest.raises(asyncio.CancelledError):
                    await task

    driver(body)
    assert server.gone[0] == 0


@pytest.mark.req("W25")
def test_threads_share_a_pool(wire: Serve) -> None:
    server = wire([again(READ, answer(b"[1]"))])

    async def body(io: Any) -> None:
        async with pool_to(io, server, max_connections=4) as pool:

            async def many() -> int:
                return sum([len((await call(io, pool)).body) for _ in range(50)])

            assert await io.fan_out(*(many() for _ in range(16))) == [150] * 16
            assert len(pool.connections) <= 4
            assert repr(pool).endswith(" 0 waiting>")

    Driver("blocking")(body)
    assert len(server.requests) == 800
    assert len(server.accepted) <= 4


@pytest.mark.req("W25", "W16")
def test_threads_and_tasks_lose_no_place_when_the_server_keeps_hanging_up(driver: Driver, wire: Serve) -> None:
    good = [READ, answer(b"[1]")]
    events = [READ, STREAM_HEAD + event("result"), LAST_CHUNK]
    server = wire([*good * 3, *events * 2, READ, RESET], [*events, *good, CLOSE], [READ, GONE], [*good * 9, CLOSE])

    async def body(io: Any) -> tuple[int, int]:
        async with pool_to(io, server, max_connections=4) as pool:

            async def many(worker: int) -> int:
                answered = 0
                for number in range(25):
                    seconds = 0.02 if (worker + number) % 7 == 0 else 1.0
                    try:
                        await call(io, pool, seconds=seconds, on_first_event=number % 2 == 0)
                        answered += 1
                    except (ConnectionClosed, Expired):
                        pass
                return answered

            answered = sum(await io.fan_out(*(many(worker) for worker in range(12))))
            assert repr(pool).endswith(" 0 waiting>")
            assert not [one for one in pool.connections if one.state == "busy"]
            # All places are there: so many exchanges can be open at once, and not one more.
            for _ in range(4):
                await pool.acquire(io.now() + 5)
            with pytest.raises(Expired):
                await pool.acquire(io.now() + 0.01)
            return answered, len(server.requests)

    answered, requests = driver(body)
    assert 200 < answered <= 300
    assert requests <= 300


# --- connecting ----------------------------------------------------------------------------------


def failing(driver: Driver, url: str, **options: Any) -> ConnectError:
    """The error of a call to what cannot be reached."""

    async def body(io: Any) -> ConnectError:
        pool = Pool(io, parse_url(url), limits=Limits(), **options)
        exchange = Recorder(io)
        with pytest.raises(ConnectError) as caught:
            await pool.send(exchange, post(), io.now() + 10)
        assert not caught.value.request_sent
        assert not exchange.sent
        assert not pool.connections
        await pool.close()
        return caught.value

    error: ConnectError = driver(body)
    assert "hunter2" not in str(error)
    return error


@pytest.mark.req("W23")
def test_a_refused_connection_names_host_port_and_reason(driver: Driver) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    error = failing(driver, f"http://me:hunter2@127.0.0.1:{port}/mcp?hunter2")

    assert str(error) == f"cannot connect to 127.0.0.1:{port}: connection refused"


@pytest.mark.req("W23", "W20")
@pytest.mark.parametrize("driver", ["blocking", "asyncio"], indirect=True)  # uvloop's resolver is in C
def test_a_name_that_does_not_exist_says_so(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def not_found(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "hunter2 not known")

    monkeypatch.setattr(socket, "getaddrinfo", not_found)
    error = failing(driver, "http://nowhere.invalid:81/mcp")

    assert str(error) == "cannot connect to nowhere.invalid:81: the host name was not found"


@pytest.mark.req("W23")
def test_an_endpoint_says_where_to_connect_whatever_the_url_says(driver: Driver, wire: Serve, tmp_path: Any) -> None:
    from ferrule._http.endpoints import Tcp, Unix

    tcp_server = wire([READ, answer(b"[1]"), GONE])
    unix_server = wire([READ, answer(b"[2]"), GONE], path=str(tmp_path / "s"))
    unix_server.url = "http://example.invalid/mcp"

    async def body(io: Any) -> list[bytes]:
        bodies = []
        tcp = Tcp("127.0.0.1", tcp_server.port, "http://example.invalid/mcp")
        for server, endpoint in ((tcp_server, tcp), (unix_server, Unix(tmp_path / "s"))):
            server.url = endpoint.url.label
            async with pool_to(io, server, endpoint=endpoint) as pool:
                bodies.append((await call(io, pool)).body)
        return bodies

    assert driver(body) == [b"[1]", b"[2]"]


@pytest.mark.req("W23")
def test_a_missing_unix_socket_is_named(driver: Driver, tmp_path: Any) -> None:
    from ferrule._http.endpoints import Unix

    path = str(tmp_path / "missing")

    error = failing(driver, "http://localhost/mcp", endpoint=Unix(path))

    assert str(error) == f"cannot connect to {path}: there is no such socket"


@pytest.mark.req("W23", "T1")
def test_connecting_meets_the_deadline(driver: Driver) -> None:
    import socket

    # A listener whose queue is full answers no further connection.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)

        async def body(io: Any) -> None:
            pool = Pool(io, parse_url(f"http://127.0.0.1:{address[1]}/"), limits=Limits(max_connections=1))
            exchange = Recorder(io)
            for _ in range(2):
                with pytest.raises(Expired):
                    await pool.send(exchange, post(), io.now() + 0.1)
            assert not exchange.sent
            assert not pool.connections
            await pool.close()

        try:
            driver(body)
        finally:
            for filler in fillers:
                filler.close()
