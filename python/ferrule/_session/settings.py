"""What a client was asked to be: checked once, never changed.

Knows the constructor's arguments and their defaults; nothing of how they are used.
"""

from __future__ import annotations

from .._protocol import versions
from .._protocol.headers import user_headers
from ..errors import ConfigError
from ..limits import Limits
from .retry import Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Any

    from ..auth.interface import Auth as AuthObject
    from ..types import Implementation
    from .cache import ResponseCache
    from .extensions import Extension
    from .handlers import Handlers

    Headers = Mapping[str, str] | Iterable[tuple[str, str]]
    Auth = str | Callable[[], str] | Callable[[], Awaitable[str]] | AuthObject
    RequestMeta = Mapping[str, Any] | Callable[[], Mapping[str, Any] | None]

DEFAULT_TIMEOUT = 30.0

_EVER = float("inf")
_STORE = ("get", "put", "delete")
_PINS = ("auto", "handshake", "stateless", *versions.KNOWN)


class Unset:
    """The type of `UNSET`: an argument that was not given, where None has a meaning."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET = Unset()


class ViewSettings:
    """What one end user's view of a client may set for itself: see `with_options`."""

    __slots__ = ("auth", "headers", "request_meta", "timeout")

    def __init__(
        self,
        *,
        headers: Headers | None,
        auth: Auth | None,
        timeout: float | None,
        request_meta: RequestMeta | None,
    ) -> None:
        self.headers = user_headers(headers)
        self.auth = auth
        self.timeout = check_timeout(timeout)
        self.request_meta = request_meta
        self._check_auth()

    def _check_auth(self) -> None:
        if self.auth is None:
            return
        if not isinstance(self.auth, str) and not callable(self.auth) and not hasattr(self.auth, "react"):
            raise ConfigError("auth: expected a token (str), a function that returns one, or an Auth")
        if any(name.lower() == "authorization" for name, _ in self.headers):
            raise ConfigError("auth: an Authorization header was given too; give one of them")

    def changed(
        self,
        headers: Headers | Unset | None,
        auth: Auth | Unset | None,
        timeout: float | Unset | None,
        request_meta: RequestMeta | Unset | None,
    ) -> ViewSettings:
        """A copy with what was given in place of what stood there."""
        return ViewSettings(
            headers=self.headers if isinstance(headers, Unset) else headers,
            auth=self.auth if isinstance(auth, Unset) else auth,
            timeout=self.timeout if isinstance(timeout, Unset) else timeout,
            request_meta=(self.request_meta if isinstance(request_meta, Unset) else request_meta),
        )


class Settings:
    """What all views of a client share."""

    __slots__ = (
        "cache",
        "capabilities",
        "client_info",
        "extensions",
        "handlers",
        "keep_lists",
        "limits",
        "listen",
        "log_level",
        "prior",
        "protocol",
        "retry",
        "stale_if_error",
        "validate_output",
    )

    def __init__(
        self,
        *,
        protocol: str,
        retry: Retry,
        limits: Limits,
        client_info: Implementation | Mapping[str, Any] | None,
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
    ) -> None:
        if protocol not in _PINS:
            raise ConfigError(f"protocol: expected one of {', '.join(_PINS)}")
        if validate_output not in ("off", "warn", "strict"):
            raise ConfigError('validate_output: expected "off", "warn" or "strict"')
        if validate_output != "off":
            from .output_schemas import check_installed

            check_installed()
        if not (cache is None or isinstance(cache, Unset) or all(hasattr(cache, one) for one in _STORE)):
            raise ConfigError("cache: expected a store with get, put and delete (see ResponseCache), or None for none")
        if (
            isinstance(stale_if_error, bool)
            or not isinstance(stale_if_error, (int, float))
            or not 0 <= stale_if_error < _EVER
        ):
            raise ConfigError("stale_if_error: expected a number of seconds, 0 for not at all")
        if capabilities is not None and not hasattr(capabilities, "items"):
            raise ConfigError("capabilities: expected a mapping")
        self.protocol = protocol
        self.retry = retry
        self.limits = limits
        self.client_info = _info(client_info)
        self.handlers = handlers
        self.listen = listen
        self.keep_lists = keep_lists
        self.cache = cache
        self.stale_if_error = stale_if_error
        self.validate_output = validate_output
        self.extensions: tuple[Extension, ...] = ()
        self.capabilities = dict(capabilities or {})
        if extensions:
            from .extensions import checked, declared

            self.extensions = checked(extensions)
            self.capabilities = declared(self.capabilities, self.extensions)
        self.log_level = log_level
        self.prior = prior


def check_timeout(timeout: float | None) -> float | None:
    """A timeout in seconds, or None for no limit.

    Raises:
        ConfigError: It is not a positive number.
    """
    if timeout is None:
        return None
    if not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or not timeout > 0:
        raise ConfigError("timeout: expected a positive number of seconds, or None for no limit")
    return float(timeout)


def _info(given: Implementation | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    wire = given.to_wire() if hasattr(given, "to_wire") else dict(given)
    if not isinstance(wire.get("name"), str) or not isinstance(wire.get("version"), str):
        raise ConfigError("client_info: name and version are needed, as str")
    return wire
