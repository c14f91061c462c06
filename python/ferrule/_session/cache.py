"""Where answers are kept: what a store promises, how an answer is written into it, and under which keys.

Specification: 2026-07-28, server/utilities/caching. Knows bytes and digests, no session and no clock; when an answer is
kept and served is `caching`'s business. The store in memory is `_io/memory_cache.py`, for it needs a clock and a lock.

Two kinds of entries: answers, and marks. A mark is a random value that stands for one list of one endpoint (or one of
its resources); each answer holds the marks it was asked for under, and counts only while the store still holds the
same ones. So a list is dropped, with all its pages for all callers, by deleting its mark; an answer that was under way
meanwhile holds a mark that never comes back; and a store need be no more than a table of bytes.
"""

from __future__ import annotations

from hashlib import blake2b

from .._json import FLAG_SLOW, dumps, loads
from .._value import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Protocol
else:
    Protocol = object

ANSWER = b"a"
COPY = b"s"
MARK = b"m"
"""What keys begin with: answers, their copies for `stale_if_error`, marks."""

MARK_SIZE = 16
_VERSION = b"ferrule1"
_DIGEST = 20
_PUBLIC, _PRIVATE = b"+", b"-"

STALE = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list", "resources/read"),
}
"""Which answers a notification puts out of date: all of these methods'."""


class ResponseCache(Protocol):
    """What a store promises: a table of bytes that several clients may share, in this process or beyond.

    The methods may return what they promise or an awaitable of it; a `Client` takes only the former. They run as the
    user's code does: in the calling thread, or on the loop. What they raise makes the call go to the server, and is
    logged by its type. They are not bounded by the call's deadline: a store that waits needs a limit of its own.

    Optional attributes:
        secret: At least 16 bytes. Private answers are filed under a hash keyed with it, of all that identifies the
            caller. Clients that share a store and its secret share private answers between callers with the same
            credentials; without one, private answers stay with the client that asked.
        never_waits: True of a store whose `delete` may be called by whoever reads from the server.
    """

    def get(self, keys: Sequence[bytes], /) -> Any:
        """The values of these keys in order (`list[bytes | None]`); None for what is not there or past its time."""

    def put(self, key: bytes, value: bytes, seconds: float, /) -> Any:
        """Keep a value for so many seconds at most; it may go earlier."""

    def delete(self, keys: Sequence[bytes], /) -> Any:
        """Forget these keys. When it returns, nobody who shares the store finds them any more."""


class CacheInfo(Frozen):
    """How much a client's cache was of use: see `Client.cache_info`.

    Attributes:
        hits: Answers that were served from it, stale ones included.
        stale_hits: Those that were served after their time (`stale_if_error`).
        misses: Times that it held no answer.
        entries: Answers it holds now; None for a store of the user's, which need not count.
        bytes: What they take, in bytes; None likewise.
    """

    __slots__ = ("bytes", "entries", "hits", "misses", "stale_hits")

    hits: int
    stale_hits: int
    misses: int
    entries: int | None
    bytes: int | None

    def __init__(
        self, hits: int = 0, stale_hits: int = 0, misses: int = 0, entries: int | None = None, bytes: int | None = None
    ) -> None:
        self._set("hits", hits)
        self._set("stale_hits", stale_hits)
        self._set("misses", misses)
        self._set("entries", entries)
        self._set("bytes", bytes)


# Keys


def digest(parts: Iterable[bytes], secret: bytes = b"") -> bytes:
    """A digest of these parts in this order, each with its length; keyed where there is a secret."""
    sum = blake2b(digest_size=_DIGEST, key=secret)
    for part in parts:
        sum.update(len(part).to_bytes(8, "big"))
        sum.update(part)
    return sum.digest()


def as_secret(given: bytes) -> bytes:
    """A secret of any length as the key of a digest."""
    return blake2b(given, digest_size=32).digest()


# Values


def wrap(key: bytes, marks: bytes, public: bool, packed: bytes) -> bytes:
    """An answer as it is stored: with its own key and its marks, so that no other one can be taken for it."""
    return b"".join((_VERSION, _PUBLIC if public else _PRIVATE, key[1:], marks, packed))


def unwrap(value: bytes | None, key: bytes, marks: bytes, public: bool) -> bytes | None:
    """What `wrap` was given, if the value is that answer, in this version and under the same marks."""
    head = b"".join((_VERSION, _PUBLIC if public else _PRIVATE, key[1:], marks))
    if type(value) is not bytes or not value.startswith(head):
        return None
    return value[len(head) :]


def pack(result: dict[str, Any]) -> bytes:
    """A result as bytes that nobody else holds."""
    try:
        return b"\0" + dumps(result, "result")  # a copy: what the serialiser returns keeps room behind it
    except TypeError:
        import json

        # A number or a text that only the standard library keeps exactly.
        return b"\1" + json.dumps(result).encode()


def unpack(packed: bytes) -> dict[str, Any]:
    """The result, made anew for each who asks.

    Raises:
        InvalidMessage: It is none.
    """
    result: dict[str, Any] = loads(packed[1:], FLAG_SLOW if packed[:1] == b"\1" else 0)
    return result
