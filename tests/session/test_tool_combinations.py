"""Tools that ask for everything at once: headers from arguments, rounds, a task, and a schema for what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MemoryCache
from ferrule.errors import InvalidResult
from ferrule.types import Resume
from tests.support.authorized import Scripted, refuse, tokens_of
from tests.support.caches import HOUR, Counting
from tests.support.listening import HttpEars
from tests.support.rounds import ANN, FORM, accept, done, needs
from tests.support.steps import Message, answer, error, turns
from tests.support.tasking import FAST, declares_tasks, detail, details, extended, made
from tests.support.tooling import REGION, demanding, listed, page, param_headers, tool

SCHEMA = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
PLACED = tool(properties={"region": REGION}, outputSchema=SCHEMA)
MOVED = tool(properties={"region": {**REGION, "x-mcp-header": "Zone"}}, outputSchema=SCHEMA)
MISMATCH = error(-32020, status=400)
VISIT = error(-32042, data={"elicitations": []})


def gives(x: Any) -> Message:
    return {"content": [], "structuredContent": {"x": x}}


def responses(request: Any) -> tuple[Any, Any]:
    """What a request of a round answers, and the state that it returns."""
    return request.params.get("inputResponses"), request.params.get("requestState")


@pytest.mark.req("E5", "E6", "E7", "M1", "K2", "X2", "C9", "R2")
@pytest.mark.parametrize("x", [1, "one"])
def test_a_call_in_rounds_that_is_refused_for_its_headers_and_becomes_a_task(flavour: Any, serve: Any, x: Any) -> None:
    calls = turns(answer(needs({"who": FORM}, "s1")), MISMATCH, answer(needs(state="s2")), answer(made()))
    states = details("working", detail("completed", result=gives(x)))
    lists = turns(listed(PLACED), listed(MOVED))
    server = extended(serve, **{"tools/list": lists, "tools/call": calls, "tasks/get": states})
    meta = Counting()
    options: dict[str, Any] = {"limits": FAST, "validate_output": "strict", "on_elicitation": accept}
    client = flavour.connect(server.url, request_meta=meta, **options)
    client.list_tools()

    def call() -> Any:
        return client.call_tool("echo", {"region": "eu"}, tasks=True)

    if x == 1:
        assert call().structured_content == {"x": 1}
    else:
        with pytest.raises(InvalidResult, match=r"tools/call: structuredContent\.x"):
            call()
    sent = server.calls("tools/call")
    answered = ({"who": ANN}, "s1")
    assert [responses(one) for one in sent] == [(None, None), answered, answered, (None, "s2")]
    # From the refusal on by the list as it is then; in later rounds, too.
    assert [param_headers(one) for one in sent] == [{"Region": "eu"}] * 2 + [{"Zone": "eu"}] * 2
    assert all(declares_tasks(one) for one in [*sent, *server.calls("tasks/get")])
    assert not any(param_headers(one) for one in server.calls("tasks/get"))
    assert not any(declares_tasks(one) for one in server.calls("tools/list"))
    # One evaluation for each request, those that nobody called by name included.
    assert [int(one.meta["traceparent"]) for one in server.requests] == list(range(1, len(server.requests) + 1))
    assert meta.count == len(server.requests)


@pytest.mark.req("M3", "E5", "E6", "K2", "X2")
def test_a_call_goes_on_by_hand_with_its_headers_and_becomes_a_task(flavour: Any, serve: Any) -> None:
    states = details(detail("completed", result=gives(1)))
    calls = turns(MISMATCH, answer(made()))
    server = extended(serve, **{"tools/list": listed(PLACED), "tools/call": calls, "tasks/get": states})
    client = flavour.connect(server.url, limits=FAST, validate_output="strict")
    by_hand = Resume(responses={"who": ANN}, state="s1")
    result = client.call_tool("echo", {"region": "eu"}, tasks=True, resume=by_hand)
    assert result.structured_content == {"x": 1}
    sent = server.calls("tools/call")
    assert [responses(one) for one in sent] == [({"who": ANN}, "s1")] * 2
    assert [param_headers(one) for one in sent] == [{}, {"Region": "eu"}]
    assert all(declares_tasks(one) for one in sent)


@pytest.mark.req("M3", "I12", "E5")
def test_a_call_that_is_made_again_after_a_visit_returns_what_it_goes_on_with(flavour: Any, serve: Any) -> None:
    calls = turns(VISIT, answer(needs({"who": FORM}, "s2")), answer(done()))
    server = serve({"tools/list": listed(tool(properties={"region": REGION})), "tools/call": calls})
    client = flavour.connect(server.url, on_elicitation=accept)
    client.list_tools()
    by_hand = Resume(responses={"who": ANN}, state="s1")
    assert client.call_tool("echo", {"region": "eu"}, retry_after_elicitation=True, resume=by_hand).text == "ok"
    sent = server.calls("tools/call")
    assert [responses(one) for one in sent] == [({"who": ANN}, "s1")] * 2 + [({"who": ANN}, "s2")]
    assert [param_headers(one) for one in sent] == [{"Region": "eu"}] * 3


@pytest.mark.req("M1", "E5", "R2")
def test_each_round_may_be_refused_for_its_token_and_keeps_its_headers(flavour: Any, serve: Any) -> None:
    calls = turns(refuse(), answer(needs({"who": FORM}, "s1")), refuse(), answer(done()))
    server = serve({"tools/list": listed(tool(properties={"region": REGION})), "tools/call": calls})
    client = flavour.connect(server.url, auth=Scripted("a", "b", "c"), on_elicitation=accept)
    client.list_tools()
    assert client.call_tool("echo", {"region": "eu"}).text == "ok"
    sent = server.calls("tools/call")
    assert tokens_of(sent) == ["Bearer a", "Bearer b", "Bearer b", "Bearer c"]
    assert [param_headers(one) for one in sent] == [{"Region": "eu"}] * 4
    assert [responses(one)[1] for one in sent] == [None, None, "s1", "s1"]


@pytest.mark.req("E5", "E7", "X2", "C1", "N14")
@pytest.mark.parametrize("scope", ["public", "private"])
def test_a_list_from_the_cache_teaches_what_its_tools_ask_for(flavour: Any, serve: Any, scope: str) -> None:
    kept = {**page(PLACED), "ttlMs": HOUR, "cacheScope": scope}
    calls = turns(answer(gives(1)), answer(gives("one")))
    server, store = serve({"tools/list": answer(kept), "tools/call": calls}), MemoryCache()
    options: dict[str, Any] = {"cache": store, "validate_output": "strict"}
    flavour.connect(server.url, **options).list_tools()
    client = flavour.connect(server.url, **options)
    client.list_tools()
    view = client.with_options(timeout=20)
    view.list_tools()
    client.call_tool("echo", {"region": "eu"})
    with pytest.raises(InvalidResult, match=r"structuredContent\.x"):
        view.call_tool("echo", {"region": "us"})
    assert server.count("tools/list") == 1
    assert [param_headers(one) for one in server.calls("tools/call")] == [{"Region": "eu"}, {"Region": "us"}]


@pytest.mark.req("E7", "L4", "C1")
def test_after_a_change_the_list_that_is_kept_next_teaches_anew(flavour: Any, serve: Any) -> None:
    ears = HttpEars()
    lists = [answer({**page(one), "ttlMs": HOUR}) for one in (PLACED, MOVED)]
    server, store = serve({"subscriptions/listen": ears, "tools/list": turns(*lists)}), MemoryCache()
    client, other = (flavour.connect(server.url, cache=store) for _ in range(2))
    client.list_tools()
    other.list_tools()
    with client.subscribe(tools=True) as changes:
        ears.opened(1).send("tools/list_changed")
        next(iter(changes))
        client.call_tool("echo", {"region": "old"})  # a change by itself asks for nothing
        client.list_tools()
    client.call_tool("echo", {"region": "new"})
    other.list_tools()
    other.call_tool("echo", {"region": "new"})
    assert server.count("tools/list") == 2
    sent = [param_headers(one) for one in server.calls("tools/call")]
    assert sent == [{"Region": "old"}, {"Zone": "new"}, {"Zone": "new"}]


@pytest.mark.req("E6", "C6")
def test_the_list_that_answers_a_refusal_is_the_one_that_is_kept(flavour: Any, serve: Any) -> None:
    lists = [answer({**page(one), "ttlMs": HOUR}) for one in (PLACED, MOVED)]
    server = serve({"tools/list": turns(*lists), "tools/call": demanding("Mcp-Param-Zone")})
    client = flavour.connect(server.url)
    client.list_tools()
    client.call_tool("echo", {"region": "eu"})
    assert client.list_tools()[0].input_schema == MOVED["inputSchema"]
    client.call_tool("echo", {"region": "us"})
    assert (server.count("tools/list"), server.count("tools/call")) == (2, 3)
