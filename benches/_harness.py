"""What the benches share: the machine, the null server, worker processes, statistics, tables.

Knows no client and no bound. Every process it starts it also ends, by its own handle; every wait
has a time limit.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
CRATE = HERE / "null_server"
SERVER_LIFE = 1800
QUIET = 10  # % of the CPUs that other processes may take while something is measured


# --- the machine ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cpus:
    """Which CPU the clients run on and which the server; None where pinning is not possible."""

    client: int | None
    server: int | None

    @classmethod
    def choose(cls) -> Cpus:
        if not hasattr(os, "sched_setaffinity"):
            return cls(None, None)
        usable = sorted(os.sched_getaffinity(0))
        return cls(usable[0], usable[-1]) if len(usable) > 1 else cls(None, None)

    def __str__(self) -> str:
        if self.client is None:
            return "not pinned: fewer than two usable CPUs, or no sched_setaffinity here"
        return f"client on CPU {self.client}, server on CPU {self.server}"


def pin(cpu: int | None) -> None:
    """Keep this process, and what it starts later, on one CPU."""
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})


def pinned_argv(cpu: int | None, argv: Sequence[str]) -> list[str]:
    """Return a command that runs `argv` on `cpu`, whatever CPU its parent is kept on."""
    if cpu is None:
        return list(argv)
    code = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])});os.execv(sys.argv[2], sys.argv[2:])"
    return [sys.executable, "-I", "-S", "-c", code, str(cpu), *argv]


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def machine(packages: Iterable[str]) -> list[str]:
    """Describe where and with what the numbers were taken."""
    load = os.getloadavg() if hasattr(os, "getloadavg") else ()
    return [
        f"CPU: {cpu_model()}, {os.cpu_count()} CPUs; load {', '.join(f'{x:.2f}' for x in load)}",
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions: " + ", ".join(f"{name} {version(name)}" for name in packages),
    ]


def environment() -> dict[str, str]:
    """Return the environment for a measured process: this one's, without proxies.

    Byte code is written by the first run and read by the others, as with every installed package.
    """
    left_out = ("PYTHONDONTWRITEBYTECODE",)
    return {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy") and key not in left_out
    }


class OtherLoad:
    """Tells which share of the CPUs went to anything but this process and its offspring.

    It is what `/proc/stat` says was busy or stolen, less what the own processes used: so it also
    sees processes that lived for a moment only.
    """

    def __init__(self) -> None:
        self.when, self.ticks = time.monotonic(), _busy_ticks() - _own_ticks()

    def mark(self) -> float:
        """Return the share since the last mark, in percent (0 where there is no /proc)."""
        before, ticks = self.when, self.ticks
        self.when, self.ticks = time.monotonic(), _busy_ticks() - _own_ticks()
        available = (self.when - before) * (os.cpu_count() or 1) * 100
        return max(0.0, 100 * (self.ticks - ticks) / available)


def _busy_ticks() -> int:
    """Return the hundredths of a second that all CPUs were not idle."""
    try:
        first = Path("/proc/stat").read_text().partition("\n")[0]
    except OSError:
        return 0
    fields = [int(field) for field in first.split()[1:9]]
    return sum(fields) - fields[3] - fields[4]


def _own_ticks() -> int:
    """Return the hundredths of a second that this process and all below it used."""
    parents, ticks = {}, {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if entry.isdigit():
            with contextlib.suppress(OSError):
                text = Path("/proc", entry, "stat").read_text()
                fields = text.rpartition(")")[2].split()
                parents[int(entry)] = int(fields[1])
                ticks[int(entry)] = sum(int(field) for field in fields[11:15])
    own = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= grown
    return sum(ticks.get(pid, 0) for pid in own)


# --- the null server ------------------------------------------------------------------------------


def build_null_server() -> str:
    """Build the null server if needed; return the path of the program."""
    command = ["cargo", "build", "--release", "--quiet", "--locked"]
    try:
        subprocess.run(command, cwd=CRATE, check=True, timeout=300, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise SystemExit("the benches need cargo to build their null server") from None
    except subprocess.CalledProcessError:
        raise SystemExit("the null server did not build (see above)") from None
    target = Path(os.environ.get("CARGO_TARGET_DIR", CRATE / "target"))
    return str(target / "release" / ("null_server.exe" if os.name == "nt" else "null_server"))


@contextlib.contextmanager
def null_server(binary: str, cpu: int | None, spin: int = 0) -> Iterator[int]:
    """Run the null server over HTTP; gives its port."""
    argv = [binary, "--seconds", str(SERVER_LIFE), "--spin", str(spin)]
    process = subprocess.Popen(pinned_argv(cpu, argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        if process.poll() is not None:
            say(f"! the null server ended early, exit code {process.returncode}")
        end(process)


def end(process: subprocess.Popen, patience: float = 5) -> None:
    """End a process that this one started: close its stdin, and kill it if that is not enough."""
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(patience)
    process.stdout.close()


# --- worker processes -----------------------------------------------------------------------------


class WorkerFailed(Exception):
    """A worker reported an error, died or did not answer in time."""


class Worker:
    """A client in a process of its own; commands and answers are lines of JSON on its pipes."""

    def __init__(self, argv: Sequence[str], patience: float = 40) -> None:
        self.patience = patience
        self.noise = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self.process = subprocess.Popen(
            [sys.executable, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.noise,
            bufsize=0,
            env=environment(),
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return its answer."""
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
        except OSError:
            raise WorkerFailed("the worker is gone") from None
        answer = json.loads(self.line())
        if "error" in answer:
            raise WorkerFailed(answer["error"] + self.last_words())
        return answer

    def line(self) -> bytes:
        deadline = time.monotonic() + self.patience
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not self.selector.select(left):
                self.process.kill()
                raise WorkerFailed(f"no answer within {self.patience:.0f} s")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise WorkerFailed("the worker ended" + self.last_words())
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def last_words(self) -> str:
        """Return the last line that the worker wrote to stderr since it was asked last."""
        self.noise.seek(0)
        lines = self.noise.read().decode(errors="replace").split("\n")
        self.noise.seek(0)
        self.noise.truncate()
        words = [line for line in lines if line.strip()]
        return f" ({words[-1].strip()[:150]})" if words else ""

    def close(self) -> None:
        self.selector.close()
        end(self.process)
        self.noise.close()


# --- statistics -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interval:
    """A median and the order statistics around it that hold the true median with `coverage`."""

    median: float
    low: float
    high: float
    coverage: float
    samples: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        """Take the narrowest symmetric pair of order statistics that covers at least 95 %.

        No distribution is assumed. Fewer than six samples cannot reach 95 %: then the pair is the
        smallest and the largest, and `coverage` says what they are worth.
        """
        ordered = sorted(values)
        n = len(ordered)
        rank, coverage = 0, _coverage(n, 0)
        while rank + 1 < (n + 1) // 2 and _coverage(n, rank + 1) >= 0.95:
            rank += 1
            coverage = _coverage(n, rank)
        return cls(median(ordered), ordered[rank], ordered[n - 1 - rank], coverage, n)

    def __str__(self) -> str:
        return f"{short(self.median)} [{short(self.low)}, {short(self.high)}]"


def _coverage(n: int, rank: int) -> float:
    return 1 - 2 * sum(comb(n, k) for k in range(rank + 1)) / 2**n


def short(value: float) -> str:
    """Write a number with about three significant digits."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Verdict:
    """A bound, what was measured, and whether it is met."""

    what: str
    limit: float
    at_most: bool
    measured: Interval | None
    unit: str = ""
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the end of the interval that is farther from the good side meets the bound."""
        if self.measured is None:
            return False
        if self.at_most:
            return self.measured.high <= self.limit
        return self.measured.low >= self.limit

    def cells(self) -> list[str]:
        sign = "≤" if self.at_most else "≥"
        measured = "not measured" if self.measured is None else f"{self.measured}"
        verdict = "met" if self.met else "MISSED"
        return [self.what, f"{sign} {self.limit:g}{self.unit}", measured, verdict, self.note]


# --- tables ---------------------------------------------------------------------------------------


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table that is also readable as text."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    out = [f"\n## {title}\n"]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        out.append("| " + " | ".join(cells) + " |")
        if number == 0:
            out.append("| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(out)


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
