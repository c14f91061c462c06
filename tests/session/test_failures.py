"""What a failed request tells its caller, what close does to those that wait, and whom a failure disturbs."""

from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import (
    CapabilityError,
    ConfigError,
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    InvalidMessage,
    InvalidResult,
    RequestTimeout,
    RPCError,
    TransportError,
    UnknownResultType,
)
from tests.support.steps import (
    answer,
    close,
    discovered,
    error,
    hang,
    raw,
    reset,
    status,
    stream,
    text,
    turns,
)

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
ONCE = Retry(attempts=1)
FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)


# --- errors --------------------------------------------------------------------------------------

AFTER_SENDING: dict[str, tuple[Any, type[FerruleError]]] = {
    "closed": (close(), ConnectionClosed),
    "reset": (reset(), ConnectionClosed),
    "stream without answer": (stream(), ConnectionClosed),
    "500": (status(500), HTTPStatusError),
    "403": (status(403), HTTPStatusError),
    "rpc error": (error(-32000, "no"), RPCError),
    "not json": (status(200, b"{", content_type="application/json"), InvalidMessage),
    "bad http": (raw(b"SSH-2.0-OpenSSH_9\r\n\r\n"), InvalidMessage),
    "wrong result": (answer({"content": 7}), InvalidResult),
    "unknown kind": (answer({"resultType": "surprise"}), UnknownResultType),
    "silence": (hang(), RequestTimeout),
}


# A resultType means nothing in the handshake era.
CASES = [(name, era) for name in AFTER_SENDING for era in ("stateless", "handshake")]
CASES.remove(("unknown kind", "handshake"))


@pytest.mark.req("R4")
@pytest.mark.parametrize(("name", "era"), CASES)
def test_an_error_after_sending_says_that_the_tool_may_have_run_and_it_was_sent_once(
    flavour: Any, serve: Any, name: str, era: str
) -> None:
    step, kind = AFTER_SENDING[name]
    server = serve({"tools/call": turns(step, answer(text("good")))}, era=era)
    client = flavour.connect(server.url, retry=FAST)
    with pytest.raises(kind) as caught:
        client.call_tool("echo", {}, timeout=0.2 if kind is RequestTimeout else 10)
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1
    assert client.call_tool("echo", {}).text == "good"


@pytest.mark.req("R4")
def test_an_error_before_sending_says_that_nothing_happened(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": answer(discovered(capabilities={"prompts": {}}))})
    client = flavour.connect(server.url, retry=ONCE)
    with pytest.raises(CapabilityError) as refused:
        client.call_tool("echo", {})
    assert refused.value.request_sent is False
    with pytest.raises(ConfigError) as forbidden:
        client.notify("notifications/x")
    assert forbidden.value.request_sent is False
    client.close()
    with pytest.raises(ConnectionClosed, match="closed") as closed:
        client.get_prompt("greet")
    assert closed.value.request_sent is False
    server.close()
    with pytest.raises(ConnectError) as unreachable:
        flavour.client(server.url, retry=ONCE).call_tool("echo", {})
    assert unreachable.value.request_sent is False


@pytest.mark.req("R4")
def test_the_last_error_is_raised_with_the_earlier_ones_chained(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(reset(), status(502), status(503))})
    client = flavour.connect(server.url, retry=FAST)
    with pytest.raises(HTTPStatusError) as caught:
        client.list_tools()
    last = caught.value
    assert last.status == 503
    assert isinstance(last.__cause__, HTTPStatusError)
    assert last.__cause__.status == 502
    assert isinstance(last.__cause__.__cause__, ConnectionClosed)
    ids = [request.message["id"] for request in server.calls("tools/list")]
    assert len(set(ids)) == 3


@pytest.mark.req("R4")
def test_a_refused_connection_after_a_lost_answer_still_says_that_the_request_was_sent(
    flavour: Any, serve: Any
) -> None:
    def vanish(turn: Any) -> None:
        turn.server._listener.close()
        turn.server._listener = __import__("socket").socket()
        turn.reset()

    server = serve({"tools/list": vanish})
    client = flavour.connect(server.url, retry=FAST)
    server._listener.shutdown(2)  # nobody waits in accept any more
    with pytest.raises(ConnectError) as caught:
        client.list_tools()
    assert caught.value.request_sent is True
    chain: list[BaseException] = [caught.value]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    assert any(isinstance(one, ConnectionClosed) for one in chain)


@pytest.mark.req("T5")
@ERAS
def test_of_many_calls_at_once_each_gets_its_own_answer_or_error(flavour: Any, serve: Any, era: str) -> None:
    faults: list[Any] = [
        close(),
        reset(),
        status(500, b"<html>", content_type="text/html"),
        error(-32000, "no"),
        raw(b"\x00\x01\x02\r\n\r\n"),
        [stream(b"data: \xff\n\n")],
        hang(),
    ]

    def serve_one(turn: Any) -> None:
        number = turn.request.params["arguments"]["number"]
        script = faults[number // 4] if number % 4 == 0 else answer(text(str(number)))
        for step in [script] if callable(script) else script:
            step(turn)

    server = serve({"tools/call": serve_one}, era=era, session=None)
    client = flavour.connect(server.url)
    numbers = range(4 * len(faults))
    outcomes = flavour.together(
        *[lambda n=n: client.call_tool("echo", {"number": n}, timeout=3 if n % 4 else 0.5) for n in numbers]
    )
    for number, outcome in zip(numbers, outcomes, strict=True):
        if number % 4 == 0:
            assert isinstance(outcome, FerruleError), number
            assert outcome.request_sent is True
        else:
            assert outcome.text == str(number)
    assert server.count("tools/call") == len(numbers)


@pytest.mark.req("T7", "R4")
def test_close_fails_the_calls_that_wait(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": hang(), "tools/list": hang()})
    client = flavour.connect(server.url, retry=FAST)
    calling = flavour.start(client.call_tool, "echo", {})
    listing = flavour.start(client.list_tools)
    server.wait_until(lambda: server.count("tools/call") + server.count("tools/list") == 2)
    client.close()
    for outcome in (calling.outcome(), listing.outcome()):
        assert isinstance(outcome, TransportError)
        assert isinstance(outcome, ConnectionClosed)
        assert outcome.request_sent is True
    assert len(server.requests) == 3


@pytest.mark.req("T7", "R4")
def test_close_ends_the_wait_before_another_attempt_with_the_error_that_led_to_it(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": status(503, headers=[("Retry-After", "20")])})
    client = flavour.connect(server.url)
    running = flavour.start(client.list_tools)
    server.wait_until(lambda: server.count("tools/list") == 1)
    with pytest.raises(TimeoutError):
        running._future.result(0.1)
    client.close()
    error = running.outcome(5)
    assert isinstance(error, HTTPStatusError)
    assert error.status == 503


@pytest.mark.req("T7", "R4")
def test_close_fails_a_notification_that_waits(flavour: Any, serve: Any) -> None:
    server = serve({"notifications/x": hang()}, era="handshake", session=None)
    client = flavour.connect(server.url)
    running = flavour.start(client.notify, "notifications/x")
    server.wait_until(lambda: server.count("notifications/x") == 1)
    client.close()
    assert isinstance(running.outcome(5), ConnectionClosed)


@pytest.mark.req("T7", "R4")
def test_close_fails_a_connect_that_waits(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": hang()})
    client = flavour.client(server.url)
    running = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("server/discover") == 1)
    client.close()
    error = running.outcome(5)
    assert isinstance(error, ConnectionClosed)
    assert error.request_sent is False
