"""What the server asks: which handler answers, what it is told, and what the server gets."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from ferrule import Limits, types
from ferrule.types import CreateMessageResult, ElicitResult, SamplingRejected
from tests.support import child as on_stdio
from tests.support.asking import PING, SCHEMA, ask, form, note, sampling, visit, wait_for
from tests.support.texts import logged

ACCEPTED = {"action": "accept", "content": {"name": "Ann"}}
SAID = {"role": "assistant", "content": {"type": "text", "text": "Hello!"}, "model": "m", "stopReason": "endTurn"}


def refusal(reply: Any) -> tuple[int, str]:
    assert "result" not in reply
    return reply["error"]["code"], reply["error"]["message"]


def in_colour(flavour: Any, handler: Any) -> Any:
    """The handler as the client's own kind of function: a coroutine function for the asynchronous one."""
    if not flavour.is_async:
        return handler

    async def coroutine(*args: Any) -> Any:
        await asyncio.sleep(0)
        return handler(*args)

    return coroutine


# --- answers, while the call goes on ---------------------------------------------------------------


@pytest.mark.req("I1", "I2")
@pytest.mark.parametrize(
    ("message", "handlers", "answer"),
    [
        (PING, {}, {}),
        (form(), {"on_elicitation": lambda *_: ElicitResult.accept({"name": "Ann"})}, ACCEPTED),
        (form(mode="form"), {"on_elicitation": lambda *_: ACCEPTED}, ACCEPTED),
        (form(), {"on_elicitation": lambda *_: ElicitResult.decline()}, {"action": "decline"}),
        (form(), {"on_elicitation": lambda *_: ElicitResult.cancel()}, {"action": "cancel"}),
        (form(), {"on_elicitation": lambda *_: {"action": "decline", "content": {"name": "x"}}}, {"action": "decline"}),
        (visit(), {"on_elicitation": lambda *_: ElicitResult.accept({"name": "x"})}, {"action": "accept"}),
        (sampling(), {"on_sampling": lambda *_: CreateMessageResult.of_text("Hello!", model="m")}, SAID),
        (sampling(), {"on_sampling": lambda *_: SAID}, SAID),
        (ask("roots/list"), {"roots": ["file:///a"]}, {"roots": [{"uri": "file:///a"}]}),
        (
            ask("roots/list"),
            {"roots": lambda: [types.Root("file:///b", "B"), {"uri": "FILE:///c"}]},
            {"roots": [{"uri": "file:///b", "name": "B"}, {"uri": "FILE:///c"}]},
        ),
        (ask("roots/list", {}), {"roots": []}, {"roots": []}),
    ],
)
def test_a_request_on_the_stream_of_a_call_is_answered_before_the_call_is(
    flavour: Any, asking: Any, message: Any, handlers: Any, answer: Any
) -> None:
    handlers = {n: in_colour(flavour, h) if callable(h) else h for n, h in handlers.items()}
    server = asking(message)
    client = flavour.connect(server.target, **handlers)
    assert client.call_tool("echo", {}).content
    assert server.reply == {"jsonrpc": "2.0", "id": message["id"], "result": answer}


@pytest.mark.req("I1")
@pytest.mark.parametrize("id", [0, 7, -1, "7", "", "ü" * 300, 2**60])
def test_the_id_goes_back_as_it_came(flavour: Any, asking: Any, id: Any) -> None:
    server = asking(ask("ping", id=id))
    flavour.connect(server.target).call_tool("echo", {})
    assert server.reply == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.req("I1")
def test_what_cannot_be_answered_is_dropped_and_nothing_else_suffers(flavour: Any, asking: Any) -> None:
    ids = (None, [1], {"a": 1}, True, 1.5)
    odd = [ask("ping", id=id) for id in ids]
    nameless = [{"jsonrpc": "2.0", "id": "n", "method": [1]}, {"jsonrpc": "2.0", "method": {"a": 1}}]
    server = asking(*odd, *nameless, PING, replies=2)
    client = flavour.connect(server.target, on_notification=lambda *_: None)
    assert client.call_tool("echo", {}).content
    assert sorted(reply["id"] for reply in server.replies) == ["n", "ping-1"]


@pytest.mark.req("I11", "I12")
def test_the_handler_gets_the_request_and_who_asks(flavour: Any, asking: Any) -> None:
    seen: list[Any] = []

    def handler(request: Any, context: Any) -> Any:
        seen.append((request, context))
        return ElicitResult.decline()

    server = asking(form("a"), visit("b"), replies=2)
    client = flavour.connect(server.target, on_elicitation=handler, timeout=60)
    began = time.monotonic()
    client.call_tool("echo", {})
    requests = {request.mode: request for request, _ in seen}
    assert (requests["form"].message, requests["form"].requested_schema) == ("Who are you?", SCHEMA)
    assert requests["form"].fill_defaults() == {"name": "Bo"}
    assert requests["url"].url == "https://x.example/a?b=1#c"
    assert requests["url"].elicitation_id == "e-1"
    context = seen[0][1]
    assert context.server == client._session.label
    assert context.server_name == "scripted"
    assert (context.method, context.era, context.protocol_version) == ("elicitation/create", "handshake", "2025-11-25")
    assert context.cancelled is False and context.task_id is None
    if context.deadline is not None:  # known where the request came on the call's own stream
        assert began < context.deadline <= began + 61
    assert (context.deadline is None) == (not isinstance(server.target, str))
    assert context.server in repr(context)


@pytest.mark.req("I11")
def test_a_sampling_handler_gets_the_conversation(flavour: Any, asking: Any) -> None:
    seen: list[Any] = []

    def handler(request: Any, context: Any) -> Any:
        seen.append(request)
        return {**SAID, "content": [{"type": "tool_use", "id": "u", "name": "t", "input": {}}]}

    tool = {"name": "t", "inputSchema": {"type": "object"}}
    server = asking(sampling(tools=[tool], toolChoice={"mode": "auto"}, systemPrompt="Be kind.", temperature=1))
    client = flavour.connect(server.target, on_sampling=handler, sampling_tools=True)
    client.call_tool("echo", {})
    [request] = seen
    assert request.messages[0].text == "Hello?" and request.messages[0].role == "user"
    assert (request.max_tokens, request.system_prompt, request.temperature) == (10, "Be kind.", 1)
    assert request.tools[0].name == "t" and request.tool_choice == {"mode": "auto"}
    assert server.reply["result"]["content"] == [{"type": "tool_use", "id": "u", "name": "t", "input": {}}]


@pytest.mark.req("I10")
def test_an_answer_carries_the_task_of_its_request_and_a_task_parameter_is_ignored(flavour: Any, asking: Any) -> None:
    seen: list[Any] = []

    def handler(request: Any, context: Any) -> Any:
        seen.append(context.task_id)
        return {"action": "decline", "_meta": {"x/y": 1}}

    meta = {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}
    server = asking(form(task={"ttl": 1000}, _meta=meta))
    flavour.connect(server.target, on_elicitation=handler).call_tool("echo", {})
    assert server.reply["result"] == {"action": "decline", "_meta": {"x/y": 1, **meta}}
    assert seen == ["t-1"]


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.req("I1")
@pytest.mark.parametrize("message", [form(), sampling(), ask("roots/list"), ask("tasks/get"), ask("no/such")])
def test_what_nobody_handles_is_method_not_found(flavour: Any, asking: Any, message: Any) -> None:
    server = asking(message)
    client = flavour.connect(server.target, on_log=lambda *_: None, capabilities={"sampling": {}, "elicitation": {}})
    client.call_tool("echo", {})
    assert refusal(server.reply) == (-32601, "Method not found")


@pytest.mark.req("I1")
@pytest.mark.parametrize(
    "message",
    [
        form(mode="voice"),
        form(mode=7),
        ask("elicitation/create", {"requestedSchema": {}}),
        ask("elicitation/create", {"message": "x", "requestedSchema": [1]}),
        ask("elicitation/create"),
        ask("elicitation/create", {"mode": "url", "message": "x", "url": "https://x/"}),
        sampling(tools=[]),
        sampling(toolChoice={"mode": "none"}),
        ask("sampling/createMessage", {"messages": [{"role": "user", "content": 5}], "maxTokens": 1}),
        ask("sampling/createMessage", [1]),
    ],
)
def test_what_was_not_declared_or_makes_no_sense_is_invalid_params(flavour: Any, asking: Any, message: Any) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("was called")

    server = asking(message)
    flavour.connect(server.target, on_elicitation=never, on_sampling=never).call_tool("echo", {})
    assert server.reply["error"]["code"] == -32602


@pytest.mark.req("I1")
@pytest.mark.parametrize("message", [form(), sampling(), ask("roots/list")])
def test_a_handler_that_raises_tells_the_server_nothing_of_why(flavour: Any, asking: Any, message: Any) -> None:
    def handler(*_: Any) -> Any:
        raise RuntimeError("secret-7f3a")

    server = asking(message)
    coloured = in_colour(flavour, handler)
    with logged() as lines:
        client = flavour.connect(server.target, on_elicitation=coloured, on_sampling=coloured, roots=coloured)
        assert client.call_tool("echo", {}).content
    assert refusal(server.reply) == (-32603, "Internal error")
    assert [line for line in lines if line.startswith("WARNING") and "RuntimeError" in line]
    assert "secret-7f3a" not in "\n".join(lines)


@pytest.mark.req("I1")
def test_a_handler_that_ends_its_thread_is_an_internal_error(asking: Any) -> None:
    from ferrule import Client

    def handler(*_: Any) -> Any:
        raise SystemExit

    server = asking(form())
    with Client(server.target, on_elicitation=handler) as client:
        assert client.call_tool("echo", {}).content
    assert refusal(server.reply) == (-32603, "Internal error")


@pytest.mark.req("I1")
def test_a_sampling_request_the_user_rejects_is_error_minus_one(flavour: Any, asking: Any) -> None:
    def handler(*_: Any) -> Any:
        raise SamplingRejected("my own business")

    server = asking(sampling())
    flavour.connect(server.target, on_sampling=in_colour(flavour, handler)).call_tool("echo", {})
    assert refusal(server.reply) == (-1, "User rejected sampling request")


@pytest.mark.req("I5")
@pytest.mark.parametrize(
    ("message", "given"),
    [
        (form(), None),
        (form(), True),
        (form(), "accept"),
        (form(), {}),
        (form(), {"action": "ok"}),
        (form(), {"action": "accept"}),  # the schema wants a name
        (form(), {"action": "accept", "content": {"name": 5}}),
        (form(), {"action": "accept", "content": {"name": "x", "age": -1}}),
        (form(), {"action": "accept", "content": {"name": "x", "other": {"deep": 1}}}),
        (form(), {"action": "accept", "content": [1]}),
        (form(), ElicitResult("yes")),
        (visit(), None),
        (sampling(), "text"),
        (sampling(), {"role": "assistant", "content": {"type": "text", "text": "x"}}),
        (sampling(), {"role": "assistant", "content": "x", "model": "m"}),
        (sampling(), {**SAID, "extra": float("nan")}),
        (ask("roots/list"), ["https://x/"]),
        (ask("roots/list"), "file:///x"),
        (ask("roots/list"), None),
    ],
)
def test_an_answer_is_sent_as_the_handler_gave_it_or_not_at_all(
    flavour: Any, asking: Any, message: Any, given: Any
) -> None:
    def handler(*_: Any) -> Any:
        return given

    server = asking(message)
    client = flavour.connect(server.target, on_elicitation=handler, on_sampling=handler, roots=handler)
    client.call_tool("echo", {})
    assert refusal(server.reply) == (-32603, "Internal error")


@pytest.mark.req("I5")
def test_defaults_are_filled_in_only_by_who_asks_for_it(flavour: Any, asking: Any) -> None:
    server = asking(form("a"), form("b"), replies=2)
    answers: Any = iter([lambda r: {"name": "Ann"}, lambda r: r.fill_defaults({"age": 3})])
    client = flavour.connect(
        server.target,
        on_elicitation=lambda request, _: ElicitResult.accept(next(answers)(request)),
        limits=Limits(max_handlers=1),
    )
    client.call_tool("echo", {})
    assert [reply["result"]["content"] for reply in server.replies] == [{"name": "Ann"}, {"name": "Bo", "age": 3}]


@pytest.mark.req("I5")
def test_the_sync_client_says_that_it_cannot_await_what_a_handler_returns(asking: Any) -> None:
    from ferrule import Client

    async def later() -> Any:
        return ElicitResult.decline()

    server = asking(form())
    with logged() as lines, Client(server.target, on_elicitation=lambda *_: later()) as client:
        client.call_tool("echo", {})
    assert refusal(server.reply) == (-32603, "Internal error")
    assert [line for line in lines if "ConfigError" in line]


# --- withdrawn -------------------------------------------------------------------------------------


@pytest.mark.req("I9")
def test_a_request_the_server_withdraws_is_not_answered(flavour: Any, asking: Any) -> None:
    contexts: list[Any] = []
    stopped = threading.Event()

    def plain(request: Any, context: Any) -> Any:
        contexts.append(context)
        wait_for(lambda: context.cancelled)
        stopped.set()
        return ElicitResult.decline()

    async def coroutine(request: Any, context: Any) -> Any:
        contexts.append(context)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.set()
            raise

    cancelled = [note("notifications/cancelled", {"requestId": id}) for id in ("q-1", "unknown", [1], None)]
    server = asking(form(), *cancelled, note("notifications/cancelled"), PING)
    notes: list[Any] = []
    client = flavour.connect(
        server.target,
        on_elicitation=coroutine if flavour.is_async else plain,
        on_notification=lambda *args: notes.append(args),
    )
    client.call_tool("echo", {})
    # Withdrawn before it began, the handler is not called at all.
    assert not contexts or stopped.wait(10)
    assert all(context.cancelled for context in contexts)
    assert server.reply["id"] == "ping-1"
    client.close()
    assert server.reply["id"] == "ping-1"
    assert notes == []


@pytest.mark.req("I9")
def test_a_handler_at_work_is_stopped_when_its_request_is_withdrawn(flavour: Any, child: Any, tmp_path: Any) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def plain(request: Any, context: Any) -> Any:
        begun.set()
        wait_for(lambda: context.cancelled)
        stopped.set()
        return ElicitResult.decline()

    async def coroutine(request: Any, context: Any) -> Any:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            assert context.cancelled
            stopped.set()

    going = tmp_path / "going"
    script = [on_stdio.send(form()), on_stdio.wait(going)]
    script += [on_stdio.send(note("notifications/cancelled", {"requestId": "q-1"})), on_stdio.answer()]
    server = child({"tools/call": [script, [on_stdio.answer()]]}, era="handshake")
    client = flavour.connect(server.stdio(), on_elicitation=coroutine if flavour.is_async else plain)
    running = flavour.start(client.call_tool, "echo", {})
    assert begun.wait(20)
    going.touch()
    assert running.result().content
    assert stopped.wait(20)
    client.close()
    assert [message for message in server.messages if "method" not in message] == []


@pytest.mark.req("I9")
def test_what_was_asked_in_a_session_that_is_gone_is_never_answered(flavour: Any, asking: Any) -> None:
    begun, go = threading.Event(), threading.Event()

    def handler(request: Any, context: Any) -> Any:
        begun.set()
        assert go.wait(20)
        return ElicitResult.decline()

    async def coroutine(request: Any, context: Any) -> Any:
        begun.set()
        await asyncio.sleep(60)

    server = asking(form(), replies=0)
    client = flavour.connect(server.target, on_elicitation=coroutine if flavour.is_async else handler)
    client.call_tool("echo", {})
    assert begun.wait(20)
    session = client._session
    drop = session.inbound.drop
    if flavour.is_async:
        flavour._loop.call(lambda: drop(session.link))
    else:
        drop(session.link)
    go.set()
    client.close()
    assert server.replies == []
