"""Everything a server sends unasked, for all sessions of one client: to the handlers, bounded, and back.

Knows which handler a message is for, and what that is told of the circumstances.
"""

from __future__ import annotations

from .. import _log
from .._http.bypass import IN_HANDLER
from .handlers import call
from .lanes import Lanes
from .replies import METHOD_NOT_FOUND, Replies, error_reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

    from .._transports.call import Link
    from ..types import Context
    from .answering import Desk
    from .peer import Peer
    from .session import Session

LOG = "notifications/message"


class Reception:
    """One for each client, made when its server first says something unasked."""

    __slots__ = ("_desk", "_handlers", "_io", "_limits", "lanes", "replies")

    def __init__(self, peer: Peer) -> None:
        self._io = peer.io
        self._handlers = peer.settings.handlers
        self._limits = peer.settings.limits
        self._desk: Desk | None = None
        self.replies = Replies(self._io, self._limits)
        self.lanes = Lanes(self._io, self._limits, self._deliver, peer.transport.label)
        if self._handlers.asked:
            from .answering import Desk

            self._desk = Desk(self._io, self._limits, self._handlers, self.replies)

    # Requests

    def ask(self, message: dict[str, Any], session: Session, link: Link, deadline: float | None) -> None:
        """Have a request answered by its handler, or refuse it."""
        method = message["method"]
        if self._desk is None or type(method) is not str or not self._handlers.handle(method):
            self.replies.post(error_reply(message["id"], METHOD_NOT_FOUND, "Method not found"), session, link)
            return
        context = circumstances(session, link, method)
        context.deadline = deadline
        self._desk.take(message, session, link, context)

    def cancel(self, link: Link, request_id: object) -> None:
        """The server withdrew a request."""
        if self._desk is not None:
            self._desk.cancel(link, request_id)

    def drop(self, link: Link) -> None:
        """The session is gone: its requests are given up."""
        if self._desk is not None:
            self._desk.drop(link)

    def close(self, deadline: float) -> None:
        """Give up the server's requests; notifications that came are delivered until the deadline."""
        self.replies.clear()
        self.lanes.close(deadline)
        if self._desk is not None:
            self._desk.close()

    def leave(self, session: Session) -> None:
        """One view of the client is being closed."""
        if self._desk is not None:
            self._desk.close(session)

    # Notifications

    def notify(self, method: str, params: dict[str, Any] | None, session: Session, link: Link, lane: Hashable) -> None:
        """Leave a notification for its handler."""
        self.lanes.put(link if lane is None else lane, (method, params, session, link))

    async def _deliver(self, item: tuple[str, dict[str, Any] | None, Session, Link]) -> None:
        method, params, session, link = item
        from ..types.notifications import LogMessage, Notification

        IN_HANDLER.set(True)
        try:
            if method == LOG:
                handler: Any = self._handlers.on_log
                value: Any = LogMessage.from_wire(params, method)
            else:
                handler = self._handlers.on_notification
                value = Notification(method, params or {})
            await call(self._io, handler, value, circumstances(session, link, method))
        except Exception as error:
            # The user's code is the user's, and a message in no shape the server's: neither may disturb what follows.
            _log.warning("%s: a notification could not be handled: %s", session.label, type(error).__name__)


def circumstances(session: Session, link: Link, method: str) -> Context:
    """What a handler is told beside the message."""
    from ..types.context import Context

    name = link.server_info.get("name") if link.server_info is not None else None
    return Context(
        server=session.label,
        server_name=name if type(name) is str else None,
        method=method,
        era=link.era.name,
        protocol_version=link.era.revision,
    )
