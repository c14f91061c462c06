"""`ResponseDecoder.answer_updated`: a plain answer that is all there as one tuple, and everything else as frames."""

from __future__ import annotations

import pytest

from ferrule._wire import BODY, END, EVENT, FAULT, HEAD, ResponseDecoder, ResponseHead

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


def read(decoder: ResponseDecoder, data: bytes) -> object:
    decoder.get_buffer(-1)[: len(data)] = data
    return decoder.answer_updated(len(data))


def begun() -> ResponseDecoder:
    decoder = ResponseDecoder()
    decoder.begin()
    return decoder


@pytest.mark.parametrize("response", [PLAIN, CHUNKED], ids=["length", "chunked"])
def test_a_plain_answer_in_one_read_is_one_tuple(response: bytes) -> None:
    answer = read(begun(), response)
    assert type(answer) is tuple
    head, body, flags, reusable = answer
    assert isinstance(head, ResponseHead)
    assert (head.status, head.notable, body, flags, reusable) == (200, False, b"{}", 0, True)


@pytest.mark.req("W10")
def test_the_flags_of_a_whole_answer_are_those_of_its_body() -> None:
    body = b'{"n":18446744073709551616}'
    response = PLAIN.replace(b"Content-Length: 2", b"Content-Length: %d" % len(body))[:-2] + body
    frames = begun().feed(response)
    answer = read(begun(), response)
    assert isinstance(answer, tuple)
    assert answer[1:3] == frames[1][1:]
    assert answer[2] != 0


@pytest.mark.parametrize(
    "response",
    [
        PLAIN.replace(b"200 OK", b"404 Not Found"),
        PLAIN.replace(b"200 OK", b"201 Created"),
        PLAIN.replace(b"application/json", b"text/plain"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nKeep-Alive: timeout=5\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\n\r\n"),
        PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n",
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN.replace(b"200 OK", b"500 No"),
        PLAIN + b"HTTP/1.1",
        b"nonsense\r\n\r\n",
    ],
)
def test_any_other_response_gives_the_frames_of_buffer_updated(response: bytes) -> None:
    frames = begun().feed(response)
    same = read(begun(), response)
    assert type(same) is list
    assert [frame[0] for frame in same] == [frame[0] for frame in frames]
    assert [frame[1:] for frame in same if frame[0] != HEAD] == [frame[1:] for frame in frames if frame[0] != HEAD]


@pytest.mark.req("W1")
@pytest.mark.parametrize("response", [PLAIN, CHUNKED], ids=["length", "chunked"])
def test_a_plain_answer_that_is_cut_anywhere_gives_its_frames(response: bytes) -> None:
    for cut in range(1, len(response)):
        decoder = begun()
        first = read(decoder, response[:cut])
        assert type(first) is list
        rest = decoder.feed(response[cut:])
        assert [frame[0] for frame in first + rest] == [HEAD, BODY, END]
        assert (first + rest)[1:] == [(BODY, b"{}", 0), (END, True)]


def test_an_impossible_count_is_a_fault_and_the_end() -> None:
    decoder = begun()
    faults = decoder.answer_updated(1 << 30)
    assert isinstance(faults, list)
    assert [frame[0] for frame in faults] == [FAULT]
    assert decoder.feed(PLAIN) == []


@pytest.mark.parametrize(
    ("field", "notable"),
    [
        (b"Set-Cookie: a=b", True),
        (b"set-cookie: a=b", True),
        (b"Keep-Alive: timeout=5", True),
        (b"Content-Encoding: gzip", True),
        (b"Content-Encoding: identity", False),
        (b"Keep-Alive: max=5", False),
        (b"Cookie: a=b", False),
    ],
)
def test_a_head_says_whether_somebody_has_to_take_note_of_it(field: bytes, notable: bool) -> None:
    head = begun().feed(PLAIN.replace(b"\r\n\r\n", b"\r\n" + field + b"\r\n\r\n"))[0][1]
    assert head.notable is notable


def test_an_event_stream_never_comes_as_a_whole_answer() -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 11\r\n\r\ndata: {}\n\n\n"
    frames = read(begun(), response)
    assert isinstance(frames, list)
    assert [frame[0] for frame in frames] == [HEAD, EVENT, END]
