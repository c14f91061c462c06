"""For authors of servers and gateways: the whole inbound check of the stateless era for one POST.

    message = server.validate(headers, body)     # or raises server.Refusal

Specification: 2026-07-28, basic/transports/streamable-http. Pure rules over what a web framework hands over; knows no
framework, does no I/O and keeps nothing between messages.
"""

from __future__ import annotations

from ._json import FLAG_SLOW, loads
from ._protocol.envelope import RequestEnvelope, read_envelope
from ._protocol.inbound import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Refusal,
    check_version,
    http_status,
)
from ._protocol.methods import lookup
from ._protocol.param_headers import InvalidAnnotation, plan
from ._protocol.versions import STATELESS
from ._value import Frozen
from ._wire import decode_header_value
from .errors import InvalidMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from .types.tools import Tool

    Headers = Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[str | bytes, str | bytes]]

__all__ = ["Refusal", "RequestEnvelope", "Validated", "http_status", "validate"]

_VERSION = "mcp-protocol-version"
_METHOD = "mcp-method"
_NAME = "mcp-name"
_ORIGIN = "origin"
_SHOWN = {_VERSION: "MCP-Protocol-Version", _METHOD: "Mcp-Method", _NAME: "Mcp-Name", _ORIGIN: "Origin"}


class Validated(Frozen):
    """A message that may be served.

    Attributes:
        message: The JSON-RPC message, as it was parsed.
        method: Its method.
        envelope: The protocol fields of a request; None for a notification, which needs none.
    """

    __slots__ = ("envelope", "message", "method")

    message: dict[str, Any]
    method: str
    envelope: RequestEnvelope | None

    def __init__(self, message: dict[str, Any], method: str, envelope: RequestEnvelope | None) -> None:
        self._set("message", message)
        self._set("method", method)
        self._set("envelope", envelope)

    def __hash__(self) -> int:
        return hash((self.method, self.id))

    def __repr__(self) -> str:
        kind = "notification" if self.is_notification else "request"
        return f"<Validated {kind}, {len(self.params)} params>"

    @property
    def id(self) -> str | int | None:
        """The id of a request; None for a notification."""
        return self.message.get("id")

    @property
    def params(self) -> dict[str, Any]:
        """The params, empty where there are none."""
        return self.message.get("params") or {}

    @property
    def name(self) -> str | None:
        """What `Mcp-Name` names: the tool, the prompt, the resource's URI, the task's id; None for other methods."""
        key = lookup(self.method).name_param
        return self.params.get(key) if key is not None and not self.is_notification else None

    @property
    def is_notification(self) -> bool:
        """Is no response to be sent?"""
        return "id" not in self.message

    @property
    def http_status(self) -> int:
        """The HTTP status of success: 202 with no body for a notification, 200 else."""
        return 202 if self.is_notification else 200


def validate(
    headers: Headers,
    body: bytes | bytearray | memoryview | str | dict[str, Any] | list[Any],
    *,
    supported: Iterable[str] = STATELESS,
    strict: bool = False,
    tools: Mapping[str, Tool | Mapping[str, Any]] | Iterable[Tool | Mapping[str, Any]] | None = None,
    origins: Collection[str] | None = None,
) -> Validated:
    """Check one POST to the MCP endpoint by the rules of 2026-07-28 (Streamable HTTP, Server Validation).

    The order is: origin, JSON, kind of message, envelope, headers, revision, mirrored arguments. What is no matter of
    the message is left to the server: its size, authorization, `Accept`, whether the method exists.

    Args:
        headers: The headers of the request, as a mapping or as pairs, of str or bytes: what ASGI, WSGI wrappers and
            proxies have. Pairs show duplicates, which a mapping hides.
        body: The body. JSON that was parsed already is taken as it is.
        supported: The revisions that the server speaks, newest first.
        strict: Client info is required as well, and a broken envelope is an invalid request (-32600).
        tools: The definitions of the server's tools, as `Tool` or as JSON objects, by name or one after the other.
            With them the `Mcp-Param-*` headers of `tools/call` are checked. A definition whose `x-mcp-header` are
            invalid mirrors nothing, since no client offers such a tool.
        origins: The values of `Origin` that are let in; None leaves the check, which the specification demands of
            every server, to somebody else. A request without `Origin` comes from no browser and passes.

    Raises:
        Refusal: The message is not to be served. It has the HTTP status and the body of the answer.
    """
    given = _Given(headers)
    origin = None if origins is None else given.get(_ORIGIN)
    if origins is not None and origin is not None and origin not in origins:
        raise Refusal(INVALID_REQUEST, "Origin is not allowed here", http_status=403)
    message = _message(body)
    try:
        return _checked(message, given, tuple(supported), strict, tools)
    except Refusal as refusal:
        refusal.id = message.get("id")
        raise


def _checked(message: dict[str, Any], given: _Given, supported: tuple[str, ...], strict: bool, tools: Any) -> Validated:
    method: str = message["method"]
    params = message.get("params")
    if "id" not in message:
        _check_notification(method, given, supported)
        return Validated(message, method, None)
    envelope = read_envelope(params, supported, strict=strict)
    _check_headers(method, message["params"], envelope.protocol_version, given)
    # Last: a client whose header and body disagree learns that, and not that one of the two is unknown here.
    check_version(envelope.protocol_version, supported)
    if tools is not None and method == "tools/call":
        _check_arguments(message["params"], given, tools)
    return Validated(message, method, envelope)


# --- the body ------------------------------------------------------------------------------------


def _message(body: Any) -> dict[str, Any]:
    """The request or notification in a body."""
    message = body if isinstance(body, (dict, list)) else _parsed(body)
    if isinstance(message, list):
        raise Refusal(INVALID_REQUEST, "Invalid request: a body is one message, not a batch")
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Refusal(INVALID_REQUEST, "Invalid request: the body is no JSON-RPC 2.0 message")
    identifier = message.get("id")
    if "id" in message and (isinstance(identifier, bool) or not isinstance(identifier, (str, int))):
        raise Refusal(INVALID_REQUEST, "Invalid request: an id is a string or an integer")
    if "method" not in message and ("result" in message or "error" in message):
        raise Refusal(INVALID_REQUEST, "Invalid request: clients send no responses")
    problem = None
    if not isinstance(message.get("method"), str):
        problem = Refusal(INVALID_REQUEST, "Invalid request: a method is a string", id=identifier)
    elif not isinstance(message.get("params", {}), dict):
        problem = Refusal(INVALID_PARAMS, "params: expected object", id=identifier)
    if problem is not None:
        raise problem
    return message


def _parsed(body: bytes | bytearray | memoryview | str) -> Any:
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)
    try:
        return loads(data, FLAG_SLOW)  # exact, whatever the size of its numbers
    except InvalidMessage as error:
        problem = str(error)
    raise Refusal(PARSE_ERROR, f"Parse error: {problem}")


# --- the headers ---------------------------------------------------------------------------------


class _Given:
    """The headers of one request by names in lower case."""

    def __init__(self, headers: Headers) -> None:
        self._values: dict[str, str] = {}
        self._twice: set[str] = set()
        pairs = headers.items() if hasattr(headers, "items") else headers
        for name, value in pairs:
            key = _text(name).lower()
            if key in self._values:
                self._twice.add(key)
            self._values[key] = _text(value).strip(" \t")

    def get(self, name: str) -> str | None:
        """One header of the protocol; None where it did not come. Refused where nobody can tell what it says."""
        value = self._values.get(name)
        if value is None:
            return None
        shown = _SHOWN.get(name, "a header Mcp-Param-*")
        if name in self._twice:
            raise Refusal(HEADER_MISMATCH, f"Header mismatch: {shown} came more than once")
        if not all(character == "\t" or " " <= character <= "~" for character in value):
            raise Refusal(HEADER_MISMATCH, f"Header mismatch: {shown} holds a character that no header may carry")
        return value


def _text(item: str | bytes) -> str:
    return item.decode("latin-1") if isinstance(item, bytes) else item


def _check_headers(method: str, params: dict[str, Any], version: str, given: _Given) -> None:
    """Do the headers say what the body says?"""
    _match(_VERSION, given.get(_VERSION), version, "the protocol version in params._meta")
    _match(_METHOD, given.get(_METHOD), method, "the method")
    key = lookup(method).name_param
    if key is None:
        return
    name = params.get(key)
    if not isinstance(name, str):
        raise Refusal(INVALID_PARAMS, f"{method}: params.{key}: expected string")
    header = given.get(_NAME)
    decoded = None if header is None else decode_header_value(header)
    if header is not None and decoded is None:
        raise Refusal(HEADER_MISMATCH, "Header mismatch: Mcp-Name is not valid base64 of UTF-8")
    _match(_NAME, decoded, name, f"params.{key}")


def _match(header: str, said: str | None, expected: str, what: str) -> None:
    if said is None:
        raise Refusal(HEADER_MISMATCH, f"Header mismatch: {_SHOWN[header]} is missing")
    if said != expected:
        raise Refusal(HEADER_MISMATCH, f"Header mismatch: {_SHOWN[header]} does not match {what}")


def _check_notification(method: str, given: _Given, supported: tuple[str, ...]) -> None:
    """The revision defines no headers for notifications: those that came must fit, and none has to come."""
    version = given.get(_VERSION)
    if version is not None:
        check_version(version, supported)
    said = given.get(_METHOD)
    if said is not None:
        _match(_METHOD, said, method, "the method")


def _check_arguments(params: dict[str, Any], given: _Given, tools: Any) -> None:
    """Do the `Mcp-Param-*` headers of a call say what its arguments say?"""
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict):
        raise Refusal(INVALID_PARAMS, "tools/call: params.arguments: expected object")
    schema = _schema_of(params["name"], tools)
    try:
        mirrored = plan(schema)
    except InvalidAnnotation:
        return  # no client offers such a tool, nor mirrors anything for it
    found = {name.lower(): given.get(name.lower()) for name, _ in mirrored.pairs}
    problem = mirrored.mismatch(arguments, {name: value for name, value in found.items() if value is not None})
    if problem is not None:
        raise Refusal(HEADER_MISMATCH, f"Header mismatch: {problem}")


def _schema_of(name: str, tools: Any) -> Mapping[str, Any]:
    """The input schema of a tool; an empty one for a tool that nobody defined, which is the server's to answer."""
    if hasattr(tools, "items"):
        tool = tools.get(name)
    else:
        tool = next((one for one in tools if _member(one, "name", "name") == name), None)
    schema = None if tool is None else _member(tool, "inputSchema", "input_schema")
    return schema if isinstance(schema, dict) else {}


def _member(tool: Any, key: str, attribute: str) -> Any:
    return tool.get(key) if isinstance(tool, dict) else getattr(tool, attribute)
