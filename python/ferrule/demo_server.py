"""A small real MCP server to try a client on: `python -m ferrule.demo_server [--http [PORT]]`.

It speaks both eras over stdio and Streamable HTTP, and knows nothing of the client it ships with:
standard library only. Not for production: it listens on 127.0.0.1 alone and keeps its sessions in
memory. What is written to `demo://note` it tells those who subscribed.
"""

from __future__ import annotations

import json
import signal
import sys
import threading

from ._demo.answers import (
    PARSE_ERROR,
    UPDATED,
    Job,
    Problem,
    check_envelope,
    check_message,
    failure,
    is_stateless,
    notification,
    perform,
)
from ._demo.changes import Changes, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._demo.answers import Message


_POLL_SECONDS = 0.1
"""How often the HTTP server looks whether it is to stop."""


class StdioServer:
    """One line in, one line out; a thread per request, so that a slow one holds up nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Any, Job] = {}
        self._changes = Changes()
        self._session = Watch()
        """What the handshake era's one session is told of."""

    def run(self) -> None:
        """Serve until stdin ends."""
        self._changes.add(self._session)
        workers = [_started(self._announce)]
        for line in sys.stdin.buffer:
            try:
                message = check_message(json.loads(line))
            except (ValueError, RecursionError):
                self._write(failure(None, Problem(PARSE_ERROR, "Not JSON")))
            except Problem as problem:
                self._write(failure(None, problem))
            else:
                if worker := self._take(message):
                    workers = [each for each in workers if each.is_alive()] + [worker]
        self._session.end()
        for job in list(self._jobs.values()):
            job.cancel()
        for worker in workers:
            worker.join(1.0)

    def _announce(self) -> None:
        self._session.claim()
        self._session.follow(lambda uri: self._write(notification(UPDATED, {"uri": uri})), lambda: None)

    def _take(self, message: Message) -> threading.Thread | None:
        if message.get("method") == "notifications/cancelled":
            job = self._jobs.pop((message.get("params") or {}).get("requestId"), None)
            if job is not None:
                job.cancel()
        if "method" not in message or "id" not in message:
            return None
        session = None if is_stateless(message) else self._session
        job = Job(message, self._changes, self._write, session=session)
        self._jobs[message["id"]] = job
        return _started(self._work, message, job)

    def _work(self, message: Message, job: Job) -> None:
        try:
            if job.stateless:
                check_envelope(message)
            answer = perform(message, job)
        except Problem as problem:
            answer = failure(message, problem)
        if self._jobs.pop(message["id"], None) is job:  # else it was cancelled
            self._write(answer)

    def _write(self, message: Message) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                pass  # the client has gone; stdin will end


def _started(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def main(arguments: list[str]) -> int:
    """Serve over stdio, or over HTTP with `--http [PORT]`, until told to stop."""
    if not arguments:
        StdioServer().run()
        return 0
    if arguments[0] != "--http" or len(arguments) > 2 or not "".join(arguments[1:] or "0").isdecimal():
        print("usage: python -m ferrule.demo_server [--http [PORT]]", file=sys.stderr)
        return 2
    from ._demo.http import HTTPServer

    try:
        server = HTTPServer(int(arguments[1]) if arguments[1:] else 0)
    except (OSError, OverflowError) as error:
        print(f"cannot listen on port {arguments[1]}: {error}", file=sys.stderr)
        return 1
    # An exception from the signal would cut off whoever is being accepted; `shutdown` waits, so not in this thread.
    signal.signal(signal.SIGTERM, lambda *_: _started(server.shutdown))
    print(server.url, flush=True)
    with server:
        server.serve_forever(_POLL_SECONDS)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
