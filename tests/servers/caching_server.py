"""A server of the official Python SDK that gives cache hints, over HTTP. Its tool `grow` adds one more tool."""

from __future__ import annotations

import sys
from pathlib import Path

from mcp.server import CacheHint
from mcp.server.mcpserver import MCPServer

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.servers.sdk_server import serve_http

server = MCPServer(
    "caching-server",
    cache_hints={
        "tools/list": CacheHint(ttl_ms=60_000, scope="public"),
        "resources/read": CacheHint(ttl_ms=60_000, scope="private"),
    },
)
reads = 0


@server.tool()
def grow() -> str:
    """Have one more tool from now on, without a word."""
    server.add_tool(lambda: "grown", name="grown", description="Grown.")
    return "grown"


@server.resource("demo://count")
def count() -> str:
    """How often this was read."""
    global reads
    reads += 1
    return str(reads)


if __name__ == "__main__":
    serve_http(server.streamable_http_app(json_response=True), "/mcp")
