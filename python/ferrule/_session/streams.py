"""The standalone stream of a session, and what is set up again in a session that replaces another.

Knows when both are wanted; how the stream is read is the transport's business.
"""

from __future__ import annotations

import contextlib

from .. import _log
from .._io import Expired
from .._transports.call import LinkLost
from ..errors import FerruleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .._io.interface import IO
    from .._transports.call import Link
    from .inbound import Inbound


class Streams:
    """The part of a session that listens."""

    __slots__ = ("_listening", "_renewed", "on_new_link")
    if TYPE_CHECKING:
        _link: Link | None
        inbound: Inbound
        transport: Any

        @property
        def io(self) -> IO: ...
        @property
        def settings(self) -> Any: ...

    def _begin_streams(self) -> None:
        self._renewed = False
        self._listening: Link | None = None
        self.on_new_link: list[Callable[[Link, float], Awaitable[None]]] = []

    @property
    def needs_stream(self) -> bool:
        """Could something use what the server sends unasked?"""
        return bool(self.settings.listen or (self.settings.listen is None and self.inbound.listeners))

    async def listen(self, deadline: float) -> None:
        """Have the standalone stream of the current link running."""
        link = self._link
        if link is None or not link.era.handshake or not self.transport.http or self._listening is link:
            return
        from .._transports.listening import GetExchange, hear

        self._listening = link
        exchange = GetExchange(self.io, link, self.inbound)
        data = self.transport._template("GET", link.era, link.session_id).bare(self.transport._fresh_headers())
        self.io.background(hear(self.transport, exchange, data, deadline))
        with contextlib.suppress(Expired):
            await self.io.wait(exchange.headers, deadline)

    async def _set_up(self, link: Link, deadline: float) -> None:
        """What a new link needs before it is used."""
        if self.needs_stream:
            await self.listen(deadline)
        if self._renewed:
            for renew in self.on_new_link:
                try:
                    await renew(link, deadline)
                except (FerruleError, LinkLost) as error:
                    _log.warning("a new session could not be set up in full: %s", type(error).__name__)
        self._renewed = True
