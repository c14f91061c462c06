"""What a server of the stateless era asks and nobody answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import AsyncClient
from ferrule.errors import (
    InputRequired,
    InvalidResult,
    MissingClientCapability,
)
from ferrule.types import ElicitResult, SamplingRejected
from tests.support import rounds
from tests.support.clients import run_async
from tests.support.rounds import FORM, ROOTS, SAMPLING, VISIT, accept, done, needs
from tests.support.steps import (
    answer,
    error,
)

SECRET = "secret-7f3a"


# --- what nobody answers ----------------------------------------------------------------------------


def raises(error: type[BaseException]) -> Any:
    def handler(*_: Any) -> Any:
        raise error(SECRET)

    return handler


@pytest.mark.req("M3")
@pytest.mark.parametrize(
    ("request_", "handlers", "why"),
    [
        (FORM, {}, "no handler was given for it"),
        (FORM, {"roots": []}, "no handler was given for it"),
        (SAMPLING, {"on_elicitation": accept}, "no handler was given for it"),
        ({"method": SECRET, "params": {}}, {"on_elicitation": accept}, "no handler was given for it"),
        (FORM, {"on_elicitation": raises(ZeroDivisionError)}, "elicitation/create raised ZeroDivisionError"),
        (ROOTS, {"roots": raises(KeyError)}, "roots/list raised KeyError"),
        (FORM, {"on_elicitation": lambda *_: {"action": SECRET}}, "elicitation/create gave cannot be sent"),
        (FORM, {"on_elicitation": lambda *_: ElicitResult.accept({"age": SECRET})}, "gave cannot be sent"),
        (FORM, {"on_elicitation": lambda *_: None}, "gave cannot be sent"),
        (SAMPLING, {"on_sampling": raises(SamplingRejected)}, "User rejected sampling request"),
        ({**FORM, "params": {**FORM["params"], "mode": SECRET}}, {"on_elicitation": accept}, "mode not supported"),
        (
            {**SAMPLING, "params": {**SAMPLING["params"], "tools": []}},
            {"on_sampling": accept},
            "Sampling with tools not supported",
        ),
    ],
)
def test_what_no_handler_answers_is_raised_with_all_that_is_needed_to_go_on(
    flavour: Any, serve: Any, request_: Any, handlers: Any, why: str
) -> None:
    asked = {SECRET: request_, "also": request_}
    server = rounds.over_http(serve, needs(asked, SECRET), done())
    client = flavour.client(server.target, **handlers)
    with pytest.raises(InputRequired, match=why) as caught:
        client.call_tool("echo", {})
    problem = caught.value
    assert (problem.requests, problem.state, problem.request_sent) == (asked, SECRET, True)
    assert "tools/call at " in str(problem) and "resume=" in str(problem)
    assert SECRET not in str(problem) + repr(problem)
    assert problem.__cause__ is problem.__context__ is None
    assert len(server.sent) == 1
    assert client.call_tool("echo", {}).text == "ok"


@pytest.mark.req("M3")
def test_nobody_is_asked_when_not_all_of_it_can_be_answered(flavour: Any, serve: Any) -> None:
    asked: list[Any] = []
    server = rounds.over_http(serve, needs({"a": FORM, "b": SAMPLING}))
    client = flavour.client(server.target, on_elicitation=lambda *given: asked.append(given))
    with pytest.raises(InputRequired):
        client.call_tool("echo", {})
    assert asked == []


@pytest.mark.req("M3")
def test_a_handler_that_fails_ends_the_others_of_its_round(serve: Any) -> None:
    async def body() -> None:
        ended: list[Any] = []

        async def handler(request: Any, context: Any) -> Any:
            if request.mode == "url":
                raise ZeroDivisionError
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(context)

        server = serve({"tools/call": answer(needs({"a": FORM, "b": FORM, "c": VISIT}))})
        async with AsyncClient(server.url, on_elicitation=handler) as client:
            with pytest.raises(InputRequired, match="ZeroDivisionError"):
                await client.call_tool("echo", {})
            await asyncio.sleep(0)
        assert [context.cancelled for context in ended] == [True, True]

    run_async(body())


@pytest.mark.req("M1")
@pytest.mark.parametrize(
    "wrong",
    [
        {"inputRequests": [1]},
        {"inputRequests": SECRET},
        {"requestState": 7},
        {},
        {"inputRequests": None},
        {"inputRequests": {SECRET: 1}},
        {"inputRequests": {SECRET: {}}},
        {"inputRequests": {SECRET: {"method": 7}}},
        {"inputRequests": {SECRET: {"method": "roots/list", "params": [SECRET]}}},
        {"inputRequests": {SECRET: {"method": "elicitation/create"}}},
        {"inputRequests": {SECRET: {"method": "elicitation/create", "params": {"mode": "url", "message": SECRET}}}},
        {"inputRequests": {"good": FORM, SECRET: {"method": "sampling/createMessage", "params": {"messages": 7}}}},
    ],
)
def test_a_request_for_input_in_no_known_shape_is_an_invalid_result(flavour: Any, serve: Any, wrong: Any) -> None:
    asked: list[Any] = []
    server = rounds.over_http(serve, {"resultType": "input_required", **wrong})
    ask = asked.append
    client = flavour.client(server.target, on_elicitation=lambda *_: ask(1), on_sampling=lambda *_: ask(2), roots=[])
    with pytest.raises(InvalidResult, match="tools/call: ") as caught:
        client.call_tool("echo", {})
    assert SECRET not in str(caught.value)
    assert asked == []
    assert len(server.sent) == 1


@pytest.mark.req("M1")
@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("tools/list", lambda client: client.list_tools()),
        ("server/discover", lambda client: client.discover()),
        ("completion/complete", lambda client: client.complete({"type": "ref/prompt", "name": "p"}, ("a", "b"))),
    ],
)
def test_a_request_for_input_elsewhere_is_an_invalid_result(flavour: Any, serve: Any, method: str, call: Any) -> None:
    server = serve()
    client = flavour.connect(server.url, roots=[], protocol="stateless")
    client._session.link.capabilities = None
    server.rules[method] = answer(needs({"a": ROOTS}))
    with pytest.raises(InvalidResult, match=f"{method}: resultType: input_required is not allowed here"):
        call(client)
    assert not any("inputResponses" in request.params for request in server.requests)


@pytest.mark.req("M1")
def test_a_request_by_hand_is_no_business_of_the_handlers(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"a": ROOTS}, "s"), done())
    client = flavour.client(server.target, roots=[])
    with pytest.raises(InputRequired, match="tools/call: the server asks for input"):
        client.request("tools/call", {"name": "echo"})
    assert len(server.sent) == 1


@pytest.mark.req("M3")
def test_a_capability_that_is_missing_is_an_error_and_nothing_is_sent_again(flavour: Any, serve: Any) -> None:
    wants: dict[str, Any] = {"requiredCapabilities": {"elicitation": {"form": {}}}}
    server = serve({"tools/call": error(-32021, "no", wants, status=400)})
    with pytest.raises(MissingClientCapability) as caught:
        flavour.client(server.url, roots=[]).call_tool("echo", {}, idempotent=True)
    assert caught.value.required == wants["requiredCapabilities"]
    assert server.count("tools/call") == 1
