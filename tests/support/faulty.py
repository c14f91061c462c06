"""A server that fails in the way each call asks for; a program of its own, so that it shares no interpreter lock.

    python faulty.py http            prints its port and serves until its input ends
    python faulty.py stdio CALLS     speaks on stdio; writes the number of each call it received to the file CALLS

A call of the tool "do" names in its arguments how it is to be answered (`KINDS`) and its number `n`, which comes
back. `tools/list` at a cursor is refused once and then answered with that cursor. Both eras; standard library only.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, ClassVar

GOOD = ("json", "json", "json", "json", "stream", "pieces", "close")
"""Ways to answer well; the first is the commonest."""
BAD = ("refused", "unavailable", "reset", "cut", "silent")
"""Ways to fail. On stdio there are "refused", "silent" and "die" only."""

Message = dict[str, Any]

_HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_INFO = {"name": "faulty", "version": "1"}


@contextmanager
def running() -> Iterator[str]:
    """Run the HTTP server; its URL."""
    command = [sys.executable, __file__, "http"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.stdin.close()


def _result(message: Message) -> Message | None:
    method, params = message["method"], message.get("params") or {}
    if method == "server/discover":
        return {**_HINTS, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": _INFO}
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": _INFO}
    if method == "tools/list":
        return {**_HINTS, "tools": [], "nextCursor": params.get("cursor", "")}
    if method == "tools/call":
        return {"resultType": "complete", "content": [{"type": "text", "text": str(params["arguments"]["n"])}]}
    return None


def _answer(message: Message) -> bytes:
    result = _result(message)
    if result is None:
        problem = {"code": -32601, "message": "Method not found"}
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": problem}).encode()
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def _refusal(message: Message) -> bytes:
    problem = {"code": -32000, "message": str(message["params"]["arguments"]["n"])}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": problem}).encode()


# --- HTTP ----------------------------------------------------------------------------------------


def _http(body: bytes, status: int = 200, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Server(asyncio.Protocol):
    """One connection; what was received is counted for all of them."""

    seen: ClassVar[Counter[int]] = Counter()
    listed: ClassVar[set[str]] = set()
    cancelled: ClassVar[list[int]] = []
    transport: asyncio.Transport

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, _, rest = self.buffer.partition(b"\r\n\r\n")
            place = head.lower().find(b"content-length:")
            size = int(head[place + 15 :].split(b"\r\n")[0]) if place > 0 else 0
            if len(rest) < size:
                return
            body, self.buffer = rest[:size], rest[size:]
            self.handle(json.loads(body) if body else {})

    def handle(self, message: Message) -> None:
        method = message.get("method", "")
        if method == "tools/call":
            self.call(message, message["params"]["arguments"])
        elif method == "tools/list" and message["params"].get("cursor", "") not in self.listed:
            self.listed.add(message["params"].get("cursor", ""))
            self.transport.write(_http(b"", 503))
        elif "id" in message:
            self.transport.write(_http(_answer(message)))
        else:
            if method == "notifications/cancelled":
                self.cancelled.append(message["params"]["requestId"])
            self.transport.write(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n")

    def call(self, message: Message, arguments: Message) -> None:
        if message["params"]["name"] == "report":
            twice = sum(count > 1 for count in self.seen.values())
            content = {"calls": len(self.seen), "twice": twice, "cancelled": len(self.cancelled)}
            result = {"resultType": "complete", "content": [], "structuredContent": content}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            self.transport.write(_http(body))
            return
        self.seen[arguments["n"]] += 1
        getattr(self, "do_" + arguments["do"])(message)

    def do_json(self, message: Message) -> None:
        self.transport.write(_http(_answer(message)))

    def do_pieces(self, message: Message) -> None:
        data = _http(_answer(message))
        self.transport.write(data[:50])
        asyncio.get_running_loop().call_later(0.001, self.transport.write, data[50:])

    def do_stream(self, message: Message) -> None:
        note = b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}'
        events = b"".join(b"data: " + data + b"\n\n" for data in (note, _answer(message)))
        head = b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self.transport.write(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(events), events))

    def do_close(self, message: Message) -> None:
        self.transport.write(_http(_answer(message), more="Connection: close\r\n"))
        self.transport.close()

    def do_refused(self, message: Message) -> None:
        self.transport.write(_http(_refusal(message)))

    def do_unavailable(self, message: Message) -> None:
        self.transport.write(_http(b"", 503))

    def do_reset(self, message: Message) -> None:
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def do_cut(self, message: Message) -> None:
        self.transport.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\ndata: " + _answer(message))
        self.transport.close()

    def do_silent(self, message: Message) -> None:
        pass


async def serve_http() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(0, over.set)
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await over.wait()


# --- stdio ---------------------------------------------------------------------------------------


def _lines() -> Iterator[bytes | None]:
    """The lines of standard input; None when none has come for a moment."""
    buffer = b""
    while True:
        if not select.select([0], [], [], 0.005)[0]:
            yield None
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        yield from lines


def serve_stdio(calls: IO[bytes]) -> None:
    """Answer line by line; "pieces" and "stream" hold an answer until after the next one, or for a moment."""
    out = sys.stdout.buffer
    held: list[bytes] = []
    for line in _lines():
        message = json.loads(line) if line else {}
        kind = "nothing"
        if message.get("method") == "tools/call":
            kind = message["params"]["arguments"]["do"]
            os.write(calls.fileno(), b"%d\n" % message["params"]["arguments"]["n"])
        if kind == "die":
            os._exit(3)
        if kind in ("pieces", "stream"):
            held.append(_answer(message))
            continue
        if kind == "refused":
            out.write(_refusal(message) + b"\n")
        elif kind != "silent" and "id" in message:
            out.write(_answer(message) + b"\n")
        while held:
            out.write(held.pop() + b"\n")
        out.flush()


if __name__ == "__main__":
    if sys.argv[1] == "http":
        asyncio.run(serve_http())
    else:
        with open(sys.argv[2], "ab", buffering=0) as file:
            serve_stdio(file)
