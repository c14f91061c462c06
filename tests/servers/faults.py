"""A server that misbehaves at any byte as `fault_plans` says, over HTTP and as a child on stdio.

Over HTTP it is a program of its own, so that it shares no interpreter lock with the client: `running()` starts it. The
path of a request, `/seed/name/...`, says which case this is and, by a name, which life of it; that path as a line on
its control port says that the case is over, and brings back how often each call arrived. On stdio `command` serves one
case; what arrived over all its lives stands in FOLDER/seen, and the file FOLDER/healed ends the case. After that all is
answered well.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.servers.fault_plans import (
    HEALTHY,
    REFUSED,
    Case,
    Fault,
    early_number,
    http_steps,
    line_steps,
    number_of,
    right_answer,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
_PROGRAM = "import sys; from tests.servers.faults import main; main(sys.argv[1:])"


def command(*arguments: str) -> list[str]:
    """The command line of this program; to be run in `ROOT`."""
    return [sys.executable, "-S", "-E", "-c", _PROGRAM, *arguments]


def running() -> AbstractContextManager[tuple[int, int]]:
    """Run the HTTP server; its port and that of its control."""
    import subprocess
    from contextlib import contextmanager

    @contextmanager
    def run() -> Iterator[tuple[int, int]]:
        pipe = subprocess.PIPE
        with subprocess.Popen(command("http"), stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                port, control = process.stdout.readline().split()
                yield int(port), int(control)
            finally:
                process.stdin.close()

    return run()


# --- HTTP ----------------------------------------------------------------------------------------


class Life:
    """What the HTTP server knows of one case."""

    def __init__(self, seed: int) -> None:
        self.case = Case(seed)
        self.healed = False
        self.connections: list[Connection] = []
        self.accepted = 0
        self.seen: dict[int, int] = {}
        """How often each call arrived, but for those that were refused before execution."""
        self.arrived: dict[str, int] = {}

    def note(self, n: int, fault: Fault | None) -> None:
        """Count an arrival of a call."""
        if fault is None or fault.kind not in REFUSED:
            self.seen[n] = self.seen.get(n, 0) + 1

    def heal(self) -> dict[int, int]:
        """From now on answer well; nothing that was begun goes on."""
        self.healed = True
        for connection in self.connections:
            connection.forget_steps()
        return self.seen


LIVES: dict[str, Life] = {}


def life_at(path: str) -> Life:
    """The life that a path stands for: `/seed/name/...`."""
    _, seed, name, *_ = path.split("/")
    key = f"{seed}/{name}"
    life = LIVES.get(key)
    if life is None:
        life = LIVES[key] = Life(int(seed))
    return life


class Connection:
    """One connection of a client's (an `asyncio.Protocol`)."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.buffer = b""
        self.received = 0
        self.life: Life | None = None
        self.number = 0
        self.timer: asyncio.TimerHandle | None = None
        self.busy = False
        self.counted = False
        self.unread = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.forget_steps()
        if self.life is not None:
            self.life.connections.remove(self)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.received += len(data)
        self.advance()

    def forget_steps(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.busy = False

    def advance(self) -> None:
        """Take the next request, as far as it is there."""
        if self.unread or self.busy or b"\r\n" not in self.buffer:
            return
        life = self.life or self.settle()
        hang_up = None if life.healed else life.case.hang_ups.get(self.number)
        if hang_up is not None and self.received >= hang_up[0]:
            self.step((hang_up[1],))
            return
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        verb = head.split(b" ", 1)[0].decode()
        place = head.lower().find(b"content-length:")
        size = int(head[place + 15 :].split(b"\r\n")[0]) if place > 0 else 0
        if verb == "POST" and not self.counted and self.leave_unread(life, rest, size):
            return
        if len(rest) < size:
            return
        self.buffer = rest[size:]
        self.handle(life, verb, json.loads(rest[:size]) if size else {"method": verb})
        # The next one may be here already, if this one was answered before it was read.
        self.advance()

    def settle(self) -> Life:
        """Find out from the first line which case this is."""
        life = self.life = life_at(self.buffer.split(b" ", 2)[1].decode())
        self.number = life.accepted
        life.accepted += 1
        life.connections.append(self)
        return life

    def leave_unread(self, life: Life, body: bytes, size: int) -> bool:
        """Do what is to be done before the whole request is there. True: it is being done."""
        n = early_number(body)
        fault = None if n is None or life.healed else life.case.fault_of(_call(n), 0)
        if n is None or fault is None or fault.kind not in ("unread", "early"):
            return False
        if fault.kind == "unread" and len(body) < fault.at * size // 1000:
            return False
        life.note(n, fault)
        self.counted = True
        if fault.kind == "early":
            self.busy = True
            self.run(http_steps(life.case, fault, _call(n), []))
            return True
        self.unread = True
        self.transport.pause_reading()
        if fault.seed % 2:
            self.step((fault.end,))
        return True

    def handle(self, life: Life, verb: str, message: Any) -> None:
        method = message.get("method", "reply")
        earlier = life.arrived.get(method, 0)
        life.arrived[method] = earlier + 1
        fault = None if life.healed else life.case.fault_of(message, earlier)
        n = number_of(message)
        if n is not None and not self.counted:
            life.note(n, fault)
        was_answered, self.counted = self.counted, False
        headers = []
        if method == "initialize" and life.case.session:
            headers = [f"Mcp-Session-Id: {life.case.seed}-{earlier}"]
        if was_answered:
            return
        if fault is not None:
            self.busy = True
            self.run(http_steps(life.case, fault, message, headers))
        elif verb != "POST":
            self.transport.write(b"HTTP/1.1 405 X\r\nContent-Length: 0\r\n\r\n")
        elif "id" not in message or "method" not in message:
            self.transport.write(b"HTTP/1.1 202 X\r\nContent-Length: 0\r\n\r\n")
        else:
            self.answer_well(life, message, headers)

    def answer_well(self, life: Life, message: Any, headers: list[str]) -> None:
        answer = right_answer(life.case, message)
        body = json.dumps(answer).encode()
        status = "200 X" if "result" in answer else "400 X"
        more = "".join(header + "\r\n" for header in headers)
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)

    def run(self, steps: Iterator[tuple[Any, ...]]) -> None:
        """Go on with the steps until one of them takes time."""
        for step in steps:
            if step[0] == "pause":
                import asyncio

                self.timer = asyncio.get_running_loop().call_later(step[1], self.run, steps)
                return
            if not self.step(step):
                return
        self.timer = None
        self.busy = False
        self.advance()

    def step(self, step: tuple[Any, ...]) -> bool:
        """Do one step. False: it was the last."""
        if step[0] == "write":
            self.transport.write(step[1])
            return True
        if step[0] == "reset":
            import socket
            import struct

            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        elif step[0] == "close":
            self.transport.close()
        return False


def _call(n: int) -> Any:
    return {"method": "tools/call", "params": {"arguments": {"n": n}}}


async def serve_http() -> None:
    """Serve until standard input ends."""
    import asyncio

    async def control(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        life = life_at((await reader.readline()).decode().strip())
        writer.write(json.dumps(life.heal()).encode())
        await writer.drain()
        writer.close()

    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(0, over.set)
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=512)  # type: ignore[arg-type]
    controls = await asyncio.start_server(control, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], controls.sockets[0].getsockname()[1], flush=True)
    await over.wait()


# --- stdio ---------------------------------------------------------------------------------------


class Child:
    """One life of the child; what earlier lives saw stands in the file."""

    def __init__(self, seed: int, folder: str) -> None:
        self.case = Case(seed)
        self.healed_path = os.path.join(folder, "healed")
        self.log = os.open(os.path.join(folder, "seen"), os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self.arrived: dict[bytes, int] = {}
        for name in os.read(self.log, 1 << 20).split(b"\n"):
            self.arrived[name] = self.arrived.get(name, 0) + 1
        self.held = b""
        self.at_line_start = True
        self.buffer = b""

    @property
    def healed(self) -> bool:
        return os.path.exists(self.healed_path)

    def run(self) -> None:
        """Answer line by line until the input ends."""
        import select

        while True:
            if self.held and not select.select([0], [], [], 0.02)[0]:
                self.release()
                continue
            data = os.read(0, 1 << 16)
            if not data:
                return
            self.buffer += data
            if b"\n" not in data:
                self.leave_unread()
                continue
            *lines, self.buffer = self.buffer.split(b"\n")
            for line in lines:
                self.take(json.loads(line))

    def leave_unread(self) -> None:
        """Stop reading in the middle of a call, if that is what meets it, until the case is over."""
        n = early_number(self.buffer)
        fault = None if n is None or self.healed else self.case.fault_of(_call(n), 0)
        if fault is not None and fault.kind == "unread":
            self.wait_for_end()

    def wait_for_end(self) -> None:
        import time

        while not self.healed and os.getppid() != 1:
            time.sleep(0.003)

    def note(self, name: bytes) -> int:
        """Write down that a message arrived; how many of its kind did before."""
        earlier = self.arrived.get(name, 0)
        self.arrived[name] = earlier + 1
        os.write(self.log, name + b"\n")
        return earlier

    def take(self, message: Any) -> None:
        n = number_of(message)
        name = message.get("method", "reply") if n is None else str(n)
        fault = self.case.fault_of(message, self.arrived.get(name.encode(), 0) if n is None else 0)
        if n is None or fault is None or fault.kind not in REFUSED:
            self.note(name.encode())
        if fault is not None and not self.healed:
            for step in line_steps(self.case, fault, message) if "id" in message else ():
                if not self.healed:
                    self.step(step)
        elif "id" in message and "method" in message:
            if not self.at_line_start:
                self.write(b"\n")
            self.write(json.dumps(right_answer(self.case, message)).encode() + b"\n")
        if fault is None or fault.kind != "hold":
            self.release()

    def step(self, step: tuple[Any, ...]) -> None:
        kind = step[0]
        if kind == "write":
            self.write(step[1])
        elif kind == "pause":
            import time

            time.sleep(step[1])
        elif kind == "hold":
            self.held += step[1]
        elif kind == "stall":
            self.wait_for_end()
        else:
            os._exit(3 if kind == "close" else 0)

    def release(self) -> None:
        if self.held:
            held, self.held = self.held, b""
            self.write(held)

    def write(self, data: bytes) -> None:
        if data:
            self.at_line_start = data.endswith(b"\n")
        while data:
            data = data[os.write(1, data) :]


def main(arguments: list[str]) -> None:
    if arguments[0] == "http":
        import asyncio

        asyncio.run(serve_http())
        return
    child = Child(int(arguments[1]), arguments[2])
    try:
        child.run()
    except BrokenPipeError:
        os._exit(0)


def seen_by_child(folder: Path) -> dict[int, int]:
    """How often each call arrived at a child of this folder."""
    seen: dict[int, int] = {}
    path = folder / "seen"
    for name in path.read_bytes().split() if path.exists() else ():
        if name.isdigit() and int(name) < HEALTHY:
            seen[int(name)] = seen.get(int(name), 0) + 1
    return seen
