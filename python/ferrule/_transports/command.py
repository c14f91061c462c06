"""A server that is a program: what to start, in which environment.

Knows argument vectors and platforms; starting is the IO's business, talking `stdio`'s.
"""

from __future__ import annotations

import errno
import os
import sys

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What of this process's environment a child sees unless told otherwise: what programs need to run, no secrets.
_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_INHERITED_ON_WINDOWS = (
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
)
_MEANT_FOR_CMD = '&|<>^%!"\r\n'
"""Characters that cmd.exe reads as more than text, quoted or not."""


_SHORT_OF = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY})
"""Why a program that can be started may not start just now: too little of something, or being written."""


class Stdio:
    """A server that is a program: started by the client, spoken to over its standard streams.

    Args:
        command: The program, found on PATH; no shell is involved.
        args: Its arguments.
        env: Environment variables besides the few safe ones every child gets (PATH, HOME, ...).
        inherit_env: Give the child this process's whole environment. Default False.
        cwd: The directory it starts in.
        stderr: "inherit" (default: it goes where this process's goes), "discard", or a function that is called with
            each line of bytes: from a thread of its own under `Client`, from the event loop under `AsyncClient`.
    """

    __slots__ = ("argv", "cwd", "env", "inherit_env", "stderr")

    def __init__(
        self,
        command: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        inherit_env: bool = False,
        cwd: str | os.PathLike[str] | None = None,
        stderr: str | Callable[[bytes], object] = "inherit",
    ) -> None:
        argv = (command, *args)
        variables = dict(env or {})
        if not all(_is_text(one) for one in argv) or not command:
            raise ConfigError("Stdio: command and arguments must be str without NUL")
        if not all(_is_text(name) and name and "=" not in name for name in variables):
            raise ConfigError('Stdio: names in env must be str without NUL and "="')
        if not all(_is_text(value) for value in variables.values()):
            raise ConfigError("Stdio: values in env must be str without NUL")
        if not callable(stderr) and stderr not in ("inherit", "discard"):
            raise ConfigError('Stdio: stderr must be "inherit", "discard" or a function')
        self.argv = argv
        self.env = variables
        self.inherit_env = inherit_env
        self.cwd = os.fspath(cwd) if cwd is not None else None
        self.stderr = stderr

    def __repr__(self) -> str:
        return f"Stdio({self.argv[0]!r}, {len(self.argv) - 1} arguments)"

    @property
    def label(self) -> str:
        """The program's name, as texts show it. Arguments may hold secrets."""
        return os.path.basename(self.argv[0]) or self.argv[0]

    def environment(self) -> dict[str, str]:
        """The child's whole environment."""
        on_windows = sys.platform == "win32"
        if self.inherit_env:
            base = dict(os.environ)
        else:
            names = _INHERITED_ON_WINDOWS if on_windows else _INHERITED
            base = {name: os.environ[name] for name in names if name in os.environ}
            # A shell function, which a shell further down would run.
            base = {name: value for name, value in base.items() if not value.startswith("()")}
        if on_windows:
            # There `Path` is PATH: the user's spelling takes the other's place.
            given = {name.upper() for name in self.env}
            base = {name: value for name, value in base.items() if name.upper() not in given}
        return {**base, **self.env}

    def command_line(self) -> list[str]:
        """What is started. On Windows a `.cmd` or `.bat` shim is found by its real name.

        Raises:
            ConfigError: Windows only: the shim's interpreter would read an argument as more than text.
        """
        if sys.platform != "win32":
            return list(self.argv)
        import shutil

        environment = {name.upper(): value for name, value in self.environment().items()}
        line = [shutil.which(self.argv[0], path=environment.get("PATH")) or self.argv[0], *self.argv[1:]]
        # Windows ignores dots and spaces at the end of a file's name.
        if line[0].rstrip(" .").lower().endswith((".cmd", ".bat")) and _meant_for_cmd(line):
            raise ConfigError(
                f"Stdio: {self.label} is a batch file, and cmd.exe would interpret a character of one of its arguments"
            )
        return line

    def why_not_started(self, error: OSError) -> str:
        """Say in one sentence why the program could not be started."""
        return f"cannot start {self.argv[0]}: {self._reason(error)}"

    def may_start_later(self, error: OSError) -> bool:
        """Is it worth trying again? Not if there is no such program, or it is none."""
        return error.errno in _SHORT_OF

    def _reason(self, error: OSError) -> str:
        if self.cwd is not None and not os.path.isdir(self.cwd):
            return "the directory that cwd= names does not exist"
        if isinstance(error, FileNotFoundError):
            command = self.argv[0]
            if os.path.basename(command) == command:
                return "command not found on PATH"
            path = os.path.join(self.cwd or "", command)
            return "the interpreter that it names does not exist" if os.path.exists(path) else "no such file"
        if isinstance(error, PermissionError):
            return "permission denied"
        return os.strerror(error.errno).lower() if error.errno else type(error).__name__


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _meant_for_cmd(line: list[str]) -> bool:
    return any(character in argument for argument in line for character in _MEANT_FOR_CMD)
