"""A stdio server whose behaviour a test scripts; run as a program, and imported for its vocabulary.

The script travels as JSON, so its steps are plain lists made by the functions below. Every message
the child received, over all its lives, is appended to a file that `ScriptedChild` reads. Standard
library only, so that it starts in about 20 ms.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule import Stdio

Step = list[Any]
Message = dict[str, Any]
PATIENCE = 10.0

# --- steps ---------------------------------------------------------------------------------------


def answer(result: Any = None, *, id: Any = "same") -> Step:
    """A result; None is a text block "ok"."""
    return ["answer", result, id]


def echo() -> Step:
    """A text block that holds the call's arguments as JSON."""
    return ["echo"]


def hold() -> Step:
    """Keep the request for a later `release`."""
    return ["hold"]


def release() -> Step:
    """Echo this request and then those that were held, the latest first."""
    return ["release"]


def error(code: int, message: str = "refused", data: Any = None) -> Step:
    return ["error", code, message, data]


def progress(value: float, total: float | None = None, message: str | None = None) -> Step:
    """Progress under the request's own token."""
    return ["progress", value, total, message]


def send(message: Any) -> Step:
    """Any message of the server's own (a notification, a request, a batch)."""
    return ["send", message]


def raw(data: bytes) -> Step:
    """Bytes on stdout as they are, but `$ID` is the request's id."""
    return ["raw", data.decode("latin-1")]


def big(size: int) -> Step:
    """A result whose text has `size` characters."""
    return ["big", size]


def stderr(text: str) -> Step:
    return ["stderr", text]


def surroundings() -> Step:
    """A text block of JSON: the child's environ, cwd, and the arguments after its own."""
    return ["surroundings"]


def deaf() -> Step:
    """Close stdin, and go on."""
    return ["deaf"]


def mute() -> Step:
    """Close stdout, and go on."""
    return ["mute"]


def die(code: int = 0, *, by_signal: int | None = None) -> Step:
    """End at once, with a status or by a signal."""
    return ["die", code, by_signal]


def wait(path: Path) -> Step:
    """Hold until the test has made this file."""
    return ["wait", str(path)]


def sleep(seconds: float) -> Step:
    """Be slow. Only where being slow is the point; to order events use `wait`."""
    return ["sleep", seconds]


def hang() -> Step:
    """Read and answer nothing any more; stdin is not read either."""
    return ["hang"]


def stubborn() -> Step:
    """From now on ignore SIGTERM and the end of stdin."""
    return ["stubborn"]


def grandchild(pid_file: Path) -> Step:
    """Start a child of one's own that would outlive this one; its pid goes into the file."""
    return ["grandchild", str(pid_file)]


class ScriptedChild:
    """What a test holds: `child.stdio()` is the target for a client, `child.messages` what arrived.

    Args:
        folder: a fresh directory (`tmp_path`).
        rules: method -> list of scripts, one per request of that method over all lives, the last
            one again and again; a script is a list of steps. Also "start" (when a life begins),
            "eof" (stdin ended), "reply", and "*". Methods without a rule are answered as a well-
            behaved server of the era would.
        era: "stateless", "handshake", or "both".
    """

    def __init__(
        self,
        folder: Path,
        rules: dict[str, list[list[Step]]] | None = None,
        *,
        era: str = "stateless",
    ) -> None:
        self._log = folder / "messages.jsonl"
        self._spec = folder / "script.json"
        self._spec.write_text(json.dumps({"rules": rules or {}, "era": era, "log": str(self._log)}))
        self.argv = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(self._spec)]

    def stdio(self, **options: Any) -> Stdio:
        """A `ferrule.Stdio` that starts this child."""
        import ferrule

        return ferrule.Stdio(*self.argv, **options)

    @property
    def _entries(self) -> list[Message]:
        if not self._log.exists():
            return []
        lines = self._log.read_bytes().split(b"\n")
        return [json.loads(line) for line in lines[:-1]]

    @property
    def messages(self) -> list[Message]:
        """Every message received, over all lives, in order."""
        return [entry["message"] for entry in self._entries if "message" in entry]

    @property
    def pids(self) -> list[int]:
        """The process of each life."""
        return [entry["pid"] for entry in self._entries if "pid" in entry]

    def count(self, method: str) -> int:
        return len(self.calls(method))

    def calls(self, method: str = "tools/call") -> list[Message]:
        return [m for m in self.messages if isinstance(m, dict) and m.get("method") == method]

    def wait_until(self, condition: Any, timeout: float = PATIENCE) -> None:
        """Wait until the condition holds, looking every 5 ms."""
        limit = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < limit, f"not within {timeout:g} s"
            time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """Does the process exist (a zombie counts)?"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Does the process exist, and not as a zombie? For one whose parent may reap it late, or never."""
    if not Path("/proc/self/stat").exists():
        return is_alive(pid)
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- the program ---------------------------------------------------------------------------------

_INFO = {"name": "scripted", "version": "1.0"}
_CAPABILITIES: Message = {"tools": {}, "resources": {}, "prompts": {}}
_HINTS: Message = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class _Child:
    def __init__(self, spec: Message) -> None:
        self.rules: dict[str, list[list[Step]]] = spec["rules"]
        self.era: str = spec["era"]
        self.log_path: str = spec["log"]
        self.used: dict[str, int] = {}
        self.stubborn = False
        self.held: list[Message] = []
        self._count_earlier_lives()
        self.log({"pid": os.getpid()})

    def _count_earlier_lives(self) -> None:
        if not os.path.exists(self.log_path):
            return
        with open(self.log_path, "rb") as file:
            for line in file:
                entry = json.loads(line)
                key = "start" if "pid" in entry else _method(entry["message"])
                self.used[key] = self.used.get(key, 0) + 1

    def log(self, entry: Message) -> None:
        line = json.dumps(entry).encode() + b"\n"
        handle = os.open(self.log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line)
        os.close(handle)

    def run(self) -> None:
        self.perform("start", {})
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.log({"message": message})
            self.perform(_method(message), message)
        self.perform("eof", {})
        while self.stubborn:
            time.sleep(1)

    def perform(self, method: str, message: Any) -> None:
        scripts = self.rules.get(method) or self.rules.get("*")
        used = self.used.get(method, 0)
        self.used[method] = used + 1
        if scripts:
            for name, *arguments in scripts[min(used, len(scripts) - 1)]:
                getattr(self, "do_" + name)(message, *arguments)
        elif isinstance(message, dict) and "method" in message and "id" in message:
            self.ordinary(message)

    def write(self, message: Any) -> None:
        self.write_bytes(json.dumps(message).encode() + b"\n")

    def write_bytes(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def ordinary(self, message: Message) -> None:
        result = ordinary_result(message, self.era)
        if result is None:
            self.do_error(message, -32601, "Method not found")
        else:
            self.do_answer(message, result)

    def do_answer(self, message: Message, result: Any, id: Any = "same") -> None:
        own = message.get("id") if id == "same" else id
        value = _text("ok") if result is None else result
        self.write({"jsonrpc": "2.0", "id": own, "result": value})

    def do_echo(self, message: Message) -> None:
        arguments = message.get("params", {}).get("arguments", {})
        self.do_answer(message, _text(json.dumps(arguments, sort_keys=True)))

    def do_hold(self, message: Message) -> None:
        self.held.append(message)

    def do_release(self, message: Message) -> None:
        self.do_echo(message)
        while self.held:
            self.do_echo(self.held.pop())

    def do_error(self, message: Message, code: int, text: str, data: Any = None) -> None:
        problem = {"code": code, "message": text} | ({} if data is None else {"data": data})
        self.write({"jsonrpc": "2.0", "id": message.get("id"), "error": problem})

    def do_progress(self, message: Message, value: float, total: Any, text: Any) -> None:
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        params = {"progressToken": token, "progress": value}
        params |= {k: v for k, v in (("total", total), ("message", text)) if v is not None}
        self.write({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    def do_send(self, _: Message, message: Any) -> None:
        self.write(message)

    def do_raw(self, message: Message, data: str) -> None:
        self.write_bytes(data.replace("$ID", json.dumps(message.get("id"))).encode("latin-1"))

    def do_surroundings(self, message: Message) -> None:
        seen = {"environ": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[2:]}
        self.do_answer(message, _text(json.dumps(seen)))

    def do_deaf(self, _: Message) -> None:
        os.close(0)

    def do_mute(self, _: Message) -> None:
        os.close(1)

    def do_big(self, message: Message, size: int) -> None:
        self.do_answer(message, _text("x" * size))

    def do_stderr(self, _: Message, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def do_die(self, _: Message, code: int, by_signal: int | None) -> None:
        if by_signal is not None:
            os.kill(os.getpid(), by_signal)
        os._exit(code)

    def do_wait(self, _: Message, path: str) -> None:
        while not os.path.exists(path):
            time.sleep(0.005)

    def do_sleep(self, _: Message, seconds: float) -> None:
        time.sleep(seconds)

    def do_hang(self, _: Message) -> None:
        while True:
            time.sleep(60)

    def do_stubborn(self, _: Message) -> None:
        self.stubborn = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def do_grandchild(self, _: Message, pid_file: str) -> None:
        program = "import time; time.sleep(300)"
        child = subprocess.Popen([sys.executable, "-I", "-S", "-c", program])
        partial = pid_file + ".partial"
        with open(partial, "w") as file:
            file.write(str(child.pid))
        os.rename(partial, pid_file)


def _method(message: Any) -> str:
    if not isinstance(message, dict):
        return "batch"
    return str(message.get("method", "reply"))


def _text(value: str) -> Message:
    return {"resultType": "complete", "content": [{"type": "text", "text": value}]}


def ordinary_result(message: Message, era: str) -> Message | None:
    method, params = message["method"], message.get("params") or {}
    if method == "server/discover" and era != "handshake":
        meta = {"io.modelcontextprotocol/serverInfo": _INFO}
        versions = {"supportedVersions": ["2026-07-28"]}
        return {**_HINTS, **versions, "capabilities": _CAPABILITIES, "_meta": meta}
    if method == "initialize" and era != "stateless":
        version = params.get("protocolVersion")
        return {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": _INFO}
    arguments = json.dumps(params.get("arguments", {}), sort_keys=True)
    ordinary: dict[str, Message] = {
        "ping": {},
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], **_HINTS},
        "tools/call": _text(arguments),
        "resources/list": {"resources": [{"uri": "demo://a", "name": "a"}], **_HINTS},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": "demo://{x}", "name": "t"}],
            **_HINTS,
        },
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": "hello"}], **_HINTS},
        "prompts/list": {"prompts": [{"name": "greet"}], **_HINTS},
        "prompts/get": {
            "resultType": "complete",
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        },
    }
    return ordinary.get(method)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as script:
        _Child(json.load(script)).run()
