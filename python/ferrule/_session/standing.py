"""What a session keeps between calls: kept lists, subscriptions, tasks, the log level, what tools ask of calls.

Knows who of them hears a notification, and what is set up again in a session that replaces another (S8); what each
of them does is its own module's business, loaded when it is first used.
"""

from __future__ import annotations

from .. import _log
from .._io import Closing, Expired
from .._json import dumps
from .._protocol import methods
from .._transports.call import Call, LinkLost
from .._transports.messages import check_answer
from ..errors import FerruleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._protocol.methods import Method
    from .._transports.call import Link
    from ..types.events import Honored
    from .changes import Changes
    from .definitions import Definition, Definitions
    from .handshake_tasks import Tasks
    from .kept import KeptLists
    from .listens import Listens
    from .session import Session


def standing_of(session: Session) -> Standing:
    """What the session keeps, made when the first feature needs it. Not to be called under the mutex."""
    with session.io.mutex():
        if session.standing is None:
            session.standing = Standing(session)
        return session.standing


class Standing:
    """One for each session; over stdio, where all views are one session, the client's own.

    Attributes:
        session: Whose it is.
        kept: The lists that are kept (C12); None when nobody asked for that.
        changes: Who subscribed to what; None before the first subscription (handshake era).
        listens: The listen requests under way; None before the first subscription (stateless era).
        tasks: The tasks of this session; None before the first.
        log_level: What was last asked for by `set_log_level`; None before that.
        definitions: What the tools that were listed ask of their calls; None while none asks for anything.
        special: Those of them whose calls are not plain, for `features.call_tool`; None when there is none.
    """

    __slots__ = (
        "_listens",
        "_reasons",
        "_renews",
        "changes",
        "definitions",
        "kept",
        "listens",
        "log_level",
        "session",
        "special",
        "tasks",
    )

    def __init__(self, session: Session) -> None:
        self.session = session
        self.kept: KeptLists | None = None
        self.changes: Changes | None = None
        self.listens: Listens | None = None
        self.tasks: Tasks | None = None
        self.log_level: str | None = None
        self.definitions: Definitions | None = None
        self.special: dict[str, Definition] | None = None
        self._reasons = 0
        self._renews = False
        if session.settings.keep_lists:
            from .kept import KeptLists

            self.kept = KeptLists(session.io, session.settings.limits.max_cache_bytes)
            # Nobody else has seen this session yet, so without the mutex, which may be held.
            self._reasons = 1
            session.inbound.listeners = [self.hear]

    def attend(self) -> None:
        """Hear notifications from now on: once more, until `leave` was called as often."""
        session = self.session
        with session.io.mutex():
            self._reasons += 1
            if self._reasons == 1:
                session.inbound.listeners = [*session.inbound.listeners, self.hear]
        self.renew_later()

    def leave(self) -> None:
        """Hear them no more, unless there is another reason to."""
        session = self.session
        with session.io.mutex():
            self._reasons -= 1
            if self._reasons == 0:
                # Not by identity: each look at a bound method makes another.
                session.inbound.listeners = [one for one in session.inbound.listeners if one != self.hear]

    def renew_later(self) -> None:
        """Be asked when a new session has to be set up."""
        session = self.session
        with session.io.mutex():
            if not self._renews:
                self._renews = True
                session.on_new_link.append(self.renew)

    # What the transport calls: neither raises nor waits

    def hear(self, method: str, params: dict[str, Any] | None, link: Link) -> None:
        """Take note of a notification, kept lists first: what is out of date goes before anybody can ask for it."""
        if self.kept is not None:
            self.kept.heard(method)
        if self.tasks is not None:
            self.tasks.heard(method, params)
        if self.changes is not None:
            self.changes.heard(method, params)
        if self.listens is not None:
            self.listens.heard(method, params)

    def missed(self, honored: Honored) -> None:
        """Changes of what a subscription was to hear of may have gone unheard: what is kept of that goes."""
        if self.kept is not None:
            self.kept.clear()
        caching = self.session.peer.caching
        if caching is not None:
            caching.missed(self.session, honored)

    def lost(self) -> None:
        """The link is no good any more: whoever waits for what came on it should know."""
        if self.changes is not None:
            self.changes.lost()

    def end(self, session: Session) -> None:
        """A view is closed, or with the client's own view everything."""
        if self.changes is not None:
            self.changes.end(session)
        if self.listens is not None:
            self.listens.end(session)

    # A session that replaces another

    async def renew(self, link: Link, deadline: float) -> None:
        """Ask the new session for what the old one was asked for."""
        if self.log_level is not None and link.era.handshake:
            await self.try_to_ask(methods.LOGGING_SET_LEVEL, {"level": self.log_level}, link, deadline)
        if self.changes is not None:
            await self.changes.renew(link, deadline)

    async def try_to_ask(self, method: Method, params: dict[str, Any], link: Link, deadline: float) -> bool:
        """Send one request under a link that calls still wait for. Did the server agree? If not, the log says so."""
        session = self.session
        call = Call(session.next_id(), method, None, dumps(params), session.request_meta_only(), deadline, bypass=True)
        try:
            message = await session.transport.request(call, link)
            check_answer(message, f"{method.name} at {session.label}")
        except (FerruleError, Expired, Closing, LinkLost) as error:
            problem: str | None = type(error).__name__
        else:
            problem = f"error {message['error']['code']}" if "error" in message else None
        if problem is not None:
            _log.warning("%s at %s: not renewed in the new session: %s", method.name, session.label, problem)
        return problem is None
