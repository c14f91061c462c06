"""Tools and their results."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.errors import InvalidResult
from ferrule.types import (
    CallToolResult,
    ImageContent,
    ListToolsResult,
    TextContent,
    Tool,
    ToolAnnotations,
    ToolExecution,
)
from ferrule.types.tools import plain_result
from tests.types.vectors import IMAGE, SCHEMA, TEXT, TOOL

NOW = {"name": "now", "inputSchema": {"type": "object"}}


@pytest.mark.req("X1")
def test_schemas_stay_the_dicts_that_were_received() -> None:
    tool = Tool.from_wire(TOOL)
    assert tool.input_schema is TOOL["inputSchema"]
    assert tool.output_schema is TOOL["outputSchema"]
    assert tool.input_schema == SCHEMA


@pytest.mark.req("X1")
def test_hints_about_a_tool_have_the_defaults_of_the_schema() -> None:
    hints = ToolAnnotations()
    assert hints.title is None
    assert (hints.read_only_hint, hints.destructive_hint) == (False, True)
    assert (hints.idempotent_hint, hints.open_world_hint) == (False, True)
    assert ToolExecution().task_support == "forbidden"
    assert Tool.from_wire(NOW).annotations is None


@pytest.mark.req("X1")
def test_the_fourth_tool_of_a_list_is_named_by_its_index() -> None:
    wire = {"tools": [NOW, NOW, NOW, {"name": 3, "inputSchema": {}}]}
    with pytest.raises(InvalidResult) as caught:
        ListToolsResult.from_wire(wire, "tools/list")
    assert str(caught.value) == "tools/list: tools[3].name: expected string"


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({"inputSchema": {}}, "name: expected string"),
        ({"name": "a"}, "inputSchema: expected object"),
        ({"name": "a", "inputSchema": True}, "inputSchema: expected object"),
        ({**NOW, "outputSchema": []}, "outputSchema: expected object"),
        ({**NOW, "annotations": {"readOnlyHint": "yes"}}, "annotations.readOnlyHint: expected boolean"),
        ({**NOW, "icons": [{"src": 1}]}, "icons[0].src: expected string"),
        ({**NOW, "execution": {"taskSupport": 1}}, "execution.taskSupport: expected string"),
    ],
)
@pytest.mark.req("X1")
def test_a_tool_of_a_wrong_shape_is_named(tool: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidResult, match=r"^tools/list: ") as caught:
        ListToolsResult.from_wire({"tools": [tool]}, "tools/list")
    assert caught.value.problem == f"tools[0].{problem}"


@pytest.mark.req("X4")
def test_the_text_of_a_result_joins_its_text_blocks_by_newlines() -> None:
    wire = {"content": [TEXT, IMAGE, {"type": "text", "text": ""}, {"type": "text", "text": "b"}]}
    assert CallToolResult.from_wire(wire).text == "High water at 14:07\n\nb"
    assert CallToolResult.from_wire({"content": [TEXT]}).text == "High water at 14:07"
    assert CallToolResult.from_wire({"content": [IMAGE]}).text == ""
    assert CallToolResult.from_wire({"content": []}).text == ""


@pytest.mark.req("X1")
def test_content_may_be_missing_beside_structured_content_and_not_otherwise() -> None:
    result = CallToolResult.from_wire({"structuredContent": {"sum": 3}})
    assert (result.content, result.text, result.structured_content) == ((), "", {"sum": 3})
    assert CallToolResult.from_wire({"content": None, "structuredContent": 1}).content == ()
    for wire in ({}, {"isError": True}, {"content": None}):
        with pytest.raises(InvalidResult, match=r"^tools/call: content: expected array$"):
            CallToolResult.from_wire(wire)


@pytest.mark.parametrize("value", [{}, {"a": 1}, [], [1], "x", 7, 1.5, True, False, None])
@pytest.mark.req("X1", "V4")
def test_structured_content_is_any_json_value(value: Any) -> None:
    wire = {"content": [], "structuredContent": value}
    result = CallToolResult.from_wire(wire)
    assert result.structured_content == value
    assert result.is_set("structured_content")
    assert result.to_wire() == wire


@pytest.mark.parametrize("value", [[], [1], "x", 7, 1.5, True, False])
@pytest.mark.req("X1")
def test_structured_content_is_an_object_in_the_handshake_era(value: Any) -> None:
    wire = {"content": [], "structuredContent": value}
    with pytest.raises(InvalidResult) as caught:
        CallToolResult.from_wire(wire, structured_object=True)
    assert str(caught.value) == "tools/call: structuredContent: expected object"
    right: list[dict[str, Any]] = [{"content": []}, {"content": [], "structuredContent": {}}]
    for fine in right:
        assert CallToolResult.from_wire(fine, structured_object=True).to_wire() == fine


@pytest.mark.req("X1")
def test_null_structured_content_counts_as_none_in_the_handshake_era() -> None:
    wire = {"content": [TEXT], "structuredContent": None}
    result = CallToolResult.from_wire(wire, structured_object=True)
    assert result.structured_content is None
    assert result.to_wire() == wire


@pytest.mark.req("X1")
def test_structured_content_that_was_not_sent_is_told_from_null() -> None:
    assert not CallToolResult.from_wire({"content": []}).is_set("structured_content")
    assert CallToolResult().structured_content is None


@pytest.mark.req("X1")
def test_what_a_result_does_not_say_has_the_defaults_of_the_schema() -> None:
    result = CallToolResult.from_wire({"content": [TEXT]})
    assert result.is_error is False
    assert result.result_type == "complete"
    assert result.server_info is None
    assert (result.meta, result.extra) == ({}, {})


@pytest.mark.req("G1")
def test_the_repr_of_a_result_is_its_sizes() -> None:
    wire = {"content": [TEXT, IMAGE], "structuredContent": {"a": 1}, "isError": True, "_meta": {}}
    assert repr(CallToolResult.from_wire(wire)) == (
        "CallToolResult(content=[TextContent(text=str[19]), ImageContent(data=str[12], "
        "mime_type=str[9])], structured_content=dict[1], is_error=True, meta=dict[0])"
    )


def test_results_built_by_hand_are_like_received_ones() -> None:
    by_hand = CallToolResult((TextContent("High water at 14:07"), ImageContent("iVBORw0KGgo=", "image/png")))
    assert by_hand == CallToolResult.from_wire({"content": [TEXT, IMAGE]})
    assert by_hand.to_wire() == {"content": [TEXT, IMAGE]}


TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]
PLAIN = [
    {"content": []},
    {"content": TEXTS},
    {"content": TEXTS, "resultType": "complete"},
    {"resultType": "complete", "content": TEXTS},
    {"content": TEXTS, "isError": False},
    {"content": TEXTS, "isError": True},
    {"_meta": {"a": 1}, "content": TEXTS, "isError": False, "resultType": "complete"},
    {"content": TEXTS, "structuredContent": {"a": [1]}, "isError": False},
]
UNUSUAL = [
    {},
    {"content": None},
    {"content": "a"},
    {"content": TEXTS, "resultType": None},
    {"content": TEXTS, "isError": None},
    {"content": TEXTS, "isError": 1},
    {"content": TEXTS, "_meta": []},
    {"content": TEXTS, "structuredContent": [1]},
    {"content": TEXTS, "structuredContent": None},
    {"content": TEXTS, "somethingNew": 1},
    {"content": ["a"]},
    {"content": [{"type": "text"}]},
    {"content": [{"type": "text", "text": 1}]},
    {"content": [{"type": "text", "text": "a", "annotations": {}}]},
    {"content": [{"type": "image", "data": ""}]},
]


@pytest.mark.req("X1")
@pytest.mark.parametrize("wire", PLAIN)
def test_a_plain_result_is_what_the_table_reads(wire: dict[str, Any]) -> None:
    plain = plain_result(wire)
    by_table = CallToolResult._decode(wire)
    assert plain == by_table
    assert plain is not None
    assert plain._state() == by_table._state()
    assert plain.to_wire() == wire


@pytest.mark.req("X1")
@pytest.mark.parametrize("wire", UNUSUAL)
def test_whatever_is_unusual_is_left_to_the_table(wire: dict[str, Any]) -> None:
    assert plain_result(wire) is None
