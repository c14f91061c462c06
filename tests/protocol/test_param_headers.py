"""`x-mcp-header`: which tools are valid, what their calls carry, and what a server makes of it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from ferrule._protocol.param_headers import InvalidAnnotation, plan

SAFE = 2**53 - 1
TEXT = {"type": "string", "x-mcp-header": "Region"}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def mirrored(kind: str, value: Any) -> list[tuple[str, str]]:
    return plan(schema(a={"type": kind, "x-mcp-header": "A"})).headers({"a": value})


def compare(value: Any, header: str | None, kind: str = "integer") -> str | None:
    given = {} if header is None else {"mcp-param-a": header}
    return plan(schema(a={"type": kind, "x-mcp-header": "A"})).mismatch({"a": value}, given)


@pytest.mark.req("E5")
def test_a_schema_without_annotations_mirrors_nothing_and_is_false() -> None:
    for plain in ({}, {"type": "object"}, schema(a={"type": "string"}, b={"type": "array", "items": {}})):
        found = plan(plain)
        assert not found
        assert found.headers({"a": 1}) == []
        assert found.mismatch({"a": 1}, {"mcp-param-a": "2"}) is None, "not a header that anybody knows"


@pytest.mark.req("E5")
def test_nested_properties_are_mirrored_from_their_own_place_in_the_order_of_the_schema() -> None:
    nested = schema(
        last={"type": "integer", "x-mcp-header": "Last"},
        where=schema(**{"region": TEXT, "a.b": {"type": "boolean", "x-mcp-header": "dotted"}}),
    )
    found = plan(nested)
    assert found.pairs == (
        ("Mcp-Param-Last", ("last",)),
        ("Mcp-Param-Region", ("where", "region")),
        ("Mcp-Param-dotted", ("where", "a.b")),
    )
    assert found.headers({"where": {"region": "west", "a.b": False}, "region": "no", "last": 7}) == [
        ("Mcp-Param-Last", "7"),
        ("Mcp-Param-Region", "west"),
        ("Mcp-Param-dotted", "false"),
    ]
    assert found.headers({"where": "elsewhere", "last": None}) == []
    assert found.headers({"where": None}) == []


@pytest.mark.req("E5")
@pytest.mark.parametrize("name", ["", " ", "My Region", "Région", "A:B", "A\r\nB", "A\x7f", "(A)", 7, None, ["A"]])
def test_a_name_that_is_no_token_makes_the_tool_invalid(name: object) -> None:
    with pytest.raises(InvalidAnnotation, match="token of HTTP"):
        plan(schema(a={"type": "string", "x-mcp-header": name}))


@pytest.mark.req("E5")
def test_names_that_differ_in_case_alone_make_the_tool_invalid() -> None:
    twice = schema(a=TEXT, b=schema(c={"type": "string", "x-mcp-header": "rEGION"}))
    with pytest.raises(InvalidAnnotation, match="twice"):
        plan(twice)


@pytest.mark.req("E5")
@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "null"], None, 7])
def test_only_strings_integers_and_booleans_may_be_annotated(kind: object) -> None:
    with pytest.raises(InvalidAnnotation, match="string, integer or boolean"):
        plan(schema(a={"type": kind, "x-mcp-header": "A"}))
    with pytest.raises(InvalidAnnotation, match="string, integer or boolean"):
        plan(schema(a={"$ref": "#/$defs/text", "x-mcp-header": "A"}))


@pytest.mark.req("E5")
@pytest.mark.parametrize(
    "misplaced",
    [
        TEXT,
        {"items": TEXT},
        {"properties": {"a": {"type": "array", "items": TEXT}}},
        {"properties": {"a": {"type": "array", "items": schema(b=TEXT)}}},
        {"properties": {"a": {"prefixItems": [{}, TEXT]}}},
        {"properties": {"a": {"contains": TEXT}}},
        {"oneOf": [schema(a=TEXT)]},
        {"anyOf": [{}, schema(a=TEXT)]},
        {"allOf": [schema(a=TEXT)]},
        {"not": schema(a=TEXT)},
        {"if": schema(a=TEXT)},
        {"then": schema(a=TEXT)},
        {"else": schema(a=TEXT)},
        {"$defs": {"text": TEXT}},
        {"definitions": {"properties": TEXT}},
        {"patternProperties": {"^a": TEXT}},
        {"additionalProperties": TEXT},
        {"dependentSchemas": {"a": schema(b=TEXT)}},
        {"propertyNames": TEXT},
        {"fromTheFuture": schema(a=TEXT)},
    ],
)
def test_an_annotation_that_properties_alone_do_not_lead_to_makes_the_tool_invalid(misplaced: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnnotation, match="only properties"):
        plan({"type": "object", **misplaced})


@pytest.mark.req("E5")
def test_what_only_looks_like_an_annotation_is_none() -> None:
    """A property of that name, and data of the tool's author."""
    alike = {"x-mcp-header": "Not A Token"}
    found = plan(
        {
            "properties": {
                "x-mcp-header": {"type": "object", "default": alike, "examples": [alike], "const": alike},
                "enum": TEXT,
                "other": {"enum": [alike, 1]},
            },
            "$defs": {"x-mcp-header": {"type": "string"}},
        }
    )
    assert found.pairs == (("Mcp-Param-Region", ("enum",)),)


@pytest.mark.req("E5")
def test_a_reference_is_not_followed() -> None:
    assert not plan({"$defs": {"a": {"$ref": "#"}}, "properties": {"a": {"$ref": "https://elsewhere.example/x"}}})


@pytest.mark.req("E5")
def test_a_schema_as_deep_as_json_may_be_is_read() -> None:
    deep: dict[str, Any] = dict(TEXT)
    for _ in range(3000):
        deep = schema(a=deep)
    [(name, path)] = plan(deep).pairs
    assert (name, len(path)) == ("Mcp-Param-Region", 3000)


@pytest.mark.req("E5")
def test_values_are_spelled_and_encoded_by_the_specifications_rules() -> None:
    assert mirrored("string", "us-west1") == [("Mcp-Param-A", "us-west1")]
    assert mirrored("string", "") == [("Mcp-Param-A", "")], "an empty string is a value"
    assert mirrored("string", "é") == [("Mcp-Param-A", "=?base64?w6k=?=")]
    assert mirrored("string", " a") == [("Mcp-Param-A", "=?base64?IGE=?=")]
    assert mirrored("string", "a\r\nX: 1") == [("Mcp-Param-A", "=?base64?YQ0KWDogMQ==?=")]
    assert mirrored("string", "=?base64?literal?=") == [("Mcp-Param-A", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")]
    assert mirrored("boolean", True) == [("Mcp-Param-A", "true")]
    assert mirrored("boolean", False) == [("Mcp-Param-A", "false")]
    assert mirrored("integer", -7) == [("Mcp-Param-A", "-7")]
    assert mirrored("integer", 7.0) == [("Mcp-Param-A", "7")], "an integer, as JSON Schema sees it"
    assert mirrored("integer", SAFE) == [("Mcp-Param-A", str(SAFE))]
    assert mirrored("integer", -SAFE) == [("Mcp-Param-A", str(-SAFE))]


@pytest.mark.req("E5")
def test_what_no_header_can_carry_is_left_out() -> None:
    unfit: list[Any] = [None, SAFE + 1, -SAFE - 1, 10**400, 1.5, float("inf"), float("nan"), [], {}, "\ud800"]
    for value in unfit:
        assert mirrored("integer", value) == []


@pytest.mark.req("E5")
def test_a_value_of_another_primitive_type_is_mirrored_as_what_it_is() -> None:
    """A value that was given has a header; that it is of the wrong type the tool's schema says."""
    assert mirrored("integer", "seven") == [("Mcp-Param-A", "seven")]
    assert mirrored("string", True) == [("Mcp-Param-A", "true")]


@pytest.mark.req("E3", "E5")
def test_what_a_client_sends_a_server_accepts() -> None:
    found = plan(schema(a={"type": "string", "x-mcp-header": "A"}))
    values: list[Any] = ["us-west1", "", " é\n", "=?base64?x?=", True, False, 0, -7, 7.0, SAFE, -SAFE]
    for value in [*values, None, SAFE + 1, [], 1.5]:
        given = {name.lower(): text for name, text in found.headers({"a": value})}
        assert found.mismatch({"a": value}, given) is None


@pytest.mark.req("E3")
def test_integers_are_compared_by_value_and_exactly() -> None:
    for same in ("42", "42.0", "42.000", "042", "42."):
        assert compare(42, same) is None
        assert compare(42.0, same) is None
    assert compare(0, "-0") is None
    assert compare(-7, "-7.0") is None
    for other in ("43", "42.5", "4.2e1", "+42", "0x2a", "4_2", " 42", "٤٢", "", "-", "42.0.0", "--42", "9" * 5000):
        assert compare(42, other) is not None, other
    assert compare(SAFE, f"{SAFE}.4") is not None, "not even where a float would round it"


@pytest.mark.req("E3")
def test_texts_and_booleans_are_compared_as_they_are() -> None:
    assert compare("42", "42.0") is not None
    assert compare("West", "west") is not None
    assert compare(True, "True") is not None
    assert compare(True, "1") is not None
    assert compare("é", "=?base64?w6k=?=") is None
    assert compare(42, "=?base64?NDI=?=") is None, "decoded before anything else"


@pytest.mark.req("E3")
def test_each_mismatch_is_named_by_its_header_and_never_by_its_content() -> None:
    assert compare("s3cr3t", None) == "Mcp-Param-A is missing"
    assert compare(None, "s3cr3t") == "Mcp-Param-A came without the argument that it mirrors"
    assert compare("s3cr3t", "other") == "Mcp-Param-A does not match the argument in the body"
    assert compare("s3cr3t", "=?base64?!!?=") == "Mcp-Param-A is not valid base64 of UTF-8"
    assert compare("s3cr3t", "=?base64?/w==?=") == "Mcp-Param-A is not valid base64 of UTF-8"
    assert compare([1], "s3cr3t") == "Mcp-Param-A does not match the argument in the body"


@pytest.mark.req("E5")
def test_what_was_found_cannot_be_changed_and_can_be_kept() -> None:
    found = plan(schema(a=TEXT))
    with pytest.raises(AttributeError, match="immutable"):
        found.pairs = ()  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
    assert repr(found) == "<ParamHeaders of 1 arguments>"


@pytest.mark.req("E5")
def test_a_reason_never_quotes_the_schema() -> None:
    with pytest.raises(InvalidAnnotation) as caught:
        plan(schema(s3cr3t={"type": "s3cr3t", "x-mcp-header": "s3cr3t"}))
    assert "s3cr3t" not in caught.value.reason
    assert str(caught.value) == caught.value.reason
