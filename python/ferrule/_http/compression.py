"""Compressed bodies, undone piece by piece.

Knows gzip (also of several members) and deflate (zlib-wrapped as RFC 9110 says, or raw as some
servers send it). What the bytes mean, and how long a message may be, is the core's business.
"""

from __future__ import annotations

import zlib

from .._wire import BodyDecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ENCODINGS = ("gzip", "x-gzip", "deflate")
"""Content codings that are understood (RFC 9110, section 8.4.1)."""

STEP = 65536
"""How many bytes one step puts out at most."""

_MEMBER = 1024
"""How many bytes are looked at at once after the end of a member: each end copies the rest of them, and the next may
be 20 bytes away."""

_GZIP, _ZLIB, _RAW = 31, 15, -15

MAX_RATIO = 200
"""How many times larger than received a stream may be in all, once it is longer than a message may be.

Deflate allows 1030, which 64 KiB received would turn into a tenth of a second of work. Events, each flushed, reach 30.
"""


class CorruptBody(Exception):
    """The body is not what its Content-Encoding says. Internal: becomes InvalidMessage."""


class Expansive(Exception):
    """A body that is mostly expansion. Internal: becomes LimitExceeded."""


class CodedBody:
    """The body of one compressed response, as the frames that it would have been uncompressed.

    Args:
        encoding: The Content-Encoding.
        kind: What the body is, see `ResponseHead.kind`.
        max_message: The limit on one message, uncompressed.

    Raises:
        CorruptBody: The coding is none that was asked for.
    """

    __slots__ = ("_decoder", "_given", "_inflater", "_max_message", "_received")

    def __init__(self, encoding: str, kind: int, max_message: int) -> None:
        if encoding not in ENCODINGS:
            raise CorruptBody("encoded in a way that was not asked for")
        self._received = self._given = 0
        self._max_message = max_message
        self._inflater = Inflater(encoding)
        self._decoder = BodyDecoder(kind, max_message=max_message)

    def feed(self, data: bytes) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the frames in `data`, step by step. The last one of all may be a FAULT.

        Raises:
            CorruptBody: It cannot be decompressed.
            Expansive: It holds next to nothing in very much.
        """
        self._received += len(data)
        for piece in self._inflater.feed(data):
            self._given += len(piece)
            if self._given > max(self._max_message, self._received * MAX_RATIO):
                raise Expansive
            yield self._decoder.feed(piece)

    def finish(self) -> list[tuple[Any, ...]]:
        """Return the frames that the end of the body completes.

        Raises:
            CorruptBody: Something is missing.
        """
        self._inflater.finish()
        return self._decoder.eof()


class Inflater:
    """Undoes one content coding. What a server has flushed comes out at once."""

    __slots__ = ("_inflate", "_is_gzip", "_start")

    def __init__(self, encoding: str) -> None:
        self._is_gzip = encoding != "deflate"
        self._inflate = zlib.decompressobj(_GZIP) if self._is_gzip else None
        self._start = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` holds, at most `STEP` bytes at a time.

        Raises:
            CorruptBody: It does not hold what the coding promises; the inflater is dead.
        """
        if self._inflate is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            self._inflate = zlib.decompressobj(_ZLIB if _is_zlib(data) else _RAW)
        rest = memoryview(data)
        window = len(rest)
        try:
            while rest:
                if self._inflate.eof:
                    rest = self._next_member(rest)
                    window = _MEMBER
                    continue
                given = rest[:window]
                piece = self._inflate.decompress(given, STEP)
                # A full step: there may be more, also when all input is used up.
                while len(piece) == STEP:
                    yield piece
                    piece = self._inflate.decompress(self._inflate.unconsumed_tail, STEP)
                if piece:
                    yield piece
                rest = rest[len(given) - len(self._inflate.unused_data) :]
        except zlib.error:
            raise CorruptBody("corrupt") from None

    def finish(self) -> None:
        """Take note that no more will come.

        Raises:
            CorruptBody: Something is missing.
        """
        if self._inflate is None or not self._inflate.eof:
            raise CorruptBody("cut short")

    def _next_member(self, rest: memoryview) -> memoryview:
        if not self._is_gzip:
            raise CorruptBody("followed by something else")
        # Zeros after a member are padding, as the gzip tool has it.
        start = bytes(rest[:_MEMBER])
        padding = len(start) - len(start.lstrip(b"\0"))
        if padding < len(start):
            self._inflate = zlib.decompressobj(_GZIP)
        return rest[padding:]


def _is_zlib(start: bytes) -> bool:
    """RFC 1950, section 2.2. Raw deflate never begins so: the padding of a stored block is zero."""
    return start[0] & 0x0F == 8 and start[0] >> 4 <= 7 and (start[0] << 8 | start[1]) % 31 == 0
