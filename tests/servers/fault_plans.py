"""What the fault server does, computed from one number.

A `Case` is what happens in one life of a client: which calls it makes, and the `Fault` that meets each of them and
messages of the negotiation. It follows from its seed alone, for the test as for the server, so that a seed
reproduces a run. A tool call says in its arguments which one it is (`n`), a listing in its cursor; both get back the
text `intact(seed, n)`, whose checksum shows that it arrived as it was sent.

What is done about a message is a list of steps: ("write", data), ("pause", seconds), ("hold", data), ("stall",),
("close",), ("reset",). Knows bytes; `faults` performs the steps. Standard library only, and little of it: the child
is to start in 20 ms.
"""

from __future__ import annotations

import json
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"
MAX_MESSAGE = 1 << 18
"""What the client's `Limits.max_message_bytes` should be: some answers are longer."""
HEALTHY = 1000
"""Calls with this number or a higher one are always answered well."""
STRAY = "stray"
"""The text of answers that are nobody's."""
REFUSED = ("redirect", "refused version", "refused headers")
"""Kinds of answer that prove that the call was not executed (it may be written again)."""


class Chance:
    """Numbers that follow from a seed, the same on every Python (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed
        # Mixed once: otherwise the next seed would give the same numbers, one place later.
        self._state = self.below(1 << 64)

    def below(self, bound: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = (self._state ^ (self._state >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ (mixed >> 31)) % bound

    def among(self, *choices: Any) -> Any:
        return choices[self.below(len(choices))]

    def percent(self, chance: int) -> bool:
        return self.below(100) < chance


def intact(seed: int, n: int) -> str:
    """The text that belongs to call `n` of a case, and that no damage leaves valid."""
    return f"{n}:{zlib.crc32(b'%d/%d' % (seed, n)):08x}"


# --- what is to happen ---------------------------------------------------------------------------

ANSWERS = (
    *("well", "well", "late", "drop", "drop", "drop", "stall", "zero", "duplicate", "reorder", "wrong id"),
    *("garbage before", "garbage after", "malformed", "malformed", "error", "error", "refused version"),
    *("refused headers", "big", "silent"),
)
ALTERED = ("corrupt", "corrupt", "corrupt", "shorten")
"""Not done to the negotiation: an altered answer may be a good one that promises something else."""
HTTP_ONLY = ("status", "status", "status", "redirect", "unread", "early", "session lost")
STDIO_ONLY = ("die", "die", "unread", "hold")
SHAPES = ("json", "json", "chunked", "close", "sse", "sse", "sse close", "gzip", "gzip sse")
DAMAGING = ("corrupt", "shorten", "malformed", "gzip", "garbage before", "garbage after")
"""Kinds that may turn an answer into another one that looks good."""


class Fault:
    """How one message is answered. Prints as one line.

    Attributes:
        kind: What goes wrong.
        shape: How an answer over HTTP is framed.
        at: Where it goes wrong, in thousandths of the bytes.
        end: What becomes of the connection, or child, then.
        cuts: In how many places the bytes are cut into writes.
        pause: Seconds between two writes.
        seed: Decides the rest.
    """

    __slots__ = ("at", "cuts", "end", "kind", "pause", "seed", "shape")

    def __init__(self, chance: Chance, kinds: tuple[str, ...]) -> None:
        self.kind: str = chance.among(*kinds)
        self.shape: str = chance.among(*SHAPES)
        self.at = chance.below(1001)
        self.end: str = chance.among("close", "reset")
        self.cuts = chance.among(0, 0, 1, 3, 9)
        self.pause: float = chance.among(0.0, 0.0, 0.001, 0.01)
        self.seed = chance.below(1 << 30)

    def __repr__(self) -> str:
        cut = f", {self.cuts} cuts {self.pause:g} s apart" if self.cuts else ""
        return f"<{self.kind} in {self.shape} at {self.at}/1000, {self.end}{cut} #{self.seed}>"


class Ask:
    """One call that the client makes.

    Attributes:
        n: Which one it is.
        method: "tools/call" or "tools/list".
        idempotent: May it be written again?
        timeout: Its deadline in seconds.
        cancel: Seconds after which its task is cancelled (asyncio), or None.
        padding: Bytes of its arguments that mean nothing.
        progress: Does the caller want to hear of progress?
        fault: What meets it.
    """

    __slots__ = ("cancel", "fault", "idempotent", "method", "n", "padding", "progress", "timeout")

    def __init__(self, n: int, chance: Chance, kinds: tuple[str, ...]) -> None:
        self.n = n
        self.method = "tools/list" if chance.percent(25) else "tools/call"
        self.idempotent = self.method == "tools/list" or chance.percent(20)
        self.timeout: float = chance.among(0.2, 0.2, 0.3, 0.5, 1.0)
        self.cancel = chance.below(100) / 1000 if chance.percent(8) else None
        self.padding: int = chance.among(*[0] * 11, 5_000, 5_000, 200_000, 200_000, 6_000_000)
        self.progress = chance.percent(20)
        self.fault = Fault(chance, kinds)
        if self.fault.kind in ("unread", "early") and not self.padding:
            self.padding = chance.among(200_000, 200_000, 200_000, 6_000_000)

    def __repr__(self) -> str:
        extra = " idempotent" * self.idempotent + f" padded {self.padding}" * bool(self.padding)
        cancel = f" cancelled after {self.cancel:g} s" if self.cancel is not None else ""
        return f"{self.method} {self.n}{extra} within {self.timeout:g} s{cancel}: {self.fault!r}"


class Case:
    """What happens in one life of a client. Prints as one line."""

    def __init__(self, seed: int) -> None:
        chance = Chance(seed)
        self.seed = seed
        self.transport: str = "stdio" if seed % 5 == 0 else "http"
        self.era: str = chance.among("stateless", "handshake")
        self.pinned = chance.percent(50)
        self.session = chance.percent(60)
        self.attempts: int = chance.among(1, 2, 3)
        self.together = chance.percent(50)
        own = HTTP_ONLY if self.transport == "http" else STDIO_ONLY
        gzip = ("gzip",) if self.transport == "http" else ()
        self.asks = [Ask(n, chance, (*ANSWERS, *ALTERED, *own, *gzip)) for n in range(1, 2 + chance.below(5))]
        self.setup: dict[str, list[Fault]] = {}
        if chance.percent(30):
            name = chance.among("server/discover", "initialize", "notifications/initialized", "DELETE", "GET")
            self.setup[name] = [Fault(chance, (*ANSWERS, *own)) for _ in range(1 + chance.below(2))]
        self.hang_ups: dict[int, tuple[int, str]] = {}
        """Connections, counted from 0, that end after so many bytes were received on them."""
        if self.transport == "http" and chance.percent(15):
            self.hang_ups[chance.below(3)] = (chance.below(700), chance.among("close", "reset"))

    def __repr__(self) -> str:
        pinned = " pinned" * self.pinned + " with sessions" * self.session
        more = f", setup {self.setup}" * bool(self.setup) + f", hang-ups {self.hang_ups}" * bool(self.hang_ups)
        how = "together" if self.together else "in turn"
        what = f"{self.transport} {self.era}{pinned}, {self.attempts} attempts{more}"
        return f"<case {self.seed}: {what}, {how}: {self.asks}>"

    def fault_of(self, message: Any, earlier: int) -> Fault | None:
        """What meets a message that was preceded by so many of its method; None: it is answered well."""
        n = number_of(message)
        if n is not None:
            return self.asks[n - 1].fault if 0 < n <= len(self.asks) else None
        faults = self.setup.get(message.get("method", ""), ())
        return faults[earlier] if earlier < len(faults) else None


def number_of(message: Any) -> int | None:
    """Which call of the case a message is."""
    params = message.get("params") or {}
    if message.get("method") == "tools/call":
        return int(params["arguments"]["n"])
    if message.get("method") == "tools/list":
        return int(params.get("cursor") or HEALTHY)
    return None


def early_number(data: bytes) -> int | None:
    """Which tool call the beginning of a request belongs to, as far as it tells already."""
    place = data.find(b'"arguments":{"n":', 0, 4096)
    digits = data[place + 17 :].split(b",", 1)
    return int(digits[0]) if place > 0 and len(digits) > 1 else None


# --- what is answered ----------------------------------------------------------------------------

_HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_INFO = {"name": "faults", "version": "1"}


def result_of(case: Case, message: Any, text: str | None = None) -> Any:
    """The right result, or one with another text; None where there is none."""
    method, n = message.get("method"), number_of(message)
    if method == "tools/call":
        return {"resultType": "complete", "content": [{"type": "text", "text": text or intact(case.seed, n or 0)}]}
    if method == "tools/list":
        return {**_HINTS, "tools": [], "nextCursor": text or intact(case.seed, n or 0)}
    if method == "server/discover" and case.era == "stateless":
        return {**_HINTS, "supportedVersions": [STATELESS], "capabilities": {"tools": {}}, "serverInfo": _INFO}
    if method == "initialize" and case.era == "handshake":
        version = message["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": _INFO}
    return {} if method == "ping" else None


def right_answer(case: Case, message: Any) -> Any:
    """The right answer to a request."""
    result = result_of(case, message)
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        return answer | {"error": {"code": -32601, "message": "Method not found"}}
    return answer | {"result": result}


def _dump(message: Any) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode()


_NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
_MALFORMED: tuple[Any, ...] = (
    *({"result": None}, {"result": []}, {"result": "x"}, {}, {"error": None}, {"error": {}}, {"error": {"code": "x"}}),
    *({"result": {"content": "x"}}, {"result": {"content": [{"type": 7}]}}, {"result": {"resultType": "strange"}}),
    *({"result": {"resultType": 7}}, {"result": {"resultType": "input_required"}}, {"result": {"_meta": 7}}),
    *({"result": {"content": []}, "error": {"code": 1, "message": "both"}}, {"method": "x"}, {"method": 7}),
    *(b"", b"{", b"[]", b"null", b"7", b'"x"', b"[" * 5000, b"NaN", b"\xff\xfe", b"\x00", b'{"id":', b"[[]]"),
)


def messages_of(case: Case, fault: Fault, message: Any) -> list[bytes]:
    """What is sent as answer, message by message, before anything happens to the bytes."""
    chance = Chance(fault.seed)
    right = right_answer(case, message)
    notes = [_NOTE] * chance.among(0, 0, 1, 3)
    token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": 1}
        notes.append({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    if case.era == "handshake" and chance.percent(10):
        notes.append({"jsonrpc": "2.0", "id": "from-server", "method": "ping"})
    kind = fault.kind
    stray = right | {"result": result_of(case, message, STRAY)}
    if kind == "duplicate":
        answers = [right, stray]
    elif kind == "wrong id":
        strange = chance.among(message["id"] + 10**6, -1, str(message["id"]) + "x", None, 0.5, True, [], {})
        answers = [stray | {"id": strange}, *([right] if chance.percent(50) else [])]
    elif kind == "malformed":
        answers = [_malformed(chance.among(*_MALFORMED), message)]
    elif kind in ("error", "refused version", "refused headers"):
        answers = [{"jsonrpc": "2.0", "id": message["id"], "error": _error(kind, chance)}]
    elif kind == "big":
        answers = [right | {"padding": "x" * (MAX_MESSAGE + chance.below(MAX_MESSAGE))}]
    else:
        answers = [right]
    order = [*answers, *notes] if kind == "reorder" else [*notes, *answers]
    return [_dump(one) for one in order]


def _malformed(what: Any, message: Any) -> Any:
    return what if isinstance(what, bytes) else {"jsonrpc": "2.0", "id": message["id"], **what}


def _error(kind: str, chance: Chance) -> Any:
    if kind == "refused version":
        return {"code": -32022, "message": "x", "data": {"supported": [STATELESS, HANDSHAKE], "requested": "x"}}
    if kind == "refused headers":
        return {"code": -32020, "message": "x"}
    code = chance.among(-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32021, -32042, 0, 1, 10**20, -1)
    return {"code": code, "message": "x", **chance.among({}, {"data": None}, {"data": []}, {"data": {"supported": 7}})}


def damage(data: bytes, fault: Fault, spare: tuple[int, int] = (0, 0)) -> bytes:
    """Change one place of the bytes, but none between the two offsets `spare`."""
    chance = Chance(fault.seed + 1)
    place = min(len(data) - 1, fault.at * len(data) // 1000)
    if fault.kind == "zero":
        return data[:place] + b"\0" + data[place + 1 :]
    if spare[0] <= place < spare[1]:
        place = spare[1]
    if fault.kind == "shorten":
        end = place + 1 + chance.below(8)
        return data[:place] + data[end:] if place >= spare[1] else data
    return data[:place] + bytes([chance.among(0, 10, 13, 34, 48, 57, 92, 123, 128, 255)]) + data[place + 1 :]


def deliver(data: bytes, fault: Fault) -> Iterator[tuple[Any, ...]]:
    """Steps that write the bytes in pieces, as far as the fault lets them."""
    chance = Chance(fault.seed + 2)
    place = fault.at * len(data) // 1000
    whole = fault.kind not in ("drop", "stall")
    sent = data if whole else data[:place]
    cuts = sorted(chance.below(len(sent) + 1) for _ in range(fault.cuts))
    if fault.kind == "late":
        yield "pause", chance.among(0.05, 0.15, 0.25, 0.35)
    start = 0
    for cut in (*cuts, len(sent)):
        yield "write", sent[start:cut]
        if cut < len(sent):
            yield "pause", fault.pause
        start = cut
    if not whole:
        yield ("stall",) if fault.kind == "stall" else (fault.end,)


_GARBAGE = (
    b"\x00",
    b"\r\n",
    b"\r\n\r\n",
    b"garbage",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"\xff" * 99,
)


def line_steps(case: Case, fault: Fault, message: Any) -> Iterator[tuple[Any, ...]]:
    """What a child does about a request."""
    kind = fault.kind
    if kind == "silent":
        return
    if kind == "die":
        yield from deliver(b"", fault)
        yield (fault.end,)
        return
    lines = messages_of(case, fault, message)
    if kind in ("corrupt", "shorten", "zero"):
        # Not the id: that would be a good answer to somebody else.
        lines[-1] = damage(lines[-1], fault, _place_of_id(lines[-1], message))
    data = b"".join(line + b"\n" for line in lines)
    if kind.startswith("garbage"):
        garbage = Chance(fault.seed).among(*_GARBAGE) + b"\n"
        data = garbage + data if kind == "garbage before" else data + garbage
    if kind == "hold":
        yield "hold", data
    else:
        yield from deliver(data, fault)


def _place_of_id(line: bytes, message: Any) -> tuple[int, int]:
    digits = b'"id": %d' % message["id"]
    place = line.find(digits)
    return (place, place + len(digits) + 1) if place >= 0 else (0, 0)


# --- HTTP ----------------------------------------------------------------------------------------

_STATUSES = (
    100,
    199,
    202,
    204,
    304,
    400,
    402,
    403,
    405,
    408,
    409,
    410,
    413,
    415,
    425,
    429,
    500,
    501,
    502,
    503,
    504,
    599,
)
_RETRY_AFTER = ("0", "0", "1", "100000000000", "x", "-1", "Thu, 01 Jan 1970 00:00:00 GMT")


def _head(status: int, kind: str, headers: list[str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *([f"Content-Type: {kind}"] if kind else []), *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def _chunks(data: bytes, size: int) -> bytes:
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def _framed(messages: list[bytes], fault: Fault, headers: list[str]) -> bytes:
    """A whole HTTP answer in the fault's shape."""
    chance = Chance(fault.seed + 3)
    shape = fault.shape
    if len(messages) > 1 and "sse" not in shape:
        shape = "sse"
    if "sse" in shape:
        ids = chance.percent(30)
        body = b"".join(
            (b"id: %d\n" % place if ids else b"") + b"data: " + one.replace(b"\n", b"\ndata: ") + b"\n\n"
            for place, one in enumerate(messages)
        )
        kind = "text/event-stream"
    else:
        body, kind = messages[0], "application/json"
    if "gzip" in shape or fault.kind == "gzip":
        body = _gzip(body)
        if fault.kind == "gzip":
            body = damage(body, fault) if chance.percent(70) else body[: fault.at * len(body) // 1000]
        headers = [*headers, "Content-Encoding: gzip"]
    if "close" in shape:
        return _head(200, kind, [*headers, "Connection: close"]) + body
    if shape in ("json", "gzip"):
        return _head(200, kind, [*headers, f"Content-Length: {len(body)}"]) + body
    return _head(200, kind, [*headers, "Transfer-Encoding: chunked"]) + _chunks(body, 1 + chance.below(len(body) + 9))


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def status_answer(case: Case, fault: Fault, message: Any) -> bytes:
    """An answer that is no 200."""
    chance = Chance(fault.seed)
    if fault.kind == "session lost":
        return _head(404, "", ["Content-Length: 0"])
    if fault.kind == "redirect":
        to = chance.among("here", "", "http://127.0.0.1:1/x", "https://127.0.0.1/x", "//x", "\x7f", "ftp://x/")
        return _head(chance.among(301, 302, 303, 307, 307, 308), "", [f"Location: {to}", "Content-Length: 0"])
    status = chance.among(*_STATUSES)
    problem = {"jsonrpc": "2.0", "id": chance.among(None, message.get("id")), "error": {"code": -1, "message": "x"}}
    body: bytes = chance.among(b"", b"<html>", b"{", _dump(problem))
    if status < 200 or status in (204, 304):
        return _head(status, "", [])
    after = [f"Retry-After: {chance.among(*_RETRY_AFTER)}"] if chance.percent(50) else []
    return (
        _head(status, "application/json" if body[:1] == b"{" else "text/html", [*after, f"Content-Length: {len(body)}"])
        + body
    )


def http_steps(case: Case, fault: Fault, message: Any, headers: list[str]) -> Iterator[tuple[Any, ...]]:
    """What the HTTP server does about a request that it has read."""
    kind = fault.kind
    if kind == "silent":
        return
    if kind in ("status", "redirect", "session lost", "early"):
        yield from deliver(status_answer(case, fault, message), fault)
        return
    messages = messages_of(case, fault, message) if "id" in message else []
    data = _framed(messages, fault, headers) if messages else _head(202, "", [*headers, "Content-Length: 0"])
    if kind in ("corrupt", "shorten", "zero"):
        data = damage(data, fault)
    elif kind == "duplicate" and fault.at < 500:
        data += data
    elif kind.startswith("garbage"):
        garbage = Chance(fault.seed).among(*_GARBAGE)
        data = garbage + data if kind == "garbage before" else data + garbage
    yield from deliver(data, fault)
    if "close" in fault.shape:
        yield ("close",)
