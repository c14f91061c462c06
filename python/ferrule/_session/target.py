"""From what the user names as a server to the transport that reaches it.

Knows which kinds of target there are; what a transport does with it is its own business.
"""

from __future__ import annotations

import weakref

from .._http.pool import Pool
from .._http.proxy import proxy_for
from .._http.url import parse_url
from .._transports.http_requests import Place
from .._transports.streamable_http import StreamableHTTP
from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._http.endpoints import Tcp, Unix
    from .._http.tls import Tls
    from .._http.url import Url
    from .._io.interface import IO
    from .._transports.byte_stream import ByteStream
    from .._transports.command import Stdio
    from .._transports.interface import Transport
    from ..limits import Limits

    Target = str | Stdio | Tcp | Unix | ByteStream


def transport_maker(target: Target, tls: Tls, proxy: str | None, limits: Limits) -> Callable[[IO], Transport]:
    """A function that makes the target's transport, checked now and called now and after a fork.

    Raises:
        ConfigError: The target is none, or its URL cannot be used.
    """
    if isinstance(target, str):
        return _http_maker(parse_url(target), None, tls, proxy, limits)
    return _other_maker(target, tls, proxy, limits)


def _other_maker(target: object, tls: Tls, proxy: str | None, limits: Limits) -> Callable[[IO], Transport]:
    """For a target that has a class: a client of a URL need not load those."""
    from .._http.endpoints import Tcp, Unix
    from .._transports.command import Stdio

    if isinstance(target, Stdio):
        if tls is not None:
            raise ConfigError("tls= has no meaning for a server on stdio")
        if proxy is not None:
            raise ConfigError("proxy= has no meaning for a server on stdio")
        from .._transports.stdio import StdioTransport

        return lambda io: StdioTransport(io, target, limits)
    if isinstance(target, (Tcp, Unix)):
        if proxy:
            raise ConfigError("proxy= has no meaning for a server that is reached at an address of its own")
        return _http_maker(target.url, target, tls, "", limits)
    return _stream_maker(target, tls, proxy, limits)


def _http_maker(
    url: Url, endpoint: Tcp | Unix | None, tls: Tls, proxy: str | None, limits: Limits
) -> Callable[[IO], Transport]:
    if proxy is not None and not isinstance(proxy, str):
        raise ConfigError("proxy: expected a URL, or an empty string for no proxy")
    through = proxy_for(url, proxy)

    def make(io: IO) -> Transport:
        pool = Pool(io, url, limits=limits, tls=tls, endpoint=endpoint, proxy=through)
        place = Place(url, (tls, proxy, endpoint))
        # Views share the place; when it goes nobody can use, or close, the connections any more.
        weakref.finalize(place, io.let_go, pool.shut)
        return StreamableHTTP(io, pool, place, limits)

    return make


def _stream_maker(target: object, tls: Tls, proxy: str | None, limits: Limits) -> Callable[[IO], Transport]:
    from .._transports.byte_stream import ByteStream, StreamTransport

    if not isinstance(target, ByteStream):
        raise ConfigError("target: expected a URL, Stdio(...), Tcp(...), Unix(...) or ByteStream(...)")
    if tls is not None or proxy is not None:
        raise ConfigError("tls= and proxy= have no meaning for a byte stream")
    return lambda io: StreamTransport(io, target, limits)
