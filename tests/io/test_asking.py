"""`SocketStream.ask` of the blocking driver: a write and one read in one step, without a word to the receiver."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from ferrule._io import Expired
from ferrule._io.blocking import run
from ferrule._io.channels import SocketChannel
from tests.io.drivers import Driver, Receiver, dial, echo, until


async def alone(io: Any, port: int, receiver: Receiver) -> Any:
    """A stream with one user, as HTTP has it."""
    stream = await dial(io, port, receiver)
    stream.one_waiter()
    return stream


def test_what_is_asked_is_answered_into_the_buffer_and_nobody_is_told(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        for question in (b"a\n", b"bcd\n"):
            count = stream.ask(question, receiver.get_buffer(-1), io.now() + 20)
            assert bytes(receiver.get_buffer(-1)[:count]) == question
        assert (receiver.reads, receiver.lost) == (0, [])

    blocking.run(scenario)


@pytest.mark.req("T1")
def test_with_less_than_a_nap_left_the_wait_keeps_the_deadline(blocking: Driver, peer: Any) -> None:
    port = peer(lambda sock: [sock.recv(10), sock.recv(10)]).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        deadline = io.now() + 0.1
        assert stream.ask(b"silence\n", receiver.get_buffer(-1), deadline) == 0
        with pytest.raises(Expired):
            await stream.wait(receiver.expect(io.slot()), deadline)

    blocking.run(scenario)


def test_a_request_that_the_kernel_does_not_take_whole_is_finished_by_a_write(blocking: Driver, peer: Any) -> None:
    size = 16 << 20
    begin = threading.Event()
    received: list[int] = []

    def handle(sock: socket.socket) -> None:
        begin.wait(20)
        left = size
        while left:
            left -= len(sock.recv(1 << 20))
        received.append(size)
        sock.sendall(b"done\n")

    port = peer(handle).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        deadline = io.now() + 20
        assert stream.ask(bytes(size), receiver.get_buffer(-1), deadline) == -1
        begin.set()
        slot = receiver.expect(io.slot())
        stream.write_now(b"", deadline)
        await stream.wait(slot, deadline)
        assert slot.result() == b"done\n"

    blocking.run(scenario)
    assert received == [size]


def test_a_closed_stream_refuses_the_question(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        stream.close()
        with pytest.raises(ConnectionResetError):
            stream.ask(b"a\n", receiver.get_buffer(-1), io.now() + 20)
        assert receiver.lost == [None]

    blocking.run(scenario)


@pytest.mark.req("T7")
def test_closing_wakes_who_asked_and_then_the_receiver_is_told_once(blocking: Driver, peer: Any) -> None:
    port = peer(lambda sock: sock.recv(1) and sock.recv(10)).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        counts: list[int] = []
        thread = threading.Thread(
            target=lambda: counts.append(stream.ask(b"a", receiver.get_buffer(-1), io.now() + 20))
        )
        thread.start()
        until(lambda: stream._leader is not None, "the question")
        stream.close()
        thread.join(20)
        assert counts == [0]
        assert receiver.lost == [None]

    blocking.run(scenario)


def test_a_reset_while_asking_is_the_reason_the_receiver_is_told(blocking: Driver, peer: Any) -> None:
    def handle(sock: socket.socket) -> None:
        sock.recv(10)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()

    port = peer(handle).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        slot = receiver.expect(io.slot())
        assert stream.ask(b"a\n", receiver.get_buffer(-1), io.now() + 20) == 0
        await stream.wait(slot, io.now() + 20)
        with pytest.raises(ConnectionResetError):
            slot.result()
        assert [type(error) for error in receiver.lost] == [ConnectionResetError]

    blocking.run(scenario)


@pytest.mark.req("V5")
def test_beside_somebody_who_polls_the_question_is_left_to_a_write(blocking: Driver, peer: Any) -> None:
    """Who polls a draining stream may complete its response, and then still be there when the next one asks."""
    port = peer(echo).port
    asked: list[int] = []

    async def scenario(io: Any) -> None:
        class Asking(Receiver):
            def buffer_updated(self, nbytes: int, /) -> None:
                if not asked:
                    asked.append(stream.ask(b"second\n", receiver.get_buffer(-1), io.now() + 20))
                super().buffer_updated(nbytes)

        receiver = Asking()
        stream = await alone(io, port, receiver)
        stream.write_now(b"first\n", io.now() + 20)
        until(stream.stale, "the first answer")
        stream.poll()
        assert asked == [-1]
        stream.write_now(b"", io.now() + 20)
        slot = receiver.expect(io.slot(), b"second\n")
        await stream.wait(slot, io.now() + 20)
        assert slot.result() == b"first\nsecond\n"

    blocking.run(scenario)


def test_on_a_loop_a_question_is_a_write(loop_driver: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = receiver.expect(io.slot())
        assert stream.ask(b"a\n", receiver.get_buffer(-1), io.now() + 20) == 0
        await stream.wait(slot, io.now() + 20)
        assert slot.result() == b"a\n"

    loop_driver.run(scenario)


def test_asking_never_suspends(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> int:
        receiver = Receiver()
        stream = await alone(io, port, receiver)
        count: int = stream.ask(b"a\n", receiver.get_buffer(-1), io.now() + 20)
        return count

    io = blocking.make()
    assert run(scenario(io)) == 2
    run(io.close(io.now() + 5))


@pytest.mark.req("T7")
def test_a_socket_that_another_thread_closed_just_now_does_not_nap() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        channel = SocketChannel(ours)
        ours.close()
        channel.nap()
        assert channel.naps is False
