"""Start and size: what ferrule adds to a process that imports it, uses it once, or holds many.

    python benches/startup.py [--check] [--rounds 15] [--wheel FILE | --no-wheel] [--json FILE]

CPU is user + system time of a whole process from exec to exit, as `wait4` reports it, pinned like
the calls bench; all programs run once per round, one after another, in an order that rotates, and
differences and ratios are formed inside a round. A first round warms the caches and is thrown away.

What is compared:
  import ferrule                         with an interpreter that does nothing (difference)
  from ferrule import Client, ...        with `import orjson` (difference)
  first HTTP result, sync and async      with a script of a socket (asyncio streams) and orjson that
                                         does ONE `tools/call`. ferrule runs as a newcomer would write
                                         it: protocol="auto", so it sends `server/discover` and the
                                         call, and closes. The comparison favours the scripts.
  RSS after that first result            the same processes (difference)
  1,000 open clients                     growth of RSS per client, counted after a first client that
                                         pays for what is made once; each one made a call and keeps
                                         its connection. https the same way, one certificate
                                         authority in SSL_CERT_FILE, stated without a bound.
  wheel                                  built by maturin in release mode, or given with --wheel

Bounds are met when the worse end of the interval meets them; with --check a round counts only if
other processes took at most 10 % of the CPUs meanwhile, and others are repeated (see `calls.py`).
KB and MB are 1,000 and 1,000,000 bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import _harness as harness
from _harness import Interval, Verdict, say

PACKAGES = ("orjson", "trustme", "maturin")
CLIENTS = 1000

# Every program that prints ends with this: the resident memory in bytes (0 where /proc is missing).
RSS = """
try:
    with open("/proc/self/statm") as file:
        print(int(file.read().split()[1]) * 4096)
except OSError:
    print(0)
"""

MESSAGE = """
message = orjson.dumps({
    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
    "params": {
        "name": "echo", "arguments": {"query": "status"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "script", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
})
request = (
    f"POST /json HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n"
    "Accept: application/json, text/event-stream\\r\\nContent-Type: application/json\\r\\n"
    "MCP-Protocol-Version: 2026-07-28\\r\\nMcp-Method: tools/call\\r\\nMcp-Name: echo\\r\\n"
    f"Content-Length: {len(message)}\\r\\n\\r\\n"
).encode() + message
"""

SOCKET_SCRIPT = f"""
import socket, sys, orjson
port = int(sys.argv[1])
{MESSAGE}
connection = socket.create_connection(("127.0.0.1", port))
connection.sendall(request)
data = b""
while b"\\r\\n\\r\\n" not in data:
    data += connection.recv(65536)
head, _, body = data.partition(b"\\r\\n\\r\\n")
length = int(head.lower().partition(b"content-length:")[2].partition(b"\\r\\n")[0])
while len(body) < length:
    body += connection.recv(65536)
assert len(orjson.loads(body)["result"]["content"][0]["text"]) == 200
{RSS}
connection.close()
"""

ASYNCIO_SCRIPT = f"""
import asyncio, sys, orjson
port = int(sys.argv[1])
{MESSAGE}
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\\r\\n")[0])
    body = await reader.readexactly(length)
    assert len(orjson.loads(body)["result"]["content"][0]["text"]) == 200
    writer.close()
    await writer.wait_closed()
asyncio.run(main())
{RSS}
"""

FERRULE_SYNC = f"""
import sys
from ferrule import Client
with Client(f"http://127.0.0.1:{{sys.argv[1]}}/json") as client:
    result = client.call_tool("echo", {{"query": "status"}})
    assert len(result.text) == 200
    {RSS.strip().replace(chr(10), chr(10) + "    ")}
"""

FERRULE_ASYNC = f"""
import asyncio, sys
from ferrule import AsyncClient
async def main():
    async with AsyncClient(f"http://127.0.0.1:{{sys.argv[1]}}/json") as client:
        result = await client.call_tool("echo", {{"query": "status"}})
        assert len(result.text) == 200
asyncio.run(main())
{RSS}
"""

MANY_CLIENTS = """
import asyncio, resource, sys, time
from ferrule import AsyncClient
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
async def main(url, count):
    async def one():
        client = AsyncClient(url)
        await client.connect()
        await client.call_tool("echo", {"query": "status"})
        return client
    clients = [await one()]
    before, start = rss(), time.process_time()
    for _ in range(count):
        clients.append(await one())
    print(rss() - before, (time.process_time() - start) / count, flush=True)
    for client in clients:
        await client.aclose()
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""

PROGRAMS = {
    "bare interpreter": "pass",
    "import ferrule": "import ferrule",
    "import orjson": "import orjson",
    "from ferrule import ...": "from ferrule import Client, AsyncClient, Stdio",
    "sockets + orjson": SOCKET_SCRIPT,
    "ferrule sync": FERRULE_SYNC,
    "asyncio + orjson": ASYNCIO_SCRIPT,
    "ferrule async": FERRULE_ASYNC,
}


# --- running programs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One process from start to end: CPU seconds and what it printed."""

    cpu: float
    printed: str


def run(program: str, *words: str, patience: float = 60, **variables: str) -> Run:
    """Run a program text in a process of its own; raises `SystemExit` when it fails."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**harness.environment(), **variables},
    )
    with kill_after(process, patience):
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        first = program.strip().splitlines()[-1]
        raise SystemExit(f"a measured program failed ({process.returncode}): ... {first}")
    return Run(usage.ru_utime + usage.ru_stime, printed)


@contextlib.contextmanager
def kill_after(process: subprocess.Popen, seconds: float) -> Iterator[None]:
    import threading

    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def measure(port: int, options: argparse.Namespace, names: list[str]) -> dict[str, list[Run]]:
    """Run rounds until enough of them count, or the budget is spent."""
    runs: dict[str, list[Run]] = {name: [] for name in names}
    load, shares, counted = harness.OtherLoad(), [], 0
    quiet_only = options.check and not options.noisy
    end = time.monotonic() + options.budget
    while counted < options.rounds and (time.monotonic() < end or not shares):
        shift = len(shares) % len(names)
        load.mark()
        outcomes = {name: run(PROGRAMS[name], str(port)) for name in names[shift:] + names[:shift]}
        shares.append(load.mark())
        if len(shares) == 1 or (quiet_only and shares[-1] > harness.QUIET):
            continue
        counted += 1
        for name, outcome in outcomes.items():
            runs[name].append(outcome)
    say(f"% of the CPUs that other processes took, per round: {' '.join(f'{s:.0f}' for s in shares)}")
    if counted < options.rounds:
        say(f"! {counted} of {options.rounds} rounds count: {options.budget:.0f} s are over")
    return runs


# --- verdicts -------------------------------------------------------------------------------------


def cpu_ms(runs: dict[str, list[Run]], name: str) -> list[float]:
    return [run.cpu * 1e3 for run in runs.get(name, [])]


def rss_mb(runs: dict[str, list[Run]], name: str) -> list[float]:
    return [int(run.printed) / 1e6 for run in runs.get(name, [])]


def difference(mine: list[float], other: list[float]) -> Interval | None:
    pairs = [a - b for a, b in zip(mine, other, strict=False)]
    return Interval.of(pairs) if pairs else None


def ratio(mine: list[float], other: list[float]) -> Interval | None:
    pairs = [a / b for a, b in zip(mine, other, strict=False)]
    return Interval.of(pairs) if pairs else None


def time_verdicts(runs: dict[str, list[Run]]) -> list[Verdict]:
    def cpu(name: str) -> list[float]:
        return cpu_ms(runs, name)

    bare, names = difference(cpu("import ferrule"), cpu("bare interpreter")), "from ferrule import"
    named = difference(cpu(f"{names} ..."), cpu("import orjson"))
    sync = ratio(cpu("ferrule sync"), cpu("sockets + orjson"))
    loop = ratio(cpu("ferrule async"), cpu("asyncio + orjson"))
    return [
        Verdict("CPU: import ferrule, more than a bare interpreter", 5, True, bare, " ms"),
        Verdict(f"CPU: {names} Client, ..., more than import orjson", 15, True, named, " ms"),
        Verdict("CPU: to the first result, sync, over sockets + orjson", 1.4, True, sync, "×"),
        Verdict("CPU: to the first result, async, over asyncio + orjson", 1.3, True, loop, "×"),
    ]


def memory_verdicts(runs: dict[str, list[Run]]) -> list[Verdict]:
    def growth(mine: str, other: str) -> Interval | None:
        return difference(rss_mb(runs, mine), rss_mb(runs, other))

    sync = growth("ferrule sync", "sockets + orjson")
    loop = growth("ferrule async", "asyncio + orjson")
    return [
        Verdict("RSS: after the first result, sync, more than the script", 6, True, sync, " MB"),
        Verdict("RSS: after the first result, async, more than the script", 6, True, loop, " MB"),
    ]


def per_client(url: str, times: int, **variables: str) -> tuple[Interval, float]:
    """Return KB of memory per open client, and CPU milliseconds to open one and call once."""
    sizes, costs = [], []
    for _ in range(times):
        words = run(MANY_CLIENTS, url, str(CLIENTS), patience=120, **variables).printed.split()
        sizes.append(int(words[0]) / CLIENTS / 1e3)
        costs.append(float(words[1]) * 1e3)
    return Interval.of(sizes), sorted(costs)[len(costs) // 2]


def https_memory(port: int, folder: Path) -> str:
    """Measure open https clients; return a sentence."""
    try:
        import trustme
    except ImportError:
        return "https: not measured, trustme is not installed"
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    paths = [folder / name for name in ("authority.pem", "certificate.pem", "key.pem")]
    authority.cert_pem.write_to_path(paths[0])
    with contextlib.suppress(FileNotFoundError):
        paths[1].unlink()
    for blob in certificate.cert_chain_pems:
        blob.write_to_path(paths[1], append=True)
    certificate.private_key_pem.write_to_path(paths[2])
    relay = subprocess.Popen(
        [sys.executable, str(harness.HERE / "_tls_relay.py"), *map(str, paths[1:]), str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = f"https://127.0.0.1:{int(relay.stdout.readline())}/json"
        size, cost = per_client(url, 3, SSL_CERT_FILE=str(paths[0]))
    finally:
        harness.end(relay)
    return f"https: {size} KB per open client ({CLIENTS} of them), {cost:.2f} ms CPU to open and call"


def wheel_bytes(options: argparse.Namespace, folder: Path) -> int | None:
    if options.no_wheel:
        return None
    if options.wheel:
        return os.path.getsize(options.wheel)
    command = [sys.executable, "-m", "maturin", "build", "--release", "--quiet", "--out", str(folder)]
    try:
        subprocess.run(command, cwd=harness.HERE.parent, check=True, timeout=600)
    except (subprocess.SubprocessError, OSError) as error:
        say(f"! no wheel: {type(error).__name__}")
        return None
    return max(os.path.getsize(path) for path in folder.glob("*.whl"))


# --- the program ----------------------------------------------------------------------------------


def print_programs(runs: dict[str, list[Run]]) -> None:
    say("\n## Raw samples: CPU ms, one per round")
    lines = []
    for name, outcomes in runs.items():
        say(f"{name}: {' '.join(f'{run.cpu * 1e3:.1f}' for run in outcomes)}")
        if not outcomes:
            continue
        memory = Interval.of(rss_mb(runs, name)) if outcomes[0].printed else ""
        lines.append([name, str(Interval.of(cpu_ms(runs, name))), str(memory)])
    say(harness.table("Programs", ["program", "CPU ms", "RSS MB"], lines))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 when a bound is missed")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=90, help="seconds for all rounds")
    parser.add_argument("--noisy", action="store_true", help="with --check: count every round")
    parser.add_argument("--wheel", default="", help="an existing wheel instead of building one")
    parser.add_argument("--no-wheel", action="store_true", help="leave the wheel out")
    parser.add_argument("--json", default="", help="write samples and verdicts to this file")
    return parser.parse_args()


def has_ferrule() -> bool:
    probe = [sys.executable, "-c", "from ferrule import AsyncClient"]
    return not subprocess.run(probe, stderr=subprocess.DEVNULL, timeout=30).returncode


def main() -> int:
    options = arguments()
    binary = harness.build_null_server()
    cpus = harness.Cpus.choose()
    ready = has_ferrule()
    names = [name for name in PROGRAMS if ready or "ferrule" not in name]
    for line in harness.machine(PACKAGES):
        say(line)
    say(f"{cpus}; {options.rounds} rounds after one that warms up")
    if not ready:
        say("! ferrule cannot be imported: only the scripts are measured")
    with (
        tempfile.TemporaryDirectory() as folder,
        harness.null_server(binary, cpus.server) as port,
    ):
        size = wheel_bytes(options, Path(folder)) if ready else None
        harness.pin(cpus.client)
        runs = measure(port, options, names)
        kilobytes, cost, secure = None, 0.0, "https: not measured"
        if ready:
            kilobytes, cost = per_client(f"http://127.0.0.1:{port}/json", 6)
            secure = https_memory(port, Path(folder))
    print_programs(runs)
    wheel = None if size is None else Interval.of([size / 1e6])
    opening = f"{cost:.2f} ms CPU to open and call once"
    found = [
        *time_verdicts(runs),
        *memory_verdicts(runs),
        Verdict(f"RSS: each of {CLIENTS} open http clients", 20, True, kilobytes, " KB", opening),
    ]
    if not options.no_wheel:
        found.append(Verdict("wheel", 1, True, wheel, " MB"))
    header = ["bound", "limit", "measured", "verdict", "note"]
    say(harness.table("Bounds", header, [verdict.cells() for verdict in found]))
    say(f"\n{secure}")
    missed = [verdict for verdict in found if not verdict.met]
    say(f"{len(found) - len(missed)} of {len(found)} bounds met")
    if options.json:
        document = {
            "machine": harness.machine(PACKAGES),
            "runs": {name: [asdict(run) for run in outcomes] for name, outcomes in runs.items()},
            "bounds": [{**asdict(verdict), "met": verdict.met} for verdict in found],
            "https": secure,
        }
        Path(options.json).write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
