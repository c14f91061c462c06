"""Tool calls that go on at the server as tasks (revision 2025-11-25)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import (
    CapabilityError,
    ConfigError,
    ConnectionClosed,
    FerruleError,
    InvalidParams,
    InvalidResult,
    RequestTimeout,
    RPCError,
    ToolError,
)
from tests.support import child as on_stdio
from tests.support.pushes import ALL, TASKS, Pushes, note, opened, opening
from tests.support.steps import (
    LAST_CHUNK,
    Request,
    Step,
    answer,
    error,
    hang,
    more,
    progress,
    raw,
    reset,
    result,
    status,
    stream,
    text,
    turns,
    wait,
)
from tests.support.tasking import FAST, state, states, tasking, tool

# --- calling -------------------------------------------------------------------------------------


@pytest.mark.req("K1", "R2")
def test_a_call_becomes_a_task_that_is_polled_to_its_result(flavour: Any, serve: Any) -> None:
    server = tasking(serve)
    client = flavour.connect(server.url, limits=FAST)
    task = client.call_tool_task("echo", {"a": 1, "_meta": {"b": 2}}, ttl=60000, meta={"c": 3})
    assert (task.id, task.status) == ("t-1", "working")
    assert server.requests[-1].params == {
        "name": "echo",
        "arguments": {"a": 1},
        "task": {"ttl": 60000},
        "_meta": {"b": 2, "c": 3},
    }
    assert task.result().text == "done"
    assert task.status == "completed"
    assert server.methods[-3:] == ["tasks/get", "tasks/get", "tasks/result"]
    assert [call.params for call in server.calls("tasks/result")] == [{"taskId": "t-1"}]
    assert server.count("tools/call") == 1


@pytest.mark.req("K1")
def test_a_call_without_ttl_names_none(flavour: Any, serve: Any) -> None:
    server = tasking(serve)
    flavour.connect(server.url).call_tool_task("echo")
    assert server.requests[-1].params == {"name": "echo", "arguments": {}, "task": {}}


@pytest.mark.req("K1")
def test_poll_asks_once_and_info_is_what_was_last_said(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tasks/get": states(state(statusMessage="half", new=1))})
    task = flavour.connect(server.url).call_tool_task("echo")
    info = task.poll()
    assert info == task.info
    assert (info.status, info.status_message, info.ttl, info.poll_interval) == ("working", "half", 60000, 20)
    assert (info.extra, info.is_final) == ({"new": 1}, False)
    assert server.count("tasks/get") == 1


@pytest.mark.req("K1")
def test_a_task_goes_on_in_another_process_by_its_id(flavour: Any, serve: Any) -> None:
    server = tasking(serve)
    first = flavour.connect(server.url)
    known = first.call_tool_task("echo").id
    first.close()
    task = flavour.connect(server.url, limits=FAST).get_task(known)
    assert task.status == "working"
    assert task.result().text == "done"
    assert task.immediate_response is None


@pytest.mark.req("K1")
def test_a_task_that_is_not_there_is_invalid_params(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tasks/get": error(-32602, "no task s3cr3t")})
    with pytest.raises(InvalidParams) as caught:
        flavour.connect(server.url).get_task("s3cr3t")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.req("K1", "P1")
def test_tasks_are_listed_over_all_pages(flavour: Any, serve: Any) -> None:
    def page(request: Request) -> Any:
        if request.params.get("cursor") is None:
            return {"tasks": [state(taskId="a")], "nextCursor": ""}
        return {"tasks": [state("failed", taskId="b")]}

    client = flavour.connect(tasking(serve, **{"tasks/list": answer(page)}).url, keep_lists=True)
    assert [(task.task_id, task.status) for task in client.list_tasks()] == [("a", "working"), ("b", "failed")]
    assert [task.task_id for task in client.iter_tasks()] == ["a", "b"]
    assert client.list_tasks_page("").tasks[0].task_id == "b"


@pytest.mark.req("K1")
def test_what_to_tell_the_model_meanwhile_is_handed_over(flavour: Any, serve: Any) -> None:
    made = {"task": state(), "_meta": {"io.modelcontextprotocol/model-immediate-response": "on it"}}
    task = flavour.connect(tasking(serve, **{"tools/call": answer(made)}).url).call_tool_task("echo")
    assert task.immediate_response == "on it"


@pytest.mark.req("K1", "G1")
def test_the_id_of_a_task_is_shown_nowhere(flavour: Any, serve: Any) -> None:
    made = {"task": state(taskId="s3cr3t")}
    server = tasking(serve, **{"tools/call": answer(made), "tasks/result": error(-32602, "s3cr3t")})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    with pytest.raises(RPCError) as caught:
        task.result()
    assert "s3cr3t" not in repr(task) + repr(task.info) + str(caught.value)


# --- waiting -------------------------------------------------------------------------------------


@pytest.mark.req("K1")
def test_the_servers_interval_is_honoured_within_bounds(flavour: Any, serve: Any) -> None:
    cases = [(50, 0.05), (None, 0.07), (1, 0.02), (3_600_000, 0.09), ("soon", 0.07)]
    for named, seconds in cases:
        made = state(pollInterval=named) if named is not None else {**state(), "pollInterval": None}
        server = tasking(serve, **{"tools/call": answer({"task": made}), "tasks/get": states("completed")})
        limits = Limits(poll_interval=0.07, min_poll_interval=0.02, max_poll_interval=0.09)
        client = flavour.connect(server.url, limits=limits)
        task = client.call_tool_task("echo")
        waited = flavour.start(task.result)
        with pytest.raises(AssertionError):
            server.wait_until(lambda: server.count("tasks/get") > 0, seconds * 0.5)  # noqa: B023
        assert waited.result().text == "done"


@pytest.mark.req("K1")
def test_input_required_leads_to_the_result_which_blocks_until_there_is_one(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = tasking(
        serve,
        **{
            "tasks/get": states("input_required"),
            "tasks/result": [stream(end=False), wait(go), more(result()), raw(LAST_CHUNK)],
        },
    )
    client = flavour.connect(server.url, limits=FAST)
    running = flavour.start(client.call_tool_task("echo").result)
    server.wait_until(lambda: server.count("tasks/result") == 1)
    assert not running.done
    go.set()
    assert running.result().text == "ok"
    assert server.count("tasks/get") == 1


@pytest.mark.req("K1")
@pytest.mark.parametrize("last", ["completed", "failed", "cancelled"])
def test_every_final_status_leads_to_what_the_call_ended_with(flavour: Any, serve: Any, last: str) -> None:
    ends: dict[str, Step] = {
        "completed": answer(text("ok")),
        "failed": answer(text("why", isError=True)),
        "cancelled": error(-32000, "cancelled"),
    }
    server = tasking(serve, **{"tasks/get": states("strange", last), "tasks/result": ends[last]})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    if last == "cancelled":
        with pytest.raises(RPCError):
            task.result()
    else:
        assert task.result().is_error is (last == "failed")
    if last == "failed":
        with pytest.raises(ToolError) as caught:
            task.result(raise_on_error=True)
        assert caught.value.name == "echo"
    assert task.status == last


@pytest.mark.req("K1")
def test_a_status_that_the_server_tells_unasked_saves_the_look(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    slow = answer({"task": state(pollInterval=30000)})
    server = tasking(serve, **{"GET": pushes, "tools/call": slow, "tasks/get": status(500)})
    client = flavour.connect(server.url, listen=True)
    running = flavour.start(client.call_tool_task("echo").result, timeout=20)
    for step in (state("working"), state("completed", taskId="other"), {"status": 7}, state("completed")):
        pushes.send("tasks/status", **step)
    assert running.result().text == "done"
    assert server.count("tasks/get") == 0


@pytest.mark.req("K1")
def test_a_status_arrives_over_stdio_while_the_task_waits(flavour: Any, child: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    made, told = {"task": state(pollInterval=30000)}, note("tasks/status", **state("completed"))
    server = child(
        {
            "initialize": [opened()],
            "tools/call": [[on_stdio.answer(made), on_stdio.wait(go), on_stdio.send(told)]],
            "tasks/result": [[on_stdio.answer()]],
        },
        era="handshake",
    )
    running = flavour.start(flavour.connect(server.stdio()).call_tool_task("echo").result, timeout=20)
    go.touch()
    assert running.result().text == "ok"
    assert server.count("tasks/get") == 0


@pytest.mark.req("K1", "T6")
def test_progress_of_the_call_goes_on_until_the_task_is_over(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    seen: list[Any] = []
    server = tasking(serve, **{"GET": pushes, "tools/call": stream(progress(1, 3), result({"task": state()}))})
    client = flavour.connect(server.url, limits=FAST)
    task = client.call_tool_task("echo", on_progress=lambda *step: seen.append(step))
    assert seen == [(1, 3, None)]
    token = server.calls("tools/call")[0].meta["progressToken"]
    server.rules["tasks/get"] = turns(answer(state()), answer(state()), answer(state("completed")))
    pushes.send("progress", progressToken=token, progress=2, message="half")
    while len(seen) < 2:
        server.rules["tasks/get"] = answer(state())
        task.poll()
    assert seen[1] == (2, None, "half")
    server.rules["tasks/get"] = answer(state("completed"))
    task.result()
    pushes.send("progress", progressToken=token, progress=3)
    task.poll()
    assert len(seen) == 2


@pytest.mark.req("K1", "R1")
def test_looks_and_results_are_asked_for_again_after_an_outage(flavour: Any, serve: Any) -> None:
    looks = turns(reset(), answer(state("completed")))
    server = tasking(serve, **{"tasks/get": looks, "tasks/result": turns(status(503), answer(text("done")))})
    client = flavour.connect(server.url, limits=FAST, retry=Retry(backoff=0.01))
    assert client.call_tool_task("echo").result().text == "done"


@pytest.mark.req("K1", "R2")
@pytest.mark.parametrize("trouble", [reset(), status(503), answer({"task": 7}), answer({"content": []})])
def test_the_call_that_makes_a_task_is_never_repeated(flavour: Any, serve: Any, trouble: Step) -> None:
    server = tasking(serve, **{"tools/call": trouble})
    with pytest.raises(FerruleError) as caught:
        flavour.connect(server.url, retry=Retry(backoff=0.01)).call_tool_task("echo")
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1


# --- giving up -----------------------------------------------------------------------------------


@pytest.mark.req("K1")
def test_a_task_is_cancelled_by_its_own_method(flavour: Any, serve: Any) -> None:
    server = tasking(serve)
    task = flavour.connect(server.url).call_tool_task("echo")
    assert task.cancel().status == "cancelled"
    assert task.status == "cancelled"
    assert server.requests[-1].params == {"taskId": "t-1"}
    # What is over stays over, whatever a late look says.
    assert task.poll().status == "cancelled"


@pytest.mark.req("K1", "T2")
def test_giving_up_sends_no_cancellation_of_the_request(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tools/call": hang(), "tasks/get": hang(), "tasks/result": hang()})
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool_task("echo", timeout=0.05)
    assert caught.value.request_sent is True
    server.rules["tools/call"] = answer({"task": state("input_required")})
    task = client.call_tool_task("echo")
    for call in (task.poll, task.result):
        with pytest.raises(RequestTimeout):
            call(timeout=0.05)
    client.close()
    assert server.count("notifications/cancelled") == server.count("tasks/cancel") == 0


@pytest.mark.req("K1", "T1")
def test_waiting_for_a_task_ends_at_the_timeout_and_can_go_on(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tasks/get": states("working")})
    task = flavour.connect(server.url, limits=FAST).call_tool_task("echo")
    with pytest.raises(RequestTimeout, match="goes on at the server"):
        task.result(timeout=0.1)
    assert server.count("tasks/cancel") == 0
    server.rules["tasks/get"] = states("completed")
    assert task.result().text == "done"


@pytest.mark.req("K1", "T7")
def test_closing_the_client_ends_the_waiting(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tools/call": answer({"task": state(pollInterval=30000)})})
    client = flavour.connect(server.url)
    running = flavour.start(client.call_tool_task("echo").result)
    with pytest.raises(AssertionError):
        server.wait_until(lambda: running.done, 0.05)
    client.close()
    assert isinstance(running.outcome(), ConnectionClosed)


# --- gates ---------------------------------------------------------------------------------------


def without(*path: str) -> dict[str, Any]:
    """The capabilities without one part of `tasks`."""
    tasks: dict[str, Any] = {**TASKS}
    if len(path) == 1:
        tasks.pop(path[0])
    else:
        tasks["requests"] = {}
    return {**ALL, "tasks": tasks}


GATES: dict[str, tuple[dict[str, Any], Callable[[Any], Any], str]] = {
    "no tasks at all": ({"tools": {}}, lambda c: c.call_tool_task("echo"), "capability tasks"),
    "no calls": (without("requests", "tools"), lambda c: c.call_tool_task("echo"), "tasks.requests.tools.call"),
    "no list": (without("list"), lambda c: c.list_tasks(), "tasks.list"),
    "no cancel": (without("cancel"), lambda c: c.call_tool_task("echo").cancel(), "tasks.cancel"),
    "nothing to get": ({"tools": {}}, lambda c: c.get_task("t-1"), "capability tasks"),
}


@pytest.mark.req("K1", "N12")
@pytest.mark.parametrize(("capabilities", "call", "lacking"), GATES.values(), ids=GATES.keys())
def test_what_the_server_did_not_declare_is_not_sent(
    flavour: Any, serve: Any, capabilities: dict[str, Any], call: Callable[[Any], Any], lacking: str
) -> None:
    server = tasking(serve, initialize=opening(capabilities))
    with pytest.raises(CapabilityError, match=lacking) as caught:
        call(flavour.connect(server.url))
    assert caught.value.request_sent is False
    assert set(server.methods) <= {"server/discover", "initialize", "notifications/initialized", "tools/call"}


@pytest.mark.req("K1", "E7")
@pytest.mark.parametrize("support", ["forbidden", None])
def test_a_tool_that_is_known_to_be_no_task_is_not_called_as_one(flavour: Any, serve: Any, support: str | None) -> None:
    server = tasking(serve, **{"tools/list": answer({"tools": [tool(support)]})})
    client = flavour.connect(server.url)
    assert client.call_tool_task("echo").id == "t-1"  # not known: the server may judge
    client.list_tools()
    with pytest.raises(CapabilityError, match="cannot be called as a task"):
        client.call_tool_task("echo")
    assert (server.count("tools/call"), server.count("tools/list")) == (1, 1)


@pytest.mark.req("K1")
@pytest.mark.parametrize("ttl", [0, -1, True, 1.5, "60"])
def test_a_ttl_is_a_positive_number_of_milliseconds(flavour: Any, serve: Any, ttl: Any) -> None:
    with pytest.raises(ConfigError, match="ttl"):
        flavour.client(serve().url).call_tool_task("echo", ttl=ttl)


@pytest.mark.req("K1")
def test_an_id_that_cannot_be_sent_back_is_an_invalid_result(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tools/call": answer({"task": state(taskId="\ud800")})})
    with pytest.raises(InvalidResult, match=r"task\.taskId"):
        flavour.connect(server.url).call_tool_task("echo")
