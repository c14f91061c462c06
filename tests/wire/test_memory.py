"""Memory and time stay linear in what was received, whatever the size of the reads."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest

from ferrule._http.compression import CodedBody
from ferrule._wire import KIND_JSON, KIND_SSE, BodyDecoder, LineDecoder, ResponseDecoder

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


# The same for what is compressed on the wire: text of random letters, which halves.
EXPANDED = """
import random, sys, zlib
from ferrule import _wire
from ferrule._http.compression import CodedBody

kind, coding, size = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
line = bytes(random.Random(1).choices(b"abcdefghijklmnop", k=4096))
deflater = zlib.compressobj(1, wbits=31 if coding == "gzip" else 15)
data = deflater.compress(b"data: " if kind == _wire.KIND_SSE else b"")
data += b"".join(deflater.compress(line) for _ in range(size // 4096))
data += deflater.compress(b"\\n\\n" if kind == _wire.KIND_SSE else b"") + deflater.flush()
del deflater
body = CodedBody(coding, kind, 1 << 30)

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))

before = peak()
frames = []
for start in range(0, len(data), 4096):
    for some in body.feed(data[start : start + 4096]):
        frames += some
frames += body.finish()
assert len(frames[0][1]) == size, frames[0][:1]
print(peak() - before)
"""


@pytest.mark.req("W8", "W9")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["event", "body"])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_message_costs_at_most_twice_its_size_expanded(kind: str, coding: str) -> None:
    size = 16 * MIB
    number = str(KIND_SSE if kind == "event" else KIND_JSON)
    ran = subprocess.run(
        [sys.executable, "-c", EXPANDED, number, coding, str(size)], capture_output=True, text=True, check=True
    )
    assert size < int(ran.stdout) < 2 * size + 64 * 1024 + size // 50


def feed_event(size: int) -> None:
    events = BodyDecoder(KIND_SSE)
    events.feed(b"data: ")
    for _ in range(size // 4096):
        events.feed(b"x" * 4096)
    assert len(events.feed(b"\n\n")[0][1]) == size


def feed_body(size: int) -> None:
    decoder = ResponseDecoder()
    decoder.begin()
    frames = decoder.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    for _ in range(size // 4096):
        frames += decoder.feed(b"x" * 4096)
    assert len(frames[1][1]) == size


def feed_line(size: int) -> None:
    decoder = LineDecoder()
    for _ in range(size // 4096):
        decoder.feed(b"x" * 4096)
    assert len(decoder.feed(b"\n")[0][1]) == size


def feed_coded(size: int) -> None:
    body, deflater = CodedBody("gzip", KIND_SSE, 64 * MIB), zlib.compressobj(1, wbits=31)
    found = []
    for data in [b"data: ", *[bytes(range(65, 91)) * 157 + b"x" * 14] * (size // 4096), b"\n\n"]:
        for frames in body.feed(deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)):
            found += frames
    assert len(found[0][1]) == size


@pytest.mark.req("W9")
@pytest.mark.timeout(20)  # going over everything again with each read takes a minute, once a tenth of a second
@pytest.mark.parametrize("feed", [feed_event, feed_body, feed_line, feed_coded])
def test_64_mebibytes_in_reads_of_4_kibibytes_are_gone_over_once(feed: Callable[[int], None]) -> None:
    feed(64 * MIB)


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
