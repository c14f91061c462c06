"""What a transport promises, as types. Never imported at run time."""

from __future__ import annotations

from typing import Any, Protocol

from .._core import RequestTemplate
from .._http.redirects import Trail
from .._protocol.era import Era
from .call import Call, Inbound, Link


class Way(Protocol):
    """A listen request that was sent, on whatever transport."""

    async def wait(self, slot: Any, deadline: float, /) -> None:
        """Wait until the slot has mail or is done. Raises Expired at the deadline."""

    async def answer(self, transport: Any, trail: Trail, /) -> dict[str, Any]:
        """What ended it, once its slot is done: the JSON-RPC answer. Raises what went wrong, or Moved."""

    def leave(self) -> None:
        """Give it up; the server is told if it has not ended it itself. Never waits; idempotent."""

    async def close(self, deadline: float, /) -> None:
        """As `leave`, and see the server told. Never raises."""


class Transport(Protocol):
    """Carries messages between one client and one server.

    Attributes:
        label: The server as texts name it: no credentials, no query.
        http: Do messages travel over HTTP?
        listens: Can a stream be opened for what the server sends unasked, and another one resumed?
        sends_credential: Do requests carry authorization?
        process: Which child, or stream of the old HTTP transport, is there, counted from 1; 0 where there is none.
        inbound: Whom to tell of messages that answer no call.
    """

    label: str
    http: bool
    listens: bool
    sends_credential: bool
    process: int
    inbound: Inbound

    def view(self, headers: tuple[tuple[str, str], ...], auth: Any) -> Transport:
        """The same way to the server under other headers; itself where there are no headers."""

    def endpoint(self) -> bytes | None:
        """What tells the server from every other; None where only this client reaches it."""

    def caller(self) -> tuple[bytes, bool] | None:
        """All by which the server can tell who asks; None where it may differ from request to request.

        The flag: False if there is more, of which is known only that it stays the same for this client.
        """

    def wire(self, era: Era | None, session_id: str | None) -> RequestTemplate | None:
        """The unchanging part of each request under this era and session; None over stdio."""

    async def start(self, deadline: float) -> None:
        """Have a child running (stdio), or a stream open (HTTP+SSE); nothing over Streamable HTTP."""

    def attend(self, link: Link) -> None:
        """Have what the server sends read also while no call waits, where nobody would (stdio)."""

    async def request(self, call: Call, link: Link) -> dict[str, Any]:
        """Carry one request to its answer.

        Returns:
            The decoded JSON-RPC message that answers it, a result or an error, not judged further.

        Raises:
            Expired: At `call.deadline`.
            LinkLost: The link's session is gone and nothing was sent.
            FerruleError: The answer did not come; `request_sent` says whether the request went out.
        """

    async def wait(self, slot: Any, link: Link, deadline: float) -> None:
        """Wait for what a notification puts into the slot; blocking, on stdio: by reading what the child writes.

        Raises:
            Expired: At the deadline.
            LinkLost: The child of this link is gone. (Over HTTP nothing tells.)
        """

    def poll(self) -> None:
        """Hear what has arrived already. Only on stdio, blocking, is there something to do: nobody else may read."""

    async def notify(self, method: str, params: bytes | None, link: Link, deadline: float) -> None:
        """Send a notification and see it accepted.

        Raises:
            Expired: At the deadline; `Unsent` if nothing of it went out.
            LinkLost: The link's session is gone and nothing was sent.
            FerruleError: It was not accepted, or could not be sent.
        """

    async def reply(self, message: dict[str, Any], link: Link, deadline: float) -> None:
        """Send the answer to a request of the server's."""

    async def end_session(self, link: Link, deadline: float) -> None:
        """Tell the server that the session is over (DELETE); whatever it says is fine."""

    async def close(self, deadline: float) -> None:
        """Close everything; calls under way fail with ConnectionClosed."""

    def abandon(self) -> None:
        """After fork: drop everything inherited without a word on the wire."""
