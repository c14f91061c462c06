"""Messages from the server that answer no call: its notifications, and its requests (handshake era).

Knows what each of them is answered with; never waits, so that a reader may call it.
"""

from __future__ import annotations

from .. import _log
from .._transports.messages import post_progress, progress_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from .._transports.call import Link, WatchedCall
    from .session import Session

    Listener = Callable[[str, dict[str, Any] | None, Link], None]

_METHOD_NOT_FOUND = -32601


class Inbound:
    """Where a session's transport leaves what nobody waits for."""

    __slots__ = ("_session", "_watched", "listeners", "max_queue")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.max_queue: int = session.settings.limits.max_queue
        self.listeners: list[Listener] = []
        """Features that hear every notification at once; replaced under the mutex, never changed in place."""
        self._watched: Any = None

    def notification(self, message: dict[str, Any], link: Link, lane: Hashable = None) -> None:
        """Tell the features that listen."""
        params = message.get("params")
        for listener in self.listeners:
            listener(message["method"], params if type(params) is dict else None, link)

    def watch(self, call: WatchedCall) -> None:
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

    def drop(self, link: Link) -> None:
        """The link is gone."""

    def request(self, message: dict[str, Any], link: Link, lane: Hashable = None) -> None:
        """Answer a request of the server's, in the background.

        Only the handshake era allows them; in the stateless one they are a violation of the
        protocol (2026-07-28, Streamable HTTP, Receiving Messages) and go unanswered.
        """
        if not link.era.answers_requests:
            _log.warning("the server sent a request, which revision %s forbids", link.era.revision)
            return
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        if message["method"] == "ping":
            reply["result"] = {}
        else:
            reply["error"] = {"code": _METHOD_NOT_FOUND, "message": "Method not found"}
        self._session.reply_in_background(reply, link)
