"""The demo server keeps to the specification's letter, with a client that does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {"MCP-Protocol-Version": "2026-07-28"}


@pytest.fixture
def connection(demo_url: str) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(urlsplit(demo_url).netloc, timeout=20)
    yield connection
    connection.close()


def message(method: str, params: dict[str, Any] | None = None, id: Any = 1) -> dict[str, Any]:
    params = {"_meta": ENVELOPE, **(params or {})}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def post(connection: HTTPConnection, body: object, headers: dict[str, str]) -> HTTPResponse:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", "/mcp", data, {"Content-Type": "application/json", **headers})
    return connection.getresponse()


def ask(connection: HTTPConnection, body: object, headers: dict[str, str]) -> tuple[int, Any]:
    response = post(connection, body, headers)
    data = response.read()
    return response.status, json.loads(data) if data else None


def initialize(connection: HTTPConnection) -> dict[str, str]:
    """Open a session; the headers of what follows."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    response = post(connection, opening, {})
    assert json.loads(response.read())["result"]["protocolVersion"] == "2025-11-25"
    session = response.getheader("Mcp-Session-Id") or ""
    assert session
    return {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}


def test_a_stateless_result_names_its_type_its_server_and_how_long_it_may_be_kept(
    connection: HTTPConnection,
) -> None:
    status, answer = ask(connection, message("tools/list"), {**HEADERS, "Mcp-Method": "tools/list"})
    assert status == 200
    result = answer["result"]
    assert result["resultType"] == "complete"
    assert (result["ttlMs"], result["cacheScope"]) == (60_000, "public")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "ferrule-demo"


@pytest.mark.parametrize(
    ("headers", "params"),
    [
        ({"Mcp-Method": "tools/call", "Mcp-Name": "add"}, {}),
        ({**HEADERS, "Mcp-Name": "add"}, {}),
        ({**HEADERS, "Mcp-Method": "tools/call"}, {}),
        ({**HEADERS, "Mcp-Method": "tools/list", "Mcp-Name": "add"}, {}),
        ({**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "fail"}, {}),
        ({**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?!!?="}, {}),
        ({"MCP-Protocol-Version": "2025-11-25", "Mcp-Method": "tools/call", "Mcp-Name": "add"}, {}),
    ],
)
def test_headers_that_are_missing_or_say_something_else_are_refused(
    connection: HTTPConnection, headers: dict[str, str], params: dict[str, Any]
) -> None:
    status, answer = ask(connection, message("tools/call", {"name": "add", **params}), headers)
    assert (status, answer["error"]["code"], answer["id"]) == (400, -32020, 1)


def test_an_encoded_name_is_compared_decoded(connection: HTTPConnection) -> None:
    headers = {**HEADERS, "Mcp-Method": "resources/read", "Mcp-Name": "=?base64?ZGVtbzovL2dyZWV0aW5n?="}
    status, answer = ask(connection, message("resources/read", {"uri": "demo://greeting"}), headers)
    assert status == 200
    assert answer["result"]["contents"][0]["text"] == "Hello from the demo server."


def test_an_incomplete_envelope_is_refused_by_the_names_of_what_lacks(connection: HTTPConnection) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    status, answer = ask(connection, message("tools/list", {"_meta": meta}), {**HEADERS, "Mcp-Method": "tools/list"})
    assert (status, answer["error"]["code"]) == (400, -32602)
    assert "clientCapabilities" in answer["error"]["message"]


def test_an_unknown_version_is_refused_with_the_known_ones(connection: HTTPConnection) -> None:
    meta = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    headers = {"MCP-Protocol-Version": "2099-01-01", "Mcp-Method": "tools/list"}
    status, answer = ask(connection, message("tools/list", {"_meta": meta}), headers)
    assert (status, answer["error"]["code"]) == (400, -32022)
    assert answer["error"]["data"]["requested"] == "2099-01-01"
    assert "2026-07-28" in answer["error"]["data"]["supported"]


def test_an_unknown_method_is_404_with_a_json_rpc_error(connection: HTTPConnection) -> None:
    status, answer = ask(connection, message("no/such"), {**HEADERS, "Mcp-Method": "no/such"})
    assert (status, answer["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 100_000, b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b"\xff"])
def test_what_is_no_message_is_400(connection: HTTPConnection, body: bytes) -> None:
    status, answer = ask(connection, body, {})
    assert status == 400
    assert answer["error"]["code"] in (-32700, -32600)


def test_a_foreign_origin_is_refused(connection: HTTPConnection) -> None:
    status, _ = ask(connection, message("tools/list"), {"Origin": "https://evil.example"})
    assert status == 403


def test_there_is_no_get_stream_outside_a_session(connection: HTTPConnection) -> None:
    connection.request("GET", "/mcp")
    response = connection.getresponse()
    response.read()
    assert (response.status, response.getheader("Allow")) == (405, "POST, DELETE")


def test_a_stream_ends_cleanly_and_its_connection_serves_the_next_request(connection: HTTPConnection) -> None:
    body = message("tools/call", {"name": "count", "arguments": {"n": 2}, "_meta": {**ENVELOPE, "progressToken": "t"}})
    headers = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "count"}
    for _ in range(2):
        response = post(connection, body, headers)
        socket = connection.sock
        assert response.getheader("Content-Type") == "text/event-stream"
        events = [json.loads(line[6:]) for line in response.read().splitlines() if line.startswith(b"data: ")]
        assert [event.get("method") for event in events] == ["notifications/progress"] * 2 + [None]
        assert events[0]["params"]["progressToken"] == "t"
        assert connection.sock is socket is not None


def test_a_session_is_needed_known_and_ended(connection: HTTPConnection) -> None:
    headers = initialize(connection)
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert ask(connection, initialized, headers) == (202, None)
    assert ask(connection, ping, headers) == (200, {"jsonrpc": "2.0", "id": 2, "result": {}})
    assert ask(connection, ping, {})[0] == 400
    assert ask(connection, ping, {**headers, "MCP-Protocol-Version": "1999-01-01"})[0] == 400
    connection.request("DELETE", "/mcp", headers=headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 200
    assert ask(connection, ping, headers)[0] == 404


def test_errors_of_a_session_come_with_200_and_the_codes_of_its_time(connection: HTTPConnection) -> None:
    headers = initialize(connection)
    reading = {"jsonrpc": "2.0", "id": 2, "method": "resources/read", "params": {"uri": "demo://nowhere"}}
    status, answer = ask(connection, reading, headers)
    assert (status, answer["error"]["code"]) == (200, -32002)
    assert "resultType" not in answer


def over_stdio(*lines: object) -> list[dict[str, Any]]:
    """What the server writes when these lines are its whole input."""
    data = b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    command = [sys.executable, "-X", "dev", "-W", "error", "-m", "ferrule.demo_server"]
    done = subprocess.run(command, input=data, capture_output=True, timeout=30, check=True)
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_over_stdio_noise_is_an_error_and_the_next_line_is_served() -> None:
    noise, answer = over_stdio(b"{", message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))
    assert noise["error"]["code"] == -32700
    assert answer["result"]["structuredContent"] == {"sum": 3}


def test_over_stdio_a_cancelled_request_is_not_answered() -> None:
    count = message("tools/call", {"name": "count", "arguments": {"n": 1000}}, id=5)
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
    assert over_stdio(count, cancel) == []


def test_a_bad_command_line_is_explained() -> None:
    for arguments in (["--https"], ["--http", "x"], ["--http", "1", "2"]):
        command = [sys.executable, "-m", "ferrule.demo_server", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: ")


@pytest.mark.req("V2")
def test_the_server_needs_nothing_but_the_standard_library() -> None:
    program = """
import sys
import ferrule.demo_server, ferrule._demo.http
others = [m for m in sys.modules if m.startswith(("orjson", "ferrule"))]
print(sorted(others))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    expected = [
        "ferrule",
        "ferrule._demo",
        "ferrule._demo.answers",
        "ferrule._demo.changes",
        "ferrule._demo.http",
        "ferrule.demo_server",
    ]
    assert done.stdout.strip() == str(expected)
