"""The response cache with the official Python SDK's server, which gives hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ferrule import MemoryCache
from tests.servers import launch


@pytest.fixture
def caching_url() -> Iterator[str]:
    with launch.caching_over_http() as url:
        yield url


@pytest.mark.req("C1", "C3", "C6")
def test_a_real_servers_hints_are_kept_to(flavour: Any, caching_url: str) -> None:
    store = MemoryCache()
    client = flavour.connect(caching_url, cache=store, auth="ann")
    other = flavour.connect(caching_url, cache=store, auth="bob")

    def names(asked: Any, **options: Any) -> set[str]:
        return {tool.name for tool in asked.list_tools(**options)}

    assert names(client) == {"grow"}
    client.call_tool("grow", {})
    # Nobody said that the list changed: for a minute it may be used, by everybody.
    assert names(client) == names(other) == {"grow"}
    assert names(other, cache="bypass") == {"grow", "grown"}
    assert names(other, cache="refresh") == names(client) == {"grow", "grown"}

    # What is read is each caller's own.
    assert [one.read_resource("demo://count").text for one in (client, other, client, other)] == ["1", "2", "1", "2"]
    client.clear_cache()
    assert client.read_resource("demo://count").text == "3"
