"""Credentials that never change, and tokens that somebody else looks after.

Knows how they stand in a header (RFC 6750, section 2.1; RFC 7617); fetches nothing.
"""

from __future__ import annotations

from ..errors import ConfigError
from .interface import Auth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, NoReturn

    from .interface import AuthContext, AuthRequest


class _Fixed(Auth):
    """One header, always the same."""

    __slots__ = ("_headers",)

    _headers: list[tuple[str, str]]

    def headers(self, request: AuthRequest) -> list[tuple[str, str]]:
        """The header."""
        return self._headers

    def partition(self) -> bytes:
        """A digest of the header."""
        return digest(self._headers[0][1])

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not pickled, it is a secret")


class BearerAuth(_Fixed):
    """A token that the user has: what `auth="token"` means.

    Args:
        token: Printable ASCII.

    Raises:
        ConfigError: It cannot stand in a header.
    """

    __slots__ = ()

    def __init__(self, token: str) -> None:
        self._headers = [("Authorization", f"Bearer {checked(token, 'BearerAuth')}")]


class BasicAuth(_Fixed):
    """A user and a password (RFC 7617).

    Args:
        user: Without colon.
        password: Both may hold any character but control characters; they are sent as UTF-8.

    Raises:
        ConfigError: They cannot be sent.
    """

    __slots__ = ()

    def __init__(self, user: str, password: str) -> None:
        if not isinstance(user, str) or not isinstance(password, str):
            raise ConfigError("BasicAuth: user and password must be str")
        if ":" in user or any(ch < " " or ch == "\x7f" for ch in user + password):
            raise ConfigError("BasicAuth: a user has no colon, and neither has a control character")
        from binascii import b2a_base64

        value = b2a_base64(f"{user}:{password}".encode(), newline=False).decode()
        self._headers = [("Authorization", f"Basic {value}")]


class AsyncTokens(Auth):
    """Tokens from an async function, asked for each request: what `auth=function` means to `AsyncClient`."""

    __slots__ = ("_function", "_io")

    def __init__(self, function: Callable[[], Awaitable[str]], io: Any = None) -> None:
        self._function = function
        self._io = io

    def bind(self, context: AuthContext) -> AsyncTokens:
        """One that knows how to wait."""
        return AsyncTokens(self._function, context.io)

    def headers(self, request: AuthRequest) -> None:
        """Nothing: the function has to be awaited each time."""
        return

    async def prepare(self, request: AuthRequest, deadline: float) -> list[tuple[str, str]]:
        """The header with the token for this request."""
        token = await self._io.call(self._function)
        return [("Authorization", f"Bearer {checked(token, 'the function given as auth')}")]


def checked(token: object, what: str) -> str:
    """A token that a header can carry.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{what}: the token must be printable ASCII text")
    return token


def digest(secret: str) -> bytes:
    """What tells secrets apart without telling them."""
    from hashlib import sha256

    return sha256(secret.encode()).digest()
