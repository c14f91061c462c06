"""The way to a server through a proxy: a connection of its own, on which CONNECT comes first where there is TLS.

Knows CONNECT (RFC 9110, section 9.3.6) and what a proxy may answer to it. Which proxy it is, `proxy` knows.
"""

from __future__ import annotations

from ..errors import ConnectError, HTTPStatusError
from .connection import Connection
from .endpoints import bracketed, dial, reason, server_name
from .exchange import NOBODY, Exchange
from .proxy import proxy_headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any

    from .._core import ResponseHead
    from .._io.interface import IO, Slot
    from ..errors import FerruleError
    from .pool import Pool
    from .url import Url

_UNANSWERED = "did not answer CONNECT as a proxy does"


class ProxiedConnection(Connection):
    """A connection through a proxy. It carries CONNECT before it belongs to anybody."""

    __slots__ = ("_is_tunnelling",)

    def __init__(self, pool: Pool, *, is_counted: bool) -> None:
        super().__init__(pool, is_counted=is_counted)
        self._is_tunnelling = False

    async def open(self, io: IO, url: Url, proxy: Url, context: ssl.SSLContext | None, deadline: float) -> None:
        """Open the stream: to the proxy, and with TLS through it to the server.

        Raises:
            ConnectError: There is no way through.
            HTTPStatusError: 407: the proxy wants other credentials.
            Expired: At the deadline.
        """
        where = f"{bracketed(url.host.partition('%')[0])}:{url.port}"
        try:
            self.attach(await dial(io, proxy, None, None, self, deadline))
        except ConnectError as error:
            raise ConnectError(f"{error} (the proxy for {where})") from error.__cause__
        if context is None:
            return
        await self._request_tunnel(io.slot(), where, proxy, deadline)
        stream = self.stream
        assert stream is not None
        try:
            await stream.start_tls(context, server_name(url), deadline)
        except (OSError, ValueError) as error:
            problem = reason(error, tls=True)
            raise ConnectError(f"cannot connect to {where} through the proxy at {proxy.origin}: {problem}") from error

    async def _request_tunnel(self, slot: Slot, where: str, proxy: Url, deadline: float) -> None:
        """Have the proxy connect to `where`."""
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
        lines += [f"{name}: {value}" for name, value in proxy_headers(proxy)]
        self.exchange = _Connect(slot)
        self._is_tunnelling = True
        self._decoder.begin(connect=True)
        try:
            request = ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
            self.stream.write_now(request, deadline)  # type: ignore[union-attr]  # it was attached
            await self.wait(slot, deadline)
            status = slot.result()
        except OSError as error:
            raise ConnectError(f"the proxy at {proxy.origin} for {where} is gone: {reason(error)}") from error
        if status is None:
            raise ConnectError(f"the proxy at {proxy.origin} for {where} {_UNANSWERED}")
        if status == 407:
            problem = f"the proxy at {proxy.origin} for {where} wants other credentials (HTTP 407)"
            raise HTTPStatusError(problem, status=407, request_sent=False)
        if not 200 <= status < 300:
            raise ConnectError(f"the proxy at {proxy.origin} refused to connect to {where} (HTTP {status})")
        self._is_tunnelling = False

    def finish(self, exchange: Exchange, is_reusable: bool) -> None:
        """As for any connection, but for the answer to CONNECT: what follows it belongs to whoever asked for that."""
        if not self._is_tunnelling:
            return super().finish(exchange, is_reusable)
        self.exchange = NOBODY
        if not is_reusable:  # it said more than it was asked, and TLS has not begun
            self.close()
        exchange.on_end()

    def _note(self, head: ResponseHead) -> None:
        if not self._is_tunnelling:  # else it is about the way to the proxy
            super()._note(head)

    def _pass_on_rare(self, frame: tuple[Any, ...]) -> bool:
        if not self._is_tunnelling:
            return super()._pass_on_rare(frame)
        self.close()  # it is no HTTP
        return False


class _Connect(Exchange):
    """Waits for the status of the proxy's answer; None: it was no answer."""

    __slots__ = ("_status",)

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self._status: int | None = None

    def on_head(self, head: ResponseHead) -> None:
        self._status = head.status
        if not 200 <= head.status < 300:
            self.slot.set(head.status)  # whatever its body says

    def on_end(self) -> None:
        self.slot.set(self._status)

    def on_failed(self, error: FerruleError) -> None:
        self.slot.set(None)
