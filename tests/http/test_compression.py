"""Compressed bodies come out piece by piece, as soon as the server has flushed them."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import pytest

from ferrule._http.compression import STEP, CorruptBody, Inflater

TEXT = b'{"jsonrpc": "2.0", "id": 1, "result": {"text": "a fairly ordinary answer"}}\n' * 20


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
]
each_coding = pytest.mark.parametrize(("encoding", "compress"), CODINGS, ids=["gzip", "x-gzip", "zlib", "raw"])


def inflate(encoding: str, *pieces: bytes) -> bytes:
    inflater = Inflater(encoding)
    out = b"".join(out for piece in pieces for out in inflater.feed(piece))
    inflater.finish()
    return out


@pytest.mark.req("W8", "W1")
@each_coding
def test_any_split_gives_the_same_bytes(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    data = compress(TEXT)

    assert inflate(encoding, data) == TEXT
    assert inflate(encoding, *(data[at : at + 1] for at in range(len(data)))) == TEXT
    for cut in range(len(data) + 1):
        assert inflate(encoding, data[:cut], data[cut:]) == TEXT


@pytest.mark.req("W8")
@each_coding
def test_an_empty_body_has_an_end_too(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    assert inflate(encoding, compress(b"")) == b""


@pytest.mark.req("W8")
@pytest.mark.parametrize("wbits", [31, 15, -15], ids=["gzip", "zlib", "raw"])
def test_what_the_server_flushes_comes_out_at_once(wbits: int) -> None:
    inflater = Inflater("gzip" if wbits == 31 else "deflate")
    deflater = zlib.compressobj(wbits=wbits)

    for number in range(50):
        event = b"data: %d\n\n" % number
        flushed = deflater.compress(event) + deflater.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(inflater.feed(flushed)) == event


@pytest.mark.req("W8", "W9")
def test_no_step_puts_out_more_than_its_bound() -> None:
    data = gzip.compress(bytes(10 * STEP + 7))

    pieces = list(Inflater("gzip").feed(data))

    assert max(map(len, pieces)) == STEP
    assert sum(map(len, pieces)) == 10 * STEP + 7


@pytest.mark.req("W8")
@pytest.mark.parametrize("size", [STEP - 1, STEP, STEP + 1, 3 * STEP])
def test_sizes_around_a_step_lose_nothing(size: int) -> None:
    data = random.Random(size).randbytes(size)
    for payload in (data, bytes(size)):
        assert inflate("gzip", gzip.compress(payload)) == payload
        assert inflate("deflate", raw_deflate(payload)) == payload


@pytest.mark.req("W8")
def test_gzip_members_follow_one_another_and_zeros_may_pad_them() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two") + bytes(5)

    assert inflate("gzip", data) == b"one two"
    assert inflate("gzip", *(data[at : at + 1] for at in range(len(data)))) == b"one two"


@pytest.mark.req("W8")
@each_coding
def test_a_body_that_is_cut_short_is_corrupt(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    data = compress(TEXT)
    for cut in range(1, len(data)):
        with pytest.raises(CorruptBody, match="cut short"):
            inflate(encoding, data[:cut])


@pytest.mark.req("W8")
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    "data",
    [b"<html>not compressed</html>", b"\xff" * 40, b'{"jsonrpc": "2.0"}', b"\x1f\x8b\x09" + TEXT],
)
def test_what_is_not_compressed_is_corrupt(encoding: str, data: bytes) -> None:
    with pytest.raises(CorruptBody):
        inflate(encoding, data)


@pytest.mark.req("W8")
def test_a_wrong_checksum_is_corrupt() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[-5] ^= 1

    with pytest.raises(CorruptBody, match=r"^corrupt$") as caught:
        inflate("gzip", bytes(data))

    assert caught.value.__suppress_context__


@pytest.mark.req("W8")
@pytest.mark.parametrize(("encoding", "compress"), [CODINGS[0], CODINGS[2], CODINGS[3]])
def test_what_follows_the_end_is_corrupt(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    with pytest.raises(CorruptBody):
        inflate(encoding, compress(TEXT) + b"more")


@pytest.mark.req("W8", "W9")
@pytest.mark.timeout(30)  # going over the rest again after each member takes hours, going on from it a second
def test_many_tiny_members_are_gone_over_once() -> None:
    inflater = Inflater("gzip")
    assert list(inflater.feed(gzip.compress(b"") * 300_000)) == []
