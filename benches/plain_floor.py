"""The floor of the bounds: a bare asyncio `Protocol`, HTTP and SSE in plain Python, orjson.

What somebody writes who wants calls and nothing else, and wants them right: heads are parsed into a
dict, bodies by what the head says (length or chunks with extensions and trailers), event streams by
the WHATWG rules (all line ends at any split, comments, `event`, `id`, `retry`, several `data` lines),
answers go to their request by id. Requests are one `orjson.dumps` of the whole message and a head
written with its length. There are no timeouts, retries, limits, pool bounds or typed results.

`floors.FloorClient` does less (formats made once, no header but the length is looked at): it is in
the tables for information, as what is left when everything goes that the null server does not need.
"""

from __future__ import annotations

import asyncio
import socket

import orjson

PROTOCOL = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL,
    "io.modelcontextprotocol/clientInfo": {"name": "floor", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class EventStream:
    """Server-sent events out of bytes that come in any pieces (WHATWG HTML, 9.2.6)."""

    def __init__(self) -> None:
        self.rest = b""
        self.started = False
        self.kind = b""
        self.data: list[bytes] = []
        self.id = b""
        self.retry: int | None = None

    def feed(self, text: bytes) -> list[tuple[bytes, bytes]]:
        """Return (type, data) of the events that `text` completes."""
        text = self.rest + text
        if not self.started:
            if len(text) < 3:
                self.rest = text
                return []
            text = text.removeprefix(b"\xef\xbb\xbf")
            self.started = True
        if b"\r" in text:
            # A CR at the very end may be half of a CR LF.
            held = b"\r" if text.endswith(b"\r") else b""
            text = text[: len(text) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        lines = text.split(b"\n")
        self.rest = lines.pop()
        events = []
        for line in lines:
            if line:
                self.field(line)
            else:
                if self.data:
                    events.append((self.kind or b"message", b"\n".join(self.data)))
                self.kind = b""
                self.data = []
        return events

    def field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self.data.append(value)
        elif name == b"event":
            self.kind = value
        elif name == b"id":
            if b"\0" not in value:
                self.id = value
        elif name == b"retry" and value.isdigit():
            self.retry = int(value)


class Response:
    """One HTTP response, taken apart as its bytes come."""

    def __init__(self) -> None:
        self.buffer = b""
        self.headers: dict[bytes, bytes] | None = None
        self.status = 0
        self.events: EventStream | None = None
        self.chunked = False
        self.left = 0
        self.in_trailers = False
        self.pieces: list[bytes] = []
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the JSON texts that `data` completes; `.ended` says that the response is over."""
        data = self.buffer + data
        self.buffer = b""
        if self.headers is None:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self.buffer = head
                return []
            self.parse_head(head)
        texts: list[bytes] = []
        if self.chunked:
            self.feed_chunks(data, texts)
        else:
            piece = data[: self.left]
            self.left -= len(piece)
            self.body(piece, texts)
            if not self.left:
                self.end(texts)
        return texts

    def parse_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        self.status = int(first.split(b" ", 2)[1])
        self.headers = headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        self.chunked = headers.get(b"transfer-encoding", b"").lower() == b"chunked"
        if not self.chunked:
            self.left = int(headers.get(b"content-length", b"0"))
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if kind == b"text/event-stream":
            self.events = EventStream()

    def feed_chunks(self, data: bytes, texts: list[bytes]) -> None:
        at = 0
        while True:
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            if self.in_trailers:
                if end == at:
                    self.end(texts)
                    return
                at = end + 2
                continue
            size = int(data[at:end].partition(b";")[0], 16)
            if not size:
                self.in_trailers = True
                at = end + 2
                continue
            after = end + 2 + size
            if len(data) < after + 2:
                break
            self.body(data[end + 2 : after], texts)
            at = after + 2
        self.buffer = data[at:]

    def body(self, data: bytes, texts: list[bytes]) -> None:
        if self.events is None:
            self.pieces.append(data)
        else:
            texts += [text for kind, text in self.events.feed(data) if kind == b"message"]

    def end(self, texts: list[bytes]) -> None:
        self.ended = True
        if self.events is None:
            body = b"".join(self.pieces)
            if body:
                texts.append(body)


class Connection(asyncio.Protocol):
    """One connection; at most one request at a time."""

    def __init__(self, client: PlainFloor) -> None:
        self.client = client
        self.response = Response()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        response = self.response
        for text in response.feed(data):
            self.client.dispatch(orjson.loads(text))
        if response.ended:
            if response.status != 200:
                if response.status != 202:
                    raise RuntimeError(f"HTTP {response.status}")
                self.client.dispatch({"id": 0, "result": None})
            self.client.headers = response.headers
            self.response = Response()
            if response.headers.get(b"connection", b"").lower() == b"close":
                self.transport.close()
            else:
                self.client.idle.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.client.idle:
            self.client.idle.remove(self)


class Requests:
    """The requests of one client as bytes."""

    def __init__(self, port: int, path: str, era: str) -> None:
        self.path = path
        self.stateless = era == "stateless"
        self.headers = {
            "Host": f"127.0.0.1:{port}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        if self.stateless:
            self.headers["MCP-Protocol-Version"] = PROTOCOL
        self.number = 0

    def request(self, method: str, params: dict, name: str | None, token: bool) -> tuple[int, bytes]:
        self.number = number = self.number + 1
        if self.stateless or token:
            meta = dict(META) if self.stateless else {}
            if token:
                meta["progressToken"] = number
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return number, self.post(message, method, name)

    def post(self, message: dict, method: str, name: str | None) -> bytes:
        body = orjson.dumps(message)
        headers = self.headers
        if self.stateless:
            headers = {**headers, "Mcp-Method": method}
            if name is not None:
                headers["Mcp-Name"] = name
        lines = "".join([f"{key}: {value}\r\n" for key, value in headers.items()])
        head = f"POST {self.path} HTTP/1.1\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        return head.encode("latin-1") + body

    def use_session(self, session: bytes) -> None:
        self.headers["MCP-Protocol-Version"] = "2025-11-25"
        self.headers["Mcp-Session-Id"] = session.decode()


INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": META["io.modelcontextprotocol/clientInfo"],
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class PlainFloor:
    """The asyncio floor of the bounds, at the stateless or the handshake revision."""

    def __init__(self, port: int, path: str, era: str = "stateless") -> None:
        self.port = port
        self.requests = Requests(port, path, era)
        self.idle: list[Connection] = []
        self.waiting: dict[int, asyncio.Future] = {}
        self.listening: dict[int, object] = {}
        self.headers: dict[bytes, bytes] = {}

    async def connect(self) -> None:
        self.loop = asyncio.get_running_loop()
        if self.requests.stateless:
            return
        await self.request("initialize", INITIALIZE)
        self.requests.use_session(self.headers[b"mcp-session-id"])
        await self.exchange(0, self.requests.post(INITIALIZED, "", None))

    def dispatch(self, message: dict) -> None:
        if "method" in message:
            params = message["params"]
            listener = self.listening.get(params.get("progressToken"))
            if listener is not None:
                listener(params["progress"], params.get("total"), params.get("message"))
            return
        future = self.waiting.pop(message["id"])
        if "error" in message:
            future.set_exception(RuntimeError(message["error"]["code"]))
        else:
            future.set_result(message["result"])

    async def request(self, method: str, params: dict, name: str | None = None, on_progress=None) -> dict:
        number, data = self.requests.request(method, params, name, on_progress is not None)
        if on_progress is None:
            return await self.exchange(number, data)
        self.listening[number] = on_progress
        try:
            return await self.exchange(number, data)
        finally:
            del self.listening[number]

    async def exchange(self, number: int, data: bytes) -> dict:
        connection = self.idle.pop() if self.idle else await self.open()
        future = self.waiting[number] = self.loop.create_future()
        connection.transport.write(data)
        return await future

    async def open(self) -> Connection:
        _, connection = await self.loop.create_connection(lambda: Connection(self), "127.0.0.1", self.port)
        return connection

    async def call_tool(self, name: str, arguments: dict, on_progress=None) -> dict:
        return await self.request("tools/call", {"name": name, "arguments": arguments}, name, on_progress)

    async def close(self) -> None:
        for connection in self.idle[:]:
            connection.transport.close()


class PlainBlockingFloor:
    """The same over one blocking socket."""

    def __init__(self, port: int, path: str, era: str = "stateless") -> None:
        self.requests = Requests(port, path, era)
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.requests.stateless:
            number, data = self.requests.request("initialize", INITIALIZE, None, False)
            response = self.exchange(number, data)[1]
            self.requests.use_session(response.headers[b"mcp-session-id"])
            self.exchange(0, self.requests.post(INITIALIZED, "", None))

    def exchange(self, number: int, data: bytes) -> tuple[dict | None, Response]:
        self.socket.sendall(data)
        response = Response()
        result = None
        while not response.ended:
            for text in response.feed(self.socket.recv(65536)):
                message = orjson.loads(text)
                if message.get("id") == number:
                    result = message["result"]
        if response.status not in (200, 202):
            raise RuntimeError(f"HTTP {response.status}")
        return result, response

    def call_tool(self, name: str, arguments: dict) -> dict:
        number, data = self.requests.request("tools/call", {"name": name, "arguments": arguments}, name, False)
        return self.exchange(number, data)[0]

    def close(self) -> None:
        self.socket.close()
