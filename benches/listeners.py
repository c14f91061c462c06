"""What an open session with its standing stream costs: a thousand of them in one process.

    python benches/listeners.py [--check] [--sessions 1000] [--rounds 3]

Each session is an `AsyncClient(url, listen=True)` of its own, over plain HTTP, in the handshake era; the server keeps
every GET stream open and counts them. The growth of the resident set is counted after the first fifty, which load
what is loaded once, and when all streams stand; a run in which not all do is no pass.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import _harness as harness
from _harness import Interval, Verdict, say

FIRST = 50
BOUND = 40
"""KB of memory for each session. The official client needs 900."""


# --- a server that says nothing -------------------------------------------------------------------


class Silent(asyncio.Protocol):
    """A connection to a server of the handshake era whose streams stay open and empty."""

    streams: ClassVar[set[Silent]] = set()
    sessions: ClassVar[int] = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def connection_lost(self, error: Exception | None) -> None:
        self.streams.discard(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            place = head.lower().find(b"content-length:")
            size = int(head[place + 15 :].split(b"\r\n")[0]) if place > 0 else 0
            if len(rest) < size:
                return
            self.buffer = rest[size:]
            self.handle(head, json.loads(rest[:size]) if size else {})

    def handle(self, head: bytes, message: dict[str, Any]) -> None:
        if head.startswith(b"GET /count"):
            self.answer(b"200 OK", b"%d" % len(self.streams))
        elif head.startswith(b"GET"):
            self.streams.add(self)
            text = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            self.transport.write(text)
        elif "id" not in message:
            self.answer(b"202 Accepted", b"")
        else:
            self.answer_request(message)

    def answer_request(self, message: dict[str, Any]) -> None:
        more = b""
        result: dict[str, Any] = {}
        if message["method"] == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "silent", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            type(self).sessions += 1
            more = b"Mcp-Session-Id: session-%d\r\n" % self.sessions
        self.answer(b"200 OK", json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode(), more)

    def answer(self, status: bytes, body: bytes, more: bytes = b"") -> None:
        head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n"
        self.transport.write(head % (status, more, len(body)) + body)


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(0, over.set)
    server = await loop.create_server(Silent, "127.0.0.1", 0, backlog=4096)
    say(str(server.sockets[0].getsockname()[1]))
    await over.wait()


@contextlib.contextmanager
def running() -> Any:
    """Run the server; its port."""
    command = [sys.executable, str(Path(__file__)), "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        harness.end(process)


# --- the sessions, in this process ----------------------------------------------------------------


def resident() -> int:
    """Bytes of memory that are resident, after a collection."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def standing(port: int) -> int:
    """How many streams stand, by the server's count."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /count HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
    writer.close()
    await writer.wait_closed()
    return int(body)


async def measure_here(port: int, count: int) -> dict[str, float]:
    from ferrule import AsyncClient

    clients: list[AsyncClient] = []

    async def open_more(number: int) -> None:
        for _ in range(number):
            client = AsyncClient(f"http://127.0.0.1:{port}/mcp", protocol="handshake", listen=True)
            clients.append(client)
            await client.ping()

    async def streams() -> int:
        for _ in range(100):
            if await standing(port) >= len(clients):
                break
            await asyncio.sleep(0.05)
        return await standing(port)

    await open_more(FIRST)
    await streams()
    before = resident()
    await open_more(count)
    stand = await streams()
    after = resident()
    await asyncio.gather(*(client.aclose() for client in clients))
    return {"kilobytes": (after - before) / count / 1e3, "missing": len(clients) - stand}


def raise_file_limit(count: int) -> None:
    """Two connections for each session, and some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * (count + FIRST) + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


# --- rounds ---------------------------------------------------------------------------------------


def measure(port: int, count: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__)), "--here", str(port), "--sessions", str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300, env=harness.environment())
    return json.loads(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit code 1 when a bound is missed")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    raise_file_limit(options.sessions)
    if options.serve:
        asyncio.run(serve())
        return 0
    if options.here:
        say(json.dumps(asyncio.run(measure_here(options.here, options.sessions))))
        return 0
    for line in harness.machine(("orjson",)):
        say(line)
    outcomes = []
    for _ in range(options.rounds):
        with running() as port:
            outcomes.append(measure(port, options.sessions))
    sizes = Interval.of([outcome["kilobytes"] for outcome in outcomes])
    missing = Interval.of([outcome["missing"] for outcome in outcomes])
    found = [
        Verdict(f"RSS: each of {options.sessions:,} sessions with a stream", BOUND, True, sizes, " KB"),
        Verdict("streams that do not stand", 0, True, missing),
    ]
    header = ["bound", "limit", "measured", "verdict", "note"]
    say(harness.table("Open sessions", header, [verdict.cells() for verdict in found]))
    missed = [verdict for verdict in found if not verdict.met]
    say(f"\n{len(found) - len(missed)} of {len(found)} bounds met")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
