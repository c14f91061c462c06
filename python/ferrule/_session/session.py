"""One view's requests to the server: under a link, with a deadline, tried again where that is safe.

Knows what a request is and when it failed; what methods mean is `features`' business, how bytes
travel the transport's.
"""

from __future__ import annotations

import math

from .. import _log
from .._io import Closing, Expired, Unsent
from .._json import dumps
from .._protocol.envelope import PROGRESS_TOKEN, SERVER_INFO, without_reserved
from .._transports.call import Call, Link, LinkLost
from .._transports.messages import check_answer
from ..errors import (
    CapabilityError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    RequestTimeout,
    RPCError,
    SessionExpired,
    UnsupportedProtocolVersion,
    rpc_error,
)
from .inbound import Inbound
from .negotiate import negotiate
from .progress import Progress
from .retry import account, may_repeat, proves_refusal
from .settings import UNSET, Unset, ViewSettings, check_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .._io.interface import IO
    from .._protocol.methods import Method
    from .._transports.interface import Transport
    from .peer import Peer
    from .settings import Auth, Headers, RequestMeta

_FAREWELLS = 16
"""Sessions that are ended at once on close: each may take a thread and a connection."""


class Session:
    """A view of the client: its credentials and defaults, and the link that goes with them."""

    __slots__ = ("__weakref__", "_generation", "_link", "peer", "root", "transport", "view")

    def __init__(self, peer: Peer, view: ViewSettings, root: Session | None = None) -> None:
        self.peer = peer
        self.view = view
        self.root = root
        self._link: Link | None = None
        self._attach()

    def _attach(self) -> None:
        self._link = None
        self.transport: Transport = self.peer.transport.view(self.view.headers, self.view.auth)
        if self.root is None or self.transport is not self.root.transport:
            self.transport.inbound = Inbound(self)
        # Last: until then other threads come here too.
        self._generation = self.peer.generation

    @property
    def io(self) -> IO:
        """Does everything that waits."""
        return self.peer.io

    @property
    def settings(self) -> Any:
        """What the client was asked to be."""
        return self.peer.settings

    @property
    def label(self) -> str:
        """The server as texts name it."""
        return self.transport.label

    @property
    def link(self) -> Link | None:
        """What was agreed with the server; None before that."""
        return self._link

    @property
    def handshake(self) -> bool:
        """Does the link belong to the handshake era?"""
        link = self._link
        return link is not None and link.era.handshake

    def next_id(self) -> int:
        """An id for one attempt of one request."""
        return self.peer.next_id()

    def enter(self) -> None:
        """Each public operation passes here first: is this still the process and loop it was?"""
        peer = self.peer
        if peer.io.check():
            peer.renew_after_fork()
        if self._generation != peer.generation:
            # The root first: whether a view's transport is the root's decides whose link it uses.
            with peer.io.mutex():
                for session in (self.root, self):
                    if session is not None and session._generation != peer.generation:
                        session._attach()

    def enter_until(self, timeout: float | Unset | None) -> float:
        """As `enter`; gives the deadline of an operation that starts now."""
        peer = self.peer
        io = peer.io
        if io.check() or self._generation != peer.generation:
            self.enter()
            io = peer.io
        if timeout is not UNSET:
            return self.deadline(timeout)
        seconds = self.view.timeout
        return math.inf if seconds is None else io.now() + seconds

    def deadline(self, timeout: float | Unset | None = UNSET) -> float:
        """When an operation that starts now must end."""
        seconds = self.view.timeout if isinstance(timeout, Unset) else check_timeout(timeout)
        return math.inf if seconds is None else self.peer.io.now() + seconds

    def with_options(
        self,
        headers: Headers | Unset | None,
        auth: Auth | Unset | None,
        timeout: float | Unset | None,
        request_meta: RequestMeta | Unset | None,
    ) -> Session:
        """Another view of the same client."""
        view = self.view.changed(headers, auth, timeout, request_meta)
        return Session(self.peer, view, self.root or self)

    # The link

    async def ready(self, deadline: float) -> Link:
        """The link, opened if need be: once for all who ask at the same time.

        Raises:
            FerruleError: It cannot be opened. Nothing is left running and it can be tried again.
        """
        self.check_open()
        if self.root is not None and self.transport is self.root.transport:
            # Over stdio all views talk to one child, in one session.
            self._link = await self.root.ready(deadline)
            return self._link
        if self._link is not None:
            return self._link
        return await self.peer.io.once(("link", self), self._open, deadline)  # type: ignore[no-any-return]

    async def link_by(self, deadline: float, what: str) -> Link:
        """The link, for an operation that needs to know it first.

        Raises:
            RequestTimeout: It was not open at the deadline.
        """
        try:
            return self._link or await self.ready(deadline)
        except Expired:
            raise RequestTimeout(
                f"{what} at {self.label}: not connected within the timeout", request_sent=False
            ) from None
        except Closing:
            raise ConnectionClosed(f"{what} at {self.label}: the client was closed", request_sent=False) from None
        except FerruleError as error:
            # What was sent belongs to the negotiation, not to the operation that waits for it.
            error.request_sent = False
            raise

    async def _open(self, deadline: float) -> Link:
        if self._link is not None:
            return self._link
        link = await negotiate(self, deadline)
        with self.peer.io.mutex():
            closed = self.peer.closed
            if not closed:
                self._link = link
                if link.session_id is not None:
                    self.peer.sessions[link] = self
        if closed:
            await self.disconnect(link, deadline)
            self.check_open()
        return link

    def drop(self, link: Link) -> None:
        """Forget a link that is no good any more, unless another has taken its place."""
        with self.peer.io.mutex():
            self.peer.sessions.pop(link, None)
            for session in (self, self.root):
                if session is not None and session._link is link:
                    session._link = None

    def check_open(self) -> None:
        """Raise ConnectionClosed once the client was closed."""
        if self.peer.closed:
            raise ConnectionClosed(f"{self.label}: the client is closed", request_sent=False)

    # Requests

    async def perform(
        self,
        method: Method,
        params: bytes | None,
        deadline: float,
        name: str | None = None,
        meta: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        idempotent: bool | None = None,
    ) -> dict[str, Any]:
        """Send a request and return its result, a complete one.

        Args:
            method: The method's row.
            params: Its serialised parameters without `_meta`.
            deadline: When to give up, all attempts included.
            name: What `Mcp-Name` mirrors.
            meta: The caller's members of `_meta`.
            progress: The caller's progress handler, and whether progress moves the deadline.
            idempotent: May it be sent again after a lost answer? None: as the method's row says.

        Raises:
            FerruleError: Of the last attempt, the one before as its cause.
        """
        repeatable = method.idempotent if idempotent is None else idempotent
        attempt = 1
        earlier: FerruleError | None = None
        renewed = False
        while True:
            call: Call | None = None
            try:
                link = self._link or await self.link_by(deadline, method.name)
                call = self._call(method, name, params, meta, deadline, progress, link)
                message = await self.transport.request(call, link)
                return self._result(message, call, link)
            except LinkLost:
                self.drop(link)
                continue
            except (Expired, Closing) as signal:
                error = self._interrupted(signal, method, call)
            except FerruleError as failure:
                error = failure
            account(error, call, earlier)
            if call is None:
                # Connecting was tried as often as it may be, or nothing may be sent at all.
                raise error
            if self._out_of_date(error, link, repeatable) and not renewed:
                renewed = True
            elif may_repeat(error, repeatable) and await self.pause(error, attempt, deadline):
                attempt += 1
            else:
                raise error
            earlier = error

    def _call(
        self,
        method: Method,
        name: str | None,
        params: bytes | None,
        meta: Mapping[str, Any] | None,
        deadline: float,
        progress: Progress | None,
        link: Link,
    ) -> Call:
        """One attempt, with an id of its own and `_meta` evaluated for it."""
        capabilities = link.capabilities
        if capabilities is not None and method.capability is not None:
            self._require(method.capability, capabilities, method)
        call_id = self.peer.next_id()
        if meta is None and progress is None and self.view.request_meta is None:
            return Call(call_id, method, name, params, None, deadline)
        extra = self._meta(meta)
        if progress is not None:
            extra[PROGRESS_TOKEN] = call_id
        call = Call(call_id, method, name, params, dumps(extra, "_meta") if extra else None, deadline)
        if progress is not None:
            call.deliver = progress.for_call(call, self.io)
        return call

    def _meta(self, meta: Mapping[str, Any] | None) -> dict[str, Any]:
        given = self.view.request_meta
        fixed = given() if callable(given) else given
        extra = without_reserved(fixed) if fixed else {}
        if meta:
            extra.update(without_reserved(meta))
        return extra

    def request_meta_only(self) -> bytes | None:
        """The user's standing `_meta`, serialised, for requests nobody asked for by name."""
        extra = self._meta(None)
        return dumps(extra, "request_meta") if extra else None

    def _require(self, capability: str, declared: dict[str, Any], method: Method) -> None:
        if capability not in declared:
            raise CapabilityError(
                f"{method.name}: {self.label} did not declare the capability {capability}; nothing was sent"
            )

    def _result(self, message: dict[str, Any], call: Call, link: Link) -> dict[str, Any]:
        result: dict[str, Any] | None = message.get("result")
        if type(result) is not dict or "error" in message:
            check_answer(message, f"{call.method.name} at {self.label}")
            raise self.rpc_error(message["error"], call)
        kind = result.get("resultType")
        if kind is not None and kind != "complete":
            link.era.check_result(call.method, result)
        verdict = self.peer.verdict
        if verdict is not None and not verdict.proven:
            verdict.proven = True
        if link.server_info is None and "_meta" in result:
            self._note_server(result, link)
        return result

    def _note_server(self, result: dict[str, Any], link: Link) -> None:
        """Any result may say who the server is (basic/index, Per-response protocol fields)."""
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        if isinstance(info, dict):
            link.server_info = info

    def rpc_error(self, error: dict[str, Any], call: Call) -> RPCError:
        """The server's JSON-RPC error as an exception."""
        message = error.get("message")
        return rpc_error(
            code=error["code"],
            message=message if isinstance(message, str) else "",
            data=error.get("data"),
            http_status=call.head.status if call.head is not None else None,
            method=call.method.name,
            server=self.label,
        )

    def _interrupted(self, signal: Exception, method: Method, call: Call | None) -> FerruleError:
        """What a deadline or the client's end means to who called `method`."""
        sent = call is not None and call.sent
        where = f"{method.name} at {self.label}"
        if isinstance(signal, Closing):
            return ConnectionClosed(f"{where}: the client was closed", request_sent=sent)
        phase = "no answer" if sent else "not sent"
        return RequestTimeout(
            f"{where}: {phase} within the timeout; raise `timeout` if the server needs longer",
            request_sent=sent,
        )

    def _out_of_date(self, error: FerruleError, link: Link, repeatable: bool) -> bool:
        """Was what we knew of the server wrong, so that it is to be found out again before one more try?

        True only where sending once more is safe: the server proved that it did nothing, or the
        method may be repeated anyway.
        """
        verdict = self.peer.verdict
        if isinstance(error, SessionExpired):
            self.drop(link)
            return repeatable
        if verdict is None or not verdict.stateless or self.settings.protocol != "auto":
            return proves_refusal(error) and self._same_again(error, link)
        if proves_refusal(error):
            self._forget(link)
            return True
        if verdict.proven or not isinstance(error, (RPCError, HTTPStatusError)):
            return False
        status = error.status if isinstance(error, HTTPStatusError) else error.http_status
        if status is not None and not 400 <= status < 500:
            return False
        self._forget(link)
        return repeatable

    def _same_again(self, error: FerruleError, link: Link) -> bool:
        """A pinned revision is refused although the server lists it: worth one more try."""
        return isinstance(error, UnsupportedProtocolVersion) and link.era.revision in error.supported

    def _forget(self, link: Link) -> None:
        self.peer.verdict = None
        self.drop(link)

    async def pause(self, error: FerruleError, attempt: int, deadline: float) -> bool:
        """Wait before the attempt after this one; False when there is to be none."""
        peer = self.peer
        retry = peer.settings.retry
        if peer.closed or attempt >= retry.attempts:
            return False
        import random

        seconds = retry.delay(attempt, random.random())
        after = getattr(error, "retry_after", None)
        if after is not None:
            seconds = max(seconds, min(after, peer.settings.limits.max_retry_after))
        if peer.io.now() + seconds >= deadline:
            return False
        try:
            await peer.io.sleep(seconds)
        except Closing:
            return False
        return not peer.closed

    # What is sent beside requests

    async def notify(self, method: str, params: bytes | None, deadline: float) -> None:
        """Send a notification of the caller's."""
        while True:
            link = self._link or await self.link_by(deadline, method)
            try:
                return await self.transport.notify(method, params, link, deadline)
            except LinkLost:
                self.drop(link)
            except SessionExpired:
                self.drop(link)
                raise
            except (Expired, Closing) as signal:
                where = f"{method} at {self.label}"
                if isinstance(signal, Closing):
                    raise ConnectionClosed(f"{where}: the client was closed", request_sent=True) from None
                sent = not isinstance(signal, Unsent)
                raise RequestTimeout(f"{where}: not accepted within the timeout", request_sent=sent) from None

    def reply_in_background(self, message: dict[str, Any], link: Link) -> None:
        """Send the answer to a request of the server's without making the reader wait."""
        self.io.background(self._reply(message, link))

    async def _reply(self, message: dict[str, Any], link: Link) -> None:
        deadline = self.io.now() + self.settings.limits.cancel_timeout
        try:
            await self.transport.reply(message, link, deadline)
        except (FerruleError, Expired, Closing, LinkLost) as error:
            _log.debug("a reply could not be sent: %s", type(error).__name__)

    # The end

    async def disconnect(self, link: Link, deadline: float) -> None:
        """End the link's session at the server, if it has an id there."""
        self.drop(link)
        try:
            await self.transport.end_session(link, deadline)
        except (FerruleError, Expired, Closing) as error:
            _log.debug("the session's end could not be told: %s", type(error).__name__)

    def disconnect_in_background(self, link: Link) -> None:
        """End a session that nobody will use, without making anybody wait."""
        deadline = self.io.now() + self.settings.limits.close_timeout
        self.io.background(self.disconnect(link, deadline))

    async def close(self) -> None:
        """End this view; the client's own view closes everything. Idempotent, bounded by `Limits.close_timeout`."""
        self.enter()
        peer = self.peer
        deadline = peer.io.now() + peer.settings.limits.close_timeout
        if self.root is not None:
            link = self._link
            if link is not None and link in peer.sessions:
                await self.disconnect(link, deadline)
            return
        with peer.io.mutex():
            already = peer.closed
            peer.closed = True
            sessions = iter(list(peer.sessions.items()))
            lanes = min(len(peer.sessions), _FAREWELLS)
            peer.sessions.clear()
        if already:
            return
        try:
            # The rest of the time belongs to the transport: a server that ignores DELETE may not use it up.
            farewell = peer.io.now() + peer.settings.limits.close_timeout / 2
            await peer.io.fan_out(*(self._disconnect_all(sessions, farewell) for _ in range(lanes)))
            await peer.transport.close(deadline)
        except BaseException:
            deadline = peer.io.now()  # whoever closes is in a hurry
            raise
        finally:
            self._link = None
            await peer.io.close(deadline)

    async def _disconnect_all(self, sessions: Iterator[tuple[Link, Session]], deadline: float) -> None:
        """End one session after another until none is left; several do so at once."""
        for link, session in sessions:
            if self.io.now() < deadline:
                await session.disconnect(link, deadline)
