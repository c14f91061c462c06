"""What a handler is told beside the request: who asks, and for how long."""

from __future__ import annotations


class Context:
    """The circumstances of one request or notification of a server's. Made by the client; only `cancelled` changes.

    Attributes:
        server: The server that asks: its URL without credentials and query, or its command.
        server_name: What the server calls itself, verified by nobody; None if it does not say. Show `server` with it.
        method: Such as `elicitation/create`.
        deadline: When the call ends during which the server asked, on the clock of `time.monotonic`; None when there
            is none, or it is not known for which call the server asks.
        era: "handshake" or "stateless".
        protocol_version: The revision spoken.
        round: Which round of a call the server asks in, counted from 1 (2026-07-28, basic/patterns/mrtr); None for a
            request or notification that came by itself.
        task_id: The task that a request belongs to, or None (2025-11-25, basic/utilities/tasks; extensions/tasks).
        cancelled: Nobody waits for the answer any more: the server withdrew its request, its session ended or the
            client is being closed. A coroutine is cancelled then; a plain function that takes long may look here.
    """

    __slots__ = (
        "cancelled",
        "deadline",
        "era",
        "method",
        "protocol_version",
        "round",
        "server",
        "server_name",
        "task_id",
    )

    def __init__(
        self,
        *,
        server: str,
        method: str,
        era: str,
        protocol_version: str,
        server_name: str | None = None,
        deadline: float | None = None,
        task_id: str | None = None,
        round: int | None = None,
    ) -> None:
        self.server = server
        self.server_name = server_name
        self.method = method
        self.deadline = deadline
        self.era = era
        self.protocol_version = protocol_version
        self.task_id = task_id
        self.round = round
        self.cancelled = False

    def __repr__(self) -> str:
        # Without the method: that of a notification is whatever the server wrote.
        return f"<Context of {self.server}>"
