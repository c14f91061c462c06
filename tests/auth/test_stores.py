"""Where tokens are kept, and that two never renew the same one."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

from ferrule.auth import FileStore, KeyringStore, MemoryStore, TokenStore
from ferrule.errors import ConfigError

KEY = "https://mcp.example/mcp https://as.example/" + "tenant/" * 80


class Rings(KeyringBackend):
    """A keyring of the package's own kind, in memory: no desktop is asked to unlock anything."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of the package
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("there is no such password")


@pytest.fixture
def rings() -> Iterator[Rings]:
    before, rings = keyring.get_keyring(), Rings()
    keyring.set_keyring(rings)
    yield rings
    keyring.set_keyring(before)


@pytest.fixture(params=["memory", "file", "keyring"])
def make(request: pytest.FixtureRequest, tmp_path: Path, rings: Rings) -> Callable[[], TokenStore]:
    """Makes a store; those that outlive the process are the same each time."""
    memory = MemoryStore()
    makers: dict[str, Callable[[], TokenStore]] = {
        "memory": lambda: memory,
        "file": lambda: FileStore(tmp_path / "tokens"),
        "keyring": lambda: KeyringStore(locks=tmp_path / "locks"),
    }
    return makers[request.param]


def test_what_was_saved_last_is_loaded(make: Callable[[], TokenStore]) -> None:
    assert make().load(KEY) is None
    make().save(KEY, "first")
    make().save(KEY, '{"ä": "second"}')
    make().save(KEY + "2", "another")
    assert make().load(KEY) == '{"ä": "second"}'
    make().delete(KEY)
    make().delete(KEY)
    assert make().load(KEY) is None
    assert make().load(KEY + "2") == "another"


def test_a_claim_is_one_partys_until_it_is_given_back(make: Callable[[], TokenStore]) -> None:
    claim = make().try_lock(KEY)
    assert claim is not None
    assert make().try_lock(KEY) is None
    other = make().try_lock(KEY + "2")
    assert other is not None
    claim()
    again = make().try_lock(KEY)
    assert again is not None
    for each in (again, other):
        each()


@pytest.mark.req("A1")
def test_no_repr_shows_what_is_kept(make: Callable[[], TokenStore]) -> None:
    store = make()
    store.save(KEY, "s3cr3t")
    assert "s3cr3t" not in repr(store)


@pytest.mark.req("A1")
def test_tokens_in_memory_are_not_pickled() -> None:
    with pytest.raises(TypeError, match="FileStore"):
        pickle.dumps(MemoryStore())


def test_a_file_store_can_be_pickled_since_it_holds_a_path_alone(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    store.save(KEY, "text")
    assert pickle.loads(pickle.dumps(store)).load(KEY) == "text"


@pytest.mark.req("A1")
@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_files_are_their_owners_alone_and_nothing_is_left_beside_them(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "tokens"
    before = os.umask(0)
    try:
        store = FileStore(folder)
        store.save(KEY, "text")
        claim = store.try_lock(KEY)
        assert claim is not None
        claim()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".lock"]


@pytest.mark.req("A1")
@pytest.mark.skipif(os.name == "nt", reason="links and owners are POSIX's")
def test_what_somebody_else_put_there_is_neither_read_nor_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, elsewhere = FileStore(tmp_path / "tokens"), tmp_path / "elsewhere"
    store.save(KEY, "text")
    [path] = (tmp_path / "tokens").iterdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="another user"):
        store.load(KEY)
    monkeypatch.undo()
    elsewhere.write_text("planted")
    path.unlink()
    path.symlink_to(elsewhere)
    path.with_name(f"{path.name}.lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError):
        store.load(KEY)
    with pytest.raises(OSError):
        store.try_lock(KEY)
    assert not (tmp_path / "made").exists()
    store.save(KEY, "mine")
    assert (store.load(KEY), elsewhere.read_text()) == ("mine", "planted")


@pytest.mark.req("A3")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_claim_that_is_given_back_is_free_though_a_forked_child_lives_on(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    claim = store.try_lock(KEY)
    assert claim is not None
    ready, end = os.pipe()
    child = os.fork()
    if not child:
        os.close(end)
        os.read(ready, 1)  # until the parent closes its end
        os._exit(0)
    try:
        claim()
        again = store.try_lock(KEY)
        assert again is not None
        again()
    finally:
        os.close(end)
        os.close(ready)
        os.waitpid(child, 0)


def test_a_save_that_fails_leaves_the_old_text_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path)
    store.save(KEY, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.save(KEY, "new")
    assert store.load(KEY) == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.req("A3")
def test_another_process_has_to_wait_and_a_dead_one_lets_go(tmp_path: Path) -> None:
    code = (
        "import sys; from ferrule.auth import FileStore\n"
        f"claim = FileStore({str(tmp_path)!r}).try_lock({KEY!r})\n"
        "print(claim is not None, flush=True); sys.stdin.read()"
    )
    store = FileStore(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        assert store.try_lock(KEY) is None
        other.kill()
        other.wait(10)
    claim = store.try_lock(KEY)
    assert claim is not None
    claim()


def test_a_keyring_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"ferrule\[keyring\]"):
        KeyringStore()


def test_the_keyring_shows_the_service_and_the_server(rings: Rings, tmp_path: Path) -> None:
    KeyringStore("my-agent", locks=tmp_path).save(KEY, "text")
    assert rings.kept == {("my-agent", KEY): "text"}


@pytest.mark.parametrize("name", ["xdg", "home"])
def test_lock_files_of_the_keyring_are_the_users_own(
    rings: Rings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    if name == "xdg":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ".local/state"))
    claim = KeyringStore().try_lock(KEY)
    assert claim is not None
    claim()
    assert len(list((tmp_path / ".local/state/ferrule/locks").iterdir())) == 1


def test_a_store_of_ones_own_needs_three_methods() -> None:
    class Mine(TokenStore):
        def __init__(self) -> None:
            self.kept: dict[str, str] = {}

        def load(self, key: str) -> str | None:
            return self.kept.get(key)

        def save(self, key: str, text: str) -> None:
            self.kept[key] = text

        def delete(self, key: str) -> None:
            self.kept.pop(key, None)

    store: Any = Mine()
    claim = store.try_lock("k")
    assert claim is not None
    claim()


@pytest.mark.req("A6")
def test_a_store_that_cannot_forget_is_refused_when_it_is_made() -> None:
    class Forgetless(TokenStore):
        def load(self, key: str) -> str | None:
            return None

        def save(self, key: str, text: str) -> None:
            """It is kept."""

    with pytest.raises(TypeError, match="delete"):
        Forgetless()  # type: ignore[abstract]
