"""What many results share: icons, annotations, who answered, and how long to keep it."""

from __future__ import annotations

from ._base import Value, Wrong, fields, hint, optional, required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import KW_ONLY
    from typing import Any

LARGEST_DATA = 64 * 1024 * 1024
"""Bytes of base64 data that are decoded unless the caller says otherwise."""


class Annotations(Value):
    """Hints on how to use a resource or a content block.

    Attributes:
        audience: Who it is meant for: `user`, `assistant`, or both.
        priority: How important it is, from 0 (optional) to 1 (required).
        last_modified: When the resource changed last, in ISO 8601.
    """

    __slots__ = fields(
        audience=optional([str], ()),
        priority=optional(float),
        last_modified=optional(str),
    )
    if TYPE_CHECKING:
        audience: tuple[str, ...] = ()
        priority: float | None = None
        last_modified: str | None = None


class Icon(Value):
    """An image that stands for a server, tool, prompt or resource.

    Attributes:
        src: An http(s) URL or a `data:` URI. It is never fetched by ferrule.
        mime_type: Its type, if the server says.
        sizes: Sizes it fits, such as `48x48` or `any`.
        theme: `light` or `dark`, if it is made for one of them.
    """

    __slots__ = fields(
        src=required(str),
        mime_type=optional(str),
        sizes=optional([str], ()),
        theme=optional(str),
    )
    if TYPE_CHECKING:
        src: str
        mime_type: str | None = None
        sizes: tuple[str, ...] = ()
        theme: str | None = None


class Implementation(Value):
    """A program that speaks MCP: the server, or the client.

    Attributes:
        name: For programs; `title` is for people.
    """

    __slots__ = fields(
        name=required(str),
        version=required(str),
        title=optional(str),
        description=optional(str),
        website_url=optional(str),
        icons=optional([Icon], ()),
    )
    if TYPE_CHECKING:
        name: str
        version: str
        title: str | None = None
        description: str | None = None
        website_url: str | None = None
        icons: tuple[Icon, ...] = ()


class Result(Value):
    """The base of what methods answer.

    Attributes:
        result_type: `complete`, also when the server does not say, as before revision 2026-07-28.
    """

    __slots__ = fields(result_type=optional(str, "complete", keyword=True))
    if TYPE_CHECKING:
        _: KW_ONLY
        result_type: str = "complete"

    @property
    def server_info(self) -> Implementation | None:
        """Who answered, if the result says so in its `_meta` and the shape is right."""
        info = self.meta.get("io.modelcontextprotocol/serverInfo")
        try:
            return Implementation._decode(info) if isinstance(info, dict) else None
        except Wrong:
            return None


def _load_ttl(milliseconds: Any) -> Any:
    if milliseconds < 0:
        raise Wrong("expected 0 or more")
    return milliseconds


def _load_scope(scope: Any) -> Any:
    if scope not in ("public", "private"):
        raise Wrong("expected public or private")
    return scope


class CacheableResult(Result):
    """The base of results that may be kept for a while.

    Attributes:
        ttl_ms: For how many milliseconds; 0 also when the hint is missing or makes no sense.
        cache_scope: `public` if it may be shared between users, else `private`.
    """

    __slots__ = fields(
        ttl_ms=hint((int, _load_ttl), 0),
        cache_scope=hint((str, _load_scope), "private"),
    )
    if TYPE_CHECKING:
        _: KW_ONLY
        ttl_ms: int = 0
        cache_scope: str = "private"


class ListResult(CacheableResult):
    """The base of one page of a listing.

    Attributes:
        next_cursor: What to ask the next page with; None on the last one. An empty string is a
            cursor.
    """

    __slots__ = fields(next_cursor=optional(str, keyword=True))
    if TYPE_CHECKING:
        _: KW_ONLY
        next_cursor: str | None = None

        @property
        def items(self) -> tuple[Any, ...]:
            """What this page lists, whatever the result calls it: each kind of list has its own."""
