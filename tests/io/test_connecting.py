"""Opening a connection: addresses in turn, names, Unix sockets, and TLS from the start or later."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from typing import Any

import pytest

from ferrule._io import Expired
from ferrule._io.asyncio_stream import SocketStream
from tests.io.drivers import Driver, Receiver, ask, dial, echo


@pytest.mark.req("W23")
def test_a_unix_socket_is_dialled_by_its_path(driver: Driver, tmp_path: Any) -> None:
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve() -> None:
        sock, _ = listener.accept()
        with sock:
            echo(sock)

    thread = threading.Thread(target=serve, daemon=True, name="test")
    thread.start()

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, 0, receiver, path=path)
        assert await ask(io, stream, receiver, b"hello\n") == b"hello\n"

    driver.run(scenario)
    thread.join(10)
    listener.close()


@pytest.mark.req("W23")
def test_where_nobody_listens_the_error_is_connection_refused(driver: Driver) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

        async def scenario(io: Any) -> None:
            receiver = Receiver()
            with pytest.raises(ConnectionRefusedError) as caught:
                await dial(io, port, receiver)
            assert caught.value.errno == errno.ECONNREFUSED
            assert receiver.lost == []
            with pytest.raises(FileNotFoundError):
                await dial(io, 0, receiver, path="/nowhere/at/all")

        driver.run(scenario)


@pytest.mark.req("W23")
@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70 + ".test", "nul\0host"])
def test_a_name_that_does_not_exist_or_cannot_is_a_resolver_error(driver: Driver, host: str) -> None:
    async def scenario(io: Any) -> None:
        with pytest.raises(socket.gaierror):
            await dial(io, 9, Receiver(), host=host)

    driver.run(scenario)


def offer(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """Let every name have these addresses, for both drivers."""
    from ferrule._io import asyncio as loop_module
    from ferrule._io import blocking_connect

    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, address) for address in addresses]

    async def look_up(loop: Any, host: str, port: int) -> Any:
        return found

    monkeypatch.setattr(loop_module, "look_up", look_up)
    monkeypatch.setattr(blocking_connect, "resolve", lambda host, port: found)


@pytest.mark.req("W23")
def test_the_next_address_is_tried_when_one_refuses(driver: Driver, peer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = peer(echo).port
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        offer(monkeypatch, unused.getsockname(), unused.getsockname(), ("127.0.0.1", port))

        async def scenario(io: Any) -> None:
            receiver = Receiver()
            stream = await dial(io, 1, receiver, host="name.test")
            assert await ask(io, stream, receiver, b"hello\n") == b"hello\n"

        driver.run(scenario)


@pytest.mark.req("W23", "T1")
def test_an_address_that_never_answers_costs_a_quarter_of_a_second_and_not_the_deadline(
    driver: Driver, peer: Any, black_hole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = peer(echo).port
    offer(monkeypatch, ("127.0.0.1", black_hole), ("127.0.0.1", port))

    async def scenario(io: Any) -> float:
        began = io.now()
        receiver = Receiver()
        stream = await dial(io, 1, receiver, host="name.test")
        took = io.now() - began
        assert await ask(io, stream, receiver, b"hello\n") == b"hello\n"
        return float(took)

    assert 0.2 <= driver.run(scenario) < 2


@pytest.mark.req("W23")
def test_when_every_address_fails_the_last_ones_error_comes_out(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        offer(monkeypatch, unused.getsockname(), unused.getsockname())

        async def scenario(io: Any) -> None:
            with pytest.raises(ConnectionRefusedError):
                await dial(io, 1, Receiver(), host="name.test")

        driver.run(scenario)


@pytest.mark.req("W23")
def test_addresses_of_both_families_alternate_beginning_with_the_preferred_one() -> None:
    from ferrule._io.addresses import in_turn

    six, four = socket.AF_INET6, socket.AF_INET
    found = [(six, 1, 6, "", "a"), (six, 1, 6, "", "b"), (six, 1, 6, "", "c"), (four, 1, 6, "", "d")]
    assert [address[3] for address in in_turn(found)] == ["a", "d", "b", "c"]
    assert in_turn([]) == []


@pytest.mark.req("W23")
@pytest.mark.parametrize("trust", ["untrusted", "wrong name"])
def test_certificate_trouble_is_an_ssl_error_and_the_receiver_hears_nothing(
    driver: Driver, peer: Any, certificates: Any, trust: str
) -> None:
    server = certificates.untrusted if trust == "untrusted" else certificates.server
    name = "localhost" if trust == "untrusted" else "example.com"
    port = peer(echo, tls=server).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        with pytest.raises(ssl.SSLCertVerificationError):
            await dial(io, port, receiver, tls=certificates.client(), server_hostname=name)
        assert receiver.lost == []

    driver.run(scenario)


@pytest.mark.req("W23", "T1")
def test_a_tls_handshake_that_gets_no_answer_ends_at_its_deadline(driver: Driver, peer: Any, certificates: Any) -> None:
    port = peer(lambda sock: sock.recv(100_000) and sock.recv(1)).port

    async def scenario(io: Any) -> float:
        began = io.now()
        with pytest.raises(Expired):
            await dial(
                io, port, Receiver(), tls=certificates.client(), server_hostname="localhost", deadline=io.now() + 0.1
            )
        return float(io.now() - began)

    assert 0.1 <= driver.run(scenario) < 2


@pytest.mark.req("W23")
def test_a_peer_that_speaks_no_tls_is_an_error_and_its_words_never_reach_the_receiver(
    driver: Driver, peer: Any, certificates: Any
) -> None:
    def talk(sock: socket.socket) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        while sock.recv(1000):
            pass

    port = peer(talk).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        with pytest.raises(OSError):
            await dial(io, port, receiver, tls=certificates.client(), server_hostname="localhost")
        assert bytes(receiver.data) == b""

    driver.run(scenario)


@pytest.mark.req("W23")
@pytest.mark.parametrize("size", [1, 65536])
def test_a_stream_becomes_a_tls_one_after_connect(driver: Driver, peer: Any, certificates: Any, size: int) -> None:
    def proxy(sock: socket.socket) -> None:
        assert sock.recv(100) == b"CONNECT\n"
        sock.sendall(b"200\n")
        with certificates.server.wrap_socket(sock, server_side=True) as tls:
            tls.sendall(b"at once\n")  # with the end of the handshake
            echo(tls)

    port = peer(proxy).port

    async def scenario(io: Any) -> None:
        receiver = Receiver(size)
        stream = await dial(io, port, receiver)
        assert await ask(io, stream, receiver, b"CONNECT\n") == b"200\n"
        await stream.start_tls(certificates.client(), "localhost", io.now() + 10)
        slot = receiver.expect(io.slot())
        await stream.wait(slot, io.now() + 10)
        assert slot.result() == b"at once\n"
        assert await ask(io, stream, receiver, b"secret\n") == b"secret\n"

    driver.run(scenario)


@pytest.mark.req("W23")
def test_plain_text_left_over_at_start_tls_breaks_the_handshake_and_is_no_answer(
    driver: Driver, peer: Any, certificates: Any
) -> None:
    go = threading.Event()

    def proxy(sock: socket.socket) -> None:
        sock.recv(100)
        sock.sendall(b"200\n")
        go.wait(10)
        sock.sendall(b"injected\n")
        while sock.recv(1000):
            pass

    port = peer(proxy).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        assert await ask(io, stream, receiver, b"CONNECT\n") == b"200\n"
        go.set()
        if io.blocking:
            import select

            # It waits in the kernel when the handshake begins.
            assert select.select([stream._channel.sock], [], [], 10)[0]
        # On asyncio it may come before the call: then the receiver has it, as what nobody asked for.
        expected: Any = OSError if io.blocking else (OSError, Expired)
        with pytest.raises(expected):
            await stream.start_tls(certificates.client(), "localhost", io.now() + 1)
        assert bytes(receiver.data) == b"" or not io.blocking
        assert stream.closed
        assert len(receiver.lost) == 1

    driver.run(scenario)


@pytest.mark.req("W23")
def test_plain_text_that_comes_before_the_handshake_is_no_tls(loop_driver: Driver, peer: Any) -> None:
    port = peer(lambda sock: [sock.sendall(b"220 hello\r\n"), sock.recv(1)]).port

    async def scenario(io: Any) -> None:
        io.check()
        sock = await asyncio.to_thread(connected, port)
        stream = SocketStream(io, sock, Receiver(), guarded=True)
        await asyncio.get_running_loop().create_connection(lambda: stream, sock=sock)
        await loop_driver.until(lambda: stream.closed, "the breach")
        with pytest.raises(ssl.SSLError) as caught:
            await stream.start_tls(ssl.create_default_context(), "localhost", io.now() + 20)
        assert caught.value.reason == "WRONG_VERSION_NUMBER"

    loop_driver.run(scenario)


def connected(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    sock.setblocking(False)
    return sock
