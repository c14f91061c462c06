"""How a client ends: its streams, the sessions it has at the server, then everything else, in bounded time.

Knows the order; how each of them ends is its own business.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._transports.call import Link
    from .session import Session

_FAREWELLS = 16
"""Sessions that are ended at once: each may take a thread and a connection."""


async def close(session: Session) -> None:
    """End a view's session; of the client's own view, everything. See `Session.close`."""
    session.enter()
    peer = session.peer
    deadline = peer.io.now() + peer.settings.limits.close_timeout
    if session.standing is not None:
        session.standing.end(session)
    reception = peer.known_reception
    if session.root is not None:
        if reception is not None:
            reception.leave(session)
        link = session.link
        if link is not None and (link in peer.sessions or session.listener is not None):
            await session.disconnect(link, deadline)
        return
    with peer.io.mutex():
        already = peer.closed
        peer.closed = True
        sessions = iter(list(peer.sessions.items()))
        lanes = min(len(peer.sessions), _FAREWELLS)
        peer.sessions.clear()
        listeners = list(peer.listeners or ())
    if already:
        return
    if reception is not None:
        reception.close(deadline)
    try:
        for listener in listeners:
            listener.stop()
        # The rest of the time belongs to the transport: a server that ignores DELETE may not use it up.
        farewell = peer.io.now() + peer.settings.limits.close_timeout / 2
        await peer.io.fan_out(*(_disconnect_all(sessions, farewell) for _ in range(lanes)))
        await peer.transport.close(deadline)
    except BaseException:
        deadline = peer.io.now()  # whoever closes is in a hurry
        raise
    finally:
        await peer.io.close(deadline)


async def _disconnect_all(sessions: Iterator[tuple[Link, Session]], deadline: float) -> None:
    """End one session after another until none is left; several do so at once."""
    for link, session in sessions:
        if session.io.now() < deadline:
            await session.disconnect(link, deadline)
