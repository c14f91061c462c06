"""What is started for `Stdio(...)`: arguments, environment, directory, and why it could not be."""

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule import Retry, Stdio
from ferrule.errors import ConfigError, ConnectError
from tests.support.child import surroundings

pytestmark = pytest.mark.req("D1")

ONCE = Retry(attempts=1)
LOOK = {"tools/call": [[surroundings()]]}


def look_around(client: Any) -> Any:
    return json.loads(client.call_tool("look", {}).text)


# --- arguments and directory ---------------------------------------------------------------------


def test_arguments_reach_the_program_as_they_are(flavour: Any, child: Any) -> None:
    awkward = ["a b", "$HOME", "*", ";id", '"', "'", "", "é", "-x", "a\nb", "%PATH%"]
    client = flavour.connect(Stdio(*child(LOOK).argv, *awkward))
    assert look_around(client)["argv"] == awkward


def test_it_starts_in_the_directory_that_cwd_names(flavour: Any, child: Any, tmp_path: Path) -> None:
    client = flavour.connect(child(LOOK).stdio(cwd=tmp_path))
    assert look_around(client)["cwd"] == os.path.realpath(tmp_path)


def test_a_relative_command_is_found_from_cwd(flavour: Any, child: Any, tmp_path: Path) -> None:
    server = child(LOOK)
    program = tmp_path / "server"
    program.write_text('#!/bin/sh\nexec "$@"\n')
    program.chmod(0o755)
    client = flavour.connect(Stdio("./server", *server.argv, cwd=tmp_path))
    assert look_around(client)["cwd"] == os.path.realpath(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [("",), ("a\0",), ("a", "b\0c"), ("a", 1), (None,)],
)
def test_what_is_no_argument_vector_is_refused(arguments: Any) -> None:
    with pytest.raises(ConfigError):
        Stdio(*arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"env": {"A": 1}},
        {"env": {1: "a"}},
        {"env": {"": "a"}},
        {"env": {"A=B": "a"}},
        {"env": {"A": "b\0"}},
        {"stderr": "pipe"},
        {"stderr": None},
    ],
)
def test_what_cannot_be_an_option_is_refused(options: Any) -> None:
    with pytest.raises(ConfigError):
        Stdio("server", **options)


def test_its_repr_shows_neither_arguments_nor_environment() -> None:
    shown = repr(Stdio("/opt/server", "--token", "hunter2", env={"KEY": "hunter2"}))
    assert shown == "Stdio('/opt/server', 2 arguments)"


# --- environment ---------------------------------------------------------------------------------


def test_of_the_environment_a_child_gets_what_is_harmless_and_env(
    flavour: Any, child: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2")
    monkeypatch.setenv("USER", "me")
    client = flavour.connect(child(LOOK).stdio(env={"MODE": "test", "HOME": "/elsewhere"}))
    environ = look_around(client)["environ"]
    assert environ["PATH"] == os.environ["PATH"]
    assert (environ["USER"], environ["MODE"], environ["HOME"]) == ("me", "test", "/elsewhere")
    assert "API_TOKEN" not in environ


def test_inherit_env_gives_it_all_and_env_wins(flavour: Any, child: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2")
    monkeypatch.setenv("MODE", "live")
    client = flavour.connect(child(LOOK).stdio(env={"MODE": "test"}, inherit_env=True))
    environ = look_around(client)["environ"]
    assert (environ["API_TOKEN"], environ["MODE"]) == ("hunter2", "test")


def test_a_shell_function_in_the_environment_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "() { :; }; echo")
    assert "TERM" not in Stdio("server").environment()
    assert "TERM" in Stdio("server", inherit_env=True).environment()


def test_the_environment_is_read_when_the_child_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    stdio = Stdio("server")
    monkeypatch.setenv("LANG", "xx_XX")
    assert stdio.environment()["LANG"] == "xx_XX"


def test_the_callers_env_is_copied() -> None:
    env = {"A": "1"}
    stdio = Stdio("server", env=env)
    env["A"] = "2"
    assert stdio.env == {"A": "1"}


# --- what cannot be started ----------------------------------------------------------------------


def failure(flavour: Any, stdio: Stdio) -> ConnectError:
    client = flavour.client(stdio, retry=ONCE)
    with pytest.raises(ConnectError) as caught:
        client.connect()
    assert not caught.value.request_sent
    return caught.value


def test_a_command_that_does_not_exist_is_named(flavour: Any) -> None:
    error = failure(flavour, Stdio("no-such-command-here", "--token", "hunter2"))
    assert str(error) == "cannot start no-such-command-here: command not found on PATH"
    assert isinstance(error.__cause__, FileNotFoundError)


def test_a_path_that_does_not_exist_is_named(flavour: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "server")
    assert str(failure(flavour, Stdio(path))) == f"cannot start {path}: no such file"


def test_a_file_that_is_not_executable(flavour: Any, tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.write_text("#!/bin/sh\n")
    assert str(failure(flavour, Stdio(str(path)))) == f"cannot start {path}: permission denied"


def test_a_script_whose_interpreter_does_not_exist(flavour: Any, tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    assert str(failure(flavour, Stdio(str(path)))).endswith("the interpreter that it names does not exist")


def test_a_file_that_is_no_program(flavour: Any, tmp_path: Path) -> None:
    path = tmp_path / "server"
    path.write_bytes(b"\x7fELFnot really")
    path.chmod(0o755)
    assert str(failure(flavour, Stdio(str(path)))).startswith(f"cannot start {path}: ")


@pytest.mark.parametrize("exists", [False, True])
def test_a_cwd_that_is_no_directory(flavour: Any, child: Any, tmp_path: Path, exists: bool) -> None:
    path = tmp_path / "place"
    if exists:
        path.write_text("a file")
    error = failure(flavour, child().stdio(cwd=path))
    assert str(error).endswith("the directory that cwd= names does not exist")


@pytest.mark.req("R1")
def test_a_command_that_does_not_exist_is_not_looked_for_again(flavour: Any) -> None:
    # Three pauses of an hour each would make this test fail.
    client = flavour.client(Stdio("no-such-command-here"), timeout=None, retry=Retry(4, 3600, 3600))
    for call in (client.connect, lambda: client.call_tool("echo", {}), client.list_tools):
        with pytest.raises(ConnectError, match="command not found") as caught:
            call()
        assert not caught.value.transient
        assert not caught.value.request_sent


@pytest.mark.req("R1")
def test_a_program_that_cannot_start_for_lack_of_descriptors_is_tried_again(flavour: Any, child: Any) -> None:
    server = child()
    client = flavour.client(server.stdio(), timeout=20, retry=Retry(3, 0.01, 0.01))
    io = client._session.peer.io
    spawn, failures = io.spawn, iter([errno.EMFILE, errno.EAGAIN])

    async def spawn_at_last(*args: Any, **kwargs: Any) -> Any:
        number = next(failures, None)
        if number is not None:
            raise OSError(number, os.strerror(number))
        return await spawn(*args, **kwargs)

    io.spawn = spawn_at_last
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert len(server.pids) == 1


@pytest.mark.req("N10")
def test_a_command_that_appears_later_is_started_then(flavour: Any, child: Any, tmp_path: Path) -> None:
    server = child()
    program = tmp_path / "server"
    client = flavour.client(Stdio(str(program), *server.argv), retry=ONCE)
    with pytest.raises(ConnectError):
        client.call_tool("echo", {"a": 1})
    program.write_text('#!/bin/sh\nexec "$@"\n')
    program.chmod(0o755)
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'


def test_headers_credentials_and_tls_have_no_meaning_here(flavour: Any, child: Any) -> None:
    for options in ({"headers": {"A": "b"}}, {"auth": "token"}, {"tls": "/etc/ca.pem"}):
        with pytest.raises(ConfigError):
            flavour.client(child().stdio(), **options)
    client = flavour.connect(child().stdio())
    for options in ({"headers": {"A": "b"}}, {"auth": "token"}):
        with pytest.raises(ConfigError):
            client.with_options(**options)
    assert client.call_tool("echo", {}).text == "{}"


# --- Windows -------------------------------------------------------------------------------------


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A Windows on which `which` finds these."""
    known: dict[str, str] = {}
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(shutil, "which", lambda name, path=None: known.get(name))
    return known


def test_on_windows_a_shim_is_started_by_its_real_name(windows: dict[str, str]) -> None:
    windows["npx"] = r"C:\Program Files (x86)\nodejs\npx.CMD"
    line = Stdio("npx", "-y", "@scope/server", "a b").command_line()
    assert line == [windows["npx"], "-y", "@scope/server", "a b"]


@pytest.mark.parametrize("real", [r"C:\bin\npx.cmd", r"C:\bin\npx.BAT", r"C:\bin\npx.cmd. .", r"C:\R&D\npx.cmd"])
@pytest.mark.parametrize("argument", ["a&calc", "a|b", "%PATH%", "^", "<a", ">a", 'a"b', "a\r", "a\nb", "!x!"])
def test_on_windows_what_cmd_would_interpret_is_refused(windows: dict[str, str], real: str, argument: str) -> None:
    windows["npx"] = real
    with pytest.raises(ConfigError) as caught:
        Stdio("npx", argument).command_line()
    assert argument not in str(caught.value)


def test_on_windows_a_batch_file_that_is_not_found_is_still_one(windows: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Stdio("tool.bat", "a&b").command_line()


def test_on_windows_a_path_that_cmd_would_interpret_is_refused(windows: dict[str, str]) -> None:
    windows["npx"] = r"C:\R&D\npx.cmd"
    with pytest.raises(ConfigError):
        Stdio("npx", "-y").command_line()


def test_on_windows_programs_that_are_no_batch_file_take_any_argument(windows: dict[str, str]) -> None:
    windows["uvx"] = r"C:\bin\uvx.exe"
    assert Stdio("uvx", "a&b", '"%x%"').command_line() == [windows["uvx"], "a&b", '"%x%"']
    assert Stdio("unknown", "a&b").command_line() == ["unknown", "a&b"]


def test_on_windows_the_environment_is_what_programs_need_there(
    windows: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"C:\Windows")
    monkeypatch.setenv("APPDATA", r"C:\Users\me\AppData")
    monkeypatch.setenv("API_TOKEN", "hunter2")
    monkeypatch.setenv("SHELL", "/bin/sh")
    environment = Stdio("server", env={"Path": r"C:\bin", "MODE": "test"}).environment()
    assert environment["SYSTEMROOT"] == r"C:\Windows"
    assert (environment["Path"], environment["MODE"]) == (r"C:\bin", "test")
    assert environment.keys().isdisjoint({"PATH", "API_TOKEN", "SHELL"})


def test_on_windows_the_command_is_found_on_the_path_the_child_gets(
    windows: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[Any] = []
    monkeypatch.setattr(shutil, "which", lambda name, path=None: searched.append(path))
    Stdio("server", env={"Path": r"C:\bin"}).command_line()
    assert searched == [r"C:\bin"]


def test_elsewhere_nothing_is_refused_for_its_characters() -> None:
    assert Stdio("tool.bat", "a&b").command_line() == ["tool.bat", "a&b"]
