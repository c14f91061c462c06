"""What 10,000 calls leave behind when one in five goes wrong: memory blocks, descriptors, threads, tasks.

    python benches/leaks.py                  all clients and transports; --check makes a missed bound exit code 1
    python benches/leaks.py --only "async http handshake" [--calls 10000]

Against `tests/support/faulty.py`, each client in a process of its own. Of its calls 80 % are answered well, in each of
the ways there are; the others time out, are cancelled (asyncio), or lose their connection (over stdio the child exits,
rarely: starting it again takes longest). The first 1,000 calls fill what is filled once: caches, pools, free lists.
Then and at the end everything is let come to rest and collected before it is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import _harness as harness
from _harness import Interval, Verdict, say

ROOT = harness.HERE.parent
sys.path.insert(0, str(ROOT))

from tests.support import faulty  # noqa: E402 - needs the line above

RUNS = (
    *("sync http stateless", "async http stateless", "sync http handshake", "async http handshake"),
    *("sync stdio handshake", "async stdio handshake"),
)
WARM, CALLERS = 1000, 8
SHORT, LONG, REST = 0.012, 60.0, 1.0
BLOCKS = 200
"""What the count of allocated blocks may grow by: free lists and the counters of the interpreter breathe."""


def kind_of_call(chance: random.Random, transport: str, flavour: str) -> str:
    """How the next call is to end."""
    if chance.random() < 0.8:
        return chance.choice(faulty.GOOD)
    if transport == "stdio" and chance.random() < 0.02:
        return "die"
    lost = "reset" if transport == "http" else "refused"
    return chance.choice(("silent", lost, "cancelled") if flavour == "async" else ("silent", lost))


def counted() -> dict[str, int]:
    """What the process owns, after a collection."""
    for _ in range(3):
        gc.collect()
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return {
        "blocks": sys.getallocatedblocks(),
        "descriptors": descriptors,
        "threads": threading.active_count(),
        "tasks": 0,
    }


# --- one client, in this process ------------------------------------------------------------------


def options_of(era: str) -> dict[str, Any]:
    from ferrule import Limits, Retry

    # Nothing is held back or tried again; at each count all connections but the last one used have just been closed.
    limits = Limits(restart_window=0, restart_backoff=0, cancel_timeout=0.3, idle_timeout=REST / 2)
    return {"limits": limits, "retry": Retry(attempts=1), "timeout": LONG, "protocol": era}


def target_of(transport: str, where: str) -> Any:
    from ferrule import Stdio

    if transport == "http":
        return where
    return Stdio(sys.executable, faulty.__file__, "stdio", os.devnull, stderr="discard")


def run_sync(transport: str, era: str, where: str, calls: int) -> dict[str, Any]:
    from ferrule import Client
    from ferrule.errors import FerruleError

    chance = random.Random(1)
    ends: Counter[str] = Counter()

    def work(count: int) -> None:
        for number in range(count):
            kind = kind_of_call(chance, transport, "sync")
            ends[kind] += 1
            try:
                client.call_tool("do", {"n": number, "do": kind}, timeout=SHORT if kind == "silent" else LONG)
            except FerruleError:
                ends["failed although answered well"] += kind in faulty.GOOD

    def rest() -> dict[str, int]:
        time.sleep(REST)
        client.call_tool("do", {"n": 0, "do": "json"})
        return counted()

    with Client(target_of(transport, where), **options_of(era)) as client:
        work(WARM)
        before = rest()
        work(calls)
        return {"before": before, "after": rest(), "ends": ends}


async def run_async(transport: str, era: str, where: str, calls: int) -> dict[str, Any]:
    from ferrule import AsyncClient

    chance = random.Random(1)
    ends: Counter[str] = Counter()

    async def caller(count: int) -> None:
        for number in range(count):
            kind = kind_of_call(chance, transport, "async")
            ends[kind] += 1
            if not await went_well(client, kind, number, chance.randrange(6)):
                ends["failed although answered well"] += kind in faulty.GOOD

    async def work(count: int) -> None:
        await asyncio.gather(*(caller(count // CALLERS) for _ in range(CALLERS)))

    async def rest() -> dict[str, int]:
        await asyncio.sleep(REST)
        await client.call_tool("do", {"n": 0, "do": "json"})
        return {**counted(), "tasks": len(asyncio.all_tasks())}

    async with AsyncClient(target_of(transport, where), **options_of(era)) as client:
        await work(WARM)
        before = await rest()
        await work(calls)
        return {"before": before, "after": await rest(), "ends": ends}


async def went_well(client: Any, kind: str, number: int, turns: int) -> bool:
    """Make one call; one that is to be cancelled is so after some turns of the loop."""
    from ferrule.errors import FerruleError

    asked = "silent" if kind == "cancelled" else kind
    timeout = SHORT if kind == "silent" else LONG
    task = asyncio.ensure_future(client.call_tool("do", {"n": number, "do": asked}, timeout=timeout))
    if kind == "cancelled":
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
    try:
        await task
    except (FerruleError, asyncio.CancelledError):
        return False
    return True


def measure_here(run: str, where: str, calls: int) -> dict[str, Any]:
    flavour, transport, era = run.split()
    if flavour == "sync":
        return run_sync(transport, era, where, calls)
    return asyncio.run(run_async(transport, era, where, calls))


# --- all of them ----------------------------------------------------------------------------------


def measure(run: str, url: str, calls: int) -> dict[str, Any]:
    """Run one client in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--here", run, "--url", url, "--calls", str(calls)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, timeout=900, cwd=folder, env=harness.environment()
        )
    return json.loads(done.stdout)


def verdicts_of(run: str, outcome: dict[str, Any], calls: int) -> list[Verdict]:
    before, after, ends = outcome["before"], outcome["after"], outcome["ends"]
    bad = sum(count for kind, count in ends.items() if kind not in faulty.GOOD)
    note = f"{bad / (calls + WARM):.0%} of the calls ended badly"
    found = []
    for what in before:
        limit = BLOCKS if what == "blocks" else 0
        grown = Interval.of([after[what] - before[what]])
        found.append(Verdict(f"{run}: more {what}", limit, True, grown, note=note if what == "blocks" else ""))
    wrong = ends.get("failed although answered well", 0)
    # A child that exits takes along what its other callers wait for.
    if "stdio" not in run:
        found.append(Verdict(f"{run}: failed although answered well", 0, True, Interval.of([wrong])))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="runs, comma separated")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--check", action="store_true", help="exit code 1 when a bound is missed")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        say(json.dumps(measure_here(options.here, options.url, options.calls)))
        return 0
    for line in harness.machine(("orjson",)):
        say(line)
    found: list[Verdict] = []
    with faulty.running() as url:
        for run in options.only.split(",") if options.only else RUNS:
            found += verdicts_of(run, measure(run, url, options.calls), options.calls)
    header = ["bound", "limit", "measured", "verdict", "note"]
    title = f"Left behind by {options.calls:,} calls after the first {WARM:,}"
    say(harness.table(title, header, [verdict.cells() for verdict in found]))
    missed = [verdict for verdict in found if not verdict.met]
    say(f"\n{len(found) - len(missed)} of {len(found)} bounds met")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
