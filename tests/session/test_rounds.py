"""Calls of the stateless era that are sent again with what their server asked for."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ferrule import AsyncClient, Limits, Retry
from ferrule.errors import (
    ConnectionClosed,
    HTTPStatusError,
    TransportError,
)
from ferrule.types import CreateMessageResult, ElicitResult
from tests.support.clients import run_async
from tests.support.rounds import ANN, FORM, METHODS, ROOTS, SAMPLING, VISIT, accept, done, needs
from tests.support.steps import (
    answer,
    progress,
    reset,
    result,
    status,
    stream,
    turns,
)

EACH_METHOD = pytest.mark.parametrize("method", METHODS)
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


# --- what goes out ----------------------------------------------------------------------------------


@pytest.mark.req("M1")
@EACH_METHOD
def test_the_same_request_is_sent_again_with_the_answers_under_the_servers_keys(
    flavour: Any, in_rounds: Any, method: str
) -> None:
    asked = {"a": FORM, "b ü": ROOTS, "": SAMPLING, "d": VISIT}
    server = in_rounds(needs(asked, "state-1"), done(method), method=method)
    client = flavour.client(
        server.target,
        on_elicitation=accept,
        on_sampling=lambda *_: CreateMessageResult.of_text("Hello!", model="m"),
        roots=["file:///a"],
    )
    METHODS[method](client)
    first, second = server.params
    answers, state = second.pop("inputResponses"), second.pop("requestState")
    assert second == first
    assert state == "state-1"
    said = {"role": "assistant", "content": {"type": "text", "text": "Hello!"}, "model": "m", "stopReason": "endTurn"}
    assert answers == {"a": ANN, "b ü": {"roots": [{"uri": "file:///a"}]}, "": said, "d": {"action": "accept"}}
    ids = [message["id"] for message in server.sent]
    assert len(set(ids)) == 2


@pytest.mark.req("M1")
def test_the_arguments_are_the_same_byte_for_byte_and_so_is_the_name_in_the_header(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(answer(needs({"a": ROOTS}, 'sta"te')), answer())})
    arguments = {"z": 1.0, "a": 1e-7, "ü": "\x7f\u2028", "n": None, "deep": [{"b": [], "a": {}}]}
    flavour.client(server.url, roots=[]).call_tool("échö", arguments)
    first, second = server.calls()
    begin = b'"params":' + first.body.split(b'"params":')[1].split(b',"_meta"')[0]
    assert begin in second.body
    assert begin + b',"inputResponses":{"a":{"roots":[]}},"requestState":"sta\\"te","_meta":' in second.body
    assert first.header("Mcp-Name") == second.header("Mcp-Name") is not None


@pytest.mark.req("M1")
@pytest.mark.parametrize("state", ["", " \n ", "ünï\U0001f600", '"\\', "x" * 100_000, "null", "\ud800"])
def test_the_state_goes_back_unaltered(flavour: Any, in_rounds: Any, state: str) -> None:
    server = in_rounds(needs({"a": ROOTS}, state), done())
    flavour.client(server.target, roots=[]).call_tool("echo", {})
    assert server.params[1]["requestState"] == state


@pytest.mark.req("M1")
def test_each_round_carries_its_own_answers_and_state_and_no_earlier_ones(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"a": FORM}, "one"), needs({"b": ROOTS}), needs(state="three"), needs({}, ""), done())
    flavour.client(server.target, on_elicitation=accept, roots=[]).call_tool("echo", {"x": 1})
    call = {"name": "echo", "arguments": {"x": 1}}
    assert server.params == [
        call,
        {**call, "inputResponses": {"a": ANN}, "requestState": "one"},
        {**call, "inputResponses": {"b": {"roots": []}}},
        {**call, "requestState": "three"},
        {**call, "requestState": ""},
    ]


@pytest.mark.req("M1")
def test_a_key_that_utf_8_cannot_hold_comes_back_as_it_was(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"\udfff": ROOTS}), done())
    flavour.client(server.target, roots=[]).call_tool("echo", {})
    assert server.params[1]["inputResponses"] == {"\udfff": {"roots": []}}


@pytest.mark.req("M1")
def test_each_round_evaluates_request_meta_afresh_and_keeps_the_callers_own(flavour: Any, in_rounds: Any) -> None:
    count = iter(range(100))
    server = in_rounds(needs({"a": ROOTS}), needs(state="s"), done())
    client = flavour.connect(server.target, roots=[], request_meta=lambda: {"n": next(count)})
    before = next(count)
    client.call_tool("echo", {}, meta={"mine": True})
    assert [(meta["n"], meta["mine"]) for meta in server.metas] == [(before + n, True) for n in (1, 2, 3)]


@pytest.mark.req("N11")
def test_what_the_handlers_can_do_is_declared_in_each_request(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"a": ROOTS}), done())
    flavour.client(server.target, roots=[], on_elicitation=accept).call_tool("echo", {})
    assert [meta[CAPABILITIES] for meta in server.metas] == [{"elicitation": {"form": {}, "url": {}}, "roots": {}}] * 2


@pytest.mark.req("M1")
def test_progress_reaches_the_handler_in_every_round(flavour: Any, serve: Any) -> None:
    server = serve(
        {
            "tools/call": turns(
                stream(progress(5, 9, "one"), result(needs({"a": ROOTS}))), stream(progress(1, 9, "two"), result())
            )
        }
    )
    seen: list[Any] = []
    flavour.client(server.url, roots=[]).call_tool("echo", {}, on_progress=lambda *said: seen.append(said))
    assert seen == [(5, 9, "one"), (1, 9, "two")]
    first, second = (request.meta["progressToken"] for request in server.calls())
    assert first != second


# --- what handlers are asked and say ----------------------------------------------------------------


@pytest.mark.req("I11", "M1")
def test_a_handler_is_told_who_asks_in_which_round_and_until_when(flavour: Any, in_rounds: Any) -> None:
    told: list[Any] = []

    def note(request: Any, context: Any) -> Any:
        told.append((request, context))
        return ElicitResult.decline()

    server = in_rounds(needs({"a": FORM}), needs({"b": VISIT}), done())
    limits = Limits(max_handler_time=0)
    began = time.monotonic()
    client = flavour.connect(server.target, on_elicitation=note, limits=limits)
    client.call_tool("echo", {}, timeout=20)
    [(form, one), (visit, two)] = told
    assert (one.round, two.round) == (1, 2)
    assert {one.server, two.server} == {client._session.label}
    assert (one.server_name, one.method, one.era) == ("scripted", "elicitation/create", "stateless")
    assert one.protocol_version == "2026-07-28"
    assert one.deadline == two.deadline and began < one.deadline - 20 < time.monotonic()
    assert not one.cancelled
    assert (form.mode, visit.mode, visit.url) == ("form", "url", "https://x.example/a?b=1#c")
    assert visit.elicitation_id is None


@pytest.mark.req("M3", "I5")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_no_is_an_answer_and_the_call_goes_on(flavour: Any, in_rounds: Any, action: str) -> None:
    server = in_rounds(needs({"a": FORM, "b": VISIT}), done())
    client = flavour.client(server.target, on_elicitation=lambda *_: {"action": action, "content": {"name": "x"}})
    assert client.call_tool("echo", {}).text == "ok"
    assert server.params[1]["inputResponses"] == {"a": {"action": action}, "b": {"action": action}}


@pytest.mark.req("M1", "T5")
def test_handlers_of_one_round_run_at_once_on_a_loop_and_in_turn_without_one(flavour: Any, in_rounds: Any) -> None:
    running: list[int] = []
    most: list[int] = []

    def enter() -> None:
        running.append(1)
        most.append(len(running))

    def in_turn(request: Any, context: Any) -> Any:
        enter()
        running.pop()
        return ElicitResult.decline()

    async def at_once(request: Any, context: Any) -> Any:
        enter()
        while len(most) < 5:
            await asyncio.sleep(0)
        running.pop()
        return ElicitResult.decline()

    server = in_rounds(needs({str(n): FORM for n in range(5)}), done())
    flavour.client(server.target, on_elicitation=at_once if flavour.is_async else in_turn).call_tool("echo", {})
    assert max(most) == (5 if flavour.is_async else 1)
    assert list(server.params[1]["inputResponses"]) == ["0", "1", "2", "3", "4"]


@pytest.mark.req("M1")
def test_no_more_handlers_run_at_once_than_the_limits_allow(serve: Any) -> None:
    async def body() -> None:
        running: list[int] = []
        most: list[int] = []

        async def handler(request: Any, context: Any) -> Any:
            running.append(1)
            most.append(len(running))
            await asyncio.sleep(0)
            running.pop()
            return ElicitResult.decline()

        server = serve({"tools/call": turns(answer(needs({str(n): FORM for n in range(10)})), answer())})
        async with AsyncClient(server.url, on_elicitation=handler, limits=Limits(max_handlers=3)) as client:
            await client.call_tool("echo", {})
        assert max(most) == 3
        assert len(server.calls()[1].params["inputResponses"]) == 10

    run_async(body())


@pytest.mark.req("I3")
def test_a_handler_may_use_the_client_and_its_calls_know_nothing_of_the_round(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"a": FORM}, "s"), done(), done())

    def handler(request: Any, context: Any) -> Any:
        client.call_tool("other", {})
        return ElicitResult.decline()

    async def coroutine(request: Any, context: Any) -> Any:
        await client._target.call_tool("other", {})
        return ElicitResult.decline()

    limits = Limits(max_connections=1)
    client = flavour.client(server.target, on_elicitation=coroutine if flavour.is_async else handler, limits=limits)
    client.call_tool("echo", {})
    assert server.params[1] == {"name": "other", "arguments": {}}
    assert server.params[2]["requestState"] == "s"


# --- at most once per round -------------------------------------------------------------------------


@pytest.mark.req("M5")
@pytest.mark.parametrize(
    ("failure", "expected"),
    [(status(503), HTTPStatusError), (reset(), ConnectionClosed), (stream(), ConnectionClosed)],
)
def test_a_tool_is_called_once_in_each_round_whatever_happens(
    flavour: Any, serve: Any, failure: Any, expected: type[TransportError]
) -> None:
    server = serve({"tools/call": turns(answer(needs({"a": ROOTS})), failure)})
    client = flavour.client(server.url, roots=[], retry=Retry(attempts=5, backoff=0))
    with pytest.raises(expected) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent
    assert server.count("tools/call") == 2


@pytest.mark.req("M5", "R1")
@pytest.mark.parametrize("method", ["resources/read", "prompts/get"])
def test_what_may_be_repeated_is_repeated_within_its_round(flavour: Any, serve: Any, method: str) -> None:
    server = serve({method: turns(answer(needs({"a": ROOTS}, "s")), status(503), answer(done(method)))})
    METHODS[method](flavour.client(server.url, roots=[], retry=Retry(attempts=2, backoff=0)))
    _, second, third = (request.message for request in server.calls(method))
    assert second.pop("id") != third.pop("id")
    assert second == third


@pytest.mark.req("M5")
def test_a_round_that_was_not_written_still_says_that_the_call_was(flavour: Any, serve: Any) -> None:
    def last(*_: Any) -> Any:
        server.stop_listening()
        return ElicitResult.decline()

    server = serve({"tools/call": [answer(needs({"a": FORM}), headers=[("Connection", "close")]), lambda t: t.close()]})
    client = flavour.client(server.url, on_elicitation=last, retry=Retry(attempts=1))
    with pytest.raises(TransportError) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True


# --- the end ----------------------------------------------------------------------------------------


@pytest.mark.req("T2")
def test_a_caller_cancelled_while_a_handler_runs_ends_the_handler_and_sends_nothing(in_rounds: Any) -> None:
    server = in_rounds(needs({"a": FORM}))

    async def body() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def handler(request: Any, context: Any) -> Any:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with AsyncClient(server.target, on_elicitation=handler) as client:
            task = asyncio.ensure_future(client.call_tool("echo", {}))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(ended.wait(), 10)
            await client.list_tools()

    run_async(body())
    methods = [message["method"] for message in server.everything]
    assert [name for name in methods if name not in ("server/discover", "tools/list")] == ["tools/call"]


@pytest.mark.req("M3", "N8")
def test_closing_the_client_ends_a_call_whose_handler_runs(serve: Any) -> None:
    async def body() -> None:
        begun = asyncio.Event()

        async def handler(request: Any, context: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

        server = serve({"tools/call": answer(needs({"a": FORM}))})
        client = AsyncClient(server.url, on_elicitation=handler)
        task = asyncio.ensure_future(client.call_tool("echo", {}))
        await begun.wait()
        await client.aclose()
        with pytest.raises(ConnectionClosed, match="the client was closed") as caught:
            await task
        assert caught.value.request_sent

    run_async(body())


@pytest.mark.req("M3", "N8")
def test_a_handler_that_closes_the_client_ends_its_call(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"a": FORM}), done())

    def handler(*_: Any) -> Any:
        client.close()
        return ElicitResult.decline()

    async def coroutine(*_: Any) -> Any:
        await client._target.aclose()
        return ElicitResult.decline()

    client = flavour.client(server.target, on_elicitation=coroutine if flavour.is_async else handler)
    with pytest.raises(ConnectionClosed) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent
    assert len(server.sent) == 1
