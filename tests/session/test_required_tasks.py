"""`call_tool` on a tool that has to be run as a task: the caller does not notice."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.errors import (
    RequestTimeout,
    ToolError,
)
from tests.support import child as on_stdio
from tests.support.clients import run_async
from tests.support.pushes import Pushes, opened, opening
from tests.support.steps import (
    answer,
    progress,
    result,
    stream,
    text,
)
from tests.support.tasking import FAST, state, states, tasking, tool

REQUIRED = answer({"tools": [tool("required"), tool("optional", "other")]})


@pytest.mark.req("K1", "E7", "R2")
def test_call_tool_runs_a_tool_that_requires_it_as_a_task(flavour: Any, serve: Any) -> None:
    seen: list[Any] = []
    made = stream(progress(1), result({"task": state()}))
    server = tasking(serve, **{"tools/list": REQUIRED, "tools/call": made})
    client = flavour.connect(server.url, limits=FAST)
    client.list_tools()
    given = {"a": 1}
    called = client.call_tool("echo", given, on_progress=lambda *step: seen.append(step[0]), meta={"m": 1})
    assert (called.text, seen, given) == ("done", [1], {"a": 1})
    params = server.calls("tools/call")[0].params
    assert (params["arguments"], params["task"], params["_meta"]["m"]) == ({"a": 1}, {}, 1)
    server.rules["tools/call"] = answer()
    assert client.call_tool("other").text == "ok"
    assert "task" not in server.requests[-1].params
    server.rules["tools/call"] = answer({"task": state("failed")})
    server.rules["tasks/result"] = answer(text("why", isError=True))
    with pytest.raises(ToolError):
        client.call_tool("echo", raise_on_error=True)
    assert server.count("tools/list") == 1
    assert server.count("tasks/cancel") == 0


@pytest.mark.req("K1")
def test_a_server_without_tasks_has_no_tool_that_requires_one(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"initialize": opening({"tools": {}}), "tools/list": REQUIRED, "tools/call": answer()})
    client = flavour.connect(server.url)
    client.list_tools()
    assert client.call_tool("echo").text == "ok"
    assert "task" not in server.requests[-1].params


@pytest.mark.req("K1")
def test_what_a_tool_requires_is_remembered_for_its_session_alone(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tools/list": REQUIRED})
    client = flavour.connect(server.url, limits=FAST)
    view = client.with_options(headers={"X-User": "a"})
    client.list_tools()
    server.rules["tools/call"] = answer()
    view.call_tool("echo")
    assert "task" not in server.requests[-1].params


@pytest.mark.req("K1", "T2")
def test_a_task_that_call_tool_gives_up_is_cancelled_at_the_server(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tools/list": REQUIRED, "tasks/get": states("working")})
    client = flavour.connect(server.url, limits=FAST)
    client.list_tools()
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", timeout=0.15)
    assert caught.value.request_sent is True
    server.wait_until(lambda: server.count("tasks/cancel") == 1)
    assert server.count("notifications/cancelled") == 0


@pytest.mark.req("K1", "T4")
def test_a_cancelled_call_cancels_its_task_in_the_background(serve: Any) -> None:
    import asyncio

    from ferrule import AsyncClient

    server = tasking(serve, **{"tools/list": REQUIRED, "tasks/get": states("working")})

    async def body() -> None:
        async with AsyncClient(server.url, limits=FAST) as client:
            await client.list_tools()
            call = asyncio.ensure_future(client.call_tool("echo"))
            while not server.count("tasks/get"):
                await asyncio.sleep(0.005)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    run_async(body())
    assert server.count("tasks/cancel") == 1


@pytest.mark.req("K1", "T1")
def test_progress_moves_the_deadline_of_a_task_when_asked(flavour: Any, serve: Any) -> None:
    pushes = Pushes()
    server = tasking(serve, **{"GET": pushes, "tools/list": REQUIRED, "tasks/get": states("working")})
    client = flavour.connect(server.url, limits=FAST)
    client.list_tools()
    running = flavour.start(
        client.call_tool, "echo", timeout=0.5, on_progress=print, reset_on_progress=True, max_total=20
    )
    server.wait_until(lambda: server.count("tasks/get") > 0)
    token = server.calls("tools/call")[0].meta["progressToken"]
    for step in range(8):
        pushes.send("progress", progressToken=token, progress=step)
        with pytest.raises(AssertionError):
            server.wait_until(lambda: running.done, 0.1)
    server.rules["tasks/get"] = states("completed")
    assert running.result().text == "done"


@pytest.mark.req("K1")
def test_tasks_work_over_stdio_also_for_a_view(flavour: Any, child: Any) -> None:
    server = child(
        {
            "initialize": [opened()],
            "tools/list": [[on_stdio.answer({"tools": [tool("required")]})]],
            "tools/call": [[on_stdio.answer({"task": state()})]],
            "tasks/get": [[on_stdio.answer(state())], [on_stdio.answer(state("completed"))]],
            "tasks/result": [[on_stdio.answer()]],
        },
        era="handshake",
    )
    client = flavour.connect(server.stdio(), limits=FAST)
    view = client.with_options(timeout=20)
    client.list_tools()
    assert view.call_tool("echo").text == "ok"
    assert server.calls()[0]["params"]["task"] == {}
    assert client.call_tool_task("echo").result().text == "ok"


@pytest.mark.req("K1", "T1")
def test_max_total_bounds_a_task_too(flavour: Any, serve: Any) -> None:
    server = tasking(serve, **{"tools/list": REQUIRED, "tasks/get": states("working")})
    client = flavour.connect(server.url, limits=FAST)
    client.list_tools()
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", max_total=0.1)
    server.wait_until(lambda: server.count("tasks/cancel") == 1)
