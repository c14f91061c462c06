"""One view's link to the server: opened once for all who need it, dropped when it is no good, ended with the view.

Knows whose link it is and who hears what comes under it. Requests are `session`'s business.
"""

from __future__ import annotations

import math

from .. import _log
from .._io import Closing, Expired
from ..errors import ConnectionClosed, FerruleError, RequestTimeout
from .inbound import Inbound
from .settings import UNSET, Unset, ViewSettings, check_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .._io.interface import IO
    from .._transports.call import Link
    from .._transports.interface import Transport
    from .listening import Listener
    from .peer import Peer
    from .session import Session
    from .standing import Standing


def new_standing(session: Any) -> Standing:
    """What a session keeps between calls: most programs need nothing of it."""
    from .standing import Standing

    return Standing(session)


class Linked:
    """A view of the client: its credentials and defaults, and the link that goes with them. Always a `Session`."""

    __slots__ = (
        "__weakref__",
        "_generation",
        "_link",
        "_opened",
        "inbound",
        "listener",
        "on_new_link",
        "peer",
        "root",
        "standing",
        "transport",
        "view",
    )

    def __init__(self, peer: Peer, view: ViewSettings, root: Session | None = None) -> None:
        self.peer = peer
        self.view = view
        self.root = root
        self._attach()

    def _attach(self) -> None:
        self._link: Link | None = None
        self._opened = False
        self.listener: Listener | None = None
        self.transport: Transport = self.peer.transport.view(self.view.headers, self.view.auth)
        self.on_new_link: list[Callable[[Link, float], Awaitable[None]]] = []
        if self.root is None or self.transport is not self.root.transport:
            self.inbound = self.transport.inbound = Inbound(self)  # type: ignore[arg-type]  # a Session
            self.standing: Standing | None = new_standing(self) if self.settings.keep_lists else None
        else:
            root = self.root
            self.inbound, self.on_new_link = root.inbound, root.on_new_link
            self.standing = root.standing = root.standing or new_standing(root)
        # Last: until then other threads come here too.
        self._generation = self.peer.generation

    @property
    def io(self) -> IO:
        """Does everything that waits."""
        return self.peer.io

    @property
    def settings(self) -> Any:
        """What the client was asked to be."""
        return self.peer.settings

    @property
    def label(self) -> str:
        """The server as texts name it."""
        return self.transport.label

    @property
    def link(self) -> Link | None:
        """What was agreed with the server; None before that."""
        return self._link

    @property
    def handshake(self) -> bool:
        """Does the link belong to the handshake era?"""
        link = self._link
        return link is not None and link.era.handshake

    @property
    def mirrors(self) -> bool:
        """Do requests repeat some of what they hold in headers?"""
        link = self._link
        return link is not None and link.era.mirrors and self.transport.http

    def next_id(self) -> int:
        """An id for one attempt of one request."""
        return self.peer.next_id()

    def enter(self) -> None:
        """Each public operation passes here first: is this still the process and loop it was?"""
        peer = self.peer
        if peer.io.check():
            peer.renew_after_fork()
        if self._generation != peer.generation:
            # The root first: whether a view's transport is the root's decides whose link it uses.
            with peer.io.mutex():
                for session in (self.root, self):
                    if session is not None and session._generation != peer.generation:
                        session._attach()

    def enter_until(self, timeout: float | Unset | None) -> float:
        """As `enter`; gives the deadline of an operation that starts now."""
        peer = self.peer
        io = peer.io
        if io.check() or self._generation != peer.generation:
            self.enter()
            io = peer.io
        if timeout is not UNSET:
            return self.deadline(timeout)
        seconds = self.view.timeout
        return math.inf if seconds is None else io.now() + seconds

    def deadline(self, timeout: float | Unset | None = UNSET) -> float:
        """When an operation that starts now must end."""
        seconds = self.view.timeout if isinstance(timeout, Unset) else check_timeout(timeout)
        return math.inf if seconds is None else self.peer.io.now() + seconds

    def for_exchange(self, deadline: float) -> float:
        """When one request of the negotiation must end, of those that have this long together."""
        return deadline

    # The link

    async def _open(self, deadline: float) -> Link:
        """Open it, for the first who asks."""
        raise AssertionError("a session does this itself")

    async def ready(self, deadline: float) -> Link:
        """The link, opened if need be: once for all who ask at the same time.

        Raises:
            FerruleError: It cannot be opened. Nothing is left running and it can be tried again.
        """
        self.check_open()
        if self.root is not None and self.transport is self.root.transport:
            # Over stdio all views talk to one child, in one session.
            self._link = await self.root.ready(deadline)
            return self._link
        if self._link is not None:
            return self._link
        return await self.peer.io.once(("link", self), self._open, deadline)  # type: ignore[no-any-return]

    async def link_by(self, deadline: float, what: str) -> Link:
        """The link, for an operation that needs to know it first.

        Raises:
            RequestTimeout: It was not open at the deadline.
        """
        try:
            return self._link or await self.ready(deadline)
        except Expired:
            raise RequestTimeout(
                f"{what} at {self.label}: not connected within the timeout", request_sent=False
            ) from None
        except Closing:
            raise ConnectionClosed(f"{what} at {self.label}: the client was closed", request_sent=False) from None
        except FerruleError as error:
            # What was sent belongs to the negotiation, not to the operation that waits for it.
            error.request_sent = False
            raise

    @property
    def needs_stream(self) -> bool:
        """Could something use what the server sends unasked?"""
        wanted: bool | None = self.settings.listen
        return wanted is True or (wanted is None and (self.settings.handlers.any or bool(self.inbound.listeners)))

    async def listen(self, deadline: float) -> None:
        """Have what the server sends unasked read, on a stream of its own where there is such a thing.

        Waits for its headers, for `Limits.listen_wait` at most.
        """
        link = self._link
        if link is None or self.settings.listen is False:
            return
        self.transport.attend(link)
        if link.era.handshake and self.transport.listens:
            from .listening import listen

            await listen(self, link, deadline)  # type: ignore[arg-type]  # a Session

    def drop(self, link: Link) -> None:
        """Forget a link that is no good any more, unless another has taken its place."""
        with self.peer.io.mutex():
            self.peer.sessions.pop(link, None)
            for session in (self, self.root):
                if session is not None and session._link is link:
                    session._link = None
            listener = self.listener
            if listener is not None and listener.link is link:
                self.listener = None
            else:
                listener = None
        if listener is not None:
            listener.stop()
        self.inbound.drop(link)
        if self.standing is not None:
            self.standing.lost()

    def check_open(self) -> None:
        """Raise ConnectionClosed once the client was closed."""
        if self.peer.closed:
            raise ConnectionClosed(f"{self.label}: the client is closed", request_sent=False)

    # The end

    async def disconnect(self, link: Link, deadline: float) -> None:
        """End the link's session at the server, if it has an id there."""
        self.drop(link)
        try:
            await self.transport.end_session(link, deadline)
        except (FerruleError, Expired, Closing) as error:
            _log.debug("the session's end could not be told: %s", type(error).__name__)

    def disconnect_in_background(self, link: Link) -> None:
        """End a session that nobody will use, without making anybody wait."""
        deadline = self.io.now() + self.settings.limits.close_timeout
        self.io.background(self.disconnect(link, deadline))

    async def close(self) -> None:
        """End this view; the client's own view closes everything. Idempotent, bounded by `Limits.close_timeout`."""
        from .ending import close

        try:
            await close(self)  # type: ignore[arg-type]  # a Session
        finally:
            if self.root is None and self.peer.closed:
                self._link = None
