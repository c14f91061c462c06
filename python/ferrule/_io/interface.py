"""What the drivers promise, as types. Never imported at run time (typing costs 3 ms of start-up)."""

from __future__ import annotations

import math
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

Address = tuple[int, int, int, Any]
"""Family, type, protocol, socket address: a tuple that begins with the address as text, but for Unix sockets."""


class Receiver(Protocol):
    """Whom a stream hands its bytes to. These methods never raise, wait or run user code."""

    def get_buffer(self, sizehint: int, /) -> memoryview:
        """Return the writable memory that the next read goes into."""

    def buffer_updated(self, nbytes: int, /) -> None:
        """Take note that `nbytes` were read into the buffer."""

    def connection_lost(self, error: Exception | None, /) -> None:
        """Take note, exactly once, that no more bytes will come. None: a clean end of stream, or `close()`.

        blocking: from whoever reads or closes, never while another method runs. asyncio: from the loop,
        one turn after `close()`.
        """


class Slot(Protocol):
    """One value handed from a reader to one waiter, with mail before it.

    `set`, `fail` and `post` may be called from any thread (blocking) or from the loop's thread
    (asyncio), before, while or after somebody waits. The first of `set` and `fail` wins; whatever
    comes later is dropped.
    """

    done: bool
    mail: bool
    """True while posted items wait in `take_mail()`."""
    value: Any
    error: BaseException | None
    """What was given by the first of `set` and `fail`; only once `done`."""

    def set(self, value: Any, /) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...
    def post(self, item: Any, /) -> None: ...
    def backlog(self) -> int:
        """How much mail waits."""

    def take_mail(self) -> list[Any]: ...
    def result(self) -> Any:
        """Return the value or raise the error; only once `done`."""


class Stream(Protocol):
    """A byte stream: a socket, TLS over one, or the two pipes of a child."""

    closed: bool

    async def write(self, data: bytes, deadline: float, /) -> None:
        """Hand `data` to the peer, in order, never interleaved with another write.

        asyncio: a socket's write never waits (the transport buffers), a child's waits until the kernel has the data.
        blocking: bytes that the peer sends meanwhile are read and handed to the receiver, so that two full buffers
        cannot block each other. A message that was begun when its writer gave up is finished before the next one.

        Raises:
            Expired: the deadline passed while the peer took nothing. `Unsent` (an Expired): and no byte of `data` was,
                or will be, handed over.
            OSError: the peer is gone (an early answer may still be readable: go on to `wait`).
        """

    async def wait(self, slot: Slot, deadline: float, /) -> None:
        """Wait until `slot.done or slot.mail`. Raises Expired at the deadline.

        Several may wait on one stream at once, each on its own slot; blocking: one of them reads for all.
        """

    def stale(self) -> bool:
        """Zero-timeout poll: is there something to read (end of stream counts) that nobody asked for?

        TLS tickets aside: on a TLS stream bytes that decrypt to nothing do not count.
        """

    def poll(self) -> None:
        """blocking: read what is there without waiting and hand it to the receiver. asyncio: nothing to do."""

    async def start_tls(self, context: ssl.SSLContext, hostname: str, deadline: float, /) -> None:
        """Turn the stream into a TLS one (after CONNECT). Same receiver."""

    def finish_writing(self) -> None:
        """Half-close: the peer sees end of stream (child: its stdin)."""

    def close(self) -> None:
        """Close at once, waking whoever waits. Idempotent; the receiver's `connection_lost` is called.

        blocking: from any thread.
        """

    def abandon(self) -> None:
        """After fork: drop the descriptor without a word on the wire and without touching inherited locks."""


class SocketStream(Stream, Protocol):
    """A stream over a socket: no write of its own ever suspends its coroutine."""

    def write_now(self, data: bytes, deadline: float, /) -> None:
        """As `write`, without a coroutine's cost. asyncio: at once. blocking: blocks."""

    def ask(self, data: bytes, buffer: memoryview, deadline: float, /) -> int:
        """Write a message, and read once where who waits also reads, without a word to the receiver (benches/calls.py).

        blocking: only where `one_waiter` was said, by the one who would wait; `buffer` is what the receiver's
        `get_buffer` gives. asyncio: the loop reads later, and `buffer` is not used.

        Returns:
            How many bytes are in the buffer for the receiver to take; 0 when `wait` has to find out what there is;
            -1 when the kernel did not take all of `data`: `write_now(b"", deadline)` writes the rest.

        Raises:
            OSError: The peer is gone, as for `write`.
        """

    def one_waiter(self) -> None:
        """Say that never more than one waits at a time, as for HTTP; one who is interrupted then ends the stream."""

    def unsent(self) -> int:
        """Bytes that were written and that the kernel has not taken yet. blocking: always 0."""


class Process(Protocol):
    """A child process whose stdin and stdout are `stream`."""

    pid: int

    @property
    def stream(self) -> Stream: ...

    def exit_code(self) -> int | None:
        """The exit status if the child has ended (reaps it), else None."""

    async def wait_exit(self, deadline: float, /) -> int | None:
        """Wait for the child to end and reap it; None when the deadline passed first."""

    def terminate(self) -> None:
        """Ask the child's process group to end (SIGTERM; TerminateProcess on Windows)."""

    def kill(self) -> None:
        """End the child's whole process group now."""

    def stderr_tail(self) -> bytes:
        """The last 8 KiB of stderr, as far as it was not inherited."""

    def abandon(self) -> None:
        """After fork: forget the child, it is the parent's."""


class Asked(Protocol):
    """One request that came to a listener."""

    head: bytes
    """The head as it was sent, with the empty line after it."""

    def reply(self, data: bytes, /) -> None:
        """Send a short answer as it is, and end the connection. Never raises, hardly waits."""


class Listener(Protocol):
    """What a browser of this machine is sent to."""

    port: int

    async def request(self, deadline: float, /) -> Asked:
        """Wait for the next request whose head is whole and at most 16 KiB long, on whatever connection.

        Raises:
            Expired: The deadline passed.
        """

    def close(self) -> None:
        """Stop listening; whoever still waits for an answer gets none."""


class Handle(Protocol):
    """A piece of background work."""

    def cancel(self) -> None: ...


class IO(Protocol):
    """Everything that may wait, and everything that differs between tasks and threads."""

    blocking: bool

    def now(self) -> float:
        """Monotonic seconds; deadlines are on this clock. `math.inf` is a valid deadline."""

    def wall(self) -> float:
        """Seconds since 1970 by the system's clock: for times that others read, such as a token's expiry in a file."""

    def check(self) -> bool:
        """Look whether this is still the process and loop it was, at the cost of a system call at most.

        Returns:
            True when this process is a fork (blocking only): all that was made before is the parent's.

        Raises:
            ConfigError: It is another event loop, or (asyncio) a fork.
        """

    def forked(self) -> bool:
        """Is this process a fork of the one that made this object?"""

    async def look_up(self, host: str, port: int, deadline: float, /) -> list[Address]:
        """The addresses that a name or a literal stands for, in the order in which they are tried.

        Raises:
            Expired: at the deadline.
            OSError: there is no such name (socket.gaierror).
        """

    async def connect(
        self,
        host: str,
        port: int,
        *,
        path: str | None = None,
        addresses: list[Address] | None = None,
        tls: ssl.SSLContext | None,
        server_hostname: str | None,
        deadline: float,
        receiver: Receiver,
    ) -> SocketStream:
        """Open a TCP stream (or a Unix one at `path`); TCP_NODELAY on, next address on failure.

        `addresses`: what `look_up` gave for the host, as far as it may be connected to; it is not looked up again.

        Raises:
            Expired: at the deadline.
            OSError: refused, unreachable, name not found (socket.gaierror), TLS trouble (ssl.SSLError):
                the last address's error. No byte of a request was sent.
        """

    async def adopt(self, reader: Any, writer: Any, *, receiver: Receiver) -> Stream:
        """Take over what is open already: objects with `fileno()` and `close()`, or one socket as both.

        Raises:
            OSError: They are closed, or cannot be polled.
        """

    async def listen(self, port: int) -> Listener:
        """Listen on 127.0.0.1; port 0 lets the system choose. Whoever asked for it closes it.

        Raises:
            OSError: The port is taken.
        """

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stderr: str | Callable[[bytes], object],
        receiver: Receiver,
    ) -> Process:
        """Start a child in its own process group/session. `stderr`: "inherit", "discard" or called with each line.

        Raises:
            OSError: the command cannot be started.
        """

    async def sleep(self, seconds: float, /) -> None: ...

    async def call(self, handler: Callable[..., Any], /, *args: Any) -> Any:
        """Run the user's function. asyncio: awaits what it returns if that is awaitable. Exceptions come out."""

    async def aside(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Run a plain function that may block (a browser to open, a keyring): asyncio in a thread. Cannot be ended."""

    async def call_each(
        self, handler: Callable[..., Any], calls: list[tuple[Any, ...]], failed: Callable[[Exception], None], /
    ) -> None:
        """As `call`, once for each tuple of arguments, in order; an exception goes to `failed` and the next is called.

        One coroutine for all of them: notifications come by the thousand.
        """

    async def gather(self, *coroutines: Coroutine[Any, Any, Any], deadline: float = math.inf) -> list[Any]:
        """Run user code: concurrently on asyncio, in turn when blocking.

        The first error wins; the others are cancelled, or closed unstarted. asyncio: what is not done at the deadline,
        or when the IO is closed, is cancelled, and that is the error. blocking: nobody can interrupt such code.
        """

    async def fan_out(self, *coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run I/O only, concurrently: tasks, or threads."""

    async def once(self, key: object, body: Callable[[float], Awaitable[Any]], deadline: float, /) -> Any:
        """Single flight: of all who enter with the same key at once, one runs `body(deadline)`.

        The others get its verdict: its value, or (a copy of) its error if that is a verdict about the server: any
        FerruleError that is no RequestTimeout, and any other Exception but Expired. A leader that expires, is cancelled
        or is interrupted hands over: a follower runs `body` with its own deadline. Each waiter's own deadline raises
        Expired for it alone. Entering again from inside the body of the same key raises RuntimeError.
        """

    def background(self, coroutine: Coroutine[Any, Any, Any], /) -> Handle:
        """Run in a task, or a daemon thread, with an empty context. Errors are logged by type only.

        Holds no strong reference to the IO's owner beyond the coroutine's own. After `close` nothing is begun.
        """

    def slot(self) -> Slot: ...

    async def wait(self, slot: Slot, deadline: float, /) -> None:
        """Like `Stream.wait` for a slot that no stream feeds (a pool's queue)."""

    def memory_cache(self, max_bytes: int, max_entries: int) -> Any:
        """A `MemoryCache`, for a client that was given no store."""

    def mutex(self) -> Any:
        """A `with` for state that calls share: a no-op on asyncio, one lock per IO when blocking (not re-entrant).

        No await, I/O or user code inside.
        """

    def let_go(self, end: Callable[[], object], /) -> None:
        """Run `end` on behalf of an owner that was collected: from whatever thread, never in a fork.

        blocking: `end` may wait for the mutex. asyncio: on the loop's own thread, which would hold open streams for
        ever.
        """

    async def close(self, deadline: float, /) -> None:
        """Wait (bounded) for background work, cancel what is left, wake waiters with Closing. Idempotent.

        Streams that are still open are closed, children that still run are killed.
        """

    def abandon(self) -> None:
        """After fork: abandon every stream and child. Touches no lock, cannot fail."""
