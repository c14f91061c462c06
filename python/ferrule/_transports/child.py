"""One life of the child process: whose its lines are, and who waits for which answer.

Knows messages. How the child is started, watched and ended is `stdio`'s business.
"""

from __future__ import annotations

import weakref

from .. import _log
from .._json import loads
from .._wire import CODES, FAULT, LineDecoder
from ..errors import InvalidMessage, LimitExceeded
from .messages import PROGRESS, post_progress, progress_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._io.interface import Process, Slot
    from .call import Call, Link
    from .stdio import StdioTransport

_LOUD = 10
"""Lines of one child that are worth a warning when skipped; a child that goes on like that cannot flood the log."""
_BEGINNING = 4096
"""Bytes of a line that cannot be parsed in which its id is looked for."""


class Child:
    """What the child's stream hands its bytes to. See `_io.interface.Receiver`.

    Attributes:
        number: Which life this is, counted from 1.
        started: When it began, on the IO's clock.
        process: The running program; None until it was started.
        link: What was last agreed with it.
        pending: Who waits for which answer, by id.
        over: No call may join `pending` any more. It and `pending` are shared: `stdio` adds and reads under the mutex.
        silent: Its output has ended.
        used: When the last call on it ended.
        watch: Set when its output ends, if somebody reads it also while no call waits.
    """

    __slots__ = (
        "_decode",
        "_skipped",
        "_transport",
        "get_buffer",
        "link",
        "number",
        "over",
        "pending",
        "process",
        "silent",
        "started",
        "used",
        "watch",
    )

    def __init__(self, transport: StdioTransport, number: int, started: float) -> None:
        decoder = LineDecoder(max_line=transport.limits.max_message_bytes)
        self._decode = decoder.buffer_updated
        self.get_buffer = decoder.get_buffer
        # Weakly: an event loop holds the stream, and so this, but must not keep an unclosed client alive.
        self._transport = weakref.ref(transport)
        self._skipped = 0
        self.number = number
        self.started = started
        self.process: Process | None = None
        self.link: Link | None = None
        self.pending: dict[int, tuple[Call, Slot]] = {}
        self.over = False
        self.silent = False
        self.used = started
        self.watch: Slot | None = None

    # What the stream calls: none of these raises or waits

    def buffer_updated(self, nbytes: int) -> None:
        """Give each line to whom it is for."""
        frames = self._decode(nbytes)
        if not frames:
            return
        transport = self._transport()
        if transport is None:
            return
        for frame in frames:
            if frame[0] == FAULT:
                self._take_fault(frame, transport)
            else:
                self._take_line(frame[1], frame[2], transport)

    def connection_lost(self, error: Exception | None) -> None:
        """The child closed its output, most likely because it ended."""
        self.silent = True
        if self.watch is not None:
            self.watch.set(None)
        transport = self._transport()
        if transport is not None:
            transport.retire(self)

    def _take_line(self, line: bytes, flags: int, transport: StdioTransport) -> None:
        try:
            message = loads(line, flags)
        except InvalidMessage as error:
            self._skip(transport, "a line of %d bytes is no JSON and was skipped", len(line))
            self._refuse(response_id(line), str(error), transport)
            return
        if type(message) is list:
            self._take_batch(message, transport)
        elif type(message) is dict:
            self._take(message, transport)
        else:
            self._skip(transport, "a line of %d bytes is no JSON-RPC message and was skipped", len(line))

    def _take(self, message: dict[str, Any], transport: StdioTransport) -> None:
        if "method" in message:
            self._take_unasked(message, transport)
            return
        waiting = self._waiting(message.get("id"))
        if waiting is not None:
            waiting[1].set(message)
        else:
            _log.debug("%s: an answer that nobody waits for was dropped", transport.label)

    def _take_batch(self, messages: list[Any], transport: StdioTransport) -> None:
        known = self.link is not None and self.link.era.batches
        if not known:
            self._skip(transport, "a batch of %d messages, which this revision forbids, was skipped", len(messages))
        for message in messages:
            if type(message) is not dict:
                continue
            if known:
                self._take(message, transport)
            elif "method" not in message:
                self._refuse(message.get("id"), "the answer came in a batch, which this revision forbids", transport)

    def _take_unasked(self, message: dict[str, Any], transport: StdioTransport) -> None:
        if "id" in message:
            if self.link is None or type(message["id"]) not in (int, str):
                self._skip(transport, "a request that cannot be answered was skipped")
            else:
                transport.inbound.request(message, self.link)
        elif self.link is None:
            _log.debug("%s: a notification that came before anything was asked was dropped", transport.label)
        elif message["method"] != PROGRESS:
            transport.inbound.notification(message, self.link)
        else:
            params = message.get("params")
            waiting = self._waiting(progress_token(params))
            if waiting is None:
                transport.inbound.late_progress(params, self.link)
            elif waiting[0].deliver is not None:
                post_progress(waiting[0], waiting[1], params, transport.inbound.max_queue)

    def _take_fault(self, frame: tuple[Any, ...], transport: StdioTransport) -> None:
        _, code, _, size, answered = (*frame, None)[:5]
        limit = transport.limits.max_message_bytes
        self._skip(transport, "a line was skipped: %s, %d bytes or more", CODES[code].replace("_", " "), size)
        waiting = self._waiting(answered)
        if waiting is not None:
            call, slot = waiting
            text = f"{call.method.name} at {transport.label}: the answer is longer than max_message_bytes ({limit})"
            slot.fail(LimitExceeded(text, limit="max_message_bytes", request_sent=True))

    def _waiting(self, answered: object) -> tuple[Call, Slot] | None:
        """Who waits for the answer with this id. Some servers give the integer back as a string."""
        if type(answered) is str and answered.isascii() and answered.isdecimal() and len(answered) < 20:
            number = int(answered)
            answered = number if str(number) == answered else None
        return self.pending.get(answered) if type(answered) is int else None

    def _refuse(self, answered: object, problem: str, transport: StdioTransport) -> None:
        """Fail the call that this would have answered."""
        waiting = self._waiting(answered)
        if waiting is not None:
            call, slot = waiting
            slot.fail(InvalidMessage(f"{call.method.name} at {transport.label}: {problem}"))

    def _skip(self, transport: StdioTransport, text: str, *numbers: object) -> None:
        self._skipped += 1
        if self._skipped > _LOUD:
            _log.debug(f"%s: {text}", transport.label, *numbers)
            return
        _log.warning(f"%s: {text}", transport.label, *numbers)
        if self._skipped == _LOUD:
            _log.warning("%s: further lines that are skipped are logged at level DEBUG", transport.label)


def response_id(line: bytes) -> int | None:
    """The id of the response that a line would be if it could be parsed, as far as its beginning tells."""
    beginning = line[: _BEGINNING + 1]
    # The decoder looks for the id of a line that is longer than it may be; so let it be one byte too long.
    decoder = LineDecoder(buffer_size=1, max_line=max(1, len(beginning) - 1))
    frames = decoder.feed(beginning + b"\n")
    found = frames[0] if frames else (None,)
    return found[4] if found[0] == FAULT else None
