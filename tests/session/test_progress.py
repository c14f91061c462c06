"""Progress: whose it is, when the handler runs, what it may do, and how it moves the deadline."""

import time
from threading import Event
from typing import Any

import pytest

from ferrule._io.asyncio import Slot as AsyncSlot
from ferrule._io.wakers import Slot as BlockingSlot
from ferrule._protocol import methods
from ferrule._transports.call import SpecialCall
from ferrule._transports.messages import post_progress
from ferrule.errors import ConfigError, RequestTimeout, RPCError
from tests.support import child as on_stdio
from tests.support.steps import (
    LAST_CHUNK,
    answer,
    event,
    hang,
    http,
    more,
    progress,
    raw,
    result,
    result_for,
    stream,
    text,
    turns,
    wait,
)
from tests.support.steps import SSE as SSE_TYPE
from tests.support.texts import logged

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
Seen = list[tuple[float, float | None, str | None]]


def note(params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


@pytest.mark.req("T6")
@ERAS
def test_the_handler_gets_progress_total_and_message_in_order(flavour: Any, serve: Any, era: str) -> None:
    items = [progress(1), progress(2.5, 10), progress(3, 10, "almost"), result(text("done"))]
    server = serve({"tools/call": stream(*items)}, era=era)
    seen: Seen = []
    client = flavour.connect(server.url)
    called = client.call_tool("echo", {}, on_progress=lambda *args: seen.append(args))
    assert called.text == "done"
    assert seen == [(1, None, None), (2.5, 10, None), (3, 10, "almost")]


@pytest.mark.req("T6")
def test_progress_in_the_same_packet_as_the_result_comes_before_the_call_returns(flavour: Any, serve: Any) -> None:
    def packet(request: Any) -> bytes:
        notes = b"".join(event(progress(n)(request)) for n in range(100))  # type: ignore[operator]
        return http(200, notes + event(result_for(request, text("done"))) + event(progress(999)(request)), [SSE_TYPE])  # type: ignore[operator]

    server = serve({"tools/call": raw(packet)})
    seen: list[float] = []
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}, on_progress=lambda value, *_: seen.append(value)).text == "done"
    assert seen == list(range(100))


@pytest.mark.req("T6")
def test_the_handler_runs_while_the_call_is_still_under_way(flavour: Any, serve: Any) -> None:
    go, seen = Event(), Event()
    server = serve({"tools/call": [stream(progress(1), end=False), wait(go), more(result()), raw(LAST_CHUNK)]})
    client = flavour.connect(server.url)
    running = flavour.start(client.call_tool, "echo", {}, on_progress=lambda *_: seen.set())
    assert seen.wait(10)
    assert not running.done
    go.set()
    assert running.result().text == "ok"


@pytest.mark.req("T6")
@ERAS
def test_tokens_are_sent_only_for_a_handler_and_are_unique(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    calls = [lambda: client.call_tool("echo", {}, on_progress=lambda *_: None) for _ in range(10)]
    flavour.together(*calls)
    client.call_tool("echo", {})
    tokens = [call.meta.get("progressToken") for call in server.calls()]
    assert tokens[-1] is None
    assert len(set(tokens[:-1])) == 10
    assert all(isinstance(token, (int, str)) for token in tokens[:-1])


@pytest.mark.req("T6")
def test_progress_of_somebody_else_or_in_no_shape_is_dropped(flavour: Any, serve: Any) -> None:
    def foreign(request: Any) -> Any:
        return note({"progressToken": request.meta["progressToken"] + 1, "progress": 1})

    def shapeless(value: Any) -> Any:
        return lambda request: note({"progressToken": request.meta["progressToken"], **value})

    items = [
        foreign,
        note({"progressToken": "x", "progress": 1}),
        note({"progressToken": None, "progress": 1}),
        note({"progressToken": [1], "progress": 1}),
        note({"progress": 1}),
        note([1]),
        note(None),
        {"jsonrpc": "2.0", "method": "notifications/progress"},
        shapeless({}),
        shapeless({"progress": "1"}),
        shapeless({"progress": None}),
        shapeless({"progress": True}),
        shapeless({"progress": [1]}),
        shapeless({"progress": 7, "total": "x", "message": 5}),
        result(),
    ]
    server = serve({"tools/call": stream(*items)})
    seen: Seen = []
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}, on_progress=lambda *args: seen.append(args)).text == "ok"
    assert seen == [(7, None, None)]


@pytest.mark.req("T6")
def test_a_handler_that_raises_is_logged_by_type_and_fails_nothing(flavour: Any, serve: Any) -> None:
    def handler(*_: Any) -> None:
        count.append(1)
        raise RuntimeError("secret-7f3a")

    count: list[int] = []
    server = serve({"tools/call": stream(progress(1), progress(2), result())})
    client = flavour.connect(server.url)
    with logged() as lines:
        assert client.call_tool("echo", {}, on_progress=handler).text == "ok"
    assert len(count) == 2
    assert [line for line in lines if "RuntimeError" in line and line.startswith("WARNING")]
    assert "secret-7f3a" not in "\n".join(lines)


@pytest.mark.req("T6")
def test_a_handler_that_is_interrupted_ends_the_call_and_the_client_goes_on(serve: Any) -> None:
    from ferrule import Client

    def handler(*_: Any) -> None:
        raise KeyboardInterrupt

    server = serve({"tools/call": turns([stream(progress(1), end=False), hang()], answer(text("good")))})
    with Client(server.url) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("echo", {}, on_progress=handler)
        server.wait_until(lambda: server.open == 0)
        assert client.call_tool("echo", {}).text == "good"


@pytest.mark.req("T6")
def test_progress_that_goes_backwards_is_passed_on_and_logged_once(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": stream(*[progress(n) for n in (5, 3, 4, 1, 9)], result())})
    seen: list[float] = []
    client = flavour.connect(server.url)
    with logged() as lines:
        client.call_tool("echo", {}, on_progress=lambda value, *_: seen.append(value))
    assert seen == [5, 3, 4, 1, 9]
    assert len([line for line in lines if "backwards" in line]) == 1


@pytest.mark.req("T6")
def test_the_handler_may_call_the_client(flavour: Any, serve: Any) -> None:
    inner: list[str] = []
    server = serve({"tools/call": turns(stream(progress(1), result(text("outer"))), answer(text("inner")))})
    client = flavour.connect(server.url)
    target = getattr(client, "_target", client)

    def plain(*_: Any) -> None:
        inner.append(client.call_tool("echo", {}).text)

    async def coroutine(*_: Any) -> None:
        inner.append((await target.call_tool("echo", {})).text)

    handler = coroutine if flavour.is_async else plain
    assert client.call_tool("echo", {}, on_progress=handler).text == "outer"
    assert inner == ["inner"]


@pytest.mark.req("T6")
def test_the_sync_client_refuses_a_coroutine_function_as_handler(serve: Any) -> None:
    from ferrule import Client

    async def handler(*_: Any) -> None: ...

    server = serve()
    with Client(server.url) as client:
        for call in (client.call_tool, client.request):
            with pytest.raises(ConfigError, match="async"):
                call("echo", {}, on_progress=handler)
    assert server.methods == ["server/discover"]


@pytest.mark.req("T6")
@pytest.mark.parametrize("end", ["error", "timeout"])
def test_no_handler_runs_after_its_call_ended(flavour: Any, serve: Any, end: str) -> None:
    late = Event()
    wrong = {"error": {"code": -32000, "message": "no"}}
    ending: list[Any] = [more(wrong)] if end == "error" else []
    script = [stream(progress(1), end=False), *ending, wait(late), more(progress(2)), raw(LAST_CHUNK)]
    server = serve({"tools/call": turns(script, answer(text("good")))})
    seen: list[float] = []
    client = flavour.connect(server.url)
    with pytest.raises(RPCError if end == "error" else RequestTimeout):
        client.call_tool("echo", {}, timeout=0.2, on_progress=lambda value, *_: seen.append(value))
    late.set()
    assert client.call_tool("echo", {}, on_progress=lambda value, *_: seen.append(value)).text == "good"
    assert seen == [1]


@pytest.mark.req("T6")
def test_each_attempt_has_a_token_of_its_own(flavour: Any, serve: Any) -> None:
    from ferrule import Retry

    def stale(request: Any) -> Any:
        return note({"progressToken": first["token"], "progress": 99})

    first: dict[str, Any] = {}

    def remember(turn: Any) -> None:
        first["token"] = turn.request.meta["progressToken"]
        stream(progress(1))(turn)

    server = serve({"tools/call": turns(remember, stream(stale, progress(2), result()))})
    seen: list[float] = []
    client = flavour.connect(server.url, retry=Retry(backoff=0.01))
    client.call_tool("echo", {}, idempotent=True, on_progress=lambda value, *_: seen.append(value))
    assert seen == [1, 2]


@pytest.mark.req("T6")
def test_request_takes_a_handler_too(flavour: Any, serve: Any) -> None:
    server = serve({"x/y": stream(progress(1), {"result": {"a": 1}})})
    seen: list[float] = []
    client = flavour.connect(server.url)
    assert client.request("x/y", on_progress=lambda value, *_: seen.append(value)) == {"a": 1}
    assert seen == [1]


@pytest.mark.req("T6")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_progress_arrives_over_stdio_as_over_http(flavour: Any, child: Any, era: str) -> None:
    steps = [on_stdio.progress(1, 2, "half"), on_stdio.progress(2, 2), on_stdio.answer(), on_stdio.progress(3)]
    server = child({"tools/call": [steps]}, era=era)
    seen: Seen = []
    client = flavour.connect(server.stdio())
    for _ in range(2):
        assert client.call_tool("echo", {}, on_progress=lambda *args: seen.append(args)).text == "ok"
    assert seen == [(1, 2, "half"), (2, 2, None)] * 2


# --- the deadline --------------------------------------------------------------------------------


def slowly(count: int, seconds: float) -> Any:
    """Progress at this pace, then the answer."""

    def step(turn: Any) -> None:
        stream(end=False)(turn)
        for number in range(count):
            turn.server._closing.wait(seconds)
            more(progress(number))(turn)
        more(result())(turn)
        turn.send(LAST_CHUNK)

    return step


@pytest.mark.req("T1")
def test_progress_extends_the_deadline_when_asked_to(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": slowly(8, 0.1)})
    client = flavour.connect(server.url)
    began = time.monotonic()
    called = client.call_tool(
        "echo", {}, timeout=0.4, on_progress=lambda *_: None, reset_on_progress=True, max_total=20
    )
    assert called.text == "ok"
    assert time.monotonic() - began > 0.7


@pytest.mark.req("T1")
def test_progress_extends_the_deadline_without_a_handler_too(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": slowly(8, 0.1)})
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}, timeout=0.4, reset_on_progress=True, max_total=20).text == "ok"


@pytest.mark.req("T1")
def test_progress_extends_the_deadline_up_to_a_total(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": slowly(10_000, 0.02)})
    client = flavour.connect(server.url)
    began = time.monotonic()
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {}, timeout=0.2, on_progress=lambda *_: None, reset_on_progress=True, max_total=0.4)
    assert 0.39 < time.monotonic() - began < 5


@pytest.mark.req("T1")
def test_progress_alone_extends_nothing(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": slowly(10_000, 0.02)})
    client = flavour.connect(server.url)
    began = time.monotonic()
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {}, timeout=0.2, on_progress=lambda *_: None)
    assert time.monotonic() - began < 5


@pytest.mark.req("T1")
@pytest.mark.parametrize("max_total", [None, 0, -1])
def test_extending_without_a_bound_is_a_config_error(flavour: Any, serve: Any, max_total: float | None) -> None:
    server = serve()
    client = flavour.client(server.url)
    for handler in (None, lambda *_: None):
        with pytest.raises(ConfigError):
            client.call_tool("echo", {}, on_progress=handler, reset_on_progress=True, max_total=max_total)
    assert server.accepted == 0


@pytest.mark.req("T6")
@pytest.mark.parametrize("make", [AsyncSlot, BlockingSlot])
def test_progress_beyond_the_queue_of_a_slow_handler_is_dropped_and_said_once(make: Any, caplog: Any) -> None:
    slot = make()
    call = SpecialCall(1, methods.TOOLS_CALL, "echo", None, None, 0.0)
    with caplog.at_level("WARNING"):
        for n in range(6):
            post_progress(call, slot, {"progress": n}, 3)
    assert slot.take_mail() == [{"progress": 0}, {"progress": 1}, {"progress": 2}]
    assert [record.getMessage() for record in caplog.records] == [
        "tools/call: the progress handler is 3 notifications behind: some are dropped"
    ]
    post_progress(call, slot, {"progress": 6}, 3)
    assert slot.take_mail() == [{"progress": 6}]
