"""A program that drives everything public with marked secrets everywhere and prints all that comes out.

    SECRET_MARK=... python -m tests.support.silence sync json stateless report.json

What is driven is found by reflection: each public method and property of the clients, its arguments by their names. A
test greps what the program printed; the report says what was driven and which errors came.
"""

from __future__ import annotations

import gc
import inspect
import json
import logging
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ferrule
from tests.support import silence_servers as servers
from tests.support.clients import Flavour
from tests.support.secrets import secret

SHOWS_A_SECRET = {"session_id", "instructions", "prior"}
"""Properties that return what is not to be printed, as their documentation says."""

FEW = ("call_tool", "list_tools", "notify", "server_info")
"""What is enough where the client cannot even connect."""

LAST = {"close"}


def angry(*_: Any) -> Any:
    """A handler of the user's that raises."""
    raise ValueError(secret("handler"))


def token() -> str:
    return secret("fresh-token")


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
    "on_progress": angry,
    "reset_on_progress": True,
    "max_total": 10.0,
    "idempotent": False,
    "raise_on_error": True,
    "headers": {"X-View": secret("view-header"), "Cookie": "a=" + secret("view-cookie")},
    "auth": token,
    "request_meta": meta,
}

OPTIONS: dict[str, Any] = {
    # each argument of the constructors but the target
    "protocol": "auto",
    "timeout": 10.0,
    "retry": ferrule.Retry(attempts=2, backoff=0.0, max_backoff=0.0),
    "limits": ferrule.Limits(max_message_bytes=20_000, restart_window=0, probe_timeout=1.0),
    "headers": {"X-Header": secret("header"), "Cookie": "user=" + secret("own-cookie")},
    "auth": secret("token"),
    "tls": None,
    "proxy": None,
    "client_info": {"name": "silence", "version": "1", "title": secret("client-info")},
    "request_meta": {"standing": secret("standing-meta")},
    "on_elicitation": angry,
    "on_sampling": angry,
    "sampling_tools": True,
    "roots": ["file:///" + secret("root")],
    "on_log": angry,
    "on_notification": angry,
    "listen": None,
    "keep_lists": True,
    "capabilities": {"experimental": {"feature": {"text": secret("capability")}}},
    "log_level": "debug",
    "prior": None,
}
ONLY_HTTP = {"headers", "auth", "tls", "proxy"}


def public_members() -> dict[str, Any]:
    """The public methods and properties of a client by name."""
    return {name: value for name, value in inspect.getmembers(ferrule.Client) if not name.startswith("_")}


def arguments_for(function: Any, http: bool) -> dict[str, Any]:
    """What a method is called with: a value for each of its parameters.

    Raises:
        KeyError: A parameter's name is not in `ARGUMENTS`.
    """
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return {name: ARGUMENTS[name] for name in names if http or name not in ONLY_HTTP}


class Run:
    """One flavour of the client over one transport in one era."""

    def __init__(self, flavour: Flavour, transport: str, era: str) -> None:
        self.flavour = flavour
        self.transport = transport
        self.era = era
        self.http = transport in servers.HTTP
        self.driven: set[str] = set()
        self.errors: set[str] = set()

    def options(self, **changes: Any) -> dict[str, Any]:
        options = {**OPTIONS, **changes}
        return {name: value for name, value in options.items() if self.http or name not in ONLY_HTTP}

    def attempt(self, what: str, call: Callable[[], Any]) -> Any:
        """Do something, and print what came of it: the value's repr, or all there is of the exception."""
        try:
            value = call()
        except Exception as error:
            self.show_error(what, error)
            return None
        for one in value if isinstance(value, list | tuple) else [value]:
            if type(one).__module__.partition(".")[0] in ("ferrule", "tests"):
                print(what, repr(one), one)
        return value

    def show_error(self, what: str, error: BaseException) -> None:
        print(what, "raised", repr(error), str(error))
        print("".join(traceback.format_exception(error)))
        self.errors.add(type(error).__name__)
        if getattr(error, "request_sent", False):
            logging.getLogger("application").warning("%s failed", what, exc_info=error)

    def use(self, client: Any, timeout: float, names: Iterable[str]) -> None:
        """Call methods of a client, read properties."""
        for name in names:
            self.attempt(name, lambda: self.member(client, name, timeout))  # noqa: B023
            self.driven.add(name)

    def member(self, client: Any, name: str, timeout: float) -> Any:
        member = public_members()[name]
        if isinstance(member, property):
            value = getattr(client, name)
            return None if name in SHOWS_A_SECRET else value
        arguments = arguments_for(member, self.http)
        arguments |= {one: timeout for one in ("timeout", "max_total") if one in arguments}
        value = getattr(client, name)(**arguments)
        if hasattr(value, "call_tool"):  # a view
            self.attempt("view", lambda: value.call_tool("echo", {"text": secret("view-argument")}))
            return repr(value)
        if name.startswith("iter_"):
            return list(value)
        if hasattr(value, "__enter__"):
            with value as entered:
                return entered
        return value

    def drive(self, target: Any, timeout: float = 10.0, *, connects: bool = True, **changes: Any) -> None:
        """One client from beginning to end. Whether it connects, or all that fails is connecting, is known."""
        client = self.attempt("constructor", lambda: self.flavour.client(target, **self.options(**changes)))
        if client is None:
            return
        self.attempt("connect", lambda: client.connect(timeout=10.0 if connects else timeout))
        self.use(client, timeout, sorted(set(public_members()) - LAST) if connects else FEW)
        for one in reachable(getattr(client, "_target", client)):
            print("inside", repr(one))
        self.attempt("close", client.close)
        self.driven |= LAST


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
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        world = servers.World(stack, Path(folder), transport, era)
        for case in servers.cases(transport, era):
            print("===", case.name)
            run.drive(world.target(case), case.timeout, connects=case.connects, **world.options(case))
        for what, target, changes in servers.refused(transport):
            print("===", what)
            run.drive(target, connects=False, **changes)
        flavour.finish()
    Path(report).write_text(json.dumps({"driven": sorted(run.driven), "errors": sorted(run.errors)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
