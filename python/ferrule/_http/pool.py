"""The connections of one origin: who may have one, which one, and until when.

Two things are handed out. A *place* is the right to have an exchange in flight: there are
`max_connections`, and who finds none waits in turn. A *connection* comes with it: an idle one, the
last used first, or a new one. Draining connections hold no place, nor do exchanges that bypass the
bound.

Knows nothing of what the exchanges carry. Shared state is touched under the mutex only, and nothing
foreign is called while it is held.
"""

from __future__ import annotations

from collections import OrderedDict

from ..errors import ConnectError, ConnectionClosed
from .connection import BUSY, CLOSED, DRAINING, IDLE, Connection
from .endpoints import dial, look_up
from .exchange import NOBODY

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from .._io.interface import IO, Address, Handle, Slot
    from ..limits import Limits
    from .endpoints import Tcp, Unix
    from .exchange import Exchange
    from .tls import Tls
    from .tunnel import ProxiedConnection
    from .url import Url

FRESH = 0.001
"""Seconds of idleness after which a connection is looked at before it is used again."""


class Pool:
    """The connections to one origin.

    Args:
        io: Who does the waiting and connecting.
        origin: Any URL of the origin.
        limits: `max_connections`, `idle_timeout`, `drain_timeout` and the limits on messages count
            here.
        tls: What to trust, see `tls.context_from`.
        endpoint: Where to connect instead of the URL's own host and port.
        proxy: What all connections go through, or None.

    Attributes:
        asks: Can requests be written by `Connection.ask`?
        connections: All that are open or being opened.
        is_blocking: Does who waits also read?
        reached: What the host stood for when a connection to it was last made; None: never, or that is not known.
    """

    __slots__ = (
        "_context",
        "_draining",
        "_endpoint",
        "_idle",
        "_io",
        "_is_closed",
        "_now",
        "_places",
        "_sweeper",
        "_tls",
        "_waiters",
        "asks",
        "connections",
        "is_blocking",
        "limits",
        "mutex",
        "origin",
        "proxy",
        "reached",
    )

    def __init__(
        self,
        io: IO,
        origin: Url,
        *,
        limits: Limits,
        tls: Tls = None,
        endpoint: Tcp | Unix | None = None,
        proxy: Url | None = None,
    ) -> None:
        self._io = io
        self._now = io.now
        self.is_blocking = io.blocking
        self.asks = not (io.blocking and origin.is_https)  # whose stream may have read more than it hands out
        self.mutex = io.mutex()
        self.origin = origin
        self.limits = limits
        if tls is not None:
            from .tls import check_tls

            check_tls(tls)
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._endpoint = endpoint
        self.proxy = proxy
        self._places = limits.max_connections
        self._waiters: OrderedDict[Slot, None] = OrderedDict()
        self._idle: list[Connection] = []
        self._draining: dict[Connection, None] = {}
        self._sweeper: Handle | None = None
        self._is_closed = False
        self.connections: set[Connection] = set()
        self.reached: list[Address] | None = None

    def __repr__(self) -> str:
        return (
            f"<Pool {self.origin.origin}: {len(self.connections)} connections, "
            f"{len(self._idle)} idle, {len(self._waiters)} waiting>"
        )

    @property
    def address(self) -> str | None:
        """Where connections go instead of to the URL's host and port, if they do."""
        endpoint = self._endpoint
        return None if endpoint is None else endpoint.address

    @property
    def may_hold_certificate(self) -> bool:
        """May the client show a certificate of its own? A context of the user's does not tell."""
        return self._tls is not None and not hasattr(self._tls, "__fspath__") and not isinstance(self._tls, str)

    # --- taking ----------------------------------------------------------------------------------

    async def send(self, exchange: Exchange, data: bytes, deadline: float, *, bypass: bool = False) -> Connection:
        """Write a request on a connection of this pool. Wait on it, then `leave` it.

        A connection that is found closed before anything was written is passed over for another.

        Args:
            exchange: Who is told of the response.
            data: The whole request.
            deadline: When to give up waiting, connecting and writing.
            bypass: Neither wait for one of `max_connections` places nor take one up. Calls from handlers never do, nor
                do those of single flights, which handlers may wait for.

        Raises:
            ConnectError: There is no way to the server.
            ConnectionClosed: The pool was closed.
            Expired: At the deadline.
        """
        connection = None if bypass else self.take(exchange, data, deadline)
        while connection is None:
            connection = await self.acquire(deadline, bypass=bypass)
            if not _wrote(connection, exchange, data, deadline):
                connection = None
        return connection

    def take(self, exchange: Exchange | None = None, data: bytes = b"", deadline: float = 0.0) -> Connection | None:
        """Take a place and the idle connection that was used last, and begin an exchange on it if one is given.

        Returns:
            None when there is no place or no idle connection: nothing was sent.

        Raises:
            Expired: The server did not take the request in time.
        """
        if self._draining and self.is_blocking:
            self._settle()
        while True:
            with self.mutex:
                if not self._idle or not self._places:
                    return None
                self._places -= 1
                connection = self._idle.pop()
                connection.state = BUSY
                connection.is_counted = True
            now = self._now()
            if now - connection.idle_since > FRESH and not self._is_usable(connection, now):
                connection.close()  # gives the place back
                continue
            if exchange is None:
                return connection
            try:
                connection.send(exchange, data, deadline)
            except ConnectionClosed:
                continue
            except BaseException:
                connection.leave(exchange)
                raise
            return connection

    async def acquire(self, deadline: float, *, bypass: bool = False) -> Connection:
        """Take a place and a connection; wait for the one and open the other if need be.

        Raises:
            ConnectError: There is no way to the server.
            ConnectionClosed: The pool was closed.
            Expired: At the deadline. Nothing was sent.
        """
        if self._draining and self.is_blocking:
            self._settle()
        if not bypass:
            from .bypass import passes_by

            bypass = passes_by()
        if not bypass:
            await self._take_place(deadline)
        connection = self._take_idle(is_counted=not bypass)
        if connection is None:
            connection = await self._open(deadline, is_counted=not bypass)
        return connection

    async def _take_place(self, deadline: float) -> None:
        with self.mutex:
            if self._is_closed:
                raise self._closed()
            if self._places:
                self._places -= 1
                return
            turn = self._io.slot()
            self._waiters[turn] = None
        try:
            await self._io.wait(turn, deadline)
            turn.result()
        except BaseException:
            with self.mutex:
                if turn in self._waiters:
                    del self._waiters[turn]
                    next_turn = None
                else:  # the place came at the last moment
                    next_turn = self._next_turn()
            if next_turn is not None:
                next_turn.set(None)
            raise

    def _take_idle(self, *, is_counted: bool) -> Connection | None:
        """An idle connection for who holds a place, or needs none."""
        while True:
            with self.mutex:
                if not self._idle:
                    return None
                connection = self._idle.pop()
                connection.state = BUSY
                # The place stays the taker's until it has a good one.
                connection.is_counted = False
            if self._is_usable(connection, self._now()):
                connection.is_counted = is_counted
                return connection
            connection.close()

    def _is_usable(self, connection: Connection, now: float) -> bool:
        if now - connection.idle_since <= FRESH:
            return True
        stream = connection.stream
        return now < connection.idle_since + connection.keep_alive and stream is not None and not stream.stale()

    async def _open(self, deadline: float, *, is_counted: bool) -> Connection:
        # What an odd answer needs is loaded now: a first use later might meet a fork, or no descriptor that is left.
        from . import bypass, content, redirects  # noqa: F401  # loaded, not used

        kind = Connection if self.proxy is None else _proxied()
        connection = kind(self, is_counted=is_counted)
        with self.mutex:
            if self._is_closed:
                raise self._closed()
            self.connections.add(connection)
        try:
            await self._dial(connection, deadline)
        except ConnectError:
            connection.close()
            if self._is_closed:
                raise self._closed() from None
            raise
        except BaseException:
            connection.close()
            raise
        if connection.state is CLOSED:
            if connection.stream is not None:
                connection.stream.close()
            if self._is_closed:
                raise self._closed()
            # No next one is tried: a server that does this would keep us busy for ever.
            raise ConnectError(f"{self.origin.origin} closed the connection as soon as it was made")
        return connection

    async def _dial(self, connection: Connection, deadline: float) -> None:
        context = self._tls_context() if self.origin.is_https else None
        if self.proxy is not None:
            assert isinstance(connection, _proxied())
            return await connection.open(self._io, self.origin, self.proxy, context, deadline)
        endpoint = self._endpoint
        addresses = await self._addresses(deadline) if endpoint is None else None
        connection.attach(await dial(self._io, self.origin, endpoint, context, connection, deadline, addresses))
        self.reached = addresses

    async def _addresses(self, deadline: float) -> list[Address]:
        """What may be connected to."""
        return await look_up(self._io, self.origin, deadline)

    def _tls_context(self) -> ssl.SSLContext:
        """How this pool does TLS; made when first needed."""
        if self._context is None:
            from .tls import context_from

            self._context = context_from(self._tls)
        return self._context

    # --- giving back: what connections tell their pool -------------------------------------------

    def give(self, connection: Connection, exchange: Exchange = NOBODY) -> None:
        """Take back a connection whose response is complete, and tell its exchange unless that was closed meanwhile."""
        turn = too_old = None
        with self.mutex:
            state = connection.state
            if state is not BUSY:
                if state is CLOSED:
                    return
                self._draining.pop(connection, None)
            connection.state = IDLE
            connection.exchange = NOBODY
            connection.is_new = False
            connection.idle_since = now = self._now()
            idle = self._idle
            idle.append(connection)
            if connection.is_counted:
                connection.is_counted = False
                if self._waiters:
                    turn = self._next_turn()
                else:
                    self._places += 1
            if len(idle) > 1 and (_is_too_old(idle[0], now) or len(idle) > self.limits.max_connections):
                too_old = self._take_too_old(now)
        if turn is not None:
            turn.set(None)
        if too_old is not None:
            for old in too_old:
                old.close()
        if exchange is not NOBODY and not (exchange.quiet and exchange.slot.done):
            exchange.on_end()

    def drain(self, connection: Connection, exchange: Exchange) -> bool:
        """Let the rest of a response arrive that nobody waits for. False: no time or room."""
        seconds = self.limits.drain_timeout
        with self.mutex:
            if connection.exchange is not exchange:
                return True  # it ended meanwhile
            if not seconds or len(self._draining) >= self.limits.max_connections:
                return False
            connection.state = DRAINING
            connection.exchange = NOBODY
            connection.drain_until = self._now() + seconds
            self._draining[connection] = None
            turn = self._release(connection)
        if turn is not None:
            turn.set(None)
        # Where the loop reads for all, nobody comes by to look at the clock.
        if not self.is_blocking and self._sweeper is None:
            self._sweeper = self._io.background(self._sweep())
        return True

    def forget(self, connection: Connection) -> Exchange | None:
        """Mark a connection closed. Returns its exchange, or None when it was closed before."""
        with self.mutex:
            state = connection.state
            if state is CLOSED:
                return None
            connection.state = CLOSED
            exchange, connection.exchange = connection.exchange, NOBODY
            self.connections.discard(connection)
            if connection in self._idle:  # not where whoever took it was interrupted
                self._idle.remove(connection)
            elif state is DRAINING:
                self._draining.pop(connection, None)
            turn = self._release(connection)
        if turn is not None:
            turn.set(None)
        return exchange

    def _release(self, connection: Connection) -> Slot | None:
        """Under the mutex: free a connection's place. Returns whose turn it is, to be told."""
        if not connection.is_counted:
            return None
        connection.is_counted = False
        if self._waiters:
            return self._next_turn()
        self._places += 1
        return None

    def _next_turn(self) -> Slot | None:
        if self._waiters:
            return self._waiters.popitem(last=False)[0]
        self._places += 1
        return None

    def _take_too_old(self, now: float) -> list[Connection]:
        """Under the mutex: the connections that have been idle for too long, or are too many."""
        idle = self._idle
        count = max(0, len(idle) - self.limits.max_connections)
        while _is_too_old(idle[count], now):  # the last one has only just begun
            count += 1
        too_old = idle[:count]
        del idle[:count]
        for connection in too_old:
            connection.state = BUSY
        return too_old

    # --- draining --------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """asyncio: close what does not end in time; lives as long as anything drains."""
        try:
            while (first := next(iter(self._draining), None)) is not None:
                seconds = first.drain_until - self._now()
                if seconds > 0:
                    await self._io.sleep(seconds)
                else:
                    first.close()
        finally:
            self._sweeper = None

    def _settle(self) -> None:
        """blocking: see what has arrived since somebody last looked, and close what is late."""
        with self.mutex:
            draining, self._draining = self._draining, {}
        now = self._now()
        for connection in draining:
            if connection.stream is not None:
                connection.stream.poll()
            if connection.state is DRAINING and connection.drain_until <= now:
                connection.close()
        with self.mutex:
            self._draining.update((connection, None) for connection in draining if connection.state is DRAINING)

    # --- the end ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close every connection and fail whoever waits. Idempotent."""
        self.shut()

    def shut(self) -> None:
        """What `close` does."""
        with self.mutex:
            self._is_closed = True
            turns = list(self._waiters)
            self._waiters.clear()
            connections = list(self.connections)
        if self._sweeper is not None:
            self._sweeper.cancel()
        for turn in turns:
            turn.fail(self._closed())
        for connection in connections:
            connection.close()

    def abandon(self) -> None:
        """After a fork: forget the parent's connections, without a word on the wire or a lock."""
        self._is_closed = True
        for connection in list(self.connections):
            connection.state = CLOSED
            if connection.stream is not None:
                connection.stream.abandon()
        self.connections.clear()
        self._idle.clear()
        self._draining.clear()

    def _closed(self) -> ConnectionClosed:
        return ConnectionClosed(
            f"the client of {self.origin.origin} was closed before the request was sent",
            request_sent=False,
        )


def _proxied() -> type[ProxiedConnection]:
    from .tunnel import ProxiedConnection

    return ProxiedConnection


def _is_too_old(connection: Connection, now: float) -> bool:
    return connection.idle_since + connection.keep_alive <= now


def _wrote(connection: Connection, exchange: Exchange, data: bytes, deadline: float) -> bool:
    """Begin an exchange on a connection. False: it was found closed before anything was written."""
    try:
        connection.send(exchange, data, deadline)
    except ConnectionClosed:
        if connection.is_new:
            raise
        return False
    except BaseException:
        connection.leave(exchange)
        raise
    return True
