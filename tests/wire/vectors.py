"""The byte vectors of `tests/vectors`, and decoders told in their words. The Rust tests read the same files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ferrule import _wire

ROOT = Path(__file__).parent.parent / "vectors"
KINDS = {_wire.KIND_OTHER: "other", _wire.KIND_JSON: "json", _wire.KIND_SSE: "sse"}
BUFFER = 64


class Decoder(Protocol):
    """What the three decoders have in common."""

    def feed(self, data: bytes, /) -> list[tuple[Any, ...]]: ...
    def eof(self) -> list[tuple[Any, ...]]: ...


class Buffered(Protocol):
    """What the two decoders that own a receive buffer have in common."""

    def get_buffer(self, sizehint: int = -1, /) -> memoryview: ...
    def buffer_updated(self, nbytes: int, /) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class Vector:
    """A stream of bytes and the frames it must give."""

    name: str
    data: bytes
    statement: str
    req: list[str]
    options: dict[str, Any]
    eof: bool
    frames: list[Any]

    def decoder(self) -> Any:
        """A decoder that is ready for the stream."""
        options = dict(self.options)
        match self.name.split("/")[0]:
            case "sse":
                return _wire.BodyDecoder(_wire.KIND_SSE, **options)
            case "lines":
                return _wire.LineDecoder(buffer_size=BUFFER, **options)
            case _:
                begin, connect = options.pop("begin", True), options.pop("connect", False)
                decoder = _wire.ResponseDecoder(buffer_size=BUFFER, **options)
                if begin:
                    decoder.begin(connect=connect)
                return decoder

    def decode(self, reads: Iterable[bytes], feed: Callable[[Any, bytes], list[tuple[Any, ...]]]) -> list[Any]:
        """The frames of the stream in the words of the vectors: no comments, neighbouring raw pieces joined."""
        decoder = self.decoder()
        told: list[Any] = []
        for read in reads:
            tell(told, feed(decoder, read))
        if self.eof:
            tell(told, decoder.eof())
        return [["DATA", frame[1].decode()] if frame[0] == "DATA" else frame for frame in told]


def load(folder: str, extension: str) -> list[Vector]:
    """The vectors of one decoder."""
    vectors = []
    for path in sorted((ROOT / folder).glob(f"*.{extension}")):
        document = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        vectors.append(
            Vector(
                name=f"{folder}/{path.stem}",
                data=path.read_bytes(),
                statement=document["statement"],
                req=document["req"],
                options=document.get("options", {}),
                eof=document.get("eof", True),
                frames=document["frames"],
            )
        )
    return vectors


def fed(decoder: Decoder, data: bytes) -> list[tuple[Any, ...]]:
    """Bytes as an argument."""
    return decoder.feed(data)


def buffered(decoder: Buffered, data: bytes) -> list[tuple[Any, ...]]:
    """Bytes through the decoder's own buffer, as much at a time as it holds."""
    frames: list[tuple[Any, ...]] = []
    view = decoder.get_buffer()
    for start in range(0, len(data), BUFFER):
        piece = data[start : start + BUFFER]
        view[: len(piece)] = piece
        frames += decoder.buffer_updated(len(piece))
    return frames


def tell(told: list[Any], frames: list[tuple[Any, ...]]) -> None:
    """Append frames in the words of the vectors; raw pieces stay bytes until the stream has ended."""
    for frame in frames:
        words = _words(frame)
        if words[0] == "DATA" and told and told[-1][0] == "DATA":
            told[-1][1] += words[1]
        elif words[0] != "COMMENT":
            told.append(words)


def _words(frame: tuple[Any, ...]) -> list[Any]:
    kind, *items = frame
    match kind:
        case _wire.HEAD:
            (head,) = items
            fields = {"status": head.status, "kind": KINDS[head.kind], "encoding": head.encoding}
            return ["HEAD", {**fields, "keep_alive": head.keep_alive}]
        case _wire.BODY:
            return ["BODY", _data(items[0]), *items[1:]]
        case _wire.EVENT:
            return ["EVENT", _data(items[0]), *items[1:]]
        case _wire.LINE:
            return ["LINE", _data(items[0]), *items[1:]]
        case _wire.FAULT:
            return ["FAULT", _wire.CODES[items[0]], *items[1:]]
        case _wire.COMMENT:
            return ["COMMENT"]
        case _wire.DATA:
            return ["DATA", *items]
        case _wire.END:
            return ["END", *items]
    raise AssertionError(f"unknown kind {kind}")


def _data(data: bytes) -> Any:
    assert type(data) is bytes
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
