"""Events, what of a subscription is honored, and what servers say of tasks."""

from __future__ import annotations

import pickle

import pytest

from ferrule.types import CreateTaskResult, Event, Honored, Missed, TaskChanged, TaskInfo, ToolsChanged


@pytest.mark.req("L2")
def test_events_can_be_told_apart_by_pattern() -> None:
    info = TaskInfo("t-1", "failed")
    events: list[Event] = [ToolsChanged(), Missed(), Missed(3), TaskChanged(info)]
    seen = []
    for event in events:
        match event:
            case ToolsChanged():
                seen.append("tools")
            case Missed(None):
                seen.append("unknown")
            case Missed(count):
                seen.append(f"{count} missed")
            case TaskChanged(task):
                seen.append(task.status)
    assert seen == ["tools", "unknown", "3 missed", "failed"]


@pytest.mark.req("L2", "G1")
def test_what_is_honored_is_a_value_that_shows_no_content() -> None:
    honored = Honored(tools=True, uris=("demo://s3cr3t",), task_ids=("s3cr3t", "b"))
    assert pickle.loads(pickle.dumps(honored)) == honored
    assert repr(honored) == ("Honored(tools=True, prompts=False, resources=False, uris=tuple[1], task_ids=tuple[2])")
    for something in (honored, Honored(prompts=True), Honored(resources=True), Honored(task_ids=("a",))):
        assert something
    assert not Honored()


@pytest.mark.req("K1")
def test_a_task_is_over_at_the_final_statuses_alone() -> None:
    statuses = ("working", "input_required", "completed", "failed", "cancelled", "something new")
    over = [status for status in statuses if TaskInfo("t-1", status).is_final]
    assert over == ["completed", "failed", "cancelled"]


@pytest.mark.req("K1", "X1")
@pytest.mark.parametrize("interval", ["soon", True, None, [1]])
def test_an_interval_that_makes_no_sense_counts_as_missing(interval: object) -> None:
    info = TaskInfo.from_wire({"taskId": "t-1", "status": "working", "ttl": None, "pollInterval": interval})
    assert info.poll_interval is None
    assert info.ttl is None


@pytest.mark.req("K1")
def test_an_immediate_response_is_text_or_nothing() -> None:
    key = "io.modelcontextprotocol/model-immediate-response"
    task = {"taskId": "t-1", "status": "working"}
    assert CreateTaskResult.from_wire({"task": task, "_meta": {key: "wait"}}).immediate_response == "wait"
    for meta in ({}, {key: 7}, {key: None}):
        assert CreateTaskResult.from_wire({"task": task, "_meta": meta}).immediate_response is None
