"""Which HTTP headers the client owns and which ones a user may add.

Knows names only; how values are encoded is the core's business.
"""

from __future__ import annotations

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_OWNED = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "last-event-id",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OWNED_PREFIX = "mcp-"

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def user_headers(
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None,
) -> tuple[tuple[str, str], ...]:
    """The user's own headers, checked once where they are given.

    Raises:
        ConfigError: A name is no token or belongs to the client, or a value holds a control
            character. The text never holds the value.
    """
    if not headers:
        return ()
    pairs = headers.items() if hasattr(headers, "items") else headers
    return tuple(_checked(name, value) for name, value in pairs)


def _checked(name: object, value: object) -> tuple[str, str]:
    if not isinstance(name, str) or not isinstance(value, str):
        raise ConfigError("headers: names and values must be str")
    if not is_token(name):
        raise ConfigError("headers: a name may hold letters, digits and !#$%&'*+-.^_`|~ only")
    if owned(name):
        raise ConfigError(f"headers: {name} is set by the client and cannot be overridden")
    if not all(character == "\t" or " " <= character <= "\xff" for character in value):
        raise ConfigError(f"headers: the value of {name} holds a character no header may carry")
    if "\x7f" in value:
        raise ConfigError(f"headers: the value of {name} holds a control character")
    return name, value


def is_token(text: str) -> bool:
    """May the text be the name of a header (RFC 9110, section 5.6.2)?"""
    return bool(text) and _TOKEN.issuperset(text)


def owned(name: str) -> bool:
    """Does the client alone set this header?"""
    lowered = name.lower()
    return lowered in _OWNED or lowered.startswith(_OWNED_PREFIX)
