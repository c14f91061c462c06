"""The asyncio client: what people import, over the session that does the work.

`Client` is its twin for code without an event loop.
"""

from __future__ import annotations

from ._client import special_call
from ._lists import AsyncItems, AsyncLists
from ._session import features
from ._session.settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self

    from ._async_handles import AsyncSubscription, AsyncTask
    from ._io.interface import IO
    from ._session.cacheable import CacheMode
    from ._session.settings import Unset
    from .types import (
        CallToolResult,
        CompleteResult,
        DiscoverResult,
        GetPromptResult,
        ListTasksResult,
        PromptReference,
        ReadResourceResult,
        ResourceTemplateReference,
        Resume,
        TaskInfo,
    )

    Timeout = float | Unset | None
    OnProgress = Callable[[float, float | None, str | None], Any]

__all__ = ["AsyncClient"]


class AsyncClient(AsyncLists):
    """A client of one MCP server, for asyncio (or uvloop). It belongs to the event loop that first uses it.

    Use it as an async context manager, or call `aclose()` when done: from any task of the loop.

        async with AsyncClient("https://example.com/mcp") as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})

    The arguments are `__init__`'s.
    """

    def _driver(self) -> type[IO]:
        from ._io.asyncio import AsyncIO

        return AsyncIO

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def connect(self, *, timeout: Timeout = UNSET) -> None:
        """Find out what the server speaks and get ready. The first call does it too.

        Args:
            timeout: Seconds; default the client's.

        Raises:
            ConnectError: There is no way to the server, or its command cannot be started.
            NegotiationError: No protocol revision in common.
            AuthError: The server wants other credentials.
            RequestTimeout: It took too long.
            FerruleError: Anything else that went wrong; nothing is left running, and it can be tried again.
        """
        await features.connect(self._session, timeout)

    async def aclose(self) -> None:
        """Close everything, within `Limits.close_timeout`. Idempotent; from any task of the loop.

        Calls under way in other tasks fail with `ConnectionClosed`. On a view made by
        `with_options` it ends that view's session only.
        """
        await self._session.close()

    # Asking

    async def discover(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> DiscoverResult:
        """What the server says of itself (2026-07-28, server/discover); in the handshake era, what it said at first.

        Args:
            timeout: Seconds; default the client's.
            cache: As for `list_tools`.

        Raises:
            FerruleError: See `connect` and `call_tool`.
        """
        return await features.discover(self._session, timeout, cache)

    async def ping(self, *, timeout: Timeout = UNSET) -> None:
        """See that the server answers. In the stateless era, which has no ping, by `server/discover`.

        Raises:
            FerruleError: It does not.
        """
        await features.ping(self._session, timeout)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = UNSET,
        on_progress: OnProgress | None = None,
        reset_on_progress: bool = False,
        max_total: float | None = None,
        meta: Mapping[str, Any] | None = None,
        idempotent: bool = False,
        raise_on_error: bool = False,
        retry_after_elicitation: bool = False,
        tasks: bool = False,
        resume: Resume | None = None,
    ) -> CallToolResult:
        """Call a tool (server/tools, Calling Tools). Never sent twice unless `idempotent`, or refused unexecuted.

        What the tool's definition asks for is heeded once it was listed: see `list_tools`, `validate_output`.

        What a server of the stateless era asks before it answers goes to the handlers, and the call is sent again
        with their answers (basic/patterns/mrtr). While a handler runs the timeout stands still: see
        `Limits.max_handler_time`.

        Args:
            name: The tool's name.
            arguments: What it is called with: JSON values only, nothing is coerced.
            timeout: Seconds; default the client's.
            on_progress: Called with `progress, total, message` of each notification; awaited if async.
            reset_on_progress: Each notification gives the call `timeout` seconds more, up to `max_total`.
            max_total: Seconds the call may take at most; needed with `reset_on_progress`.
            meta: Members of `_meta` for this request.
            idempotent: It is safe to run this call twice, so a lost answer may be asked for again.
            raise_on_error: Raise `ToolError` when the result says `is_error`.
            retry_after_elicitation: When the server answers that the user must visit a page first (-32042), ask the
                user through `on_elicitation`; if that accepts, wait until the server says that it is done, within
                the call's timeout, and call once more. Default: raise `URLElicitationRequired`, as also happens
                when the user does not accept or time is up.
            tasks: The server may make a task of this call, which is then looked at until it ends, within the call's
                timeout; when that is over, or the caller gives up, it is cancelled. In the stateless era by the
                extension `io.modelcontextprotocol/tasks`, declared for this call alone; in the handshake era where
                `list_tools` showed that the tool can be a task.
            resume: Go on where this call, with these arguments, ended in `InputRequired`: see `types.Resume`.

        Returns:
            The tool's result; a failed tool is a result with `is_error`.

        Raises:
            TypeError: `arguments` or `meta` hold what JSON does not; nothing was sent.
            RPCError: The server answered with an error.
            RequestTimeout: No answer in time.
            TransportError: The connection or child failed. `request_sent` says whether the tool may have run.
            ProtocolError: The answer breaks the protocol; `InvalidResult`: or the tool's output schema.
            InputRequired: The server asks for input that no handler gives, or more often than `Limits.max_rounds`.
            MissingClientCapability: The tool needs a handler, or a capability, that this client does not have.
        """
        plain = resume is None and not (retry_after_elicitation or tasks)
        call_tool = features.call_tool if plain else special_call(retry_after_elicitation, tasks, resume)
        return await call_tool(
            self._session,
            name,
            arguments,
            timeout,
            on_progress,
            reset_on_progress,
            max_total,
            meta,
            idempotent,
            raise_on_error,
        )

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: Timeout = UNSET,
        meta: Mapping[str, Any] | None = None,
        resume: Resume | None = None,
        cache: CacheMode = "use",
    ) -> ReadResourceResult:
        """Read a resource (server/resources, Reading Resources).

        Args:
            uri: The resource's URI.
            timeout: Seconds; default the client's.
            meta: Members of `_meta` for this request.
            resume: See `call_tool`.
            cache: As for `list_tools`.

        Raises:
            RPCError: `is_resource_not_found` tells the commonest.
            FerruleError: See `call_tool`.
        """
        return await features.read_resource(self._session, uri, timeout=timeout, meta=meta, resume=resume, cache=cache)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: Timeout = UNSET,
        meta: Mapping[str, Any] | None = None,
        resume: Resume | None = None,
    ) -> GetPromptResult:
        """Get a prompt (server/prompts, Getting a Prompt).

        Args:
            name: The prompt's name.
            arguments: Its arguments, all text.
            timeout: Seconds; default the client's.
            meta: Members of `_meta` for this request.
            resume: See `call_tool`.

        Raises:
            FerruleError: See `call_tool`.
        """
        return await features.get_prompt(self._session, name, arguments, timeout=timeout, meta=meta, resume=resume)

    # Tasks

    async def list_tasks(self, *, timeout: Timeout = UNSET) -> list[TaskInfo]:
        """All tasks of this caller's that the server knows (2025-11-25, basic/utilities/tasks, Listing Tasks).

        Raises:
            CapabilityError: The server does not list tasks; nothing was sent.
            FerruleError: See `list_tools`.
        """
        items: list[TaskInfo] = await self._listing.list_all(self._session, self._listing.TASKS, timeout)
        return items

    async def list_tasks_page(self, cursor: str | None = None, *, timeout: Timeout = UNSET) -> ListTasksResult:
        """One page of the tasks."""
        lists = self._listing
        page: ListTasksResult = await lists.list_page(self._session, lists.TASKS, cursor, timeout)
        return page

    def iter_tasks(self, *, timeout: Timeout = UNSET) -> AsyncIterator[TaskInfo]:
        """The tasks, each page fetched when it is needed."""
        return AsyncItems(self._listing.iterate(self._session, self._listing.TASKS, timeout))

    async def call_tool_task(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        ttl: int | None = None,
        timeout: Timeout = UNSET,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> AsyncTask:
        """Call a tool as a task: the server answers at once and goes on.

        In the handshake era every such call becomes a task (2025-11-25, basic/utilities/tasks). In the stateless era
        the server decides (extensions/tasks); where it answered directly the task is over and has no `id`. Never sent
        twice. Giving up on this call cancels no task: only `AsyncTask.cancel` does.

        Args:
            name: The tool's name.
            arguments: As for `call_tool`.
            ttl: Milliseconds for which the server should keep the task; it may decide otherwise (`task.info.ttl`), and
                does so alone in the stateless era.
            timeout: Seconds for the answer that the task was made; default the client's.
            on_progress: As for `call_tool`, until the task is over; called while `poll` or `result` runs. Tasks of the
                stateless era have no progress.
            meta: Members of `_meta` for this request.

        Raises:
            CapabilityError: The server, or as far as `list_tools` showed the tool, knows no tasks (handshake era).
                Nothing was sent.
            FerruleError: See `call_tool`.
        """
        from ._async_handles import AsyncTask
        from ._session import tasks

        core = await tasks.call_tool_task(self._session, name, arguments, ttl, timeout, on_progress, meta)
        return AsyncTask(core)

    async def get_task(self, task_id: str, *, timeout: Timeout = UNSET) -> AsyncTask:
        """A task by its id, also one that another process began.

        Raises:
            CapabilityError: The server knows no tasks; nothing was sent.
            InvalidParams: It does not know this one.
            FerruleError: See `call_tool`.
        """
        from ._async_handles import AsyncTask
        from ._session import tasks

        return AsyncTask(await tasks.get_task(self._session, task_id, timeout))

    # Changes

    def subscribe(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Iterable[str] = (),
        task_ids: Iterable[str] = (),
        reconnect: bool = True,
        timeout: Timeout = UNSET,
    ) -> AsyncSubscription:
        """Hear of changes at the server: a context manager that yields the events of `types.events`.

        In the stateless era by one `subscriptions/listen` request (2026-07-28, basic/patterns/subscriptions), whose
        stream is read in the background and counts against no `Limits.max_connections`; the server says what is
        `honored`. In the handshake era by notifications and `resources/subscribe` (2025-11-25, server/resources,
        Subscriptions): one request for each resource, however many subscriptions watch it; what the server did not
        declare is not `honored`.

        Args:
            tools: The list of tools.
            prompts: The list of prompts.
            resources: The lists of resources and templates.
            uris: Single resources to watch; what a server says of parts of them counts.
            task_ids: Tasks to watch; servers may leave that out, so poll as well.
            reconnect: Go on, after a `Missed` event, when the stream, session or child was lost. False: the reader gets
                the error that says what was lost. Where the server ends it properly, the iteration ends either way.
            timeout: Seconds until the server must have agreed; default the client's.

        Raises:
            ConfigError: Nothing was asked for.
            CapabilityError: On entering: the server announces none of it.
            FerruleError: On entering: see `call_tool`.
        """
        from ._async_handles import AsyncSubscription
        from ._session.subscriptions import Subscription as Core
        from ._session.subscriptions import Wanted

        wanted = Wanted(tools, prompts, resources, uris, task_ids)
        return AsyncSubscription(Core(self._session, wanted, timeout, reconnect))

    async def set_log_level(self, level: str, *, timeout: Timeout = UNSET) -> None:
        """Choose the least severe of the server's log messages to be sent from now on.

        In the handshake era by `logging/setLevel` (2025-11-25, server/utilities/logging), asked again in a session that
        replaces a lost one; in the stateless era for this client's later requests, without a word to the server.

        Args:
            level: "debug", "info", "notice", "warning", "error", "critical", "alert" or "emergency".
            timeout: Seconds; default the client's.

        Raises:
            ConfigError: There is no such level.
            CapabilityError: The server does not log (handshake era); nothing was sent.
            FerruleError: See `call_tool`.
        """
        await features.set_log_level(self._session, level, timeout)

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference | Mapping[str, Any],
        argument: tuple[str, str] | Mapping[str, str],
        *,
        context: Mapping[str, str] | None = None,
        timeout: Timeout = UNSET,
        meta: Mapping[str, Any] | None = None,
    ) -> CompleteResult:
        """Have the server complete an argument (server/utilities/completion).

        Args:
            ref: The prompt or resource template: a reference of `types`, or a mapping in the schema's form.
            argument: Name of the argument and what was typed so far, as a pair or a mapping.
            context: The other arguments, as far as they are known, by name.
            timeout: Seconds; default the client's.
            meta: Members of `_meta` for this request.

        Raises:
            CapabilityError: The server completes nothing; nothing was sent.
            FerruleError: See `call_tool`.
        """
        return await features.complete(self._session, ref, argument, context, timeout, meta)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: Timeout = UNSET,
        on_progress: OnProgress | None = None,
        idempotent: bool | None = None,
    ) -> dict[str, Any]:
        """Send any request and return its result as it came.

        Args:
            method: The method's name.
            params: Its parameters; `_meta` among them joins the client's own.
            timeout: Seconds; default the client's.
            on_progress: As for `call_tool`.
            idempotent: May it be sent again after a lost answer? Default: as is known of the method, no if unknown.

        Raises:
            FerruleError: See `call_tool`.
        """
        return await features.request(
            self._session,
            method,
            params,
            timeout=timeout,
            on_progress=on_progress,
            idempotent=idempotent,
        )

    async def notify(self, method: str, params: Mapping[str, Any] | None = None, *, timeout: Timeout = UNSET) -> None:
        """Send a notification.

        Raises:
            ConfigError: In the stateless era over HTTP, where clients send none.
            FerruleError: It could not be sent.
        """
        await features.notify(self._session, method, params, timeout=timeout)

    async def notify_roots_changed(self, *, timeout: Timeout = UNSET) -> None:
        """Tell the server that the roots changed (client/roots, Root List Changes), so that it asks for them again.

        For `roots=` given as a function. In the stateless era, where servers ask when they need them, nothing is sent.

        Raises:
            ConfigError: The client was given no `roots=`.
            FerruleError: The server could not be told.
        """
        await features.notify_roots_changed(self._session, timeout)
