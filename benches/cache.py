"""What a fresh answer from the response cache costs, against the request it saves: a list of 200 tools.

    python benches/cache.py [--check] [--rounds 21] [--calls 50]

Both are one client of one server in another process: `cache="bypass"` for the request, the default for the hit. CPU is
this process's own (user + system), in batches that take turns; the ratio is formed inside a round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _harness as harness
from _harness import Interval, Verdict, say

TOOLS = 200
BOUND = 1 / 3
"""Of the CPU of the request."""


def tools() -> list[dict[str, Any]]:
    """Tools as real servers have them: a sentence, and a schema of three properties."""
    properties = {
        "path": {"type": "string", "description": "Where to look, relative to the root."},
        "pattern": {"type": "string", "description": "What to look for."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 50},
    }
    schema = {"type": "object", "properties": properties, "required": ["path", "pattern"]}
    text = "Search the files below a path for lines that match a pattern, and list them with their numbers."
    return [{"name": f"search_{number}", "description": text, "inputSchema": schema} for number in range(TOOLS)]


HINTS = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public"}
RESULTS = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **HINTS},
    "tools/list": {"tools": tools(), **HINTS},
}
TEXTS = {method: json.dumps(result).encode() for method, result in RESULTS.items()}


class Server(asyncio.Protocol):
    """Answers one request after another on a connection."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, end, body = self.buffer.partition(b"\r\n\r\n")
        place = head.lower().find(b"content-length:")
        size = int(head[place + 15 :].split(b"\r\n")[0]) if place > 0 else 0
        if not end or len(body) < size:
            return
        self.buffer = b""
        message = json.loads(body)
        answer = b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (message["id"], TEXTS[message["method"]])
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
        self.transport.write(head + answer)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0)
    say(str(server.sockets[0].getsockname()[1]))
    await loop.run_in_executor(None, sys.stdin.read)


@contextlib.contextmanager
def running(cpu: int | None) -> Iterator[str]:
    """The server in a process of its own; gives its URL."""
    command = harness.pinned_argv(cpu, [sys.executable, str(Path(__file__)), "--serve"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        harness.end(process)


def batch(call: Callable[[], Any], calls: int) -> float:
    """Microseconds of CPU for each call."""
    before = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - before) / calls * 1e6


async def async_batch(call: Callable[[], Any], calls: int) -> float:
    before = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - before) / calls * 1e6


Pairs = list[tuple[float, float]]


def measure_sync(url: str, rounds: int, calls: int) -> Pairs:
    from ferrule import Client

    with Client(url) as client:
        assert len(client.list_tools()) == TOOLS
        pairs = [
            (batch(client.list_tools, calls), batch(lambda: client.list_tools(cache="bypass"), calls))
            for _ in range(rounds)
        ]
        assert client.cache_info().hits == rounds * calls
        return pairs


async def measure_async(url: str, rounds: int, calls: int) -> Pairs:
    from ferrule import AsyncClient

    async with AsyncClient(url) as client:
        assert len(await client.list_tools()) == TOOLS
        pairs = [
            (
                await async_batch(client.list_tools, calls),
                await async_batch(lambda: client.list_tools(cache="bypass"), calls),
            )
            for _ in range(rounds)
        ]
        assert client.cache_info().hits == rounds * calls
        return pairs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--check", action="store_true", help="exit code 1 when a bound is missed")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return 0
    cpus = harness.Cpus.choose()
    harness.pin(cpus.client)
    for line in [*harness.machine(("orjson",)), str(cpus)]:
        say(line)
    with running(cpus.server) as url:
        found = {
            "Client": measure_sync(url, options.rounds, options.calls),
            "AsyncClient": asyncio.run(measure_async(url, options.rounds, options.calls)),
        }
    rows, verdicts = [], []
    for name, pairs in found.items():
        hits, requests = zip(*pairs, strict=True)
        rows.append([name, str(Interval.of(hits)), str(Interval.of(requests))])
        ratio = Interval.of([hit / request for hit, request in pairs])
        verdicts.append(Verdict(f"CPU: {name}, a hit in terms of the request it saves", round(BOUND, 3), True, ratio))
    say(harness.table(f"A list of {TOOLS} tools, µs of CPU", ["client", "hit", "request"], rows))
    header = ["bound", "limit", "measured", "verdict", "note"]
    say(harness.table("Bounds", header, [verdict.cells() for verdict in verdicts]))
    missed = [verdict for verdict in verdicts if not verdict.met]
    say(f"\n{len(verdicts) - len(missed)} of {len(verdicts)} bounds met")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
