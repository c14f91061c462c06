"""Byte streams: plain and TLS, whole and in single bytes, both ways at once, and how they end."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from typing import Any

import pytest

from ferrule._io import Expired
from tests.io.drivers import Driver, Peer, Receiver, ask, dial, echo, until


@pytest.mark.req("W23")
@pytest.mark.parametrize("size", [1, 7, 65536])
def test_an_echo_comes_back_byte_for_byte_whatever_the_receivers_buffer(
    driver: Driver, peer: Any, wire: Any, size: int
) -> None:
    theirs, ours = wire
    port = peer(echo, **theirs).port
    message = os.urandom(2_000 if size < 10 else 300_000).hex().encode() + b"\n"

    async def scenario(io: Any) -> None:
        receiver = Receiver(size)
        stream = await dial(io, port, receiver, **ours)
        assert await ask(io, stream, receiver, b"short\n") == b"short\n"
        assert await ask(io, stream, receiver, message) == message
        assert receiver.reads >= len(message) // size

    driver.run(scenario)


@pytest.mark.req("W23", "W9")
def test_20_megabytes_both_ways_at_once_do_not_block_each_other(driver: Driver, peer: Any, wire: Any) -> None:
    theirs, ours = wire
    port = peer(echo, **theirs).port
    message = b"x" * 20_000_000 + b"\n"

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver, **ours)
        assert await ask(io, stream, receiver, message) == message

    driver.run(scenario)


@pytest.mark.req("W23")
def test_nagles_algorithm_is_off_and_keep_alive_on(driver: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver())
        sock = stream._channel.sock if io.blocking else stream._sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    driver.run(scenario)


@pytest.mark.req("W16", "R1")
def test_the_end_of_the_stream_is_told_once_and_later_writes_fail(driver: Driver, peer: Any, wire: Any) -> None:
    theirs, ours = wire
    port = peer(lambda sock: sock.recv(100) and sock.sendall(b"last\n"), **theirs).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver, **ours)
        assert await ask(io, stream, receiver, b"x\n") == b"last\n"
        slot = receiver.expect(io.slot())
        await stream.wait(slot, io.now() + 10)
        with pytest.raises((EOFError, ConnectionResetError)):
            slot.result()
        assert stream.closed
        with pytest.raises(OSError):
            await stream.write(b"y\n", io.now() + 1)
        stream.close()
        assert len(receiver.lost) == 1

    driver.run(scenario)


@pytest.mark.req("R1")
def test_a_reset_is_told_as_an_error(driver: Driver, peer: Any) -> None:
    def reset(sock: socket.socket) -> None:
        sock.recv(100)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    port = peer(reset).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = receiver.expect(io.slot())
        await stream.write(b"x\n", io.now() + 10)
        await stream.wait(slot, io.now() + 10)
        with pytest.raises(ConnectionResetError):
            slot.result()
        assert [type(error) for error in receiver.lost] == [ConnectionResetError]

    driver.run(scenario)


@pytest.mark.req("W16")
def test_an_answer_that_comes_before_the_request_is_all_sent_can_be_read(driver: Driver, peer: Any) -> None:
    def refuse(sock: socket.socket) -> None:
        sock.recv(10)
        sock.sendall(b"413\n")
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 20):
            pass

    port = peer(refuse).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = receiver.expect(io.slot())
        with contextlib.suppress(OSError):
            await stream.write(b"x" * 30_000_000, io.now() + 10)
        await stream.wait(slot, io.now() + 10)
        assert slot.result() == b"413\n"

    driver.run(scenario)


@pytest.mark.req("D5", "T1")
def test_a_blocking_write_to_a_peer_that_reads_nothing_meets_its_deadline_and_no_later_message_is_torn(
    blocking: Driver, peer: Any
) -> None:
    go = threading.Event()
    heard: list[bytes] = []

    def late(sock: socket.socket) -> None:
        go.wait(20)
        data = bytearray()
        while piece := sock.recv(1 << 20):
            data += piece
        heard.append(bytes(data))

    port = peer(late).port
    size = 20_000_000

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver())
        began = io.now()
        with pytest.raises(Expired):
            await stream.write(b"a" * size, io.now() + 0.1)
        assert 0.1 <= io.now() - began < 2
        go.set()
        await stream.write(b"b" * 10, io.now() + 10)
        stream.finish_writing()
        until(lambda: heard)

    blocking.run(scenario)
    assert heard[0] == b"a" * size + b"b" * 10


@pytest.mark.req("W6")
def test_half_closing_ends_what_the_peer_reads_and_leaves_its_answer_readable(driver: Driver, peer: Any) -> None:
    def serve(sock: socket.socket) -> None:
        data = b""
        while piece := sock.recv(100):
            data += piece
        sock.sendall(b"%d bytes\n" % len(data))

    port = peer(serve).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = receiver.expect(io.slot())
        await stream.write(b"12345", io.now() + 10)
        stream.finish_writing()
        stream.finish_writing()
        await stream.wait(slot, io.now() + 10)
        assert slot.result() == b"5 bytes\n"

    driver.run(scenario)


@pytest.mark.req("T3")
def test_after_the_end_of_a_stream_a_slot_that_somebody_else_fills_is_still_waited_for(
    driver: Driver, peer: Any
) -> None:
    port = peer(lambda sock: None).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = io.slot()

        async def fill() -> None:
            await driver.until(lambda: receiver.lost)
            await io.sleep(0.01)
            slot.set("from another stream")

        await driver.together(stream.wait(slot, io.now() + 10), fill())
        assert slot.result() == "from another stream"

    driver.run(scenario)


@pytest.mark.req("T6")
def test_mail_is_handed_over_before_the_value_that_came_in_the_same_packet(driver: Driver, peer: Any) -> None:
    port = peer(echo).port

    class Mailing(Receiver):
        slot: Any

        def buffer_updated(self, nbytes: int, /) -> None:
            self.data += self._view[:nbytes]
            if self.data.endswith(b"3"):
                self.slot.post(1)
                self.slot.post(2)
                self.slot.set(3)

    async def scenario(io: Any) -> None:
        receiver = Mailing()
        stream = await dial(io, port, receiver)
        slot = receiver.slot = io.slot()
        await stream.write(b"123", io.now() + 10)
        await stream.wait(slot, io.now() + 10)
        assert slot.mail
        assert slot.take_mail() == [1, 2]
        assert (slot.done, slot.result()) == (True, 3)

    driver.run(scenario)


@pytest.mark.req("W1")
@pytest.mark.parametrize("size", [1, 65536])
def test_the_cores_decoder_reads_straight_from_the_socket(driver: Driver, peer: Any, wire: Any, size: int) -> None:
    from ferrule import _core

    theirs, ours = wire
    body = b'{"answer":' + b"9" * 50_000 + b"}"
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    def serve(sock: socket.socket) -> None:
        while sock.recv(1000):
            sock.sendall(answer)

    port = peer(serve, **theirs).port

    class Decoding:
        def __init__(self) -> None:
            self.decoder = _core.ResponseDecoder(buffer_size=size)
            self.get_buffer = self.decoder.get_buffer
            self.frames: list[Any] = []
            self.slot: Any = None

        def buffer_updated(self, nbytes: int, /) -> None:
            self.frames += self.decoder.buffer_updated(nbytes)
            if self.frames and self.frames[-1][0] == _core.END:
                self.slot.set(self.frames)

        def connection_lost(self, error: Exception | None, /) -> None:
            pass

    async def scenario(io: Any) -> None:
        receiver = Decoding()
        stream = await dial(io, port, receiver, **ours)
        for _ in range(2):
            receiver.decoder.begin()
            receiver.frames = []
            slot = receiver.slot = io.slot()
            await stream.write(b"GET\n", io.now() + 20)
            await stream.wait(slot, io.now() + 20)
            kinds = [frame[0] for frame in slot.result()]
            assert (kinds[0], kinds[-1]) == (_core.HEAD, _core.END)
            assert body in [frame[1] for frame in slot.result()]

    driver.run(scenario)


def test_the_stand_in_for_poll_sees_what_poll_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    from ferrule._io import wakers

    monkeypatch.setattr(wakers, "new_poll", wakers.SelectPoll)
    monkeypatch.delattr(os, "eventfd", raising=False)
    with Peer(echo) as server:

        async def scenario(io: Any) -> None:
            receiver = Receiver()
            stream = await dial(io, server.port, receiver)
            assert await ask(io, stream, receiver, b"hello\n") == b"hello\n"
            with pytest.raises(Expired):
                await io.wait(io.slot(), io.now() + 0.01)
            assert not stream.stale()

        # As on Windows: no poll, no eventfd.
        from ferrule._io import blocking_connect, blocking_stream, channels

        for module in (blocking_connect, blocking_stream, channels):
            monkeypatch.setattr(module, "new_poll", wakers.SelectPoll)
        Driver("blocking").run(scenario)
