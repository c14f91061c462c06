"""A program that drives everything public with marked secrets everywhere and prints all that comes out.

    SECRET_MARK=... python -m tests.support.silence sync json stateless report.json

What is driven is found by reflection: each public method and property of the clients, subscriptions and tasks, its
arguments by their names. A test greps what the program printed; the report says what was driven, which errors came,
which handlers were called and which classes were shown.
"""

from __future__ import annotations

import gc
import inspect
import json
import logging
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ferrule
import ferrule.auth
from ferrule import MemoryCache
from ferrule.types import (
    CreateTaskResult,
    ExtensionResult,
    InitializeResult,
    InputRequiredResult,
    ListRootsResult,
    Progress,
    PromptReference,
    ResourceTemplateReference,
    Resume,
    Skill,
    read_input_request,
)
from tests.support import silence_auth
from tests.support import silence_servers as servers
from tests.support.asking import wait_for
from tests.support.clients import Flavour
from tests.support.secrets import secret
from tests.support.silence_handlers import ASKED, TOLD, WATCHED, Handlers
from tests.support.silence_words import TASK, WATCHED_URI, good, initialized, tool
from tests.support.silence_world import World

SHOWS_A_SECRET = {"session_id", "instructions", "prior", "Task.id", "Task.status", "Task.immediate_response"}
"""Properties that return what is not to be printed, as their documentation says."""

LAST = {"close"}

FAST: dict[str, Any] = {"poll_interval": 0.01, "min_poll_interval": 0.01, "restart_window": 0, "probe_timeout": 1.0}
FAST |= {"round_backoff": 0.0, "max_round_backoff": 0.01}


def meta() -> dict[str, Any]:
    return {"standing": secret("request-meta")}


ARGUMENTS: dict[str, Any] = {
    # by the parameter's name, for every public method
    "name": "echo",
    "arguments": {"text": secret("argument"), "_meta": {"deep": secret("hoisted")}},
    "uri": "demo://" + secret("uri"),
    "cursor": secret("cursor"),
    "method": "custom/method",
    "params": {"text": secret("param"), "_meta": {"deep": secret("param-meta")}},
    "meta": {"deep": secret("meta")},
    "timeout": 10.0,
    "reset_on_progress": True,
    "reconnect": True,
    "max_total": 10.0,
    "idempotent": False,
    "raise_on_error": True,
    "retry_after_elicitation": True,
    "tasks": True,
    "responses": {secret("answered-key"): {"action": "accept", "content": {"text": secret("answered")}}},
    "resume": Resume({secret("answered"): {"action": secret("own-action")}}, secret("own-state")),
    "ttl": 60_000,
    "task_id": TASK,
    "tools": True,
    "prompts": True,
    "resources": True,
    "uris": [WATCHED_URI],
    "task_ids": [TASK],
    "level": "debug",
    "ref": PromptReference(secret("completed-prompt")),
    "argument": (secret("completed-name"), secret("typed")),
    "context": {secret("other-name"): secret("other-argument")},
    "headers": {"X-View": secret("view-header"), "Cookie": "a=" + secret("view-cookie")},
    "auth": silence_auth.Credentials(),
    "request_meta": meta,
    "cache": "use",
}
BY_HANDLERS = {"on_progress"}
"""Parameters that are given one of the handlers of the run."""

WRONG: dict[str, list[Any]] = {
    # what methods refuse, by the parameter's name
    "arguments": [
        secret("no-arguments"),
        {"key": {1: secret("value")}},
        {"a": {secret("object")}},
        {"_meta": secret("m")},
    ],
    "uri": [[secret("no-uri")], secret("uri") + "\ud800"],
    "cursor": [[secret("no-cursor")], secret("cursor") + "\ud800"],
    "method": [[secret("no-method")]],
    "params": [secret("no-params"), {"a": {secret("object")}}, {"_meta": secret("no-meta")}],
    "meta": [secret("no-meta"), {"a": {secret("object")}}],
    "timeout": [secret("no-timeout")],
    "max_total": [secret("no-total")],
    "ttl": [secret("no-ttl")],
    "task_id": [[secret("no-task")], secret("task") + "\ud800"],
    "uris": [secret("no-uris"), [[secret("no-uri")]], [secret("uri") + "\ud800"]],
    "task_ids": [secret("no-tasks"), [secret("task") + "\ud800"]],
    "level": [secret("no-level")],
    "ref": [secret("no-ref"), {"type": secret("ref-type"), secret("ref-key"): 1}],
    "resume": [
        secret("no-resume"),
        Resume({secret("key"): secret("no-answer")}),
        Resume({secret("key"): [secret("no-root")]}),
        Resume({secret("key"): {"action": {secret("object")}}}, secret("own-state")),
    ],
    "argument": [secret("no-argument"), {secret("name"): [secret("value")]}, (secret("name"), [secret("value")])],
    "context": [secret("no-context"), {secret("name"): [secret("value")]}],
    "headers": [{"X-A": secret("header") + "\n"}, secret("no-headers")],
    "request_meta": [secret("no-meta")],
    "cache": [secret("no-mode"), [secret("no-mode")]],
}


class Moody(MemoryCache):
    """A store that fails every third time, and says with what."""

    __slots__ = ("asked",)

    def get(self, keys: Sequence[bytes], /) -> list[bytes | None]:
        self.asked = getattr(self, "asked", 0) + 1
        if self.asked % 3 == 0:
            raise OSError(f"no way to {secret('store-address')} for {keys!r}")
        return super().get(keys)


OPTIONS: dict[str, Any] = {
    # each argument of the constructors but the target and the handlers
    "protocol": "auto",
    "timeout": 10.0,
    "retry": ferrule.Retry(attempts=2, backoff=0.0, max_backoff=0.0),
    "limits": ferrule.Limits(max_message_bytes=20_000, **FAST),
    "headers": {"X-Header": secret("header"), "Cookie": "user=" + secret("own-cookie")},
    "auth": secret("token"),
    "tls": None,
    "proxy": None,
    "client_info": {"name": "silence", "version": "1", "title": secret("client-info")},
    "request_meta": {"standing": secret("standing-meta")},
    "sampling_tools": True,
    "listen": None,
    "keep_lists": True,
    "validate_output": "warn",
    "extensions": [ferrule.Extension("com.example/thing", {"text": secret("setting")}, [secret("claimed")])],
    "cache": Moody(),
    "stale_if_error": 60.0,
    "capabilities": {"experimental": {"feature": {"text": secret("capability")}}},
    "log_level": "debug",
    "prior": None,
}
ONLY_HTTP = {"headers", "auth", "tls", "proxy"}


def public_members(kind: type = ferrule.Client) -> dict[str, Any]:
    """The public methods and properties of a class by name."""
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


HANDED_OUT: dict[str, type] = {"Subscription": ferrule.Subscription, "Task": ferrule.Task}
"""What clients hand out to be used, by name."""


HANDLES_OF_ASYNC = (ferrule.AsyncClient, ferrule.AsyncSubscription, ferrule.AsyncTask)
HANDLES = (ferrule.Client, *HANDED_OUT.values(), *HANDLES_OF_ASYNC)

BASES = {"CacheableResult", "Event", "ListResult", "ResponseCache", "Result", "Value", "TokenStore"}
"""Exported classes that nothing is, only its subclasses."""


def exported(flavour: str) -> set[str]:
    """The classes that programs of this flavour can import, but errors: to be shown, every one."""
    other = (ferrule.Client, *HANDED_OUT.values()) if flavour == "async" else HANDLES_OF_ASYNC
    found = {
        value
        for home in (ferrule, ferrule.types, ferrule.auth)
        for value in (getattr(home, name) for name in home.__all__)
        if inspect.isclass(value) and not issubclass(value, Exception)
    }
    return {value.__name__ for value in found - set(other)} - BASES


def everything() -> set[str]:
    """All that is to be driven."""
    handed_out = {f"{name}.{member}" for name, kind in HANDED_OUT.items() for member in public_members(kind)}
    return set(public_members()) | handed_out


def arguments_for(function: Any, http: bool) -> dict[str, Any]:
    """What a method is called with: a value for each of its parameters but the handlers.

    Raises:
        KeyError: A parameter's name is not in `ARGUMENTS`.
    """
    names = [name for name in inspect.signature(function).parameters if name != "self" and name not in BY_HANDLERS]
    return {name: ARGUMENTS[name] for name in names if http or name not in ONLY_HTTP}


def made_by_hand() -> list[Any]:
    """Values that people make, or read themselves from what `request` gave."""
    http = f"http://{secret('user')}:{secret('password')}@h/{{}}?{secret('query')}".format
    return [
        PromptReference(secret("prompt"), title=secret("title")),
        ResourceTemplateReference("demo://" + secret("template")),
        ferrule.Root("file:///" + secret("root"), secret("name")),
        ferrule.Stdio("program", secret("argument"), env={"A": secret("env")}),
        ferrule.Tcp("127.0.0.1", 9, http("mcp")),
        ferrule.Unix("/no/such/socket", http("mcp")),
        ferrule.ByteStream.tcp("127.0.0.1", 9),
        *received(),
        ListRootsResult((ferrule.Root("file:///" + secret("root")),)),
        InputRequiredResult({secret("asked"): {}}, secret("state")),
        ferrule.types.tools_for("openai", [ferrule.types.Tool.from_wire(tool())]),
        ARGUMENTS["resume"],
        read_input_request({"method": "roots/list", "params": {"_meta": {secret("roots-meta"): 1}}}),
        MemoryCache(),
        ferrule.RedisCache(secret("store-client"), prefix=secret("prefix"), secret=secret("store-secret").encode()),
        InitializeResult.from_wire(initialized()),
        ExtensionResult.from_wire({"resultType": secret("claimed-kind"), "more": secret("claimed-content")}),
        Skill.from_wire(
            {
                "uri": "skill://" + secret("skill"),
                "frontmatter": {"name": secret("skill-name"), "description": secret("skill-description")},
                "resources": [{"uri": secret("skill-file"), "digest": secret("digest"), "size": 1}],
            }
        ),
        CreateTaskResult.from_wire(good("handshake")["tools/call"]),
        Progress.from_wire({"progressToken": secret("token"), "progress": 1, "message": secret("progress")}),
    ]


def received() -> list[Any]:
    """What a server makes of a message."""
    envelope = ferrule.RequestEnvelope("2026-07-28", {secret("capability"): {}}, {"name": secret("client")})
    message = {"jsonrpc": "2.0", "id": secret("id"), "method": secret("method"), "params": {"_meta": {}}}
    refusal = ferrule.server.Refusal(-32022, "no", {"requested": secret("version")}, id=secret("id"))
    odd = envelope.replace(protocol_version=secret("version"))
    return [envelope, odd, ferrule.server.Validated(message, secret("method"), envelope), refusal]


class Run:
    """One flavour of the client over one transport in one era."""

    def __init__(self, flavour: Flavour, transport: str, era: str) -> None:
        self.flavour = flavour
        self.transport = transport
        self.era = era
        self.http = transport in servers.HTTP
        self.driven: set[str] = set()
        self.errors: set[str] = set()
        self.shown: set[str] = set()
        self.handlers = Handlers(self.show, flavour.is_async)

    def options(self, **changes: Any) -> dict[str, Any]:
        options = {**OPTIONS, **self.handlers.options, **changes}
        return {name: value for name, value in options.items() if self.http or name not in ONLY_HTTP}

    # What is printed

    def show(self, what: str, value: Any) -> None:
        """Print the representation of a value and of all that hangs on it."""
        for one in reachable(value):
            print(what, repr(one), one if isinstance(one, ferrule.types.Value) else "")
            self.shown.add(type(one).__name__)

    def attempt(self, what: str, call: Callable[[], Any]) -> Any:
        """Do something, and print what came of it: the value's repr, or all there is of the exception."""
        try:
            value = call()
        except Exception as error:
            self.show_error(what, error)
            return None
        target = getattr(value, "_target", value)
        if isinstance(target, HANDLES):  # what hangs on them is shown once, at the end
            print(what, repr(target))
            self.shown.add(type(target).__name__)
        else:
            self.show(what, value)
        return value

    def show_error(self, what: str, error: BaseException) -> None:
        print(what, "raised", repr(error), str(error))
        print("".join(traceback.format_exception(error)))
        self.errors.add(type(error).__name__)
        if getattr(error, "request_sent", False):
            logging.getLogger("application").warning("%s failed", what, exc_info=error)

    # What is used

    def use(self, client: Any, timeout: float, names: Iterable[str]) -> None:
        """Call methods of a client, read properties."""
        for name in names:
            value = self.attempt(name, lambda: self.member(client, name, timeout))  # noqa: B023
            self.driven.add(name)
            kind = type(getattr(value, "_target", value)).__name__.removeprefix("Async")
            if kind == "Client":  # a view
                self.attempt("view", lambda: value.call_tool("echo", {"text": secret("view-argument")}))  # noqa: B023
            elif kind == "Subscription":
                self.attempt("subscription", lambda: self.use_subscription(value, client, timeout))  # noqa: B023
            elif kind == "Task":
                self.use_handed_out("Task", value, timeout)

    def member(self, client: Any, name: str, timeout: float) -> Any:
        value = self.use_member(client, name, public_members()[name], timeout)
        return list(value) if name.startswith("iter_") else value

    def arguments(self, function: Any, timeout: float) -> dict[str, Any]:
        arguments = arguments_for(function, self.http)
        arguments |= {one: timeout for one in ("timeout", "max_total") if one in arguments}
        if self.era == "handshake":  # which knows no rounds
            arguments |= {one: None for one in ("resume",) if one in arguments}
        if "on_progress" in inspect.signature(function).parameters:
            arguments["on_progress"] = self.handlers.on_progress
        return arguments

    def use_subscription(self, changes: Any, client: Any, timeout: float) -> None:
        with changes:
            self.show("inside", getattr(changes, "_target", changes))
            # A session or child that is lost meanwhile is replaced, and what was subscribed to asked for again.
            self.use(client, timeout, ("ping", "call_tool"))
            while self.attempt("Subscription.next", lambda: changes.next(timeout=0.01)) is not None:
                pass
            self.use_handed_out("Subscription", changes, 0.01)
        self.attempt("Subscription.__iter__", lambda: list(changes))

    def use_handed_out(self, kind: str, value: Any, timeout: float) -> None:
        """Use all that is public of something, the last name first: what ends it begins with c."""
        for name, member in sorted(public_members(HANDED_OUT[kind]).items(), reverse=True):
            place = f"{kind}.{name}"
            self.attempt(place, lambda: self.use_member(value, place, member, timeout))  # noqa: B023
            self.driven.add(place)
            print(place, repr(value))

    def use_member(self, value: Any, place: str, member: Any, timeout: float) -> Any:
        found = getattr(value, place.rpartition(".")[2])
        if isinstance(member, property):
            return None if place in SHOWS_A_SECRET else found
        return found(**self.arguments(member, timeout))

    def misuse(self, client: Any) -> None:
        """Call every method with what it refuses, one argument at a time."""
        for name, member in public_members().items():
            if isinstance(member, property):
                continue
            right = self.arguments(member, 10.0)
            for parameter in right.keys() & WRONG.keys():
                for wrong in WRONG[parameter]:
                    self.attempt(f"{name} {parameter}", lambda: self.enter(client, name, {**right, parameter: wrong}))  # noqa: B023

    def enter(self, client: Any, name: str, arguments: dict[str, Any]) -> None:
        value = getattr(client, name)(**arguments)
        if name == "subscribe":
            with value:
                pass

    # From beginning to end

    def drive(self, target: Any, case: servers.Case, **changes: Any) -> None:
        """One client from beginning to end. Whether it connects, or all that fails is connecting, is known."""
        client = self.attempt("constructor", lambda: self.flavour.client(target, **self.options(**changes)))
        if client is None:
            return
        self.attempt("connect", lambda: client.connect(timeout=10.0 if case.connects else case.timeout))
        names = case.names or sorted(set(public_members()) - LAST)
        self.use(client, case.timeout, names if case.connects else servers.UNCONNECTED)
        if case.name == servers.WELL:
            self.misuse(client)
            self.settle(client)
        self.show("inside", getattr(client, "_target", client))
        self.attempt("close", client.close)
        self.driven |= LAST

    def settle(self, client: Any) -> None:
        """Call until every handler has been called, and has answered in every way."""
        wanted = expected_calls(self.transport, self.era)
        if self.era == "stateless":  # whose servers ask in cases of their own
            wanted -= ASKED

        def again() -> bool:
            if wanted <= self.handlers.called:
                return True
            self.use(client, 10.0, ("call_tool", "call_tool_task"))
            return False

        try:
            wait_for(again)
        except AssertionError:
            raise AssertionError(f"never called: {sorted(wanted - self.handlers.called)}") from None


def expected_calls(transport: str, era: str) -> set[str]:
    """What handlers of a run are to do."""
    told = set() if (transport, era) == ("json", "stateless") else TOLD
    # Beside a JSON answer, progress comes on another stream: before it or too late.
    return told | ASKED | (set() if transport == "json" else WATCHED)


def reachable(client: Any) -> Iterator[Any]:
    """Every object of the library's own that hangs on a client."""
    seen: set[int] = set()
    waiting = [client]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        own = type(one).__module__.partition(".")[0] == "ferrule"
        if own:
            yield one
        if own or isinstance(one, dict | list | tuple | set) or hasattr(one, "__self__"):
            waiting += gc.get_referents(one)


def main(name: str, transport: str, era: str, report: str) -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    flavour = Flavour(name)
    run = Run(flavour, transport, era)
    for one in [*made_by_hand(), *silence_auth.made_by_hand()]:
        run.show("made by hand", one)
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        world = World(stack, Path(folder), transport, era)
        for case in servers.cases(transport, era):
            print("===", case.name)
            run.drive(world.target(case), case, **world.options(case))
        for what, target, changes in servers.refused(transport):
            print("===", what)
            run.drive(target, servers.Case(what, "well", where=list(servers.NEGOTIATION)), **changes)
        flavour.finish()
    said = {"driven": run.driven, "errors": run.errors, "called": run.handlers.called, "shown": run.shown}
    Path(report).write_text(json.dumps({name: sorted(value) for name, value in said.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
