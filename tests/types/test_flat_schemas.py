"""The forms of elicitations: defaults, and what fits."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.types import CreateMessageResult, ElicitRequest, ElicitResult, LogMessage, TextContent, fill_defaults


def request_for(**properties: Any) -> ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": ["must"] if "must" in properties else []}
    return ElicitRequest("?", requested_schema=schema)


NAMED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}, 5, {"title": "odd"}]


@pytest.mark.req("I5")
@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ({"type": "string"}, ["", "x", "ü"], [5, None, True, ["x"], {}]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc", "üüü"], ["a", "abcd"]),
        ({"type": "string", "minLength": "2", "maxLength": None}, [""], []),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", "A", ""]),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, ["a"], ["A"]),
        ({"type": "string", "oneOf": NAMED}, ["r", "g"], ["Red", "odd"]),
        ({"type": "string", "enum": "a"}, ["anything"], []),
        ({"type": "string", "pattern": "(a+)+$"}, ["a" * 1000 + "b"], []),
        ({"type": "string", "format": "email"}, ["a@b", "a.b+c@d.example"], ["a", "@b", "a@", "a b@c"]),
        (
            {"type": "string", "format": "uri"},
            ["https://x/", "urn:x:y", "mailto:a@b"],
            ["x", ":x", "1a:b", "a:", "a:b c"],
        ),
        ({"type": "string", "format": "date"}, ["2026-02-28"], ["2026-02-30", "20260228", "2026-W09-1", "x"]),
        (
            {"type": "string", "format": "date-time"},
            ["2026-02-28T10:00:00Z", "2026-02-28T10:00:00.5+01:00"],
            ["2026-02-28", "2026-02-28 10:00:00Z", "2026-02-28T10:00:00", "x"],
        ),
        ({"type": "string", "format": "unheard-of"}, ["x"], []),
        ({"type": "integer"}, [0, -5, 2.0, 2**70], [1.5, "1", True, None]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3], [0, 4]),
        ({"type": "number", "minimum": 0.5}, [0.5, 1, 1e300], [0.4, float("nan"), float("inf"), True, "1"]),
        ({"type": "number", "minimum": "x", "maximum": True}, [-1e9], []),
        ({"type": "boolean"}, [True, False], [0, 1, "true", None]),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            [[], ["a"], ("b", "a")],
            ["a", ["c"], [1]],
        ),
        ({"type": "array", "items": {"anyOf": NAMED}, "minItems": 1, "maxItems": 1}, [["r"]], [[], ["r", "g"], ["x"]]),
        ({"type": "array"}, [["anything"]], [[{}]]),
        ({"type": "object"}, ["x", 1, True, ["x"]], [{}, None, [1]]),
        ({"type": ["string"]}, ["x"], [{}]),
        ({}, ["x", 1], [None, [[]]]),
        (5, ["x"], [None]),
    ],
)
def test_what_fits_a_field(wanted: Any, good: list[Any], bad: list[Any]) -> None:
    request = request_for(field=wanted)
    for value in good:
        assert request.problems({"field": value}) == []
    for value in bad:
        [problem] = request.problems({"field": value})
        assert problem.startswith("field: expected ")


@pytest.mark.req("I5")
def test_required_fields_have_to_be_there_and_others_may_be_added() -> None:
    request = request_for(must={"type": "string"})
    assert request.problems({}) == ["must: is required"]
    assert request.problems({"must": "x", "more": 1}) == []
    assert request.problems({"must": "x", "more": None, 5: 1}) == [  # type: ignore[dict-item]
        "more: expected string, number, boolean or array of strings",
        "5: expected a name",
    ]


@pytest.mark.req("I5")
@pytest.mark.parametrize("schema", [{}, {"properties": [1], "required": "x"}, {"properties": None, "required": [5]}])
def test_a_schema_that_makes_no_sense_asks_for_nothing(schema: Any) -> None:
    request = ElicitRequest("?", requested_schema=schema)
    assert request.problems({"a": 1}) == []
    assert request.fill_defaults({"a": 1}) == {"a": 1}


@pytest.mark.req("I5")
def test_defaults_of_every_kind_are_filled_in_under_what_was_entered() -> None:
    choices = ["a"]
    request = request_for(
        text={"type": "string", "default": "x"},
        number={"type": "number", "default": 0},
        flag={"type": "boolean", "default": False},
        many={"type": "array", "items": {"enum": ["a"]}, "default": choices},
        none={"type": "string"},
        odd=5,
    )
    filled = request.fill_defaults({"text": "mine", "other": 1})
    assert filled == {"text": "mine", "number": 0, "flag": False, "many": ["a"], "other": 1}
    filled["many"].append("b")
    assert choices == ["a"]
    assert fill_defaults(request.requested_schema) == {"text": "x", "number": 0, "flag": False, "many": ["a"]}


def test_answers_are_made_in_one_word() -> None:
    assert ElicitResult.accept({"a": 1}).to_wire() == {"action": "accept", "content": {"a": 1}}
    assert ElicitResult.accept().to_wire() == {"action": "accept"}
    assert ElicitResult.decline().to_wire() == {"action": "decline"}
    assert ElicitResult.cancel().to_wire() == {"action": "cancel"}
    said = CreateMessageResult.of_text("Hi", model="m")
    assert said.to_wire() == {
        "model": "m",
        "content": {"type": "text", "text": "Hi"},
        "role": "assistant",
        "stopReason": "endTurn",
    }
    assert said.blocks == (TextContent("Hi"),) and said.text == "Hi"


def test_an_answer_of_several_blocks_is_written_as_a_list() -> None:
    said = CreateMessageResult("m", [TextContent("a"), TextContent("b")], "assistant")
    assert said.to_wire()["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert said == CreateMessageResult.from_wire(said.to_wire())
    assert said.text == "a\nb" and hash(said)


@pytest.mark.req("I6")
def test_the_text_of_a_log_message_is_one_safe_line_of_at_most_a_kibibyte() -> None:
    assert LogMessage("info", "a\x1b[0m\r\n\x85\u2029b").text == "a\\x1b[0m\\r\\n\\x85\\u2029b"
    assert (
        LogMessage("info", {"a": ["\x9b", 2**70, "\ud800"]}).text
        == '{"a": ["\\x9b", 1180591620717411303424, "\\ud800"]}'
    )
    assert len(LogMessage("info", ["x" * 5000]).text.encode()) == 1024


def test_levels_have_their_place_in_pythons_logging() -> None:
    levels = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency", "odd")
    assert [LogMessage(level, 1).severity for level in levels] == [10, 20, 20, 30, 40, 50, 50, 50, 30]
