"""A small real MCP server to try a client on: `python -m ferrule.demo_server [--http [PORT]]`.

It speaks both eras over stdio and Streamable HTTP, and knows nothing of the client it ships with:
standard library only. Not for production: it listens on 127.0.0.1 alone and keeps its sessions in
memory.
"""

from __future__ import annotations

import json
import sys
import threading

from ._demo.answers import (
    PARSE_ERROR,
    Job,
    Problem,
    check_envelope,
    check_message,
    failure,
    is_stateless,
    perform,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._demo.answers import Message


class StdioServer:
    """One line in, one line out; a thread per request, so that a slow one holds up nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[Any, Job] = {}

    def run(self) -> None:
        """Serve until stdin ends."""
        workers: list[threading.Thread] = []
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
        for job in list(self._jobs.values()):
            job.cancelled.set()
        for worker in workers:
            worker.join(1.0)

    def _take(self, message: Message) -> threading.Thread | None:
        if message.get("method") == "notifications/cancelled":
            job = self._jobs.get((message.get("params") or {}).get("requestId"))
            if job is not None:
                job.cancelled.set()
        if "method" not in message or "id" not in message:
            return None
        job = Job(message, stateless=is_stateless(message), notify=self._write)
        self._jobs[message["id"]] = job
        worker = threading.Thread(target=self._work, args=(message, job), daemon=True)
        worker.start()
        return worker

    def _work(self, message: Message, job: Job) -> None:
        try:
            if job.stateless:
                check_envelope(message)
            answer = perform(message, job)
        except Problem as problem:
            answer = failure(message, problem)
        self._jobs.pop(message["id"], None)
        if not job.cancelled.is_set():
            self._write(answer)

    def _write(self, message: Message) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                pass  # the client has gone; stdin will end


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
    print(server.url, flush=True)
    with server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
