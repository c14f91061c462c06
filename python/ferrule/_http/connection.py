"""One connection to a server: a stream, the core's decoder, and at most one exchange at a time.

    opened ──▶ busy ──END──▶ idle ──take──▶ busy …
                │ leave()     │
                ▼             │ bytes, or the end of the stream, that nobody asked for
             draining ─END─▶ idle
                │ time is up, a fault, the end of the stream
                ▼
              closed ◀── from every state

Knows how a response becomes calls of an exchange. Which connection serves whom is the pool's
business.
"""

from __future__ import annotations

from .._wire import BODY, COMMENT, DATA, END, EVENT, HEAD, ResponseDecoder, fault_error
from ..errors import ConnectionClosed, InvalidMessage, LimitExceeded
from .exchange import NOBODY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .._core import ResponseHead
    from .._io.interface import Slot, SocketStream
    from ..errors import FerruleError
    from .compression import CodedBody
    from .exchange import Exchange
    from .pool import Pool

    Frame = tuple[Any, ...]
    Answer = tuple[ResponseHead, bytes, int, bool]

_SURELY_TAKEN = 16384
"""A request of so many bytes fits what the kernel buffers for an idle connection."""

_LOOPS_OWN = memoryview(b"")
"""Stands for the decoder's buffer where the loop asks for it."""

IDLE, BUSY, DRAINING, CLOSED = "idle", "busy", "draining", "closed"


class Connection:
    """Carries one exchange after another. Receives what its stream reads.

    Attributes:
        state: `IDLE`, `BUSY`, `DRAINING` or `CLOSED`. It and `exchange` are shared: the pool
            changes them under its mutex, but for what the one caller does who holds a busy
            connection.
        exchange: Who is told of what arrives.
        wait: The stream's `wait`: how the caller waits for its slot.
        stream: The bytes' way to the server.
        is_counted: Does its caller hold one of the pool's places?
        is_new: Has it carried nothing yet?
        idle_since: When it last became idle.
        drain_until: When it is closed unless its response ends.
        keep_alive: How many seconds it may be idle.
    """

    __slots__ = (
        "_body",
        "_buffer",
        "_coded_head",
        "_decoder",
        "_is_large",
        "_is_plain",
        "_is_whole",
        "_mutex",
        "_pool",
        "drain_until",
        "exchange",
        "get_buffer",
        "idle_since",
        "is_counted",
        "is_new",
        "keep_alive",
        "state",
        "stream",
        "wait",
    )

    stream: SocketStream | None
    wait: Callable[[Slot, float], Awaitable[None]]

    def __init__(self, pool: Pool, *, is_counted: bool) -> None:
        limits = pool.limits
        decoder = ResponseDecoder(max_head=limits.max_head_bytes, max_message=limits.max_message_bytes)
        # Bound once: no Python frame runs between the stream and the decoder.
        self.get_buffer = decoder.get_buffer
        self._buffer: memoryview | None = None if pool.is_blocking else _LOOPS_OWN
        self._decoder = decoder
        self._pool = pool
        self._mutex = pool.mutex
        self._is_whole = True
        self._is_large = False
        self._is_plain = False
        """Does the end of the response that is under way ask for no more care than most?"""
        self._coded_head: ResponseHead | None = None
        self._body: CodedBody | None = None
        self.state = BUSY
        self.exchange: Exchange = NOBODY
        self.stream = None
        self.is_counted = is_counted
        self.is_new = True
        self.keep_alive = limits.idle_timeout
        self.idle_since = self.drain_until = 0.0

    def __repr__(self) -> str:
        return f"<Connection to {self._pool.origin.origin}, {self.state}>"

    def attach(self, stream: SocketStream) -> None:
        """Say over which stream the bytes go."""
        stream.one_waiter()
        self.stream = stream
        self.wait = stream.wait

    # --- the caller's side -----------------------------------------------------------------------

    def send(self, exchange: Exchange, data: bytes, deadline: float) -> None:
        """Begin an exchange by writing its request. Whatever comes of it, end with `leave`.

        A write error does not end the exchange: the server may have answered before it hung up.

        Args:
            exchange: Who is told of the response.
            data: The whole request.
            deadline: When to give up writing.

        Raises:
            ConnectionClosed: It was found closed before anything was written; `exchange.sent` is
                False.
            Expired: The server did not take the request in time.
        """
        # No mutex: first the exchange, then the look. Whoever closes the connection meanwhile either is
        # seen here or finds the exchange and fails it.
        self.exchange = exchange
        if self.state is not BUSY:
            self.exchange = NOBODY
            raise self._lost("before the request was sent", sent=False)
        self._decoder.begin()
        exchange.sent = True
        self._is_whole = self._is_plain = False
        try:
            self.stream.write_now(data, deadline)  # type: ignore[union-attr]  # it was attached
        except OSError:
            return
        self._is_whole = True
        self._is_large = len(data) > _SURELY_TAKEN
        self._is_plain = not self._is_large and self.keep_alive > 0

    def ask(self, data: bytes, deadline: float) -> Answer | list[Frame] | None:
        """Write a request before there is an exchange, and where who asks also reads, read once.

        Args:
            data: The whole request.
            deadline: When to give up writing.

        Returns:
            A whole, plain answer, after which the connection serves others already; or what was read so far, to be
            followed by `join`; or None when the connection was found closed before anything was written. One that is
            interrupted has to close it: nobody knows how much was written or read.
        """
        if self.state is not BUSY:
            return None
        try:
            self._decoder.begin()
            buffer = self._buffer
            if buffer is None:
                buffer = self._view()
            count = self.stream.ask(data, buffer, deadline)  # type: ignore[union-attr]  # it was attached
            answer = self._decoder.answer_updated(count) if count > 0 else []
        except OSError:
            self._is_whole = self._is_plain = False
            return []  # the server may have answered before it hung up
        if type(answer) is not tuple:
            self._is_whole = count >= 0
            self._is_large = len(data) > _SURELY_TAKEN
            self._is_plain = self._is_whole and not self._is_large and self.keep_alive > 0
            return answer
        # Not before here: from now on the connection may be somebody else's.
        if answer[3] and self.keep_alive > 0:
            self._pool.give(self)
        else:
            self.finish(NOBODY, answer[3])
        return answer

    def _view(self) -> memoryview:
        """The decoder's buffer, always the same view; made with the first answer."""
        self._buffer = self.get_buffer()
        return self._buffer

    def join(self, exchange: Exchange, frames: list[Frame], deadline: float) -> None:
        """After `ask`: go on as an exchange, one that was `sent`, beginning with what was read. End with `leave`.

        Raises:
            ConnectionClosed: Somebody closed the connection meanwhile.
            Expired: The server did not take the rest of the request in time.
        """
        # First the exchange, then the look, as in `send`.
        self.exchange = exchange
        if self.state is not BUSY:
            self.exchange = NOBODY
            raise self._lost("before the answer", sent=True)
        if self._is_whole:
            if frames:
                self.buffer_updated(0, frames)
            return
        try:
            self.stream.write_now(b"", deadline)  # type: ignore[union-attr]  # it was attached
        except OSError:
            return
        except BaseException:
            self.leave(exchange)
            raise
        self._is_whole = True

    def end_with_response(self) -> None:
        """Have it serve nobody else after the response that is under way."""
        self.keep_alive = 0.0
        self._is_whole = self._is_plain = False

    def leave(self, exchange: Exchange) -> None:
        """Take note that the caller has gone. What still arrives is dropped.

        If the response is complete, nothing is left to do. If the caller has its result
        (`exchange.slot.done`), the rest of the response gets a moment to arrive, so that the
        connection can be used again. Else it is closed: over HTTP that is how a request is
        cancelled.
        """
        if self.exchange is not exchange:
            return
        if not exchange.slot.done or not self._pool.drain(self, exchange):
            self.exchange = NOBODY
            self.close()

    def close(self, error: FerruleError | None = None) -> None:
        """Close it, in whatever state and from whichever thread.

        Args:
            error: What an exchange in flight is told instead of `ConnectionClosed`.
        """
        exchange = self._pool.forget(self)
        if exchange is None:
            return
        if exchange is not NOBODY:
            exchange.on_failed(error or self._lost("before the answer", sent=exchange.sent))
        if self.stream is not None:
            self.stream.close()

    # --- the stream's side -----------------------------------------------------------------------

    def connection_lost(self, error: Exception | None, /) -> None:
        """Take note that no more bytes will come, which ends a response that has no other end."""
        exchange = self.exchange
        if error is None and exchange is not NOBODY:
            self.buffer_updated(0, self._decoder.eof())
        if self.state is not CLOSED:
            self.close(self._lost("before the answer was complete", exchange.sent, error))

    def buffer_updated(self, nbytes: int, /, frames: list[Frame] | None = None) -> None:  # noqa: C901  # hot
        """Pass on what was just read, or these frames. The hot loop: whatever is rare is done elsewhere."""
        frames = self._decoder.buffer_updated(nbytes) if frames is None else frames
        exchange = self.exchange
        end = None
        for frame in frames:
            kind = frame[0]
            if kind == HEAD:
                head = frame[1]
                if head.notable or not exchange.quiet:
                    self._take_head(head, exchange)
                else:
                    exchange.head = head  # type: ignore[attr-defined]  # it is quiet
            elif kind == BODY:
                exchange.on_body(frame[1], frame[2])
            elif kind == END:
                end = frame
            elif kind == EVENT and len(frame) == 5:
                exchange.on_event(frame[1], frame[2], frame[3], frame[4])
            elif end is not None:  # bytes after it: the response is good, the connection is not
                end = (END, False)
            elif not self._pass_on_rare(frame):
                return
        # Not before the last frame: from here on the connection may be somebody else's.
        if end is not None:
            if end[1] and self._is_plain:
                self._pool.give(self, exchange)
            else:
                self.finish(exchange, end[1])

    def finish(self, exchange: Exchange, is_reusable: bool) -> None:
        """Take note that a response is complete: the connection serves others from here on, or is closed."""
        if self._coded_head is not None and not self._finish_body():
            return
        # An answer to half a request: the other half cannot be followed by another request.
        if is_reusable and self._is_whole and self.keep_alive > 0 and not (self._is_large and self._has_unsent()):
            self._pool.give(self, exchange)
            return
        self.exchange = NOBODY
        self.close()
        exchange.on_end()

    def _has_unsent(self) -> bool:
        return self.stream is None or self.stream.unsent() > 0

    # --- what few responses need -----------------------------------------------------------------

    def _pass_on_rare(self, frame: tuple[Any, ...]) -> bool:
        """Pass on a frame that few responses have. False: the exchange has failed."""
        kind = frame[0]
        if kind == COMMENT:
            self.exchange.on_comment()
            return True
        if kind == DATA:
            return self._expand(frame[1])
        if kind == EVENT:
            self.exchange.on_typed_event(*frame[1:])
            return True
        _, code, position, size = frame
        error = fault_error(code, position, size, request_sent=self.exchange.sent)
        error.args = (f"{self._pool.origin.origin}: {error}",)
        self.close(error)
        return False

    def _take_head(self, head: ResponseHead, exchange: Exchange) -> None:
        if head.notable:
            self._note(head)
        exchange.on_head(head)

    def _note(self, head: ResponseHead) -> None:
        self.exchange.on_notable(head)
        # Its end needs care: it may be compressed, or the connection not to be used again.
        self._is_plain = False
        seconds = head.keep_alive
        if seconds is not None:
            # The server's clock began earlier than ours: be gone before its time is up.
            margin = min(1.0, seconds / 2)
            self.keep_alive = min(self._pool.limits.idle_timeout, seconds - margin)
        if head.encoding is not None:
            self._coded_head = head

    def _expand(self, data: bytes) -> bool:
        """Pass on what a piece of a compressed body holds. False: it failed."""
        from .compression import CodedBody, CorruptBody, Expansive

        head = self._coded_head
        assert head is not None and head.encoding is not None  # else there is no DATA
        try:
            if self._body is None:
                limit = self._pool.limits.max_message_bytes
                self._body = CodedBody(head.encoding, head.kind, limit)
            for frames in self._body.feed(data):
                self.buffer_updated(0, frames)
                if self.state is CLOSED:
                    return False
        except CorruptBody as problem:
            return self._refuse_body(problem)
        except Expansive:
            text = f"the body of the answer from {self._pool.origin.origin} expands too much"
            self.close(LimitExceeded(text, limit="max_message_bytes", request_sent=self.exchange.sent))
            return False
        return True

    def _finish_body(self) -> bool:
        """Pass on what the end of a compressed body completes. False: it failed."""
        from .compression import CorruptBody

        body, self._body, self._coded_head = self._body, None, None
        if body is None:  # there was none
            return True
        try:
            self.buffer_updated(0, body.finish())
        except CorruptBody as problem:
            return self._refuse_body(problem)
        return self.state is not CLOSED

    def _refuse_body(self, problem: Exception) -> bool:
        text = f"the body of the answer from {self._pool.origin.origin} is {problem}"
        self.close(InvalidMessage(text, request_sent=self.exchange.sent))
        return False

    def _lost(self, when: str, sent: bool, error: Exception | None = None) -> ConnectionClosed:
        text = f"the connection to {self._pool.origin.origin} was closed {when}"
        if error is not None:
            from .endpoints import reason

            text = f"{text}: {reason(error, tls=self._pool.origin.is_https)}"
        return ConnectionClosed(text, request_sent=sent)
