"""Structured content is checked by the schema its tool declared, when the client was asked to."""

from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from ferrule import Limits
from ferrule.errors import ConfigError, InvalidResult, ToolError
from tests.support import child as on_stdio
from tests.support.steps import answer, text, turns
from tests.support.tasking import FAST, state, tasking
from tests.support.tasking import tool as task_tool
from tests.support.tooling import REGION, demanding, listed, page, param_headers, tool

pytestmark = pytest.mark.req("X2")

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "rows": {"type": "array", "items": {"maximum": 3}}},
    "required": ["x"],
    "additionalProperties": {"type": "string"},
}
MISSING = {"content": [{"type": "text", "text": "ok"}], "resultType": "complete"}


def structured(value: Any, **more: Any) -> Any:
    return answer(text("ok", structuredContent=value, **more))


def calling(flavour: Any, serve: Any, schema: Any, result: Any, mode: str = "strict", **options: Any) -> Any:
    """A client that has listed a tool with this output schema, and its server."""
    server = serve({"tools/list": listed(tool(outputSchema=schema)), "tools/call": result})
    client = flavour.connect(server.url, validate_output=mode, **options)
    client.list_tools()
    return client, server


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@ERAS
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_what_conforms_is_returned_and_what_does_not_is_refused(
    flavour: Any, serve: Any, child: Any, era: str, transport: str
) -> None:
    tools, good, bad = page(tool(outputSchema=POINT)), {"x": 1}, {"x": "secret"}
    if transport == "http":
        server: Any = serve(
            {"tools/list": answer(tools), "tools/call": turns(structured(good), structured(bad))}, era=era
        )
        client = flavour.connect(server.url, validate_output="strict")
    else:
        calls = [[on_stdio.answer(text("ok", structuredContent=each))] for each in (good, bad)]
        server = child({"tools/list": [[on_stdio.answer(tools)]], "tools/call": calls}, era=era)
        client = flavour.connect(server.stdio(), validate_output="strict")
    client.list_tools()
    assert client.call_tool("echo").structured_content == good
    with pytest.raises(InvalidResult) as caught:
        client.call_tool("echo")
    assert str(caught.value) == ("tools/call: structuredContent.x: breaks the rule type of the tool's outputSchema")
    assert caught.value.request_sent
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert server.count("tools/call") == 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "structuredContent: breaks the rule required"),
        ({"x": 1, "rows": [1, 2, 99]}, "structuredContent.rows[2]: breaks the rule maximum"),
        ({"x": 1, "secret": 7}, "structuredContent.*: breaks the rule type"),
        (["secret"], "structuredContent: breaks the rule type"),
        (None, "structuredContent: breaks the rule type"),
        (..., "structuredContent: missing"),
    ],
)
def test_the_text_names_the_place_and_the_rule_and_no_content(flavour: Any, serve: Any, value: Any, said: str) -> None:
    result = answer(MISSING) if value is ... else structured(value)
    client, _ = calling(flavour, serve, POINT, result)
    with pytest.raises(InvalidResult) as caught:
        client.call_tool("echo")
    assert caught.value.problem.startswith(said)
    assert "secret" not in repr(caught.value)


@pytest.mark.parametrize("mode", ["off", "warn"])
def test_a_client_that_is_not_strict_returns_it_and_may_warn(
    flavour: Any, serve: Any, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    client, server = calling(flavour, serve, POINT, structured({"x": "secret"}), mode)
    assert client.call_tool("echo").structured_content == {"x": "secret"}
    said = [f"tools/call at {server.url}: structuredContent.x: breaks the rule type of the tool's outputSchema"]
    assert warnings_of(caplog) == (said if mode == "warn" else [])


def test_a_failure_that_the_tool_reports_is_exempt(flavour: Any, serve: Any) -> None:
    client, _ = calling(flavour, serve, POINT, answer(text("why", isError=True)))
    assert client.call_tool("echo").is_error
    with pytest.raises(ToolError):
        client.call_tool("echo", raise_on_error=True)


def test_a_tool_that_was_never_listed_is_not_checked(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool(outputSchema=POINT)), "tools/call": structured({"x": "a"})})
    client = flavour.connect(server.url, validate_output="strict")
    assert client.call_tool("echo").structured_content == {"x": "a"}
    assert server.count("tools/list") == 0


@pytest.mark.req("E6")
def test_a_call_that_is_sent_again_is_checked_by_the_definition_it_goes_out_under_then(
    flavour: Any, serve: Any
) -> None:
    refused = demanding("Mcp-Param-Region", text("ok", structuredContent={}))
    tools = listed(tool(properties={"region": REGION}, outputSchema=POINT))
    server = serve({"tools/list": tools, "tools/call": refused})
    client = flavour.connect(server.url, validate_output="strict")
    with pytest.raises(InvalidResult):
        client.call_tool("echo", {"region": "eu"})
    assert param_headers(server.calls("tools/call")[1]) == {"Region": "eu"}


@pytest.mark.req("C12")
def test_a_kept_list_teaches_the_schema_too(flavour: Any, serve: Any) -> None:
    rules = {"tools/list": listed(tool(outputSchema=POINT)), "tools/call": structured({})}
    server = serve(rules, era="handshake")
    client = flavour.connect(server.url, validate_output="strict", keep_lists=True)
    client.list_tools()
    client._session.standing.definitions = client._session.standing.special = None
    client.list_tools()
    with pytest.raises(InvalidResult):
        client.call_tool("echo")
    assert server.count("tools/list") == 1


@pytest.mark.req("K1")
def test_the_result_of_a_required_task_is_checked(flavour: Any, serve: Any) -> None:
    tools = answer({"tools": [{**task_tool("required"), "outputSchema": POINT}]})
    made = answer({"task": state()})
    server = tasking(serve, **{"tools/list": tools, "tools/call": made, "tasks/result": structured({})})
    client = flavour.connect(server.url, limits=FAST, validate_output="strict")
    client.list_tools()
    with pytest.raises(InvalidResult, match="required"):
        client.call_tool("echo")


@pytest.mark.req("E7")
def test_what_a_caller_does_to_the_schema_changes_no_check(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": listed(tool(outputSchema=POINT)), "tools/call": structured({})})
    client = flavour.connect(server.url, validate_output="strict")
    [found] = client.list_tools()
    found.output_schema.clear()
    with pytest.raises(InvalidResult):
        client.call_tool("echo")


def test_a_schema_is_compiled_once_for_one_definition(flavour: Any, serve: Any) -> None:
    other = {**POINT, "required": []}
    tools = [listed(tool(outputSchema=each)) for each in (POINT, POINT, other)]
    server = serve({"tools/list": turns(*tools), "tools/call": structured({"x": 1})})
    client = flavour.connect(server.url, validate_output="warn")
    kept = []
    for _ in range(3):
        client.list_tools()
        client.call_tool("echo")
        kept.append(client._session.standing.special["echo"].output_schema)
    assert kept[0] is kept[1]
    assert kept[0].checker() is kept[1].checker()
    assert kept[2].checker() is not kept[0].checker()


# --- dialects and references ---------------------------------------------------------------------

SEVEN = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "value", "conforms"),
    [
        ({"prefixItems": [{"type": "string"}]}, [1], False),
        ({"$schema": SEVEN, "prefixItems": [{"type": "string"}]}, [1], True),
        ({"$schema": SEVEN, "items": [{"type": "string"}]}, [1], False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, 1, False),
        ({"$schema": SEVEN, "$ref": "#/definitions/a", "definitions": {"a": {"type": "string"}}}, 1, False),
        ({"type": "integer"}, 2**70, True),
        ({"type": "integer"}, 2.0, True),
        ({"format": "email"}, "none", True),
        ({"pattern": "^(a+)+$"}, "a" * 50_000 + "b", False),
        ({"const": None}, None, True),
        ({"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}}, {"a": {"a": {"b": 1}}}, False),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "nonsense"}, False),
    ],
)
def test_both_dialects_are_understood(flavour: Any, serve: Any, schema: Any, value: Any, conforms: bool) -> None:
    client, _ = calling(flavour, serve, schema, structured(value))
    if conforms:
        assert client.call_tool("echo").structured_content == value
    else:
        with pytest.raises(InvalidResult):
            client.call_tool("echo")


DOUBLING = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(60)}
UNUSABLE: dict[str, tuple[Any, str]] = {
    "another dialect": ({"$schema": "https://example.com/secret"}, "a dialect that is not known"),
    "a reference to the network": ({"$ref": "http://127.0.0.1:1/secret"}, "nothing else is ever fetched"),
    "a reference to a file": ({"$ref": "file:///etc/passwd"}, "nothing else is ever fetched"),
    "a reference to nothing": ({"$ref": "#/$defs/secret"}, "leads to nothing within it"),
    "a type that does not exist": ({"type": "secret"}, "not valid in its dialect"),
    "a pattern that looks ahead": ({"pattern": "(?=secret)"}, "cannot be matched in linear time"),
    "references that double": (
        {"$ref": "#/$defs/a0", "$defs": {**DOUBLING, "a60": {}}},
        "more than 10000 subschemas",
    ),
    "too many bytes": ({"description": "secret" * 200}, "larger than Limits.max_schema_bytes (1024)"),
}


@pytest.mark.parametrize(("schema", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_strict_client_does_not_call_a_tool_whose_results_it_could_not_check(
    flavour: Any, serve: Any, schema: Any, said: str
) -> None:
    limits = Limits(max_schema_bytes=1024 if "bytes" in said else 2**20)
    client, server = calling(flavour, serve, schema, structured({}), limits=limits)
    with pytest.raises(InvalidResult) as caught:
        client.call_tool("echo")
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
    assert (caught.value.method, caught.value.request_sent) == ("tools/list", False)
    assert server.count("tools/call") == 0


@pytest.mark.parametrize(("schema", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_any_other_client_says_that_nothing_was_checked(
    flavour: Any, serve: Any, caplog: pytest.LogCaptureFixture, schema: Any, said: str
) -> None:
    limits = Limits(max_schema_bytes=1024 if "bytes" in said else 2**20)
    client, _ = calling(flavour, serve, schema, structured({}), "warn", limits=limits)
    assert client.call_tool("echo").structured_content == {}
    [warning] = warnings_of(caplog)
    assert "structuredContent is not checked" in warning
    assert said in warning
    assert "secret" not in warning


def test_a_verdict_takes_no_longer_for_content_that_branches_at_each_level(flavour: Any, serve: Any) -> None:
    again = {"properties": {"a": {"$ref": "#"}}}
    value: Any = 5
    for _ in range(60):
        value = {"a": value}
    client, _ = calling(flavour, serve, {"type": "object", "anyOf": [again, again]}, structured(value))
    with pytest.raises(InvalidResult, match="structuredContent: does not conform"):
        client.call_tool("echo", timeout=10)


def test_content_that_lies_too_deep_for_a_recursive_schema_is_refused(flavour: Any, serve: Any) -> None:
    schema: Any = {"properties": {"a": {"$ref": "#"}}}
    for _ in range(60):
        schema = {"allOf": [schema]}
    value: Any = {}
    for _ in range(100):
        value = {"a": value}
    client, _ = calling(flavour, serve, schema, structured(value))
    with pytest.raises(InvalidResult, match="nested too deeply"):
        client.call_tool("echo")


@pytest.mark.parametrize("schema", [{"properties": {"a": {"pattern": "x"}}}, {"required": ["b"]}])
def test_text_that_is_no_unicode_breaks_no_more_than_its_check(flavour: Any, serve: Any, schema: Any) -> None:
    client, _ = calling(flavour, serve, schema, structured({"a": "\ud800"}))
    with pytest.raises(InvalidResult, match=r"no Unicode|breaks the rule required"):
        client.call_tool("echo")


# --- without the extra ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["warn", "strict"])
def test_asking_for_checks_without_the_extra_is_refused_at_once(
    flavour: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ConfigError, match=r"ferrule\[schema\]"):
        flavour.client("http://127.0.0.1:1/mcp", validate_output=mode)
    flavour.client("http://127.0.0.1:1/mcp", validate_output="off")
