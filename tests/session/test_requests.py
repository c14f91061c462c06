"""One request from the caller's arguments to its deadline: ids, arguments, timeouts."""

import copy
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import (
    ConfigError,
    ConnectionClosed,
    HTTPStatusError,
    RequestTimeout,
)
from tests.support.steps import (
    CHUNKED,
    SSE,
    Step,
    answer,
    chunk,
    hang,
    http,
    raw,
    reset,
    status,
    stream,
    text,
    turns,
    wait,
)

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
ONCE = Retry(attempts=1)
FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)


# --- ids -----------------------------------------------------------------------------------------


@pytest.mark.req("E8")
@ERAS
def test_ids_are_integers_and_never_used_twice_in_a_clients_life(flavour: Any, serve: Any, era: str) -> None:
    server = serve({"tools/list": turns(reset(), status(503), answer({"tools": []}))}, era=era)
    client = flavour.connect(server.url, retry=FAST)
    client.list_tools()
    view = client.with_options(headers={"X-User": "b"})
    outcomes = flavour.together(*[lambda: view.call_tool("echo", {}), lambda: client.call_tool("echo", {})] * 20)
    assert all(outcome.text == "{}" for outcome in outcomes)
    ids = [request.message["id"] for request in server.requests if "id" in request.message]
    assert len(ids) >= 44
    assert all(type(id) is int for id in ids)
    assert len(set(ids)) == len(ids)


# --- arguments -----------------------------------------------------------------------------------


class Odd:
    """Nothing that JSON knows."""


BAD_ARGUMENTS = {
    "nan": ({"a": [1, float("nan")]}, r"params\.arguments\.a\[1\]"),
    "inf": ({"a": {"b": float("inf")}}, r"params\.arguments\.a\.b"),
    "minus inf": ({"a": float("-inf")}, r"params\.arguments\.a"),
    "number as key": ({"a": {1: 2}}, r"params\.arguments\.a"),
    "None as key": ({None: 2}, r"params\.arguments"),
    "object": ({"a": [{}, {"b": Odd()}]}, r"params\.arguments\.a\[1\]\.b"),
    "set": ({"a": {1}}, r"params\.arguments\.a"),
    "bytes": ({"a": b"x"}, r"params\.arguments\.a"),
    "large": ({"a": 2**64}, r"params\.arguments\.a"),
    "small": ({"a": -(2**63) - 1}, r"params\.arguments\.a"),
    "surrogate": ({"a": "\ud800"}, r"params\.arguments\.a"),
    "surrogate key": ({"\ud800": 1}, r"params\.arguments"),
    "list": ([1], "arguments"),
    "text": ("a", "arguments"),
    "zero": (0, "arguments"),
}


@pytest.mark.req("W10")
@pytest.mark.parametrize(("arguments", "path"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS.keys())
def test_arguments_that_json_cannot_hold_are_a_type_error_that_names_the_path_and_nothing_is_sent(
    flavour: Any, serve: Any, arguments: Any, path: str
) -> None:
    server = serve()
    client = flavour.client(server.url)
    with pytest.raises(TypeError, match=path):
        client.call_tool("echo", arguments)
    assert server.accepted == 0
    assert client.call_tool("echo", {"fine": 1}).text == '{"fine": 1}'


@pytest.mark.req("W10")
def test_arguments_that_contain_themselves_are_a_type_error(flavour: Any, serve: Any) -> None:
    server = serve()
    loop: dict[str, Any] = {}
    loop["a"] = [loop]
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    client = flavour.client(server.url)
    for arguments in (loop, {"a": deep}):
        with pytest.raises(TypeError):
            client.call_tool("echo", arguments)
    assert server.accepted == 0
    while isinstance(deep, list):  # taken apart by hand: freeing it at once would need a deep stack
        deep = deep.pop()


@ERAS
@pytest.mark.req("R6", "E1")
def test_meta_among_the_arguments_is_sent_beside_them(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url, request_meta={"com.example/a": "standing", "com.example/b": "standing"})
    given = {"x": 1, "_meta": {"com.example/b": "call", "io.modelcontextprotocol/protocolVersion": "1999"}}
    before = copy.deepcopy(given)
    client.call_tool("echo", given)
    client.get_prompt("greet", {**given, "x": "1"})
    for method, arguments in (("tools/call", {"x": 1}), ("prompts/get", {"x": "1"})):
        (request,) = server.calls(method)
        assert request.params["arguments"] == arguments
        assert (request.meta["com.example/a"], request.meta["com.example/b"]) == ("standing", "call")
        assert request.meta.get("io.modelcontextprotocol/protocolVersion") != "1999"
    assert given == before


@pytest.mark.req("W10", "E1")
def test_meta_that_json_cannot_hold_is_a_type_error(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url)
    calls: list[Callable[[], Any]] = [
        lambda: client.call_tool("echo", {}, meta={"x": float("nan")}),
        lambda: client.call_tool("echo", {"_meta": 7}),
        lambda: client.request("tools/list", {"_meta": [1]}),
        lambda: client.request("tools/list", {"cursor": Odd()}),
        lambda: client.get_prompt("greet", {"a": Odd()}),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
    assert len(server.requests) == 1


@pytest.mark.req("W10")
@pytest.mark.parametrize("name", [None, 7, b"echo", ["echo"], "\ud800"])
def test_names_that_are_no_text_are_a_type_error_and_nothing_is_sent(flavour: Any, serve: Any, name: Any) -> None:
    server = serve()
    client = flavour.client(server.url)
    for call in (client.call_tool, client.get_prompt, client.read_resource, client.request, client.notify):
        with pytest.raises(TypeError):
            call(name)
    assert server.accepted == 0


@pytest.mark.req("W10")
def test_what_json_can_hold_goes_out_exactly(flavour: Any, serve: Any) -> None:
    server = serve()
    values: list[Any] = [
        2**64 - 1,
        -(2**63),
        0.1,
        1e308,
        5e-324,
        True,
        None,
        "",
        "\u2028 \x00 世 😀",
        (1, 2),
        {"": {"a": []}},
        -0.0,
    ]
    flavour.connect(server.url).call_tool("echo", {"v": values})
    sent = server.requests[-1].params["arguments"]["v"]
    assert sent == [list(one) if isinstance(one, tuple) else one for one in values]
    assert str(sent[-1]) == "-0.0"


# --- deadlines -----------------------------------------------------------------------------------


def keep_alive(turn: Any) -> None:
    """An event stream that says nothing but comments, for as long as the client listens."""
    turn.send(http(200, b"", [SSE, CHUNKED], length=False))
    while not turn.ended and not turn.server._closing.wait(0.01):
        turn.send(chunk(b": still here\n\n"))


SLOW = {
    "no answer": hang(),
    "half a head": [raw(b"HTTP/1.1 200 OK\r\n"), hang()],
    "half a body": [raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"), hang()],
    "an open stream": [stream(end=False), hang()],
    "half an event": [stream(b"data: {", end=False), hang()],
    "comments for ever": keep_alive,
    "interim answers": [raw(b"HTTP/1.1 102 Processing\r\n\r\n" * 10), hang()],
}


@pytest.mark.req("T1", "R4")
@ERAS
@pytest.mark.parametrize("step", SLOW.values(), ids=SLOW.keys())
def test_a_call_ends_at_its_timeout_whatever_the_server_does_meanwhile(
    flavour: Any, serve: Any, step: Step, era: str
) -> None:
    server = serve({"tools/call": turns(step, answer(text("good")))}, era=era, session=None)
    client = flavour.connect(server.url)
    began = time.monotonic()
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.15)
    assert 0.14 < time.monotonic() - began < 5
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1
    assert client.call_tool("echo", {}).text == "good"


@pytest.mark.req("T1")
def test_the_clients_timeout_holds_for_a_call_and_the_calls_own_replaces_it(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({"tools/call": [wait(go), answer()]})
    client = flavour.connect(server.url, timeout=0.1)
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {})
    patient = flavour.start(client.call_tool, "echo", {}, timeout=None)
    server.wait_until(lambda: server.count("tools/call") == 2)
    with pytest.raises(RequestTimeout):
        client.with_options(timeout=0.15).call_tool("echo", {})
    assert not patient.done
    go.set()
    assert patient.result().text == "ok"


@pytest.mark.req("T1", "R4")
def test_the_timeout_covers_retries_and_the_waits_between_them(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": status(503, headers=[("Retry-After", "50")])})
    client = flavour.connect(server.url)
    began = time.monotonic()
    with pytest.raises(HTTPStatusError) as caught:
        client.list_tools(timeout=5)
    # There is no point in waiting for a second attempt that the deadline forbids.
    assert time.monotonic() - began < 4
    assert (caught.value.status, caught.value.retry_after, server.count("tools/list")) == (503, 50.0, 1)


@pytest.mark.req("T1", "R4")
def test_the_timeout_covers_connecting_and_nothing_was_sent_then(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": hang()})
    client = flavour.client(server.url)
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.1)
    assert caught.value.request_sent is False  # the call itself, that is
    assert server.methods == ["server/discover"]


@pytest.mark.req("T1")
@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True])
def test_a_timeout_that_is_no_positive_number_is_a_config_error(flavour: Any, serve: Any, timeout: Any) -> None:
    server = serve()
    with pytest.raises(ConfigError, match="timeout"):
        flavour.client(server.url, timeout=timeout)
    client = flavour.client(server.url)
    with pytest.raises(ConfigError, match="timeout"):
        client.call_tool("echo", {}, timeout=timeout)
    assert server.accepted == 0


@pytest.mark.req("T1", "R4")
def test_a_notification_that_is_not_taken_times_out_as_a_request_does(flavour: Any, serve: Any) -> None:
    server = serve({"notifications/x": turns(hang(), status(202))}, era="handshake")
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout) as caught:
        client.notify("notifications/x", timeout=0.1)
    assert caught.value.request_sent is True
    client.notify("notifications/x")


@pytest.mark.parametrize("closed", [False, True], ids=["in time", "before the client was closed"])
@pytest.mark.req("R4")
def test_a_notification_for_which_no_connection_was_made_was_not_sent(
    flavour: Any, serve: Any, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    server = serve({"notifications/initialized": status(202, headers=[("Connection", "close")])}, era="handshake")
    client = flavour.connect(server.url)
    dialling = threading.Event()

    async def stuck(io: Any, origin: Any, endpoint: Any, tls: Any, receiver: Any, deadline: float, *more: Any) -> None:
        dialling.set()
        await io.wait(io.slot(), deadline)

    monkeypatch.setattr("ferrule._http.pool.dial", stuck)
    running = flavour.start(client.notify, "notifications/x", timeout=20 if closed else 0.1)
    assert dialling.wait(10)
    if closed:
        client.close()
    outcome = running.outcome()
    assert isinstance(outcome, ConnectionClosed if closed else RequestTimeout)
    assert outcome.request_sent is False
    assert server.count("notifications/x") == 0
