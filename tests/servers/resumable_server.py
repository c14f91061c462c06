"""A server of the official Python SDK that keeps events: `resumable_server.py` prints its URL on a free port.

Its tools close their own streams, so that a client has to come back for the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore

server = MCPServer("resumable-server", version="1.0")
runs = itertools.count(1)


class Events(EventStore):
    """Every event, in memory."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, object]] = []

    async def store_event(self, stream_id: str, message: object) -> str:
        self.stored.append((stream_id, message))
        return str(len(self.stored))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        after = int(last_event_id)
        stream_id = self.stored[after - 1][0]
        for number, (stream, message) in enumerate(self.stored[after:], after + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))  # type: ignore[arg-type]
        return stream_id


@server.tool()
async def leave_and_answer(times: int, ctx: Context) -> str:
    """Close the call's stream, again and again, and answer at last; says how often any tool was run."""
    run = next(runs)
    for step in range(1, times + 1):
        await ctx.report_progress(step, times)
        await ctx.close_sse_stream()
        await asyncio.sleep(0.3)
    return f"run {run}"


@server.tool()
async def change_tools(ctx: Context) -> str:
    """Say, on the standalone stream, that the tools have changed."""
    await ctx.session.send_tool_list_changed()
    return "said"


@server.tool()
async def leave_the_standalone_stream(ctx: Context) -> str:
    """Close the standalone stream, and say something on it while it is closed."""
    await ctx.close_standalone_sse_stream()
    await ctx.session.send_prompt_list_changed()
    return "left"


if __name__ == "__main__":
    app = server.streamable_http_app(event_store=Events(), retry_interval=100)
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
