"""Under what an answer is filed: all that may have influenced it, and for a private one who asked.

Specification: 2026-07-28, server/utilities/caching (Cache Key, Cache Scope Field). Knows what tells questions and
callers apart; nothing of whether and how long an answer is kept.
"""

from __future__ import annotations

import os

from .._json import canonical
from .._protocol import envelope
from . import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._protocol.era import Era
    from .._transports.call import Link
    from .cacheable import Question
    from .session import Session

READ = "resources/read"

_IGNORED = frozenset(
    {envelope.PROTOCOL_VERSION, envelope.LOG_LEVEL, envelope.PROGRESS_TOKEN, "traceparent", "tracestate"}
)
"""Members of `_meta` that no answer depends on. (The revision is in the key anyway.)"""

_MOST_PARENTS = 32
"""Of a resource that changed, how many that it may be a part of are dropped one by one."""


class Keys:
    """Where the answer to one attempt is filed.

    Attributes:
        public: For everybody.
        private: For this caller; None when nobody can tell who that is.
        marks: The keys of the marks it stands under.
    """

    __slots__ = ("marks", "private", "public")

    def __init__(self, public: bytes, private: bytes | None, marks: list[bytes]) -> None:
        self.public = public
        self.private = private
        self.marks = marks

    @property
    def both(self) -> list[bytes]:
        """The keys of answers."""
        return [self.public] if self.private is None else [self.public, self.private]


class Filing:
    """One client's way to keys.

    Args:
        secret: The store's, None if it has none.
    """

    __slots__ = ("_here", "_plain", "_secret")

    def __init__(self, secret: bytes | None) -> None:
        self._here = os.urandom(16)
        """Stands for this client, where nothing that others could know does."""
        self._secret = cache.as_secret(secret or self._here)
        self._plain: tuple[Era, bytes] | None = None

    def keys(self, session: Session, link: Link, question: Question, meta: Mapping[str, Any]) -> Keys:
        """Where the answer is filed to a question that is asked under `link` with these members of `_meta`."""
        method = question.method.name
        endpoint = self._endpoint(session)
        about = [
            *endpoint,
            link.era.revision.encode(),
            method.encode(),
            question.params or b"",
            self._fingerprint(link.era, meta),
        ]
        public = cache.ANSWER + cache.digest(about)
        caller = session.transport.caller()
        private = None
        if caller is not None:
            shown, shared = caller
            about += [shown, b"" if shared else self._here]
            private = cache.ANSWER + cache.digest(about, self._secret)
        marks = [self._mark(endpoint, method)]
        if method == READ:
            marks.append(self._mark(endpoint, method, question.name))
        return Keys(public, private, marks)

    def mark(self, session: Session, method: str, uri: str | None = None) -> bytes:
        """The key of the mark of all answers to a method, or of those about one resource."""
        return self._mark(self._endpoint(session), method, uri)

    def _mark(self, endpoint: tuple[bytes, ...], method: str, uri: str | None = None) -> bytes:
        about = [*endpoint, method.encode()]
        if uri is not None:
            about.append(uri.encode("utf-8", "surrogatepass"))
        return cache.MARK + cache.digest(about)

    def marks_about(self, session: Session, uri: str) -> list[bytes]:
        """The marks of a resource and of those that it may be a part of (server/resources, Subscriptions)."""
        ends = [place for place, letter in enumerate(uri) if letter in "/?#"]
        if len(ends) > _MOST_PARENTS:
            return [self.mark(session, READ)]
        whole = {uri, *(uri[:end] for end in ends), *(uri[: end + 1] for end in ends)}
        endpoint = self._endpoint(session)
        return [self._mark(endpoint, READ, one) for one in whole]

    def _endpoint(self, session: Session) -> tuple[bytes, ...]:
        """The server; one that only this client reaches is nobody else's."""
        endpoint = session.transport.endpoint()
        return (endpoint,) if endpoint is not None else (b"", self._here)

    def _fingerprint(self, era: Era, meta: Mapping[str, Any]) -> bytes:
        """What of `_meta` an answer may depend on, as a digest."""
        plain = self._plain
        if not meta and plain is not None and plain[0] is era:
            return plain[1]
        # A verdict may prove wrong on the way to an answer, which is then of an era without envelopes.
        own = era.envelope.to_meta() if not era.handshake else {}  # type: ignore[attr-defined]
        whole = {**own, **meta}
        effective = {key: value for key, value in whole.items() if key not in _IGNORED}
        found = cache.digest([canonical(effective, "_meta")])
        if not meta:
            self._plain = (era, found)
        return found
