"""What a transport is given: the call to carry, and the link it travels under.

Values with no behaviour; nothing here knows how bytes move.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable
    from typing import Any, Protocol

    from .._core import RequestTemplate, ResponseHead
    from .._io.interface import Slot
    from .._protocol.era import Era
    from .._protocol.methods import Method
    from .streams import Awaited

    class Inbound(Protocol):
        """Whom a transport tells of messages that answer no call. Must neither raise nor wait.

        Attributes:
            max_queue: How many notifications may wait for one slow handler.
        """

        max_queue: int

        def notification(self, message: dict[str, Any], link: Link, lane: Hashable = None, /) -> None: ...
        def request(
            self, message: dict[str, Any], link: Link, lane: Hashable = None, deadline: float | None = None, /
        ) -> None: ...
        def late_progress(self, params: Any, link: Link, /) -> None: ...
        def drop(self, link: Link, /) -> None: ...

    class Movable(Protocol):
        """What keeps account of who asks, and whom."""

        def moved(self) -> None: ...


UNREADY: list[tuple[str, str]] = []
"""By identity: the headers of a request, where they cannot be had without waiting."""


class LinkLost(Exception):
    """The link belongs to a child or stream that is gone; nothing was sent. Internal: a new link is opened."""


class Link:
    """What was agreed with the server: the era, the session, and how requests look from now on.

    Attributes:
        era: The era at the agreed revision.
        session_id: What the server named this session, or None. Never shown.
        wire: The unchanging part of each HTTP request, None over stdio.
        process: Which child or stream this was agreed with, counted from 1; 0 over Streamable HTTP.
        proven: Has a result come under it?
        capabilities: What the server declared, None while unknown.
        server_info: The server's own name and version, None while unknown.
        instructions: The server's advice for language models, or None.
        awaited: The calls whose answer may come on any stream of the session, None where streams are not resumed.
    """

    __slots__ = (
        "awaited",
        "capabilities",
        "era",
        "instructions",
        "process",
        "proven",
        "server_info",
        "session_id",
        "wire",
    )

    def __init__(
        self,
        era: Era,
        *,
        session_id: str | None = None,
        wire: RequestTemplate | None = None,
        process: int = 0,
    ) -> None:
        self.era = era
        self.session_id = session_id
        self.wire = wire
        self.process = process
        self.proven = False
        self.capabilities: dict[str, Any] | None = None
        self.server_info: dict[str, Any] | None = None
        self.instructions: str | None = None
        self.awaited: Awaited | None = None

    def __repr__(self) -> str:
        return f"<Link {self.era.name} {self.era.revision}>"


class Call:
    """One attempt of one request: what goes out, and what its transport learns on the way.

    Attributes:
        id: The JSON-RPC id, never used again.
        method: The method's row.
        name: What `Mcp-Name` mirrors, if the method has such a parameter.
        params: The serialised parameters without `_meta`, or None.
        meta: Serialised members of `_meta` besides the envelope's, or None.
        deadline: When to give up, on the IO's clock; may move while progress arrives.
        deliver: Runs the caller's progress handler on a list of `params`; None when nobody listens. This and all below
            it are only ever set on a `SpecialCall`.
        overrun: Was progress dropped because the handler is too slow?
        headers: Names and values of headers for this request alone, as they go out; None over other transports.
        envelope: The serialised envelope in place of the era's, None for that.
        accepts: The values of `resultType` that are an answer to this call, besides "complete".
        special: Whom a transport tells that the call is about to go out with other credentials or cookies, or to
            another place, than when it was made; None when nobody wants to know.
        bypass: Not counted against `Limits.max_connections`.
        sent: May the server have seen it? Set before the first write.
        head: The head of the HTTP answer, once there is one.
    """

    __slots__ = (
        "bypass",
        "deadline",
        "head",
        "id",
        "meta",
        "method",
        "name",
        "params",
        "sent",
    )

    # No slots here: most calls need none of them.
    deliver: Callable[[list[Any]], Awaitable[None]] | None = None
    overrun: bool = False
    headers: list[tuple[str, str]] | None = None
    envelope: bytes | None = None
    accepts: frozenset[str] = frozenset()
    special: Movable | None = None

    def __init__(
        self,
        id: int,
        method: Method,
        name: str | None,
        params: bytes | None,
        meta: bytes | None,
        deadline: float,
        bypass: bool = False,
    ) -> None:
        self.id = id
        self.method = method
        self.name = name
        self.params = params
        self.meta = meta
        self.deadline = deadline
        self.bypass = bypass
        self.sent = False
        self.head: ResponseHead | None = None

    def __repr__(self) -> str:
        return f"<Call {self.method.name} id={self.id}>"


class SpecialCall(Call):
    """A call with something of its own: its progress is wanted, or it carries headers or an envelope nobody shares.

    Attributes:
        slot: What the call waits on, once it is under way; progress may come on another stream than the call's own.
    """

    __slots__ = ("__weakref__", "accepts", "deliver", "envelope", "headers", "overrun", "slot", "special")

    slot: Slot | None

    def __init__(
        self,
        id: int,
        method: Method,
        name: str | None,
        params: bytes | None,
        meta: bytes | None,
        deadline: float,
    ) -> None:
        super().__init__(id, method, name, params, meta, deadline)
        self.deliver = None
        self.overrun = False
        self.headers = None
        self.envelope = None
        self.accepts = Call.accepts
        self.special = None
        self.slot = None
