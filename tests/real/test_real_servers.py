"""The main job on servers that nobody here wrote, and on the demo server.

Both eras, both wires, both clients: see `conftest.py` for the matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ferrule import Client
from ferrule.errors import RequestTimeout, RPCError
from tests.real.conftest import Real, on_sdk_servers
from tests.support.clients import Flavour

pytestmark = pytest.mark.timeout(120)


@pytest.mark.req("N1", "N3", "N4", "N6")
def test_the_era_is_found_and_the_server_names_itself(client: Client, real: Real) -> None:
    assert client.era == real.era
    assert (client.protocol_version or "") >= ("2026-07-28" if real.era == "stateless" else "2025-")
    client.list_tools()
    info = client.server_info
    assert info is not None and info.name == real.server


@pytest.mark.req("P1", "X1")
def test_every_tool_is_listed_with_its_schema(client: Client, real: Real) -> None:
    tools = client.list_tools()
    assert {tool.name for tool in tools} >= real.tools
    assert all(tool.input_schema["type"] == "object" for tool in tools)


def test_a_tool_is_called(client: Client, real: Real) -> None:
    real.add(client, 1, 2)


@pytest.mark.req("T6")
def test_progress_arrives_in_order_before_the_call_returns(client: Client, real: Real) -> None:
    name, arguments, count = real.steps
    seen: list[float] = []
    result = client.call_tool(name, arguments, on_progress=lambda *step: seen.append(step[0]))
    assert not result.is_error
    assert seen == sorted(seen)
    assert len(seen) == count


def test_a_tool_that_fails_explains_itself_in_its_result(client: Client, real: Real) -> None:
    name, arguments, reason = real.failing
    result = client.call_tool(name, arguments)
    assert result.is_error
    assert reason in result.text


def test_resources_and_templates_are_listed_and_read(client: Client, real: Real) -> None:
    uri, text = real.resource
    assert uri in {resource.uri for resource in client.list_resources()}
    assert text in (client.read_resource(uri).text)
    assert real.template in {each.uri_template for each in client.list_resource_templates()}
    uri, text = real.expanded
    assert text in (client.read_resource(uri).text)


@pytest.mark.req("W12")
def test_an_unknown_resource_is_an_rpc_error(client: Client) -> None:
    with pytest.raises(RPCError) as caught:
        client.read_resource("demo://there/is/no/such/thing")
    assert caught.value.request_sent


def test_prompts_are_listed_and_filled_in(client: Client, real: Real) -> None:
    name, arguments, text = real.prompt
    assert name in {prompt.name for prompt in client.list_prompts()}
    content: Any = client.get_prompt(name, arguments).messages[0].content
    assert text in content.text


@pytest.mark.req("T5", "W11")
def test_concurrent_calls_each_get_their_own_answer(client: Client, real: Real, flavour: Flavour) -> None:
    calls = [partial(real.add, client, number, 1) for number in range(20)]
    assert flavour.together(*calls) == [None] * 20


def test_an_unknown_method_is_an_rpc_error(client: Client) -> None:
    with pytest.raises(RPCError):
        client.request("no/such/method", {})


def test_a_ping_is_answered(client: Client) -> None:
    client.ping()


@pytest.mark.req("T7", "S3", "D6")
def test_closing_twice_is_fine_and_the_session_is_over(new_client: Callable[..., Client]) -> None:
    client = new_client()
    client.connect()
    client.close()
    client.close()


@pytest.mark.req("N13")
def test_a_call_needs_no_connect_before_it(new_client: Callable[..., Client], real: Real) -> None:
    client = new_client()
    real.add(client, 3, 4)
    client.close()


@on_sdk_servers
@pytest.mark.req("T1", "T2")
def test_a_call_that_takes_too_long_is_given_up_and_the_next_one_works(client: Client, real: Real) -> None:
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("hang", timeout=0.3)
    assert caught.value.request_sent
    real.add(client, 3, 4)


@on_sdk_servers
@pytest.mark.req("W9")
def test_an_answer_of_two_million_characters_arrives_whole(client: Client) -> None:
    assert len(client.call_tool("big", {"size": 2_000_000}).text) == 2_000_000
