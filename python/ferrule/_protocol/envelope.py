"""The envelope of the stateless era: who asks, at which revision, able to do what, in each request.

Specification: 2026-07-28, basic/index, "Per-request protocol fields". Knows the keys and their
shapes, not how they travel.
"""

from __future__ import annotations

from .._value import Frozen
from .versions import STATELESS, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
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
    """The protocol fields of a request's `_meta`, as an immutable value: for clients and for servers.

    What goes in is copied, and so is what comes out: nothing that a caller holds can change an envelope.

    Attributes:
        protocol_version: The revision this request speaks.
        log_level: The least severe log message the server may send for this request, or None.
    """

    __slots__ = ("_capabilities", "_info", "log_level", "protocol_version")

    protocol_version: str
    log_level: str | None
    _capabilities: dict[str, Any]
    _info: dict[str, Any] | None

    def __init__(
        self,
        protocol_version: str,
        client_capabilities: Mapping[str, Any],
        client_info: Mapping[str, Any] | None = None,
        log_level: str | None = None,
    ) -> None:
        self._set("protocol_version", protocol_version)
        self._set("_capabilities", _copied(client_capabilities))
        self._set("_info", _copied(client_info))
        self._set("log_level", log_level)

    @property
    def client_capabilities(self) -> dict[str, Any]:
        """What the client declares, as a JSON object; a copy."""
        return _copied(self._capabilities)  # type: ignore[no-any-return]

    @property
    def client_info(self) -> dict[str, Any] | None:
        """Name and version of the client as a JSON object, or None where it stays anonymous; a copy."""
        return _copied(self._info)  # type: ignore[no-any-return]

    def replace(self, **changes: Any) -> RequestEnvelope:
        """Make a copy with some fields changed, by the names that the constructor gives them."""
        now = {
            "protocol_version": self.protocol_version,
            "client_capabilities": self._capabilities,
            "client_info": self._info,
            "log_level": self.log_level,
        }
        return RequestEnvelope(**{**now, **changes})

    if not TYPE_CHECKING:
        __replace__ = replace

    def __hash__(self) -> int:
        return hash((self.protocol_version, self.log_level, len(self._capabilities)))

    def __repr__(self) -> str:
        info = "anonymous" if self._info is None else f"client_info[{len(self._info)}]"
        return f"<RequestEnvelope {shown(self.protocol_version)}, {info}, capabilities[{len(self._capabilities)}]>"

    def to_meta(self) -> dict[str, Any]:
        """The envelope as members of `_meta`: a new dict, that the caller may change."""
        meta: dict[str, Any] = {PROTOCOL_VERSION: self.protocol_version}
        if self._info is not None:
            meta[CLIENT_INFO] = self.client_info
        meta[CLIENT_CAPABILITIES] = self.client_capabilities
        if self.log_level is not None:
            meta[LOG_LEVEL] = self.log_level
        return meta

    @staticmethod
    def is_stateless(params: Any, *, strict: bool = False) -> bool:
        """Does a request with these `params` belong to the stateless era?

        A server of both eras asks this first. Whoever claims a revision in `_meta` is held to it, so that an envelope
        that is broken is refused and not served as a request of the handshake era.

        Args:
            params: The `params` of the request, of whatever type they came.
            strict: Only when all of version, client info and capabilities are there.
        """
        meta = _meta_of(params)
        keys = _TRIPLE if strict else (PROTOCOL_VERSION,)
        return all(meta.get(key) is not None for key in keys)

    @classmethod
    def from_params(cls, params: Any, *, supported: Iterable[str] = STATELESS, strict: bool = False) -> RequestEnvelope:
        """Read the envelope of a request that came in (2026-07-28, basic/index, Per-request protocol fields).

        Args:
            params: The `params` of the request, of whatever type they came.
            supported: The revisions that the server speaks, newest first. Those of the handshake era may be among them
                and are told to the client, but no envelope may name one.
            strict: Client info is required too, and what is missing or of a wrong type is an invalid request (-32600)
                in place of invalid params (-32602).

        Raises:
            server.Refusal: Keys are missing or of a wrong type: the text and `data["keys"]` name exactly these. Or the
                server does not speak the revision (-32022), with `data["supported"]` and `data["requested"]`.
        """
        from .inbound import check_version

        spoken = tuple(supported)
        envelope = read_envelope(params, spoken, strict=strict)
        check_version(envelope.protocol_version, spoken)
        return envelope


def read_envelope(params: Any, supported: Iterable[str], *, strict: bool) -> RequestEnvelope:
    """The envelope of a request by its shape alone; see `RequestEnvelope.from_params`."""
    meta = _meta_of(params)
    unfit = [key for key, fits in _SHAPES.items() if not fits(meta.get(key), strict)]
    if unfit:
        from .inbound import unfit_envelope

        raise unfit_envelope(unfit, supported, strict=strict)
    return RequestEnvelope(
        meta[PROTOCOL_VERSION], meta[CLIENT_CAPABILITIES], meta.get(CLIENT_INFO), meta.get(LOG_LEVEL)
    )


_TRIPLE = (PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES)
_LOG_LEVELS = (None, "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
# What each key may hold, given whether client info is required.
_SHAPES: dict[str, Callable[[Any, bool], bool]] = {
    PROTOCOL_VERSION: lambda item, _: isinstance(item, str),
    CLIENT_INFO: lambda item, required: isinstance(item, dict) or (item is None and not required),
    CLIENT_CAPABILITIES: lambda item, _: isinstance(item, dict),
    LOG_LEVEL: lambda item, _: item in _LOG_LEVELS,
}


def _meta_of(params: Any) -> dict[str, Any]:
    """The `_meta` of a request, empty where there is none that could be read."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _copied(value: Any) -> Any:
    """The same JSON value, sharing no object or array with it."""
    if hasattr(value, "items"):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value


def without_reserved(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of a caller's `_meta` may go out: everything but the keys the client owns."""
    return {key: value for key, value in meta.items() if key not in RESERVED}
