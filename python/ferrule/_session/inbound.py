"""Messages from the server that answer no call: its notifications, and its requests (handshake era).

Knows which of them is whose; never waits and never raises, so that a reader may call it. What takes time is begun in
`reception`, which is loaded when a server first says something that needs it.
"""

from __future__ import annotations

from .. import _log
from .._transports.messages import post_progress, progress_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from .._transports.call import Link, SpecialCall
    from .session import Session

_CANCELLED = "notifications/cancelled"
_LOG = "notifications/message"
_REQUESTS = ("ping", "roots/list", "sampling/createMessage", "elicitation/create")
"""What servers may ask in the handshake era."""


_NOTHING: frozenset[str] = frozenset()  # one for all: each `frozenset()` makes another, of 216 bytes


class Inbound:
    """Where a session's transport leaves what nobody waits for.

    Attributes:
        max_queue: How many notifications may wait for one slow handler.
        listeners: Functions of the client's own, called at once with method, parameters and link of each notification
            but progress, before any handler of the user's. They neither raise nor wait. The list is replaced under
            `io.mutex()`, never changed.
    """

    __slots__ = ("_session", "_told", "_watched", "listeners", "max_queue")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.max_queue: int = session.settings.limits.max_queue
        self.listeners: list[Callable[[str, dict[str, Any] | None, Link], None]] = []
        self._watched: Any = None
        self._told = _NOTHING

    # What transports call

    def notification(self, message: dict[str, Any], link: Link, lane: Hashable = None) -> None:
        """Take note of a notification.

        Args:
            message: As decoded.
            link: What was agreed with the server that sent it.
            lane: Names the stream it came on; None: the only one of the link.
        """
        method, params = message["method"], message.get("params")
        if type(method) is not str:
            _log.debug("a notification without a method was dropped")
            return
        if type(params) is not dict:
            params = None
        caching = self._session.peer.caching
        if caching is not None:
            caching.heard(self._session, method, params)
        for listener in self.listeners:
            listener(method, params, link)
        if method == _CANCELLED:
            self._cancelled(params, link)
            return
        handlers = self._session.settings.handlers
        handler = handlers.on_log if method == _LOG else handlers.on_notification
        if handler is None:
            _log.debug("a notification that no handler listens to was dropped")
            return
        self._session.peer.reception().notify(method, params, self._session, link, lane)

    def _cancelled(self, params: dict[str, Any] | None, link: Link) -> None:
        if link.era.answers_requests and params is not None:
            self._session.peer.reception().cancel(link, params.get("requestId"))

    def request(
        self, message: dict[str, Any], link: Link, lane: Hashable = None, deadline: float | None = None
    ) -> None:
        """Answer a request of the server's, in the background.

        Only the handshake era allows them; in the stateless one they are a violation of the protocol (2026-07-28,
        Streamable HTTP, Receiving Messages) and go unanswered.

        Args:
            message: As decoded.
            link: What was agreed with the server that sent it.
            lane: Names the stream it came on.
            deadline: When the call ends on whose stream it came, if it came on one.
        """
        if not link.era.answers_requests:
            self._forbidden(message["method"], link)
            return
        request_id = message.get("id")
        if type(request_id) not in (int, str):
            _log.warning("a request of the server's that cannot be answered was dropped")
            return
        reception = self._session.peer.reception()
        if message["method"] == "ping":
            from .replies import result_reply

            reception.replies.post(result_reply(request_id, {}), self._session, link)
        else:
            reception.ask(message, self._session, link, deadline if deadline != float("inf") else None)

    def _forbidden(self, method: object, link: Link) -> None:
        """Say once for each kind that the server sent a request which it must not send."""
        kind = method if type(method) is str and method in _REQUESTS else "of an unknown kind"
        with self._session.io.mutex():
            known = kind in self._told
            self._told |= {kind}
        if not known:
            _log.warning(
                "%s: the server sent a request (%s), which revision %s forbids: not answered, nor said again",
                self._session.label,
                kind,
                link.era.revision,
            )

    def drop(self, link: Link) -> None:
        """The link is gone: what the server asked under it is given up, and never answered. Not under the mutex."""
        reception = self._session.peer.known_reception
        if reception is not None:
            reception.drop(link)

    # Progress of a call that came on another stream than its own

    def watch(self, call: SpecialCall) -> None:
        """Remember a call whose progress somebody wants, for as long as it lives."""
        with self._session.io.mutex():
            if self._watched is None:
                from weakref import WeakValueDictionary

                self._watched = WeakValueDictionary()
            self._watched[call.id] = call

    def late_progress(self, params: object, link: Link) -> None:
        """Give progress to the call it names, wherever that call waits; unknown tokens are dropped."""
        token = progress_token(params)
        if self._watched is None or type(token) is not int:
            return
        with self._session.io.mutex():
            call = self._watched.get(token)
        if call is not None and call.slot is not None:
            post_progress(call, call.slot, params, self.max_queue)
