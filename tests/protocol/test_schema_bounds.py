"""What checking by a schema costs, and that all it refers to is inside it, before it is used."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule._protocol.schema_bounds import DEEPEST, MOST_FRAMES, UnusableSchema, bounds, dialect

pytestmark = pytest.mark.req("X2")
MOST = 1000


def chain(length: int) -> dict[str, Any]:
    """References that lead from one schema to the next."""
    links = {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/a0", "$defs": {**links, f"a{length}": {"type": "string"}}}


def doubling(times: int) -> dict[str, Any]:
    """Each schema applies the next one twice."""
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(times)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{times}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "known"),
    [
        ({}, "2020-12"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema"}, "2020-12"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema#"}, "2020-12"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "draft-07"),
        ({"$schema": "http://json-schema.org/draft-07/schema"}, "draft-07"),
    ],
)
def test_a_schema_is_of_2020_12_unless_it_names_draft_07(schema: Any, known: str) -> None:
    assert dialect(schema) == known


@pytest.mark.parametrize("named", ["https://example.com/own", "http://json-schema.org/draft-04/schema#", 7, None])
def test_any_other_dialect_is_refused_without_naming_it(named: Any) -> None:
    with pytest.raises(UnusableSchema, match="2020-12 and draft-07") as caught:
        dialect({"$schema": named})
    assert "example" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"type": "string"}, 1),
        ({"properties": {"a": {}, "b": True}, "items": {"not": {}}, "const": {"not": {}}}, 5),
        ({"items": [{}, {}], "additionalItems": {}, "dependencies": {"a": ["b"], "c": {}}}, 6),
        ({"allOf": [{}, {}], "if": {}, "then": {}, "else": {}, "patternProperties": {"x": {}}}, 7),
        ({"$defs": {"unused": {"items": {}}}}, 1),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {}}}}, 3),
        (doubling(3), 30),
        ({"allOf": [{"allOf": [{}], "unevaluatedItems": True}], "unevaluatedProperties": False}, 13),
    ],
)
def test_each_subschema_counts_as_often_as_it_is_reached(schema: Any, count: int) -> None:
    found = bounds(schema, MOST)
    assert (found.subschemas, found.recursive) == (count, False)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/definitions/a~1b%25", "definitions": {"a/b%": {}}},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
        {"$dynamicRef": "#here", "$defs": {"a": {"$dynamicAnchor": "here"}}},
        {"$ref": "#here", "definitions": {"a": {"$id": "#here"}}},
        {"$id": "https://example.com/s", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$id": "https://example.com/s", "$ref": "s#/$defs/a", "$defs": {"a": {}}},
        {"$id": "https://example.com/s", "$ref": "https://example.com/s#/$defs/a", "$defs": {"a": {}}},
        {"$id": "https://example.com/s", "$ref": "other", "$defs": {"a": {"$id": "https://example.com/other"}}},
        {"$id": "urn:example:s", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$ref": "#/prefixItems/1", "prefixItems": [{}, {}]},
        {"$ref": "#/x-own/0", "x-own": [{}]},
    ],
)
def test_references_within_the_document_are_found(schema: Any) -> None:
    assert bounds(schema, MOST).subschemas >= 2


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/secret"},
        {"$ref": "http://127.0.0.1:1/secret#/$defs/a", "$defs": {"a": {}}},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "secret.json"},
        {"$ref": "#/$defs/secret"},
        {"$ref": "#secret"},
        {"$ref": "#/prefixItems/9", "prefixItems": [{}]},
        {"$ref": "#/prefixItems/²", "prefixItems": [{}]},
        {"$ref": "http://[secret"},
        {"items": {"properties": {"a": {"$dynamicRef": "//example.com/secret"}}}},
        {"$id": "https://example.com/a/", "$defs": {"b": {"$id": "b"}}, "$ref": "secret#/$defs/b"},
    ],
)
def test_a_reference_that_leads_out_of_the_document_is_refused_without_naming_it(schema: Any) -> None:
    with pytest.raises(UnusableSchema) as caught:
        bounds(schema, MOST)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"items": {"$ref": "#/$defs/a"}}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_a_schema_that_comes_back_to_itself_is_recursive(schema: Any) -> None:
    assert bounds(schema, MOST).recursive


def test_references_that_double_are_counted_and_not_followed_one_by_one() -> None:
    assert bounds(doubling(7), MOST).subschemas == 510
    with pytest.raises(UnusableSchema, match="more than 1000 subschemas"):
        bounds(doubling(60), MOST)


def test_schemas_may_lie_in_each_other_only_so_deep() -> None:
    assert bounds(chain(DEEPEST - 1), MOST).subschemas == DEEPEST + 1
    with pytest.raises(UnusableSchema, match=f"more than {DEEPEST} levels"):
        bounds(chain(DEEPEST), MOST)
    nested: dict[str, Any] = {}
    for _ in range(DEEPEST + 1):
        nested = {"not": nested}
    with pytest.raises(UnusableSchema, match="levels"):
        bounds(nested, MOST)


def test_what_was_looked_at_on_a_short_way_is_deep_on_a_long_one_too() -> None:
    schema = chain(DEEPEST + 50)
    far = {"$ref": f"#/$defs/a{DEEPEST - 50}"}
    with pytest.raises(UnusableSchema, match="levels"):
        bounds({"$defs": schema["$defs"], "allOf": [far, {"$ref": "#/$defs/a0"}]}, 10 * MOST)


def test_the_names_of_properties_are_known() -> None:
    schema = {"properties": {"a": {"items": {"properties": {"b": {}}}}}, "$defs": {"x": {"properties": {"c": {}}}}}
    assert bounds(schema, MOST).names == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("schema", "depth"),
    [({"items": {"$ref": "#"}}, MOST_FRAMES // 3), ({"allOf": [{"not": {"items": {"$ref": "#"}}}]}, MOST_FRAMES // 5)],
)
def test_how_deep_a_value_may_be_depends_on_what_a_recursive_schema_does_at_each_level(schema: Any, depth: int) -> None:
    found = bounds(schema, MOST)
    value: Any = {"leaf": 1}
    for _ in range(depth - 1):
        value = [value]
    assert found.bear(value)
    assert not found.bear([value])
    assert bounds({"items": {}}, MOST).bear([value])
