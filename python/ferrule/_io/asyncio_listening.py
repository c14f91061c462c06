"""A listener on the loopback interface that takes the heads of HTTP requests, for an event loop.

Knows servers and transports of a loop. Does not know what is asked for.
"""

from __future__ import annotations

import asyncio

from .listening import HEAD_END, HOST, MAX_HEAD, MAX_OPEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .asyncio import AsyncIO


class Connection(asyncio.Protocol):
    """One connection, until its head is whole; then the request itself (see `interface.Asked`)."""

    def __init__(self, listener: AsyncListener) -> None:
        self._listener = listener
        self._transport: Any = None
        self.head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for what it asks."""
        self._transport = transport
        self._listener.add(self)

    def data_received(self, data: bytes) -> None:
        """Take what came; hand the request over once its head is whole."""
        if HEAD_END in self.head:
            return
        self.head += data
        if HEAD_END in self.head:
            self._listener.hand_over(self)
        elif len(self.head) > MAX_HEAD:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._listener.forget(self)

    def drop(self) -> None:
        """End it without a word."""
        self._transport.abort()

    def reply(self, data: bytes) -> None:
        """Answer, and end the connection. A browser that has gone is no error."""
        self._transport.write(data)
        self._transport.close()


class AsyncListener:
    """See `interface.Listener`."""

    def __init__(self, io: AsyncIO) -> None:
        self._io = io
        self._asked = io.slot()
        self._open: dict[Connection, None] = {}
        self._ready: list[Connection] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, loop: asyncio.AbstractEventLoop, port: int) -> AsyncListener:
        """Begin to listen."""
        self._server = await loop.create_server(lambda: Connection(self), HOST, port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def add(self, connection: Connection) -> None:
        """Watch a connection; the oldest makes room."""
        if len(self._open) >= MAX_OPEN:
            oldest = next(iter(self._open))
            self.forget(oldest)
            oldest.drop()
        self._open[connection] = None

    def hand_over(self, connection: Connection) -> None:
        """Give a whole head to whoever waits."""
        self.forget(connection)
        self._asked.post(connection)

    def forget(self, connection: Connection) -> None:
        """Watch it no longer."""
        self._open.pop(connection, None)

    async def request(self, deadline: float, /) -> Connection:
        """See `interface.Listener.request`."""
        while not self._ready:
            await self._io.wait(self._asked, deadline)
            self._ready += self._asked.take_mail()
        return self._ready.pop(0)

    def close(self) -> None:
        """See `interface.Listener.close`."""
        if self._server is not None:
            self._server.close()
        for connection in [*self._open, *self._ready, *self._asked.take_mail()]:
            connection.drop()
