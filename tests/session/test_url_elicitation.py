"""A call that the server refuses until the user has visited a page."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ferrule.errors import ConfigError, URLElicitationRequired
from ferrule.types import ElicitRequest, ElicitResult
from tests.support import child as on_stdio
from tests.support.asking import note, wait_for
from tests.support.steps import answer, error, stream, turns

URL = "https://x.example/connect?e=1#frag"
COMPLETE = "notifications/elicitation/complete"


def data(*ids: str) -> Any:
    return {
        "elicitations": [{"mode": "url", "message": "Log in", "url": f"{URL}{id}", "elicitationId": id} for id in ids]
    }


def complete(id: Any) -> Any:
    return note(COMPLETE, {"elicitationId": id})


def refused(*ids: str) -> Any:
    return error(-32042, "Log in first", data(*ids))


@pytest.mark.req("I12")
def test_the_error_names_what_is_to_be_visited_and_nothing_is_repeated(flavour: Any, serve: Any) -> None:
    asked: list[Any] = []
    server = serve({"tools/call": refused("e-1", "e-2")}, era="handshake")
    client = flavour.connect(server.url, on_elicitation=lambda *args: asked.append(args))
    with pytest.raises(URLElicitationRequired) as caught:
        client.call_tool("echo", {})
    first, second = [ElicitRequest.from_wire(one) for one in caught.value.elicitations]
    assert (first.mode, first.url, first.elicitation_id, first.message) == ("url", URL + "e-1", "e-1", "Log in")
    assert second.elicitation_id == "e-2"
    assert URL not in str(caught.value)
    assert server.count("tools/call") == 1
    assert asked == []


@pytest.mark.req("I12")
def test_the_call_is_made_once_more_when_all_is_complete(flavour: Any, child: Any, tmp_path: Any) -> None:
    going = tmp_path / "going"
    unknown = [on_stdio.send(complete(id)) for id in ("other", 5, None)]
    first = [on_stdio.error(-32042, "Log in first", data("e-1", "e-2")), *unknown, on_stdio.send(complete("e-1"))]
    first += [on_stdio.wait(going), on_stdio.send(complete("e-2"))]
    server = child({"tools/call": [first, [on_stdio.echo()]]}, era="handshake")
    asked: list[Any] = []

    def handler(request: Any, context: Any) -> Any:
        asked.append((request.url, context.server, context.method))
        return ElicitResult.accept()

    client = flavour.connect(server.stdio(), on_elicitation=handler)
    running = flavour.start(client.call_tool, "echo", {"a": 1}, timeout=20, retry_after_elicitation=True)
    wait_for(lambda: len(asked) == 2)
    assert not running.done
    assert server.count("tools/call") == 1
    going.touch()
    assert running.result().text == '{"a": 1}'
    label = client._session.label
    assert asked == [(f"{URL}e-{n}", label, "elicitation/create") for n in (1, 2)]
    first_call, second_call = server.calls("tools/call")
    assert first_call["params"] == second_call["params"] and first_call["id"] != second_call["id"]
    assert client._session.inbound.listeners == []


@pytest.mark.req("I12")
def test_what_was_complete_before_the_error_came_counts(flavour: Any, serve: Any) -> None:
    refusal = {"error": {"code": -32042, "message": "Log in first", "data": data("e-1")}}
    server = serve({"tools/call": turns(stream(complete("e-1"), refusal), answer())}, era="handshake")
    client = flavour.connect(server.url, on_elicitation=lambda *_: ElicitResult.accept())
    assert client.call_tool("echo", {}, retry_after_elicitation=True, timeout=None).text == "ok"
    assert server.count("tools/call") == 2


@pytest.mark.req("I12")
def test_a_second_refusal_is_final(flavour: Any, serve: Any) -> None:
    refusal = {"error": {"code": -32042, "message": "Log in first", "data": data("e-1")}}
    server = serve({"tools/call": stream(complete("e-1"), refusal)}, era="handshake")
    client = flavour.connect(server.url, on_elicitation=lambda *_: ElicitResult.accept())
    with pytest.raises(URLElicitationRequired):
        client.call_tool("echo", {}, retry_after_elicitation=True)
    assert server.count("tools/call") == 2


def _raising(*_: Any) -> Any:
    raise RuntimeError("secret-7f3a")


@pytest.mark.req("I12")
@pytest.mark.parametrize(
    "handler", [lambda *_: ElicitResult.decline(), lambda *_: ElicitResult.cancel(), lambda *_: None, _raising]
)
def test_a_user_who_does_not_agree_ends_it(flavour: Any, serve: Any, handler: Any) -> None:
    server = serve({"tools/call": turns(refused("e-1", "e-2"), answer())}, era="handshake")
    client = flavour.connect(server.url, on_elicitation=handler)
    with pytest.raises(URLElicitationRequired):
        client.call_tool("echo", {}, retry_after_elicitation=True)
    assert server.count("tools/call") == 1


@pytest.mark.req("I12")
def test_waiting_ends_with_the_calls_own_deadline(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(refused("e-1"), answer())}, era="handshake")
    client = flavour.connect(server.url, on_elicitation=lambda *_: ElicitResult.accept())
    with pytest.raises(URLElicitationRequired):
        client.call_tool("echo", {}, retry_after_elicitation=True, timeout=0.3)
    assert server.count("tools/call") == 1
    assert client.call_tool("echo", {}).text == "ok"
    assert client._session.inbound.listeners == []


@pytest.mark.req("I12")
def test_closing_the_client_ends_the_wait(flavour: Any, serve: Any) -> None:
    asked = threading.Event()

    def handler(*_: Any) -> Any:
        asked.set()
        return ElicitResult.accept()

    server = serve({"tools/call": refused("e-1")}, era="handshake")
    client = flavour.connect(server.url, on_elicitation=handler)
    running = flavour.start(client.call_tool, "echo", {}, retry_after_elicitation=True, timeout=None)
    assert asked.wait(20)
    client.close()
    assert isinstance(running.outcome(), URLElicitationRequired)


@pytest.mark.req("I12")
def test_without_a_handler_nobody_could_be_asked(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url)
    with pytest.raises(ConfigError, match="on_elicitation"):
        client.call_tool("echo", {}, retry_after_elicitation=True)
    assert server.count("tools/call") == 0
