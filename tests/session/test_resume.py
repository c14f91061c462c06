"""Calls that go on by hand where they ended in `InputRequired`, in this process or another."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import pytest

from ferrule import Limits
from ferrule.errors import ConfigError, InputRequired, InvalidResult
from ferrule.types import (
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    Resume,
    Root,
    RootsRequest,
    SamplingRequest,
    read_input_request,
)
from tests.support.rounds import ANN, FORM, METHODS, ROOTS, SAMPLING, VISIT, accept, done, needs

SECRET = "secret-7f3a"
SAID = {"role": "assistant", "content": {"type": "text", "text": "Hello!"}, "model": "m", "stopReason": "endTurn"}


@pytest.mark.req("M3", "M1")
@pytest.mark.parametrize("method", METHODS)
def test_a_call_goes_on_with_answers_made_by_hand(flavour: Any, in_rounds: Any, method: str) -> None:
    server = in_rounds(needs({"a ü": FORM}, "ünï"), done(method), method=method)
    client = flavour.client(server.target, capabilities={"elicitation": {}})
    with pytest.raises(InputRequired) as caught:
        METHODS[method](client)
    METHODS[method](client, resume=Resume({"a ü": ElicitResult.accept({"name": "Ann"})}, caught.value.state))
    first, second = server.params
    assert second == {**first, "inputResponses": {"a ü": ANN}, "requestState": "ünï"}


@pytest.mark.req("M3")
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (ElicitResult.decline(), {"action": "decline"}),
        (ANN, ANN),
        (CreateMessageResult.of_text("Hello!", model="m"), SAID),
        (SAID, SAID),
        ([Root("file:///a", "A"), "file:///b"], {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}),
        ((), {"roots": []}),
        ({"roots": []}, {"roots": []}),
    ],
)
def test_an_answer_is_a_value_or_json_in_the_schemas_shape(flavour: Any, serve: Any, given: Any, sent: Any) -> None:
    server = serve()
    flavour.client(server.url).call_tool("echo", {}, resume=Resume({"a": given}))
    [call] = server.calls()
    assert call.params["inputResponses"] == {"a": sent}
    assert "requestState" not in call.params


@pytest.mark.req("M3")
def test_a_state_alone_is_sent_without_responses(flavour: Any, serve: Any) -> None:
    server = serve()
    flavour.client(server.url).call_tool("echo", {}, resume=Resume(state=""))
    assert server.calls()[0].params["requestState"] == ""
    assert "inputResponses" not in server.calls()[0].params


@pytest.mark.req("M3", "M1")
def test_after_going_on_by_hand_the_handlers_answer_what_is_asked_next(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"b": FORM}, "two"), needs({"c": FORM}), done())
    client = flavour.client(server.target, on_elicitation=accept)
    client.call_tool("echo", {}, resume=Resume({"a": []}, "one"))
    call = {"name": "echo", "arguments": {}}
    assert server.params == [
        {**call, "inputResponses": {"a": {"roots": []}}, "requestState": "one"},
        {**call, "inputResponses": {"b": ANN}, "requestState": "two"},
        {**call, "inputResponses": {"c": ANN}},
    ]


@pytest.mark.req("M3", "M2")
def test_what_is_still_open_after_the_last_round_can_go_on_by_hand(flavour: Any, in_rounds: Any) -> None:
    server = in_rounds(needs({"a": ROOTS}, "1"), needs({"a": ROOTS}, "2"), done())
    client = flavour.client(server.target, roots=["file:///a"], limits=Limits(max_rounds=1))
    with pytest.raises(InputRequired) as caught:
        client.call_tool("echo", {})
    assert client.call_tool("echo", {}, resume=Resume({"a": ["file:///b"]}, caught.value.state)).text == "ok"
    assert server.params[2]["requestState"] == "2"


@pytest.mark.req("M3")
@pytest.mark.parametrize("wrong", [{"a": 7}, {"a": None}, {"a": SECRET}, {"a": {"action": {SECRET}}}, {7: ANN}])
def test_what_cannot_be_an_answer_is_a_type_error_and_nothing_is_sent(flavour: Any, serve: Any, wrong: Any) -> None:
    server = serve()
    client = flavour.client(server.url)
    with pytest.raises(TypeError, match=r"resume\.responses") as caught:
        client.call_tool("echo", {}, resume=Resume(wrong))
    assert SECRET not in str(caught.value)
    with pytest.raises(TypeError, match="resume: expected a Resume"):
        client.call_tool("echo", {}, resume=wrong)
    with pytest.raises(ConfigError, match="roots"):
        client.call_tool("echo", {}, resume=Resume({"a": [SECRET]}))
    assert server.requests == []


@pytest.mark.req("M3")
@pytest.mark.parametrize("method", METHODS)
def test_the_handshake_era_knows_no_rounds_to_go_on_with(flavour: Any, serve: Any, method: str) -> None:
    server = serve(era="handshake")
    client = flavour.client(server.url)
    with pytest.raises(ConfigError, match=f"{method}: resume= needs the stateless era"):
        METHODS[method](client, resume=Resume({"a": ANN}, "s"))
    assert server.count(method) == 0


@pytest.mark.req("M3")
def test_another_process_goes_on_with_the_state_and_the_answers(serve: Any) -> None:
    import ferrule
    from tests.support.steps import answer, turns

    server = serve({"tools/call": turns(answer(needs({"a": FORM}, "sta\x00te")), answer())})
    with ferrule.Client(server.url) as client, pytest.raises(InputRequired) as caught:
        client.call_tool("echo", {"x": 1})
    saved = pickle.loads(pickle.dumps(caught.value))
    assert (saved.requests, saved.state, saved.request_sent) == ({"a": FORM}, "sta\x00te", True)
    resume = Resume({"a": ElicitResult.accept({"name": "Ann"})}, saved.state)
    assert pickle.loads(pickle.dumps(resume)) == resume
    program = (
        "import json, sys, ferrule\n"
        "url, state = json.loads(sys.argv[1])\n"
        "resume = ferrule.types.Resume({'a': {'action': 'accept', 'content': {'name': 'Ann'}}}, state)\n"
        "with ferrule.Client(url) as client: print(client.call_tool('echo', {'x': 1}, resume=resume).text)\n"
    )
    argument = json.dumps([server.url, saved.state])
    command = [sys.executable, "-c", program, argument]
    other = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert other.stdout == "ok\n"
    assert server.calls()[1].params["requestState"] == "sta\x00te"
    assert server.calls()[1].params["inputResponses"] == {"a": ANN}


@pytest.mark.req("M3")
def test_what_is_asked_can_be_read_as_values() -> None:
    form = read_input_request(FORM)
    assert isinstance(form, ElicitRequest) and form.message == "Who are you?"
    visit = read_input_request(VISIT)
    assert isinstance(visit, ElicitRequest) and visit.mode == "url" and visit.elicitation_id is None
    assert isinstance(read_input_request(SAMPLING), SamplingRequest)
    assert isinstance(read_input_request(ROOTS), RootsRequest)
    assert read_input_request({**ROOTS, "params": {"_meta": {"a": 1}, "b": 2}}).extra == {"b": 2}


@pytest.mark.req("M3")
@pytest.mark.parametrize(
    "wrong",
    [None, 7, [], {}, {"method": SECRET}, {"method": "elicitation/create"}, {"method": "roots/list", "params": 7}],
)
def test_what_is_not_in_the_schemas_shape_cannot(wrong: Any) -> None:
    with pytest.raises(InvalidResult) as caught:
        read_input_request(wrong)
    assert SECRET not in str(caught.value)


def test_resume_takes_answers_by_key_and_a_state_and_shows_neither() -> None:
    resume = Resume({SECRET: {"action": SECRET}}, SECRET)
    assert repr(resume) == "<Resume responses[1], state[11]>"
    assert repr(Resume()) == "<Resume responses[0], no state>"
    with pytest.raises(TypeError, match="Resume: responses"):
        Resume([])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Resume: state"):
        Resume({}, 7)  # type: ignore[arg-type]
