"""Bytes to protocol frames and back: what the Rust core offers. See `_wire` for the meaning of codes.

Frames are tuples whose first item is their kind:

    (HEAD, ResponseHead)                             once a response; 1xx responses are swallowed
    (BODY, bytes, flags)                             the whole body of a response that is no event stream, unless empty
    (EVENT, bytes, flags, id|None, retry|None)       an event of type "message"; b"": it had an id or a retry only
    (EVENT, bytes, flags, id|None, retry|None, type) an event of another type, such as "endpoint"
    (COMMENT,)                                       comment lines were seen; at most one a read
    (DATA, bytes)                                    a raw piece of a body with a Content-Encoding
    (END, reusable)                                  the HTTP message is complete
    (LINE, bytes, flags)                             one line, without its ending; empty lines are skipped
    (FAULT, code, position, size)                    the last frame: from now on the decoder gives none
    (FAULT, code, position, size, id|None)           line_too_long (LineDecoder): that line is skipped, decoding goes
                                                     on; id: of the response in it, if its first 4 KiB tell

flags: FLAG_SLOW (an integer beyond 64 bit or an escaped lone surrogate may be there: use `json`), FLAG_DEEP (nested
beyond 1024; only looked for when FLAG_SLOW). A byte order mark before a body, a stream of events or of lines is
stripped.

An id is text, "" included (it resets the cursor); one that is not UTF-8, holds NUL or exceeds 4 KiB is ignored. A
retry in an event that the end of the stream cut off is handed out alone, before END or FAULT.

position: bytes since `begin()`; for message_too_large and line_too_long, bytes since the body or the stream of lines
began. size: of the offending thing as far as known, one above the limit where reading stopped there.
"""

from collections.abc import Sequence
from typing import Any, Final, final

__all__ = [
    "BODY",
    "CODES",
    "COMMENT",
    "DATA",
    "END",
    "EVENT",
    "FAULT",
    "FLAG_DEEP",
    "FLAG_SLOW",
    "HEAD",
    "KIND_JSON",
    "KIND_OTHER",
    "KIND_SSE",
    "LINE",
    "VERSION",
    "BodyDecoder",
    "LineDecoder",
    "RequestTemplate",
    "ResponseDecoder",
    "ResponseHead",
    "check_json",
    "decode_header_value",
    "encode_header_value",
    "encode_message",
    "new_value",
]

# kinds of frames (first item of each tuple)
HEAD: Final[int]
BODY: Final[int]
EVENT: Final[int]
COMMENT: Final[int]
DATA: Final[int]
END: Final[int]
LINE: Final[int]
FAULT: Final[int]

FLAG_SLOW: Final[int]
FLAG_DEEP: Final[int]

# what a body is, by its Content-Type
KIND_OTHER: Final[int]
KIND_JSON: Final[int]
KIND_SSE: Final[int]

CODES: Final[dict[int, str]]
"""Every fault code with its name.

In FAULT frames: unsolicited, truncated (size 0: not a byte of the answer came), head_too_large, too_many_headers,
bad_status_line, bad_header, bad_length, conflicting_length, bad_transfer_encoding, bad_chunk, bad_trailer,
message_too_large, line_too_long, bad_count.

In ValueErrors: header_name, header_value, framing_header (Content-Length and Transfer-Encoding are the template's; for
these three the position is the index of the header), request_line (0: method, 1: target), not_an_object (0: params,
1: meta, 2: extra_meta).
"""

VERSION: Final[str]

@final
class ResponseHead:
    @property
    def status(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def encoding(self) -> str | None:
        """The lower-cased Content-Encoding when it is not identity; several are joined with ", "."""
    @property
    def keep_alive(self) -> int | None:
        """Seconds of `Keep-Alive: timeout=n`."""
    @property
    def notable(self) -> bool:
        """Whether there is something to take note of: `encoding`, `keep_alive` or a Set-Cookie."""
    def get(self, name: str, /) -> str | None:
        """The first value of a header (latin-1), the name compared without case."""
    def get_all(self, name: str, /) -> list[str]:
        """Every value of a header, in order."""

@final
class ResponseDecoder:
    """The responses of one connection, one after another.

    Reads go into `get_buffer()`, always the same view on memory of fixed size, followed by `buffer_updated(n)`;
    or bytes come through `feed`. Neither raises for anything that the peer sent or that `n` is.
    """
    def __new__(
        cls, *, buffer_size: int = 65536, max_head: int = 65536, max_message: int = 67108864
    ) -> ResponseDecoder: ...
    def get_buffer(self, sizehint: int = -1, /) -> memoryview: ...
    def begin(self, *, connect: bool = False) -> None:
        """Expect one response.

        Bytes that come without it are FAULT unsolicited. `connect`: a 2xx has no body, and END says reusable, since
        the stream goes on as a tunnel. Raises RuntimeError when the last response is not complete or the decoder is
        dead.
        """
    def buffer_updated(self, nbytes: int, /) -> list[tuple[Any, ...]]: ...
    def answer_updated(self, nbytes: int, /) -> tuple[ResponseHead, bytes, int, bool] | list[tuple[Any, ...]]:
        """As `buffer_updated`; a response that is all there and plain comes as (head, body, flags, reusable).

        Plain: a 200 in JSON that is not `notable`.
        """
    def feed(self, data: bytes, /) -> list[tuple[Any, ...]]: ...
    def eof(self) -> list[tuple[Any, ...]]: ...

@final
class BodyDecoder:
    """The body part alone, for bytes that were compressed on the wire. Gives BODY, EVENT, COMMENT, FAULT; no END."""
    def __new__(cls, kind: int, *, max_message: int = 67108864) -> BodyDecoder: ...
    def feed(self, data: bytes, /) -> list[tuple[Any, ...]]: ...
    def eof(self) -> list[tuple[Any, ...]]: ...

@final
class LineDecoder:
    """Newline-delimited messages. At the end a line without its LF is FAULT truncated."""
    def __new__(cls, *, buffer_size: int = 65536, max_line: int = 67108864) -> LineDecoder: ...
    def get_buffer(self, sizehint: int = -1, /) -> memoryview: ...
    def buffer_updated(self, nbytes: int, /) -> list[tuple[Any, ...]]: ...
    def feed(self, data: bytes, /) -> list[tuple[Any, ...]]: ...
    def eof(self) -> list[tuple[Any, ...]]: ...

@final
class RequestTemplate:
    """The unchanging part of a session's POST requests.

    `headers` are sent in this order after the request line (Host included by the caller); Content-Length is added.
    `mirror`: add Mcp-Method and, when a name is given, Mcp-Name (base64 sentinel where needed).
    Raises ValueError(code, position, size) for a name or value that cannot be sent.
    """
    def __new__(
        cls, method: str, target: str, headers: Sequence[tuple[str, str]], *, mirror: bool = False
    ) -> RequestTemplate: ...
    def request(
        self,
        id: int | None,
        method: str,
        name: str | None,
        params: bytes | None,
        meta: bytes | None,
        extra_meta: bytes | None,
        headers: Sequence[tuple[str, str]] | None,
        /,
    ) -> bytes:
        """The whole HTTP request around a JSON-RPC request (id) or notification (None).

        `params` is a serialised JSON object without `_meta` (or None: no params unless there is meta); `meta` and
        `extra_meta` are serialised objects whose members are joined under `params._meta`.
        """
    def body(self, data: bytes, headers: Sequence[tuple[str, str]] | None = None, /) -> bytes:
        """The whole HTTP request around an already serialised message (a reply)."""
    def bare(self, headers: Sequence[tuple[str, str]] | None = None, /) -> bytes:
        """The head alone, without Content-Length (GET, DELETE)."""

def encode_message(
    id: int | None, method: str, params: bytes | None, meta: bytes | None, extra_meta: bytes | None, newline: bool, /
) -> bytes:
    """A JSON-RPC request or notification; with `newline`, LF at the end."""

def encode_header_value(value: str, /) -> str:
    """As it is, or as `=?base64?...?=` (2026-07-28, Streamable HTTP, Value Encoding)."""

def decode_header_value(value: str, /) -> str | None:
    """None when the sentinel's base64 or UTF-8 is bad."""

def check_json(value: object, /) -> tuple[str, str] | None:
    """None when `value` has an exact JSON form, else (path, reason).

    The path is what follows the value's own name: `.a[3]`, `["any text"].b`, or "" for the value itself.
    """

def new_value(cls: type[Any], /, *fields: Any) -> Any:
    """An instance made without `__init__` and filled past `__setattr__`: a slot's name and its item, and so on."""
