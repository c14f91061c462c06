"""Whether an idle connection can be used again."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from tests.io.drivers import Driver, Receiver, ask, dial, echo, until


@pytest.mark.req("W16")
def test_a_quiet_connection_is_fresh_and_one_the_peer_closed_is_stale(driver: Driver, peer: Any, wire: Any) -> None:
    theirs, ours = wire
    go = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.sendall(sock.recv(100))
        go.wait(20)

    server = peer(serve, **theirs)

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, server.port, receiver, **ours)
        await ask(io, stream, receiver, b"x\n")
        assert not stream.stale()
        assert not stream.stale()
        go.set()
        until(lambda: server.ended)  # the loop does not run meanwhile: only the socket knows
        assert stream.stale()

    driver.run(scenario)


@pytest.mark.req("W16", "W11")
def test_bytes_that_nobody_asked_for_make_a_connection_stale(driver: Driver, peer: Any, wire: Any) -> None:
    theirs, ours = wire
    go, sent = threading.Event(), threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.sendall(sock.recv(100))
        go.wait(20)
        sock.sendall(b"surprise")
        sent.set()
        sock.recv(1)

    server = peer(serve, **theirs)

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, server.port, receiver, **ours)
        await ask(io, stream, receiver, b"x\n")
        go.set()
        assert sent.wait(10)
        until(stream.stale)

    driver.run(scenario)


@pytest.mark.req("W16")
def test_tls_tickets_that_arrive_while_idle_do_not_make_a_connection_stale(
    blocking: Driver, peer: Any, certificates: Any
) -> None:
    port = peer(echo, tls=certificates.server).port

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver(), tls=certificates.client(), server_hostname="localhost")
        import select

        # Tickets of TLS 1.3 come by themselves after the handshake.
        assert stream._channel.sock.version() == "TLSv1.3"
        assert select.select([stream._channel.sock], [], [], 10)[0], "no ticket came"
        assert not stream.stale()

    blocking.run(scenario)


@pytest.mark.req("W16")
def test_poll_hands_over_what_is_there_without_waiting(blocking: Driver, peer: Any) -> None:
    go = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.sendall(b"rest\n")
        go.set()
        sock.recv(1)

    port = peer(serve).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        assert go.wait(10)
        until(lambda: stream.poll() or receiver.data)
        assert bytes(receiver.data) == b"rest\n"
        stream.poll()
        stream.close()
        stream.poll()

    blocking.run(scenario)
