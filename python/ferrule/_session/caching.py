"""When an answer is kept, for whom, for how long, and when it is served instead of a request.

Specification: 2026-07-28, server/utilities/caching. The rules:

* An answer is filed under all that may have influenced it: endpoint, revision, method, parameters, and `_meta` but for
  what cannot (`filing`). A private one also under a keyed hash of whatever can tell the server who asks; one whose
  asker cannot be told is not kept.
* It is fresh for `ttlMs` from the time it came, within `Limits.max_cache_age`. Without that hint it is not kept.
* A notification that a list changed, or a resource, drops what it is about before anybody else hears of it.
* `request_meta` is evaluated once for looking and asking: what was weighed is what is sent. The next attempt of a
  request evaluates anew, and its answer is filed under what that attempt carried.
* Who misses the same answer at the same time shares one request, if its answer may be kept. Who cannot be served by it
  sends their own, with their own deadline.

Nothing here knows how keys and values look in a store (`cache`), nor stores themselves.
"""

from __future__ import annotations

import math
import os

from .._http.bypass import IN_HANDLER
from .._io import Closing, Expired
from .._json import canonical, loads
from .._protocol import envelope
from .._protocol.envelope import without_reserved
from ..errors import (
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    InputRequired,
    RequestTimeout,
    ServerExited,
)
from . import cache
from .cache import STALE, CacheInfo
from .filing import READ, Filing, Keys
from .retry import transient
from .settings import Unset
from .special import Evaluation, Special
from .store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .._transports.call import Link
    from ..types.events import Honored
    from .cacheable import Question
    from .session import Session

_METHODS = tuple({method for methods in STALE.values() for method in methods} | {"server/discover"})


class Weighed(Special):
    """One operation: what was weighed, and what its attempts then carried.

    Attributes:
        keys: Where its answer may lie.
        marks: The marks it asks under, None when the store cannot be used.
        found: The keys under which something lay.
        filed: Where the answer to the last attempt belongs.
    """

    __slots__ = ("_caching", "_given", "_noted", "_session", "filed", "found", "keys", "marks", "question")

    def __init__(self, caching: Caching, session: Session, link: Link, question: Question) -> None:
        evaluated, reserved = _evaluate(session)
        super().__init__(evaluation=reserved)
        self._caching = caching
        self._session = session
        self.question = question
        given = {**evaluated, **without_reserved(question.meta)} if question.meta else evaluated
        self._given: tuple[Mapping[str, Any], Link] = (given, link)
        self._noted: tuple[Mapping[str, Any], Link] = self._given
        self.keys = self.filed = self._keys(self._given)
        self.marks: bytes | None = None
        self.found: set[bytes] = set()

    def note(self, meta: Mapping[str, Any], link: Link) -> None:
        """See `Special.note`."""
        self._noted = meta, link
        self.moved()

    def moved(self) -> None:
        """See `Special.moved`: its answer belongs to whoever it went out for in the end."""
        self.filed = self._keys(self._noted)

    @property
    def is_of_handshake(self) -> bool:
        """Did the last attempt go to a server of the handshake era, which gives no hints (C12)?"""
        return self._noted[1].era.handshake

    def _keys(self, attempt: tuple[Mapping[str, Any], Link]) -> Keys:
        meta, link = attempt
        return self._caching.filing.keys(self._session, link, self.question, meta)

    @property
    def stale(self) -> list[bytes]:
        """Where its answer may lie after its time: what was for another caller than asks now is not for this one."""
        same = self._keys(self._given).private == self.keys.private
        return [cache.COPY + key[1:] for key in (self.keys.both if same else [self.keys.public])]

    def is_as_weighed(self, public: bool) -> bool:
        """Did the answer come to what was weighed, so that who waits for the same may have it?"""
        if public:
            return self.filed.public == self.keys.public
        return self.filed.private == self.keys.private


def _evaluate(session: Session) -> tuple[dict[str, Any], Evaluation | None]:
    """One evaluation of `request_meta`, and the same for the request."""
    if session.view.request_meta is None:
        return {}, None
    # A copy: what is weighed must not change before it is sent.
    evaluated = loads(canonical(session.evaluate(), "request_meta"))
    return evaluated, Evaluation(evaluated)


class Outcome:
    """How a request went that several wait for: an error, or an answer, packed if others may have it."""

    __slots__ = ("error", "packed", "value")

    def __init__(self, value: Any = None, packed: bytes | None = None, error: Exception | None = None) -> None:
        self.value = value
        self.packed = packed
        self.error = error

    def give(self) -> Any:
        """The answer, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.value


_INTERRUPTED = Outcome(error=InterruptedError())
"""The caller of a request that several wait for gave it up."""


class Caching:
    """One for each client, whatever its views.

    Attributes:
        store: Where answers lie.
        filing: Under what.
        unhinted: Methods whose answers came without `ttlMs`, all of them.
    """

    __slots__ = ("_flights", "_hinted", "_kept", "filing", "hits", "misses", "stale_hits", "store", "unhinted")

    def __init__(self, session: Session) -> None:
        given, limits = session.settings.cache, session.settings.limits
        if isinstance(given, Unset):
            given = session.io.memory_cache(limits.max_cache_bytes, limits.max_cache_entries)
        self.store = Store(given, lambda session: [self.filing.mark(session, method) for method in _METHODS])
        self.filing = Filing(self.store.secret)
        self.unhinted: set[str] = set()
        self._hinted: set[str] = set()
        """Methods of which at least one answer came with it: another one may lie in the store."""
        self._flights: dict[Any, list[Any]] = {}
        """Of each question that is being asked, who waits for the answer."""
        self._kept = 0
        """Counts up whenever something was kept."""
        self.hits = self.stale_hits = self.misses = 0

    def __repr__(self) -> str:
        return f"<Caching: {self.hits} hits, {self.misses} misses>"

    def info(self) -> CacheInfo:
        """See `cacheable.info`."""
        held, taken = self.store.size
        return CacheInfo(self.hits, self.stale_hits, self.misses, held, taken)

    # Asking

    async def answer(self, session: Session, link: Link, question: Question, deadline: float, mode: str) -> Any:
        """See `cacheable.answer`."""
        session.check_open()
        # What changed may have arrived already, and nobody has read it.
        session.transport.poll()
        before = (self.store.drops, self._kept)
        weighed = Weighed(self, session, link, question)
        found = await self._look(session, weighed, weighed.keys.both)
        if found is not None and mode == "use":
            self._count("hits", session)
            return self._served(found.value, link)
        self._count("misses", session)
        if mode != "use":
            return (await self._ask(session, weighed, deadline)).give()
        try:
            # A handler waits for nobody who may wait for a connection, which the handler's own call may hold.
            if weighed.keys.private is None or IN_HANDLER.get():
                return (await self._ask(session, weighed, deadline)).give()
            return await self._ask_together(session, weighed, deadline, *before)
        except FerruleError as error:
            stale = await self._after(error, session, weighed)
            if stale is None:
                raise
        self._count("stale_hits", session)
        return self._served(stale.value, link)

    async def _ask_together(self, session: Session, weighed: Weighed, deadline: float, drops: int, kept: int) -> Any:
        """One request for all who miss this answer now.

        Not by `io.once`: what the first sends is its own operation, in its own context. It ends with its caller, who
        may be cancelled, and then somebody else's begins.

        Args:
            session: Who asks.
            weighed: What.
            deadline: When to give up.
            drops: What had been dropped when this one looked.
            kept: What had been kept.
        """
        key = (drops, weighed.keys.private)
        while True:
            slot = session.io.slot()
            with session.io.mutex():
                followers = self._flights.get(key)
                if followers is None:
                    self._flights[key] = []
                else:
                    followers.append(slot)
            if followers is None:
                return (await self._lead(session, weighed, deadline, key, kept)).give()
            outcome = await self._follow(session, weighed, slot, deadline)
            if outcome.packed is not None:
                return _unpack(weighed.question, outcome.packed)
            if outcome.error is None:  # not to be shared
                return (await self._ask(session, weighed, deadline)).give()

    async def _lead(self, session: Session, weighed: Weighed, deadline: float, key: Any, kept: int) -> Outcome:
        outcome = _INTERRUPTED
        try:
            # What this one missed may have been kept since.
            found = await self._look(session, weighed, weighed.keys.both) if kept != self._kept else None
            outcome = found or await self._ask(session, weighed, deadline)
            return outcome
        finally:
            with session.io.mutex():
                followers = self._flights.pop(key)
            for slot in followers:
                slot.set(outcome)

    async def _follow(self, session: Session, weighed: Weighed, slot: Any, deadline: float) -> Outcome:
        where = f"{weighed.question.method.name} at {session.label}"
        try:
            await session.io.wait(slot, deadline)
        except Expired:
            raise RequestTimeout(f"{where}: no answer within the timeout", request_sent=True) from None
        except Closing:
            raise ConnectionClosed(f"{where}: the client was closed", request_sent=True) from None
        outcome: Outcome = slot.result()
        return outcome

    async def _ask(self, session: Session, weighed: Weighed, deadline: float) -> Outcome:
        """Send the request and keep its answer. An error is an outcome too: of this attempt, and nobody else's."""
        question = weighed.question
        try:
            result = await session.perform(
                question.method, question.params, deadline, question.name, question.meta, special=weighed
            )
            received = session.io.now()
            value = question.read(result)  # what has the wrong shape is not worth keeping
        except Exception as error:
            if isinstance(error, InputRequired) and weighed.found:
                await self._forget(session, weighed.found)  # the answer that rounds bring is newer, and not kept
            return Outcome(error=error)
        seconds = self._lifetime(session, question, result) if not weighed.is_of_handshake else 0.0
        packed = None
        if seconds > 0:
            packed = await self._keep(session, weighed, result, received + seconds)
        if packed is None and weighed.found:
            await self._forget(session, weighed.found)  # there is a newer answer
        # A later attempt may have asked for something else than those who wait, or as somebody else.
        return Outcome(value, packed if weighed.is_as_weighed(_is_public(result)) else None)

    def _served(self, value: Any, link: Link) -> Any:
        """A kept answer says who the server is as any other does."""
        if link.server_info is None and isinstance(info := value.meta.get(envelope.SERVER_INFO), dict):
            link.server_info = info
        return value

    async def _after(self, error: FerruleError, session: Session, weighed: Weighed) -> Outcome | None:
        """What may be served although its time is over, because the server cannot be asked just now."""
        if not session.settings.stale_if_error or session.peer.closed or not _passes(error):
            return None
        return await self._look(session, weighed, weighed.stale)

    # Keeping

    def _lifetime(self, session: Session, question: Question, result: Mapping[str, Any]) -> float:
        """For how many seconds the server lets an answer be used."""
        if result.get("resultType", "complete") != "complete":
            return 0.0  # of a kind that an extension brings: what hints mean there is not known
        self.note_hint(session, question.method.name, "ttlMs" in result)
        if "ttlMs" not in result:
            return 0.0
        ttl = result["ttlMs"]
        if type(ttl) is not int or ttl <= 0:
            return 0.0
        longest: float = session.settings.limits.max_cache_age
        return min(ttl / 1000, longest) if ttl < 2**53 else longest

    def note_hint(self, session: Session, method: str, hinted: bool) -> None:
        """An answer to this method came, with a hint or without."""
        with session.io.mutex():
            if hinted:
                self._hinted.add(method)
                self.unhinted.discard(method)
            elif method not in self._hinted:
                self.unhinted.add(method)

    async def _keep(self, session: Session, weighed: Weighed, result: dict[str, Any], until: float) -> bytes | None:
        """Keep an answer, and return it packed; None if it must not be kept."""
        public = _is_public(result)
        filed = weighed.filed
        key = filed.public if public else filed.private
        if key is None or weighed.marks is None or filed.marks != weighed.keys.marks:
            return None
        # Dropped meanwhile? Then what was asked before is not kept; the marks in it would not count anyway.
        if await self._marks(session, filed.marks) != weighed.marks:
            return None
        packed = _pack(weighed.question, result)
        seconds = until - session.io.now()
        # The copy for later counts from the end of its time, which may have come already.
        lifetimes = {key: seconds}
        if session.settings.stale_if_error:
            lifetimes[cache.COPY + key[1:]] = seconds + session.settings.stale_if_error
        for name, lifetime in lifetimes.items():
            if lifetime > 0:
                await self.store.put(session, name, cache.wrap(name, weighed.marks, public, packed), lifetime)
        if seconds <= 0:
            return None
        # What was filed under the other scope would go on being served.
        others = weighed.found - {key}
        if others:
            await self._forget(session, others)
        with session.io.mutex():
            self._kept += 1
        return packed

    async def _forget(self, session: Session, keys: set[bytes]) -> None:
        await self.store.delete(session, [*keys, *(cache.COPY + key[1:] for key in keys)])

    # Looking

    async def _look(self, session: Session, weighed: Weighed, keys: list[bytes]) -> Outcome | None:
        """The kept answer, read; None if there is none that may be served. Notes the marks to ask under."""
        marks = weighed.keys.marks
        values = await self.store.get(session, [*marks, *keys])
        if values is None:
            return None
        known, answers = values[: len(marks)], values[len(marks) :]
        weighed.marks = await self._complete(session, marks, known)
        if weighed.marks is None:
            return None
        for key, value in zip(keys, answers, strict=True):
            if value is None:
                continue
            weighed.found.add(key)
            packed = cache.unwrap(value, key, weighed.marks, key[1:] == weighed.keys.public[1:])
            if packed is not None:
                try:
                    return Outcome(_unpack(weighed.question, packed), packed)
                except (FerruleError, ValueError, TypeError) as error:
                    self.store.complain(error)
        return None

    async def _complete(self, session: Session, keys: list[bytes], known: list[bytes | None]) -> bytes | None:
        """The marks; those that are missing are made, once for all who miss them: nothing counts that was kept before.

        None when the store cannot be used.
        """
        marks = _joined(known)
        if marks is not None:
            return marks
        lifetime = 2 * session.settings.limits.max_cache_age + session.settings.stale_if_error

        async def make(_: float) -> bytes | None:
            found = await self.store.get(session, keys)
            if found is None:
                return None
            for place, key in enumerate(keys):
                if not _is_mark(found[place]):
                    found[place] = os.urandom(cache.MARK_SIZE)
                    if not await self.store.put(session, key, found[place], lifetime):
                        return None
            return _joined(found)

        try:
            made: bytes | None = await session.io.once((self, *keys), make, math.inf)
            return made
        except Closing:
            return None

    async def _marks(self, session: Session, keys: list[bytes]) -> bytes | None:
        values = await self.store.get(session, keys)
        return None if values is None else _joined(values)

    # Dropping: called by whoever reads from the server, so it neither raises nor waits

    def heard(self, session: Session, method: str, params: Mapping[str, Any] | None) -> None:
        """Drop what a notification puts out of date."""
        if method in STALE:
            self.drop(session, STALE[method])
        elif method == "notifications/resources/updated" and params is not None:
            uri = params.get("uri")
            if isinstance(uri, str):
                self.store.drop(session, self.filing.marks_about(session, uri))

    def missed(self, session: Session, honored: Honored) -> None:
        """Drop all that may have changed while nobody heard it."""
        named = (("tools", honored.tools), ("prompts", honored.prompts), ("resources", honored.resources))
        for name, wanted in named:
            if wanted:
                self.drop(session, STALE[f"notifications/{name}/list_changed"])
        if honored.uris and not honored.resources:
            # A resource counts as changed when a part of it has: which were read nobody knows.
            self.drop(session, (READ,))

    def drop(self, session: Session, methods: Iterable[str]) -> None:
        """Drop all answers to these methods, whoever asked."""
        self.store.drop(session, [self.filing.mark(session, method) for method in methods])

    def clear(self, session: Session) -> None:
        """Drop all that this client may have kept."""
        self.drop(session, _METHODS)
        if isinstance(session.settings.cache, Unset):
            self.store.given.clear()

    def _count(self, what: str, session: Session) -> None:
        with session.io.mutex():
            setattr(self, what, getattr(self, what) + 1)


def _is_public(result: Mapping[str, Any]) -> bool:
    """May anybody have it? Without a word it is private."""
    return result.get("cacheScope") == "public"


def _passes(error: FerruleError) -> bool:
    """Is this trouble that time may mend?"""
    if isinstance(error, HTTPStatusError):
        return transient(error.status)
    if isinstance(error, ConnectError):
        return error.transient
    return isinstance(error, (ConnectionClosed, RequestTimeout, ServerExited))


def _is_mark(value: object) -> bool:
    return type(value) is bytes and len(value) == cache.MARK_SIZE


def _joined(values: list[Any]) -> bytes | None:
    """The marks as one; None if one is missing."""
    return b"".join(values) if all(_is_mark(value) for value in values) else None


# Answers as bytes: tools in a form that leaves their schemas for later


def _pack(question: Question, result: dict[str, Any]) -> bytes:
    if question.method.name == "tools/list":
        from ..types._kept_tools import pack_tools

        try:
            return b"\2" + pack_tools(result)
        except TypeError:
            pass  # `pack` keeps what this cannot
    return cache.pack(result)


def _unpack(question: Question, packed: bytes) -> Any:
    if packed[:1] == b"\2":
        from ..types._kept_tools import unpack_tools

        return unpack_tools(packed[1:])
    return question.read(cache.unpack(packed))
