"""A token as a value: what a token endpoint gave, for whom it is, and how long it lasts.

Knows RFC 6749, section 5.1. Knows no endpoint and no clock; times are seconds since 1970, as `IO.wall` has them.
Nothing here shows a token: `repr` tells its type and age, and pickling is refused.
"""

from __future__ import annotations

from .._value import Frozen
from .steps import TOKEN, refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

_TYPES = ("bearer", "dpop")
_LONGEST_LIFE = 10 * 365 * 86400.0
_OPTIONAL = ("refresh_token", "scope", "issuer", "resource")


class Token(Frozen):
    """What authorizes requests to one server.

    Attributes:
        access_token: The secret itself.
        token_type: "bearer" or "dpop".
        expires_at: When it ends, in seconds since 1970; None if nobody said.
        refresh_token: What a new one is had by, or None.
        scope: The scopes that were granted, separated by spaces; None if nobody said.
        issuer: The authorization server it came from.
        resource: What it was asked for (RFC 8707), or None.
    """

    __slots__ = ("access_token", "expires_at", "issuer", "refresh_token", "resource", "scope", "token_type")

    access_token: str
    token_type: str
    expires_at: float | None
    refresh_token: str | None
    scope: str | None
    issuer: str | None
    resource: str | None

    def __init__(
        self,
        access_token: str,
        token_type: str = "bearer",
        expires_at: float | None = None,
        refresh_token: str | None = None,
        scope: str | None = None,
        issuer: str | None = None,
        resource: str | None = None,
    ) -> None:
        self._set("access_token", access_token)
        self._set("token_type", token_type)
        self._set("expires_at", expires_at)
        self._set("refresh_token", refresh_token)
        self._set("scope", scope)
        self._set("issuer", issuer)
        self._set("resource", resource)

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes as a set."""
        return frozenset((self.scope or "").split())

    def lasts_until(self, when: float) -> bool:
        """Is it good until then, in seconds since 1970, as far as is known?"""
        return self.expires_at is None or when < self.expires_at

    def __repr__(self) -> str:
        ends = "no end known" if self.expires_at is None else f"until {self.expires_at:.0f}"
        refreshable = ", refreshable" if self.refresh_token else ""
        return f"<Token {self.token_type}, {len(self.access_token)} characters, {ends}{refreshable}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Token is not pickled, it is a secret: export() is for stores")

    def export(self) -> dict[str, Any]:
        """As plain JSON data with its secrets, for a store to keep."""
        return self._state()

    @classmethod
    def imported(cls, data: Mapping[str, Any]) -> Token | None:
        """What `export` gave; None when it is something else, such as a file of another version."""
        token, kind, expires_at = data.get("access_token"), data.get("token_type"), data.get("expires_at")
        if not _is_sendable(token) or kind not in _TYPES:
            return None
        if expires_at is not None and (isinstance(expires_at, bool) or not isinstance(expires_at, (int, float))):
            return None
        rest = {name: data.get(name) for name in _OPTIONAL}
        if not all(value is None or isinstance(value, str) for value in rest.values()):
            return None
        return cls(str(token), kind, expires_at, **rest)

    @classmethod
    def from_response(
        cls,
        said: Mapping[str, Any],
        *,
        now: float,
        url: str,
        issuer: str | None = None,
        resource: str | None = None,
        asked: str | None = None,
        earlier: Token | None = None,
    ) -> Token:
        """The token in a successful answer of a token endpoint.

        Args:
            said: The answer's members.
            now: Seconds since 1970 when the request was sent: a lifetime counts from then.
            url: The endpoint, for errors.
            issuer: Whose it is.
            resource: What it was asked for.
            asked: The scopes that were asked for: what is granted if the answer names none (section 5.1).
            earlier: What was refreshed: its refresh token stays good unless there is a new one (section 6).

        Raises:
            AuthTokenError: It holds no token, one of an unknown type, or one that no header can carry.
        """
        token, kind = said.get("access_token"), said.get("token_type")
        if not _is_sendable(token):
            raise refused(TOKEN, "the answer holds no usable access_token", url)
        # Some servers leave the type out, though it is required: a bearer token is what was meant.
        kind = "bearer" if kind is None else kind.lower() if isinstance(kind, str) else ""
        if kind not in _TYPES:
            raise refused(TOKEN, "the token is of a type that is not supported (token_type)", url)
        refresh, scope = said.get("refresh_token"), said.get("scope")
        if not is_vschar(refresh):
            refresh = earlier.refresh_token if earlier is not None else None
        if not is_vschar(scope):
            scope = asked if asked is not None or earlier is None else earlier.scope
        return cls(str(token), kind, _expiry(said.get("expires_in"), now), refresh, scope, issuer, resource)


def _is_sendable(token: object) -> bool:
    """Visible ASCII: what a header can carry after the scheme (RFC 6750, section 2.1)."""
    return isinstance(token, str) and bool(token) and token.isascii() and token.isprintable() and " " not in token


def is_vschar(text: object) -> bool:
    """Is it what ids, secrets, refresh tokens and lists of scopes are made of: ASCII that prints (appendix A)?

    Anything else cannot be what was meant, and some of it can be neither sent nor kept.
    """
    return isinstance(text, str) and bool(text) and text.isascii() and text.isprintable()


def _expiry(seconds: object, now: float) -> float | None:
    """When a token ends that lasts this long; None for what is no number of seconds."""
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit():
        seconds = int(seconds[:12])
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0:
        return None
    return now + min(seconds, _LONGEST_LIFE)  # as it is: an integer may be too large for a float
