"""What the asyncio client hands out to be used for a while: subscriptions and tasks.

`_handles` has their twins. Bodies of one line: the work is the session's.
"""

from __future__ import annotations

from ._session.settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Self

    from ._session.settings import Unset
    from ._session.subscriptions import Subscription as Core
    from ._session.tasks import TaskCore
    from .types import CallToolResult, Event, Honored, TaskInfo

    Timeout = float | Unset | None

__all__ = ["AsyncSubscription", "AsyncTask"]


class AsyncSubscription:
    """Changes at the server, as `AsyncClient.subscribe` gives them: a context manager to iterate over.

        async with client.subscribe(tools=True, uris=["file:///a.txt"]) as changes:
            async for event in changes:
                print(event)

    One reader at a time. Iteration ends when the subscription or the client is closed, or the server ends it. What was
    lost (a stream, a session, a child) is opened anew with pauses, in the handshake era while somebody waits, and the
    subscription goes on there: a `Missed` event says that changes may have gone unheard. So does one in place of events
    that were dropped because more than `Limits.max_queue` were waiting. Of several waiting events that a list changed
    one is kept.
    """

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.honored!r}>"

    async def __aenter__(self) -> Self:
        await self._core.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            await self.aclose()
        else:
            self._core.abandon()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        return await self._core.next(float("inf"))

    async def next(self, *, timeout: float | None = None) -> Event:
        """The next event.

        Args:
            timeout: Seconds to wait for one; default None: as long as it takes.

        Raises:
            RequestTimeout: There was none; nothing is lost, it may be asked for again.
            ConnectionClosed: The subscription or the client was closed.
        """
        return await self._core.next_within(timeout)

    async def aclose(self) -> None:
        """End it. Idempotent. Resources nobody else watches are unsubscribed, within `Limits.cancel_timeout`."""
        await self._core.close()

    @property
    def honored(self) -> Honored:
        """What of the wishes the server agreed to; nothing before the `with` block."""
        return self._core.honored

    @property
    def lost(self) -> int:
        """How many events were dropped because they were not taken fast enough."""
        return self._core.lost


class AsyncTask:
    """A tool call that goes on at the server, as `AsyncClient.call_tool_task` and `AsyncClient.get_task` give it.

    It holds nothing open: forget it, or keep its `id` and go on in another process. Its repr does not show the id.
    """

    __slots__ = ("_core",)

    def __init__(self, core: TaskCore) -> None:
        self._core = core

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {(self.info.is_final and 'over') or 'under way'}>"

    @property
    def id(self) -> str:
        """Its id at the server; empty where the call was answered at once. Who has it may read the result: a secret."""
        return self._core.id

    @property
    def info(self) -> TaskInfo:
        """What the server said of it last; `poll` asks anew."""
        return self._core.info

    @property
    def status(self) -> str:
        """`working`, `input_required`, `completed`, `failed` or `cancelled`, as last heard."""
        return self._core.info.status

    @property
    def immediate_response(self) -> str | None:
        """What to tell the model meanwhile, if the server said so when the task was made."""
        return self._core.created.immediate_response if self._core.created is not None else None

    async def poll(self, *, timeout: Timeout = UNSET) -> TaskInfo:
        """Ask how it is (basic/utilities/tasks, Getting Tasks).

        Raises:
            InvalidParams: The server does not know the task, or not any more.
            FerruleError: See `AsyncClient.call_tool`.
        """
        return await self._core.poll(timeout)

    async def result(self, *, timeout: Timeout = UNSET, raise_on_error: bool = False) -> CallToolResult:
        """Wait for its end and return what the tool gave (Retrieving Task Results).

        The server is asked how the task is as often as it wants (within `Limits.min_poll_interval` and
        `max_poll_interval`), and its notifications are heeded. When it needs input its requests go to the client's
        handlers.

        Args:
            timeout: Seconds for all of it; default the client's. None for as long as it takes.
            raise_on_error: Raise `ToolError` when the result says `is_error`.

        Raises:
            RequestTimeout: It is not over yet; it goes on, and can be asked for again.
            RPCError: What the call ended with, or the server knows the task no more.
            FerruleError: See `AsyncClient.call_tool`.
        """
        return await self._core.result(timeout, raise_on_error)

    async def cancel(self, *, timeout: Timeout = UNSET) -> TaskInfo:
        """Have the server give it up (Cancelling Tasks).

        Raises:
            CapabilityError: The server cannot; nothing was sent.
            InvalidParams: It is over already.
            FerruleError: See `AsyncClient.call_tool`.
        """
        return await self._core.cancel(timeout)

    async def update(self, responses: Mapping[str, Any], *, timeout: Timeout = UNSET) -> None:
        """Answer by hand what it asks, as `InputRequired` or `info.input_requests` say (Task Update Requests).

        Handlers do this by themselves while `result` runs. A request is answered once: it is not asked again.

        Args:
            responses: The answers, by the keys of the requests: an `ElicitResult`, a `CreateMessageResult`, a list of
                roots, or a mapping in the schema's shape.
            timeout: Seconds; default the client's.

        Raises:
            CapabilityError: In the handshake era, whose servers ask by requests of their own; nothing was sent.
            FerruleError: See `AsyncClient.call_tool`.
        """
        await self._core.update(responses, timeout)
