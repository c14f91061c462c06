"""Tools in the hands of a model's provider: shapes, names, order, and the way back."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import pytest

from ferrule.errors import ConfigError
from ferrule.types import ProviderTools, Tool, tools_for

pytestmark = pytest.mark.req("X3")

PATTERNS = {
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,128}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}",
}
SCHEMA = {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]}


def tool(name: str = "tide", **more: Any) -> Tool:
    return Tool.from_wire({"name": name, "description": "When the water is high", "inputSchema": SCHEMA, **more})


def name_of(definition: dict[str, Any]) -> str:
    return str(definition.get("function", definition)["name"])


def names(provider: str, *originals: str) -> list[str]:
    return [name_of(one) for one in tools_for(provider, [tool(name) for name in originals]).definitions]


def test_each_provider_gets_its_own_shape() -> None:
    text = "When the water is high"
    assert tool().to_openai() == {
        "type": "function",
        "function": {"name": "tide", "description": text, "parameters": SCHEMA},
    }
    assert tool().to_openai(responses=True) == {
        "type": "function",
        "name": "tide",
        "description": text,
        "parameters": SCHEMA,
        "strict": False,
    }
    assert tool().to_anthropic() == {"name": "tide", "description": text, "input_schema": SCHEMA}
    assert tool().to_gemini() == {"name": "tide", "description": text, "parametersJsonSchema": SCHEMA}


def test_a_list_has_the_same_shapes_as_single_tools() -> None:
    assert tools_for("openai", [tool()]).definitions == [tool().to_openai()]
    assert tools_for("openai", [tool()], responses=True).definitions == [tool().to_openai(responses=True)]
    assert tools_for("anthropic", [tool()]).definitions == [tool().to_anthropic()]
    assert tools_for("gemini", [tool()]).definitions == [tool().to_gemini()]


def test_a_title_stands_in_for_a_description_and_nothing_for_neither() -> None:
    assert tool(description=None, title="Tides").to_anthropic()["description"] == "Tides"
    assert "description" not in Tool("tide", SCHEMA).to_anthropic()


def test_what_is_exported_shares_nothing_with_the_tool() -> None:
    one = tool(inputSchema=copy.deepcopy(SCHEMA))
    for exported in (one.to_openai()["function"]["parameters"], one.to_gemini()["parametersJsonSchema"]):
        exported["properties"]["port"]["type"] = "integer"
    assert one.input_schema == SCHEMA


@pytest.mark.parametrize("provider", PATTERNS)
@pytest.mark.parametrize("name", ["a.b", "a/b c", "höhe", "", "7up", "-x", "x" * 64, "y" * 65, "z" * 128, "ü" * 300])
def test_every_name_is_made_valid_and_leads_back(provider: str, name: str) -> None:
    found = tools_for(provider, [tool(name), tool("other")])
    [exported] = [name_of(one) for one in found.definitions if found.name_of(name_of(one)) == name]
    assert re.fullmatch(PATTERNS[provider], exported)
    assert re.fullmatch(PATTERNS[provider], name_of(getattr(tool(name), f"to_{provider}")()))
    if re.fullmatch(PATTERNS[provider], name):
        assert exported == name, "what is valid is kept"


@pytest.mark.parametrize("provider", PATTERNS)
def test_names_that_would_be_the_same_stay_apart_in_whatever_order_the_tools_come(provider: str) -> None:
    originals = ["a/b", "a:b", "a_b", "a b", "l" * 200 + "1", "l" * 200 + "2", "_1", "1", "c"]
    expected = tools_for(provider, [tool(name) for name in originals]).definitions
    assert len({name_of(one) for one in expected}) == len(originals)
    assert {"a_b", "_1", "c"} <= {name_of(one) for one in expected}
    for seed in range(5):
        random.Random(seed).shuffle(originals)
        assert tools_for(provider, [tool(name) for name in originals]).definitions == expected
    found = tools_for(provider, [tool(name) for name in originals])
    assert {found.name_of(name_of(one)) for one in expected} == set(originals)


def test_a_name_made_by_us_gives_way_to_a_tool_that_has_it_already() -> None:
    [made] = [name for name in names("openai", "a/b", "a_b") if name != "a_b"]
    again = names("openai", "a/b", "a_b", made)
    assert len(set(again)) == 3
    assert made in again


def test_a_changed_name_is_readable_where_nothing_stands_against_it() -> None:
    assert names("openai", "admin.tools.list", "b") == ["admin_tools_list", "b"]
    assert names("gemini", "admin.tools.list", "7up") == ["_7up", "admin.tools.list"]


def test_the_order_is_that_of_the_names() -> None:
    assert names("anthropic", "b", "c", "a") == ["a", "b", "c"]


def test_a_schema_without_properties_gets_the_empty_ones_that_are_asked_for() -> None:
    bare = tool(inputSchema={"type": "object", "additionalProperties": False})
    filled = {"type": "object", "additionalProperties": False, "properties": {}}
    assert bare.to_anthropic()["input_schema"] == filled
    assert bare.to_openai()["function"]["parameters"] == filled
    assert bare.to_gemini()["parametersJsonSchema"] == {"type": "object", "additionalProperties": False}
    assert tool(inputSchema={}).to_anthropic()["input_schema"] == {"type": "object", "properties": {}}


def test_alternatives_at_the_top_of_a_schema_become_optional_parameters() -> None:
    """They make the providers refuse the whole request; the server checks what it is called with anyway."""
    either = {
        "type": "object",
        "properties": {"port": {"type": "string"}},
        "oneOf": [
            {"properties": {"day": {"type": "string"}}, "required": ["day"]},
            {"properties": {"week": {"type": "integer", "oneOf": [{"minimum": 1}]}, "port": {}}},
            {"$ref": "#/$defs/x"},
            True,
        ],
        "not": {"required": ["x"]},
        "required": ["port"],
    }
    loosened = tool(inputSchema=either).to_anthropic()["input_schema"]
    assert loosened == {
        "type": "object",
        "properties": {
            "port": {"type": "string"},
            "day": {"type": "string"},
            "week": {"type": "integer", "oneOf": [{"minimum": 1}]},
        },
        "required": ["port"],
    }
    assert tool(inputSchema=either).to_gemini()["parametersJsonSchema"] == either


def test_a_name_that_no_tool_has_is_a_key_error_that_does_not_quote_the_model() -> None:
    found = tools_for("openai", [tool()])
    with pytest.raises(KeyError) as caught:
        found.name_of("s3cr3t")
    assert "s3cr3t" not in str(caught.value)


def test_two_tools_of_one_name_and_unknown_providers_are_refused() -> None:
    with pytest.raises(ConfigError, match="two of them"):
        tools_for("openai", [tool(), tool()])
    with pytest.raises(ConfigError, match="openai, anthropic, gemini"):
        tools_for("mistral", [tool()])


def test_no_tools_are_an_empty_list() -> None:
    found = tools_for("gemini", iter([]))
    assert (found.definitions, len(found)) == ([], 0)
    assert isinstance(found, ProviderTools)


@pytest.mark.req("G1")
def test_the_representation_shows_how_many_there_are() -> None:
    assert repr(tools_for("openai", [tool("s3cr3t")])) == "<ProviderTools for openai, 1 tools>"
