"""Listings, hints for caches, capabilities, and who answered."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.errors import InvalidResult
from ferrule.types import (
    CallToolResult,
    CompleteResult,
    Completion,
    DiscoverResult,
    Implementation,
    InitializeResult,
    ListCapability,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Progress,
    PromptArgument,
    ReadResourceResult,
    ResourcesCapability,
    ServerCapabilities,
)
from tests.types.vectors import CAPABILITIES, PROMPT, RESOURCE, SERVER, TEMPLATE, TOOL

LISTINGS: list[tuple[Any, str, dict[str, Any]]] = [
    (ListToolsResult, "tools", TOOL),
    (ListPromptsResult, "prompts", PROMPT),
    (ListResourcesResult, "resources", RESOURCE),
    (ListResourceTemplatesResult, "resourceTemplates", TEMPLATE),
]
each_listing = pytest.mark.parametrize(("cls", "name", "item"), LISTINGS)


@each_listing
@pytest.mark.req("X1")
def test_every_listing_gives_its_items_under_one_name(cls: Any, name: str, item: Any) -> None:
    page = cls.from_wire({name: [item, item]})
    assert [part.to_wire() for part in page.items] == [item, item]
    assert page.next_cursor is None
    with pytest.raises(InvalidResult, match=f"{name}: expected array$"):
        cls.from_wire({"nextCursor": "x"})


@each_listing
@pytest.mark.req("P1")
def test_an_empty_cursor_is_a_cursor_and_null_is_none(cls: Any, name: str, item: Any) -> None:
    assert cls.from_wire({name: [], "nextCursor": ""}).next_cursor == ""
    assert cls.from_wire({name: [], "nextCursor": None}).next_cursor is None
    with pytest.raises(InvalidResult, match=r"nextCursor: expected string$"):
        cls.from_wire({name: [], "nextCursor": 2})


CACHEABLE = [
    *LISTINGS,
    (ReadResourceResult, "contents", {"uri": "a:b", "text": ""}),
    (DiscoverResult, "supportedVersions", "2026-07-28"),
]


@pytest.mark.parametrize(("cls", "name", "item"), CACHEABLE)
@pytest.mark.parametrize(
    ("hints", "ttl_ms", "scope"),
    [
        ({}, 0, "private"),
        ({"ttlMs": 60_000, "cacheScope": "public"}, 60_000, "public"),
        ({"ttlMs": 0, "cacheScope": "private"}, 0, "private"),
        ({"ttlMs": -1}, 0, "private"),
        ({"ttlMs": 1.5, "cacheScope": "shared"}, 0, "private"),
        ({"ttlMs": "60000", "cacheScope": 1}, 0, "private"),
        ({"ttlMs": True, "cacheScope": None}, 0, "private"),
        ({"ttlMs": None, "cacheScope": ["public"]}, 0, "private"),
    ],
)
@pytest.mark.req("X1", "V4")
def test_cache_hints_that_make_no_sense_count_as_missing(
    cls: Any, name: str, item: Any, hints: dict[str, Any], ttl_ms: int, scope: str
) -> None:
    wire = {name: [item], "capabilities": {}, **hints}
    result = cls.from_wire(wire)
    assert (result.ttl_ms, result.cache_scope) == (ttl_ms, scope)
    assert result.to_wire() == wire


@pytest.mark.req("X1")
def test_any_result_may_say_who_answered() -> None:
    result = CallToolResult.from_wire({"content": [], "_meta": SERVER})
    assert result.server_info == Implementation("harbour", "3.1")


@pytest.mark.parametrize("info", [None, [], "harbour", {}, {"name": "harbour", "version": 3}])
@pytest.mark.req("X1")
def test_who_answered_is_unknown_when_its_shape_is_wrong(info: Any) -> None:
    meta = {"io.modelcontextprotocol/serverInfo": info}
    assert CallToolResult.from_wire({"content": [], "_meta": meta}).server_info is None


@pytest.mark.req("X1")
def test_an_initialize_result_has_its_server_info_as_a_field() -> None:
    wire = {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "harbour", "version": "3.1"},
    }
    result = InitializeResult.from_wire(wire)
    assert result.server_info == Implementation("harbour", "3.1")
    assert result.instructions is None
    for name in wire:
        with pytest.raises(InvalidResult, match=f"^initialize: {name}: expected "):
            InitializeResult.from_wire({k: v for k, v in wire.items() if k != name}, "initialize")


@pytest.mark.req("X1")
def test_capabilities_are_typed_and_the_whole_is_kept() -> None:
    capabilities = ServerCapabilities.from_wire(CAPABILITIES)
    assert capabilities.tools == ListCapability(list_changed=True)
    assert capabilities.resources == ResourcesCapability(list_changed=False, subscribe=True)
    assert capabilities.prompts == ListCapability()
    assert capabilities.logging == {}
    assert capabilities.completions == {}
    assert capabilities.extensions == {"example.com/charts": {"datum": "LAT"}}
    assert capabilities.experimental == {"tides": {"v": 2}}
    assert capabilities.tasks == CAPABILITIES["tasks"]
    assert capabilities.raw == CAPABILITIES


@pytest.mark.req("X1")
def test_a_capability_that_was_not_declared_is_none() -> None:
    capabilities = ServerCapabilities.from_wire({"tools": {}, "prompts": None})
    assert "tools" in capabilities
    assert "prompts" not in capabilities
    assert "resources" not in capabilities
    assert (capabilities.prompts, capabilities.logging, capabilities.tasks) == (None, None, None)
    assert (capabilities.extensions, capabilities.experimental) == ({}, {})
    assert "somethingNew" in ServerCapabilities.from_wire(CAPABILITIES)


@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        ({"tools": True}, "tools: expected object"),
        ({"tools": {"listChanged": "yes"}}, "tools.listChanged: expected boolean"),
        ({"resources": {"subscribe": 1}}, "resources.subscribe: expected boolean"),
        ({"logging": []}, "logging: expected object"),
        ({"extensions": ["a"]}, "extensions: expected object"),
    ],
)
@pytest.mark.req("X1")
def test_a_capability_of_a_wrong_shape_is_named(wire: dict[str, Any], problem: str) -> None:
    discovered = {"supportedVersions": [], "capabilities": wire}
    with pytest.raises(InvalidResult) as caught:
        DiscoverResult.from_wire(discovered, "server/discover")
    assert str(caught.value) == f"server/discover: capabilities.{problem}"


@pytest.mark.req("X1")
def test_versions_are_texts() -> None:
    wire = {"supportedVersions": ["2026-07-28", 2025], "capabilities": {}}
    with pytest.raises(InvalidResult, match=r"supportedVersions\[1\]: expected string$"):
        DiscoverResult.from_wire(wire)


@pytest.mark.req("X1")
def test_a_completion_has_its_values() -> None:
    result = CompleteResult.from_wire({"completion": {"values": ["Cork", "Cobh"]}})
    assert result.completion == Completion(("Cork", "Cobh"))
    assert (result.completion.total, result.completion.has_more) == (None, False)
    with pytest.raises(InvalidResult, match=r"completion\.values\[0\]: expected string$"):
        CompleteResult.from_wire({"completion": {"values": [None]}})


@pytest.mark.parametrize("token", ["t", "", 0, 2**70])
def test_progress_belongs_to_a_token_of_text_or_integer(token: str | int) -> None:
    progress = Progress.from_wire({"progressToken": token, "progress": 3, "total": 4.5})
    assert progress == Progress(3, token, 4.5)
    assert progress.message is None


@pytest.mark.parametrize("token", [None, True, 1.5, [], {}])
@pytest.mark.req("X1")
def test_progress_of_another_token_is_refused(token: Any) -> None:
    with pytest.raises(InvalidResult, match=r"progressToken: expected string or integer$"):
        Progress.from_wire({"progressToken": token, "progress": 3})


def test_an_argument_of_a_prompt_is_optional_unless_it_says_otherwise() -> None:
    assert PromptArgument.from_wire({"name": "port"}).required is False
    assert PromptArgument.from_wire({"name": "port", "required": True}).required is True
