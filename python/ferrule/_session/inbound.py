"""Messages from the server that answer no call: its notifications, and its requests (handshake era).

Knows what each of them is answered with; never waits, so that a reader may call it.
"""

from __future__ import annotations

from .. import _log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._transports.call import Link
    from .session import Session

_METHOD_NOT_FOUND = -32601


class Inbound:
    """Where a session's transport leaves what nobody waits for."""

    __slots__ = ("_session", "max_queue")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.max_queue: int = session.settings.limits.max_queue

    def notification(self, message: dict[str, Any]) -> None:
        """Take note of a notification that no feature of the client listens to."""
        _log.debug("a notification that nobody listens to was dropped")

    def request(self, message: dict[str, Any], link: Link) -> None:
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
