"""One deadline over everything that a call may have to wait for, and what is known of the request when it passes."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import ConnectError, HTTPStatusError, RequestTimeout
from tests.support import child as on_stdio
from tests.support.steps import Step, answer, discovered, hang, http, initialized, raw, status, text, turns

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
EAGER = Retry(attempts=1000, backoff=0.02, max_backoff=0.02)
SLACK = 3.0
"""Seconds that a busy machine may add."""

CALLS: dict[str, Callable[[Any, float], Any]] = {
    "connect": lambda client, timeout: client.connect(timeout=timeout),
    "call_tool": lambda client, timeout: client.call_tool("echo", {}, timeout=timeout),
    "list_tools": lambda client, timeout: client.list_tools(timeout=timeout),
}
EACH_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What happens inside takes about that long: not less, and not much more."""
    began = time.monotonic()
    yield
    assert 0.9 * seconds <= time.monotonic() - began <= seconds + SLACK


def slowly(seconds: float, then: Step) -> list[Step]:
    """Let a part of the caller's time pass. Being slow is the point."""
    return [lambda turn: turn.server._closing.wait(seconds), then]


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port where connecting never comes to an end: the queue of its listener is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


# --- nothing was sent ----------------------------------------------------------------------------


@pytest.mark.req("T1", "R4")
@EACH_CALL
@pytest.mark.parametrize("protocol", ["auto", "stateless", "handshake"])
def test_connecting_counts(flavour: Any, black_hole: int, call: Any, protocol: str) -> None:
    client = flavour.client(f"http://127.0.0.1:{black_hole}/mcp", protocol=protocol, retry=EAGER)
    if protocol == "stateless":
        client.connect()  # needs no connection
        call = CALLS["call_tool"]
    with within(0.2), pytest.raises(RequestTimeout) as caught:
        call(client, 0.2)
    assert caught.value.request_sent is False


@pytest.mark.req("T1", "R4", "W23")
def test_a_tls_handshake_that_does_not_end_counts(flavour: Any, serve: Any, certificates: Any) -> None:
    server = serve({"accept": hang()})
    client = flavour.client(server.url.replace("http:", "https:"), tls=certificates.ca_path, retry=EAGER)
    with within(0.2), pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.2)
    assert caught.value.request_sent is False
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("T1", "R1", "R4")
@EACH_CALL
def test_attempts_at_a_port_that_refuses_end_with_the_deadline(flavour: Any, serve: Any, call: Any) -> None:
    server = serve()
    server.close()
    client = flavour.client(server.url, retry=EAGER)
    began = time.monotonic()
    with pytest.raises((ConnectError, RequestTimeout)) as caught:  # the last attempt may be cut short
        call(client, 0.3)
    assert 0.2 < time.monotonic() - began < 0.3 + SLACK
    assert caught.value.request_sent is False


@pytest.mark.req("T1", "R4", "W25")
def test_waiting_for_a_place_and_then_for_a_connection_is_one_wait(flavour: Any, serve: Any, black_hole: int) -> None:
    server = serve({"tools/call": slowly(0.15, raw(b"")), "*": hang()})
    client = flavour.connect(server.url, limits=Limits(max_connections=1), protocol="stateless")
    first = flavour.start(client.call_tool, "echo", {}, timeout=0.3)
    server.wait_until(lambda: server.count("tools/call") == 1)
    with within(0.2), pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.2)
    assert caught.value.request_sent is False
    assert first.outcome().request_sent is True
    assert server.count("tools/call") == 1


@pytest.mark.req("T1", "R4")
@ERAS
def test_a_child_that_is_slow_to_start_counts(flavour: Any, child: Any, era: str) -> None:
    server = child({"start": [[on_stdio.sleep(0.6)], []], "tools/call": [[on_stdio.echo()]]}, era=era)
    client = flavour.client(server.stdio(stderr="discard"), protocol=era)
    with within(0.2), pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.2)
    if era == "handshake":
        assert caught.value.request_sent is False  # the tool's call, that is
    assert client.call_tool("echo", {"n": 1}).text == '{"n": 1}'


# --- several waits, one deadline -----------------------------------------------------------------


@pytest.mark.req("T1", "R4")
def test_the_handshake_and_the_call_after_it_share_the_deadline(flavour: Any, serve: Any) -> None:
    rules = {
        "server/discover": slowly(0.08, status(404)),
        "initialize": slowly(0.08, answer(initialized())),
        "notifications/initialized": slowly(0.08, status(202)),
        "tools/call": hang(),
    }
    server = serve(rules, era="handshake")
    client = flavour.client(server.url)
    with within(0.4), pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.4)
    if server.count("tools/call"):
        assert caught.value.request_sent is True


@pytest.mark.req("T1", "R4")
@pytest.mark.parametrize("silent", ["server/discover", "initialize", "notifications/initialized"])
def test_a_call_that_waits_for_a_handshake_was_not_sent(flavour: Any, serve: Any, silent: str) -> None:
    server = serve({silent: hang()}, era="handshake")
    client = flavour.client(server.url, retry=EAGER)
    waiting = flavour.start(client.list_tools, timeout=0.2)
    with within(0.2), pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.2)
    assert caught.value.request_sent is False
    assert waiting.outcome().request_sent is False
    assert not {"tools/call", "tools/list"} & set(server.methods)


@pytest.mark.req("T1", "R1", "R4")
@ERAS
def test_attempts_that_are_slow_to_fail_share_the_deadline(flavour: Any, serve: Any, era: str) -> None:
    server = serve({"tools/list": slowly(0.1, status(503))}, era=era)
    client = flavour.connect(server.url, retry=EAGER)
    began = time.monotonic()
    with pytest.raises((RequestTimeout, HTTPStatusError)) as caught:
        client.list_tools(timeout=0.35)
    assert 0.2 < time.monotonic() - began < 0.35 + SLACK
    assert caught.value.request_sent is True
    assert 2 <= server.count("tools/list") <= 4


@pytest.mark.req("T1", "R4")
@ERAS
def test_the_second_attempt_has_what_the_first_left_over(flavour: Any, serve: Any, era: str) -> None:
    server = serve({"tools/list": turns(slowly(0.15, status(503)), hang())}, era=era)
    client = flavour.connect(server.url, retry=EAGER)
    with within(0.3), pytest.raises(RequestTimeout) as caught:
        client.list_tools(timeout=0.3)
    assert caught.value.request_sent is True
    assert isinstance(caught.value.__cause__, HTTPStatusError)


@pytest.mark.req("T1", "S1", "R4")
def test_a_new_session_counts_and_what_was_sent_before_it_is_not_forgotten(flavour: Any, serve: Any) -> None:
    session = [("Mcp-Session-Id", "s")]
    rules = {
        "tools/list": slowly(0.1, status(404)),
        "initialize": turns(answer(initialized(), headers=session), hang()),
    }
    server = serve(rules, era="handshake")
    client = flavour.connect(server.url)
    with within(0.3), pytest.raises(RequestTimeout) as caught:
        client.list_tools(timeout=0.3)
    assert caught.value.request_sent is True
    assert server.count("initialize") == 2


@pytest.mark.req("T1", "W19")
@ERAS
def test_redirects_share_the_deadline(flavour: Any, serve: Any, era: str) -> None:
    count = iter(range(100))
    moved: Step = lambda turn: turn.send(http(307, b"", [("Location", f"/mcp/{next(count)}")]))  # noqa: E731
    server = serve({"tools/call": slowly(0.1, moved)}, era=era)
    client = flavour.connect(server.url, limits=Limits(max_redirects=100))
    with within(0.35), pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.35)
    assert caught.value.request_sent is True
    assert 1 <= server.count("tools/call") <= 4


@pytest.mark.req("T1", "N2")
def test_the_second_look_at_the_server_shares_the_deadline_of_the_first(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": turns(slowly(0.1, status(503)), slowly(0.1, status(502)), hang())})
    client = flavour.client(server.url, retry=EAGER)
    with within(0.35), pytest.raises(RequestTimeout):
        client.connect(timeout=0.35)
    assert server.count("server/discover") == 3
    server.rules["server/discover"] = answer(discovered())
    client.connect()


# --- whose deadline ------------------------------------------------------------------------------


@pytest.mark.req("T1", "T5", "N10")
@ERAS
def test_of_those_who_wait_for_one_handshake_each_has_its_own_deadline(flavour: Any, serve: Any, era: str) -> None:
    rules = {"server/discover": slowly(0.5, status(404) if era == "handshake" else answer(discovered()))}
    server = serve(rules, era=era)
    client = flavour.client(server.url)
    hasty = [flavour.start(client.call_tool, "echo", {}, timeout=0.1) for _ in range(3)]
    calm = [flavour.start(client.call_tool, "echo", {"n": n}) for n in range(3)]
    assert [type(one.outcome()).__name__ for one in hasty] == ["RequestTimeout"] * 3
    assert sorted(one.result().text for one in calm) == [f'{{"n": {n}}}' for n in range(3)]
    assert server.count("tools/call") == 3


@pytest.mark.req("T1")
@ERAS
def test_many_deadlines_at_once_each_end_their_own_call(flavour: Any, serve: Any, era: str) -> None:
    def call(turn: Any) -> None:
        (hang() if turn.request.params["arguments"]["silent"] else answer(text("good")))(turn)

    server = serve({"tools/call": call}, era=era, session=None)
    client = flavour.connect(server.url)

    def timed(n: int) -> Callable[[], Any]:
        def body() -> Any:
            began = time.monotonic()
            try:
                return client.call_tool("echo", {"silent": n % 2 == 0}, timeout=0.1 + n / 100).text
            except RequestTimeout:
                assert 0.09 + n / 100 < time.monotonic() - began < 0.1 + n / 100 + SLACK
                return "late"

        return body

    outcomes = flavour.together(*[timed(n) for n in range(30)])
    assert outcomes[::2] == ["late"] * 15
    assert set(outcomes[1::2]) <= {"good", "late"}
    assert outcomes[29] == "good"
