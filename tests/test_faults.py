"""Whatever a server does, each call ends in time with its own result or a FerruleError, and the client goes on.

Two thousand seeded cases, each with up to five calls; `make soak` plays as many as FERRULE_FAULT_CASES says.
FERRULE_FAULT_SEEDS=17,23 plays these alone.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import faults
from tests.servers.fault_plans import Case
from tests.support.clients import run_async
from tests.support.playing import Stage, play, play_async

CASES = int(os.environ.get("FERRULE_FAULT_CASES", "2000"))
BATCH = 250
THREADS, TASKS = 16, 32
BATCHES = [range(first, min(first + BATCH, CASES // 2)) for first in range(0, CASES // 2, BATCH)]
if seeds := os.environ.get("FERRULE_FAULT_SEEDS"):
    BATCHES = [[int(seed) for seed in seeds.split(",")]]  # type: ignore[list-item]

pytestmark = [pytest.mark.timeout(300), pytest.mark.req("R2", "R4", "T1", "T3", "T5", "W11", "D4", "D5")]
every_batch = pytest.mark.parametrize("seeds", BATCHES, ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    with faults.running() as ports:
        yield ports


def belongings() -> tuple[int, int, list[str]]:
    """Open descriptors, threads, and children of this process."""
    gc.collect()
    tasks = Path("/proc/self/task")
    children = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
    return len(os.listdir("/proc/self/fd")), threading.active_count(), children


def settled(before: tuple[int, int, list[str]]) -> tuple[int, int, list[str]]:
    """What belongs to this process once it has had a moment to come to rest."""
    limit = time.monotonic() + 5
    while (now := belongings()) != before and time.monotonic() < limit:
        time.sleep(0.02)
    return now


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@on_linux
@every_batch
def test_whatever_the_server_does_each_call_of_a_client_ends_well(
    seeds: range, ports: tuple[int, int], tmp_path: Path
) -> None:
    stages = [Stage(Case(seed), ports, tmp_path / f"{seed}-sync") for seed in seeds]
    waiting = iter(stages)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                stage = next(waiting, None)
            if stage is None:
                return
            try:
                play(stage)
            except BaseException as error:
                stage.problem(f"{error!r}")

    before = belongings()
    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report(stages)
    assert settled(before) == before


@on_linux
@every_batch
def test_whatever_the_server_does_each_call_of_an_async_client_ends_well(
    seeds: range, ports: tuple[int, int], tmp_path: Path
) -> None:
    stages = [Stage(Case(seed), ports, tmp_path / f"{seed}-async") for seed in seeds]

    async def main() -> None:
        room = asyncio.Semaphore(TASKS)

        async def one(stage: Stage) -> None:
            async with room:
                try:
                    await play_async(stage)
                except Exception as error:
                    stage.problem(f"{error!r}")

        await asyncio.gather(*(one(stage) for stage in stages))

    before = belongings()
    run_async(main())
    report(stages)
    assert settled(before) == before


def report(stages: list[Stage]) -> None:
    """Fail with what was found wrong, each with the line that reproduces it."""
    problems = [problem for stage in stages for problem in stage.problems]
    assert not problems, "\n".join([f"{len(problems)} problems", *problems[:10]])
