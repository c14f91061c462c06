"""Content blocks: what tools and prompts say to a model.

Text stays text and data stays base64 until somebody asks for its bytes.
"""

from __future__ import annotations

from ._base import Value, Wrong, fields, optional, required
from .common import LARGEST_DATA, Annotations
from .resources import Resource, load_contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Literal

    from .resources import BlobResourceContents, TextResourceContents


class TextContent(Value):
    """Text."""

    type: ClassVar[Literal["text"]] = "text"
    __slots__ = fields(text=required(str), annotations=optional(Annotations))
    if TYPE_CHECKING:
        text: str
        annotations: Annotations | None = None


class ImageContent(Value):
    """An image: `data` is base64, `decode()` gives the bytes."""

    type: ClassVar[Literal["image"]] = "image"
    __slots__ = fields(data=required(str), mime_type=required(str), annotations=optional(Annotations))
    if TYPE_CHECKING:
        data: str
        mime_type: str
        annotations: Annotations | None = None

    def decode(self, *, max_bytes: int = LARGEST_DATA) -> bytes:
        """Decode `data`.

        Args:
            max_bytes: The most bytes to decode.

        Raises:
            LimitExceeded: It is longer than that.
            InvalidResult: It is not base64.
        """
        from ._data import decode_base64

        return decode_base64(self, "data", self.data, max_bytes)


class AudioContent(Value):
    """Sound: `data` is base64, `decode()` gives the bytes."""

    type: ClassVar[Literal["audio"]] = "audio"
    __slots__ = fields(data=required(str), mime_type=required(str), annotations=optional(Annotations))
    if TYPE_CHECKING:
        data: str
        mime_type: str
        annotations: Annotations | None = None

    def decode(self, *, max_bytes: int = LARGEST_DATA) -> bytes:
        """Decode `data`.

        Args:
            max_bytes: The most bytes to decode.

        Raises:
            LimitExceeded: It is longer than that.
            InvalidResult: It is not base64.
        """
        from ._data import decode_base64

        return decode_base64(self, "data", self.data, max_bytes)


class EmbeddedResource(Value):
    """A resource put into a result or a prompt."""

    type: ClassVar[Literal["resource"]] = "resource"
    __slots__ = fields(resource=required((dict, load_contents)), annotations=optional(Annotations))
    if TYPE_CHECKING:
        resource: TextResourceContents | BlobResourceContents
        annotations: Annotations | None = None


class ResourceLink(Resource):
    """A resource that a result or a prompt points at."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    __slots__ = fields()


class UnknownContent(Value):
    """A content block of a type that ferrule does not know.

    Attributes:
        type: What the server calls it.
        raw: The whole block, as received.
    """

    __slots__ = fields(type=required(str), raw=required(dict))
    if TYPE_CHECKING:
        type: str
        raw: dict[str, Any]

    @staticmethod
    def _decode(wire: dict[str, Any]) -> UnknownContent:
        kind = wire.get("type")
        if not isinstance(kind, str):
            raise Wrong("expected string").under("type")
        return UnknownContent(kind, wire)

    def to_wire(self) -> dict[str, Any]:
        """Give the block back as it was received."""
        return dict(self.raw)


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent


_BLOCKS: dict[str, Callable[[Any], ContentBlock]] = {
    cls.type: cls._decode for cls in (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
}


def load_block(wire: Any) -> ContentBlock:
    """A content block, by its `type`."""
    kind = wire.get("type")
    decode = _BLOCKS.get(kind) if kind.__class__ is str else None
    return UnknownContent._decode(wire) if decode is None else decode(wire)
