"""Stores of the user's: what they are asked, what they hold, and what it costs when they fail."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ferrule.errors import ConfigError
from tests.support.caches import WAYS, AsyncTable, Broken, Table, hinted


def names(found: Any) -> list[str]:
    return [tool.name for tool in found]


@pytest.mark.req("C3")
def test_a_store_of_the_users_is_asked_and_holds_bytes(flavour: Any, serve: Any) -> None:
    table = AsyncTable() if flavour.is_async else Table()
    server = serve(hinted())
    client = flavour.connect(server.url, cache=table)
    assert client.list_tools() == client.list_tools()
    assert server.count("tools/list") == 1
    assert all(type(key) is bytes and type(value) is bytes for key, value in table.entries.items())
    assert len(table.answers()) == 1
    assert "127.0.0.1" not in repr(table.entries)


@pytest.mark.req("C3")
def test_an_asynchronous_store_is_refused_by_the_sync_client(serve: Any) -> None:
    from ferrule import Client

    with Client(serve(hinted()).url, cache=AsyncTable()) as client, pytest.raises(ConfigError, match="asynchronous"):
        client.list_tools()


@pytest.mark.req("C3", "G1")
@pytest.mark.parametrize("broken", ["get", "put", "delete"])
def test_a_store_that_fails_costs_requests_and_never_a_call(
    flavour: Any, serve: Any, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Broken(broken)
    server = serve(hinted())
    client = flavour.connect(server.url, cache=store)
    with caplog.at_level(logging.DEBUG, logger="ferrule"):
        for _ in range(2):
            assert names(client.list_tools()) == ["echo"]
        client.clear_cache()
        assert names(client.list_tools()) == ["echo"]
        assert names(client.list_tools()) == ["echo"]
    # What it was told to forget and still has is not believed.
    assert server.count("tools/list") == (3 if broken == "delete" else 4)
    said = [record for record in caplog.records if "cache" in record.getMessage()]
    assert [record.levelno for record in said].count(logging.WARNING) == 1
    assert "OSError" in said[0].getMessage()
    assert "hunter2" not in caplog.text
    store.broken.clear()
    client.list_tools()
    sent = server.count("tools/list")
    client.list_tools()
    assert server.count("tools/list") == sent


@pytest.mark.req("C3")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda value: value[:-1],
        lambda value: b"ferrule0" + value[8:],
        lambda value: value[:20] + bytes([value[20] ^ 1]) + value[21:],
        lambda value: b"\x80\x04K\x01.",
        lambda value: b"",
        lambda value: value.decode("latin-1"),
        lambda value: value[: -len(value) // 3],
    ],
)
@pytest.mark.parametrize("way", ["tools", "prompts"])
def test_a_value_that_is_not_ours_is_no_answer(flavour: Any, serve: Any, way: str, spoil: Any) -> None:
    table = Table()
    method, ask = WAYS[way]
    server = serve(hinted())
    client = flavour.connect(server.url, cache=table)
    first = ask(client)
    for key in [key for key in table.entries if key[:1] == b"a"]:
        table.entries[key] = spoil(table.entries[key])
    assert ask(client) == first
    assert server.count(method) == 2


@pytest.mark.req("C3")
def test_a_value_under_the_key_of_another_is_no_answer(flavour: Any, serve: Any) -> None:
    table = Table()
    server = serve(hinted())
    client = flavour.connect(server.url, cache=table)
    for uri in ("demo://a", "demo://b"):
        client.read_resource(uri)
    one, other = [key for key in table.entries if key[:1] == b"a"]
    table.entries[one], table.entries[other] = table.entries[other], table.entries[one]
    assert client.read_resource("demo://a").contents[0].uri == "demo://a"
    assert server.count("resources/read") == 3


@pytest.mark.req("C3")
@pytest.mark.parametrize("given", [7, "redis://localhost", {}, object()])
def test_what_is_no_store_is_a_config_error(flavour: Any, given: Any) -> None:
    with pytest.raises(ConfigError, match="cache"):
        flavour.client("http://127.0.0.1:9/mcp", cache=given)


@pytest.mark.req("C6")
@pytest.mark.parametrize("given", [-1, True, "1", float("nan")])
def test_what_is_no_time_is_a_config_error(flavour: Any, given: Any) -> None:
    with pytest.raises(ConfigError, match="stale_if_error"):
        flavour.client("http://127.0.0.1:9/mcp", stale_if_error=given)
