"""Memory and time stay linear in what was received, whatever the size of the reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ferrule._wire import LineDecoder

MIB = 1024 * 1024

# Peak of what one message costs beyond the interpreter itself, in a process of its own.
PEAK = """
import sys
from ferrule import _wire

kind, size, read = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
piece = b"x" * read
if kind == "event":
    decoder, start, end = _wire.BodyDecoder(_wire.KIND_SSE), b"data: ", b"\\n\\n"
elif kind == "body":
    decoder, start, end = _wire.ResponseDecoder(), b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % size, b""
    decoder.begin()
else:
    decoder, start, end = _wire.LineDecoder(), b"", b"\\n"

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

decoder.feed(start)
before = peak()
frames = []
for _ in range(size // read):
    frames += decoder.feed(piece)
frames += decoder.feed(end)
assert len(frames[0][1]) == size, len(frames[0][1])
print(peak() - before)
"""


@pytest.mark.req("W9")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["event", "body", "line"])
@pytest.mark.parametrize("read", [256, 4096, 65536])
def test_a_message_costs_at_most_twice_its_size(kind: str, read: int) -> None:
    size = 16 * MIB
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, kind, str(size), str(read)], capture_output=True, text=True, check=True
    )
    # The allowance beside 64 KiB is what the allocator keeps in its own books.
    assert size < int(ran.stdout) < 2 * size + 64 * 1024 + size // 50


@pytest.mark.req("D7")
def test_a_line_of_40_mebibytes_comes_out_whole() -> None:
    decoder, piece = LineDecoder(), b"x" * 4096
    for _ in range(40 * MIB // 4096):
        assert decoder.feed(piece) == []
    ((_, line, _),) = decoder.feed(b"\n")
    assert len(line) == 40 * MIB


@pytest.mark.req("W9")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_skipped_is_not_kept() -> None:
    code = """
from ferrule import _wire
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
lines, events = _wire.LineDecoder(max_line=1000), _wire.BodyDecoder(_wire.KIND_SSE, max_message=1000)
events.feed(b": ")
piece = b"x" * 65536
lines.feed(piece), events.feed(piece)
before = peak()
for _ in range(1000):
    assert lines.feed(piece) == events.feed(piece) == []
print(peak() - before)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 1024
