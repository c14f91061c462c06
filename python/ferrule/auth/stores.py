"""Where tokens and registrations are kept between runs, and who may renew them.

A store keeps short texts under keys. Which keys there are and what the texts say is `kept`'s business; what a text is
worth (it holds refresh tokens) is why a file of a `FileStore` belongs to its owner alone.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A file of our own is no link to elsewhere, and no pipe that nobody writes to."""
_LONGEST = 1024 * 1024
"""Characters of an entry that are read; real ones have some thousand."""


class TokenStore(ABC):
    """What `OAuth(store=...)` needs; subclass it to keep tokens elsewhere.

    Each method may be a plain one, or with `AsyncClient` a coroutine. One store may serve many servers and many
    clients; for many users, give each user a store of their own.

    Attributes:
        blocks: Do `load`, `save` and `delete` take so long that an event loop should call them in a thread?
    """

    __slots__ = ()
    blocks = False

    @abstractmethod
    def load(self, key: str) -> str | None:
        """Return the text last saved under `key`, or None.

        Args:
            key: Made of URLs; at most a few hundred ASCII characters without control characters.
        """

    @abstractmethod
    def save(self, key: str, text: str) -> None:
        """Keep `text`, JSON of a few KiB with secrets in it, under `key`."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Forget what is kept under `key`; nothing is no error."""

    def try_lock(self, key: str) -> Callable[[], object] | None:
        """Claim the right to renew what is kept under `key`, without waiting.

        A refresh token that rotates must not be used twice: who renews it claims it, reads it again, and saves the new
        one before giving the claim back. This one always succeeds: right where one client alone uses the store.

        Returns:
            What gives the claim back, or None while another process or client has it: it is asked for again.
        """
        return _nothing_to_do

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def _nothing_to_do() -> None:
    pass


class MemoryStore(TokenStore):
    """Keeps tokens for as long as this object lives. May be shared by clients, threads and event loops."""

    __slots__ = ("_claims", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._claims: dict[str, object] = {}

    # Operations on a dict are atomic, so none of these needs a lock.

    def load(self, key: str) -> str | None:
        """See `TokenStore.load`."""
        return self._texts.get(key)

    def save(self, key: str, text: str) -> None:
        """See `TokenStore.save`."""
        self._texts[key] = text

    def delete(self, key: str) -> None:
        """See `TokenStore.delete`."""
        self._texts.pop(key, None)

    def try_lock(self, key: str) -> Callable[[], object] | None:
        """See `TokenStore.try_lock`."""
        claim = object()
        if self._claims.setdefault(key, claim) is not claim:
            return None
        return lambda: self._claims.pop(key, None)

    def __repr__(self) -> str:
        return f"<MemoryStore: {len(self._texts)} entries>"

    def __reduce__(self) -> Any:
        raise TypeError("a MemoryStore holds tokens and is not pickled; use a FileStore to share them")


class FileStore(TokenStore):
    """Keeps tokens in files that only their owner may read, one for each key.

    A file is replaced in one step, so a reader never sees half of it. One that is a link, or another user's, is not
    read: the call fails. Processes of one machine may share the folder:
    of those that want to renew a token one does, and the others use what it got.

    Args:
        folder: Made (mode 0700) when first needed. Any file system with locks will do; NFS is not one.
    """

    __slots__ = ("_folder",)
    blocks = True  # a disk takes its time to say that it has what it was given

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.path.expanduser(os.fspath(folder))

    def load(self, key: str) -> str | None:
        """See `TokenStore.load`."""
        try:
            handle = os.open(self._path(key), os.O_RDONLY | _PLAIN)
        except FileNotFoundError:
            return None
        with open(handle, encoding="utf-8", errors="replace") as file:
            _check_owner(handle)
            return file.read(_LONGEST)

    def save(self, key: str, text: str) -> None:
        """See `TokenStore.save`: written beside, flushed to the disk, then moved over the old one."""
        from tempfile import mkstemp

        self._make_folder()
        path = self._path(key)
        # mkstemp makes it 0600 from the start, and what is moved keeps that.
        handle, beside = mkstemp(dir=self._folder, prefix=".", suffix=".tmp")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            os.unlink(beside)
            raise

    def delete(self, key: str) -> None:
        """See `TokenStore.delete`."""
        try:
            os.unlink(self._path(key))
        except FileNotFoundError:
            return

    def try_lock(self, key: str) -> Callable[[], object] | None:
        """See `TokenStore.try_lock`. The system ends a claim with the process that holds it."""
        self._make_folder()
        return lock_file(f"{self._path(key)}.lock")

    def _make_folder(self) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, f"{file_name(key)}.json")

    def __repr__(self) -> str:
        return f"<FileStore {self._folder}>"


class KeyringStore(TokenStore):
    """Keeps tokens in the keyring of the user's desktop. Needs the extra `ferrule[keyring]`.

    Args:
        service: The name that the keyring shows beside each entry.
        locks: A folder for the lock files that keep two processes from renewing one token.

    Raises:
        ConfigError: The extra is not installed.
    """

    __slots__ = ("_keyring", "_locks", "_service")
    blocks = True  # the desktop may ask the user to unlock it

    def __init__(self, service: str = "ferrule", *, locks: str | os.PathLike[str] | None = None) -> None:
        from importlib import import_module

        try:
            self._keyring: Any = import_module("keyring")
        except ImportError:
            raise ConfigError("KeyringStore needs the package keyring: pip install 'ferrule[keyring]'") from None
        self._service = service
        self._locks = os.fspath(locks) if locks is not None else os.path.join(_state_folder(), "ferrule", "locks")

    def load(self, key: str) -> str | None:
        """See `TokenStore.load`."""
        text: str | None = self._keyring.get_password(self._service, key)
        return text

    def save(self, key: str, text: str) -> None:
        """See `TokenStore.save`."""
        self._keyring.set_password(self._service, key, text)

    def delete(self, key: str) -> None:
        """See `TokenStore.delete`."""
        if self._keyring.get_password(self._service, key) is not None:
            self._keyring.delete_password(self._service, key)

    def try_lock(self, key: str) -> Callable[[], object] | None:
        """See `TokenStore.try_lock`."""
        os.makedirs(self._locks, mode=0o700, exist_ok=True)
        return lock_file(os.path.join(self._locks, f"{file_name(key)}.lock"))


def _state_folder() -> str:
    """Where programs of this platform keep what is theirs."""
    if os.name == "nt":
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    return os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")


def file_name(key: str) -> str:
    """A name for a file: keys hold slashes, and may be longer than a name may be."""
    from hashlib import sha256

    return sha256(key.encode()).hexdigest()[:40]


def lock_file(path: str) -> Callable[[], object] | None:
    """Lock a file without waiting; what lets it go, or None while another has it. The file stays."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _PLAIN, 0o600)
    try:
        _lock(handle)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return lambda: _unlock(handle)


def _check_owner(handle: int) -> None:
    """Raise for a file that somebody else put there: what it says would be believed, and sent with the user's secret.

    Raises:
        PermissionError: It is another user's.
    """
    if os.name != "nt" and os.fstat(handle).st_uid != os.geteuid():
        raise PermissionError("the file belongs to another user")


def _unlock(handle: int) -> None:
    try:
        if os.name != "nt":
            import fcntl

            # Not by closing alone: a child that was forked meanwhile holds the same lock, for as long as it lives.
            fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    if os.name != "nt":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt  # the other platform's; closing the file lets go of it there as well

    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        raise BlockingIOError from None
