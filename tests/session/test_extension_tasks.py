"""Tool calls that become tasks by the extension (stateless era)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ferrule import ElicitResult, Limits
from ferrule.errors import (
    CapabilityError,
    InputRequired,
    InvalidParams,
    InvalidResult,
    RequestTimeout,
    TaskCancelled,
    ToolError,
)
from tests.support import child as on_stdio
from tests.support.pushes import ALL, opening
from tests.support.steps import (
    LAST_CHUNK,
    answer,
    error,
    hang,
    more,
    progress,
    raw,
    result,
    status,
    stream,
    text,
    turns,
)
from tests.support.tasking import (
    CAPABILITIES,
    DONE,
    EXTENSION,
    FAST,
    declares_tasks,
    detail,
    details,
    extended,
    made,
    tasking,
    tool,
)

ASK = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": {}}}


# --- which call becomes one ----------------------------------------------------------------------


@pytest.mark.req("K2")
def test_a_call_that_asked_for_it_is_polled_to_its_result(flavour: Any, serve: Any) -> None:
    server = extended(serve)
    client = flavour.connect(server.url, limits=FAST)
    assert client.call_tool("echo", {"a": 1}, tasks=True).text == "done"
    assert server.methods == ["server/discover", "tools/call", "tasks/get", "tasks/get"]
    assert server.calls()[0].params["arguments"] == {"a": 1}
    assert "task" not in server.calls()[0].params


@pytest.mark.req("K2", "N11")
def test_the_extension_is_declared_by_the_requests_that_want_it_and_no_others(flavour: Any, serve: Any) -> None:
    server = extended(serve)
    client = flavour.connect(server.url, limits=FAST)
    task = client.call_tool_task("echo")
    task.poll()
    task.update({"k": {"action": "decline"}})
    task.cancel()
    server.rules["tools/call"] = answer(text("ok"))
    client.call_tool("echo")
    client.list_tools()
    declared = {request.method for request in server.requests if declares_tasks(request)}
    assert declared == {"tools/call", "tasks/get", "tasks/update", "tasks/cancel"}
    assert [declares_tasks(request) for request in server.calls()] == [True, False]
    assert server.calls()[0].meta[CAPABILITIES]["extensions"] == {EXTENSION: {}}


@pytest.mark.req("K2", "E4")
def test_requests_about_a_task_name_it_in_their_header(flavour: Any, serve: Any) -> None:
    odd = "t/ö"
    server = extended(serve, **{"tools/call": answer(made(taskId=odd)), "tasks/get": details(detail(taskId=odd))})
    task = flavour.connect(server.url).call_tool_task("echo")
    task.poll()
    task.update({})
    task.cancel()
    named = [request.header("mcp-name") for request in server.requests if request.method.startswith("tasks/")]
    assert named == ["=?base64?dC/Dtg==?="] * 3


@pytest.mark.req("K2")
def test_a_call_that_is_answered_at_once_is_a_task_that_is_over(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tools/call": answer(text("at once", isError=True))})
    client = flavour.connect(server.url)
    task = client.call_tool_task("echo")
    assert (task.status, task.id, task.info.is_final) == ("completed", "", True)
    assert task.poll().is_final
    assert task.cancel().status == "completed"
    assert task.result().text == "at once"
    with pytest.raises(ToolError):
        task.result(raise_on_error=True)
    assert client.call_tool("echo", tasks=True).text == "at once"
    assert server.methods == ["server/discover", "tools/call", "tools/call"]


@pytest.mark.req("K2")
def test_a_server_without_the_extension_answers_and_knows_no_tasks(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {"a": 1}, tasks=True).text == '{"a": 1}'
    sent = len(server.requests)
    with pytest.raises(CapabilityError, match=EXTENSION):
        client.get_task("t-1")
    assert len(server.requests) == sent


@pytest.mark.req("K2", "M4")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_a_task_in_answer_to_anything_else_is_an_invalid_result(flavour: Any, serve: Any, method: str) -> None:
    server = extended(serve, **{method: answer(made())})
    task = flavour.connect(server.url).call_tool_task("echo")
    with pytest.raises(InvalidResult, match="resultType: task is not allowed here"):
        {"tasks/get": task.poll, "tasks/cancel": task.cancel, "tasks/update": lambda: task.update({})}[method]()


@pytest.mark.req("K2", "X1")
@pytest.mark.parametrize("wrong", [{"taskId": 7}, {"taskId": ""}, {"status": None}, {"taskId": "\ud800"}])
def test_a_task_of_the_wrong_shape_is_an_invalid_result(flavour: Any, serve: Any, wrong: dict[str, Any]) -> None:
    server = extended(serve, **{"tools/call": answer(made(**wrong))})
    with pytest.raises(InvalidResult, match="tools/call"):
        flavour.connect(server.url).call_tool_task("echo")


@pytest.mark.req("K2")
def test_in_the_handshake_era_a_tool_that_can_be_a_task_is_one_and_others_are_called(flavour: Any, serve: Any) -> None:
    tools = answer({"tools": [tool("optional"), tool("forbidden", "plain"), tool(None, "silent")]})
    server = tasking(serve, **{"tools/list": tools})
    client = flavour.connect(server.url, limits=FAST)
    client.list_tools()
    assert client.call_tool("echo", tasks=True).text == "done"
    assert server.calls()[0].params["task"] == {}
    server.rules["tools/call"] = answer(text("plain"))
    for name in ("plain", "silent", "never listed"):
        assert client.call_tool(name, tasks=True).text == "plain"
    older = serve({"initialize": opening({**ALL, "tasks": {}})}, era="handshake")
    assert flavour.connect(older.url).call_tool("echo", tasks=True).text == "{}"


@pytest.mark.req("K2", "I12")
def test_both_wishes_at_once_are_granted(flavour: Any, serve: Any) -> None:
    server = extended(serve)
    client = flavour.connect(server.url, limits=FAST, on_elicitation=lambda request, context: ElicitResult.decline())
    assert client.call_tool("echo", tasks=True, retry_after_elicitation=True).text == "done"


@pytest.mark.req("K2", "R2")
def test_a_call_is_not_repeated_although_it_may_have_become_a_task(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tools/call": status(503)})
    with pytest.raises(Exception, match="503"):
        flavour.connect(server.url).call_tool("echo", tasks=True)
    assert server.count("tools/call") == 1


@pytest.mark.req("K2", "T6")
def test_progress_of_the_call_itself_is_handed_over(flavour: Any, serve: Any) -> None:
    seen: list[Any] = []
    server = extended(serve, **{"tools/call": stream(progress(1, 2, "half"), result(made()))})
    client = flavour.connect(server.url, limits=FAST)
    assert client.call_tool("echo", tasks=True, on_progress=lambda *step: seen.append(step)).text == "done"
    assert seen == [(1, 2, "half")]


# --- looking at it -------------------------------------------------------------------------------


@pytest.mark.req("K2", "T1")
def test_a_deadline_that_progress_moved_is_the_tasks_too(flavour: Any, serve: Any) -> None:
    # The call is answered later than its timeout, but never that long after progress.
    steps = [stream(progress(0), end=False)]
    for value in (1, 2, 3):
        steps += [lambda turn: time.sleep(0.3), more(progress(value))]
    server = extended(serve, **{"tools/call": [*steps, more({"result": made()}), raw(LAST_CHUNK)]})
    client = flavour.connect(server.url, limits=FAST)
    assert client.call_tool("echo", tasks=True, timeout=0.8, reset_on_progress=True, max_total=20).text == "done"


@pytest.mark.req("K2")
def test_its_state_is_told_in_the_names_of_both_eras(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details(detail(statusMessage="half", new=1))})
    task = flavour.connect(server.url).call_tool_task("echo")
    assert (task.id, task.status, task.info.ttl, task.info.poll_interval) == ("t-1", "working", 60000, 20)
    info = task.poll()
    assert (info.status_message, info.created_at, info.extra) == ("half", "2026-01-01T00:00:00Z", {"new": 1})
    assert "t-1" not in repr(task) + repr(info)


@pytest.mark.req("K2")
def test_any_process_goes_on_by_its_id(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details("working", "working", DONE)})
    first = flavour.connect(server.url)
    known = first.call_tool_task("echo").id
    first.close()
    task = flavour.connect(server.url, limits=FAST).get_task(known)
    assert task.status == "working"
    assert task.result().text == "done"
    assert server.count("tools/call") == 1


@pytest.mark.req("K2")
def test_a_task_that_the_server_does_not_know_is_invalid_params(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": error(-32602, "no task s3cr3t")})
    with pytest.raises(InvalidParams) as caught:
        flavour.connect(server.url).get_task("s3cr3t")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.req("K2", "X1")
def test_the_state_of_another_task_is_an_invalid_result(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details(detail(taskId="t-2"))})
    with pytest.raises(InvalidResult, match="another task"):
        flavour.connect(server.url).get_task("t-1")


@pytest.mark.req("K2")
def test_the_servers_interval_is_honoured_within_bounds(flavour: Any, serve: Any) -> None:
    for named, seconds in [(50, 0.05), (1, 0.02), (3_600_000, 0.09), (None, 0.07)]:
        server = extended(serve, **{"tools/call": answer(made(pollIntervalMs=named)), "tasks/get": details(DONE)})
        limits = Limits(poll_interval=0.07, min_poll_interval=0.02, max_poll_interval=0.09)
        task = flavour.connect(server.url, limits=limits).call_tool_task("echo")
        waited = flavour.start(task.result)
        with pytest.raises(AssertionError):
            server.wait_until(lambda: server.count("tasks/get") > 0, seconds * 0.5)  # noqa: B023
        assert waited.result().text == "done"


@pytest.mark.req("K2")
def test_a_task_that_outlives_its_ttl_is_not_waited_for(flavour: Any, serve: Any) -> None:
    short: dict[str, Any] = {"ttlMs": 60}
    server = extended(serve, **{"tools/call": answer(made(**short)), "tasks/get": details(detail(**short))})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    with pytest.raises(RequestTimeout, match="ttl"):
        task.result(timeout=None)
    server.rules["tasks/get"] = details(detail(ttlMs=None), DONE)
    assert task.result().text == "done"


# --- its end -------------------------------------------------------------------------------------


@pytest.mark.req("K2")
def test_a_failed_task_raises_what_the_call_would_have(flavour: Any, serve: Any) -> None:
    why = {"code": -32602, "message": "no such s3cr3t", "data": {"a": 1}}
    server = extended(serve, **{"tasks/get": details(detail("failed", error=why))})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    with pytest.raises(InvalidParams) as caught:
        task.result()
    assert (caught.value.message, caught.value.data, caught.value.method) == ("no such s3cr3t", {"a": 1}, "tools/call")
    assert "s3cr3t" not in str(caught.value)
    assert task.status == "failed"


@pytest.mark.req("K2")
def test_a_tool_that_failed_completed(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details(detail("completed", result=text("why", isError=True)))})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    assert task.result().is_error
    with pytest.raises(ToolError) as caught:
        task.result(raise_on_error=True)
    assert caught.value.name == "echo"


@pytest.mark.req("K2")
def test_a_cancelled_task_has_no_result(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details("working", "cancelled")})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    assert task.cancel().status == "working"  # the server heard it, and decides
    with pytest.raises(TaskCancelled):
        task.result()
    assert task.status == "cancelled"
    assert "notifications/cancelled" not in server.methods


@pytest.mark.req("K2", "X1")
@pytest.mark.parametrize(
    ("last", "part"),
    [
        (detail("completed"), "result: expected object"),
        (detail("completed", result=[1]), "result"),
        (detail("completed", result={"content": 7}), "tasks/get: content"),
        (detail("failed"), "error.code"),
        (detail("failed", error={"code": "1"}), "error.code"),
    ],
)
def test_an_end_of_the_wrong_shape_is_an_invalid_result(flavour: Any, serve: Any, last: Any, part: str) -> None:
    server = extended(serve, **{"tasks/get": details(last)})
    with pytest.raises(InvalidResult, match=part):
        flavour.connect(server.url, limits=FAST).call_tool("echo", tasks=True)


@pytest.mark.req("K2", "T1")
def test_a_call_that_times_out_has_its_task_cancelled(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details("working")})
    client = flavour.connect(server.url, limits=FAST)
    with pytest.raises(RequestTimeout, match="goes on at the server"):
        client.call_tool("echo", tasks=True, timeout=0.15)
    server.wait_until(lambda: server.count("tasks/cancel") == 1)
    assert "notifications/cancelled" not in server.methods


@pytest.mark.req("K2", "T2")
def test_on_stdio_giving_up_on_a_task_sends_no_cancelled(flavour: Any, child: Any) -> None:
    working = on_stdio.answer(detail("working"))
    server = child(
        {
            "tools/call": [[on_stdio.answer(made())]],
            "tasks/get": [[working], [on_stdio.hang()]],
        }
    )
    client = flavour.connect(server.stdio(), limits=FAST)
    task = client.call_tool_task("echo")
    with pytest.raises(RequestTimeout):
        task.result(timeout=0.3)
    client.close()
    assert server.count("tasks/get") == 2
    assert server.count("notifications/cancelled") == server.count("tasks/cancel") == 0


@pytest.mark.req("K2", "T2")
def test_a_call_that_is_given_up_before_it_became_a_task_is_cancelled_as_a_request(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[]], "notifications/cancelled": [[]]})
    client = flavour.connect(server.stdio())
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", tasks=True, timeout=0.2)
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    [told] = server.calls("notifications/cancelled")
    assert told["params"]["requestId"] == server.calls()[0]["id"]


# --- what it asks --------------------------------------------------------------------------------


def asking(*keys: str) -> dict[str, Any]:
    return detail("input_required", inputRequests=dict.fromkeys(keys, ASK))


@pytest.mark.req("K2", "M1")
def test_what_a_task_asks_is_answered_once_by_the_handlers(flavour: Any, serve: Any) -> None:
    asked: list[Any] = []

    def who(request: Any, context: Any) -> ElicitResult:
        asked.append((request.message, context.method, context.round, context.task_id))
        return ElicitResult.accept({})

    looks = details(asking("a"), asking("a", "b"), asking("a", "b"), "working", DONE)
    server = extended(serve, **{"tasks/get": looks})
    client = flavour.connect(server.url, limits=FAST, on_elicitation=who)
    assert client.call_tool("echo", tasks=True).text == "done"
    assert asked == [("Who?", "elicitation/create", None, "t-1")] * 2
    accepted = {"action": "accept", "content": {}}
    assert [call.params["inputResponses"] for call in server.calls("tasks/update")] == [
        {"a": accepted},
        {"b": accepted},
    ]
    assert {call.params["taskId"] for call in server.calls("tasks/update")} == {"t-1"}


@pytest.mark.req("K2", "M3")
def test_without_a_handler_it_is_answered_by_hand(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details(asking("a"), asking("a"), DONE)})
    client = flavour.connect(server.url, limits=FAST)
    task = client.call_tool_task("echo")
    with pytest.raises(InputRequired, match=r"Task\.update") as caught:
        task.result()
    assert (caught.value.requests, caught.value.state) == ({"a": ASK}, None)
    assert task.info.input_requests == {"a": ASK}
    task.update({"a": ElicitResult.decline()})
    assert task.result().text == "done"
    [update] = server.calls("tasks/update")
    assert update.params["inputResponses"] == {"a": {"action": "decline"}}


@pytest.mark.req("K2", "M3")
def test_a_call_whose_task_asks_in_vain_has_it_cancelled(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details(asking("a"))})
    with pytest.raises(InputRequired):
        flavour.connect(server.url, limits=FAST).call_tool("echo", tasks=True)
    server.wait_until(lambda: server.count("tasks/cancel") == 1)


@pytest.mark.req("K2", "R1")
def test_an_answer_that_was_not_sent_is_given_again(flavour: Any, serve: Any) -> None:
    server = extended(serve, **{"tasks/get": details(asking("a"), asking("a"), DONE)})
    answers = iter(["first", "second"])
    client = flavour.connect(
        server.url, limits=FAST, on_elicitation=lambda request, context: ElicitResult.accept({"n": next(answers)})
    )
    task = client.call_tool_task("echo")
    task.poll()
    server.rules["tasks/update"] = turns(hang(), answer({}))
    with pytest.raises(RequestTimeout):
        task.result(timeout=0.2)
    # It was sent and may have been seen: not once more.
    assert task.result().text == "done"
    assert server.count("tasks/update") == 1


@pytest.mark.req("K2", "M1")
def test_a_call_may_ask_in_rounds_before_it_becomes_a_task(flavour: Any, serve: Any) -> None:
    needed = {"resultType": "input_required", "inputRequests": {"k": ASK}, "requestState": "s"}
    server = extended(serve, **{"tools/call": turns(answer(needed), answer(made()))})
    client = flavour.connect(server.url, limits=FAST, on_elicitation=lambda request, context: ElicitResult.accept({}))
    assert client.call_tool("echo", tasks=True).text == "done"
    first, second = server.calls()
    assert declares_tasks(first) and declares_tasks(second)
    assert second.params["requestState"] == "s"


@pytest.mark.req("K2", "M2")
def test_the_time_of_a_person_does_not_count(flavour: Any, serve: Any) -> None:
    go = threading.Event()

    def who(request: Any, context: Any) -> ElicitResult:
        go.wait(0.4)
        return ElicitResult.accept({})

    server = extended(serve, **{"tasks/get": details(asking("a"), DONE)})
    client = flavour.connect(server.url, limits=FAST, on_elicitation=who)
    assert client.call_tool("echo", tasks=True, timeout=0.35).text == "done"


@pytest.mark.req("K2")
def test_in_the_handshake_era_there_is_nothing_to_answer_by_hand(flavour: Any, serve: Any) -> None:
    server = tasking(serve)
    task = flavour.connect(server.url).call_tool_task("echo")
    sent = len(server.requests)
    with pytest.raises(CapabilityError, match="requests of their own"):
        task.update({"a": ElicitResult.decline()})
    assert len(server.requests) == sent


@pytest.mark.req("K2")
def test_what_is_no_answer_is_a_type_error_before_anything_is_sent(flavour: Any, serve: Any) -> None:
    server = extended(serve)
    task = flavour.connect(server.url).call_tool_task("echo")
    with pytest.raises(TypeError, match="responses"):
        task.update({"a": 7})
    assert server.count("tasks/update") == 0


@pytest.mark.req("K2", "E1")
def test_what_its_requests_declare_is_serialised_once_for_a_connection(flavour: Any, serve: Any) -> None:
    client = flavour.connect(serve().url, protocol="stateless")
    client.call_tool("echo", {}, tasks=True)
    peer, era = client._session.peer, client._session.link.era
    first = peer.envelope_declaring(era, {"io.modelcontextprotocol/tasks": {}})
    client.call_tool("echo", {}, tasks=True)
    assert peer.envelope_declaring(era, {"io.modelcontextprotocol/tasks": {}}) is first
    assert b'"io.modelcontextprotocol/tasks":{}' in first and era.meta is not None and first != era.meta
