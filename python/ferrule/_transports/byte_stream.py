"""The framing of stdio over any byte stream: one JSON-RPC message a line, no process at the other end.

Specification: basic/transports, Custom Transports. Knows how such a stream is opened. All else is the business of
`stdio`, to which it looks like a child that needs no farewell.
"""

from __future__ import annotations

import os

from .._http.endpoints import bracketed, reason
from ..errors import ConfigError, ConnectError
from .stdio import StdioTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from .._io.interface import IO, Process, Stream
    from .child import Child


class ByteStream:
    """A server that speaks newline-delimited messages, as over stdio, but over a stream of its own.

    `ByteStream.tcp(host, port)` and `ByteStream.unix(path)` connect when the first call is made, and again after the
    connection was lost. `ByteStream(reader, writer)` uses what is open already, once and by one client: two objects
    with `fileno()` and `close()` (pipes, files, sockets), or one socket for both directions. They are read and written
    by their descriptors and closed with the client. An `asyncio.StreamReader` has none: give the socket instead.

    Args:
        reader: What the server's messages come from, or a connected socket for both directions.
        writer: What messages to the server go to. Default: `reader`.
        label: How errors and logs name the server. Default "byte stream".
    """

    __slots__ = ("_host", "_open", "_path", "_port", "label")

    def __init__(self, reader: Any, writer: Any = None, *, label: str = "byte stream") -> None:
        pair = (reader, reader if writer is None else writer)
        if not all(hasattr(one, "fileno") and hasattr(one, "close") for one in pair):
            raise ConfigError("ByteStream: expected objects with fileno() and close(), such as pipes or a socket")
        if hasattr(reader, "selected_alpn_protocol"):
            raise ConfigError("ByteStream: TLS sockets are not supported")
        self.label = label
        self._open: tuple[Any, Any] | None = pair
        self._host, self._port = "", 0
        self._path: str | None = None

    @classmethod
    def tcp(cls, host: str, port: int, *, label: str | None = None) -> Self:
        """A server that listens at a TCP port, without TLS.

        Args:
            host: Name or address.
            port: From 1 to 65535.
            label: How errors and logs name the server. Default: host and port.
        """
        if not isinstance(host, str) or not host or any(ch <= " " for ch in host):
            raise ConfigError("ByteStream: host must be a name or an address")
        if not isinstance(port, int) or not 0 < port < 65536:
            raise ConfigError("ByteStream: port must be a number from 1 to 65535")
        stream = cls._unopened(label or f"{bracketed(host)}:{port}")
        stream._host, stream._port = host, port
        return stream

    @classmethod
    def unix(cls, path: str | os.PathLike[str], *, label: str | None = None) -> Self:
        """A server that listens on a Unix socket.

        Args:
            path: The socket's path.
            label: How errors and logs name the server. Default: the path.
        """
        where = os.fspath(path)
        if not isinstance(where, str) or not where or "\0" in where:
            raise ConfigError("ByteStream: path must name a socket")
        stream = cls._unopened(label or where)
        stream._path = where
        return stream

    @classmethod
    def _unopened(cls, label: str) -> Self:
        stream = cls.__new__(cls)
        stream.label = label
        stream._open = None
        stream._host, stream._port, stream._path = "", 0, None
        return stream

    def __repr__(self) -> str:
        return f"<ByteStream {self.label}>"

    async def open(self, io: IO, receiver: Child, deadline: float) -> Stream:
        """Open the stream, or take over the one that is open.

        Raises:
            ConnectError: It cannot be opened, or there was one only and that was used.
            Expired: At the deadline.
        """
        try:
            if self._path is None and not self._host:
                with io.mutex():
                    pair, self._open = self._open, None
                if pair is None:
                    raise ConnectError(f"{self.label}: the stream that was given has been used, and is the only one")
                return await io.adopt(*pair, receiver=receiver)
            return await io.connect(
                self._host,
                self._port,
                path=self._path,
                tls=None,
                server_hostname=None,
                deadline=deadline,
                receiver=receiver,
            )
        except (OSError, UnicodeError, ValueError) as error:
            raise ConnectError(f"cannot connect to {self.label}: {reason(error)}") from error


class StreamTransport(StdioTransport):
    """The way to a server at the other end of a byte stream, opened again when it was lost."""

    __slots__ = ()

    _EARLY = "closed the stream repeatedly just after it was opened; not opened again"
    _AT_ONCE = "the server closed the stream as soon as it was opened"

    _target: ByteStream  # type: ignore[assignment]

    async def _spawn(self, child: Child, deadline: float) -> Process:
        return _Remote(await self._target.open(self._io, child, deadline))


class _Remote:
    """What is at the other end, as far as `stdio` needs a process: see `interface.Process`."""

    __slots__ = ("pid", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.pid = 0

    def exit_code(self) -> int | None:
        """Nobody knows: the stream's end is all that shows."""
        return None

    async def wait_exit(self, deadline: float, /) -> int | None:
        """There is nothing to wait for."""
        return 0

    def terminate(self) -> None:
        """It is not ours to end."""

    def kill(self) -> None:
        """It is not ours to end."""

    def stderr_tail(self) -> bytes:
        """It shows none."""
        return b""

    def abandon(self) -> None:
        """See `interface.Process.abandon`."""
        self.stream.abandon()
