"""A server made of steps on raw sockets, and both drivers behind one face.

`WireServer([[READ, b"HTTP/1.1 ..."], ...])`: the first connection plays the first list, the second the second, and
so on; the last list is played by all that follow. A step is bytes to send, or a function of the `Peer`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from ferrule._http.exchange import Exchange
from ferrule._http.pool import Pool
from ferrule._http.url import parse_url
from ferrule.errors import FerruleError
from ferrule.limits import Limits

PATIENCE = 10.0
"""Seconds after which something that should have happened fails the test."""

Step = bytes | Callable[["Peer"], None]


class Peer:
    """The server's side of one connection."""

    def __init__(self, server: WireServer, sock: socket.socket, number: int) -> None:
        self.server = server
        self.socket = sock
        self.number = number
        self._received = b""

    def receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except OSError:  # reset, or closed by the end of the test
            return b""

    def read_some(self) -> None:
        """The beginning of a request."""
        self._received += self.socket.recv(100)

    def read_request(self) -> bytes | None:
        """One whole request, None at the end of the stream."""
        while b"\r\n\r\n" not in self._received:
            data = self.receive()
            if not data:
                return None
            self._received += data
        head, _, rest = self._received.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        while len(rest) < length:
            data = self.receive()
            if not data:
                return None
            rest += data
        self._received = rest[length:]
        return head + b"\r\n\r\n" + rest[:length]


def READ(peer: Peer) -> None:
    """Read one request; the script ends if none comes."""
    request = peer.read_request()
    if request is None:
        raise EOFError
    peer.server.note(peer.server.requests, (peer.number, request))


def CLOSE(peer: Peer) -> None:
    """End the stream in good order."""
    if isinstance(peer.socket, ssl.SSLSocket):
        peer.socket.setblocking(False)  # say goodbye and do not wait for the client's
        with contextlib.suppress(OSError, ValueError):
            peer.socket.unwrap()
    peer.socket.close()
    peer.server.note(peer.server.ended, peer.number)


def RESET(peer: Peer) -> None:
    """Break the connection."""
    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.socket.close()
    peer.server.note(peer.server.ended, peer.number)


def GONE(peer: Peer) -> None:
    """Wait until the client has ended the stream."""
    while peer.receive():
        pass
    peer.server.note(peer.server.gone, peer.number)


def wait(event: threading.Event) -> Step:
    """Wait until the test sets an event."""

    def step(peer: Peer) -> None:
        assert event.wait(PATIENCE), "the test never set the event"

    return step


def trickle(data: bytes) -> Step:
    """Send byte by byte."""

    def step(peer: Peer) -> None:
        for at in range(len(data)):
            peer.socket.sendall(data[at : at + 1])

    return step


def again(*steps: Step) -> Step:
    """Play steps until the client ends the stream."""

    def step(peer: Peer) -> None:
        while True:
            for one in steps:
                peer.server.play(peer, one)

    return step


class WireServer:
    """Listens on 127.0.0.1 (or a Unix socket) and plays scripts; see the module."""

    def __init__(
        self,
        scripts: Sequence[Sequence[Step]],
        *,
        tls: ssl.SSLContext | None = None,
        path: str | None = None,
    ) -> None:
        self._scripts = scripts
        self._tls = tls
        self.requests: list[tuple[int, bytes]] = []
        self.accepted: list[int] = []
        self.ended: list[int] = []
        self.gone: list[int] = []
        self.finished: list[int] = []
        self.failures: list[BaseException] = []
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self.port: int = self._listener.getsockname()[1]
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(path)
            self._listener.listen()
            self.port = 0
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/mcp"

    def __enter__(self) -> WireServer:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a script did not end"
        for sock in self._sockets:
            sock.close()
        if kind is None and self.failures:
            raise self.failures[0]

    def adopt(self, sock: socket.socket) -> None:
        """Close this too at the end."""
        self._sockets.append(sock)

    def note(self, journal: list[Any], entry: Any) -> None:
        with self._changed:
            journal.append(entry)
            self._changed.notify_all()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until what the server saw makes a condition true."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), "it did not happen"

    def play(self, peer: Peer, step: Step) -> None:
        if isinstance(step, bytes):
            peer.socket.sendall(step)
        else:
            step(peer)

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(sock)
            self.note(self.accepted, number)
            self._start(self._serve, sock, number)
            number += 1

    def _serve(self, sock: socket.socket, number: int) -> None:
        script = self._scripts[min(number, len(self._scripts) - 1)]
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._sockets.append(sock)
            peer = Peer(self, sock, number)
            for step in script:
                self.play(peer, step)
        except (EOFError, OSError):
            pass  # the client hung up, which is what the test is about, or the test is over
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.note(self.finished, number)


# --- bytes ---------------------------------------------------------------------------------------


def post(body: bytes = b"{}", name: str = "1") -> bytes:
    """A request."""
    return (f"POST /mcp HTTP/1.1\r\nHost: h\r\nX-Name: {name}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body


def answer(body: bytes = b'{"ok":1}', *headers: str, status: str = "200 OK") -> bytes:
    """A response with a JSON body and a length."""
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str) -> bytes:
    return chunk(f"data: {text}\n\n".encode())


# --- what a caller is ----------------------------------------------------------------------------


class Recorder(Exchange):
    """Writes down what it is told. Its slot is done at the end, or at the first event."""

    __slots__ = ("log", "on_first_event")

    def __init__(self, io: Any, *, on_first_event: bool = False) -> None:
        super().__init__(io.slot())
        self.log: list[Any] = []
        self.on_first_event = on_first_event

    def on_head(self, head: Any) -> None:
        self.log.append(("head", head.status))

    def on_body(self, data: bytes, flags: int) -> None:
        self.log.append(("body", data))

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        self.log.append(("event", data, id, retry))
        if self.on_first_event:
            self.slot.set("event")

    def on_typed_event(self, data: bytes, flags: int, id: str | None, retry: int | None, type: str) -> None:
        self.log.append(("typed", data, type))
        super().on_typed_event(data, flags, id, retry, type)

    def on_comment(self) -> None:
        self.log.append(("comment",))

    def on_end(self) -> None:
        self.log.append(("end",))
        self.slot.set("end")

    def on_failed(self, error: FerruleError) -> None:
        self.log.append(("failed", type(error).__name__))
        self.slot.fail(error)

    @property
    def body(self) -> bytes:
        return b"".join(entry[1] for entry in self.log if entry[0] == "body")

    @property
    def events(self) -> list[bytes]:
        return [entry[1] for entry in self.log if entry[0] == "event"]


async def call(
    io: Any,
    pool: Any,
    data: bytes = post(),
    *,
    seconds: float = PATIENCE,
    bypass: bool = False,
    on_first_event: bool = False,
) -> Recorder:
    """One exchange from beginning to end, as a transport performs it."""
    exchange = Recorder(io, on_first_event=on_first_event)
    deadline = io.now() + seconds
    connection = await pool.send(exchange, data, deadline, bypass=bypass)
    try:
        await connection.wait(exchange.slot, deadline)
    finally:
        connection.leave(exchange)
    exchange.slot.result()
    return exchange


class pool_to:
    """A pool that is closed at the end of an `async with`."""

    def __init__(self, io: Any, server: WireServer, *, endpoint: Any = None, tls: Any = None, **limits: Any) -> None:
        self.pool = Pool(io, parse_url(server.url), limits=Limits(**limits), endpoint=endpoint, tls=tls)

    async def __aenter__(self) -> Pool:
        return self.pool

    async def __aexit__(self, *reason: object) -> None:
        await self.pool.close()
        assert not self.pool.connections


class Driver:
    """Runs a test's coroutine on one of the drivers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_blocking = name == "blocking"

    def __call__(self, body: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        """Run `body(io)` and see that nothing is left of it."""
        value = self._run_blocking(body) if self.is_blocking else self._run_asyncio(body)
        gc.collect()
        return value

    def _run_blocking(self, body: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        from ferrule._io.blocking import BlockingIO

        io = BlockingIO()
        try:
            return drive(body(io))
        finally:
            drive(io.close(io.now() + PATIENCE))

    def _run_asyncio(self, body: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        from ferrule._io.asyncio import AsyncIO

        complaints: list[dict[str, Any]] = []

        async def main() -> Any:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
            io = AsyncIO()
            try:
                return await body(io)
            finally:
                await io.close(io.now() + PATIENCE)
                left = asyncio.all_tasks() - {asyncio.current_task()}
                assert not left, left

        if self.name == "uvloop":
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                value = runner.run(main())
        else:
            value = asyncio.run(main())
        gc.collect()
        assert not complaints, complaints
        return value

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run a coroutine beside the test: in a task, or in a thread. `await done(future)` waits."""
        future: Future[Any] = Future()

        async def carry() -> None:
            try:
                value = await coroutine
            except BaseException as error:
                future.set_exception(error)
                if isinstance(error, asyncio.CancelledError):
                    raise
            else:
                future.set_result(value)

        if self.is_blocking:
            threading.Thread(target=drive, args=(carry(),), daemon=True).start()
        else:
            task = asyncio.get_running_loop().create_task(carry())
            future.task = task  # type: ignore[attr-defined]
        return future

    async def done(self, future: Future[Any]) -> Any:
        """The outcome of what was started."""
        if self.is_blocking:
            return future.result(PATIENCE)
        async with asyncio.timeout(PATIENCE):
            return await asyncio.wrap_future(future)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let everything else run until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            if self.is_blocking:
                time.sleep(0.001)
            else:
                await asyncio.sleep(0.001)


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise AssertionError("a coroutine of the blocking driver suspended")
