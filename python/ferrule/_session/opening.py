"""From a client's constructor arguments to its session. Opens nothing: the first call does."""

from __future__ import annotations

from .. import _wire
from ..limits import Limits
from .peer import Peer
from .retry import Retry
from .session import new_view
from .settings import Settings, Unset, ViewSettings
from .target import transport_maker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .._http.tls import Tls
    from .._io.interface import IO
    from .._transports.interface import Transport
    from ..types import Implementation
    from .cache import ResponseCache
    from .extensions import Extension
    from .handlers import Handlers
    from .session import Session
    from .settings import Auth, Headers, RequestMeta
    from .target import Target


def new_session(
    make_io: Callable[[], IO],
    target: Target,
    *,
    protocol: str,
    timeout: float | None,
    retry: Retry | None,
    limits: Limits | None,
    headers: Headers | None,
    auth: Auth | None,
    tls: Tls,
    proxy: str | None,
    client_info: Implementation | Mapping[str, Any] | Unset | None,
    request_meta: RequestMeta | None,
    handlers: Handlers,
    listen: bool | None,
    keep_lists: bool,
    cache: ResponseCache | Unset | None,
    stale_if_error: float,
    extensions: Iterable[Extension],
    validate_output: str,
    capabilities: Mapping[str, Any] | None,
    log_level: str | None,
    prior: Mapping[str, Any] | None,
) -> Session:
    """A session that has not been opened.

    Raises:
        ConfigError: An argument cannot be meant like that.
    """
    if isinstance(client_info, Unset):
        client_info = {"name": "ferrule", "version": _wire.VERSION}
    settings = Settings(
        protocol=protocol,
        retry=retry or Retry(),
        limits=limits or Limits(),
        client_info=client_info,
        handlers=handlers,
        listen=listen,
        keep_lists=keep_lists,
        cache=cache,
        stale_if_error=stale_if_error,
        extensions=extensions,
        validate_output=validate_output,
        capabilities=capabilities,
        log_level=log_level,
        prior=prior,
    )
    view = ViewSettings(headers=headers, auth=auth, timeout=timeout, request_meta=request_meta)
    make_transport = transport_maker(target, tls, proxy, settings.limits)

    def make() -> tuple[IO, Transport]:
        io = make_io()
        return io, make_transport(io)

    return new_view(Peer(settings, make), view)
