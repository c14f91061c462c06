"""Changes, tasks, completion and log levels on servers that others wrote, and changes on the demo server."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Client
from ferrule.errors import CapabilityError, InvalidParams
from ferrule.types import PromptReference, PromptsChanged, ResourcesChanged, ResourceUpdated, ToolsChanged
from tests.real.conftest import Real, on_demo_servers, on_everything, on_sdk_servers, on_stateless_sdk_servers

pytestmark = pytest.mark.timeout(120)

URI = "demo://resource/static/document/architecture.md"
RESEARCH = "simulate-research-query"


@on_everything
@pytest.mark.req("L2")
def test_a_watched_resource_is_told_of_when_it_changes(client: Client) -> None:
    with client.subscribe(tools=True, prompts=True, resources=True, uris=[URI, "demo://a"]) as lists:
        assert (lists.honored.tools, lists.honored.prompts, lists.honored.resources) == (True, True, True)
        with client.subscribe(uris=[URI]) as changes:
            client.call_tool("toggle-subscriber-updates")
            try:
                assert changes.next(timeout=15) == ResourceUpdated(uri=URI)
            finally:
                client.call_tool("toggle-subscriber-updates")


@on_demo_servers
@pytest.mark.req("L1", "L2")
def test_a_note_at_the_demo_server_is_told_of_when_it_is_written(client: Client) -> None:
    with client.subscribe(tools=True, uris=["demo://note", "demo://greeting"]) as changes:
        assert (changes.honored.tools, changes.honored.uris) == (False, ("demo://note", "demo://greeting"))
        for text in ("tea", "milk"):
            assert client.call_tool("note", {"text": text}).text == "Noted."
            assert changes.next(timeout=10) == ResourceUpdated(uri="demo://note")
            assert client.read_resource("demo://note").text == text


@on_everything
@pytest.mark.req("K1")
def test_a_tool_that_requires_it_runs_as_a_task(client: Client) -> None:
    client.list_tools()
    result = client.call_tool(RESEARCH, {"topic": "tides"}, timeout=30)
    assert "Research Report: tides" in result.text


@on_everything
@pytest.mark.req("K1")
def test_a_task_is_looked_up_listed_and_cancelled(client: Client) -> None:
    task = client.call_tool_task(RESEARCH, {"topic": "tides"}, ttl=60000)
    assert task.status == "working"
    assert client.get_task(task.id).status == "working"
    assert task.id in {each.task_id for each in client.list_tasks()}
    assert task.cancel().status == "cancelled"
    with pytest.raises(InvalidParams):
        task.cancel()
    with pytest.raises(InvalidParams):
        client.get_task("no such task")


@on_everything
@pytest.mark.req("N12")
def test_arguments_are_completed_in_the_light_of_the_others(client: Client) -> None:
    prompt = PromptReference("completable-prompt")
    assert client.complete(prompt, ("department", "Eng")).completion.values == ("Engineering",)
    first, second = (
        client.complete(prompt, ("name", ""), context={"department": team}).completion.values
        for team in ("Sales", "Support")
    )
    assert first and second and first != second


@on_everything
def test_the_log_level_is_accepted(client: Client) -> None:
    client.set_log_level("error")


@on_everything
@pytest.mark.req("C12")
def test_a_kept_list_is_the_same_list(new_client: Any) -> None:
    client = new_client(keep_lists=True)
    assert client.list_tools() == client.list_tools()
    client.clear_cache()
    assert client.list_tools()
    client.close()


@on_sdk_servers
@pytest.mark.req("N12")
def test_the_sdks_server_completes(client: Client) -> None:
    assert client.complete(PromptReference("greet"), ("who", "An")).completion.values == ("Ann", "Anton")


@on_sdk_servers
@pytest.mark.req("L2", "K1", "N12")
def test_what_the_sdks_server_does_not_declare_is_said_before_anything_is_sent(client: Client, real: Real) -> None:
    with pytest.raises(CapabilityError):
        client.get_task("none")
    if real.era == "handshake":
        with pytest.raises(CapabilityError), client.subscribe(uris=["demo://greeting"]):
            pass
        with pytest.raises(CapabilityError):
            client.call_tool_task("add", {"a": 1, "b": 2})
        with pytest.raises(CapabilityError):
            client.set_log_level("info")


@on_sdk_servers
@pytest.mark.req("K2")
def test_the_sdks_server_answers_a_call_that_might_have_become_a_task(client: Client, real: Real) -> None:
    assert client.call_tool("add", {"a": 1, "b": 2}, tasks=True).text == "3"
    if real.era == "stateless":
        task = client.call_tool_task("add", {"a": 1, "b": 2})
        assert (task.status, task.result().text) == ("completed", "3")


@on_stateless_sdk_servers
@pytest.mark.req("L1", "L3")
def test_the_sdks_server_announces_changes_to_those_who_listen(client: Client) -> None:
    with client.subscribe(tools=True, prompts=True, resources=True, uris=["demo://greeting"]) as changes:
        assert (changes.honored.tools, changes.honored.uris) == (True, ("demo://greeting",))
        with client.subscribe(uris=["demo://other"]) as others:
            client.call_tool("announce", {"uri": "demo://greeting"})
            events = {type(changes.next(timeout=10)) for _ in range(4)}
            assert events == {ToolsChanged, PromptsChanged, ResourcesChanged, ResourceUpdated}
            client.call_tool("announce", {"uri": "demo://other"})
            assert others.next(timeout=10) == ResourceUpdated(uri="demo://other")
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


@on_stateless_sdk_servers
@pytest.mark.req("L1", "L3")
def test_the_sdks_server_ends_a_subscription_properly(new_client: Any) -> None:
    client = new_client()
    with client.subscribe(tools=True) as changes:
        client.call_tool("end_subscriptions")
        assert list(changes) == []
    client.close()
