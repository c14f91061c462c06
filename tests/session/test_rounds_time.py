"""How often a call is sent again, and how long all of it may take."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ferrule import AsyncClient, Limits
from ferrule.errors import (
    InputRequired,
    RequestTimeout,
)
from ferrule.types import ElicitResult
from tests.support import rounds
from tests.support.clients import run_async
from tests.support.rounds import FORM, ROOTS, done, needs
from tests.support.steps import (
    LAST_CHUNK,
    answer,
    hang,
    more,
    progress,
    raw,
    result,
    stream,
    turns,
)

# --- how often and how long -------------------------------------------------------------------------


@pytest.mark.req("M2")
@pytest.mark.parametrize(("limits", "rounds"), [(Limits(), 10), (Limits(max_rounds=2), 2)])
def test_after_so_many_rounds_what_is_open_is_raised(flavour: Any, in_rounds: Any, limits: Limits, rounds: int) -> None:
    results = [needs({"a": ROOTS}, f"state {n}") for n in range(rounds + 1)]
    server = in_rounds(*results, done())
    client = flavour.client(server.target, roots=[], limits=limits)
    with pytest.raises(InputRequired, match=rf"after {rounds} rounds \(limits.max_rounds\)") as caught:
        client.call_tool("echo", {})
    assert (caught.value.requests, caught.value.state) == ({"a": ROOTS}, f"state {rounds}")
    assert len(server.sent) == 1 + rounds
    allowed = in_rounds(*results[:rounds], done())
    assert flavour.client(allowed.target, roots=[], limits=limits).call_tool("echo", {}).text == "ok"


@pytest.mark.req("M2")
def test_rounds_without_questions_come_ever_more_slowly(
    flavour: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ferrule._io.asyncio import AsyncIO
    from ferrule._io.blocking import BlockingIO

    pauses: list[float] = []

    async def no_sleep(self: Any, seconds: float) -> None:
        pauses.append(seconds)

    asks = [needs(state="s")] * 3 + [needs({"a": ROOTS})] + [needs(state="s")] * 6
    server = rounds.over_http(serve, *asks, done())
    client = flavour.connect(server.target, roots=[])
    monkeypatch.setattr(AsyncIO if flavour.is_async else BlockingIO, "sleep", no_sleep)
    assert client.call_tool("echo", {}).text == "ok"
    assert pauses == [0.05, 0.1, 0.2, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


@pytest.mark.req("M2", "T1")
def test_all_rounds_have_one_deadline_and_nothing_is_sent_after_it(flavour: Any, serve: Any) -> None:
    server = rounds.over_http(serve, needs(state="s"))
    limits = Limits(max_rounds=1000, round_backoff=0.2, max_round_backoff=0.2)
    client = flavour.connect(server.target, limits=limits)
    began = time.monotonic()
    with pytest.raises(RequestTimeout, match=r"tools/call at .*: not complete within the timeout") as caught:
        client.call_tool("echo", {}, timeout=0.5)
    assert time.monotonic() - began >= 0.5
    assert caught.value.request_sent
    assert 1 <= len(server.sent) <= 3


@pytest.mark.req("M2", "T1")
def test_a_round_that_hangs_ends_at_the_deadline_of_the_call(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(answer(needs({"a": ROOTS})), hang())})
    client = flavour.connect(server.url, roots=[])
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.3)
    assert caught.value.request_sent
    assert server.count("tools/call") == 2


def slow(flavour: Any, seconds: float) -> Any:
    """A handler that takes that long. Being slow is the point."""

    def handler(*_: Any) -> Any:
        time.sleep(seconds)
        return ElicitResult.decline()

    async def coroutine(*_: Any) -> Any:
        await asyncio.sleep(seconds)
        return ElicitResult.decline()

    return coroutine if flavour.is_async else handler


@pytest.mark.req("M2")
def test_the_time_that_a_person_takes_does_not_count(flavour: Any, serve: Any) -> None:
    server = rounds.over_http(serve, needs({"a": FORM}), needs({"a": FORM}), done())
    client = flavour.connect(server.target, on_elicitation=slow(flavour, 0.6))
    assert client.call_tool("echo", {}, timeout=0.5).text == "ok"


@pytest.mark.req("M2")
@pytest.mark.parametrize(("allowed", "sent"), [(0.0, 1), (0.3, 2)])
def test_that_time_counts_beyond_what_the_limits_allow(flavour: Any, serve: Any, allowed: float, sent: int) -> None:
    server = rounds.over_http(serve, needs({"a": FORM}), needs({"a": FORM}), done())
    limits = Limits(max_handler_time=allowed)
    client = flavour.connect(server.target, on_elicitation=slow(flavour, 0.6), limits=limits)
    with pytest.raises(RequestTimeout, match="tools/call at ") as caught:
        client.call_tool("echo", {}, timeout=0.5)
    assert caught.value.request_sent
    assert len(server.sent) == sent


@pytest.mark.req("M2")
def test_a_coroutine_is_ended_when_its_time_is_over(serve: Any) -> None:
    async def body() -> None:
        seen: list[Any] = []

        async def handler(request: Any, context: Any) -> Any:
            seen.append(context)
            await asyncio.Event().wait()

        server = serve({"tools/call": answer(needs({"a": FORM}))})
        limits = Limits(max_handler_time=0)
        async with AsyncClient(server.url, on_elicitation=handler, limits=limits) as client:
            with pytest.raises(RequestTimeout, match=r"its handlers took longer than .* limits.max_handler_time"):
                await client.call_tool("echo", {}, timeout=0.2)
            assert seen[0].cancelled
        assert server.count("tools/call") == 1

    run_async(body())


@pytest.mark.req("T1", "M2")
def test_progress_of_one_round_gives_the_call_more_time_for_the_next(flavour: Any, serve: Any) -> None:
    def pause(turn: Any) -> None:
        turn.server._closing.wait(0.4)

    asks = [stream(end=False), pause]
    first = [*asks, more(progress(1)), pause, more(result(needs({"a": ROOTS}))), raw(LAST_CHUNK)]
    server = serve({"tools/call": turns(first, [pause, answer()])})
    client = flavour.connect(server.url, roots=[])
    called = client.call_tool("echo", {}, timeout=1.0, reset_on_progress=True, max_total=20)
    assert called.text == "ok"


@pytest.mark.req("T1", "M2")
def test_a_handlers_time_does_not_count_against_max_total_either(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(answer(needs({"a": FORM})), stream(progress(1), result()))})
    client = flavour.connect(server.url, on_elicitation=slow(flavour, 0.6))
    called = client.call_tool("echo", {}, timeout=0.5, reset_on_progress=True, max_total=0.5)
    assert called.text == "ok"
