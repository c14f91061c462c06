"""What a server makes of one POST: which it serves, and with which code, status and body it refuses the others."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import RequestEnvelope, errors, server
from ferrule.types import Tool
from tests.servers import launch
from tests.support.clients import Flavour

P = "io.modelcontextprotocol/"
META: dict[str, Any] = {
    P + "protocolVersion": "2026-07-28",
    P + "clientInfo": {"name": "tide-client", "version": "3"},
    P + "clientCapabilities": {"elicitation": {}},
}
TOOL = {
    "name": "tide",
    "inputSchema": {
        "type": "object",
        "properties": {
            "port": {"type": "string", "x-mcp-header": "Port"},
            "when": {"type": "object", "properties": {"day": {"type": "integer", "x-mcp-header": "Day"}}},
        },
    },
}


def request(method: str = "tools/list", meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": META if meta is None else meta, **params}}


def headers(method: str = "tools/list", name: str | None = None, **more: str) -> dict[str, str]:
    found = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if name is not None:
        found["Mcp-Name"] = name
    return found | {key.replace("_", "-"): value for key, value in more.items()}


def refused(given: Any, body: Any, **options: Any) -> server.Refusal:
    with pytest.raises(server.Refusal) as caught:
        server.validate(given, body if isinstance(body, bytes) else json.dumps(body).encode(), **options)
    return caught.value


def call(**arguments: Any) -> dict[str, Any]:
    return request("tools/call", name="tide", arguments=arguments)


# --- what is served ------------------------------------------------------------------------------


@pytest.mark.req("E3")
def test_a_request_is_served_with_what_a_server_needs_to_know_of_it() -> None:
    body = call(port="Hull")
    found = server.validate(headers("tools/call", "tide"), json.dumps(body).encode())
    assert found.message == body
    assert (found.method, found.id, found.name) == ("tools/call", 7, "tide")
    assert found.params["arguments"] == {"port": "Hull"}
    assert (found.http_status, found.is_notification) == (200, False)
    assert found.envelope == RequestEnvelope("2026-07-28", {"elicitation": {}}, {"name": "tide-client", "version": "3"})
    assert repr(found) == "<Validated request, 3 params>"


@pytest.mark.req("E3")
def test_headers_may_be_a_mapping_or_pairs_of_text_or_bytes_and_names_have_no_case() -> None:
    given = headers()
    raw = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    shouted = {name.upper(): f" {value}\t" for name, value in given.items()}
    for form in (given, list(given.items()), raw, dict(raw), iter(raw), shouted):
        assert server.validate(form, json.dumps(request())).method == "tools/list"


@pytest.mark.req("E3")
def test_a_body_may_be_bytes_text_or_json_that_was_parsed_already() -> None:
    text = json.dumps(request())
    for form in (text, text.encode(), bytearray(text.encode()), memoryview(text.encode()), json.loads(text)):
        assert server.validate(headers(), form).message == request()
    assert server.validate(headers(), b"\xef\xbb\xbf" + text.encode() + b"\r\n").message == request()


@pytest.mark.req("E3")
def test_no_number_of_a_body_is_rounded() -> None:
    found = server.validate(headers("tools/call", "tide"), json.dumps(call(port=2**70)))
    assert found.params["arguments"] == {"port": 2**70}


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("method", "key", "name"),
    [
        ("tools/call", "name", "tide"),
        ("prompts/get", "name", "passage"),
        ("resources/read", "uri", "chart://12"),
        ("tasks/get", "taskId", "t-1"),
        ("tasks/update", "taskId", "t-1"),
        ("tasks/cancel", "taskId", "t-1"),
    ],
)
def test_the_name_of_each_method_that_has_one_is_compared(method: str, key: str, name: str) -> None:
    named: dict[str, Any] = {key: name}
    body = request(method, **named)
    assert server.validate(headers(method, name), body).name == name
    refusal = refused(headers(method, name.upper()), body)
    assert (refusal.code, refusal.http_status) == (-32020, 400)
    assert refusal.message == f"Header mismatch: Mcp-Name does not match params.{key}"
    assert refused(headers(method), body).message == "Header mismatch: Mcp-Name is missing"
    assert refused(headers(method, name), request(method)).message == f"{method}: params.{key}: expected string"
    assert refused(headers(method, name), request(method, **named | {key: 7})).code == -32602


@pytest.mark.req("E3", "E4")
def test_an_encoded_name_is_decoded_before_it_is_compared() -> None:
    body = request("tools/call", name="höhe")
    assert server.validate(headers("tools/call", "=?base64?aMO2aGU=?="), body).name == "höhe"
    alike = request("tools/call", name="=?base64?YQ==?=")
    assert server.validate(headers("tools/call", "=?base64?PT9iYXNlNjQ/WVE9PT89?="), alike)
    assert refused(headers("tools/call", "=?base64?YQ==?="), alike).code == -32020, "this one says: a"
    for bad in ("=?base64?aMO2aGU?=", "=?base64?/w==?=", "=?BASE64?aMO2aGU=?="):
        assert refused(headers("tools/call", bad), body).code == -32020


@pytest.mark.req("E3")
def test_a_notification_needs_neither_envelope_nor_headers_and_is_answered_202() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    for given in ({}, headers("notifications/cancelled")):
        found = server.validate(given, json.dumps(note))
        assert (found.is_notification, found.id, found.envelope, found.http_status) == (True, None, None, 202)
    assert server.validate({}, {"jsonrpc": "2.0", "method": "notifications/x"}).params == {}
    assert refused(headers("notifications/progress"), note).code == -32020
    assert refused(headers("notifications/cancelled", MCP_Protocol_Version="1900-01-01"), note).code == -32022


@pytest.mark.req("E3")
def test_headers_of_earlier_revisions_and_unknown_ones_are_ignored() -> None:
    given = headers(Mcp_Session_Id="a", Last_Event_ID="b", Mcp_Param_Anything="ä", Mcp_Name="unused")
    assert server.validate(given, request()).name is None


# --- what is refused, and in which order ---------------------------------------------------------


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("body", "code", "identifier"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b'{"jsonrpc": NaN}', -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (json.dumps([request()]).encode(), -32600, None),
        (b'"text"', -32600, None),
        (b"null", -32600, None),
        (b'{"id": 7, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 7}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 7}', -32600, "a"),
        (b'{"jsonrpc": "2.0", "id": 7, "result": {}}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 7, "error": {}}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}', -32602, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}', -32602, 7),
    ],
)
def test_what_is_no_message_of_a_client_is_refused_with_400(body: bytes, code: int, identifier: object) -> None:
    refusal = refused(headers(), body)
    assert (refusal.code, refusal.http_status, refusal.id) == (code, 400, identifier)
    said = refusal.to_response()
    assert said["error"]["code"] == code
    assert said.get("id") == identifier
    assert ("id" in said) == (identifier is not None), "what could not be read is left out"


@pytest.mark.req("E3")
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "MCP-Protocol-Version is missing"),
        ({"MCP-Protocol-Version": "2026-07-28"}, "Mcp-Method is missing"),
        (headers(MCP_Protocol_Version="2025-11-25"), "MCP-Protocol-Version does not match"),
        (headers("tools/call"), "Mcp-Method does not match the method"),
        (headers("TOOLS/LIST"), "Mcp-Method does not match the method"),
        ([*headers().items(), ("mcp-method", "tools/list")], "Mcp-Method came more than once"),
        ([*headers().items(), (b"MCP-PROTOCOL-VERSION", b"2026-07-28")], "MCP-Protocol-Version came more than once"),
        (headers(Mcp_Method="tools/l\x01st"), "Mcp-Method holds a character that no header may carry"),
        (headers(Mcp_Method="tools/l\xefst"), "Mcp-Method holds a character that no header may carry"),
    ],
)
def test_headers_that_do_not_say_what_the_body_says_are_refused(given: Any, text: str) -> None:
    refusal = refused(given, request())
    assert (refusal.code, refusal.http_status) == (-32020, 400)
    assert refusal.message.startswith(f"Header mismatch: {text}")
    assert refusal.to_response() == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32020, "message": refusal.message},
    }


@pytest.mark.req("E2", "E3")
def test_shape_comes_before_headers_headers_before_revision_and_revision_before_arguments() -> None:
    other = {**META, P + "protocolVersion": "1900-01-01"}
    body = request("tools/call", other, name="tide", arguments={"port": "Hull"})
    without = request("tools/call", {P + "protocolVersion": "1900-01-01"}, name="tide")
    assert refused({}, without, tools=[TOOL]).code == -32602
    assert refused(headers("tools/call", "tide"), body, tools=[TOOL]).code == -32020
    given = headers("tools/call", "tide", MCP_Protocol_Version="1900-01-01")
    refusal = refused(given, body, tools=[TOOL])
    assert (refusal.code, refusal.http_status) == (-32022, 400)
    assert refusal.to_response()["error"]["data"] == {"supported": ["2026-07-28"], "requested": "1900-01-01"}
    assert refused(headers("tools/call", "tide"), call(port="Hull"), tools=[TOOL]).code == -32020


@pytest.mark.req("E3")
def test_a_client_of_the_handshake_era_learns_which_revisions_there_are() -> None:
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    refusal = refused({}, hello, supported=("2026-07-28",))
    assert (refusal.code, refusal.http_status, refusal.id) == (-32602, 400, 0)
    assert "this server speaks 2026-07-28" in refusal.message


@pytest.mark.req("E3")
def test_only_the_origins_that_are_let_in_and_clients_without_one_pass() -> None:
    ours = ["https://app.example"]
    assert server.validate(headers(), request(), origins=ours)
    assert server.validate(headers(Origin="https://app.example"), request(), origins=ours)
    assert server.validate(headers(Origin="https://evil.example"), request())
    for foreign in ("https://evil.example", "null", "https://app.example.evil", ""):
        refusal = refused(headers(Origin=foreign), b"not even JSON", origins=ours)
        assert (refusal.http_status, "id" in refusal.to_response()) == (403, False)


@pytest.mark.req("E2", "E3")
def test_the_strict_mode_wants_client_info_and_calls_the_request_invalid() -> None:
    anonymous = {key: item for key, item in META.items() if not key.endswith("clientInfo")}
    assert server.validate(headers(), request(meta=anonymous))
    refusal = refused(headers(), request(meta=anonymous), strict=True)
    assert (refusal.code, refusal.http_status) == (-32600, 400)
    assert refusal.data["keys"] == [P + "clientInfo"]


# --- arguments that are mirrored -----------------------------------------------------------------


@pytest.mark.req("E3", "E5")
def test_mirrored_arguments_are_compared_when_the_tools_are_known() -> None:
    given = headers("tools/call", "tide", Mcp_Param_Port="Hull", mcp_param_day="4.0")
    body = call(port="Hull", when={"day": 4})
    value = Tool.from_wire(TOOL)
    for tools in ([TOOL], [value], (one for one in [TOOL]), {"tide": TOOL}, {"tide": value}):
        assert server.validate(given, body, tools=tools)
    for tools in ([TOOL], [value], {"tide": TOOL}, {"tide": value}):
        refusal = refused(given, call(port="Cobh", when={"day": 4}), tools=tools)
        assert (refusal.code, refusal.http_status) == (-32020, 400)
        assert refusal.message == "Header mismatch: Mcp-Param-Port does not match the argument in the body"


@pytest.mark.req("E3", "E5")
@pytest.mark.parametrize(
    ("more", "arguments", "text"),
    [
        ({}, {"port": "Hull"}, "Mcp-Param-Port is missing"),
        ({"Mcp_Param_Port": "Hull"}, {}, "Mcp-Param-Port came without the argument that it mirrors"),
        ({"Mcp_Param_Port": "Hull"}, {"port": None}, "Mcp-Param-Port came without the argument that it mirrors"),
        ({"Mcp_Param_Port": "H\xfcll"}, {"port": "H\xfcll"}, "a header Mcp-Param-* holds a character that no header"),
        ({"Mcp_Param_Day": "4.5"}, {"when": {"day": 4}}, "Mcp-Param-Day does not match the argument in the body"),
    ],
)
def test_each_mismatch_of_an_argument_is_refused(more: dict[str, str], arguments: Any, text: str) -> None:
    refusal = refused(headers("tools/call", "tide", **more), call(**arguments), tools=[TOOL])
    assert refusal.message.startswith(f"Header mismatch: {text}")


@pytest.mark.req("E3", "E5")
def test_a_mirrored_argument_that_comes_twice_is_refused() -> None:
    given = [*headers("tools/call", "tide", Mcp_Param_Port="Hull").items(), ("mcp-param-port", "Hull")]
    assert refused(given, call(port="Hull"), tools=[TOOL]).code == -32020


@pytest.mark.req("E3")
def test_no_argument_is_compared_for_other_tools_nor_for_a_tool_that_no_client_offers() -> None:
    broken = {"name": "tide", "inputSchema": {"properties": {"port": {"type": "number", "x-mcp-header": "Port"}}}}
    unhelpful: list[Any] = [[], {}, [{**TOOL, "name": "other"}], [broken], [{"name": "tide"}], None]
    for tools in unhelpful:
        assert server.validate(headers("tools/call", "tide"), call(port="Hull"), tools=tools)
    absent = request("tools/call", name="tide")
    assert server.validate(headers("tools/call", "tide"), absent, tools=[TOOL])
    wrong = request("tools/call", name="tide", arguments=[1])
    assert refused(headers("tools/call", "tide"), wrong, tools=[TOOL]).code == -32602


# --- refusals as values --------------------------------------------------------------------------


@pytest.mark.req("E3")
def test_each_code_has_the_status_that_the_specification_gives_it() -> None:
    codes = [-32700, -32600, -32602, -32020, -32021, -32022, -32601, -32603, -1]
    assert [server.http_status(code) for code in codes] == [400, 400, 400, 400, 400, 400, 404, 200, 200]
    assert server.Refusal(-32601, "Method not found").http_status == 404
    assert server.Refusal(-32603, "Internal error", http_status=500).http_status == 500


@pytest.mark.req("E3")
def test_a_refusal_becomes_a_response_with_the_id_that_is_known() -> None:
    refusal = server.Refusal(-32021, "Missing capability", {"requiredCapabilities": {"sampling": {}}}, id="a")
    assert refusal.to_response()["id"] == "a"
    assert refusal.to_response(0)["id"] == 0
    assert refusal.to_response()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    for twin in (pickle.loads(pickle.dumps(refusal)), copy.copy(refusal)):
        assert twin.to_response() == refusal.to_response()
        assert twin.http_status == 400


@pytest.mark.req("E3", "G1")
def test_no_refusal_quotes_what_was_sent() -> None:
    meta = {P + "protocolVersion": "s3cr3t", P + "clientCapabilities": {"s3cr3t": {}}}
    cases: list[tuple[Any, Any]] = [
        (headers(), b'{"s3cr3t"'),
        (headers(), request("s3cr3t")),
        (headers("s3cr3t"), request("s3cr3t", {**META, "s3cr3t": 1, P + "logLevel": "s3cr3t"})),
        (headers("s3cr3t"), request("s3cr3t", meta)),
        (headers("s3cr3t", MCP_Protocol_Version="s3cr3t"), request("s3cr3t", meta)),
        (headers("tools/call", "s3cr3t"), request("tools/call", name="tide")),
        (headers("tools/call", "tide", Mcp_Param_Port="s3cr3t"), call(port="s3cr3t2")),
    ]
    for given, body in cases:
        refusal = refused(given, body, tools=[TOOL])
        assert "s3cr3t" not in f"{refusal} {refusal!r} {refusal.message}"


# --- the example of the documentation ------------------------------------------------------------

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
[EXAMPLE] = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "async def app" in block]
MIRRORING = EXAMPLE.replace('"a": {"type": "integer"}', '"a": {"type": "integer", "x-mcp-header": "A"}')


@pytest.fixture(scope="module", params=[EXAMPLE, MIRRORING], ids=["as printed", "with a mirrored argument"])
def example_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The README's server under uvicorn."""
    assert EXAMPLE != MIRRORING
    file = tmp_path_factory.mktemp("asgi") / "example.py"
    file.write_text(request.param)
    with launch.asgi_over_http(file) as url:
        yield url


@pytest.mark.req("E3", "E4")
def test_ferrule_calls_the_example(example_url: str, flavour: Flavour, request: pytest.FixtureRequest) -> None:
    client = flavour.connect(example_url)
    assert (client.era, client.protocol_version) == ("stateless", "2026-07-28")
    assert [tool.name for tool in client.list_tools()] == ["add"]
    with pytest.raises(errors.MethodNotFound) as caught:
        client.call_tool("subtract", {})
    assert caught.value.http_status == 404
    if "printed" in request.node.name:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@pytest.mark.req("E3", "E4", "E5")
def test_the_official_python_client_calls_the_example(example_url: str) -> None:
    from mcp import Client, MCPError

    async def use() -> None:
        async with Client(example_url) as client:
            assert client.protocol_version == "2026-07-28"
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert json.loads(result.content[0].text) == 3  # type: ignore[union-attr]
            with pytest.raises(MCPError) as caught:
                await client.call_tool("subtract", {})
            assert caught.value.error.code == -32601

    asyncio.run(asyncio.wait_for(use(), 30))
