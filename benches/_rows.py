"""The rows of `calls.py` and the bounds on them: data only."""

from __future__ import annotations

from dataclasses import dataclass, field

MAIN = ("floor", "ferrule-async", "mcp")


@dataclass(frozen=True)
class Row:
    """One kind of call at one concurrency, and the clients that are measured with it."""

    name: str
    clients: tuple[str, ...] = MAIN
    path: str = "/json"
    era: str = "stateless"
    concurrency: int = 1
    transport: str = "http"
    tool: str = "echo"
    arguments: dict = field(default_factory=lambda: {"query": "status", "limit": 10})
    progress: bool = False
    threads: int = 1
    server: str = "spinning"


def all_rows() -> list[Row]:
    rows = [
        Row(f"{era} {framing} x{n}", path=f"/{framing}", era=era, concurrency=n)
        for era in ("stateless", "handshake")
        for framing in ("json", "sse")
        for n in (1, 10, 100)
    ]
    sync = ("floor-blocking", "ferrule-sync")
    loops = ("floor-uvloop", "ferrule-uvloop")
    fresh = ("floor-fresh", "ferrule-fresh")
    tuned = ("floor-tuned", "ferrule-over-tuned")
    return [
        *rows,
        Row("progress x1000", path="/sse", tool="progress", arguments={"n": 1000}, progress=True),
        Row("stdio x1", (*MAIN, *sync), transport="stdio"),
        Row("stdio x100", transport="stdio", concurrency=100),
        Row("sync stateless json x1", sync),
        Row("sync handshake json x1", sync, era="handshake"),
        Row("sync stateless sse x1", sync, path="/sse"),
        Row("sync 4 threads", sync, threads=4),
        *(
            Row(f"tuned floor {framing} x{n}", tuned, path=f"/{framing}", concurrency=n)
            for framing in ("json", "sse")
            for n in (1, 10, 100)
        ),
        Row("tuned floor sync json x1", ("floor-blocking-tuned", "ferrule-sync-over-tuned")),
        Row("server asleep json x1", server="sleeping"),
        Row("server asleep sse x1", path="/sse", server="sleeping"),
        Row("server asleep sync json x1", sync, server="sleeping"),
        Row("end of sse apart x1", path="/sse/apart"),
        Row("end of sse apart x100", path="/sse/apart", concurrency=100),
        Row("uvloop json x1", loops),
        Row("uvloop json x100", loops, concurrency=100),
        Row("fresh allocator json x100", fresh, concurrency=100),
        Row("fresh allocator sse x100", fresh, path="/sse", concurrency=100),
        Row("size 10 KB", tool="size", arguments={"n": 10_000}),
        Row("size 1 MB", tool="size", arguments={"n": 1_000_000}),
        Row("list of 200 tools", ("ferrule-async", "mcp"), path="/json/many", tool="tools/list"),
    ]


# --- the bounds -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A ratio of one measure of two clients in one row, and what it may be."""

    row: str
    measure: str
    client: str
    over: str
    limit: float
    at_most: bool


def all_bounds() -> list[Bound]:
    bounds = []
    for era in ("stateless", "handshake"):
        for framing, limits in (("json", (1.35, 2, 2)), ("sse", (1.0, 1.3, 1.3))):
            for n, limit in zip((1, 10, 100), limits, strict=True):
                row = f"{era} {framing} x{n}"
                bounds.append(Bound(row, "cpu", "ferrule-async", "floor", limit, True))
        for framing, n, limit in (
            ("json", 1, 12),
            ("json", 100, 30),
            ("sse", 1, 22),
            ("sse", 100, 40),
        ):
            row = f"{era} {framing} x{n}"
            bounds.append(Bound(row, "rate", "ferrule-async", "mcp", limit, False))
    sync = ("ferrule-sync", "floor-blocking", 1.35, True)
    return [
        *bounds,
        Bound("progress x1000", "rate", "ferrule-async", "mcp", 50, False),
        Bound("stdio x1", "rate", "ferrule-async", "mcp", 2.4, False),
        Bound("stdio x1", "rate", "ferrule-sync", "mcp", 3, False),
        Bound("stdio x100", "rate", "ferrule-async", "mcp", 10, False),
        Bound("sync stateless json x1", "cpu", *sync),
        Bound("sync handshake json x1", "cpu", *sync),
    ]


VOID_UNLESS = tuple(
    (f"{era} {row}", factor)
    for era in ("stateless", "handshake")
    for row, factor in (("json x1", 14), ("sse x1", 20), ("json x100", 50), ("sse x100", 45))
)
