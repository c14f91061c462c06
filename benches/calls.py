"""Calls end to end: what a tool call costs with ferrule, with the official client, and at least.

    python benches/calls.py                  all rows; --check makes a missed bound exit code 1
    python benches/calls.py --quick          fewer and shorter bursts, under 90 s, wider intervals
    python benches/calls.py --only "stateless json,stdio" --clients floor,ferrule-async --rounds 3
    python benches/calls.py --solo ferrule-async --only "stateless json x1" --seconds 5 [--profile]

Against the null server (`null_server/`, Rust), clients kept on one CPU and the server on another,
every client in a process of its own (`_workers.py`). In each round each row is measured with each
of its clients, one burst after another, in an order that rotates; ratios are formed between the
bursts of one row in one round, so that a slower minute of the machine touches both sides.

How to read it: a cell is a median and, in brackets, the order statistics that hold the true median
with at least 95 % (the coverage is printed; under six rounds it is less). CPU is user + system time
of the client process per call. "floor" is `plain_floor.py`: asyncio and
plain Python that parses what it gets; "floor-tuned" is `floors.py`, which knows what the null server sends.
A bound counts as met when the worse end of its interval meets it. A run says nothing, is void, when
the floor itself is not fast enough against mcp (medians).

A busy machine wakes both sides up late and so makes clients look alike. With --check a round of a
row counts only if other processes took at most 10 % of the CPUs meanwhile; such rounds are repeated
while the budget lasts. --noisy counts them all.

The stateless rows send the whole envelope with every call, the handshake rows the session id.

Two choices that change the figures, and the rows that show the other side of each:
- The server looks for the next request for 5 ms before it sleeps. A sleeping server would add the
  time and the cost of its waking up to every sequential call, whoever calls ("server asleep").
- Every worker frees one big block before it starts, because any process that has handled a big
  message has: until then glibc maps and unmaps memory on each read of asyncio's `data_received`
  ("fresh allocator": a process that has not).
"end of sse apart" is an SSE answer whose last chunk comes in a write of its own, as uvicorn does.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import time
from dataclasses import dataclass, field

import _harness as harness
from _harness import Interval, Verdict, Worker, WorkerFailed, say
from _rows import VOID_UNLESS, Row, all_bounds, all_rows

PACKAGES = ("mcp", "orjson", "httpx2", "uvloop")
ENOUGH = 5  # rounds


# --- measuring ------------------------------------------------------------------------------------


@dataclass
class Samples:
    """What was measured: per row and client one burst per round, None where it failed.

    `others` holds per row and round the share of the CPUs that other processes took meanwhile. With
    `quiet_only` a round in which that was more than `harness.QUIET` % does not count for that row.
    """

    rows: list[Row]
    quiet_only: bool
    bursts: dict[tuple[str, str], list[dict | None]] = field(default_factory=dict)
    others: dict[str, list[float]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)

    def counts(self, row: str) -> list[bool]:
        """Say of each round whether it counts."""
        return [not self.quiet_only or share <= harness.QUIET for share in self.others.get(row, [])]

    def values(self, row: str, client: str, measure: str) -> list[float | None]:
        if (row, client) not in self.bursts:
            return []
        bursts = zip(self.bursts[row, client], self.counts(row), strict=True)
        return [value_of(burst, measure) if burst and good else None for burst, good in bursts]

    def interval(self, row: str, client: str, measure: str) -> Interval | None:
        values = [value for value in self.values(row, client, measure) if value is not None]
        return Interval.of(values) if values else None

    def ratio(self, row: str, measure: str, client: str, over: str) -> Interval | None:
        """Divide inside each round, then take the median."""
        mine, others = self.values(row, client, measure), self.values(row, over, measure)
        if not mine or not others:
            return None
        pairs = zip(mine, others, strict=True)
        ratios = [one / other for one, other in pairs if one is not None and other is not None]
        return Interval.of(ratios) if ratios else None


def value_of(burst: dict, measure: str) -> float:
    if measure == "rate":
        return burst["calls"] / burst["wall"]
    return burst["cpu"] / burst["calls"] * 1e6


class Clients:
    """The worker processes, started when first needed."""

    def __init__(self, where: dict) -> None:
        self.where = where
        self.workers: dict[str, Worker] = {}

    def burst(self, client: str, row: Row, seconds: float) -> dict:
        if client not in self.workers:
            argv = [str(harness.HERE / "_workers.py"), client, json.dumps(self.where)]
            self.workers[client] = Worker(argv)
        return self.workers[client].ask({"row": dataclasses.asdict(row), "seconds": seconds})

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def measure(samples: Samples, clients: Clients, options: argparse.Namespace) -> None:
    """Run rounds until every row has enough that count, or the budget is spent."""
    load = harness.OtherLoad()
    end = time.monotonic() + options.budget
    longest, number = 0.0, 0
    while True:
        began = time.monotonic()
        wanting = [row for row in samples.rows if sum(samples.counts(row.name)) < options.rounds]
        if not wanting:
            return
        if number and began + 1.1 * longest > end:
            say(f"stopped after {number} rounds: the budget of {options.budget:.0f} s is spent")
            return
        for row in wanting:
            shift = number % len(row.clients)
            order = row.clients[shift:] + row.clients[:shift]
            if row is wanting[0]:
                samples.order.append(" ".join(order))
            load.mark()
            for client in order:
                one_burst(samples, clients, row, client, options.seconds)
            samples.others.setdefault(row.name, []).append(load.mark())
        longest = max(longest, time.monotonic() - began)
        number += 1


def one_burst(samples: Samples, clients: Clients, row: Row, client: str, seconds: float) -> None:
    key = (row.name, client)
    burst = None
    if key not in samples.failures:
        try:
            burst = clients.burst(client, row, seconds)
        except WorkerFailed as error:
            samples.failures[key] = str(error)
            say(f"! {row.name}, {client}: {error}")
    samples.bursts.setdefault(key, []).append(burst)


# --- reporting ------------------------------------------------------------------------------------


def print_raw(samples: Samples) -> None:
    say("\n## Raw samples: calls/s · CPU µs per call, one pair per round")
    for (row, client), bursts in samples.bursts.items():
        pairs = ["-" if b is None else f"{value_of(b, 'rate'):.0f}·{value_of(b, 'cpu'):.1f}" for b in bursts]
        say(f"{row}, {client}: {' '.join(pairs)}")
    say("\n## % of the CPUs that other processes took, per row and round")
    for row, shares in samples.others.items():
        say(f"{row}: {' '.join(f'{share:.0f}' for share in shares)}")


def floor_of(client: str) -> str:
    """Return the floor that a client is compared with."""
    if client in ("floor-blocking-tuned", "ferrule-sync-over-tuned"):
        return "floor-blocking-tuned"
    if client in ("ferrule-sync", "floor-blocking"):
        return "floor-blocking"
    return "floor" + "".join(kind for kind in ("-uvloop", "-fresh", "-tuned") if client.endswith(kind))


def print_rows(samples: Samples) -> None:
    lines = []
    for row in samples.rows:
        for client in row.clients:
            rate = samples.interval(row.name, client, "rate")
            if rate is None:
                why = "failed" if (row.name, client) in samples.failures else "no quiet round"
                lines.append([row.name, client, why, "", "", ""])
                continue
            cpu = samples.interval(row.name, client, "cpu")
            base = floor_of(client)
            over_floor = samples.ratio(row.name, "cpu", client, base) if base != client else None
            over_mcp = samples.ratio(row.name, "rate", client, "mcp") if client != "mcp" else None
            lines.append([row.name, client, str(rate), str(cpu), str(over_floor or ""), str(over_mcp or "")])
    header = ["row", "client", "calls/s", "CPU µs per call", "CPU over floor", "calls/s over mcp"]
    say(harness.table("Calls", header, lines))


def verdicts(samples: Samples) -> list[Verdict]:
    names = {row.name for row in samples.rows}
    found = []
    for bound in all_bounds():
        if bound.row in names:
            what = "CPU per call" if bound.measure == "cpu" else "calls/s"
            ratio = samples.ratio(bound.row, bound.measure, bound.client, bound.over)
            found.append(
                Verdict(
                    f"{bound.row}: {what}, {bound.client} over {bound.over}",
                    bound.limit,
                    bound.at_most,
                    ratio,
                    "×",
                    samples.failures.get((bound.row, bound.client), ""),
                )
            )
    return found


def void_reasons(samples: Samples) -> list[str]:
    """Say why the run means nothing, if so: the floor was too slow, or the machine too busy."""
    reasons, lines = [], []
    names = {row.name for row in samples.rows}
    for row, factor in VOID_UNLESS:
        if row not in names:
            continue
        ratio = samples.ratio(row, "rate", "floor", "mcp")
        good = ratio is not None and ratio.median >= factor
        lines.append([row, f"≥ {factor}×", str(ratio or "not measured"), "valid" if good else "VOID"])
        if not good and (ratio is not None or not samples.quiet_only):
            reasons.append(f"{row}: the floor was too slow against mcp, or one of them was not measured")
    if lines:
        title = "Is the run valid? floor over mcp, calls/s (median)"
        say(harness.table(title, ["row", "needed", "measured", ""], lines))
    if samples.quiet_only:
        bounded = [row for row in dict.fromkeys(bound.row for bound in all_bounds()) if row in names]
        loud = [row for row in bounded if sum(samples.counts(row)) < ENOUGH]
        if loud:
            reasons.append(f"other processes left fewer than {ENOUGH} quiet rounds for: {', '.join(loud)}")
    return reasons


def report(samples: Samples) -> bool:
    """Print everything; return whether the run is valid and every bound is met."""
    print_raw(samples)
    print_rows(samples)
    found = verdicts(samples)
    void = void_reasons(samples)
    header = ["bound", "limit", "measured", "verdict", "note"]
    say(harness.table("Bounds", header, [verdict.cells() for verdict in found]))
    worst = min((v.measured for v in found if v.measured), key=lambda m: m.samples, default=None)
    if worst:
        say(f"\nintervals: at least {worst.samples} rounds, coverage {worst.coverage:.1%}")
    missed = [verdict for verdict in found if not verdict.met]
    for reason in void:
        say(f"VOID: {reason}")
    say(f"{len(found) - len(missed)} of {len(found)} bounds met")
    return not missed and not void


def write_json(path: str, samples: Samples) -> None:
    document = {
        "machine": harness.machine(PACKAGES),
        "order": samples.order,
        "others_percent": samples.others,
        "quiet_only": samples.quiet_only,
        "bursts": [
            {"row": row, "client": client, "rounds": bursts} for (row, client), bursts in samples.bursts.items()
        ],
        "bounds": [{**dataclasses.asdict(verdict), "met": verdict.met} for verdict in verdicts(samples)],
        "failures": [[*key, text] for key, text in samples.failures.items()],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)


# --- the program ----------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 on a missed bound or void run")
    parser.add_argument("--noisy", action="store_true", help="with --check: count every round")
    parser.add_argument("--quick", action="store_true", help="under 90 s, wide intervals")
    parser.add_argument("--only", default="", help="rows whose name holds one of these (commas)")
    parser.add_argument("--clients", default="", help="only these clients (commas)")
    parser.add_argument("--rounds", type=int, help="default 15 (quick: 5)")
    parser.add_argument("--seconds", type=float, help="per burst; default 0.25 (quick: 0.1)")
    parser.add_argument("--budget", type=float, help="seconds for all rounds; default 420 (quick: 80)")
    parser.add_argument("--spin", type=int, default=5000, help="µs the server looks before it sleeps")
    parser.add_argument("--json", default="", help="write samples and verdicts to this file")
    parser.add_argument("--solo", default="", help="run one client's burst in this process")
    parser.add_argument("--profile", action="store_true", help="with --solo: print a cProfile")
    options = parser.parse_args()
    quick = options.quick
    options.rounds = options.rounds or (5 if quick else 15)
    options.seconds = options.seconds or (0.1 if quick else 0.25)
    options.budget = options.budget or (80 if quick else 420)
    return options


def chosen_rows(options: argparse.Namespace) -> list[Row]:
    wanted = [text.strip() for text in options.only.split(",") if text.strip()]
    clients = [text.strip() for text in options.clients.split(",") if text.strip()]
    rows = []
    for row in all_rows():
        if wanted and not any(text in row.name for text in wanted):
            continue
        kept = tuple(client for client in row.clients if not clients or client in clients)
        if kept:
            rows.append(dataclasses.replace(row, clients=kept))
    if not rows:
        raise SystemExit("no row has such a name; rows: " + ", ".join(r.name for r in all_rows()))
    return rows


def solo(options: argparse.Namespace, where: dict, row: Row) -> None:
    """One burst in this process, for a profiler, perf or strace."""
    import _workers

    harness.pin(where["cpu"])
    call = (options.solo, where, dataclasses.asdict(row), options.seconds)
    if options.profile:
        import cProfile
        import pstats

        profile = cProfile.Profile()
        burst = profile.runcall(_workers.once, *call)
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    else:
        burst = _workers.once(*call)
    say(
        f"{row.name}, {options.solo}: {value_of(burst, 'rate'):,.0f} calls/s, "
        f"{value_of(burst, 'cpu'):.1f} µs CPU per call, {burst['calls']} calls"
    )


def main() -> int:
    options = arguments()
    rows = chosen_rows(options)
    binary = harness.build_null_server()
    cpus = harness.Cpus.choose()
    spin = str(options.spin)
    words = [binary, "--stdio", "--spin", spin, "--seconds", str(harness.SERVER_LIFE)]
    stdio = harness.pinned_argv(cpus.server, words)
    with (
        harness.null_server(binary, cpus.server, options.spin) as spinning,
        harness.null_server(binary, cpus.server) as sleeping,
    ):
        ports = {"spinning": spinning, "sleeping": sleeping}
        where = {"ports": ports, "stdio": stdio, "cpu": cpus.client}
        if options.solo:
            solo(options, where, rows[0])
            return 0
        harness.pin(cpus.server)
        for line in harness.machine(PACKAGES):
            say(line)
        say(f"{cpus}; null server spins {options.spin} µs before it sleeps")
        say(f"{options.rounds} rounds, bursts of {options.seconds} s")
        if importlib.util.find_spec("ferrule") is None:
            say("! ferrule is not installed: its columns stay empty")
        clients = Clients(where)
        samples = Samples(rows, options.check and not options.noisy)
        with contextlib.closing(clients):
            measure(samples, clients, options)
    say("order of the clients, first row, per round: " + " | ".join(samples.order))
    good = report(samples)
    if options.json:
        write_json(options.json, samples)
    return 1 if options.check and not good else 0


if __name__ == "__main__":
    raise SystemExit(main())
