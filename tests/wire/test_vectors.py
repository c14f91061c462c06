"""The byte vectors through `_core`: whole, byte by byte, at every cut, and through the decoder's own buffer."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator

import pytest

from tests.wire.vectors import ROOT, Vector, buffered, fed, load

EVENTS = load("sse", "sse")
RESPONSES = load("http", "http")
LINES = load("lines", "jsonl")


def splits(data: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and cut at every place (at 200 of them when there are more)."""
    yield [data]
    yield [data[at : at + 1] for at in range(len(data))]
    for cut in range(0, len(data) + 1, len(data) // 200 + 1):
        yield [data[:cut], b"", data[cut:]]


def check(vector: Vector) -> None:
    for reads in splits(vector.data):
        assert vector.decode(reads, fed) == vector.frames, vector.statement


def check_buffered(vector: Vector) -> None:
    for reads in splits(vector.data):
        assert vector.decode(reads, buffered) == vector.frames, vector.statement


def by_name(vector: Vector) -> str:
    return vector.name


@pytest.mark.req("W1", "W2", "W3", "W4", "W9", "W10")
@pytest.mark.parametrize("vector", EVENTS, ids=by_name)
def test_an_event_stream_gives_its_events_however_it_is_cut(vector: Vector) -> None:
    check(vector)


@pytest.mark.req("W1", "W2", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W17", "W18")
@pytest.mark.parametrize("vector", RESPONSES, ids=by_name)
def test_a_response_gives_its_frames_however_it_is_cut(vector: Vector) -> None:
    check(vector)


@pytest.mark.req("W1", "W6")
@pytest.mark.parametrize("vector", RESPONSES, ids=by_name)
def test_a_response_gives_the_same_frames_through_the_receive_buffer(vector: Vector) -> None:
    check_buffered(vector)


@pytest.mark.req("W1", "W4", "W5", "W9", "W10", "W11", "D3")
@pytest.mark.parametrize("vector", LINES, ids=by_name)
def test_lines_come_out_however_they_are_cut(vector: Vector) -> None:
    check(vector)


@pytest.mark.req("W1", "W5")
@pytest.mark.parametrize("vector", LINES, ids=by_name)
def test_lines_come_out_of_the_receive_buffer(vector: Vector) -> None:
    check_buffered(vector)


def test_every_vector_names_known_statements_and_says_one_itself() -> None:
    known = tomllib.loads((ROOT.parent / "requirements.toml").read_text(encoding="utf-8"))
    for vector in [*EVENTS, *RESPONSES, *LINES]:
        assert vector.req and set(vector.req) <= set(known), vector.name
        assert vector.statement.endswith("."), vector.name


def test_every_expectation_has_its_bytes() -> None:
    folders = [folder for folder in ROOT.iterdir() if folder.name != "messages"]  # those hold no bytes: `tests/types`
    expectations = {path.with_suffix("").as_posix() for folder in folders for path in folder.rglob("*.json")}
    streams = {
        path.with_suffix("").as_posix() for path in ROOT.rglob("*.*") if path.suffix in {".http", ".sse", ".jsonl"}
    }
    assert expectations == streams and len(streams) > 200
