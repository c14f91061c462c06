"""The floors: clients that do nothing but the exchange, as plain Python does it well.

They mark what a tool call must cost on this machine in CPython, so that "CPU over the floor" says
what a client adds. Each one formats its request per call (a new id, the arguments through orjson,
the stateless envelope or the session header), parses the answer at any split of the bytes and in
any header case, and looks at the result. None has timeouts, retries, limits or error handling.

`FloorClient`     asyncio: one `Protocol` per connection, a pool that is a list, HTTP and SSE in
                  plain Python ("raw-proto" in the tables of the research)
`BlockingFloor`   the same over one blocking socket
`StdioFloor`      asyncio: a child process, one line per message
`BlockingStdio`   the same over two blocking pipes

Run as a program it checks the parsers at every split: `python benches/floors.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys

import orjson

CLIENT = b'{"name":"floor","version":"0"}'
ENVELOPE = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientInfo":' + CLIENT + b","
    b'"io.modelcontextprotocol/clientCapabilities":{}'
)


class Requests:
    """Formats the requests of one client; what is the same in every call is made once per tool."""

    def __init__(self, host: str, path: str, era: str) -> None:
        self.id = 0
        self.stateless = era == "stateless"
        self.templates: dict[tuple[str, bool], tuple[bytes, bytes, int]] = {}
        self.head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}\r\n"
            "Accept: application/json, text/event-stream\r\n"
            "Content-Type: application/json\r\n"
        ).encode()
        if self.stateless:
            self.head += b"MCP-Protocol-Version: 2026-07-28\r\n"

    def use_session(self, session: bytes) -> None:
        self.head += b"MCP-Protocol-Version: 2025-11-25\r\nMCP-Session-Id: " + session + b"\r\n"

    def template(self, name: str, token: bool) -> tuple[bytes, bytes, int]:
        """Return the formats of head and message of a call, and the length of what is fixed."""
        progress = b'"progressToken":%d' if token else b""
        if self.stateless:
            meta = b"," + ENVELOPE + (b"," + progress if token else b"") + b"}"
        else:
            meta = b',"_meta":{' + progress + b"}" if token else b""
        message = (
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"'
            + name.encode()
            + b'","arguments":%b'
            + meta
            + b"}}"
        )
        head = self.head
        if self.stateless:
            head += b"Mcp-Method: tools/call\r\nMcp-Name: " + name.encode() + b"\r\n"
        made = head + b"Content-Length: %d\r\n\r\n", message, len(message.replace(b"%d", b"")) - 2
        self.templates[name, token] = made
        return made

    def call(self, name: str, arguments: dict, token: bool = False) -> tuple[int, bytes]:
        """Return the id and the JSON-RPC message of a `tools/call`."""
        self.id = number = self.id + 1
        made = self.templates.get((name, token)) or self.template(name, token)
        body = orjson.dumps(arguments)
        return number, made[1] % ((number, body, number) if token else (number, body))

    def call_request(self, name: str, arguments: dict, token: bool = False) -> tuple[int, bytes]:
        """Return the id and the whole HTTP request of a `tools/call`."""
        made = self.templates.get((name, token)) or self.template(name, token)
        number, message = self.call(name, arguments, token)
        return number, made[0] % len(message) + message

    def post(self, message: bytes) -> bytes:
        """Return the HTTP request that carries any other message."""
        return b"%bContent-Length: %d\r\n\r\n%b" % (self.head, len(message), message)


class Responses:
    """The HTTP responses of one connection, taken apart as their bytes come."""

    def __init__(self) -> None:
        self.buffer = b""
        self.head = b""
        self.in_body = False
        self.length = -1
        self.pieces: list[bytes] = []
        self.gathered = 0
        self.event = b""
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that `data` completes; `.ended` says that the response is over."""
        if self.buffer:
            data = self.buffer + data
            self.buffer = b""
        if not self.in_body:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.buffer = data
                return []
            self.start(data[:end].lower())
            data = data[end + 4 :]
        if self.length < 0:
            return self.feed_chunks(data)
        if self.gathered or len(data) < self.length:
            return self.gather(data)
        self.ended = True
        self.in_body = False
        return [data] if data else []

    def start(self, head: bytes) -> None:
        self.head = head
        self.in_body = True
        self.ended = False
        if head[9:12] not in (b"200", b"202"):
            raise RuntimeError(f"HTTP {head[9:12]!r}")
        at = head.find(b"\r\ncontent-length:")
        if at >= 0:
            self.length = int(head[at + 17 :].partition(b"\r\n")[0])
        else:
            self.length = -1

    def gather(self, data: bytes) -> list[bytes]:
        """Collect a body that comes in many reads, in linear time."""
        self.pieces.append(data)
        self.gathered += len(data)
        if self.gathered < self.length:
            return []
        body = b"".join(self.pieces)
        self.pieces, self.gathered = [], 0
        self.ended = True
        self.in_body = False
        return [body]

    def feed_chunks(self, data: bytes) -> list[bytes]:
        messages: list[bytes] = []
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            size = int(data[at:end].partition(b";")[0], 16)
            after = end + 2 + size
            if len(data) < after + 2:
                break
            if not size:
                self.ended = True
                self.in_body = False
                return messages
            self.feed_event_stream(data[end + 2 : after], messages)
            at = after + 2
        self.buffer = data[at:]
        return messages

    def feed_event_stream(self, text: bytes, messages: list[bytes]) -> None:
        if self.event:
            text = self.event + text
        lines = text.split(b"\n")
        last = lines.pop()
        payload: list[bytes] = []
        first = 0
        for number, line in enumerate(lines):
            if line == b"\r" or not line:
                if payload:
                    messages.append(payload[0] if len(payload) == 1 else b"\n".join(payload))
                    payload = []
                first = number + 1
            elif line.startswith(b"data:"):
                payload.append(line[5:].strip())
        self.event = b"\n".join([*lines[first:], last]) if first < len(lines) else last


class Connection(asyncio.Protocol):
    """One connection of `FloorClient`; at most one call at a time."""

    def __init__(self, idle: list[Connection]) -> None:
        self.idle = idle
        self.responses = Responses()
        self.number = 0
        self.future: asyncio.Future | None = None
        self.on_progress = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        responses = self.responses
        for text in responses.feed(data):
            message = orjson.loads(text)
            if message.get("id") == self.number:
                self.future.set_result(message["result"])
            elif self.on_progress is not None and message["method"] == "notifications/progress":
                params = message["params"]
                if params["progressToken"] == self.number:
                    self.on_progress(params["progress"], params["total"], params["message"])
        if responses.ended:
            self.idle.append(self)
            if not self.number:
                self.future.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.idle:
            self.idle.remove(self)


class FloorClient:
    """The asyncio floor."""

    def __init__(self, port: int, path: str, era: str = "stateless") -> None:
        self.port = port
        self.requests = Requests(f"127.0.0.1:{port}", path, era)
        self.era = era
        self.idle: list[Connection] = []

    async def connect(self) -> None:
        self.loop = asyncio.get_running_loop()
        if self.era == "stateless":
            return
        requests = self.requests
        requests.id = 1
        await self.exchange(requests.post(INITIALIZE), 1)
        requests.use_session(session_of(self.idle[-1].responses.head))
        await self.exchange(requests.post(INITIALIZED), 0)

    async def open(self) -> Connection:
        _, connection = await self.loop.create_connection(lambda: Connection(self.idle), "127.0.0.1", self.port)
        return connection

    async def exchange(self, request: bytes, number: int) -> None:
        connection = self.idle.pop() if self.idle else await self.open()
        connection.number = number
        connection.future = self.loop.create_future()
        connection.transport.write(request)
        await connection.future

    async def call_tool(self, name: str, arguments: dict, on_progress=None) -> dict:
        number, request = self.requests.call_request(name, arguments, on_progress is not None)
        connection = self.idle.pop() if self.idle else await self.open()
        connection.number = number
        connection.on_progress = on_progress
        connection.future = future = self.loop.create_future()
        connection.transport.write(request)
        return await future

    async def close(self) -> None:
        for connection in self.idle[:]:
            connection.transport.close()


class BlockingFloor:
    """The blocking floor: one socket."""

    def __init__(self, port: int, path: str, era: str = "stateless") -> None:
        self.requests = Requests(f"127.0.0.1:{port}", path, era)
        self.responses = Responses()
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if era == "handshake":
            self.requests.id = 1
            self.exchange(self.requests.post(INITIALIZE), 1)
            self.requests.use_session(session_of(self.responses.head))
            self.exchange(self.requests.post(INITIALIZED), 0)

    def exchange(self, request: bytes, number: int) -> dict | None:
        self.socket.sendall(request)
        responses = self.responses
        result = None
        while True:
            for text in responses.feed(self.socket.recv(65536)):
                message = orjson.loads(text)
                if message.get("id") == number:
                    result = message["result"]
            if responses.ended:
                return result

    def call_tool(self, name: str, arguments: dict) -> dict:
        number, request = self.requests.call_request(name, arguments)
        return self.exchange(request, number)

    def close(self) -> None:
        self.socket.close()


class StdioFloor(asyncio.SubprocessProtocol):
    """The asyncio stdio floor."""

    def __init__(self, argv: list[str]) -> None:
        self.argv = argv
        self.requests = Requests("", "", "stateless")
        self.futures: dict[int, asyncio.Future] = {}
        self.rest = b""

    async def connect(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.exited = self.loop.create_future()
        self.transport, _ = await self.loop.subprocess_exec(lambda: self, *self.argv, stderr=None)
        self.stdin = self.transport.get_pipe_transport(0)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        for line in lines:
            message = orjson.loads(line)
            future = self.futures.pop(message.get("id"), None)
            if future is not None:
                future.set_result(message["result"])

    def process_exited(self) -> None:
        self.exited.set_result(None)

    async def call_tool(self, name: str, arguments: dict) -> dict:
        number, message = self.requests.call(name, arguments)
        future = self.futures[number] = self.loop.create_future()
        self.stdin.write(message + b"\n")
        return await future

    async def close(self) -> None:
        self.stdin.close()
        await self.exited
        self.transport.close()


class BlockingStdio:
    """The blocking stdio floor."""

    def __init__(self, argv: list[str]) -> None:
        self.requests = Requests("", "", "stateless")
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.stdin = self.child.stdin.fileno()
        self.stdout = self.child.stdout.fileno()

    def call_tool(self, name: str, arguments: dict) -> dict:
        number, message = self.requests.call(name, arguments)
        os.write(self.stdin, message + b"\n")
        data = os.read(self.stdout, 65536)
        while not data.endswith(b"\n"):
            data += os.read(self.stdout, 65536)
        message = orjson.loads(data)
        if message["id"] != number:
            raise RuntimeError("another id")
        return message["result"]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.child.stdin.close()
        self.child.wait(5)
        self.child.stdout.close()


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":' + CLIENT + b"}}"
)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def session_of(head: bytes) -> bytes:
    """Return the session id in a lower-case response head."""
    return head.partition(b"\r\nmcp-session-id:")[2].partition(b"\r\n")[0].strip()


def check() -> None:
    """The parser gives the same messages at every single split and byte by byte."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    events = b'event: message\r\ndata: {"a":1}\r\n\r\n: ping\n\ndata: {"b":\ndata: 2}\n\n'
    chunked = b"%x;x=1\r\n%b\r\n5\r\ndata:\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        len(events), events, 6, b" {}\r\n\r",
    )  # fmt: skip
    chunked = chunked.replace(b"0\r\n\r\n", b"1\r\n\n\r\n0\r\n\r\n")
    body = b'HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 7\r\n\r\n{"c":3}'
    for text, wanted in (
        (head + chunked, [b'{"a":1}', b'{"b":\n2}', b"{}"]),
        (body, [b'{"c":3}']),
    ):
        splits = [[text[:cut], text[cut:]] for cut in range(1, len(text))]
        for pieces in [[text], [bytes([byte]) for byte in text], *splits]:
            response = Responses()
            messages = [found for piece in pieces for found in response.feed(piece)]
            if messages != wanted or not response.ended:
                raise SystemExit(f"floors.py: {len(pieces)} pieces: {messages!r}")


if __name__ == "__main__":
    check()
    sys.stdout.write("floors: the same messages at every split\n")
