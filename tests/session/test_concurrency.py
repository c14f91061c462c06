"""Thousands of calls from threads and tasks, with every kind of fault among them: each caller gets its own answer.

Ten to the fifth calls in all; with `FERRULE_SOAK=1` as many in each test.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Limits, Retry, Stdio
from ferrule.errors import ConnectionClosed, HTTPStatusError, RequestTimeout, RPCError, ServerExited
from tests.support import faulty
from tests.support.clients import run_async

SOAK = os.environ.get("FERRULE_SOAK") == "1"
THREADS, TASKS = 8, 200
CALLS = 100_000 if SOAK else 10_000
BOUND = 600 if SOAK else 50
"""Seconds for all of them together: no call may hang, however slow the machine."""
SHORT, LONG = 0.04, 40.0
RETRY = Retry(attempts=3, backoff=0.001, max_backoff=0.002)

pytestmark = pytest.mark.timeout(2 * BOUND)


@pytest.fixture
def eager() -> Iterator[None]:
    """Threads are switched between any two bytecodes that allow it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def kinds(seed: int, bad: tuple[str, ...]) -> Iterator[str]:
    """How one caller's calls are to be answered: one in twelve badly."""
    chance = random.Random(seed)
    while True:
        yield chance.choice(bad) if chance.random() < 1 / 12 else chance.choice(faulty.GOOD)


def judge(kind: str, number: int, outcome: Any) -> str | None:
    """What is wrong with the outcome of a call, None if it is the right one."""
    if kind in faulty.GOOD:
        fine = not isinstance(outcome, BaseException) and outcome.text == str(number)
    elif kind == "refused":
        fine = isinstance(outcome, RPCError) and outcome.message == str(number)
    elif kind == "unavailable":
        fine = isinstance(outcome, HTTPStatusError) and outcome.status == 503
    elif kind == "silent":
        fine = isinstance(outcome, RequestTimeout)
    else:
        fine = isinstance(outcome, ConnectionClosed) and outcome.request_sent
    return None if fine else f"{kind} {number}: {outcome!r}"


def attempt(client: Any, kind: str, number: int) -> Any:
    """What a call returned or raised."""
    try:
        return client.call_tool("do", {"n": number, "do": kind}, timeout=SHORT if kind == "silent" else LONG)
    except Exception as error:
        return error


def in_threads(client: Any, bad: tuple[str, ...], excused: type[Exception] | tuple[()] = ()) -> Counter[str]:
    """Make the calls from all threads; how often each kind of outcome was excused or right."""
    problems: list[str] = []
    counts = [Counter[str]() for _ in range(THREADS)]

    def work(seat: int) -> None:
        try:
            for number, kind in zip(range(seat, CALLS, THREADS), kinds(seat, bad), strict=False):
                outcome = attempt(client, kind, number)
                if excused and isinstance(outcome, excused):
                    counts[seat]["excused"] += 1
                elif problem := judge(kind, number, outcome):
                    problems.append(problem)
                else:
                    counts[seat][kind] += 1
                if number % 97 == 0:
                    page = client.list_tools_page(str(number), timeout=LONG)
                    if page.next_cursor != str(number):
                        problems.append(f"list {number}: {page.next_cursor}")
        except BaseException as error:
            problems.append(f"thread {seat}: {error!r}")

    began = time.monotonic()
    threads = [threading.Thread(target=work, args=(seat,), daemon=True) for seat in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, began + BOUND - time.monotonic()))
    assert [thread for thread in threads if thread.is_alive()] == [], f"calls hang; {problems[:3]}"
    assert problems[:5] == []
    return sum(counts, Counter())


@pytest.mark.req("V5", "T5", "R2", "E8")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_threads_over_http_get_their_own_answers_and_errors(eager: None, era: str) -> None:
    before = threading.active_count()
    with faulty.running() as url:
        limits = Limits(max_connections=THREADS - 2)  # two always wait
        with Client(url, protocol=era, limits=limits, retry=RETRY) as client:
            counts = in_threads(client, faulty.BAD)
            pool = client._session.transport._pool  # type: ignore[attr-defined]
            assert (pool._places, len(pool._waiters)) == (limits.max_connections, 0)
            assert len(pool.connections) <= 2 * limits.max_connections
            report = client.call_tool("report").structured_content
    assert sum(counts.values()) == CALLS
    assert all(counts[kind] for kind in (*faulty.GOOD, *faulty.BAD))
    assert (report["calls"], report["twice"]) == (CALLS, 0)
    # Each timeout of the handshake era was told, but for those that the bound on telling cut short.
    assert report["cancelled"] == 0 if era == "stateless" else 0 < report["cancelled"] <= counts["silent"]
    assert threading.active_count() == before


def received(calls: Path) -> list[int]:
    """The numbers of the calls that arrived, in all lives of the server."""
    return [int(line) for line in calls.read_bytes().split()]


@pytest.mark.req("V5", "T5", "R2", "D4", "D5", "E8")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize("fatal", [False, True], ids=["that lives", "that dies now and then"])
def test_threads_over_stdio_get_their_own_answers_and_errors(
    eager: None, tmp_path: Path, era: str, fatal: bool
) -> None:
    calls = tmp_path / "calls"
    before = threading.active_count()
    target = Stdio(sys.executable, faulty.__file__, "stdio", str(calls), stderr="discard")
    limits = Limits(restart_window=0, restart_backoff=0)
    bad: tuple[str, ...] = ("refused", "silent")
    if fatal:
        bad = (*("refused",) * 200, "die")
    with Client(target, protocol=era, limits=limits, retry=RETRY) as client:
        counts = in_threads(client, bad, ServerExited if fatal else ())
        child = client._session.transport._child  # type: ignore[attr-defined]
        assert child is None or child.pending == {}
    assert sum(counts.values()) == CALLS
    assert counts["excused"] < CALLS / 10
    numbers = received(calls)
    assert len(numbers) == len(set(numbers))
    assert fatal or sorted(numbers) == list(range(CALLS))
    assert threading.active_count() == before


async def in_tasks(client: AsyncClient, bad: tuple[str, ...]) -> Counter[str]:
    """Make the calls from all tasks, and cancel one in ten at some moment or other."""
    problems: list[str] = []
    counts: Counter[str] = Counter()

    async def one(chance: random.Random, number: int, kind: str) -> None:
        timeout = SHORT if kind == "silent" else LONG
        task = asyncio.ensure_future(client.call_tool("do", {"n": number, "do": kind}, timeout=timeout))
        cancelling = chance.random() < 0.1
        if cancelling:
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
            task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        if cancelling and isinstance(outcome, asyncio.CancelledError):
            counts["cancelled"] += 1
        elif problem := judge(kind, number, outcome):
            problems.append(problem)
        else:
            counts[kind] += 1

    async def work(seat: int) -> None:
        chance = random.Random(seat)
        for number, kind in zip(range(seat, CALLS, TASKS), kinds(seat, bad), strict=False):
            await one(chance, number, kind)

    async with asyncio.timeout(BOUND):
        await asyncio.gather(*(work(seat) for seat in range(TASKS)))
    assert problems[:5] == []
    return counts


@pytest.mark.req("T4", "T5", "R2", "E8", "T3")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_tasks_over_http_get_their_own_answers_and_errors_whoever_is_cancelled(era: str) -> None:
    limits = Limits(max_connections=TASKS // 2)

    async def main(url: str) -> tuple[Counter[str], Any]:
        async with AsyncClient(url, protocol=era, limits=limits, retry=RETRY) as client:
            counts = await in_tasks(client, faulty.BAD)
            report = (await client.call_tool("report")).structured_content
            pool = client._session.transport._pool  # type: ignore[attr-defined]
            assert (pool._places, len(pool._waiters)) == (limits.max_connections, 0)
            assert client._session.io._waiting == {}  # type: ignore[attr-defined]
            return counts, report

    with faulty.running() as url:
        counts, report = run_async(main(url))
    assert sum(counts.values()) == CALLS
    assert all(counts[kind] for kind in (*faulty.GOOD, *faulty.BAD, "cancelled"))
    assert report["twice"] == 0
    assert CALLS - counts["cancelled"] <= report["calls"] <= CALLS
    assert era == "handshake" or report["cancelled"] == 0
    assert report["cancelled"] <= counts["cancelled"] + counts["silent"]


@pytest.mark.req("T4", "T5", "R2", "E8", "T3", "D5")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_tasks_over_stdio_get_their_own_answers_and_errors_whoever_is_cancelled(tmp_path: Path, era: str) -> None:
    calls = tmp_path / "calls"
    target = Stdio(sys.executable, faulty.__file__, "stdio", str(calls), stderr="discard")

    async def main() -> Counter[str]:
        async with AsyncClient(target, protocol=era, retry=RETRY) as client:
            counts = await in_tasks(client, ("refused", "silent"))
            assert client._session.transport._child.pending == {}  # type: ignore[attr-defined]
            assert client._session.io._waiting == {}  # type: ignore[attr-defined]
            return counts

    counts = run_async(main())
    assert sum(counts.values()) == CALLS
    numbers = received(calls)
    assert len(numbers) == len(set(numbers))
    assert CALLS - counts["cancelled"] <= len(numbers) <= CALLS
