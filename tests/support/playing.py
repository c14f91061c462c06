"""Plays a case of the fault server with a client, and judges everything that comes out.

Knows what is right: each call ends in time, with the result that is its own or a `FerruleError`; no call arrives more
often than it may; an error of a call that arrived says that it was sent; afterwards the same client works, and
nothing of it is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from ferrule import AsyncClient, Client, Limits, Retry, Stdio
from ferrule.errors import FerruleError, SessionExpired
from tests.servers import faults
from tests.servers.fault_plans import DAMAGING, HANDSHAKE, HEALTHY, MAX_MESSAGE, STATELESS, Ask, Case, intact

GRACE = float(os.environ.get("FERRULE_FAULT_GRACE", "5"))
"""Seconds that a call may end after its deadline: the machine may be busy, the calls are many."""
CALM = 10.0
"""Seconds after the last call in which what goes on in the background (draining, telling of cancellations) ends."""
LIMITS = Limits(
    max_message_bytes=MAX_MESSAGE,
    probe_timeout=0.3,
    cancel_timeout=0.3,
    close_timeout=3,
    exit_grace=0.3,
    restart_window=0,
    restart_backoff=0,
    max_retry_after=0.5,
)


class Stage:
    """Where a case is played: its server, and what was found wrong.

    Args:
        case: The case.
        ports: The HTTP server's port and its control's.
        folder: A fresh directory, for a child.
    """

    def __init__(self, case: Case, ports: tuple[int, int], folder: Path) -> None:
        self.case = case
        self.ports = ports
        self.folder = folder
        self.path = f"/{case.seed}/{folder.name}/mcp"
        self.problems: list[str] = []
        self.denied: dict[int, str] = {}
        """The errors, as text, of calls that were not sent if one believes them."""

    def target(self) -> Any:
        if self.case.transport == "http":
            return f"http://127.0.0.1:{self.ports[0]}{self.path}"
        self.folder.mkdir()
        argv = faults.command("stdio", str(self.case.seed), str(self.folder))
        return Stdio(*argv, cwd=str(faults.ROOT), stderr="discard")

    def options(self) -> dict[str, Any]:
        case = self.case
        revision = STATELESS if case.era == "stateless" else HANDSHAKE
        return {
            "protocol": revision if case.pinned else "auto",
            "limits": LIMITS,
            "retry": Retry(case.attempts, 0.005, 0.02),
            "timeout": 5.0,
        }

    def problem(self, text: str) -> None:
        self.problems.append(f"{text} in {self.case!r}")

    # What is true of one call

    def judge(self, ask: Ask, outcome: Any, seconds: float) -> None:
        """Look at what a call returned or raised."""
        if isinstance(outcome, FerruleError) and not outcome.request_sent:
            self.denied[ask.n] = repr(outcome)
        late = seconds - ask.timeout
        if late > GRACE:
            self.problem(f"call {ask.n} ended {late:.2f} s late with {outcome!r}")
        if isinstance(outcome, asyncio.CancelledError):
            if ask.cancel is None:
                self.problem(f"call {ask.n} was cancelled by nobody")
        elif isinstance(outcome, BaseException):
            if not isinstance(outcome, FerruleError):
                self.problem(f"call {ask.n} raised {outcome!r}")
        elif outcome != intact(self.case.seed, ask.n):
            self.judge_other_text(ask, outcome)

    def judge_other_text(self, ask: Ask, text: object) -> None:
        """Only damage explains another text, and none explains that of another call."""
        others = [intact(self.case.seed, other.n) for other in self.case.asks if other is not ask]
        if ask.fault.kind not in DAMAGING or text in others:
            self.problem(f"call {ask.n} got {text!r}")

    def judge_arrivals(self, seen: dict[int, int]) -> None:
        """At most once, or as often as was allowed; and who was heard knows that it spoke."""
        for ask in self.case.asks:
            count = seen.get(ask.n, 0)
            allowed = self.case.attempts if ask.idempotent else 1
            # In a new session an idempotent call is sent once more, whatever the attempts (S2).
            allowed += ask.idempotent
            if count > allowed:
                self.problem(f"call {ask.n} arrived {count} times")
            if count and ask.n in self.denied:
                self.problem(f"call {ask.n} arrived, but {self.denied[ask.n]} says it was not sent")

    # What is left

    def rest(self, client: Any) -> str | None:
        """What still waits for something although no call does; None if nothing."""
        session = client._session
        transport = session.transport
        if self.case.transport == "stdio":
            child = transport._child
            if child is not None and child.pending:
                return f"{len(child.pending)} calls stand in the pending table"
        else:
            pool = transport._pool
            if pool._places != pool.limits.max_connections or pool._waiters:
                return f"the pool has {pool._places} places and {len(pool._waiters)} waiters"
            if session.io.blocking:
                pool._settle()  # as the next call would
            if pool._draining:
                return f"{len(pool._draining)} connections are drained for ever"
        waiting = getattr(session.io, "_waiting", None)
        if not waiting:
            return None
        due = [f"{deadline - time.monotonic():.2f} s" for deadline in waiting.values()]
        return f"slots stand in the table of waiters, due in {due}"

    def judge_end(self, client: Any) -> None:
        """Closed is closed."""
        transport = client._session.transport
        if self.case.transport == "http" and transport._pool.connections:
            self.problem(f"{transport._pool!r} after close")


def padded(ask: Ask) -> dict[str, Any]:
    """The arguments of a tool call; `n` comes first."""
    return {"n": ask.n, "padding": "x" * ask.padding}


# --- Client --------------------------------------------------------------------------------------


def play(stage: Stage) -> None:
    """Play a case with `Client`."""
    case = stage.case
    client = Client(stage.target(), **stage.options())
    try:
        if case.together:
            threads = [threading.Thread(target=_ask, args=(stage, client, ask), daemon=True) for ask in case.asks]
            for thread in threads:
                thread.start()
            for thread, ask in zip(threads, case.asks, strict=True):
                thread.join(ask.timeout + 3 * GRACE)
                if thread.is_alive():
                    stage.problem(f"call {ask.n} hangs")
        else:
            for ask in case.asks:
                _ask(stage, client, ask)
        seen = _heal(stage)
        stage.judge_arrivals(seen)
        time.sleep(0.003)  # an idle connection is looked at once it was idle for a millisecond
        _check_health(stage, client)
        limit = time.monotonic() + CALM
        while (rest := stage.rest(client)) is not None and time.monotonic() < limit:
            time.sleep(0.02)
        if rest is not None:
            stage.problem(rest)
    finally:
        began = time.monotonic()
        client.close()
        if time.monotonic() - began > LIMITS.close_timeout + GRACE:
            stage.problem(f"close took {time.monotonic() - began:.2f} s")
    stage.judge_end(client)


def _ask(stage: Stage, client: Client, ask: Ask) -> None:
    began = time.monotonic()
    outcome: Any = None
    try:
        if ask.method == "tools/list":
            outcome = client.list_tools_page(str(ask.n), timeout=ask.timeout).next_cursor
        else:
            outcome = client.call_tool(
                "do",
                padded(ask),
                timeout=ask.timeout,
                idempotent=ask.idempotent,
                on_progress=_ignore if ask.progress else None,
            ).text
    except BaseException as error:
        outcome = error
    stage.judge(ask, outcome, time.monotonic() - began)


def _heal(stage: Stage) -> dict[int, int]:
    if stage.case.transport == "stdio":
        (stage.folder / "healed").touch()
        time.sleep(0.01)
        return faults.seen_by_child(stage.folder)
    with socket.create_connection(("127.0.0.1", stage.ports[1]), 20) as control:
        control.sendall(stage.path.encode() + b"\n")
        answer = b""
        while data := control.recv(4096):
            answer += data
    return {int(n): count for n, count in json.loads(answer).items()}


def _check_health(stage: Stage, client: Client) -> None:
    for n, again in ((HEALTHY, True), (HEALTHY + 1, False)):
        try:
            text = client.call_tool("do", {"n": n, "padding": ""}, timeout=10).text
        except SessionExpired:
            if again:
                continue
            raise
        except Exception as error:
            stage.problem(f"a healthy server's answer became {error!r}")
            return
        if text != intact(stage.case.seed, n):
            stage.problem(f"healthy call {n} got {text!r}")


def _ignore(progress: float, total: float | None, message: str | None) -> None:
    pass


# --- AsyncClient ---------------------------------------------------------------------------------


async def play_async(stage: Stage) -> None:
    """Play a case with `AsyncClient`."""
    case = stage.case
    client = AsyncClient(stage.target(), **stage.options())
    try:
        if case.together:
            await asyncio.gather(*(_ask_async(stage, client, ask) for ask in case.asks))
        else:
            for ask in case.asks:
                await _ask_async(stage, client, ask)
        seen = await _heal_async(stage)
        stage.judge_arrivals(seen)
        await asyncio.sleep(0.003)
        await _check_health_async(stage, client)
        limit = time.monotonic() + CALM
        while (rest := stage.rest(client)) is not None and time.monotonic() < limit:
            await asyncio.sleep(0.02)
        if rest is not None:
            stage.problem(rest)
    finally:
        began = time.monotonic()
        await client.aclose()
        if time.monotonic() - began > LIMITS.close_timeout + GRACE:
            stage.problem(f"close took {time.monotonic() - began:.2f} s")
    stage.judge_end(client)


async def _ask_async(stage: Stage, client: AsyncClient, ask: Ask) -> None:
    began = time.monotonic()

    async def call() -> Any:
        if ask.method == "tools/list":
            return (await client.list_tools_page(str(ask.n), timeout=ask.timeout)).next_cursor
        result = await client.call_tool(
            "do",
            padded(ask),
            timeout=ask.timeout,
            idempotent=ask.idempotent,
            on_progress=_ignore if ask.progress else None,
        )
        return result.text

    task = asyncio.ensure_future(call())
    if ask.cancel is not None:
        asyncio.get_running_loop().call_later(ask.cancel, task.cancel)
    done, _ = await asyncio.wait([task], timeout=ask.timeout + 3 * GRACE)
    if not done:
        stage.problem(f"call {ask.n} hangs")
        task.cancel()
    outcome: Any = (await asyncio.gather(task, return_exceptions=True))[0]
    stage.judge(ask, outcome, time.monotonic() - began)


async def _heal_async(stage: Stage) -> dict[int, int]:
    if stage.case.transport == "stdio":
        return await asyncio.to_thread(_heal, stage)
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.ports[1])
    try:
        writer.write(stage.path.encode() + b"\n")
        answer = json.loads(await reader.read())
    finally:
        writer.close()
        await writer.wait_closed()
    return {int(n): count for n, count in answer.items()}


async def _check_health_async(stage: Stage, client: AsyncClient) -> None:
    for n, again in ((HEALTHY, True), (HEALTHY + 1, False)):
        try:
            text = (await client.call_tool("do", {"n": n, "padding": ""}, timeout=10)).text
        except SessionExpired:
            if again:
                continue
            raise
        except Exception as error:
            stage.problem(f"a healthy server's answer became {error!r}")
            return
        if text != intact(stage.case.seed, n):
            stage.problem(f"healthy call {n} got {text!r}")
