"""Roots: where on the client's machine a server may work."""

from __future__ import annotations

from ..errors import ConfigError, InvalidResult
from ._base import Value, fields, optional, required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Root(Value):
    """A directory or file that the server may work in.

    Attributes:
        uri: A `file://` URI.
        name: What people call it.
    """

    __slots__ = fields(uri=required(str), name=optional(str))
    if TYPE_CHECKING:
        uri: str
        name: str | None = None

    @classmethod
    def of(cls, given: Any) -> Root:
        """A root from a URI, a mapping in the schema's shape, or a `Root`.

        Raises:
            ConfigError: It has no `file://` URI, or one that leads out of where it seems to lead. The text does
                not hold it.
        """
        try:
            if isinstance(given, str):
                given = cls(given)
            elif hasattr(given, "items"):
                given = cls.from_wire(dict(given))
        except InvalidResult as error:
            raise ConfigError(f"roots: {error.problem}") from None
        if not isinstance(given, cls) or not _is_file_uri(given.uri) or not isinstance(given.name, (str, type(None))):
            raise ConfigError("roots: expected file:// URIs, as str or Root; `Path.as_uri()` makes one")
        return given


class ListRootsResult(Value):
    """What `roots/list` is answered with, or a server's request for roots in a round."""

    __slots__ = fields(roots=required([Root]))
    if TYPE_CHECKING:
        roots: tuple[Root, ...]


def _is_file_uri(uri: object) -> bool:
    """May a server be given this as a root (client/roots, Security Considerations: no path traversal)?"""
    if not isinstance(uri, str) or uri[:7].lower() != "file://" or not uri.isascii() or not uri.isprintable():
        return False
    path = uri[7:].lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace("\\", "/")
    return " " not in uri and ".." not in path.split("/")
