"""The demo server's Streamable HTTP wire, over `http.server`."""

from __future__ import annotations

import json
import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from .answers import (
    HANDSHAKE,
    INVALID_REQUEST,
    PARSE_ERROR,
    UPDATED,
    Job,
    Problem,
    check_envelope,
    check_headers,
    check_message,
    failure,
    is_stateless,
    notification,
    perform,
)
from .changes import Changes, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .answers import Message

_MAX_BODY = 4 << 20


class HTTPServer(ThreadingHTTPServer):
    """A server on 127.0.0.1, bound and not yet serving; its endpoint is `/mcp`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int = 0) -> None:
        self.sessions: dict[str, Watch] = {}
        self.changes = Changes()
        self.is_closing = False
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        """The URL to give to a client."""
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def server_close(self) -> None:
        """Stop listening, and end every subscription as the specification wants it."""
        super().server_close()
        self.is_closing = True
        self.changes.end()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that goes away is no error, and a traceback may hold content."""


class _Handler(BaseHTTPRequestHandler):
    server: HTTPServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # a head and its body leave in one packet

    def log_message(self, *args: object) -> None:
        """Say nothing: requests hold content."""

    def do_GET(self) -> None:
        if "Mcp-Session-Id" not in self.headers:
            return self._send(405, {"Allow": "POST, DELETE"})
        try:
            self._guard()
            session = self._find_session()
            session.claim()
            self._start_stream()
            self.wfile.flush()
            session.follow(lambda uri: self._send_event(notification(UPDATED, {"uri": uri})), self._keep_alive)
            self._end_stream()
        except Problem as problem:
            self._send_json(failure(None, problem), problem.status)
        except ConnectionError:
            self.close_connection = True

    def do_DELETE(self) -> None:
        session = self.server.sessions.pop(self.headers.get("Mcp-Session-Id", ""), None)
        if session is not None:
            self.server.changes.remove(session)
        self._send(404 if session is None else 200)

    def do_POST(self) -> None:
        message: Any = None
        try:
            body = self._read()
            self._guard()
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                raise Problem(PARSE_ERROR, "Not JSON", status=400) from None
            message = check_message(message)
            if is_stateless(message):
                self._post_stateless(message)
            else:
                self._post_handshake(message)
        except Problem as problem:
            self._send_json(failure(message, problem), problem.status)
        except ConnectionError:
            self.close_connection = True

    def _read(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MAX_BODY:
            self.close_connection = True
            raise Problem(INVALID_REQUEST, "Content-Length missing or too large", status=413)
        return self.rfile.read(int(length))

    def _guard(self) -> None:
        origin = self.headers.get("Origin")
        if origin and urlsplit(origin).hostname not in ("127.0.0.1", "localhost", "::1"):
            raise Problem(INVALID_REQUEST, "Foreign origin", status=403)
        if urlsplit(self.path).path != "/mcp":
            raise Problem(INVALID_REQUEST, "The endpoint is /mcp", status=404)

    def _post_stateless(self, message: Message) -> None:
        if "id" not in message:
            return self._send(202)
        check_headers(self.headers.get, message)
        check_envelope(message)
        self._answer(message, None)

    def _post_handshake(self, message: Message) -> None:
        headers = {}
        if message.get("method") == "initialize":
            session = Watch()
            headers["Mcp-Session-Id"] = id = secrets.token_urlsafe(24)
            self.server.sessions[id] = session
            self.server.changes.add(session)
        else:
            session = self._find_session()
        if "id" not in message or "method" not in message:
            return self._send(202)
        self._answer(message, session, headers)

    def _find_session(self) -> Watch:
        id = self.headers.get("Mcp-Session-Id")
        if id is None:
            text = "Mcp-Session-Id is missing: call initialize first"
            raise Problem(INVALID_REQUEST, text, status=400)
        session = self.server.sessions.get(id)
        if session is None:
            raise Problem(INVALID_REQUEST, "Unknown session", status=404)
        version = self.headers.get("MCP-Protocol-Version", HANDSHAKE[-1])
        if version not in HANDSHAKE:
            raise Problem(INVALID_REQUEST, "Unsupported protocol version", status=400)
        return session

    def _answer(self, message: Message, session: Watch | None, headers: Mapping[str, str] | None = None) -> None:
        streaming = False

        def notify(note: Message) -> None:
            nonlocal streaming
            if not streaming:
                streaming = True
                self._start_stream()
            self._send_event(note)

        job = Job(message, self.server.changes, notify, session=session, keep_alive=self._keep_alive)
        try:
            answer, status = perform(message, job), 200
        except Problem as problem:
            answer = failure(message, problem)
            status = problem.status if job.stateless else 200
        if streaming:
            self._send_event(answer)
            self._end_stream()
        else:
            self._send_json(answer, status, headers)

    def _start_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache, no-transform")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_event(self, message: Message) -> None:
        data = json.dumps(message, separators=(",", ":")).encode()
        self._send_chunk(b"event: message\ndata: " + data + b"\n\n")

    def _keep_alive(self) -> None:
        self._send_chunk(b": still here\n\n")

    def _end_stream(self) -> None:
        self._send_chunk(b"")
        if self.server.is_closing:
            self.close_connection = True

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _send_json(self, message: Message, status: int, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(message, separators=(",", ":")).encode()
        self._send(status, {"Content-Type": "application/json", **(headers or {})}, body)

    def _send(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
