"""The listener on the loopback interface that a browser comes back to, under every driver."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ferrule._io import Closing, Expired
from ferrule._io.listening import MAX_HEAD, MAX_OPEN
from tests.io.drivers import PATIENCE, Driver

HEAD = b"GET /callback?code=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


class Browser:
    """Does something with sockets in a thread, while the scenario waits."""

    def __init__(self, visit: Callable[[], Any]) -> None:
        self.brought: Any = None
        self._visit = visit
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.brought = self._visit()

    def back(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.brought


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE)


def read_all(sock: socket.socket) -> bytes:
    found = b""
    while data := sock.recv(65536):
        found += data
    return found


def visit(port: int, *pieces: bytes) -> bytes:
    with dial(port) as sock:
        for piece in pieces:
            sock.sendall(piece)
        return read_all(sock)


async def listen(io: Any, port: int = 0) -> Any:
    return await io.listen(port)


@pytest.mark.parametrize("pieces", [(HEAD,), (HEAD[:7], HEAD[7:40], HEAD[40:])], ids=["at-once", "in-pieces"])
def test_a_request_is_answered(driver: Driver, pieces: tuple[bytes, ...]) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        browser = Browser(lambda: visit(listener.port, *pieces))
        asked = await listener.request(io.now() + PATIENCE)
        assert asked.head == HEAD
        asked.reply(b"HTTP/1.1 200 OK\r\n\r\nhello")
        listener.close()
        await driver.until(lambda: browser.brought is not None)
        assert browser.back().endswith(b"hello")

    driver.run(scenario)


def test_a_connection_that_asks_nothing_keeps_nobody_waiting(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        with dial(listener.port), dial(listener.port):
            browser = Browser(lambda: visit(listener.port, HEAD))
            asked = await listener.request(io.now() + PATIENCE)
            asked.reply(b"HTTP/1.1 204 No Content\r\n\r\n")
            await driver.until(lambda: browser.brought is not None)
            browser.back()
            listener.close()

    driver.run(scenario)


def test_one_request_after_another_is_taken(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        browser = Browser(lambda: [visit(listener.port, HEAD) for _ in range(3)])
        for number in range(3):
            asked = await listener.request(io.now() + PATIENCE)
            asked.reply(b"HTTP/1.1 200 OK\r\n\r\n%d" % number)
        await driver.until(lambda: browser.brought is not None)
        assert [page[-1:] for page in browser.back()] == [b"0", b"1", b"2"]
        listener.close()

    driver.run(scenario)


def test_a_head_without_end_is_cut_off(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)

        def flood() -> bool:
            with dial(listener.port) as sock:
                try:
                    for _ in range(64):
                        sock.sendall(b"x" * MAX_HEAD)
                    return sock.recv(1) == b""
                except OSError:
                    return True

        flooding = Browser(flood)
        with pytest.raises(Expired):
            await listener.request(io.now() + 0.3)
        await driver.until(lambda: flooding.brought is not None)
        assert flooding.back() is True
        listener.close()

    driver.run(scenario)


def test_the_oldest_of_too_many_connections_makes_room(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        silent = [dial(listener.port) for _ in range(MAX_OPEN + 1)]
        browser = Browser(lambda: visit(listener.port, HEAD))
        asked = await listener.request(io.now() + PATIENCE)
        asked.reply(b"HTTP/1.1 200 OK\r\n\r\n")
        await driver.until(lambda: browser.brought is not None)
        browser.back()
        silent[0].settimeout(PATIENCE)
        with pytest.raises(ConnectionResetError):
            if silent[0].recv(1) == b"":
                raise ConnectionResetError
        listener.close()
        for sock in silent:
            sock.close()

    driver.run(scenario)


def test_nobody_asking_ends_at_the_deadline(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        try:
            with pytest.raises(Expired):
                await listener.request(io.now() + 0.05)
        finally:
            listener.close()

    driver.run(scenario)


def test_a_port_that_is_taken_is_said(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        with pytest.raises(OSError):
            await listen(io, listener.port)
        listener.close()
        again = await listen(io, listener.port)
        again.close()

    driver.run(scenario)


def test_only_this_machine_can_ask(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.2", listener.port), 1).close()
        listener.close()

    driver.run(scenario)


def test_closing_the_io_ends_the_wait(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        listener = await listen(io)

        async def wait() -> None:
            try:
                await listener.request(io.now() + PATIENCE)
            finally:
                listener.close()

        async def end() -> None:
            await io.sleep(0.05)
            await io.close(io.now() + 1)

        waited, _ = await driver.together(wait(), end())
        assert isinstance(waited, Closing)

    driver.run(scenario, close=False)


def test_what_may_block_is_run_aside(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        assert await io.aside(lambda a, b: a + b, 1, 2) == 3
        where = await io.aside(threading.get_ident)
        assert (where == threading.get_ident()) is driver.blocking

    driver.run(scenario)
