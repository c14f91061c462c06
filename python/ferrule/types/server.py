"""What a server says about itself: its capabilities, and the answers that carry them."""

from __future__ import annotations

from ._base import Value, fields, optional, required
from .common import CacheableResult, Implementation, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ListCapability(Value):
    """The server offers tools or prompts.

    Attributes:
        list_changed: It says so when the list changes.
    """

    __slots__ = fields(list_changed=optional(bool, False))
    if TYPE_CHECKING:
        list_changed: bool = False


class ResourcesCapability(Value):
    """The server offers resources.

    Attributes:
        list_changed: It says so when the list changes.
        subscribe: One can ask to be told when a single resource changes.
    """

    __slots__ = fields(list_changed=optional(bool, False), subscribe=optional(bool, False))
    if TYPE_CHECKING:
        list_changed: bool = False
        subscribe: bool = False


class ServerCapabilities(Value):
    """What a server can do. A capability that it did not declare is None.

    Attributes:
        extensions: Settings of each extension, by its identifier.
        experimental: The same for what is not standardised.
        tasks: Which requests can run as tasks (revision 2025-11-25).
    """

    __slots__ = fields(
        tools=optional(ListCapability),
        resources=optional(ResourcesCapability),
        prompts=optional(ListCapability),
        logging=optional(dict),
        completions=optional(dict),
        extensions=optional(dict, dict),
        experimental=optional(dict, dict),
        tasks=optional(dict),
    )
    if TYPE_CHECKING:
        tools: ListCapability | None = None
        resources: ResourcesCapability | None = None
        prompts: ListCapability | None = None
        logging: dict[str, Any] | None = None
        completions: dict[str, Any] | None = None
        extensions: dict[str, Any] = {}
        experimental: dict[str, Any] = {}
        tasks: dict[str, Any] | None = None

    @property
    def raw(self) -> dict[str, Any]:
        """All that was declared, known or not, by the names on the wire."""
        return self.to_wire()

    def __contains__(self, name: object) -> bool:
        """Whether a capability was declared, by its name on the wire."""
        return self.raw.get(name) is not None  # type: ignore[call-overload]


class InitializeResult(Result):
    """How a server of the handshake era introduces itself.

    Attributes:
        protocol_version: The revision that it wants to speak.
        instructions: How to use it, for a model.
    """

    __slots__ = fields(
        protocol_version=required(str),
        capabilities=required(ServerCapabilities),
        server_info=required(Implementation),
        instructions=optional(str),
    )
    if TYPE_CHECKING:
        protocol_version: str
        capabilities: ServerCapabilities
        server_info: Implementation
        instructions: str | None = None


class DiscoverResult(CacheableResult):
    """How a server of the stateless era introduces itself; who it is, is in `server_info`.

    Attributes:
        supported_versions: The revisions that it speaks.
        instructions: How to use it, for a model.
    """

    __slots__ = fields(
        supported_versions=required([str]),
        capabilities=required(ServerCapabilities),
        instructions=optional(str),
    )
    if TYPE_CHECKING:
        supported_versions: tuple[str, ...]
        capabilities: ServerCapabilities
        instructions: str | None = None
