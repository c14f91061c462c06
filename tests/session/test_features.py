"""The methods of the protocol through the clients: what they send, return and raise."""

from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import (
    ConfigError,
    FerruleError,
    InputRequired,
    InvalidResult,
    MethodNotFound,
    MissingClientCapability,
    RPCError,
    ToolError,
    UnknownResultType,
)
from tests.support import child as on_stdio
from tests.support.steps import answer, discovered, error, initialized, status, text

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
MARKER = "secret-7f3a"


# --- asking --------------------------------------------------------------------------------------


@pytest.mark.req("N13")
def test_discover_asks_a_stateless_server_each_time(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": answer({**discovered(capabilities={"tools": {}}), "instructions": "be kind"})})
    client = flavour.connect(server.url)
    assert client.instructions == "be kind"
    server.rules["server/discover"] = answer(discovered(["2026-07-28", "2025-11-25"], {"prompts": {}}))
    found = client.discover()
    assert tuple(found.supported_versions) == ("2026-07-28", "2025-11-25")
    assert (found.capabilities.prompts is not None, found.capabilities.tools is None) == (True, True)
    assert found.server_info.name == "scripted"
    assert client.server_capabilities.prompts is not None
    assert client.instructions is None
    assert server.methods == ["server/discover"] * 2


@pytest.mark.req("N13")
def test_discover_tells_what_a_handshake_server_said_at_first(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": answer(initialized("2025-06-18", {"tools": {"listChanged": True}}))}, era="handshake")
    client = flavour.connect(server.url)
    sent = len(server.requests)
    found = client.discover()
    assert tuple(found.supported_versions) == ("2025-06-18",)
    assert found.capabilities.tools is not None
    assert len(server.requests) == sent
    assert client.server_info.name == "scripted"


@pytest.mark.req("N13")
def test_ping_is_a_ping_or_a_discover(flavour: Any, serve: Any) -> None:
    modern, old = serve(), serve(era="handshake")
    assert flavour.connect(modern.url).ping() is None
    assert modern.methods == ["server/discover"] * 2
    assert flavour.connect(old.url).ping() is None
    assert old.methods[-1] == "ping"


@pytest.mark.req("R4")
@ERAS
def test_ping_raises_when_the_server_is_ill(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era, session=None)
    client = flavour.connect(server.url, retry=Retry(attempts=1))
    server.rules["ping"] = server.rules["server/discover"] = status(500)
    with pytest.raises(FerruleError):
        client.ping()


@pytest.mark.req("X1")
@ERAS
def test_a_tools_result_is_typed_and_nothing_of_it_is_lost(flavour: Any, serve: Any, era: str) -> None:
    result = {
        "content": [
            {"type": "text", "text": "one", "annotations": {"priority": 0.5}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "hologram", "beam": 7},
            {"type": "text", "text": "two"},
        ],
        "structuredContent": {"a": 1},
        "isError": True,
        "_meta": {"trace": "t"},
        "later": [1],
    }
    called = flavour.connect(serve({"tools/call": answer(result)}, era=era).url).call_tool("echo", {})
    assert called.is_error is True
    assert "one" in called.text
    assert "two" in called.text
    assert called.structured_content == {"a": 1}
    assert (called.meta["trace"], called.extra["later"]) == ("t", [1])
    assert len(called.content) == 4


@pytest.mark.req("X1")
def test_a_result_with_structured_content_alone_is_accepted(flavour: Any, serve: Any) -> None:
    for value in ({"a": 1}, [1, 2], "text", 7, False):
        server = serve({"tools/call": answer({"structuredContent": value})})
        assert flavour.connect(server.url).call_tool("echo", {}).structured_content == value


@pytest.mark.req("X1")
def test_structured_content_of_the_handshake_era_is_an_object(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": answer({"content": [], "structuredContent": [1]})}, era="handshake")
    with pytest.raises(InvalidResult, match="structuredContent: expected object"):
        flavour.connect(server.url).call_tool("echo", {})


@pytest.mark.req("R4")
@ERAS
def test_a_tools_failure_is_a_result_and_an_exception_only_when_asked_for(flavour: Any, serve: Any, era: str) -> None:
    server = serve({"tools/call": answer(text(MARKER, isError=True))}, era=era)
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}).is_error is True
    with pytest.raises(ToolError) as caught:
        client.call_tool("echo", {}, raise_on_error=True)
    assert (caught.value.name, caught.value.result.text, caught.value.message) == ("echo", MARKER, MARKER)
    assert caught.value.request_sent is True
    assert MARKER not in str(caught.value) + repr(caught.value)
    server.rules["tools/call"] = answer(text("fine"))
    assert client.call_tool("echo", {}, raise_on_error=True).text == "fine"


@pytest.mark.req("X1", "X4")
@ERAS
def test_a_resource_is_read_with_its_texts_and_blobs(flavour: Any, serve: Any, era: str) -> None:
    contents = [
        {"uri": "demo://a", "text": "hello", "mimeType": "text/plain"},
        {"uri": "demo://b", "blob": "aGVsbG8="},
    ]
    server = serve({"resources/read": answer({"contents": contents})}, era=era)
    read = flavour.connect(server.url).read_resource("demo://a b?c=d#e")
    assert server.requests[-1].params["uri"] == "demo://a b?c=d#e"
    assert [one.uri for one in read.contents] == ["demo://a", "demo://b"]
    assert read.contents[0].text == "hello"
    assert read.contents[1].decode() == b"hello"


@pytest.mark.req("X1")
@ERAS
@pytest.mark.parametrize("code", [-32002, -32602])
def test_a_resource_that_is_not_there_is_recognised(flavour: Any, serve: Any, code: int, era: str) -> None:
    server = serve({"resources/read": error(code, "no such thing")}, era=era)
    with pytest.raises(RPCError) as caught:
        flavour.connect(server.url).read_resource("demo://none")
    assert caught.value.is_resource_not_found is True


@pytest.mark.req("X1")
@ERAS
def test_a_prompt_is_filled_in_by_the_server(flavour: Any, serve: Any, era: str) -> None:
    messages = [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    server = serve({"prompts/get": answer({"description": "d", "messages": messages})}, era=era)
    client = flavour.connect(server.url)
    prompt = client.get_prompt("greet", {"who": "you"})
    assert (prompt.description, prompt.messages[0].role, prompt.messages[0].content.text) == ("d", "user", "hi")
    assert server.requests[-1].params["arguments"] == {"who": "you"}
    client.get_prompt("greet")
    assert "arguments" not in server.requests[-1].params


@pytest.mark.req("E1", "X1")
@ERAS
def test_any_request_can_be_sent_and_its_result_comes_as_it_is(flavour: Any, serve: Any, era: str) -> None:
    result = {"a": {"b": [1, None]}, "_meta": {"c": 1}}
    server = serve({"x/y": answer(result)}, era=era)
    client = flavour.connect(server.url)
    params = {"p": 1, "_meta": {"com.example/t": 1}}
    assert client.request("x/y", params) == result
    assert server.requests[-1].params["p"] == 1
    assert server.requests[-1].meta["com.example/t"] == 1
    assert params == {"p": 1, "_meta": {"com.example/t": 1}}
    assert client.request("x/y") == result
    with pytest.raises(MethodNotFound):
        client.request("not/there")


@pytest.mark.req("R4")
@ERAS
def test_an_unknown_request_is_repeated_only_when_its_caller_says_so(flavour: Any, serve: Any, era: str) -> None:
    server = serve({"x/y": status(503)}, era=era)
    client = flavour.connect(server.url, retry=Retry(attempts=3, backoff=0.01))
    for idempotent, count in ((None, 1), (False, 2), (True, 5)):
        with pytest.raises(FerruleError):
            client.request("x/y", idempotent=idempotent)
        assert server.count("x/y") == count
    server.rules["tools/list"] = status(503)
    with pytest.raises(FerruleError):
        client.request("tools/list", idempotent=False)
    assert server.count("tools/list") == 1


@pytest.mark.req("W15")
def test_notifications_are_for_the_handshake_era_over_http(flavour: Any, serve: Any) -> None:
    modern = serve()
    with pytest.raises(ConfigError, match="2026-07-28"):
        flavour.connect(modern.url).notify("notifications/x")
    assert modern.methods == ["server/discover"]
    old = serve({"notifications/x": status(202)}, era="handshake")
    client = flavour.connect(old.url)
    client.notify("notifications/x")
    client.notify("notifications/x", {"a": [1]})
    bare, full = (request.message for request in old.calls("notifications/x"))
    assert bare == {"jsonrpc": "2.0", "method": "notifications/x"}
    assert full == {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": [1]}}


@pytest.mark.req("W15")
@ERAS
def test_notifications_go_over_stdio_in_both_eras(flavour: Any, child: Any, era: str) -> None:
    server = child(era=era)
    client = flavour.connect(server.stdio())
    client.notify("notifications/x", {"a": 1})
    client.call_tool("echo", {})
    assert server.calls("notifications/x") == [{"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}}]


# --- results that are not final ------------------------------------------------------------------

ASKS = {"who": {"method": "elicitation/create", "params": {"message": MARKER}}}


@pytest.mark.req("X1", "R4")
@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("tools/call", lambda client: client.call_tool("echo", {})),
        ("prompts/get", lambda client: client.get_prompt("greet")),
        ("resources/read", lambda client: client.read_resource("demo://a")),
    ],
)
@pytest.mark.parametrize("state", [None, "", MARKER])
def test_a_request_for_input_is_raised_with_requests_and_state(
    flavour: Any, serve: Any, method: str, call: Any, state: str | None
) -> None:
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": ASKS}
    if state is not None:
        result["requestState"] = state
    server = serve({method: answer(result)})
    with pytest.raises(InputRequired) as caught:
        call(flavour.connect(server.url))
    assert caught.value.requests == ASKS
    assert caught.value.state == state
    assert caught.value.request_sent is True
    assert MARKER not in str(caught.value) + repr(caught.value)
    assert server.count(method) == 1


@pytest.mark.req("X1")
def test_a_request_for_input_where_none_is_allowed_is_an_invalid_result(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": answer({"resultType": "input_required", "inputRequests": ASKS})})
    with pytest.raises(InvalidResult, match="tools/list: resultType"):
        flavour.connect(server.url).list_tools()
    assert server.count("tools/list") == 1


@pytest.mark.req("X1")
@pytest.mark.parametrize(
    "result", [{"inputRequests": [1]}, {"inputRequests": ASKS, "requestState": 7}, {"inputRequests": "x"}]
)
def test_a_request_for_input_in_a_wrong_shape_is_an_invalid_result(flavour: Any, serve: Any, result: Any) -> None:
    server = serve({"tools/call": answer({"resultType": "input_required", **result})})
    with pytest.raises(InvalidResult, match="tools/call"):
        flavour.connect(server.url).call_tool("echo", {})


@pytest.mark.req("X1", "M4")
@pytest.mark.parametrize("kind", ["partial", "surprise", MARKER, "", 7, [1]])
def test_an_unknown_kind_of_result_is_refused_and_not_shown(flavour: Any, serve: Any, kind: Any) -> None:
    server = serve({"tools/call": answer({"resultType": kind, "content": []})})
    with pytest.raises(UnknownResultType) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert caught.value.result_type == (kind if isinstance(kind, str) else "")
    assert MARKER not in str(caught.value)
    assert server.count("tools/call") == 1


@pytest.mark.req("X1", "M4")
def test_no_result_type_is_a_complete_result_and_means_nothing_to_a_handshake_server(flavour: Any, serve: Any) -> None:
    assert flavour.connect(serve({"tools/call": answer({"content": []})}).url).call_tool("echo", {}).content == ()
    old = serve({"tools/call": answer({"content": [], "resultType": "surprise"})}, era="handshake")
    assert flavour.connect(old.url).call_tool("echo", {}).content == ()


# --- results of the wrong shape ------------------------------------------------------------------

TOOLS = [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(3)]
WRONG = {
    "a list that is none": ("list_tools", "tools/list", {"tools": {}}, "tools: expected array"),
    "no list": ("list_tools", "tools/list", {}, "tools"),
    "a name": ("list_tools", "tools/list", {"tools": [*TOOLS, {**TOOLS[0], "name": 7}]}, r"tools\[3\]\.name: expected"),
    "no name": ("list_tools", "tools/list", {"tools": [{"inputSchema": {}}]}, r"tools\[0\]\.name"),
    "a schema": ("list_tools", "tools/list", {"tools": [{"name": "a", "inputSchema": []}]}, r"tools\[0\]\.inputSchema"),
    "an item": ("list_tools", "tools/list", {"tools": [MARKER]}, r"tools\[0\]: expected object"),
    "a uri": ("list_resources", "resources/list", {"resources": [{"uri": 1, "name": "a"}]}, r"resources\[0\]\.uri"),
    "a prompt": ("list_prompts", "prompts/list", {"prompts": [{"name": None}]}, r"prompts\[0\]\.name"),
    "content": ("call_tool", "tools/call", {"content": {}}, "content: expected array"),
    "a block": ("call_tool", "tools/call", {"content": [{"type": "text", "text": [MARKER]}]}, r"content\[0\]\.text"),
    "a flag": ("call_tool", "tools/call", {"content": [], "isError": MARKER}, "isError: expected boolean"),
    "contents": ("read_resource", "resources/read", {"contents": 7}, "contents: expected array"),
    "a text": ("read_resource", "resources/read", {"contents": [{"uri": "a", "text": 7}]}, r"contents\[0\]\.text"),
    "messages": ("get_prompt", "prompts/get", {"messages": [{"role": 7}]}, r"messages\[0\]\.role"),
    "versions": ("discover", "server/discover", {"supportedVersions": [7], "capabilities": {}}, "supportedVersions"),
}


@pytest.mark.req("X1", "R4")
@pytest.mark.parametrize(("call", "method", "result", "problem"), WRONG.values(), ids=WRONG.keys())
def test_a_result_of_the_wrong_shape_names_method_and_path_and_no_content(
    flavour: Any, serve: Any, call: str, method: str, result: Any, problem: str
) -> None:
    server = serve({method: answer(result)})
    client = flavour.client(server.url, protocol="stateless", retry=Retry(attempts=3, backoff=0.01))
    given: dict[str, list[Any]] = {"call_tool": ["echo"], "read_resource": ["demo://a"], "get_prompt": ["greet"]}
    with pytest.raises(InvalidResult, match=problem) as caught:
        getattr(client, call)(*given.get(call, []))
    assert caught.value.method == method
    assert str(caught.value).startswith(f"{method}: ")
    assert caught.value.request_sent is True
    assert MARKER not in str(caught.value)
    assert server.count(method) == 1  # asking again would not help


@pytest.mark.req("W12", "X1")
def test_errors_of_the_protocol_have_classes_of_their_own(flavour: Any, serve: Any) -> None:
    required: dict[str, Any] = {"elicitation": {}}
    server = serve({"tools/call": error(-32021, "no", {"requiredCapabilities": required}, status=400)})
    with pytest.raises(MissingClientCapability) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert caught.value.required == required
    server.rules["tools/call"] = error(-32021, "no", {"requiredCapabilities": [1]}, status=400)
    with pytest.raises(RPCError) as plain:
        flavour.connect(server.url).call_tool("echo", {})
    assert type(plain.value) is RPCError


@pytest.mark.req("X1")
def test_what_the_server_says_in_an_error_is_escaped_and_capped(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": error(-32000, "\x1b[31mred\n\u2028" + "x" * 5000)})
    with pytest.raises(RPCError) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    message = caught.value.message
    assert message.startswith("\\x1b[31mred\\n\\u2028xxx")
    assert len(message.encode()) <= 1024
    assert str(caught.value) == f"tools/call: error -32000 from {server.url}"


@pytest.mark.req("X1")
@ERAS
def test_features_work_over_stdio_as_over_http(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[on_stdio.echo()]]}, era=era)
    client = flavour.connect(server.stdio())
    assert client.era == era
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert client.list_tools()
    client.ping()
    assert client.discover().supported_versions
