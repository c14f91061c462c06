"""The sync client: what people import, over the session that does the work.

`AsyncClient` is its twin for asyncio. No event loop runs underneath and no thread is needed for a call.
"""

from __future__ import annotations

from ._client import BaseClient, with_elicitation
from ._session import features
from ._session.handlers import refuse_coroutine_function
from ._session.settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self, TypeVar

    from ._io.interface import IO
    from ._session.paging import Pages
    from ._session.settings import Unset
    from .types import (
        CallToolResult,
        DiscoverResult,
        GetPromptResult,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        Prompt,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        Tool,
    )

    T = TypeVar("T")
    Timeout = float | Unset | None
    OnProgress = Callable[[float, float | None, str | None], Any]

__all__ = ["Client"]


class Client(BaseClient):
    """A client of one MCP server, for code without an event loop (inside a running loop it works too).

    Use it as a context manager, or call `close()` when done. Calls may come from several threads.

        with Client("https://example.com/mcp") as client:
            print(client.call_tool("add", {"a": 1, "b": 2}).text)

    The arguments are `__init__`'s.
    """

    _run: Callable[[Coroutine[Any, Any, T]], T]
    """Drives a coroutine that never suspends, because its IO blocks instead."""

    def _driver(self) -> type[IO]:
        from ._io.blocking import BlockingIO, run

        self._run = run
        return BlockingIO

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def connect(self, *, timeout: Timeout = UNSET) -> None:
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
        self._run(features.connect(self._session, timeout))

    def close(self) -> None:
        """Close everything, within `Limits.close_timeout`. Idempotent; from any thread.

        Calls under way in other threads fail with `ConnectionClosed`. On a view made by
        `with_options` it ends that view's session only.
        """
        self._run(self._session.close())

    # Asking

    def discover(self, *, timeout: Timeout = UNSET) -> DiscoverResult:
        """What the server says of itself (2026-07-28, server/discover); in the handshake era, what it said at first.

        Raises:
            FerruleError: See `connect` and `call_tool`.
        """
        return self._run(features.discover(self._session, timeout))

    def ping(self, *, timeout: Timeout = UNSET) -> None:
        """See that the server answers. In the stateless era, which has no ping, by `server/discover`.

        Raises:
            FerruleError: It does not.
        """
        self._run(features.ping(self._session, timeout))

    def list_tools(self, *, timeout: Timeout = UNSET) -> list[Tool]:
        """All tools, from all pages (server/tools, Listing Tools).

        Args:
            timeout: Seconds for all pages together; default the client's.

        Raises:
            LimitExceeded: More pages or items than `Limits.max_pages`, `Limits.max_items`.
            CapabilityError: The server has no tools; nothing was sent.
            FerruleError: See `call_tool`.
        """
        return self._run(features.list_all(self._session, features.TOOLS, timeout))

    def list_tools_page(self, cursor: str | None = None, *, timeout: Timeout = UNSET) -> ListToolsResult:
        """One page of the tools: the first, or the one at a `next_cursor`."""
        page: ListToolsResult = self._run(features.list_page(self._session, features.TOOLS, cursor, timeout))
        return page

    def iter_tools(self, *, timeout: Timeout = UNSET) -> Iterator[Tool]:
        """The tools, each page fetched when it is needed; the timeout is for each page."""
        return _Items(self._run, features.iterate(self._session, features.TOOLS, timeout))

    def list_resources(self, *, timeout: Timeout = UNSET) -> list[Resource]:
        """All resources, from all pages (server/resources, Listing Resources). As `list_tools`."""
        return self._run(features.list_all(self._session, features.RESOURCES, timeout))

    def list_resources_page(self, cursor: str | None = None, *, timeout: Timeout = UNSET) -> ListResourcesResult:
        """One page of the resources."""
        page: ListResourcesResult = self._run(features.list_page(self._session, features.RESOURCES, cursor, timeout))
        return page

    def iter_resources(self, *, timeout: Timeout = UNSET) -> Iterator[Resource]:
        """The resources, each page fetched when it is needed."""
        return _Items(self._run, features.iterate(self._session, features.RESOURCES, timeout))

    def list_resource_templates(self, *, timeout: Timeout = UNSET) -> list[ResourceTemplate]:
        """All resource templates, from all pages (server/resources, Resource Templates). As `list_tools`."""
        return self._run(features.list_all(self._session, features.RESOURCE_TEMPLATES, timeout))

    def list_resource_templates_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET
    ) -> ListResourceTemplatesResult:
        """One page of the resource templates."""
        page: ListResourceTemplatesResult = self._run(
            features.list_page(self._session, features.RESOURCE_TEMPLATES, cursor, timeout)
        )
        return page

    def iter_resource_templates(self, *, timeout: Timeout = UNSET) -> Iterator[ResourceTemplate]:
        """The resource templates, each page fetched when it is needed."""
        return _Items(self._run, features.iterate(self._session, features.RESOURCE_TEMPLATES, timeout))

    def list_prompts(self, *, timeout: Timeout = UNSET) -> list[Prompt]:
        """All prompts, from all pages (server/prompts, Listing Prompts). As `list_tools`."""
        return self._run(features.list_all(self._session, features.PROMPTS, timeout))

    def list_prompts_page(self, cursor: str | None = None, *, timeout: Timeout = UNSET) -> ListPromptsResult:
        """One page of the prompts."""
        page: ListPromptsResult = self._run(features.list_page(self._session, features.PROMPTS, cursor, timeout))
        return page

    def iter_prompts(self, *, timeout: Timeout = UNSET) -> Iterator[Prompt]:
        """The prompts, each page fetched when it is needed."""
        return _Items(self._run, features.iterate(self._session, features.PROMPTS, timeout))

    def call_tool(
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
    ) -> CallToolResult:
        """Call a tool (server/tools, Calling Tools). Never sent twice unless `idempotent`.

        Args:
            name: The tool's name.
            arguments: What it is called with: JSON values only, nothing is coerced.
            timeout: Seconds; default the client's.
            on_progress: Called with `progress, total, message` of each notification, between reads.
            reset_on_progress: Each notification gives the call `timeout` seconds more, up to `max_total`.
            max_total: Seconds the call may take at most; needed with `reset_on_progress`.
            meta: Members of `_meta` for this request.
            idempotent: It is safe to run this call twice, so a lost answer may be asked for again.
            raise_on_error: Raise `ToolError` when the result says `is_error`.
            retry_after_elicitation: When the server answers that the user must visit a page first (-32042), ask the
                user through `on_elicitation`; if that accepts, wait until the server says that it is done, within
                the call's timeout, and call once more. Default: raise `URLElicitationRequired`, as also happens
                when the user does not accept or time is up.

        Returns:
            The tool's result; a failed tool is a result with `is_error`.

        Raises:
            TypeError: `arguments` or `meta` hold what JSON does not; nothing was sent.
            RPCError: The server answered with an error.
            RequestTimeout: No answer in time.
            TransportError: The connection or child failed. `request_sent` says whether the tool may have run.
            ProtocolError: The answer breaks the protocol.
            InputRequired: The server asks for input that no handler gives.
        """
        if on_progress is not None:
            refuse_coroutine_function("on_progress", on_progress)
        call_tool = features.call_tool if not retry_after_elicitation else with_elicitation()
        return self._run(
            call_tool(
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
        )

    def read_resource(
        self, uri: str, *, timeout: Timeout = UNSET, meta: Mapping[str, Any] | None = None
    ) -> ReadResourceResult:
        """Read a resource (server/resources, Reading Resources).

        Args:
            uri: The resource's URI.
            timeout: Seconds; default the client's.
            meta: Members of `_meta` for this request.

        Raises:
            RPCError: `is_resource_not_found` tells the commonest.
            FerruleError: See `call_tool`.
        """
        return self._run(features.read_resource(self._session, uri, timeout=timeout, meta=meta))

    def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: Timeout = UNSET,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """Get a prompt (server/prompts, Getting a Prompt).

        Args:
            name: The prompt's name.
            arguments: Its arguments, all text.
            timeout: Seconds; default the client's.
            meta: Members of `_meta` for this request.

        Raises:
            FerruleError: See `call_tool`.
        """
        return self._run(features.get_prompt(self._session, name, arguments, timeout=timeout, meta=meta))

    def request(
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
        if on_progress is not None:
            refuse_coroutine_function("on_progress", on_progress)
        return self._run(
            features.request(
                self._session,
                method,
                params,
                timeout=timeout,
                on_progress=on_progress,
                idempotent=idempotent,
            )
        )

    def notify(self, method: str, params: Mapping[str, Any] | None = None, *, timeout: Timeout = UNSET) -> None:
        """Send a notification.

        Raises:
            ConfigError: In the stateless era over HTTP, where clients send none.
            FerruleError: It could not be sent.
        """
        self._run(features.notify(self._session, method, params, timeout=timeout))

    def notify_roots_changed(self, *, timeout: Timeout = UNSET) -> None:
        """Tell the server that the roots changed (client/roots, Root List Changes), so that it asks for them again.

        For `roots=` given as a function. In the stateless era, where servers ask when they need them, nothing is sent.

        Raises:
            ConfigError: The client was given no `roots=`.
            FerruleError: The server could not be told.
        """
        self._run(features.notify_roots_changed(self._session, timeout))


class _Items:
    """Iterates over the items of a list that comes in pages."""

    __slots__ = ("_pages", "_run")

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], pages: Pages) -> None:
        self._run = run
        self._pages = pages

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._run(self._pages.next())
        except StopAsyncIteration:
            raise StopIteration from None
