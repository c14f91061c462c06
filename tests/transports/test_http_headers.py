"""What each HTTP request says in its headers and its envelope."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.errors import ConfigError
from tests.support.steps import answer

VERSION = "io.modelcontextprotocol/protocolVersion"
INFO = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LEVEL = "io.modelcontextprotocol/logLevel"
MODERN = "2026-07-28"
ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])


def decoded(value: str | None) -> str | None:
    """A header's value as a server reads it."""
    if value is not None and value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value


# --- the envelope --------------------------------------------------------------------------------


@pytest.mark.req("E1")
def test_every_request_of_the_stateless_era_carries_the_envelope(flavour: Any, serve: Any) -> None:
    server = serve({"x/y": answer({})})
    info = {"name": "app", "version": "7"}
    client = flavour.connect(server.url, client_info=info, capabilities={"roots": {}}, log_level="warning")
    client.list_tools()
    client.list_tools_page("c")
    client.call_tool("echo", {})
    client.read_resource("demo://a")
    client.get_prompt("greet")
    client.ping()
    client.request("x/y")
    assert len(server.requests) == 8
    for request in server.requests:
        meta = {VERSION: MODERN, INFO: info, CAPABILITIES: {"roots": {}}, LEVEL: "warning"}
        assert request.meta == meta, request.method


@pytest.mark.req("E1")
def test_the_handshake_era_has_no_envelope(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url, protocol="handshake", log_level="debug")
    client.call_tool("echo", {})
    client.list_tools()
    client.ping()
    assert [request.meta for request in server.requests] == [{}] * 5


@pytest.mark.req("E1")
@ERAS
def test_a_callers_meta_goes_out_beside_the_envelope_and_its_dicts_stay_as_they_are(
    flavour: Any, serve: Any, era: str
) -> None:
    server = serve(era=era)
    standing = {"com.example/a": {"deep": [1]}, "com.example/b": 1}
    client = flavour.connect(server.url, request_meta=standing)
    arguments = {"x": {"_meta": 1}}
    meta = {"com.example/b": 2, "traceparent": "00-1"}
    client.call_tool("echo", arguments, meta=meta)
    sent = server.requests[-1].params
    expected = {"com.example/a": {"deep": [1]}, "com.example/b": 2, "traceparent": "00-1"}
    assert {key: value for key, value in sent["_meta"].items() if "modelcontextprotocol" not in key} == expected
    assert sent["arguments"] == {"x": {"_meta": 1}}
    assert standing == {"com.example/a": {"deep": [1]}, "com.example/b": 1}
    assert meta == {"com.example/b": 2, "traceparent": "00-1"}
    assert arguments == {"x": {"_meta": 1}}


@pytest.mark.req("E1")
def test_keys_of_the_client_cannot_be_set_by_anybody_else(flavour: Any, serve: Any) -> None:
    server = serve()
    forged = {VERSION: "1", INFO: {}, CAPABILITIES: {"x": {}}, LEVEL: "debug", "progressToken": "mine", "ok": 1}
    client = flavour.connect(server.url, request_meta=forged)
    client.call_tool("echo", {"_meta": forged}, meta=forged)
    client.get_prompt("greet", meta=forged)
    client.read_resource("demo://a", meta=forged)
    client.request("tools/list", {"_meta": forged})
    for request in server.requests:
        assert set(request.meta) == {VERSION, INFO, CAPABILITIES, "ok"}
        assert request.meta[VERSION] == MODERN
        assert request.meta[CAPABILITIES] == {}


@pytest.mark.req("E1")
def test_a_request_meta_function_is_asked_for_each_request(flavour: Any, serve: Any) -> None:
    server = serve()
    count = iter(range(100))
    client = flavour.connect(server.url, request_meta=lambda: {"n": next(count)})
    for _ in range(3):
        client.call_tool("echo", {})
    assert [request.meta["n"] for request in server.requests] == [0, 1, 2, 3]
    quiet = flavour.connect(server.url, request_meta=lambda: None)
    assert quiet.call_tool("echo", {}).text == "{}"


@pytest.mark.req("E1")
@ERAS
def test_meta_among_the_arguments_of_tool_or_prompt_is_hoisted(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    arguments: dict[str, Any] = {"a": "1", "_meta": {"trace": "t", "x": 1}}
    client.call_tool("echo", arguments, meta={"x": 2})
    client.get_prompt("greet", arguments)
    called, prompted = (request.params for request in server.requests[-2:])
    assert called["arguments"] == prompted["arguments"] == {"a": "1"}
    assert (called["_meta"]["trace"], called["_meta"]["x"]) == ("t", 2)
    assert (prompted["_meta"]["trace"], prompted["_meta"]["x"]) == ("t", 1)
    assert arguments == {"a": "1", "_meta": {"trace": "t", "x": 1}}


# --- Mcp-* headers -------------------------------------------------------------------------------

REQUESTS: dict[str, tuple[Callable[[Any], Any], str | None]] = {
    "tools/call": (lambda client: client.call_tool("echo", {}), "echo"),
    "prompts/get": (lambda client: client.get_prompt("greet"), "greet"),
    "resources/read": (lambda client: client.read_resource("demo://a?b=c#d"), "demo://a?b=c#d"),
    "tools/list": (lambda client: client.list_tools(), None),
    "tasks/get": (lambda client: client.request("tasks/get", {"taskId": "t-1"}), "t-1"),
    "tasks/update": (lambda client: client.request("tasks/update", {"taskId": "t-2"}), "t-2"),
    "tasks/cancel": (lambda client: client.request("tasks/cancel", {"taskId": "t-3"}), "t-3"),
    "server/discover": (lambda client: client.discover(), None),
    "x/y": (lambda client: client.request("x/y", {"name": "n", "uri": "u"}), None),
}


@pytest.mark.req("E4")
@pytest.mark.parametrize("method", REQUESTS)
def test_each_post_repeats_version_method_and_name(flavour: Any, serve: Any, method: str) -> None:
    call, name = REQUESTS[method]
    server = serve({"*": answer({})})
    client = flavour.connect(server.url, protocol="stateless")
    call(client)
    request = server.requests[-1]
    assert request.method == method
    assert request.header("MCP-Protocol-Version") == request.meta[VERSION] == MODERN
    assert request.header("Mcp-Method") == method
    assert request.header("Mcp-Name") == name
    names = [header.lower() for header, _ in request.headers]
    assert len(names) == len(set(names))


@pytest.mark.req("E4")
def test_the_handshake_era_repeats_nothing(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url, protocol="handshake")
    client.call_tool("echo", {})
    client.read_resource("demo://a")
    assert {request.header("Mcp-Method") for request in server.requests} == {None}
    assert {request.header("Mcp-Name") for request in server.requests} == {None}


NAMES = [
    "plain",
    "with space and, comma",
    "tab\tinside",
    " padded ",
    "trailing ",
    "\ttab",
    "wörld 世界 😀",
    "line1\nline2",
    "a\r\nX-Injected: 1",
    "nul\0",
    "del\x7f",
    "",
    "=?base64?aGVsbG8=?=",
    "=?base64?literal?=",
    "=?base64?",
    "=?BASE64?x?=",
    "x" * 5000,
]


@pytest.mark.req("E4", "W21")
@pytest.mark.parametrize("name", NAMES)
def test_a_server_reads_from_the_header_what_stands_in_the_body(flavour: Any, serve: Any, name: str) -> None:
    server = serve()
    client = flavour.connect(server.url, protocol="stateless")
    client.call_tool(name, {})
    client.read_resource(name)
    client.get_prompt(name)
    assert len(server.requests) == 3
    for request in server.requests:
        value = request.header("Mcp-Name")
        assert decoded(value) == name
        assert value is not None and all(" " <= ch <= "~" or ch == "\t" for ch in value)
        assert request.header("X-Injected") is None
        assert request.params.get("name", request.params.get("uri")) == name


@pytest.mark.req("E4")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_names_are_encoded_as_in_the_specifications_examples(flavour: Any, serve: Any, name: str, value: str) -> None:
    server = serve()
    flavour.connect(server.url, protocol="stateless").call_tool(name, {})
    assert server.requests[0].header("Mcp-Name") == value


# --- the user's own headers ----------------------------------------------------------------------


@pytest.mark.req("W21")
@ERAS
def test_the_users_headers_are_on_every_request(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url, headers={"X-Tenant": "a b", "User-Agent": "app/1"}, auth="t-1")
    client.call_tool("echo", {})
    client.close()
    for request in server.requests:
        assert request.header("X-Tenant") == "a b"
        assert request.header("Authorization") == "Bearer t-1"
        assert [value for name, value in request.headers if name.lower() == "user-agent"] == ["app/1"]


@pytest.mark.req("W21")
@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Session-Id": "x"},
        {"mcp-method": "x"},
        {"MCP-Protocol-Version": "x"},
        {"Content-Length": "1"},
        {"transfer-encoding": "chunked"},
        {"Host": "x"},
        {"Accept": "x"},
        {"X-A": "a\r\nX-B: b"},
        {"X-A": "a\0"},
        {"X-A": "\u2028"},
        {"X A": "a"},
        {"": "a"},
        {"X-A": 1},
    ],
)
def test_headers_that_are_the_clients_or_none_are_a_config_error(flavour: Any, headers: Any) -> None:
    with pytest.raises(ConfigError):
        flavour.client("http://127.0.0.1:9/mcp", headers=headers)


@pytest.mark.req("W21")
@pytest.mark.parametrize("token", ["a\r\nX-Injected: 1", "a\0b", "\u2028"])
@pytest.mark.parametrize("kind", ["text", "function"])
def test_a_token_cannot_inject_anything_and_is_not_shown(flavour: Any, serve: Any, token: str, kind: str) -> None:
    server = serve()
    client = flavour.client(server.url, protocol="stateless", auth=token if kind == "text" else lambda: token)
    with pytest.raises(ConfigError) as caught:
        client.call_tool("echo", {})
    assert "Injected" not in str(caught.value)
    assert caught.value.request_sent is False
    assert server.requests == []


@pytest.mark.req("W21")
def test_a_token_function_is_asked_for_each_request(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    tokens = iter("abcdefg")
    client = flavour.connect(server.url, auth=lambda: next(tokens), protocol="handshake")
    client.call_tool("echo", {})
    client.close()
    assert [request.header("Authorization") for request in server.requests] == [f"Bearer {ch}" for ch in "abcd"]


@pytest.mark.req("W21")
@pytest.mark.parametrize("token", [None, 7, b"bytes"])
def test_a_token_function_that_returns_no_text_is_a_config_error(flavour: Any, serve: Any, token: Any) -> None:
    server = serve()
    client = flavour.client(server.url, protocol="stateless", auth=lambda: token)
    with pytest.raises(ConfigError, match="auth"):
        client.call_tool("echo", {})
    assert server.requests == []


@pytest.mark.req("W21", "E4")
def test_a_methods_name_cannot_inject_a_header(flavour: Any, serve: Any) -> None:
    server = serve({"*": answer({})})
    client = flavour.connect(server.url, protocol="stateless")
    client.request("a\r\nX-Injected: 1")
    assert decoded(server.requests[0].header("Mcp-Method")) == "a\r\nX-Injected: 1"
    assert server.requests[0].header("X-Injected") is None
