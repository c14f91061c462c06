"""Each example of the 2026-07-28 schema, in words of our own, is read and written without loss.

`tests/vectors/messages` holds them by the schema's names. What each is read by stands here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrule import RequestEnvelope, errors, server, types
from ferrule._protocol.rpc_errors import rpc_error
from ferrule.types._base import Value

pytestmark = pytest.mark.req("V4")

MESSAGES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors/messages/2026-07-28.json").read_text(encoding="utf-8")
)
each = pytest.mark.parametrize(
    ("name", "message"), [pytest.param(name, item, id=name) for name, items in MESSAGES.items() for item in items]
)

Message = dict[str, Any]
Round = Callable[[Message], Message]
"""Reads a message and writes it again."""

PARAMS = {
    # by which class the params of a request or notification are read
    "sampling/createMessage": "SamplingRequest",
    "elicitation/create": "ElicitRequest",
    "notifications/message": "LogMessage",
    "notifications/progress": "Progress",
    "notifications/prompts/list_changed": "PromptsChanged",
    "notifications/resources/list_changed": "ResourcesChanged",
    "notifications/resources/updated": "ResourceUpdated",
    "notifications/tools/list_changed": "ToolsChanged",
}
PARTS = {
    # what is a part of something, and never comes alone
    "CreateMessageRequestParams": "SamplingRequest",
    "ElicitRequestFormParams": "ElicitRequest",
    "ElicitRequestURLParams": "ElicitRequest",
    "LoggingMessageNotificationParams": "LogMessage",
    "ProgressNotificationParams": "Progress",
    "ResourceUpdatedNotificationParams": "ResourceUpdated",
    "SubscriptionsListenResult": "Result",
}
METHODS = {
    # whose params these are
    "CallToolRequestParams": "tools/call",
    "CompleteRequestParams": "completion/complete",
    "GetPromptRequestParams": "prompts/get",
    "PaginatedRequestParams": "resources/list",
}


def by_class(name: str) -> Round:
    cls: type[Value] = getattr(types, name)
    return lambda message: cls.from_wire(message).to_wire()


def by_server(message: Message) -> Message:
    """A client's request, as a server reads it: the envelope apart, and put together again."""
    name_key = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(message["method"])
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"]}
    if name_key is not None:
        headers["Mcp-Name"] = message["params"][name_key]
    found = server.validate(headers, json.dumps(message))
    assert found.envelope is not None
    envelope = found.envelope.to_meta()
    rest = {key: item for key, item in found.params["_meta"].items() if key not in envelope}
    return {**found.message, "params": {**found.params, "_meta": {**rest, **envelope}}}


def by_method(method: str) -> Round:
    return lambda params: by_server({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})["params"]


def by_notification(message: Message) -> Message:
    """A notification, and its params by the class of its own if there is one."""
    read = types.Notification.from_wire(message).to_wire()
    cls = PARAMS.get(message["method"])
    return read if cls is None else {**read, "params": by_class(cls)(message["params"])}


def by_peers_request(message: Message) -> Message:
    cls = PARAMS.get(message["method"])
    return message if cls is None else {**message, "params": by_class(cls)(message["params"])}


def by_response(cls: str) -> Round:
    return lambda message: {**message, "result": by_class(cls)(message["result"])}


def by_error(error: Message) -> Message:
    """An error as a client raises it, and as a server makes it."""
    raised = rpc_error(code=error["code"], message=error["message"], data=error.get("data"))
    made = server.Refusal(raised.code, raised.message, raised.data)
    return made.to_response()["error"]  # type: ignore[no-any-return]


def by_error_response(message: Message) -> Message:
    return server.Refusal(**message["error"], id=message["id"]).to_response() | {"error": by_error(message["error"])}


def by_envelope(capabilities: Message) -> Message:
    meta = RequestEnvelope("2026-07-28", capabilities).to_meta()
    return RequestEnvelope.from_params({"_meta": meta}).client_capabilities


def by_form(schema: Message) -> Message:
    """The schema of one field, in a form that has it."""
    form = {"type": "object", "properties": {"field": schema}}
    request = types.ElicitRequest("Which?", requested_schema=form)
    filled = request.fill_defaults()
    assert filled == {"field": schema["default"]}
    assert request.problems(filled) == []
    read = types.ElicitRequest.from_wire(request.to_wire())
    return read.requested_schema["properties"]["field"]  # type: ignore[no-any-return]


def by_preferences(preferences: Message) -> Message:
    request = types.SamplingRequest((), 1, model_preferences=preferences)
    return types.SamplingRequest.from_wire(request.to_wire()).model_preferences


def by_input_requests(requests: Message) -> Message:
    return {key: by_peers_request(request) for key, request in requests.items()}


def by_input_responses(responses: Message) -> Message:
    read = {key: "ElicitResult" if "action" in one else "CreateMessageResult" for key, one in responses.items()}
    return {key: by_class(read[key])(one) for key, one in responses.items()}


BY_NAME: dict[str, Round] = {
    "CancelledNotificationParams": lambda params: by_notification({"method": "notifications/x", "params": params})[
        "params"
    ],
    "ClientCapabilities": by_envelope,
    "CreateMessageRequest": by_peers_request,
    "ElicitRequest": by_peers_request,
    "InputRequests": by_input_requests,
    "InputResponses": by_input_responses,
    "ListRootsRequest": by_peers_request,
    "ModelPreferences": by_preferences,
    "SubscriptionsListenResultResponse": by_response("Result"),
}


def reader(name: str, message: Message) -> Round:
    """What reads a message of this name."""
    if name in BY_NAME:
        return BY_NAME[name]
    if name in METHODS:
        return by_method(METHODS[name])
    if name.endswith("ResultResponse"):
        return by_response(name.removesuffix("Response"))
    for suffix, found in {"Request": by_server, "Notification": by_notification, "Schema": by_form}.items():
        if name.endswith(suffix):
            return found
    if name.endswith("Error"):
        return by_error_response if "error" in message else by_error
    return by_class(PARTS.get(name, name))


@each
def test_an_example_is_read_and_written_without_loss(name: str, message: Message) -> None:
    sent = copy.deepcopy(message)
    assert reader(name, message)(message) == sent
    assert message == sent, "reading changes nothing"


@each
def test_members_that_nobody_knows_yet_come_through(name: str, message: Message) -> None:
    if name in ("InputRequests", "InputResponses") or name.endswith("Error"):
        return  # maps whose keys are the peer's own, and errors, which have no other members
    changed = {**message, "fromTheFuture": {"a": [1, None, {"b": "c"}]}}
    for inner in ("params", "result"):
        if inner in changed:
            changed[inner] = {**changed[inner], "fromTheFuture": [{}]}
    assert reader(name, changed)(copy.deepcopy(changed)) == changed


def test_each_example_of_the_schema_has_its_vector() -> None:
    """129 in all; the schema names 88 things by example."""
    assert (len(MESSAGES), sum(map(len, MESSAGES.values()))) == (88, 129)


def test_an_error_is_raised_as_the_class_of_its_code() -> None:
    classes = {
        "HeaderMismatchError": errors.HeaderMismatch,
        "InvalidParamsError": errors.InvalidParams,
        "MethodNotFoundError": errors.MethodNotFound,
        "MissingRequiredClientCapabilityError": errors.MissingClientCapability,
        "UnsupportedProtocolVersionError": errors.UnsupportedProtocolVersion,
        "InternalError": errors.RPCError,
        "ParseError": errors.RPCError,
    }
    for name, expected in classes.items():
        for message in MESSAGES[name]:
            assert type(rpc_error(**message.get("error", message))) is expected
