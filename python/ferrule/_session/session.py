"""One view's requests to the server: under a link, with a deadline, tried again where that is safe.

Knows what a request is and when it failed; what methods mean is `features`' business, how bytes
travel the transport's.
"""

from __future__ import annotations

from math import inf

from .._io import Closing, Expired, Unsent
from .._json import dumps
from .._protocol.envelope import PROGRESS_TOKEN, SERVER_INFO, without_reserved
from .._transports.call import Call, Link, LinkLost, SpecialCall
from .._transports.messages import check_answer
from ..errors import (
    ConnectionClosed,
    FerruleError,
    HeaderMismatch,
    HTTPStatusError,
    MissingClientCapability,
    RequestTimeout,
    RPCError,
    SessionExpired,
    UnsupportedProtocolVersion,
)
from .linked import Linked
from .negotiate import negotiate
from .retry import Tries, account, may_repeat, refuses_revision
from .settings import UNSET, Unset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._protocol.methods import Method
    from .peer import Peer
    from .progress import Progress
    from .settings import Auth, Headers, RequestMeta, ViewSettings
    from .special import Special


_OF_THIS_ERA = (HeaderMismatch, MissingClientCapability)
"""Errors of the stateless era: they leave a verdict that says so as it is."""


class Session(Linked):
    """A view of the client: its credentials and defaults, the link that goes with them, and what is sent under it."""

    __slots__ = ()

    def with_options(
        self,
        headers: Headers | Unset | None,
        auth: Auth | Unset | None,
        timeout: float | Unset | None,
        request_meta: RequestMeta | Unset | None,
    ) -> Session:
        """Another view of the same client."""
        view = self.view.changed(headers, auth, timeout, request_meta)
        return new_view(self.peer, view, self.root or self)

    async def _open(self, deadline: float) -> Link:
        if self._link is not None:
            return self._link
        link = await negotiate(self, deadline)
        with self.peer.io.mutex():
            closed = self.peer.closed
            if not closed:
                self._link = link
                if link.session_id is not None or (link.process and self.transport.http):
                    self.peer.sessions[link] = self
        if closed:
            await self.disconnect(link, deadline)
            self.check_open()
        if self.settings.handlers.any:
            self.peer.reception()  # so that no reader has to load it
        if self.needs_stream:
            await self.listen(deadline)
        again, self._opened = self._opened, True
        if again and self.on_new_link:
            from .renewal import renew

            await renew(self, link, deadline)
        return link

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
        special: Special | None = None,
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
            special: What these requests carry that others do not.

        Raises:
            FerruleError: Of the last attempt, the one before as its cause.
        """
        tries: Tries | None = None
        while True:
            call: Call | None = None
            link: Link = self._link  # type: ignore[assignment]
            try:
                if link is None:
                    link = await self.link_by(deadline, method.name)
                # Most calls are plain, and so are their results: no function of its own for either (benches/calls.py).
                declared = link.capabilities
                if (meta is None and progress is None and special is None and self.view.request_meta is None) and (
                    declared is None or method.capability is None or method.capability in declared
                ):
                    call = Call(self.peer.next_id(), method, name, params, None, deadline)
                else:
                    call = self._call(method, name, params, meta, deadline, progress, link, special)
                message = await self.transport.request(call, link)
                result = message.get("result")
                if (
                    type(result) is dict
                    and "error" not in message
                    and link.proven
                    and result.get("resultType", "complete") == "complete"
                    and ("_meta" not in result or link.server_info is not None)
                ):
                    return result
                return self._result(message, call, link)
            except LinkLost:
                self.drop(link)
                # Links end, and the next one is good: only one that is lost again at once is a failure.
                if tries is None:
                    tries = Tries()
                    continue
                problem: Exception = self._lost_again(method.name)
            except (Expired, Closing, FerruleError) as failure:
                problem = failure
            tries = tries or Tries()
            await self._weigh(problem, method, call, link, idempotent, deadline, tries)

    def _lost_again(self, what: str) -> ConnectionClosed:
        text = f"{what} at {self.label}: the connection was lost again and again before it was sent"
        return ConnectionClosed(text, request_sent=False)

    async def _weigh(
        self,
        problem: Exception,
        method: Method,
        call: Call | None,
        link: Link,
        idempotent: bool | None,
        deadline: float,
        tries: Tries,
    ) -> None:
        """After a failed attempt: raise, or return when it is time for another one."""
        error = problem if isinstance(problem, FerruleError) else self._interrupted(problem, method, call)
        account(error, call, tries.earlier)
        if call is None:
            # Connecting was tried as often as it may be, or nothing may be sent at all.
            raise error
        repeatable = method.idempotent if idempotent is None else idempotent
        if self._out_of_date(error, link, repeatable) and not tries.renewed:
            tries.renewed = True
        elif may_repeat(error, repeatable) and await self.pause(error, tries.count, deadline):
            tries.count += 1
        else:
            raise error
        tries.earlier = error

    def _call(
        self,
        method: Method,
        name: str | None,
        params: bytes | None,
        meta: Mapping[str, Any] | None,
        deadline: float,
        progress: Progress | None,
        link: Link,
        special: Special | None,
    ) -> Call:
        """One attempt, with an id of its own and `_meta` evaluated for it."""
        capability, declared = method.capability, link.capabilities
        if capability is not None and declared is not None and capability not in declared:
            from .._protocol.declared import require

            require(declared, capability, method.name, self.label)
        call_id = self.peer.next_id()
        evaluated = None
        if special is not None and special.evaluation is not None:
            evaluated = special.evaluation.spend()
        extra = self._meta(meta) if evaluated is None else self._merged(evaluated, meta)
        if special is not None:
            special.note(extra, link)
        if progress is not None:
            extra[PROGRESS_TOKEN] = call_id
        meta_bytes = dumps(extra, "_meta") if extra else None
        if progress is None and special is None:
            return Call(call_id, method, name, params, meta_bytes, deadline)
        call = SpecialCall(call_id, method, name, params, meta_bytes, deadline)
        if special is not None:
            self._specialise(call, special, link)
        if progress is not None:
            call.deliver = progress.for_call(call, self.io)
            self.inbound.watch(call)
        return call

    def _specialise(self, call: SpecialCall, special: Special, link: Link) -> None:
        era = link.era
        call.headers = special.headers if era.mirrors and self.transport.http else None
        call.accepts = special.accepts
        call.special = special
        if special.declares and era.meta is not None:
            call.envelope = self.peer.envelope_declaring(era, special.declares)

    def evaluate(self) -> dict[str, Any]:
        """What the user's `request_meta` gives now, without the keys the client owns."""
        given = self.view.request_meta
        fixed = given() if callable(given) else given
        return without_reserved(fixed) if fixed else {}

    def _meta(self, meta: Mapping[str, Any] | None) -> dict[str, Any]:
        return self._merged(self.evaluate(), meta)

    def _merged(self, evaluated: dict[str, Any], meta: Mapping[str, Any] | None) -> dict[str, Any]:
        return {**evaluated, **without_reserved(meta)} if meta else evaluated

    def request_meta_only(self) -> bytes | None:
        """The user's standing `_meta`, serialised, for requests nobody asked for by name."""
        extra = self._meta(None)
        return dumps(extra, "request_meta") if extra else None

    def _result(self, message: dict[str, Any], call: Call, link: Link) -> dict[str, Any]:
        """The result in an answer, or the error it is; what it says of the server is noted."""
        result: dict[str, Any] | None = message.get("result")
        if type(result) is not dict or "error" in message:
            check_answer(message, f"{call.method.name} at {self.label}")
            raise self.rpc_error(message["error"], call)
        if not link.proven:
            self._prove(link)
        if link.server_info is None and "_meta" in result:
            self._note_server(result, link)
        if result.get("resultType", "complete") != "complete":
            link.era.check_result(call.method, result, call.accepts)
        return result

    def _prove(self, link: Link) -> None:
        """A result came: what the link was opened by was right."""
        link.proven = True
        verdict = self.peer.verdict
        if verdict is not None:
            verdict.proven = True

    def _note_server(self, result: dict[str, Any], link: Link) -> None:
        """Any result may say who the server is (basic/index, Per-response protocol fields)."""
        meta = result.get("_meta")
        info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
        if isinstance(info, dict):
            link.server_info = info

    def rpc_error(self, error: dict[str, Any], call: Call) -> RPCError:
        """The server's JSON-RPC error as an exception."""
        from .._protocol.rpc_errors import rpc_error

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
            return refuses_revision(error) and self._same_again(error, link)
        if refuses_revision(error):
            self._forget(link)
            return True
        if verdict.proven or not isinstance(error, (RPCError, HTTPStatusError)) or isinstance(error, _OF_THIS_ERA):
            return False
        status = error.status if isinstance(error, HTTPStatusError) else error.http_status
        if status is not None and not 400 <= status < 500:
            return False
        self._forget(link)
        return repeatable

    def _same_again(self, error: FerruleError, link: Link) -> bool:
        """A pinned revision is refused although the server lists it: worth one more try."""
        return isinstance(error, UnsupportedProtocolVersion) and link.era.is_among(error.supported)

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
        for _ in range(self.settings.retry.attempts + 1):
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
        raise self._lost_again(method)


class PatientSession(Session):
    """A view whose user may have to log in first: until there is a link, that does not count against a timeout."""

    __slots__ = ()

    def enter_until(self, timeout: float | Unset | None) -> float:
        """See `Linked.enter_until`."""
        deadline = Linked.enter_until(self, timeout)
        return deadline if self._link is not None or timeout is not UNSET else deadline + self._patience

    def deadline(self, timeout: float | Unset | None = UNSET) -> float:
        """See `Linked.deadline`."""
        deadline = Linked.deadline(self, timeout)
        return deadline if self._link is not None else deadline + self._patience

    def for_exchange(self, deadline: float) -> float:
        """See `Linked.for_exchange`: a server that does not answer is given what it always gets."""
        seconds = self.view.timeout
        return min(deadline, max(deadline - self._patience, self.io.now() + (inf if seconds is None else seconds)))

    @property
    def _patience(self) -> float:
        return float(self.view.auth.patience)  # type: ignore[union-attr]  # that is why it is one of these


def new_view(peer: Peer, view: ViewSettings, root: Session | None = None) -> Session:
    """A view of a client, of the kind that its credentials need."""
    kind = PatientSession if getattr(view.auth, "patience", 0.0) else Session
    return kind(peer, view, root)
