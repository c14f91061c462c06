"""The measured processes: one client each, driven over pipes by `calls.py`.

A worker opens its client once per target (transport, path, era), warms it up, and then runs bursts:
`concurrency` callers call one after another until the time is over. It reports calls, wall time and
CPU time (user + system of this process, `getrusage`). Nothing else runs in the process meanwhile.

Every client looks at the text of each result, so that lazy decoding gains nothing here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

Row = dict[str, Any]
WARM_SECONDS = 0.04


class Progress:
    """Counts the progress notifications of all calls."""

    def __init__(self) -> None:
        self.count = 0

    def plain(self, *_: Any) -> None:
        self.count += 1

    async def coroutine(self, *_: Any) -> None:
        self.count += 1


def expected_length(row: Row) -> int:
    return row["arguments"].get("n", 200) if row["tool"] == "size" else 200


# --- asyncio clients: `await opened(row, where, stack)` gives a maker of calls -----------------


async def open_floor(row: Row, where: Row, stack: contextlib.AsyncExitStack, tuned: bool = False) -> Callable:
    from floors import FloorClient, StdioFloor
    from plain_floor import PlainFloor

    if row["transport"] == "stdio":
        client: Any = StdioFloor(where["stdio"])
    else:
        kind = FloorClient if tuned else PlainFloor
        client = kind(where["ports"][row["server"]], row["path"], row["era"])
    await client.connect()
    stack.push_async_callback(client.close)

    def maker(row: Row, progress: Progress) -> Callable[[], Awaitable[None]]:
        tool, arguments, wanted = row["tool"], row["arguments"], expected_length(row)
        options = {"on_progress": progress.plain} if row["progress"] else {}

        async def call() -> None:
            result = await client.call_tool(tool, arguments, **options)
            if len(result["content"][0]["text"]) != wanted:
                raise RuntimeError("wrong result")

        async def list_tools() -> None:
            raise RuntimeError("the floor lists no tools")

        return list_tools if row["tool"] == "tools/list" else call

    return maker


async def open_ferrule(row: Row, where: Row, stack: contextlib.AsyncExitStack) -> Callable:
    from ferrule import AsyncClient, Stdio

    url = f"http://127.0.0.1:{where['ports'][row['server']]}{row['path']}"
    target = Stdio(*where["stdio"]) if row["transport"] == "stdio" else url
    client = await stack.enter_async_context(AsyncClient(target, protocol=row["era"]))

    def maker(row: Row, progress: Progress) -> Callable[[], Awaitable[None]]:
        tool, arguments, wanted = row["tool"], row["arguments"], expected_length(row)
        options = {"on_progress": progress.plain} if row["progress"] else {}

        async def call() -> None:
            result = await client.call_tool(tool, arguments, **options)
            if len(result.content[0].text) != wanted:
                raise RuntimeError("wrong result")

        async def list_tools() -> None:
            tools = await client.list_tools()
            if len(tools) < 200 or not tools[150].name:
                raise RuntimeError("wrong list")

        return list_tools if row["tool"] == "tools/list" else call

    return maker


async def open_mcp(row: Row, where: Row, stack: contextlib.AsyncExitStack) -> Callable:
    from mcp import Client, StdioServerParameters

    if row["transport"] == "stdio":
        command, *words = where["stdio"]
        target: Any = StdioServerParameters(command=command, args=words)
    else:
        target = f"http://127.0.0.1:{where['ports'][row['server']]}{row['path']}"
    mode = "auto" if row["era"] == "stateless" else "legacy"
    client = await stack.enter_async_context(Client(target, mode=mode))
    # It lists the tools, unasked, after the first call of a tool it has not seen: not in a burst.
    await client.list_tools()
    await client.call_tool("echo", {})

    def maker(row: Row, progress: Progress) -> Callable[[], Awaitable[None]]:
        tool, arguments, wanted = row["tool"], row["arguments"], expected_length(row)
        options = {"progress_callback": progress.coroutine} if row["progress"] else {}

        async def call() -> None:
            result = await client.call_tool(tool, arguments, **options)
            if len(result.content[0].text) != wanted:
                raise RuntimeError("wrong result")

        async def list_tools() -> None:
            tools = (await client.list_tools()).tools
            if len(tools) < 200 or not tools[150].name:
                raise RuntimeError("wrong list")

        return list_tools if row["tool"] == "tools/list" else call

    return maker


# --- blocking clients: `opened(row, where, stack)` gives a maker of calls -------------------------


def open_blocking_floor(row: Row, where: Row, stack: contextlib.ExitStack, tuned: bool = False) -> Callable:
    from floors import BlockingFloor, BlockingStdio
    from plain_floor import PlainBlockingFloor

    def connect() -> Any:
        if row["transport"] == "stdio":
            client: Any = BlockingStdio(where["stdio"])
        else:
            kind = BlockingFloor if tuned else PlainBlockingFloor
            client = kind(where["ports"][row["server"]], row["path"], row["era"])
        stack.callback(client.close)
        return client

    clients = [connect() for _ in range(row["threads"])]

    def maker(row: Row, progress: Progress, thread: int) -> Callable[[], None]:
        tool, arguments, wanted = row["tool"], row["arguments"], expected_length(row)
        client = clients[thread]

        def call() -> None:
            result = client.call_tool(tool, arguments)
            if len(result["content"][0]["text"]) != wanted:
                raise RuntimeError("wrong result")

        return call

    return maker


def open_ferrule_sync(row: Row, where: Row, stack: contextlib.ExitStack) -> Callable:
    from ferrule import Client, Stdio

    url = f"http://127.0.0.1:{where['ports'][row['server']]}{row['path']}"
    target = Stdio(*where["stdio"]) if row["transport"] == "stdio" else url
    client = stack.enter_context(Client(target, protocol=row["era"]))

    def maker(row: Row, progress: Progress, thread: int) -> Callable[[], None]:
        tool, arguments, wanted = row["tool"], row["arguments"], expected_length(row)
        options = {"on_progress": progress.plain} if row["progress"] else {}

        def call() -> None:
            result = client.call_tool(tool, arguments, **options)
            if len(result.content[0].text) != wanted:
                raise RuntimeError("wrong result")

        return call

    return maker


ASYNC = {
    "floor": open_floor,
    "floor-tuned": partial(open_floor, tuned=True),
    "floor-uvloop": open_floor,
    "floor-fresh": open_floor,
    "ferrule-async": open_ferrule,
    "ferrule-over-tuned": open_ferrule,
    "ferrule-uvloop": open_ferrule,
    "ferrule-fresh": open_ferrule,
    "mcp": open_mcp,
}
BLOCKING = {
    "floor-blocking": open_blocking_floor,
    "floor-blocking-tuned": partial(open_blocking_floor, tuned=True),
    "ferrule-sync": open_ferrule_sync,
    "ferrule-sync-over-tuned": open_ferrule_sync,
}
CLIENTS = (*ASYNC, *BLOCKING)


# --- bursts ---------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def report(calls: int, wall: float, cpu: float, progress: int, row: Row) -> Row:
    if row["progress"] and progress != calls * row["arguments"]["n"]:
        raise RuntimeError(f"{progress} progress notifications in {calls} calls")
    return {"calls": calls, "wall": wall, "cpu": cpu}


async def async_burst(call: Callable[[], Awaitable[None]], concurrency: int, until: float) -> int:
    async def caller() -> int:
        calls = 0
        while True:
            await call()
            calls += 1
            if time.perf_counter() >= until:
                return calls

    if concurrency == 1:
        return await caller()
    return sum(await asyncio.gather(*[caller() for _ in range(concurrency)]))


class AsyncBursts:
    """Runs bursts of an asyncio client; keeps one client open per target."""

    def __init__(self, name: str, where: Row, stack: contextlib.AsyncExitStack) -> None:
        self.opener, self.where, self.stack = ASYNC[name], where, stack
        self.makers: dict[tuple, Callable] = {}

    async def run(self, row: Row, seconds: float) -> Row:
        target = (row["server"], row["transport"], row["path"], row["era"])
        if target not in self.makers:
            self.makers[target] = await self.opener(row, self.where, self.stack)
        progress = Progress()
        call = self.makers[target](row, progress)
        await async_burst(call, row["concurrency"], time.perf_counter() + WARM_SECONDS)
        progress.count = 0
        cpu, start = cpu_seconds(), time.perf_counter()
        calls = await async_burst(call, row["concurrency"], start + seconds)
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        return report(calls, wall, cpu, progress.count, row)


class BlockingBursts:
    """Runs bursts of a blocking client, in this thread or in `threads` new ones."""

    def __init__(self, name: str, where: Row, stack: contextlib.ExitStack) -> None:
        self.opener, self.where, self.stack = BLOCKING[name], where, stack
        self.makers: dict[tuple, Callable] = {}

    def run(self, row: Row, seconds: float) -> Row:
        keys = ("server", "transport", "path", "era", "threads")
        target = tuple(row[key] for key in keys)
        if target not in self.makers:
            self.makers[target] = self.opener(row, self.where, self.stack)
        progress = Progress()
        calls = [self.makers[target](row, progress, thread) for thread in range(row["threads"])]
        self.burst(calls, time.perf_counter() + WARM_SECONDS)
        progress.count = 0
        cpu, start = cpu_seconds(), time.perf_counter()
        count = self.burst(calls, start + seconds)
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        return report(count, wall, cpu, progress.count, row)

    def burst(self, calls: list[Callable[[], None]], until: float) -> int:
        counts: list[int] = []

        def caller(call: Callable[[], None]) -> None:
            count = 0
            while True:
                call()
                count += 1
                if time.perf_counter() >= until:
                    break
            counts.append(count)

        if len(calls) == 1:
            caller(calls[0])
        else:
            threads = [threading.Thread(target=caller, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if len(counts) != len(calls):
                raise RuntimeError("a calling thread failed")
        return sum(counts)


# --- the process ----------------------------------------------------------------------------------


def settle_allocator(name: str) -> None:
    """Bring malloc into the state that it is in after any big message.

    asyncio's `data_received` allocates 256 KiB per read. glibc serves that with three system calls
    each time until the process has once freed a larger block, and from the heap after that. Without
    this line the rows before the first 1 MB answer would measure another allocator than the rest.
    """
    if not name.endswith("-fresh"):
        block = bytearray(8 << 20)
        del block


def answer(value: Row) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def failure(error: BaseException) -> Row:
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return {"error": f"{type(error).__name__}: {error}"[:300]}


async def commands() -> Any:
    """Yield the commands as they come; between two of them the loop runs, without a thread."""
    loop = asyncio.get_running_loop()
    rest = b""
    while True:
        readable = loop.create_future()
        loop.add_reader(0, lambda future=readable: future.done() or future.set_result(None))
        await readable
        loop.remove_reader(0)
        data = os.read(0, 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


async def async_worker(name: str, where: Row) -> None:
    async with contextlib.AsyncExitStack() as stack:
        bursts = AsyncBursts(name, where, stack)
        async for command in commands():
            try:
                answer(await bursts.run(command["row"], command["seconds"]))
            except Exception as error:
                answer(failure(error))


def blocking_worker(name: str, where: Row) -> None:
    with contextlib.ExitStack() as stack:
        bursts = BlockingBursts(name, where, stack)
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer(bursts.run(command["row"], command["seconds"]))
            except Exception as error:
                answer(failure(error))


def runner(name: str) -> Callable:
    if name.endswith("-uvloop"):
        import uvloop

        return uvloop.run
    return asyncio.run


def once(name: str, where: Row, row: Row, seconds: float) -> Row:
    """Run one burst in this process, for a profiler."""
    settle_allocator(name)
    if name in BLOCKING:
        with contextlib.ExitStack() as stack:
            return BlockingBursts(name, where, stack).run(row, seconds)

    async def main() -> Row:
        async with contextlib.AsyncExitStack() as stack:
            return await AsyncBursts(name, where, stack).run(row, seconds)

    return runner(name)(main())


if __name__ == "__main__":
    who, place = sys.argv[1], json.loads(sys.argv[2])
    if place["cpu"] is not None:
        os.sched_setaffinity(0, {place["cpu"]})
    settle_allocator(who)
    if who in BLOCKING:
        blocking_worker(who, place)
    else:
        runner(who)(async_worker(who, place))
