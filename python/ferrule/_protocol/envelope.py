"""The envelope of the stateless era: who asks, at which revision, able to do what, in each request.

Specification: 2026-07-28, basic/index, "Per-request protocol fields". Knows the keys and their
shapes, not how they travel.
"""

from __future__ import annotations

from .._value import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION = PREFIX + "protocolVersion"
CLIENT_INFO = PREFIX + "clientInfo"
CLIENT_CAPABILITIES = PREFIX + "clientCapabilities"
LOG_LEVEL = PREFIX + "logLevel"
SERVER_INFO = PREFIX + "serverInfo"
PROGRESS_TOKEN = "progressToken"

RESERVED = frozenset({PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, PROGRESS_TOKEN})
"""Keys of a request's `_meta` that the client alone sets."""


class RequestEnvelope(Frozen):
    """The protocol fields of a request's `_meta`, as an immutable value.

    Attributes:
        protocol_version: The revision this request speaks.
        client_capabilities: What the client declares, as a JSON object.
        client_info: Name and version of the client as a JSON object, or None to stay anonymous.
        log_level: The least severe log message the server may send for this request, or None.
    """

    __slots__ = ("client_capabilities", "client_info", "log_level", "protocol_version")

    protocol_version: str
    client_capabilities: Mapping[str, Any]
    client_info: Mapping[str, Any] | None
    log_level: str | None

    def __init__(
        self,
        protocol_version: str,
        client_capabilities: Mapping[str, Any],
        client_info: Mapping[str, Any] | None = None,
        log_level: str | None = None,
    ) -> None:
        self._set("protocol_version", protocol_version)
        self._set("client_capabilities", client_capabilities)
        self._set("client_info", client_info)
        self._set("log_level", log_level)

    def __repr__(self) -> str:
        info = "anonymous" if self.client_info is None else f"client_info[{len(self.client_info)}]"
        return f"<RequestEnvelope {self.protocol_version}, {info}, capabilities[{len(self.client_capabilities)}]>"

    def to_meta(self) -> dict[str, Any]:
        """The envelope as members of `_meta`."""
        meta: dict[str, Any] = {PROTOCOL_VERSION: self.protocol_version}
        if self.client_info is not None:
            meta[CLIENT_INFO] = dict(self.client_info)
        meta[CLIENT_CAPABILITIES] = dict(self.client_capabilities)
        if self.log_level is not None:
            meta[LOG_LEVEL] = self.log_level
        return meta


def without_reserved(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of a caller's `_meta` may go out: everything but the keys the client owns."""
    return {key: value for key, value in meta.items() if key not in RESERVED}
