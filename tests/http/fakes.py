"""An IO without a world: the clock stands still and streams hold what was written."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ferrule._http.connection import Connection
from ferrule._http.pool import Pool
from ferrule._http.url import parse_url
from ferrule._io import Expired
from ferrule.limits import Limits
from tests.http.wire import Recorder, answer, drive

FOREVER = 1e9


class FakeSlot:
    """See `_io.interface.Slot`."""

    def __init__(self) -> None:
        self.done = self.mail = False
        self._value: Any = None
        self._error: BaseException | None = None

    def set(self, value: Any, /) -> None:
        if not self.done:
            self.done, self._value = True, value

    def fail(self, error: BaseException, /) -> None:
        if not self.done:
            self.done, self._error = True, error

    def post(self, item: Any, /) -> None:
        raise AssertionError("nothing here posts")

    def take_mail(self) -> list[Any]:
        return []

    def result(self) -> Any:
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value


class FakeStream:
    """Holds what was written; the test says what arrives."""

    def __init__(self, receiver: Connection) -> None:
        self.receiver = receiver
        self.written: list[bytes] = []
        self.write_error: Exception | None = None
        self.is_stale = False
        self.looked = 0
        self.polled: list[bytes] = []
        """What `poll` finds, one item each time."""
        self.closed = False
        self.abandoned = False
        self.answer_while_writing = b""

    async def write(self, data: bytes, deadline: float, /) -> None:
        self.write_now(data, deadline)

    def one_waiter(self) -> None:
        pass

    def ask(self, data: bytes, buffer: memoryview, deadline: float, /) -> int:
        self.write_now(data, deadline)
        return 0

    def unsent(self) -> int:
        return 0

    def write_now(self, data: bytes, deadline: float, /) -> None:
        if self.closed:
            raise ConnectionResetError
        self.written.append(data)
        if self.answer_while_writing:
            self.arrive(self.answer_while_writing)
        if self.write_error is not None:
            raise self.write_error
        if self.closed:
            raise ConnectionResetError

    async def wait(self, slot: Any, deadline: float, /) -> None:
        if not slot.done:
            raise Expired

    def arrive(self, data: bytes, *, at_once: int = 65536) -> None:
        """Read `data` as a driver does."""
        while data and not self.closed:
            buffer = self.receiver.get_buffer(-1)
            count = min(len(buffer), len(data), at_once)
            buffer[:count] = data[:count]
            del buffer
            data = data[count:]
            self.receiver.buffer_updated(count)

    def end(self, error: Exception | None = None) -> None:
        """The server closes."""
        self.closed = True
        self.receiver.connection_lost(error)

    def stale(self) -> bool:
        self.looked += 1
        return self.is_stale

    def poll(self) -> None:
        if self.polled:
            self.arrive(self.polled.pop(0))

    async def start_tls(self, context: Any, hostname: str, deadline: float, /) -> None:
        raise AssertionError

    def finish_writing(self) -> None:
        raise AssertionError

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.receiver.connection_lost(None)

    def abandon(self) -> None:
        self.closed = self.abandoned = True


class FakeIO:
    """See `_io.interface.IO`, as far as pools use it."""

    def __init__(self, *, blocking: bool = False) -> None:
        self.blocking = blocking
        self.time = 1000.0
        self.streams: list[FakeStream] = []
        self.connect_error: Exception | None = None
        self.connects: list[dict[str, Any]] = []
        self.tasks: list[Waiting] = []
        self.on_connect: Any = None

    def now(self) -> float:
        return self.time

    def mutex(self) -> AbstractContextManager[None]:
        return nullcontext()

    def slot(self) -> FakeSlot:
        return FakeSlot()

    async def wait(self, slot: FakeSlot, deadline: float, /) -> None:
        await Until(slot, deadline)

    async def sleep(self, seconds: float, /) -> None:
        await Sleep(self.time + seconds)

    def background(self, coroutine: Coroutine[Any, Any, Any], /) -> Waiting:
        self.tasks.append(Waiting(coroutine))
        return self.tasks[-1]

    async def look_up(self, host: str, port: int, deadline: float, /) -> list[Any]:
        return []

    async def connect(self, host: str, port: int, *, receiver: Any, **how: Any) -> FakeStream:
        self.connects.append({"host": host, "port": port, **how})
        if self.connect_error is not None:
            raise self.connect_error
        stream = FakeStream(receiver)
        self.streams.append(stream)
        if self.on_connect is not None:
            self.on_connect(stream)
        return stream


class Until:
    """Awaited by who waits for a slot; a test resumes it."""

    def __init__(self, slot: FakeSlot, deadline: float) -> None:
        self.slot = slot
        self.deadline = deadline

    def __await__(self) -> Any:
        while not self.slot.done:
            yield self


class Sleep:
    """Awaited by who sleeps."""

    def __init__(self, until: float) -> None:
        self.until = until

    def __await__(self) -> Any:
        yield self


class Waiting:
    """A coroutine that may wait; `go()` runs it until it does."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_over = False
        self.at: Any = None
        self.go()

    def go(self) -> Waiting:
        """Run it on, as when what it waits for has come (or not: then it looks, and waits on)."""
        return self._step(lambda: self._coroutine.send(None))

    def cancel(self) -> None:
        """See `_io.interface.Handle`."""
        self._coroutine.close()
        self.is_over = True

    def throw(self, error: BaseException) -> Waiting:
        return self._step(lambda: self._coroutine.throw(error))

    def _step(self, step: Any) -> Waiting:
        assert not self.is_over
        try:
            self.at = step()
        except StopIteration as stop:
            self.value, self.is_over = stop.value, True
        except BaseException as error:
            self.error, self.is_over = error, True
        return self


def pool_on(io: FakeIO, url: str = "http://h/mcp", **limits: Any) -> Pool:
    return Pool(io, parse_url(url), limits=Limits(**limits))  # type: ignore[arg-type]


def open_exchange(
    io: FakeIO, pool: Pool, *, on_first_event: bool = False, bypass: bool = False
) -> tuple[Recorder, Connection, FakeStream]:
    """An exchange whose request was written."""
    exchange = Recorder(io, on_first_event=on_first_event)
    connection = drive(pool.send(exchange, b"request", FOREVER, bypass=bypass))
    stream = connection.stream
    assert isinstance(stream, FakeStream)
    return exchange, connection, stream


def finish(stream: FakeStream) -> None:
    stream.arrive(answer())


def idle_connections(io: FakeIO, pool: Pool, count: int) -> list[FakeStream]:
    """So many idle connections, the last one given back last."""
    streams = [open_exchange(io, pool)[2] for _ in range(count)]
    for stream in streams:
        finish(stream)
    return streams


def taken_stream(pool: Pool) -> Any:
    connection = pool.take()
    return connection and connection.stream


def waiting(io: FakeIO, pool: Pool, deadline: float = FOREVER) -> tuple[Waiting, Recorder]:
    exchange = Recorder(io)
    return Waiting(pool.send(exchange, b"waited", deadline)), exchange
