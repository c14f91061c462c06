"""stdio: a child process, one JSON-RPC message a line.

Specification: basic/transports/stdio. Knows the child's life: when it is started, who talks to it, how it ends. Whose
a line is, `child` knows; how processes are started and read is the IO's business, which messages are sent `_session`'s.
"""

from __future__ import annotations

import math

from .. import _log
from .._io import Expired, Unsent
from .._json import dumps
from .._wire import encode_message
from ..errors import ConfigError, ConnectError, ConnectionClosed, FerruleError, ServerExited
from .call import LinkLost
from .child import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._io.interface import IO, Process, Slot, Stream
    from .._protocol.era import Era
    from ..limits import Limits
    from .call import Call, Inbound, Link
    from .command import Stdio

_LAST_BREATH = 0.25
"""Seconds that the second of a child's two ends, of its output and of its process, may take to follow the first before
waiting calls are failed: they want to know the exit code, and what it wrote before it exited counts."""
_LOOK = 0.5
"""Seconds between two looks of a waiting call whether the child still runs. Its output does not tell when something
that it started holds that open."""

_FRESH = 0.001
"""Seconds after a call in which the child is taken to run still."""


class StdioTransport:
    """The way to a server that is a child process, started again when it exits.

    Attributes:
        label: The program's name.
        process: Which child was started last, counted from 1.
        inbound: Whom to tell of messages that answer no call.
    """

    __slots__ = (
        "__weakref__",
        "_child",
        "_closed",
        "_early_exits",
        "_io",
        "_not_before",
        "_target",
        "inbound",
        "label",
        "limits",
        "process",
    )

    http = False
    listens = False
    sends_credential = False

    _EARLY = "exited repeatedly just after its start; not started again"
    _AT_ONCE = "the server exited as soon as it was started"

    def __init__(self, io: IO, target: Any, limits: Limits) -> None:
        self._io = io
        self._target: Stdio = target
        self.limits = limits
        self.label = target.label
        self.process = 0
        self.inbound: Inbound
        self._child: Child | None = None
        self._closed = False
        self._early_exits = 0
        self._not_before = -math.inf

    def __del__(self) -> None:
        # Nobody closed the client. An event loop would hold the stream, and through it the process, for ever.
        child = getattr(self, "_child", None)
        if child is not None:
            self._io.let_go(_running(child).stream.close)

    def view(self, headers: tuple[tuple[str, str], ...], auth: object) -> StdioTransport:
        """There are no headers: all views are one."""
        if headers or auth is not None:
            raise ConfigError("headers= and auth= have no meaning for a server on stdio")
        return self

    def wire(self, era: Era | None, session_id: str | None) -> None:
        """Nothing of a request stays the same but its envelope."""
        return

    @property
    def io(self) -> IO:
        """Does everything that waits."""
        return self._io

    # The child's life

    def attend(self, link: Link) -> None:
        """Have a thread read what the child says also while no call waits for it; an event loop reads anyway."""
        child = self._child
        if not self._io.blocking or child is None or child.number != link.process:
            return
        slot = self._io.slot()
        with self._io.mutex():
            if child.watch is not None:
                return
            child.watch = slot
        # Looked at only now: its output may end while this is being set up, and one of the two sees the other.
        if not child.silent:
            self._io.background(_read_on(_running(child).stream, slot))

    async def start(self, deadline: float) -> None:
        """Have a child running.

        Raises:
            ConnectError: It cannot be started.
            ServerExited: It exited too often just after its start; `retry_after` says when it may be tried again.
        """
        await self._running_child(deadline)

    async def _running_child(self, deadline: float) -> Child:
        child = self._child
        if child is None:
            child = await self._io.once(("child", self), self._start, deadline)
        return child

    async def _start(self, deadline: float) -> Child:
        if self._closed:
            raise self._closed_error(None)
        if self._child is not None:
            return self._child
        now = self._io.now()
        if now >= deadline:
            raise Expired
        if now < self._not_before:
            pause = self._not_before - now
            raise ServerExited(
                f"{self.label}: {self._EARLY} for {pause:.1f} s",
                retry_after=pause,
                request_sent=False,
            )
        child = Child(self, self.process + 1, now)
        process = child.process = await self._spawn(child, deadline)
        with self._io.mutex():
            usable = not child.over and not self._closed
            if usable:
                self._child = child
                self.process = child.number
        if not usable:
            await self._end(process, deadline)
            raise self._exited(child, None)
        return child

    async def _spawn(self, child: Child, deadline: float) -> Process:
        target = self._target
        try:
            return await self._io.spawn(
                target.command_line(),
                env=target.environment(),
                cwd=target.cwd,
                stderr=target.stderr,
                receiver=child,
            )
        except OSError as error:
            transient = target.may_start_later(error)
            raise ConnectError(target.why_not_started(error), transient=transient) from error

    def retire(self, child: Child) -> None:
        """The child will not answer, or hear, any more: the next call starts another one. Never waits."""
        with self._io.mutex():
            if child.over:
                return
            child.over = True
            if self._child is child:
                self._child = None
            self._count_exit(child)
        if child.process is not None:
            self._io.background(self._say_farewell(child))

    def _count_exit(self, child: Child) -> None:
        limits = self.limits
        now = self._io.now()
        if now - child.started >= limits.restart_window:
            self._early_exits = 0
            return
        self._early_exits += 1
        if self._early_exits >= 2:
            pause = limits.restart_backoff * 2.0 ** min(self._early_exits - 2, 60)
            self._not_before = now + min(pause, limits.max_restart_backoff)

    async def _say_farewell(self, child: Child) -> None:
        """End a retired child; tell those who wait as soon as nothing more can come."""
        process = _running(child)
        try:
            if child.silent:
                await process.wait_exit(self._io.now() + _LAST_BREATH)
                self._fail_waiting(child)
            elif process.exit_code() is not None:
                await self._io.sleep(_LAST_BREATH)
                self._fail_waiting(child)
            await self._end(process, self._io.now() + self.limits.close_timeout)
        finally:
            self._fail_waiting(child)

    def _fail_waiting(self, child: Child) -> None:
        with self._io.mutex():
            waiting = list(child.pending.values())
        for call, slot in waiting:
            if not slot.done:
                slot.fail(self._exited(child, call))

    def _exited(self, child: Child, call: Call | None) -> FerruleError:
        if self._closed:
            return self._closed_error(call)
        process = _running(child)
        code = process.exit_code()
        how = f"exited with status {code}" if code is not None else "closed its output"
        tail = process.stderr_tail()
        return ServerExited(
            f"{self._where(call)}: the server {how} before it answered",
            exit_code=code,
            stderr_tail=tail[max(0, len(tail) - self.limits.stderr_tail_bytes) :],
            request_sent=call is not None and call.sent,
        )

    def _closed_error(self, call: Call | None) -> ConnectionClosed:
        sent = call is not None and call.sent
        return ConnectionClosed(f"{self._where(call)}: the client was closed", request_sent=sent)

    def _where(self, call: Call | None) -> str:
        return f"{call.method.name} at {self.label}" if call is not None else self.label

    async def _end(self, process: Process, deadline: float) -> None:
        """Close the child's input, then ask, then insist (basic/transports/stdio, Shutdown)."""
        now = self._io.now
        # A close that must be quick shortens each step; killing always has its turn.
        step = min(self.limits.exit_grace, max(0.0, (deadline - now()) / 2.5))
        try:
            process.stream.finish_writing()
            if await process.wait_exit(now() + step) is None:
                process.terminate()
                await process.wait_exit(now() + step)
        finally:
            # Also what the child itself started: `npx` and `uv` leave the real server behind.
            process.kill()
            process.stream.close()
        await process.wait_exit(max(now() + step, deadline))

    # Who asks whom: the child is this client's alone

    def endpoint(self) -> bytes | None:
        """See `interface.Transport.endpoint`."""
        return None

    def caller(self) -> tuple[bytes, bool] | None:
        """See `interface.Transport.caller`."""
        return b"", False

    # Requests

    async def request(self, call: Call, link: Link) -> dict[str, Any]:
        """Carry one request to its answer: see `interface.Transport`."""
        line = encode_message(call.id, call.method.name, call.params, call.envelope or link.era.meta, call.meta, True)
        slot = self._io.slot()
        for _ in range(2):
            child = await self._child_for(link, call.deadline)
            if not child.pending and self._io.now() - child.used > _FRESH:
                # Without calls nobody may be reading: an exit meanwhile is found before anything is written.
                self._look_after(child)
            try:
                if self._join(child, call, slot):
                    await self._exchange(child, line, call, slot)
                    return slot.result()  # type: ignore[no-any-return]
            except BaseException:
                if call.sent and not slot.done:
                    self._cancel_in_background(child, call)
                raise
            finally:
                child.pending.pop(call.id, None)
                child.used = self._io.now()
        raise ServerExited(f"{self._where(call)}: {self._AT_ONCE}", request_sent=False)

    async def _child_for(self, link: Link, deadline: float) -> Child:
        """The child that a message under this link goes to; any one will do if nothing was agreed with it."""
        child = self._child if link.process else await self._running_child(deadline)
        if child is None or link.process not in (0, child.number):
            raise LinkLost
        child.link = link
        return child

    def _join(self, child: Child, call: Call, slot: Slot) -> bool:
        with self._io.mutex():
            if child.over:
                return False
            child.pending[call.id] = (call, slot)
            return True

    async def _exchange(self, child: Child, line: bytes, call: Call, slot: Slot) -> None:
        stream = _running(child).stream
        call.sent = True  # before the first byte, whatever comes of it (R4)
        try:
            await stream.write(line, call.deadline)
        except Unsent:
            call.sent = False
            raise
        except OSError:
            # It reads no more. What it wrote before that is still read.
            self.retire(child)
        while not slot.done:
            look_at = self._io.now() + _LOOK
            try:
                await stream.wait(slot, min(look_at, call.deadline))
            except Expired:
                if call.deadline <= look_at:
                    raise
                self._look_after(child)
            if slot.mail and call.deliver is not None:
                await call.deliver(slot.take_mail())

    def _look_after(self, child: Child) -> None:
        """Notice that the child ended, if it did."""
        process = _running(child)
        process.stream.poll()
        if process.exit_code() is not None:
            self.retire(child)

    def _cancel_in_background(self, child: Child, call: Call) -> None:
        """Nobody waits for the answer any more: tell the server (basic/patterns/cancellation)."""
        if call.method.cancellable and not child.over:
            self._io.background(self._cancel(_running(child), call.id))

    async def _cancel(self, process: Process, call_id: int) -> None:
        params = dumps({"requestId": call_id, "reason": "the caller gave up"})
        line = encode_message(None, "notifications/cancelled", params, None, None, True)
        try:
            await process.stream.write(line, self._io.now() + self.limits.cancel_timeout)
        except (OSError, Expired) as error:
            _log.debug("a cancellation could not be told: %s", type(error).__name__)

    # Beside requests

    async def join(self, call: Call, link: Link, slot: Slot) -> tuple[Child, Process]:
        """Have the answer to a call go to this slot, when it comes. Writing, waiting and leaving are the caller's."""
        child = await self._child_for(link, call.deadline)
        if not self._join(child, call, slot):
            raise LinkLost
        return child, _running(child)

    async def wait(self, slot: Slot, link: Link, deadline: float) -> None:
        """See `interface.Transport.wait`."""
        while not (slot.done or slot.mail):
            child = self._child
            if child is None or child.over or child.number != link.process:
                raise LinkLost
            look_at = self._io.now() + _LOOK
            try:
                await _running(child).stream.wait(slot, min(look_at, deadline))
            except Expired:
                if deadline <= look_at:
                    raise
                self._look_after(child)

    def poll(self) -> None:
        """See `interface.Transport.poll`."""
        child = self._child
        if child is not None:
            _running(child).stream.poll()

    async def notify(self, method: str, params: bytes | None, link: Link, deadline: float) -> None:
        """Write a notification. Raises `Unsent` if the deadline passed before it was begun."""
        try:
            child = await self._child_for(link, deadline)
        except Expired:
            raise Unsent from None
        await self._write(child, encode_message(None, method, params, None, None, True), method, deadline)

    async def reply(self, message: dict[str, Any], link: Link, deadline: float) -> None:
        """Write the answer to a request of the server's: to the child that sent it, or not at all."""
        child = self._child
        if child is None or link.process != child.number:
            raise LinkLost
        await self._write(child, dumps(message, "the reply") + b"\n", "a reply", deadline)

    async def _write(self, child: Child, line: bytes, what: str, deadline: float) -> None:
        try:
            await _running(child).stream.write(line, deadline)
        except OSError:
            self.retire(child)
            raise ConnectionClosed(f"{what} at {self.label}: the server reads no more", request_sent=True) from None

    # The end

    async def end_session(self, link: Link, deadline: float) -> None:
        """The session ends with the child."""
        child = self._child
        if child is not None and link.process == child.number:
            await self._dismiss(child, deadline)

    async def close(self, deadline: float) -> None:
        """End the child; calls under way fail with ConnectionClosed."""
        self._closed = True
        child = self._child
        if child is not None:
            await self._dismiss(child, deadline)

    async def _dismiss(self, child: Child, deadline: float) -> None:
        with self._io.mutex():
            mine = not child.over
            child.over = True
            if self._child is child:
                self._child = None
            waiting = list(child.pending.values())
        if not mine:
            return
        for call, slot in waiting:
            slot.fail(self._closed_error(call))
        await self._end(_running(child), deadline)

    def abandon(self) -> None:
        """After fork: the child is the parent's."""
        child, self._child = self._child, None
        if child is not None:
            _running(child).abandon()


async def _read_on(stream: Stream, slot: Slot) -> None:
    """Read until the child's output ends. Knows no transport, so that an unclosed client can be collected."""
    await stream.wait(slot, math.inf)


def _running(child: Child) -> Process:
    """The child's process: everybody but `_start` sees only children that were started."""
    process = child.process
    assert process is not None
    return process
