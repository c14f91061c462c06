"""`ResponseDecoder` and `BodyDecoder` over the life of a connection."""

from __future__ import annotations

import gzip
import zlib

import pytest

from ferrule import _wire
from ferrule._wire import BODY, CODES, COMMENT, DATA, END, EVENT, FAULT, HEAD, BodyDecoder, ResponseDecoder

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def kinds(frames: list[tuple[object, ...]]) -> list[object]:
    return [frame[0] for frame in frames]


@pytest.mark.req("W18")
def test_one_decoder_reads_one_response_after_another() -> None:
    decoder = ResponseDecoder()
    for _ in range(3):
        decoder.begin()
        frames = decoder.feed(RESPONSE)
        assert kinds(frames) == [HEAD, BODY, END]
        assert frames[1:] == [(BODY, b"{}", 0), (END, True)]
    assert decoder.eof() == []


@pytest.mark.req("W6")
def test_a_response_cannot_begin_before_the_last_has_ended() -> None:
    decoder = ResponseDecoder()
    decoder.begin()
    with pytest.raises(RuntimeError):
        decoder.begin()
    decoder.feed(RESPONSE)
    decoder.begin()


@pytest.mark.req("W6")
def test_a_decoder_is_dead_after_a_fault() -> None:
    decoder = ResponseDecoder()
    ((kind, code, position, size),) = decoder.feed(RESPONSE)
    assert (kind, CODES[code], position, size) == (FAULT, "unsolicited", 0, 0)
    assert decoder.feed(RESPONSE) == decoder.eof() == []
    with pytest.raises(RuntimeError):
        decoder.begin()


def test_the_head_gives_headers_whatever_their_case() -> None:
    decoder = ResponseDecoder()
    decoder.begin()
    ((_, head),) = decoder.feed(
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: a\r\nset-cookie: b=\xe9\r\nSet-Cookie: c\r\n\r\n"
    )
    assert head.status == 401
    assert head.get("www-authenticate") == "a"
    assert head.get("Set-Cookie") == "b=é"
    assert head.get_all("SET-COOKIE") == ["b=é", "c"]
    assert head.get("none") is None and head.get_all("none") == []


@pytest.mark.req("G1")
def test_the_repr_of_a_head_shows_no_content() -> None:
    decoder = ResponseDecoder()
    decoder.begin()
    ((_, head),) = decoder.feed(b"HTTP/1.1 200 OK\r\nX-Secret: hunter2\r\n\r\n")
    assert repr(head) == "<ResponseHead 200 with 1 headers>"


@pytest.mark.req("W2")
def test_comments_are_told_once_a_read() -> None:
    decoder = BodyDecoder(_wire.KIND_SSE)
    assert decoder.feed(b": a\n\n: b\n\ndata: 1\n\n") == [(COMMENT,), (EVENT, b"1", 0, None, None)]
    assert decoder.feed(b"data: 2\n\n") == [(EVENT, b"2", 0, None, None)]
    assert decoder.feed(b":") == [(COMMENT,)]
    assert decoder.feed(b" still the same comment\n") == []


@pytest.mark.req("W2")
def test_an_event_of_another_type_has_its_type_as_a_sixth_item() -> None:
    decoder = BodyDecoder(_wire.KIND_SSE)
    assert decoder.feed(b"event: endpoint\ndata: /x\n\n") == [(EVENT, b"/x", 0, None, None, "endpoint")]
    assert decoder.feed(b"event: message\ndata: {}\n\n") == [(EVENT, b"{}", 0, None, None)]


@pytest.mark.req("W8")
@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_pieces_of_a_compressed_body_expand_to_its_frames(cut: int) -> None:
    events = b'data: {"a":1}\n\nid: 2\ndata: {"b":2}\n\n'
    squeezed = gzip.compress(events)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    stream = head % len(squeezed) + squeezed
    decoder, body, inflate = ResponseDecoder(), BodyDecoder(_wire.KIND_SSE), zlib.decompressobj(31)
    decoder.begin()
    frames: list[tuple[object, ...]] = []
    for at in range(0, len(stream), cut):
        for frame in decoder.feed(stream[at : at + cut]):
            frames += body.feed(inflate.decompress(frame[1])) if frame[0] == DATA else [frame]
    assert kinds(frames) == [HEAD, EVENT, EVENT, END]
    assert frames[1:3] == [(EVENT, b'{"a":1}', 0, None, None), (EVENT, b'{"b":2}', 0, "2", None)]


@pytest.mark.req("W5", "W9")
def test_a_body_alone_has_the_same_rules() -> None:
    decoder = BodyDecoder(_wire.KIND_JSON, max_message=5)
    assert decoder.feed(b"\xef\xbb") == decoder.feed(b"\xbf{}") == []
    assert decoder.eof() == [(BODY, b"{}", 0)]
    assert decoder.eof() == decoder.feed(b"more") == []
    decoder = BodyDecoder(_wire.KIND_OTHER, max_message=5)
    ((kind, code, position, size),) = decoder.feed(b"123456")
    assert (kind, CODES[code], position, size) == (FAULT, "message_too_large", 5, 6)
    assert decoder.eof() == []


def test_sizes_and_kinds_are_checked() -> None:
    for name in ("buffer_size", "max_head", "max_message"):
        with pytest.raises(ValueError):
            ResponseDecoder(**{name: 0})
        with pytest.raises(OverflowError):
            ResponseDecoder(**{name: -1})
    with pytest.raises(ValueError):
        BodyDecoder(3)


@pytest.mark.req("W9")
def test_a_fault_is_an_error_without_content() -> None:
    from ferrule.errors import ConnectionClosed, InvalidMessage, LimitExceeded

    numbers = {name: code for code, name in CODES.items()}
    error = _wire.fault_error(numbers["message_too_large"], 8, 9)
    assert isinstance(error, LimitExceeded) and error.limit == "max_message_bytes" and error.request_sent
    assert str(error) == "message too large at byte 8 (9 bytes)"
    error = _wire.fault_error(numbers["head_too_large"], 8, 9, request_sent=False)
    assert isinstance(error, LimitExceeded) and error.limit == "max_head_bytes" and not error.request_sent
    assert isinstance(_wire.fault_error(numbers["truncated"], 0, 0), ConnectionClosed)
    assert isinstance(_wire.fault_error(numbers["bad_chunk"], 0, 0), InvalidMessage)
