"""A server of the official Python SDK: `sdk_server.py stdio`, or `sdk_server.py http [--json]`.

Over HTTP it listens on a free port of 127.0.0.1 and prints its URL. `--json` answers with JSON where
the default in the handshake era is an event stream.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import Completion, CompletionArgument

server = MCPServer("sdk-server", version="2.3.0", instructions="A server for tests.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@server.tool()
async def slow(n: int, ctx: Context) -> str:
    """Report progress n times, then answer."""
    for step in range(1, n + 1):
        await ctx.report_progress(step, n, f"step {step}")
    return "done"


@server.tool()
def boom() -> str:
    """Fail with an explanation."""
    raise ToolError("boom was asked for")


@server.tool()
def big(size: int) -> str:
    """Answer with many characters."""
    return "x" * size


@server.tool()
async def hang() -> str:
    """Never answer."""
    await asyncio.Event().wait()
    return "never"


@server.resource("demo://greeting")
def greeting() -> str:
    """A fixed text."""
    return "Hello from the SDK."


@server.resource("demo://square/{n}")
def square(n: int) -> str:
    """The square of a number."""
    return str(n * n)


@server.prompt()
def greet(who: str) -> str:
    """Ask for a greeting."""
    return f"Greet {who}."


@server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
async def complete(ref: object, argument: CompletionArgument, context: object) -> Completion:
    """Complete with names."""
    names = [name for name in ("Ann", "Anton", "Bea") if name.startswith(argument.value)]
    return Completion(values=names, total=len(names), has_more=False)


def serve_http(*, json_response: bool) -> None:
    """Serve on a free port until told to stop."""
    app = server.streamable_http_app(json_response=json_response)
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        serve_http(json_response="--json" in sys.argv)
