"""Resources, and what reading one gives.

Text stays text and blobs stay base64 until somebody asks for their bytes.
"""

from __future__ import annotations

from ._base import Value, Wrong, fields, optional, required
from .common import LARGEST_DATA, Annotations, CacheableResult, Icon, ListResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Resource(Value):
    """Something a server can read out.

    Attributes:
        uri: What to read it by.
        name: For programs; `title` is for people.
        size: Its bytes before any encoding, if the server knows.
    """

    __slots__ = fields(
        uri=required(str),
        name=required(str),
        title=optional(str),
        description=optional(str),
        mime_type=optional(str),
        size=optional(int),
        annotations=optional(Annotations),
        icons=optional([Icon], ()),
    )
    if TYPE_CHECKING:
        uri: str
        name: str
        title: str | None = None
        description: str | None = None
        mime_type: str | None = None
        size: int | None = None
        annotations: Annotations | None = None
        icons: tuple[Icon, ...] = ()


class ResourceTemplate(Value):
    """A family of resources.

    Attributes:
        uri_template: An RFC 6570 template of their URIs.
        name: For programs; `title` is for people.
        mime_type: Their type, if they all have the same.
    """

    __slots__ = fields(
        uri_template=required(str),
        name=required(str),
        title=optional(str),
        description=optional(str),
        mime_type=optional(str),
        annotations=optional(Annotations),
        icons=optional([Icon], ()),
    )
    if TYPE_CHECKING:
        uri_template: str
        name: str
        title: str | None = None
        description: str | None = None
        mime_type: str | None = None
        annotations: Annotations | None = None
        icons: tuple[Icon, ...] = ()


class ListResourcesResult(ListResult):
    """One page of the resources of a server."""

    __slots__ = fields(resources=required([Resource]))
    if TYPE_CHECKING:
        resources: tuple[Resource, ...]

    @property
    def items(self) -> tuple[Resource, ...]:
        """The resources of this page."""
        return self.resources


class ListResourceTemplatesResult(ListResult):
    """One page of the resource templates of a server."""

    __slots__ = fields(resource_templates=required([ResourceTemplate]))
    if TYPE_CHECKING:
        resource_templates: tuple[ResourceTemplate, ...]

    @property
    def items(self) -> tuple[ResourceTemplate, ...]:
        """The resource templates of this page."""
        return self.resource_templates


class TextResourceContents(Value):
    """A resource, or a part of one, as text."""

    __slots__ = fields(uri=required(str), text=required(str), mime_type=optional(str))
    if TYPE_CHECKING:
        uri: str
        text: str
        mime_type: str | None = None


class BlobResourceContents(Value):
    """A resource, or a part of one, as bytes: `blob` is base64, `decode()` gives the bytes."""

    __slots__ = fields(uri=required(str), blob=required(str), mime_type=optional(str))
    if TYPE_CHECKING:
        uri: str
        blob: str
        mime_type: str | None = None

    def decode(self, *, max_bytes: int = LARGEST_DATA) -> bytes:
        """Decode `blob`.

        Args:
            max_bytes: The most bytes to decode.

        Raises:
            LimitExceeded: It is longer than that.
            InvalidResult: It is not base64.
        """
        from ._data import decode_base64

        return decode_base64(self, "blob", self.blob, max_bytes)


def load_contents(wire: Any) -> TextResourceContents | BlobResourceContents:
    """The contents of a resource, by the member that they have."""
    contents: TextResourceContents | BlobResourceContents
    if wire.get("text") is not None:
        contents = TextResourceContents._decode(wire)
    elif wire.get("blob") is not None:
        contents = BlobResourceContents._decode(wire)
    else:
        raise Wrong("expected text or blob")
    return contents


class ReadResourceResult(CacheableResult):
    """What a resource holds; more than one item for a folder, say."""

    __slots__ = fields(contents=required([(dict, load_contents)]))
    if TYPE_CHECKING:
        contents: tuple[TextResourceContents | BlobResourceContents, ...]

    @property
    def text(self) -> str:
        """The contents that are text, joined by newlines."""
        return "\n".join([part.text for part in self.contents if isinstance(part, TextResourceContents)])
