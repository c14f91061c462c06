"""Messages from the server that answer no call: its notifications, and its requests (handshake era).

Knows what each of them is answered with; never waits, so that a reader may call it.
"""

from __future__ import annotations

from .. import _log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from .._transports.call import Link
    from .session import Session

_METHOD_NOT_FOUND = -32601


class Inbound:
    """Where a session's transport leaves what nobody waits for."""

    __slots__ = ("_session", "listeners", "max_queue")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.max_queue: int = session.settings.limits.max_queue
        self.listeners: list[Callable[[str, dict[str, Any] | None, Link], None]] = []

    def notification(self, message: dict[str, Any], link: Link, lane: Hashable = None) -> None:
        """Hand a notification to the features of the client that listen."""
        method, params = message["method"], message.get("params")
        if type(method) is str and (params is None or type(params) is dict):
            for listener in self.listeners:
                listener(method, params, link)

    def late_progress(self, params: Any, link: Link) -> None:
        """Take progress that came on another stream than its call's own."""
        _log.debug("progress of a call that is over was dropped")

    def drop(self, link: Link) -> None:
        """The link is gone: what its server asked is not answered any more."""

    def request(
        self, message: dict[str, Any], link: Link, lane: Hashable = None, deadline: float | None = None
    ) -> None:
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
