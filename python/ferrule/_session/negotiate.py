"""Find out which era a server speaks and open a link to it.

The rules of evidence (2026-07-28, basic/versioning, stdio and streamable-http, Backward Compatibility):

* A `DiscoverResult`, or a well-formed -32020, -32021 or -32022, means the stateless era. One exception, on
  purpose: a list of supported revisions that holds handshake ones only.
* Any other answer that is complete (a JSON-RPC error, another 4xx, 501, a 200 that says something else) and,
  on stdio, silence or an exit, means the handshake era.
* An outage is no evidence: 5xx, 408, 425, 429, a timeout, a lost connection are tried again, then raised.
* 401 and 403 are about the caller. With a credential just sent, `initialize` is tried once: some
  gateways refuse what they do not know.
* A pin never falls back from its era or revision.
* 400, 404 or 405 to `initialize` that is no modern error may come from a server of the old HTTP+SSE transport
  (2025-11-25, basic/transports, Backwards Compatibility): if a GET opens a stream that names an endpoint, it is one. So
  it is tried in this order also for `protocol="2024-11-05"`, whose own HTTP transport that is: a URL does not say which
  of the two is behind it, and servers of the later one speak that revision too. Pins to other revisions exclude it.
"""

from __future__ import annotations

from .. import _log
from .._io import Expired
from .._json import dumps
from .._protocol import envelope, methods, versions
from .._transports.call import Call, Link, LinkLost
from .._transports.messages import check_answer
from ..errors import (
    AuthError,
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HeaderMismatch,
    HTTPStatusError,
    InvalidMessage,
    InvalidResult,
    MissingClientCapability,
    NegotiationError,
    RequestTimeout,
    RPCError,
    ServerExited,
    TransportError,
    UnknownResultType,
    UnsupportedProtocolVersion,
)
from .retry import account, transient
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._protocol.handshake import HandshakeEra
    from .._protocol.methods import Method
    from .._transports.interface import Transport
    from .session import Session

_MODERN = (HeaderMismatch, MissingClientCapability, UnsupportedProtocolVersion)
_NO_VERDICT = frozenset({407, 408, 425, 429})
_ANSWERS = (AuthError, HTTPStatusError, InvalidMessage, InvalidResult, RPCError, UnknownResultType)
"""Errors that stand for a complete answer of the server's."""


async def negotiate(session: Session, deadline: float) -> Link:
    """Open a link: by the verdict the client has, or by finding one.

    Raises:
        NegotiationError: No revision in common.
        FerruleError: The server could not be asked, or refused.
    """
    try:
        return await _negotiate(session, deadline)
    except LinkLost:
        if session.transport.http:
            raise ConnectionClosed(
                f"{session.label}: the event stream was lost during the handshake", request_sent=False
            ) from None
        raise ServerExited(f"{session.label}: exited during the handshake", request_sent=False) from None
    except BaseException:
        _leave_nothing(session)
        raise


def _leave_nothing(session: Session) -> None:
    """A failed connect leaves no child running (N10). Over HTTP there is nothing to leave."""
    process = session.transport.process
    if process and not session.peer.closed:
        from .._protocol.handshake import HandshakeEra

        session.disconnect_in_background(Link(HandshakeEra(versions.HANDSHAKE[0]), process=process))


async def _negotiate(session: Session, deadline: float) -> Link:
    peer = session.peer
    verdict = peer.verdict
    if verdict is None:
        verdict = await _find_verdict(session, deadline)
    elif not verdict.stateless and not verdict.proven:
        return await _open_prior_handshake(session, deadline)
    link = await _open(session, verdict, deadline)
    # Not before: what a timeout or an exit made us believe has proved right only now.
    peer.verdict = verdict
    return link


async def _open(session: Session, verdict: Verdict, deadline: float) -> Link:
    if verdict.stateless:
        return _open_stateless(session, verdict)
    return await _handshake(session, verdict, deadline)


async def _open_prior_handshake(session: Session, deadline: float) -> Link:
    """A prior verdict that proves wrong is found anew, once."""
    peer = session.peer
    prior = peer.verdict
    assert prior is not None
    try:
        return await _open(session, prior, deadline)
    except (NegotiationError, *_ANSWERS) as error:
        if session.settings.protocol != "auto" or _is_no_answer(error):
            raise
    if prior.http_sse:
        session.transport = peer.transport.view(session.view.headers, session.view.auth)
        session.transport.inbound = session.inbound
    peer.verdict = await _find_verdict(session, deadline)
    return await _open(session, peer.verdict, deadline)


async def _find_verdict(session: Session, deadline: float) -> Verdict:
    protocol = session.settings.protocol
    if protocol == "auto":
        return await _probe(session, deadline)
    if protocol == "stateless":
        return Verdict(True, versions.STATELESS[0])
    if protocol == "handshake":
        return Verdict(False, versions.HANDSHAKE[0])
    return Verdict(versions.is_stateless(protocol), protocol)


# The stateless era


def _open_stateless(session: Session, verdict: Verdict) -> Link:
    level = session.standing.log_level if session.standing is not None else None
    era = session.peer.stateless_era(verdict.revision, level)
    link = Link(era, wire=session.transport.wire(era, None))
    if verdict.discovered is not None:
        take_discovered(link, verdict.discovered)
    return link


def take_discovered(link: Link, discovered: dict[str, Any]) -> None:
    """Note what a `DiscoverResult` says of the server."""
    capabilities = discovered.get("capabilities")
    link.capabilities = capabilities if isinstance(capabilities, dict) else None
    instructions = discovered.get("instructions")
    link.instructions = instructions if isinstance(instructions, str) else None
    meta = discovered.get("_meta")
    info = meta.get(envelope.SERVER_INFO) if isinstance(meta, dict) else None
    if info is None:
        info = discovered.get("serverInfo")
    link.server_info = info if isinstance(info, dict) else None


async def _probe(session: Session, deadline: float) -> Verdict:
    """Ask `server/discover` and judge by the rules of evidence above."""
    transport = session.transport
    try:
        return await _discover(session, versions.STATELESS[0], deadline)
    except UnsupportedProtocolVersion as error:
        return await _discover_again(session, error.supported, deadline)
    except (HeaderMismatch, MissingClientCapability):
        raise
    except _ANSWERS as error:
        if _is_no_answer(error):
            raise
        status = _status(error)
        if _is_outage(status) or (status in (401, 403) and not transport.sends_credential):
            raise
    except (ServerExited, RequestTimeout):
        # A server on stdio that falls silent or over at an unknown request: an old one.
        if transport.http or session.io.now() >= deadline:
            raise
    return Verdict(False, versions.HANDSHAKE[0])


def _is_no_answer(error: FerruleError) -> bool:
    """Did authorization fail on its own way, so that nothing of the server's was heard?"""
    return isinstance(error, AuthError) and error.step is not None


def _status(error: FerruleError) -> int | None:
    """The HTTP status an answer came with, None if it was 200 or not over HTTP."""
    if isinstance(error, (HTTPStatusError, AuthError)):
        return error.status
    return error.http_status if isinstance(error, RPCError) else None


def _is_outage(status: int | None) -> bool:
    return status is not None and (status in _NO_VERDICT or transient(status))


async def _discover_again(session: Session, supported: tuple[str, ...] | list[str], deadline: float) -> Verdict:
    """The server named its revisions: ask once more at one of them, even the one just sent."""
    revision = versions.newest_common(supported, versions.STATELESS)
    if revision is None:
        return _handshake_of(session, supported)
    try:
        return await _discover(session, revision, deadline)
    except UnsupportedProtocolVersion as error:
        raise _nothing_in_common(session, error.supported) from None


def _handshake_of(session: Session, supported: tuple[str, ...] | list[str]) -> Verdict:
    revision = versions.newest_common(supported, versions.HANDSHAKE)
    if revision is None:
        raise _nothing_in_common(session, supported)
    return Verdict(False, revision)


def _nothing_in_common(session: Session, supported: tuple[str, ...] | list[str]) -> NegotiationError:
    return NegotiationError(
        f"{session.label}: no protocol revision in common",
        offered=versions.KNOWN,
        supported=tuple(supported),
    )


async def _discover(session: Session, revision: str, deadline: float) -> Verdict:
    era = session.peer.stateless_era(revision)
    link = Link(era, wire=session.transport.wire(era, None))
    result = await _ask(session, methods.DISCOVER, None, link, deadline)
    supported = result.get("supportedVersions")
    if not isinstance(supported, list) or not all(isinstance(one, str) for one in supported):
        raise InvalidResult("server/discover", "supportedVersions: expected array of strings")
    if not isinstance(result.get("capabilities"), dict):
        raise InvalidResult("server/discover", "capabilities: expected object")
    chosen = versions.newest_common(supported, versions.STATELESS)
    if chosen is None:
        return _handshake_of(session, supported)
    return Verdict(True, chosen, result)


# The handshake era


async def _handshake(session: Session, verdict: Verdict, deadline: float) -> Link:
    """`initialize`, then `notifications/initialized`: only then is the link anybody else's to use."""
    from .._protocol.handshake import HandshakeEra, initialize_params

    settings = session.settings
    offered = HandshakeEra(verdict.revision)
    info = settings.client_info or session.peer.default_info
    capabilities = settings.handlers.capabilities(True, settings.capabilities)
    params = dumps(initialize_params(verdict.revision, capabilities, info), "initialize")
    call: list[Call] = []
    try:
        first, result = await _initialize(session, verdict, offered, params, deadline, call)
    except (HTTPStatusError, RPCError) as error:
        if verdict.http_sse or not verdict.proven or not _may_be_http_sse(session, error):
            raise
        await _fall_back(session, verdict, error, deadline)
        first, result = await _initialize(session, verdict, offered, params, deadline, call)
    session_id = _session_id(call[-1])
    revision = result.get("protocolVersion")
    if not isinstance(revision, str) or not versions.agreed(revision, settings.protocol):
        await session.disconnect(_session_link(session, offered, session_id, first), deadline)
        raise _nothing_in_common(session, (revision,) if isinstance(revision, str) else ())
    link = _session_link(session, HandshakeEra(revision), session_id, first)
    _take_initialized(link, result)
    await _confirm(session, link, deadline)
    return link


async def _initialize(
    session: Session, verdict: Verdict, era: HandshakeEra, params: bytes, deadline: float, calls: list[Call]
) -> tuple[Link, dict[str, Any]]:
    """Send `initialize`; the link it went under and its result."""
    if verdict.http_sse and session.transport.listens:
        session.transport = _http_sse(session)
    await _start(session, deadline)
    first = Link(era, wire=session.transport.wire(None, None), process=session.transport.process)
    return first, await _ask(session, methods.INITIALIZE, params, first, deadline, calls)


async def _start(session: Session, deadline: float) -> None:
    """Have what carries the messages; over HTTP that is tried again as a request is."""
    if not session.transport.http:
        return await session.transport.start(deadline)
    attempt = 1
    earlier: FerruleError | None = None
    while True:
        try:
            return await session.transport.start(deadline)
        except FerruleError as failure:
            error = failure
        account(error, None, earlier)
        if not _is_passing(error) or not await session.pause(error, attempt, deadline):
            raise error
        earlier = error
        attempt += 1


def _http_sse(session: Session) -> Transport:
    """The old transport to the same server, for the same session."""
    streamable: Any = session.transport  # no other one listens
    transport: Transport = streamable.as_http_sse()
    transport.inbound = session.inbound
    return transport


def _may_be_http_sse(session: Session, error: HTTPStatusError | RPCError) -> bool:
    if not session.transport.listens or not versions.may_have_http_sse(session.settings.protocol):
        return False
    return _status(error) in (400, 404, 405) and not isinstance(error, _MODERN)


async def _fall_back(session: Session, verdict: Verdict, refused: FerruleError, deadline: float) -> None:
    """See whether a GET opens a stream of the old transport; if so it is used from now on.

    Raises:
        ProtocolError: It does, and names an endpoint that must not be used.
        FerruleError: It does not: what was said to the POST.
    """
    transport = _http_sse(session)
    try:
        # A stream of the later transport opens as well, and never names an endpoint.
        await transport.start(min(deadline, session.io.now() + session.settings.limits.probe_timeout))
    except (Expired, TransportError, AuthError, InvalidMessage) as error:
        if isinstance(error, AuthError) and _is_no_answer(error):
            raise
        raise refused from None
    session.transport = transport
    verdict.http_sse = True


def _session_link(session: Session, era: HandshakeEra, session_id: str | None, first: Link) -> Link:
    wire = session.transport.wire(era, session_id)
    link = Link(era, session_id=session_id, wire=wire, process=first.process)
    if session.transport.listens:
        from .._transports.streams import Awaited

        link.awaited = Awaited(session.io.mutex())
    return link


async def _confirm(session: Session, link: Link, deadline: float) -> None:
    try:
        await session.transport.notify("notifications/initialized", None, link, deadline)
    except BaseException:
        session.disconnect_in_background(link)
        raise


def _take_initialized(link: Link, result: dict[str, Any]) -> None:
    capabilities = result.get("capabilities")
    link.capabilities = capabilities if isinstance(capabilities, dict) else {}
    info = result.get("serverInfo")
    link.server_info = info if isinstance(info, dict) else None
    instructions = result.get("instructions")
    link.instructions = instructions if isinstance(instructions, str) else None


def _session_id(call: Call) -> str | None:
    from .._protocol.handshake import usable_session_id

    given = call.head.get("mcp-session-id") if call.head is not None else None
    if given is None or usable_session_id(given):
        return given
    _log.warning("the server's session id is not 1 to 4096 visible ASCII characters: not used")
    return None


# Asking


async def _ask(
    session: Session,
    method: Method,
    params: bytes | None,
    link: Link,
    deadline: float,
    calls: list[Call] | None = None,
) -> dict[str, Any]:
    """Send one request of the negotiation, with retries; return its result.

    `calls` collects the attempts, for what their answers' heads say.
    """
    attempt = 1
    earlier: FerruleError | None = None
    while True:
        call = _call(session, method, params, link, deadline)
        if calls is not None:
            calls.append(call)
        try:
            message = await session.transport.request(call, link)
            return _result(session, call, link, message)
        except Expired:
            text = f"{method.name}: no answer from {session.label} in time"
            error: FerruleError = RequestTimeout(text, request_sent=call.sent)
        except FerruleError as failure:
            error = failure
        account(error, call, earlier)
        if not _is_passing(error) or not await session.pause(error, attempt, deadline):
            raise error
        earlier = error
        attempt += 1


def _call(session: Session, method: Method, params: bytes | None, link: Link, deadline: float) -> Call:
    deadline = session.for_exchange(deadline)
    if method is methods.DISCOVER and not session.transport.http:
        deadline = min(deadline, session.io.now() + session.settings.limits.probe_timeout)
    meta = session.request_meta_only() if link.era.meta is not None else None
    return Call(session.next_id(), method, None, params, meta, deadline, bypass=True)


def _is_passing(error: FerruleError) -> bool:
    """Is it an outage, to be waited out? What is an answer is for the rules of evidence to judge."""
    if isinstance(error, HTTPStatusError):
        return error.status != 407 and _is_outage(error.status)
    if isinstance(error, ConnectError):
        return error.transient
    return isinstance(error, ConnectionClosed)


def _result(session: Session, call: Call, link: Link, message: dict[str, Any]) -> dict[str, Any]:
    check_answer(message, f"{call.method.name} at {session.label}")
    if "error" in message:
        raise session.rpc_error(message["error"], call)
    result: dict[str, Any] = message["result"]
    link.era.check_result(call.method, result)
    return result
