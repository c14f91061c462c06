"""How fast the core frames event streams, next to httpx-sse, and whether large events take linear time.

    python benches/framing.py [--rounds 9] [--check]

The rounds take the decoders in turn, so that what else the machine does falls on all of them; ratios are formed
within a round, of CPU time. `--check` fails when a bound is missed. Both decoders get the same bytes in the same reads
and hand out every event: ours as tuples with `bytes`, httpx-sse as it is used, `EventSource(response).iter_sse()` over
a response of httpx, or of its successor httpx2 where httpx is not installed.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from _harness import Interval, Verdict, machine, say, short, table  # noqa: E402

from ferrule import _wire  # noqa: E402

KIB, MIB = 1024, 1024 * 1024
READ = 16 * KIB
EVENTS = 100_000
EVENT_SIZE = 150
TIMES_FASTER = 10.0
SIZES = (8, 16, 32, 64)
# How much longer one MiB may take in the largest event than in the smallest: quadratic time would be 8, and the
# largest event comes from fresh pages where the others reuse memory.
LINEAR = 2.0


def httpx_sse_decoder() -> Callable[[Sequence[bytes]], int]:
    """Decode with httpx-sse: what its users call, over a response whose body is the reads."""
    http = _httpx()
    try:
        source = importlib.import_module("httpx_sse").EventSource
    except ModuleNotFoundError:
        raise SystemExit("httpx-sse is not installed: pip install --group bench") from None

    class Body(http.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, reads: Sequence[bytes]) -> None:
            self.reads = reads

        def __iter__(self) -> Iterator[bytes]:
            return iter(self.reads)

    def decode(reads: Sequence[bytes]) -> int:
        response = http.Response(200, headers={"content-type": "text/event-stream"}, stream=Body(reads))
        count = 0
        for _ in source(response).iter_sse():
            count += 1
        return count

    return decode


def _httpx() -> Any:
    for name in ("httpx", "httpx2"):
        with contextlib.suppress(ModuleNotFoundError):
            found = importlib.import_module(name)
            sys.modules["httpx"] = found  # the name that httpx-sse imports
            return found
    raise SystemExit("neither httpx nor httpx2 is installed: pip install --group test --group bench")


def stream() -> bytes:
    """Many events of the size of a progress notification."""
    start = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":'
    events = []
    for number in range(EVENTS):
        event = start + b'%d,"message":"' % number
        events.append(event + b"x" * (EVENT_SIZE - len(event) - 5) + b'"}}\n\n')
    assert {len(event) for event in events} == {EVENT_SIZE}
    return b"".join(events)


def with_core(reads: Sequence[bytes]) -> int:
    """Decode bytes that are handed in."""
    feed = _wire.BodyDecoder(_wire.KIND_SSE).feed
    count = 0
    for read in reads:
        count += len(feed(read))
    return count


def with_core_buffer(reads: Sequence[bytes]) -> int:
    """Decode a whole response through the decoder's own buffer, as the drivers do (the copy into it included)."""
    decoder = _wire.ResponseDecoder(buffer_size=READ)
    decoder.begin()
    decoder.feed(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    view, updated = decoder.get_buffer(), decoder.buffer_updated
    count = 0
    for read in reads:
        size = len(read)
        view[:size] = read
        count += len(updated(size))
    return count


def timed(work: Callable[[], int], expected: int) -> float:
    gc.collect()
    started = time.process_time()
    count = work()
    seconds = time.process_time() - started
    assert count == expected, f"{count} events instead of {expected}"
    return seconds


def small_events(rounds: int) -> Verdict:
    """Measure the decoders in turn; print the table."""
    data = stream()
    reads = [data[at : at + READ] for at in range(0, len(data), READ)]
    decoders: dict[str, Callable[[Sequence[bytes]], int]] = {
        "ferrule, feed": with_core,
        "ferrule, receive buffer": with_core_buffer,
        "httpx-sse": httpx_sse_decoder(),
    }
    seconds: dict[str, list[float]] = {name: [] for name in decoders}
    for round_number in range(rounds + 1):
        for name, decode in decoders.items():
            taken = timed(lambda decode=decode: decode(reads), EVENTS)
            if round_number:  # the first warms up
                seconds[name].append(taken)
    rows, ratios = [], {}
    for name, taken in seconds.items():
        pairs = zip(seconds["httpx-sse"], taken, strict=True)
        ratios[name] = Interval.of([theirs / ours for theirs, ours in pairs])
        rate = Interval.of([EVENTS / 1e6 / one for one in taken])
        bytes_rate = short(rate.median * EVENT_SIZE)
        rows.append([name, str(rate), bytes_rate, str(ratios[name])])
    header = ["decoder", "million events/s", "MB/s", "times httpx-sse"]
    say(table(f"Events of {EVENT_SIZE} bytes in reads of {READ // KIB} KiB ({rounds} rounds)", header, rows))
    return Verdict("event framing, ferrule / httpx-sse", TIMES_FASTER, False, ratios["ferrule, feed"], "x")


def large_event(size: int) -> float:
    """One event of `size` MiB in reads of 4 KiB."""
    decoder, read = _wire.BodyDecoder(_wire.KIND_SSE), b"x" * (4 * KIB)
    decoder.feed(b"data: ")
    gc.collect()
    started = time.process_time()
    for _ in range(size * MIB // len(read) - 1):
        decoder.feed(read)
    frames = decoder.feed(read[:-2] + b"\n\n")
    seconds = time.process_time() - started
    assert len(frames) == 1 and len(frames[0][1]) == size * MIB - 2
    return seconds


def large_events(rounds: int) -> Verdict:
    """Measure the sizes in turn; print the table."""
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        for size in SIZES:
            seconds[size].append(large_event(size))
    rows, growth = [], {}
    for size, taken in seconds.items():
        pairs = zip(taken, seconds[SIZES[0]], strict=True)
        growth[size] = Interval.of([(ours / size) / (first / SIZES[0]) for ours, first in pairs])
        milliseconds = Interval.of([1000 * one for one in taken])
        rate = short(size * MIB / 1e3 / milliseconds.median)
        rows.append([f"{size} MiB", str(milliseconds), rate, str(growth[size])])
    header = ["event", "ms", "MB/s", "time per MiB, to that of the smallest"]
    say(table(f"One event in reads of 4 KiB ({rounds} rounds)", header, rows))
    largest = growth[SIZES[-1]]
    return Verdict(f"time per MiB, {SIZES[-1]} MiB / {SIZES[0]} MiB", LINEAR, True, largest, "x")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="at least 5 (default 9)")
    parser.add_argument("--check", action="store_true", help="fail when a bound is missed")
    settings = parser.parse_args()
    rounds = max(settings.rounds, 5)
    for line in machine(["ferrule", "httpx-sse", "httpx", "httpx2"]):
        say(line)
    verdicts = [small_events(rounds), large_events(rounds)]
    header = ["bound", "limit", "measured, median [95 % interval]", "verdict", "note"]
    say(table("Bounds", header, [verdict.cells() for verdict in verdicts]))
    return int(settings.check and not all(verdict.met for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
