"""A server of the official Python SDK: `sdk_server.py stdio`, or `sdk_server.py http [--json | --sse]`.

Over HTTP it listens on a free port of 127.0.0.1 and prints its URL. `--json` answers with JSON where
the default in the handshake era is an event stream; `--sse` speaks the HTTP+SSE transport of 2024-11-05.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Annotated

import uvicorn
from mcp import types
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, ListRoots, MCPServer, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import Completion, CompletionArgument
from pydantic import BaseModel, Field
from starlette.applications import Starlette

server = MCPServer("sdk-server", version="2.3.0", instructions="A server for tests.")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Place(BaseModel):
    """What `locate` answers."""

    region: str
    level: int
    header: str | None


Mirrored = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
Level = Annotated[int, Field(json_schema_extra={"x-mcp-header": "Level"})]


@server.tool()
def locate(region: Mirrored, ctx: Context, level: Level = 0) -> Place:
    """Say where the call was sent to: by its arguments, and by the header that the SDK checked against them."""
    headers = ctx.headers
    return Place(region=region, level=level, header=headers.get("mcp-param-region") if headers else None)


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


hanging: list[str] = []
given_up: list[str] = []


@server.tool()
async def hang(name: str = "") -> str:
    """Never answer; note it under that name when the client gives up."""
    hanging.append(name)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        given_up.append(name)
        raise
    return "never"


@server.tool()
def is_hanging(name: str) -> bool:
    """Has `hang` begun under that name?"""
    return name in hanging


@server.tool()
def was_given_up(name: str) -> bool:
    """Was `hang` cancelled under that name?"""
    return name in given_up


class Person(BaseModel):
    """What `ask_name` asks for."""

    name: str
    age: int = 7


@server.tool()
async def ask_name(ctx: Context) -> str:
    """Ask the user for a name."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"{answer.action} {answer.data.name} {answer.data.age}" if answer.action == "accept" else answer.action


@server.tool()
async def ask_visit(ctx: Context) -> str:
    """Ask the user to visit a page."""
    return (await ctx.elicit_url("Pay", "https://x.example/pay?a=1", "e-1")).action


@server.tool()
async def ask_model(ctx: Context) -> str:
    """Ask a language model."""
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Hello?"))
    session = ctx.request_context.session
    answer = await session.create_message([said], max_tokens=5, related_request_id=ctx.request_id)
    assert isinstance(answer.content, types.TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool()
async def ask_roots(ctx: Context) -> str:
    """Ask for the roots, on the stream of the call."""
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    session = ctx.request_context.session
    listed = await session.send_request(types.ListRootsRequest(), types.ListRootsResult, metadata=related)
    return " ".join(str(root.uri) for root in listed.roots)


def who() -> Elicit[Person]:
    """Ask for a name, in a round."""
    return Elicit("Who are you?", Person)


def model(person: Annotated[Person, Resolve(who)]) -> Sample:
    """Ask a language model, in the round after that."""
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=f"Hello, {person.name}?"))
    return Sample([said], max_tokens=5)


@server.tool()
async def rounds(
    person: Annotated[Person, Resolve(who)],
    roots: Annotated[types.ListRootsResult, Resolve(ListRoots)],
    said: Annotated[types.CreateMessageResult, Resolve(model)],
) -> str:
    """Ask the user and for the roots in one round, and a model in the next (2026-07-28)."""
    assert isinstance(said.content, types.TextContent)
    return f"{person.name} {person.age}, {len(roots.roots)} roots, {said.model}: {said.content.text}"


@server.tool()
async def round_outcome(answer: Annotated[ElicitationResult[Person], Resolve(who)]) -> str:
    """What the user does with a form."""
    return answer.action


def asked(ctx: Context) -> types.InputRequiredResult | str:
    """The name that was given in an earlier round, or the question for it."""
    answer = (ctx.input_responses or {}).get("who")
    if isinstance(answer, types.ElicitResult) and ctx.request_state == "asked":
        return str((answer.content or {}).get("name"))
    schema = Person.model_json_schema()
    question = types.ElicitRequest(params=types.ElicitRequestFormParams(message="Who?", requested_schema=schema))
    return types.InputRequiredResult(input_requests={"who": question}, request_state="asked")


@server.prompt()
async def greet_in_rounds(ctx: Context) -> types.InputRequiredResult | str:
    """Ask whom to greet, in a round."""
    return asked(ctx)


@server.resource("demo://whose/{n}")
async def whose(n: str, ctx: Context) -> types.InputRequiredResult | str:
    """Ask whose it is, in a round."""
    return asked(ctx)


@server.tool()
async def say(n: int, ctx: Context) -> str:
    """Log n messages."""
    for step in range(n):
        await ctx.info({"step": step}, logger_name="sdk")
    return "said"


@server.tool()
async def announce(uri: str, ctx: Context) -> str:
    """Say that everything changed, to those who listen."""
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    await ctx.notify_resources_changed()
    await ctx.notify_resource_updated(uri)
    return "announced"


@server.tool()
async def end_subscriptions() -> str:
    """End all subscriptions properly."""
    entry = server._lowlevel_server.get_request_handler("subscriptions/listen")
    assert entry is not None
    entry.handler.close()  # type: ignore[attr-defined]
    return "ended"


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


def serve_http(app: Starlette, path: str) -> None:
    """Serve on a free port until told to stop."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{path}", flush=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif "--sse" in sys.argv:
        serve_http(server.sse_app(), "/sse")
    else:
        serve_http(server.streamable_http_app(json_response="--json" in sys.argv), "/mcp")
