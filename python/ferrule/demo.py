"""The shortest look at ferrule: `python -m ferrule.demo` talks to the demo server, and shows what is said.

The sync client over stdio, then the async one over HTTP. Ends with 1 when anything is not as it should be.
"""

from __future__ import annotations

import os
import sys

from ._transports.command import Stdio
from .async_client import AsyncClient
from .client import Client
from .errors import FerruleError, RPCError
from .types import ResourceUpdated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .types import CallToolResult, Event, Tool

# The server is started by its module's name, wherever this one was imported from.
_SERVER = f"{__package__}.demo_server"
_ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
_TIMEOUT = 10.0


class Unexpected(Exception):
    """The demo did not go as it should."""


def say(what: str, text: str) -> None:
    """One line of the transcript."""
    print(f"  {what:<10} {text}", flush=True)


def expect(seen: object, wanted: object) -> None:
    """Stop the demo when something is off."""
    if seen != wanted:
        raise Unexpected(f"expected {wanted!r}, got {seen!r}")


def show_server(client: Client | AsyncClient) -> None:
    """The era and whom we talk to."""
    info = client.server_info
    if info is None:
        raise Unexpected("the server did not say who it is")
    expect(info.name, "ferrule-demo")
    say("connected", f"{info.name} {info.version}, {client.era} era, revision {client.protocol_version}")


def show_tools(tools: list[Tool]) -> None:
    """What the server offers."""
    expect([tool.name for tool in tools], ["add", "count", "fail", "note", "welcome"])
    for index, tool in enumerate(tools):
        say("" if index else "tools", f"{tool.name:<7} {tool.description}")


def show_progress(progress: float, total: float | None, message: str | None) -> None:
    """A step of a call under way."""
    say("", f"{progress:g} of {total:g}: {message}" if total else f"{progress:g}: {message}")


def show_change(event: Event) -> None:
    """What a subscription brought."""
    expect(event, ResourceUpdated(uri="demo://note"))
    say("changed", "demo://note")


def show_call(call: str, result: CallToolResult, answer: str) -> None:
    """What a tool gave."""
    expect(result.text, answer)
    say("call", f"{call} → {result.text}")


def show_error(error: RPCError) -> None:
    """An error of the server's, in its own words and in ours."""
    expect(error.code, -32602)
    say("error", f"{type(error).__name__}: {error}")
    say("", f"the server says: {error.message}")
    say("", f"request_sent={error.request_sent}: it may have acted on the request")


def refused_name() -> str:
    """What the demo asks for in order to be refused."""
    return "subtract"


def over_stdio() -> None:
    """The sync client; the server is a child process."""
    print("Client, over stdio")
    server = Stdio(sys.executable, "-m", _SERVER, env=_ENVIRONMENT)
    with Client(server, timeout=_TIMEOUT) as client:
        show_server(client)
        show_tools(client.list_tools())
        show_call("add(a=2, b=3)", client.call_tool("add", {"a": 2, "b": 3}), "5")
        say("call", "count(n=3), with progress")
        counted = client.call_tool("count", {"n": 3}, on_progress=show_progress)
        show_call("count(n=3)", counted, "Counted to 3.")
        resource = client.read_resource("demo://square/12")
        expect(resource.text, "144")
        say("resource", f"demo://square/12 → {resource.text}")
        with client.subscribe(uris=["demo://note"]) as changes:
            show_call("note(text='hello')", client.call_tool("note", {"text": "hello"}), "Noted.")
            show_change(changes.next(timeout=_TIMEOUT))
        try:
            client.call_tool(refused_name())
        except RPCError as error:
            show_error(error)
        else:
            raise Unexpected("a tool that does not exist was called")


async def over_http() -> None:
    """The async client; the server is a process that listens on a port."""
    print("AsyncClient, over HTTP")
    process, url = start_http_server()
    try:
        async with AsyncClient(url, timeout=_TIMEOUT) as client:
            show_server(client)
            show_tools(await client.list_tools())
            show_call("add(a=2, b=3)", await client.call_tool("add", {"a": 2, "b": 3}), "5")
            say("call", "count(n=3), with progress")
            counted = await client.call_tool("count", {"n": 3}, on_progress=show_progress)
            show_call("count(n=3)", counted, "Counted to 3.")
            resource = await client.read_resource("demo://square/12")
            expect(resource.text, "144")
            say("resource", f"demo://square/12 → {resource.text}")
            async with client.subscribe(uris=["demo://note"]) as changes:
                show_call("note(text='hello')", await client.call_tool("note", {"text": "hello"}), "Noted.")
                show_change(await changes.next(timeout=_TIMEOUT))
            try:
                await client.call_tool(refused_name())
            except RPCError as error:
                show_error(error)
            else:
                raise Unexpected("a tool that does not exist was called")
    finally:
        process.terminate()
        process.communicate()


def start_http_server() -> tuple[Any, str]:
    """The demo server over HTTP, and its URL."""
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-m", _SERVER, "--http"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **_ENVIRONMENT},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()  # it listens before it prints


def main() -> int:
    """Run both halves; 0 when all was as it should be."""
    import asyncio

    try:
        over_stdio()
        print()
        asyncio.run(over_http())
    except (FerruleError, Unexpected, OSError) as error:
        print(f"the demo failed: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
