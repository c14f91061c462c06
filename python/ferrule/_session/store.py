"""One client's way to the store of its answers: whose code is the user's, who may fail, wait, and be shared.

Knows keys and bytes. A store that fails costs a request, never a call. What it was to forget and did not is remembered:
until it has, nothing of it is believed.
"""

from __future__ import annotations

from .. import _log
from .._io import Closing, Expired
from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from .session import Session

_LEAST_SECRET = 16
_MOST_PENDING = 1024
"""Keys that wait to be forgotten while the store is out of reach."""


class Store:
    """See the module.

    Args:
        given: A `ResponseCache`.
        all_marks: Gives the keys that stand for everything, for when too many wait to be forgotten.

    Attributes:
        given: The same.
        drops: Counts up whenever something is to be forgotten.
    """

    __slots__ = ("_all_marks", "_flushing", "_pending", "_troubled", "drops", "given")

    def __init__(self, given: Any, all_marks: Callable[[Session], list[bytes]]) -> None:
        self.given = given
        self.drops = 0
        self._all_marks = all_marks
        self._pending: dict[bytes, int] = {}
        """Keys that are to be forgotten, each with the drop that last wanted it."""
        self._flushing = False
        self._troubled = False

    @property
    def secret(self) -> bytes | None:
        """What keeps the callers apart that share the store; None if it has nothing for that."""
        secret = getattr(self.given, "secret", None)
        return secret if isinstance(secret, bytes) and len(secret) >= _LEAST_SECRET else None

    @property
    def size(self) -> tuple[int | None, int | None]:
        """How many answers it holds, and the bytes they take; None where it does not tell."""
        answers, size = getattr(self.given, "answers", None), getattr(self.given, "size", None)
        return answers if isinstance(answers, int) else None, size if isinstance(size, int) else None

    async def get(self, session: Session, keys: list[bytes]) -> list[Any] | None:
        """What lies under these keys; None when that cannot be told, or must not be believed."""
        if self._pending and not await self._flush(session):
            return None
        values: list[Any] = []

        async def look() -> None:
            values.extend(await self._run(session, self.given.get, keys))

        return values if await self._try(look()) and len(values) == len(keys) else None

    async def put(self, session: Session, key: bytes, value: bytes, seconds: float) -> bool:
        """Keep a value. Was it taken?"""
        return await self._try(self._run(session, self.given.put, key, value, seconds))

    async def delete(self, session: Session, keys: list[bytes]) -> bool:
        """Forget these keys now. Were they?"""
        return await self._try(self._run(session, self.given.delete, keys))

    async def _run(self, session: Session, method: Callable[..., Any], *args: Any) -> Any:
        given = await session.io.call(method, *args)
        if session.io.blocking and hasattr(given, "__await__"):
            if hasattr(given, "close"):
                given.close()
            raise ConfigError("cache: this store's methods are asynchronous; a Client needs one whose methods are not")
        return given

    async def _try(self, work: Coroutine[Any, Any, Any]) -> bool:
        try:
            await work
        except (ConfigError, Expired, Closing):
            raise
        except Exception as error:
            self.complain(error)
            return False
        return True

    def complain(self, error: Exception) -> None:
        """Say, loudly once, that the store is no good."""
        level = _log.debug if self._troubled else _log.warning
        self._troubled = True
        level("the response cache failed (%s): calls go to the server", type(error).__name__)

    # Forgetting. `drop` is called by whoever reads from the server, so it neither raises nor waits

    def drop(self, session: Session, keys: list[bytes]) -> None:
        """Forget these keys: for this client at once, for those who share the store as soon as it can be told."""
        at_once = getattr(self.given, "never_waits", False)
        with session.io.mutex():
            self.drops += 1
            self._pending.update(dict.fromkeys(keys, self.drops))
            too_many = len(self._pending) > _MOST_PENDING
        everything = self._all_marks(session) if too_many else []
        with session.io.mutex():
            if too_many:
                self._pending = dict.fromkeys(everything, self.drops)
            pending = dict(self._pending)
            begin = not at_once and not self._flushing
            self._flushing = self._flushing or begin
        if at_once:
            self._drop_at_once(session, pending)
        elif begin:
            session.io.background(self._flush_later(session))

    def _drop_at_once(self, session: Session, pending: dict[bytes, int]) -> None:
        try:
            self.given.delete(list(pending))
        except Exception as error:
            self.complain(error)
        else:
            self._forgotten(session, pending)

    async def _flush_later(self, session: Session) -> None:
        try:
            while self._pending and await self._flush(session):
                pass
        finally:
            with session.io.mutex():
                self._flushing = False

    async def _flush(self, session: Session) -> bool:
        """Have the store forget what it is to. Did it?"""
        with session.io.mutex():
            pending = dict(self._pending)
        if pending and not await self.delete(session, list(pending)):
            return False
        self._forgotten(session, pending)
        return True

    def _forgotten(self, session: Session, pending: dict[bytes, int]) -> None:
        with session.io.mutex():
            for key, drop in pending.items():
                if self._pending.get(key) == drop:
                    del self._pending[key]
