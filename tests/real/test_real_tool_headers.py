"""Arguments in headers and output schemas, with servers of the official SDK, which refuses what does not match."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ferrule import Client
from ferrule.errors import HeaderMismatch
from tests.real.conftest import SDK, Real, on_sdk_servers

pytestmark = pytest.mark.timeout(120)

PLACES = [("eu-west", 3), ("Zürich", -7), (" padded ", 2**53 - 1), ("=?base64?eA==?=", 0), ("line\nbreak", 1)]


@pytest.mark.req("E5", "E4", "X2")
@on_sdk_servers
def test_arguments_arrive_in_headers_where_there_are_any_and_results_conform(
    new_client: Callable[..., Client], real: Real
) -> None:
    client = new_client(validate_output="strict")
    client.list_tools()
    mirrored = real.name == "sdk-http"
    for region, level in PLACES:
        found = client.call_tool("locate", {"region": region, "level": level}).structured_content
        assert (found["region"], found["level"]) == (region, level)
        assert (found["header"] is not None) is mirrored
    client.close()


@pytest.mark.req("E6", "R2")
@pytest.mark.parametrize("real", [SDK[0]], ids=str, indirect=True)
def test_a_tool_of_the_sdk_is_called_without_having_been_listed(new_client: Callable[..., Client], real: Real) -> None:
    client = new_client()
    with pytest.raises(HeaderMismatch):
        client.request("tools/call", {"name": "locate", "arguments": {"region": "eu"}})
    assert client.call_tool("locate", {"region": "eu"}).structured_content["header"] == "eu"
    client.close()
