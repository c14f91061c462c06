"""What both clients are: the constructor's arguments, views, and what is known of the server.

Knows no way to wait: each client adds the methods that do, in its own colour.
"""

from __future__ import annotations

from ._session import features
from ._session.handlers import Handlers
from ._session.opening import new_session
from ._session.settings import DEFAULT_TIMEOUT, UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import Any, Self

    from ._http.tls import Tls
    from ._io.interface import IO
    from ._session.cache import CacheInfo, ResponseCache
    from ._session.extensions import Extension
    from ._session.retry import Retry
    from ._session.session import Session
    from ._session.settings import Auth, Headers, RequestMeta, Unset
    from ._session.target import Target
    from .limits import Limits
    from .types import CallToolResult, Implementation, Resume, ServerCapabilities


class BaseClient:
    """The part of a client that never waits."""

    _session: Session

    def __init__(
        self,
        target: Target,
        *,
        protocol: str = "auto",
        timeout: float | None = DEFAULT_TIMEOUT,
        retry: Retry | None = None,
        limits: Limits | None = None,
        headers: Headers | None = None,
        auth: Auth | None = None,
        tls: Tls = None,
        proxy: str | None = None,
        client_info: Implementation | Mapping[str, Any] | Unset | None = UNSET,
        request_meta: RequestMeta | None = None,
        on_elicitation: Callable[..., Any] | None = None,
        on_sampling: Callable[..., Any] | None = None,
        sampling_tools: bool = False,
        roots: Iterable[Any] | Callable[..., Any] | None = None,
        on_log: Callable[..., Any] | None = None,
        on_notification: Callable[..., Any] | None = None,
        listen: bool | None = None,
        keep_lists: bool = False,
        cache: ResponseCache | Unset | None = UNSET,
        stale_if_error: float = 0.0,
        extensions: Iterable[Extension] = (),
        validate_output: str = "off",
        capabilities: Mapping[str, Any] | None = None,
        log_level: str | None = None,
        prior: Mapping[str, Any] | None = None,
    ) -> None:
        """Nothing is opened here: the first call does that, or `connect`.

        Handlers run beside calls: in threads of their own for `Client`; in tasks, or if they are plain functions on the
        loop itself, for `AsyncClient`. They may use the client. At most `Limits.max_handlers` answer the server's
        requests at once. Notifications come in order for each stream, and may come after the call returned during
        which they were sent. What a handler raises is logged by its type; the server gets a constant error. The values
        in their signatures are in `ferrule.types`; a mapping in the schema's shape does as an answer.

        Servers of the stateless era ask in the answer to a call, which is sent again with what the handlers said: they
        run within the call then, at once for `AsyncClient` and one after another for `Client`, and one that raises
        ends the call in `InputRequired` (2026-07-28, basic/patterns/mrtr).

        Args:
            target: The server: a URL, `Stdio(command, ...)`, `Tcp(host, port, url)` or `Unix(path, url)`;
                `ByteStream(...)` for one that speaks the lines of stdio over a socket or pipes.
            protocol: "auto" (default: find out), "handshake", "stateless", or one revision such as "2025-11-25".
                Anything but "auto" is a pin: it never falls back.
            timeout: Seconds for one operation, all of connecting, waiting, retries and streaming included.
                Default 30; None for no limit.
            retry: How often to try again what may be repeated. Default `Retry()`: three attempts.
            limits: The bounds on everything else. Default `Limits()`.
            headers: HTTP headers for every request. None the client owns (framing, `Mcp-*`). Cookies among them are
                sent together with those the server sets, and go before one of the same name.
            auth: A bearer token; a function that returns one and is asked for each request (for `AsyncClient` it may
                be async); or an `Auth` of `ferrule.auth`. None of these over stdio.
            tls: The path of a CA file or directory to trust instead of the system's, or an `ssl.SSLContext`.
            proxy: The proxy to go through, "http://[user:password@]host[:port]"; "" for none. Default: as `HTTP_PROXY`,
                `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say (and the system's settings on Windows and macOS), but
                never for loopback. Other kinds of proxies, SOCKS among them, are not supported.
            client_info: Name and version to show the server, as `Implementation` or mapping. Default: ferrule's
                own; None stays anonymous where the protocol allows it.
            request_meta: Members of `_meta` for every request: a mapping, or a function that returns one and is
                asked for each request. The client's own keys cannot be set.
            on_elicitation: Asks the user what the server wants to know: `handler(request, context)`, with an
                `ElicitRequest` (its `mode` is "form" or "url") and a `Context`, returns an `ElicitResult`, such as
                `lambda request, context: ElicitResult.accept({"name": "Ann"})`.
            on_sampling: Has a language model answer for the server: `handler(request, context)`, with a
                `SamplingRequest`, returns a `CreateMessageResult` or raises `SamplingRejected`, such as
                `lambda request, context: CreateMessageResult.of_text("Hi!", model="mine")`.
            sampling_tools: `on_sampling` handles requests with tools.
            roots: The `file://` URIs the server may work in, as str or `Root`, or a function without arguments that
                returns them and is asked each time.
            on_log: Takes the server's log messages: `handler(message, context)`, with a `LogMessage`, such as
                `lambda message, context: print(message.level, message.text)`.
            on_notification: Takes every other notification but progress and cancellations:
                `handler(notification, context)`, with a `Notification`.
            listen: Keep a stream open for what the server sends unasked (handshake era over HTTP). Default: when
                a handler, subscription or kept list could use it.
            keep_lists: Keep lists in memory until the server says that they changed, the session is a new one, or
                `clear_cache` is called (handshake era). At most `Limits.max_cache_bytes`.
            cache: Where lists, resources and the server's words about itself are kept for as long as the server allows
                (stateless era): a `MemoryCache`, a `RedisCache` or another `ResponseCache`, which several clients may
                share; None to keep nothing. Default: a `MemoryCache` of this client's own.
            stale_if_error: Seconds after its time for which a kept answer may still be given when the server cannot be
                reached, is overloaded or does not answer in time. Default 0: not at all.
            extensions: Extensions of the protocol that this client speaks: see `Extension`.
            validate_output: What to do with structured content that breaks the tool's output schema: "off" (default),
                "warn" or "strict", which raises `InvalidResult`; a strict client calls no tool whose schema it cannot
                use. Needs `ferrule[schema]`, and a list of tools to have shown the schema. JSON Schema 2020-12 and
                draft-07; `format` is not checked; references lead within the schema only.
            capabilities: Client capabilities to declare beside those the handlers imply, as in the schema's
                `ClientCapabilities`.
            log_level: The least severe log message the server may send with its answers (stateless era).
            prior: What an earlier client's `prior` returned for this server: saves the first look at its era.

        Raises:
            ConfigError: An argument cannot be meant like that.
        """
        driver = self._driver()
        self._session = new_session(
            driver,
            target,
            protocol=protocol,
            timeout=timeout,
            retry=retry,
            limits=limits,
            headers=headers,
            auth=auth,
            tls=tls,
            proxy=proxy,
            client_info=client_info,
            request_meta=request_meta,
            handlers=Handlers(
                blocking=driver.blocking,
                on_elicitation=on_elicitation,
                on_sampling=on_sampling,
                sampling_tools=sampling_tools,
                roots=roots,
                on_log=on_log,
                on_notification=on_notification,
            ),
            listen=listen,
            keep_lists=keep_lists,
            cache=cache,
            stale_if_error=stale_if_error,
            extensions=extensions,
            validate_output=validate_output,
            capabilities=capabilities,
            log_level=log_level,
            prior=prior,
        )

    def _driver(self) -> type[IO]:
        """What does the waiting, loaded when the first client of its colour is made."""
        raise AssertionError("each client names its own")

    if TYPE_CHECKING:
        from ._session import cacheable as _cacheable
        from ._session import listing as _listing
    else:

        @property
        def _listing(self):
            """The functions for lists, loaded when a program first wants one."""
            from ._session import listing

            return listing

        @property
        def _cacheable(self):
            """The way to what is kept, likewise."""
            from ._session import cacheable

            return cacheable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._session.label} {self.era or 'not connected'}>"

    def with_options(
        self,
        *,
        headers: Headers | Unset | None = UNSET,
        auth: Auth | Unset | None = UNSET,
        timeout: float | Unset | None = UNSET,
        request_meta: RequestMeta | Unset | None = UNSET,
    ) -> Self:
        """A cheap view of this client for one of many end users.

        Connections, TLS and what is known of the server are shared; headers, credentials and (handshake era) the
        session are the view's own. What is not given is as in this client.

        Raises:
            ConfigError: An argument cannot be meant like that.
        """
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._session = self._session.with_options(headers, auth, timeout, request_meta)
        return view

    def clear_cache(self) -> None:
        """Forget the answers that are kept, and the lists that `keep_lists` keeps: the next question asks the server.

        In a store that is shared, what is kept of this server is dropped for all who share it.
        """
        self._cacheable.clear(self._session)

    def cache_info(self) -> CacheInfo:
        """How often this client, with all its views, was served from its cache, and what that holds now."""
        info: CacheInfo = self._cacheable.info(self._session)
        return info

    # What is known of the server

    @property
    def era(self) -> str | None:
        """The era spoken, "handshake" or "stateless"; None before the client is connected."""
        return features.era(self._session)

    @property
    def protocol_version(self) -> str | None:
        """The revision spoken; None before the client is connected."""
        return features.protocol_version(self._session)

    @property
    def server_info(self) -> Implementation | None:
        """Name and version the server gave; not verified by anybody. None if it did not say."""
        return features.server_info(self._session)

    @property
    def server_capabilities(self) -> ServerCapabilities | None:
        """What the server declared; None if it was not asked."""
        return features.server_capabilities(self._session)

    @property
    def instructions(self) -> str | None:
        """The server's advice for language models, or None."""
        return features.instructions(self._session)

    @property
    def session_id(self) -> str | None:
        """The session's id at the server (handshake era over HTTP), or None. A secret: keep it out of logs."""
        return features.session_id(self._session)

    @property
    def prior(self) -> dict[str, Any] | None:
        """What was found out about the server, as JSON data for a later client's `prior=`; None before."""
        return self._session.peer.prior()


def special_call(
    retry_after_elicitation: bool, tasks: bool, resume: Resume | None
) -> Callable[..., Coroutine[Any, Any, CallToolResult]]:
    """`features.call_tool` for what few callers want, loaded when it is first used."""
    from functools import partial

    call_tool: Callable[..., Coroutine[Any, Any, CallToolResult]] = features.call_tool
    if tasks or resume is not None:
        from ._session import tool_calls

        call_tool = partial(tool_calls.call_tool, tasks=tasks, resume=resume)
    if retry_after_elicitation:
        from ._session import url_elicitation

        call_tool = partial(url_elicitation.call_tool, call_tool)
    return call_tool
