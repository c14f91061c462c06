"""A question whose answer may be kept, and the way to it: past the cache where there is nothing to gain from one.

Specification: 2026-07-28, server/utilities/caching. Knows who needs the cache at all; its rules are `caching`'s
business, which is loaded for the first question that does.
"""

from __future__ import annotations

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    from .._protocol.methods import Method
    from .cache import CacheInfo
    from .caching import Caching
    from .session import Session

    CacheMode = Literal["use", "refresh", "bypass"]

_MODES = ("use", "refresh", "bypass")


class Question:
    """A request as far as its answer depends on it.

    Attributes:
        method: The method's row.
        params: Its serialised parameters without `_meta`.
        read: Turns the result into what the caller gets; raises when it has the wrong shape.
        name: What `Mcp-Name` mirrors: the URI of a resource.
        meta: The caller's members of `_meta`.
    """

    __slots__ = ("meta", "method", "name", "params", "read")

    def __init__(
        self,
        method: Method,
        params: bytes | None,
        read: Callable[[dict[str, Any]], Any],
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.read = read
        self.name = name
        self.meta = meta

    async def ask(self, session: Session, deadline: float) -> Any:
        """The answer from the server."""
        result = await session.perform(self.method, self.params, deadline, self.name, self.meta)
        return self.read(result)


async def answer(session: Session, question: Question, deadline: float, mode: str = "use") -> Any:
    """The answer to a question: a kept one where that is as good, else the server's.

    Args:
        session: Who asks.
        question: What is asked.
        deadline: When to give up.
        mode: See `check_mode`.

    Raises:
        FerruleError: There is none.
    """
    if session.settings.cache is None or mode == "bypass":
        return await question.ask(session, deadline)
    name = question.method.name
    link = session.link or await session.link_by(deadline, name)
    if link.era.handshake:
        return await question.ask(session, deadline)
    caching = session.peer.caching or caching_of(session)
    if name in caching.unhinted:
        return await _ask_unhinted(session, question, deadline, caching)
    return await caching.answer(session, link, question, deadline, mode)


async def _ask_unhinted(session: Session, question: Question, deadline: float, caching: Caching) -> Any:
    """Ask a server that gave no hints so far: nothing is weighed until it does."""
    result = await session.perform(question.method, question.params, deadline, question.name, question.meta)
    if "ttlMs" in result:
        caching.note_hint(session, question.method.name, True)
    return question.read(result)


def caching_of(session: Session) -> Caching:
    """The client's cache, made when it is first needed. Not to be called under the mutex."""
    from .caching import Caching

    peer = session.peer
    made = Caching(session)
    with peer.io.mutex():
        if peer.caching is None:
            peer.caching = made
        return peer.caching


def clear(session: Session) -> None:
    """Drop what is kept for this client, and the lists of this session."""
    session.enter()
    if session.peer.caching is not None:
        session.peer.caching.clear(session)
    if session.standing is not None and session.standing.kept is not None:
        session.standing.kept.clear()


def info(session: Session) -> CacheInfo:
    """How much of use the cache was so far. Evaluates and keeps nothing."""
    from .cache import CacheInfo

    session.enter()
    caching = session.peer.caching
    found = CacheInfo(entries=0, bytes=0) if caching is None else caching.info()
    kept = session.standing.kept if session.standing is not None else None
    if kept is None:
        return found
    return found.replace(
        hits=found.hits + kept.hits,
        misses=found.misses + kept.misses,
        entries=(found.entries or 0) + len(kept),
        bytes=(found.bytes or 0) + kept.size,
    )


def check_mode(mode: str) -> None:
    """Is it one of "use", "refresh" (ask the server, keep its answer) and "bypass" (neither)?

    Raises:
        ConfigError: It is none.
    """
    if mode not in _MODES:
        raise ConfigError('cache: expected "use", "refresh" or "bypass"')
