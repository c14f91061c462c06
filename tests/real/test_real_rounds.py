"""The official SDK's server at 2026-07-28: it asks in rounds, and hears when a call is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import AsyncClient, Client, CreateMessageResult, ElicitResult, Stdio
from ferrule.errors import InputRequired, MissingClientCapability, RequestTimeout
from ferrule.types import Resume, read_input_request
from tests.support.asking import wait_for
from tests.support.clients import Flavour, run_async

pytestmark = pytest.mark.timeout(120)

sdk = pytest.mark.parametrize("place", ["sdk_http_url", "sdk_command"])
over_http = pytest.mark.parametrize("place", ["sdk_http_url"])
DECLARED: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}

Make = Callable[..., Client]


@pytest.fixture
def target(request: pytest.FixtureRequest, place: str) -> Any:
    where = request.getfixturevalue(place)
    return where if isinstance(where, str) else Stdio(*where, stderr="discard")


@pytest.fixture
def connect(flavour: Flavour, target: Any) -> Make:
    """Connects a client to the server in the stateless era."""
    return lambda **options: flavour.connect(target, protocol="stateless", timeout=20, **options)


def accept(request: Any, context: Any) -> ElicitResult:
    return ElicitResult.accept(request.fill_defaults({"name": "Ann"}))


def repeat(request: Any, context: Any) -> CreateMessageResult:
    return CreateMessageResult.of_text(f"You said {request.messages[-1].text}", model="parrot")


@sdk
@pytest.mark.req("M1", "I11")
def test_the_sdks_server_gets_what_it_asks_for_in_rounds(connect: Make) -> None:
    told: list[Any] = []

    def note(request: Any, context: Any) -> ElicitResult:
        told.append((context.round, context.server_name))
        return accept(request, context)

    client = connect(on_elicitation=note, on_sampling=repeat, roots=["file:///a", "file:///b"])
    assert client.call_tool("rounds").text == "Ann 7, 2 roots, parrot: You said Hello, Ann?"
    assert told == [(1, "sdk-server")]
    client.close()


@over_http
@pytest.mark.req("M1")
def test_the_sdks_server_asks_for_prompts_and_resources_too(connect: Make) -> None:
    client = connect(on_elicitation=accept)
    assert client.get_prompt("greet_in_rounds").messages[0].content.text == "Ann"  # type: ignore[union-attr]
    assert client.read_resource("demo://whose/1").text == "Ann"
    client.close()


@over_http
@pytest.mark.req("M3", "I5")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_the_sdks_server_is_told_no(connect: Make, action: str) -> None:
    client = connect(on_elicitation=lambda *_: ElicitResult(action))
    assert client.call_tool("round_outcome").text == action
    client.close()


@over_http
@pytest.mark.req("M3", "N11")
def test_the_sdks_server_goes_on_with_what_was_answered_by_hand(connect: Make) -> None:
    client = connect(capabilities=DECLARED)
    with pytest.raises(InputRequired) as caught:
        client.call_tool("rounds")
    first = caught.value
    answers: dict[str, Any] = {}
    for key, wire in first.requests.items():
        request = read_input_request(wire)
        answers[key] = ElicitResult.accept({"name": "Bo"}) if "message" in wire.get("params", {}) else ["file:///a"]
        assert type(request).__name__ in ("ElicitRequest", "RootsRequest")
    with pytest.raises(InputRequired) as caught:
        client.call_tool("rounds", resume=Resume(answers, first.state))
    [key] = caught.value.requests
    said = CreateMessageResult.of_text("Hi!", model="hand")
    result = client.call_tool("rounds", resume=Resume({key: said}, caught.value.state))
    assert result.text == "Bo 7, 1 roots, hand: Hi!"
    client.close()


@over_http
@pytest.mark.req("M3", "N11")
def test_the_sdks_server_misses_what_was_not_declared(connect: Make) -> None:
    client = connect(roots=[])
    with pytest.raises(MissingClientCapability) as caught:
        client.call_tool("round_outcome")
    assert "elicitation" in caught.value.required
    client.close()


@sdk
@pytest.mark.req("T2")
def test_the_sdks_server_gives_up_a_call_that_takes_too_long(connect: Make, place: str, flavour: Flavour) -> None:
    client = connect()
    name = f"timeout {place} {flavour.name}"
    with pytest.raises(RequestTimeout):
        client.call_tool("hang", {"name": name}, timeout=0.3)
    wait_for(lambda: client.call_tool("was_given_up", {"name": name}).structured_content == {"result": True})
    client.close()


@sdk
@pytest.mark.req("T2")
def test_the_sdks_server_gives_up_what_a_cancelled_task_called(target: Any, place: str) -> None:
    name = f"task {place}"

    async def body() -> None:
        async with AsyncClient(target, protocol="stateless", timeout=20) as client:
            task = asyncio.ensure_future(client.call_tool("hang", {"name": name}))
            while (await client.call_tool("is_hanging", {"name": name})).structured_content != {"result": True}:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while (await client.call_tool("was_given_up", {"name": name})).structured_content != {"result": True}:
                await asyncio.sleep(0.01)

    run_async(asyncio.wait_for(body(), 30))
