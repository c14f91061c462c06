"""Extensions that a client declares: what they may claim, and what claims change."""

from __future__ import annotations

import json
import pickle
import threading
from typing import Any

import pytest

from ferrule import Client, Extension
from ferrule.errors import ConfigError, InvalidResult, UnknownResultType
from ferrule.types import ExtensionResult, ReadResourceResult
from tests.support.steps import answer, stream, text

THING = Extension("com.example/thing", {"depth": 2}, ["com.example/partial"], ["notifications/com.example/grew"])
PARTIAL = {"resultType": "com.example/partial", "upTo": 3, "content": [], "_meta": {"a": 1}}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


# --- the value -----------------------------------------------------------------------------------


@pytest.mark.req("M4")
@pytest.mark.parametrize("id", ["com.example/thing", "a/b", "com.example.v2/my_thing.x-1", "x-y.z9/0"])
def test_an_identifier_is_a_prefix_and_a_name(id: str) -> None:
    assert Extension(id).id == id


@pytest.mark.req("M4")
@pytest.mark.parametrize(
    "id",
    ["", "thing", "/thing", "com.example/", "com..a/t", "1com/t", "com-/t", "c/-t", "c/t/u", "c/é", "c_d/t", 7],
)
def test_anything_else_is_none(id: Any) -> None:
    with pytest.raises(ConfigError, match="the id must be"):
        Extension(id)


@pytest.mark.req("M4")
@pytest.mark.parametrize("kind", ["complete", "input_required", "task"])
def test_the_protocols_own_result_types_cannot_be_claimed(kind: str) -> None:
    with pytest.raises(ConfigError, match=f"own resultType {kind}"):
        Extension("com.example/thing", result_types=["mine", kind])


@pytest.mark.req("M4", "K2")
def test_tasks_are_declared_by_calls_and_not_by_clients() -> None:
    with pytest.raises(ConfigError, match="tasks=True"):
        Extension("io.modelcontextprotocol/tasks")


@pytest.mark.req("M4")
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"settings": [1]}, "settings must be a mapping"),
        ({"settings": {"a": {1, 2}}}, "settings"),
        ({"settings": {"a": float("nan")}}, "settings"),
        ({"result_types": "one"}, "result_types takes several"),
        ({"result_types": [""]}, "not empty"),
        ({"notifications": [7]}, "not empty"),
    ],
)
def test_what_it_claims_is_checked_where_it_is_made(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        Extension("com.example/thing", **arguments)


@pytest.mark.req("M4")
def test_it_is_a_value(capsys: Any) -> None:
    assert pickle.loads(pickle.dumps(THING)) == THING
    assert hash(THING) == hash(THING.replace(settings={}))
    assert repr(THING) == "<Extension com.example/thing, settings[1], 1 result types, 1 notifications>"
    with pytest.raises(AttributeError, match="immutable"):
        THING.id = "x/y"  # type: ignore[misc]


@pytest.mark.req("M4")
def test_two_cannot_have_the_same_id_or_result_type() -> None:
    with pytest.raises(ConfigError, match=r"com\.example/thing and com\.example/thing have the same id"):
        Client("http://127.0.0.1:1/", extensions=[THING, THING])
    other = Extension("com.example/other", result_types=["com.example/partial"])
    with pytest.raises(ConfigError, match=r"com\.example/other have the same resultType"):
        Client("http://127.0.0.1:1/", extensions=[THING, other])
    with pytest.raises(ConfigError, match="expected Extension, not str"):
        Client("http://127.0.0.1:1/", extensions=["com.example/thing"])  # type: ignore[list-item]


# --- what is declared ----------------------------------------------------------------------------


@pytest.mark.req("M4", "N11")
def test_extensions_are_declared_in_both_eras_beside_those_given_by_hand(flavour: Any, serve: Any) -> None:
    both = {"com.example/thing": {"depth": 2}, "com.example/hand": {}}
    options: dict[str, Any] = {"extensions": [THING], "capabilities": {"extensions": {"com.example/hand": {}}}}
    server = serve()
    flavour.connect(server.url, **options).list_tools()
    assert [one.meta[CAPABILITIES]["extensions"] for one in server.requests] == [both, both]
    older = serve(era="handshake")
    flavour.connect(older.url, **options)
    assert older.calls("initialize")[0].params["capabilities"]["extensions"] == both


# --- what claims change --------------------------------------------------------------------------


@pytest.mark.req("M4")
def test_a_claimed_result_is_given_as_it_is_and_as_it_came_by_request(flavour: Any, serve: Any) -> None:
    server = serve({name: answer(PARTIAL) for name in ("tools/call", "resources/read", "prompts/get")})
    client = flavour.connect(server.url, extensions=[THING])
    results: list[Any] = [
        client.call_tool("echo", raise_on_error=True),
        client.read_resource("demo://a"),
        client.get_prompt("greet"),
    ]
    assert results == [ExtensionResult.from_wire(PARTIAL)] * 3
    [partial, *_] = results
    assert (partial.result_type, partial.extra["upTo"], partial.meta) == ("com.example/partial", 3, {"a": 1})
    assert client.request("tools/call", {"name": "echo"}) == PARTIAL
    assert partial.to_wire() == PARTIAL


@pytest.mark.req("M4")
def test_without_the_claim_it_is_an_unknown_result_type(flavour: Any, serve: Any) -> None:
    client = flavour.connect(serve({"tools/call": answer(PARTIAL)}).url, extensions=[Extension("com.example/other")])
    with pytest.raises(UnknownResultType) as caught:
        client.call_tool("echo")
    assert caught.value.result_type == "com.example/partial"


@pytest.mark.req("M4", "K2")
@pytest.mark.parametrize("call", ["call_tool", "read_resource", "discover"])
def test_a_task_that_nobody_asked_for_is_an_invalid_result(flavour: Any, serve: Any, call: str) -> None:
    made = answer({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": None})
    server = serve({"tools/call": made, "resources/read": made})
    client = flavour.connect(server.url)
    server.rules["server/discover"] = made
    with pytest.raises(InvalidResult, match="resultType: task is not allowed here"):
        getattr(client, call)(*[] if call == "discover" else ["demo://a"])


@pytest.mark.req("M4")
def test_in_the_handshake_era_a_result_type_means_nothing(flavour: Any, serve: Any) -> None:
    odd = {**PARTIAL, "contents": [{"uri": "demo://a", "text": "x"}]}
    client = flavour.connect(serve({"resources/read": answer(odd)}, era="handshake").url, extensions=[THING])
    result = client.read_resource("demo://a")
    assert type(result) is ReadResourceResult
    assert result.extra["upTo"] == 3


@pytest.mark.req("M4", "I4")
def test_claimed_notifications_reach_the_handler(flavour: Any, serve: Any) -> None:
    came = threading.Event()
    seen: list[Any] = []

    def note(notification: Any, context: Any) -> None:
        seen.append((notification.method, notification.params))
        came.set()

    grew = {"jsonrpc": "2.0", "method": "notifications/com.example/grew", "params": {"by": 1}}
    server = serve({"tools/call": stream(grew, {"result": text("ok")})})
    client = flavour.connect(server.url, extensions=[THING], on_notification=note)
    client.call_tool("echo")
    assert came.wait(10)
    assert seen == [("notifications/com.example/grew", {"by": 1})]
    assert json.dumps(seen)
