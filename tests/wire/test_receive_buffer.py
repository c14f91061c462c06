"""The receive buffer: memory of the decoder that asyncio, sockets and TLS read into."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trustme

from ferrule._wire import BODY, CODES, END, FAULT, HEAD, LINE, LineDecoder, ResponseDecoder

BODY_SIZE = 300_000
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % BODY_SIZE
RESPONSE += b'"' + b"x" * (BODY_SIZE - 2) + b'"'


def fault(frames: list[tuple[Any, ...]]) -> tuple[str, int]:
    ((kind, code, _, size),) = frames
    assert kind == FAULT
    return CODES[code], size


@pytest.mark.parametrize("decoder", [ResponseDecoder(buffer_size=100), LineDecoder(buffer_size=100)])
def test_the_buffer_is_one_writable_memoryview(decoder: ResponseDecoder | LineDecoder) -> None:
    view = decoder.get_buffer(-1)
    assert type(view) is memoryview and not view.readonly
    assert (len(view), view.format, view.itemsize, view.contiguous) == (100, "B", 1, True)
    assert bytes(view) == bytes(100)
    assert decoder.get_buffer(4096) is view


def test_a_view_outlives_its_decoder() -> None:
    view = LineDecoder(buffer_size=1000).get_buffer()
    part = view[10:20]
    gc.collect()
    part[:] = b"0123456789"
    assert bytes(view[10:20]) == b"0123456789"


def test_no_count_makes_the_decoder_raise() -> None:
    for count in (101, 2**40, -1, -(2**40)):
        decoder = LineDecoder(buffer_size=100)
        decoder.get_buffer()
        assert fault(decoder.buffer_updated(count)) == ("bad_count", abs(count))
        assert decoder.feed(b"{}\n") == []
    response = ResponseDecoder(buffer_size=100)
    assert fault(response.buffer_updated(1)) == ("bad_count", 1)  # nobody asked for the buffer


def test_a_read_of_nothing_gives_nothing() -> None:
    decoder = LineDecoder()
    assert decoder.buffer_updated(0) == []
    decoder.get_buffer()
    assert decoder.buffer_updated(0) == []


def test_a_buffer_is_at_most_a_gibibyte_and_costs_nothing_before_it_is_filled() -> None:
    with pytest.raises(ValueError, match="1 GiB"):
        LineDecoder(buffer_size=2**30 + 1)
    decoder = LineDecoder(buffer_size=2**30)
    view = decoder.get_buffer()
    view[:3] = b"{}\n"
    assert decoder.buffer_updated(3) == [(LINE, b"{}", 0)]


def test_frames_do_not_change_with_the_buffer() -> None:
    decoder = LineDecoder(buffer_size=16)
    view = decoder.get_buffer()
    view[:5] = b"abc\nd"
    ((_, line, _),) = decoder.buffer_updated(5)
    view[:] = bytes(16)
    assert line == b"abc"
    view[:2] = b"e\n"
    assert decoder.buffer_updated(2) == [(LINE, b"de", 0)]


@pytest.mark.req("W1")
def test_a_buffer_of_one_byte_works() -> None:
    decoder = ResponseDecoder(buffer_size=1)
    decoder.begin()
    frames: list[tuple[Any, ...]] = []
    view = decoder.get_buffer()
    for at in range(120):
        view[:] = b"HTTP/1.1 200 OK\r\nContent-Length: 120\r\n\r\n"[at : at + 1] or b"x"
        frames += decoder.buffer_updated(1)
    assert [frame[0] for frame in frames] == [HEAD]


def test_a_socket_reads_into_it() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b'{"a":1}\n')
        decoder = LineDecoder()
        assert decoder.buffer_updated(ours.recv_into(decoder.get_buffer())) == [(LINE, b'{"a":1}', 0)]


class Reader(asyncio.BufferedProtocol):
    """Reads one response with the decoder's own methods."""

    def __init__(self, buffer_size: int) -> None:
        self.decoder = ResponseDecoder(buffer_size=buffer_size)
        self.decoder.begin()
        self.get_buffer = self.decoder.get_buffer  # type: ignore[method-assign, assignment]
        self.frames: list[tuple[Any, ...]] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def buffer_updated(self, nbytes: int) -> None:
        self.frames += self.decoder.buffer_updated(nbytes)
        if self.frames and self.frames[-1][0] in (END, FAULT) and not self.done.done():
            self.done.set_result(None)


def run(main: Coroutine[Any, Any, None], loop: str) -> None:
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if loop == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


async def exchange(buffer_size: int, server_tls: ssl.SSLContext | None, client_tls: ssl.SSLContext | None) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(RESPONSE)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls)
    async with server:
        port = server.sockets[0].getsockname()[1]
        name = "localhost" if client_tls else None
        transport, reader = await asyncio.get_running_loop().create_connection(
            lambda: Reader(buffer_size), "127.0.0.1", port, ssl=client_tls, server_hostname=name
        )
        await asyncio.wait_for(reader.done, 20)
        transport.close()
    assert [frame[0] for frame in reader.frames] == [HEAD, BODY, END]
    assert len(reader.frames[1][1]) == BODY_SIZE


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("buffer_size", [65536, 1000])
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_event_loops_read_into_it(loop: str, buffer_size: int, tls: bool) -> None:
    server_tls = client_tls = None
    if tls:
        authority = trustme.CA()
        server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(server_tls)
        client_tls = ssl.create_default_context()
        authority.configure_trust(client_tls)
    run(exchange(buffer_size, server_tls, client_tls), loop)


RESIDENT = """
import sys
from ferrule._wire import ResponseDecoder

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

RESPONSE = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 400\\r\\n\\r\\n" + b"x" * 400

def connection():
    decoder = ResponseDecoder()
    view = decoder.get_buffer()
    decoder.begin()
    view[: len(RESPONSE)] = RESPONSE
    assert len(decoder.buffer_updated(len(RESPONSE))) == 3
    return decoder

warm = [connection() for _ in range(100)]
before = resident()
many = [connection() for _ in range(2000)]
print((resident() - before) / 2000)
"""


@pytest.mark.req("W9")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_connection_costs_less_than_six_kilobytes() -> None:
    ran = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True)
    assert 0 < float(ran.stdout) < 6 * 1024
