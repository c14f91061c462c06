"""What can go wrong, as one tree.

    FerruleError                 .request_sent: may the server have acted on it?
    ├── LimitExceeded            .limit: which of Limits
    ├── TransportError
    │   ├── ConnectError         .transient; never sent
    │   ├── ConnectionClosed     ended before the answer
    │   ├── RequestTimeout       also a builtin TimeoutError; never retried
    │   ├── HTTPStatusError      .status, .retry_after, .content_type
    │   ├── SessionExpired
    │   └── ServerExited         stdio; .exit_code, .retry_after, .stderr_tail
    ├── ProtocolError            the peer broke the protocol
    │   ├── InvalidMessage       bytes that are no JSON-RPC message
    │   ├── InvalidResult        .method, .problem: a result of the wrong shape
    │   ├── UnknownResultType    .result_type
    │   └── SkillRejected        .reason: a skill is not what its server lists
    ├── RPCError                 .code .message .data .http_status .method .server, from the server
    │   ├── MethodNotFound
    │   ├── InvalidParams
    │   ├── HeaderMismatch
    │   ├── MissingClientCapability    .required
    │   ├── UnsupportedProtocolVersion .supported, .requested
    │   ├── URLElicitationRequired     .elicitations
    │   └── ToolError            .result, .name: only when the caller asks call_tool to raise
    ├── CapabilityError          the server did not declare it; nothing was sent
    ├── NegotiationError         .offered, .supported: no revision in common
    ├── TaskCancelled            a task was given up before it gave a result
    ├── InputRequired            .requests, .state: rounds exhausted or no handler
    ├── AuthError                .status, .error, .description, .step, .url
    │   ├── AuthChallengeError   the server wants authorization that is not there, or refuses what is
    │   ├── AuthDiscoveryError   who gives tokens, and how, could not be found out
    │   ├── AuthRegistrationError    the authorization server took no client registration
    │   ├── AuthorizationError   the user or the authorization server said no
    │   ├── AuthTokenError       no token was given, or none that may be used
    │   └── AuthStepUpError      more scopes are wanted than were granted
    └── ConfigError              the caller's settings contradict each other or the protocol

What the server said is in `.message`, `.description` and `.data`, never in `str()` or `repr()`.
Every error can be pickled and copied with all its attributes; `__cause__` is left to `raise`.

This module knows names and attributes. It does not know when an error is raised or retried.
"""

from __future__ import annotations

from ._text import escape_peer_text, shown_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class FerruleError(Exception):
    """The root of everything ferrule raises on purpose.

    Attributes:
        request_sent: May the server have acted on it? False only if no byte was handed to the kernel, in any attempt.
    """

    def __init__(self, message: str, *, request_sent: bool = False) -> None:
        super().__init__(message)
        self.request_sent = request_sent

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, dict(self.__dict__))


def _restore(cls: type[FerruleError], args: tuple[Any, ...], attributes: dict[str, Any]) -> FerruleError:
    """Rebuild an error without its constructor, whose keywords differ from class to class."""
    error = cls.__new__(cls, *args)
    error.args = args  # a TimeoutError leaves them to its constructor
    error.__dict__.update(attributes)
    return error


class LimitExceeded(FerruleError):
    """A bound of `Limits` was reached.

    Attributes:
        limit: The name of the field of `Limits`.
    """

    def __init__(self, message: str, *, limit: str, request_sent: bool = False) -> None:
        super().__init__(message, request_sent=request_sent)
        self.limit = limit


# --- the way to the server -----------------------------------------------------------------------


class TransportError(FerruleError):
    """The message or its answer did not get through."""

    def __init__(self, message: str, *, request_sent: bool) -> None:
        super().__init__(message, request_sent=request_sent)


class ConnectError(TransportError):
    """No connection could be made (address, TLS, proxy, command not found): nothing was sent.

    Attributes:
        transient: May it succeed a moment later? Else it is not tried again.
    """

    def __init__(self, message: str, *, transient: bool = True, request_sent: bool = False) -> None:
        super().__init__(message, request_sent=request_sent)
        self.transient = transient


class ConnectionClosed(TransportError):
    """The connection ended before the answer was complete, or the client was closed meanwhile."""


class RequestTimeout(TransportError, TimeoutError):
    """The deadline of the call passed. Never retried. Also caught by `except TimeoutError`."""


class HTTPStatusError(TransportError):
    """An HTTP status without a JSON-RPC answer.

    Attributes:
        status: The HTTP status code.
        retry_after: Seconds the server asked to wait, if it did.
        content_type: The media type of the body that is not shown, escaped and capped.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        retry_after: float | None = None,
        content_type: str | None = None,
        request_sent: bool = True,
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.status = status
        self.retry_after = retry_after
        self.content_type = None if content_type is None else escape_peer_text(content_type)


class SessionExpired(TransportError):
    """The server no longer knows the session. The next call starts a new one."""

    def __init__(self, message: str, *, request_sent: bool = True) -> None:
        super().__init__(message, request_sent=request_sent)


class ServerExited(TransportError):
    """The server's process, or the byte stream to it, ended.

    Attributes:
        exit_code: The process's exit code, negative for a signal, None when unknown.
        retry_after: Seconds until it will be started again, if restarts are being held back.
        stderr_tail: The last bytes it wrote to stderr. Not part of the error's text.
    """

    def __init__(
        self,
        message: str,
        *,
        exit_code: int | None = None,
        retry_after: float | None = None,
        stderr_tail: bytes = b"",
        request_sent: bool,
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.exit_code = exit_code
        self.retry_after = retry_after
        self.stderr_tail = stderr_tail


# --- what the peer sent --------------------------------------------------------------------------


class ProtocolError(FerruleError):
    """The peer broke the protocol. The text names positions and sizes, never what was received."""

    def __init__(self, message: str, *, request_sent: bool = True) -> None:
        super().__init__(message, request_sent=request_sent)


class InvalidMessage(ProtocolError):
    """Bytes that are no JSON, or JSON that is no JSON-RPC message."""


class InvalidResult(ProtocolError):
    """A result of the wrong shape.

    Attributes:
        method: The method that was called.
        problem: Where and what, such as `tools[3].name: expected string`.
    """

    def __init__(self, method: str, problem: str, *, request_sent: bool = True) -> None:
        super().__init__(f"{method}: {problem}", request_sent=request_sent)
        self.method = method
        self.problem = problem


class UnknownResultType(ProtocolError):
    """A `resultType` that neither the protocol nor an extension in use defines.

    Attributes:
        result_type: What the server called it, escaped and capped.
    """

    def __init__(self, message: str, *, result_type: str = "", request_sent: bool = True) -> None:
        super().__init__(message, request_sent=request_sent)
        self.result_type = escape_peer_text(result_type)


class SkillRejected(ProtocolError):
    """A skill is not what its server lists, or not listed as a skill must be. Its content is not to be used.

    Attributes:
        reason: What is wrong: "entry", "dynamic", "unlisted", "size", "digest" or "frontmatter".
    """

    def __init__(self, message: str, *, reason: str, request_sent: bool = True) -> None:
        super().__init__(message, request_sent=request_sent)
        self.reason = reason


class RPCError(FerruleError):
    """The server answered with a JSON-RPC error.

    `str()` is method, code and server label. What the server said is in `.message`.

    Attributes:
        code: The JSON-RPC error code.
        message: The server's words, control characters escaped, at most 1 KiB.
        data: The `data` member, as received.
        http_status: The HTTP status it came with, if it came over HTTP.
        method: The method that was called.
        server: The label of the server that answered.
    """

    def __init__(
        self,
        *,
        code: int,
        message: str,
        data: Any = None,
        http_status: int | None = None,
        method: str | None = None,
        server: str | None = None,
        request_sent: bool = True,
    ) -> None:
        super().__init__(_headline(f"error {code}", method, server), request_sent=request_sent)
        self.code = code
        self.message = escape_peer_text(message)
        self.data = data
        self.http_status = http_status
        self.method = method
        self.server = server

    @property
    def is_resource_not_found(self) -> bool:
        """Whether this says that a resource does not exist.

        That is -32002 before revision 2026-07-28, and -32602 as the answer to `resources/read`
        since (which older servers also send for other faults of the parameters).
        """
        return self.code == -32002 or (self.code == -32602 and self.method == "resources/read")


def _headline(what: str, method: str | None, server: str | None) -> str:
    text = f"{method}: {what}" if method else what
    return f"{text} from {server}" if server else text


class MethodNotFound(RPCError):
    """-32601: the server does not know the method, or did not advertise its capability."""


class InvalidParams(RPCError):
    """-32602: unknown tool, prompt or resource, a bad argument, a bad cursor."""


class HeaderMismatch(RPCError):
    """-32020: the `Mcp-*` headers do not match the body. The request was not executed."""


class MissingClientCapability(RPCError):
    """-32021: the request needs a client capability that was not declared. Nothing was executed, or sent again.

    Give the client the handler for it (`on_elicitation`, `on_sampling`, `roots`), or declare it with `capabilities=`
    to answer by hand.
    """

    @property
    def required(self) -> Mapping[str, Any]:
        """The capabilities that the server asks for, as it wrote them."""
        required = member(self.data, "requiredCapabilities")
        return required if isinstance(required, dict) else {}


class UnsupportedProtocolVersion(RPCError):
    """-32022: the server does not speak the revision of the request. It was not executed."""

    @property
    def supported(self) -> tuple[str, ...]:
        """The revisions that the server does speak."""
        return strings(member(self.data, "supported")) or ()

    @property
    def requested(self) -> str:
        """The revision that was refused."""
        requested = member(self.data, "requested")
        return requested if isinstance(requested, str) else ""


class URLElicitationRequired(RPCError):
    """-32042 (2025-11-25): the user must visit one or more URLs before the call can succeed."""

    @property
    def elicitations(self) -> tuple[Mapping[str, Any], ...]:
        """The parameters of each elicitation (`url`, `message`, `elicitationId`), as received.

        `types.ElicitRequest.from_wire` reads one. No URL is ever opened by ferrule.
        """
        elicitations = member(self.data, "elicitations")
        return tuple(elicitations) if isinstance(elicitations, list) else ()


class ToolError(RPCError):
    """A tool reported failure (`is_error`) and the caller had asked for an exception.

    Attributes:
        code: 0, since there was no JSON-RPC error.
        message: The text of the result, control characters escaped, at most 1 KiB.
        result: The whole `CallToolResult`.
        name: The tool.
    """

    def __init__(self, result: Any, *, name: str, server: str | None = None, request_sent: bool = True) -> None:
        super().__init__(code=0, message=result.text, method="tools/call", server=server, request_sent=request_sent)
        self.args = (_headline("the tool reported an error", "tools/call", server),)
        self.result = result
        self.name = name


def member(data: Any, name: str) -> Any:
    """A member of what may be a JSON object, or None."""
    return data.get(name) if isinstance(data, dict) else None


def strings(value: Any) -> tuple[str, ...] | None:
    """The texts of what may be a list of texts, or None."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return None


# --- decisions of the client ---------------------------------------------------------------------


class CapabilityError(FerruleError):
    """The server did not declare the capability that the method needs. Nothing was sent."""


class NegotiationError(FerruleError):
    """Client and server have no protocol revision in common.

    Attributes:
        offered: The revisions the client would have spoken.
        supported: The revisions the server named, escaped and capped.
    """

    def __init__(
        self, message: str, *, offered: Iterable[str], supported: Iterable[str], request_sent: bool = False
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.offered = tuple(offered)
        self.supported = tuple(escape_peer_text(version, 64) for version in supported)


class TaskCancelled(FerruleError):
    """A task was cancelled, by whomever, before it gave a result (stateless era; earlier servers answer an error)."""


class InputRequired(FerruleError):
    """The server wants input that no handler gave, or more rounds than `Limits.max_rounds` allows.

    To go on, now or in another process, make the same call with `resume=types.Resume(responses, error.state)`, the
    responses by the keys of `requests` (2026-07-28, basic/patterns/mrtr). Nothing that a handler answered was kept.

    Attributes:
        requests: What the server asks, by its keys, as received: `types.read_input_request` reads one. Empty when it
            only wants to be asked again.
        state: The server's `requestState`, to be sent back unaltered; None if there was none.
    """

    def __init__(
        self, message: str, *, requests: Mapping[str, Any], state: str | None, request_sent: bool = True
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.requests = requests
        self.state = state


class AuthError(FerruleError):
    """Authorization was refused or could not be had.

    `str()` is what the client was doing and where, the status, and the server label. What the authorization
    server said is in `.error` and `.description`. The subclasses say at which step it failed.

    Attributes:
        status: The HTTP status, if there was an answer.
        error: The OAuth error code, escaped and capped.
        description: The peer's words, control characters escaped, at most 1 KiB.
        method: The method that was called.
        server: The label of the server that answered.
        step: What the client was doing to get authorization; None when the MCP server itself refused the request.
        url: Where it was done, without user and query.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        error: str | None = None,
        description: str | None = None,
        method: str | None = None,
        server: str | None = None,
        step: str | None = None,
        url: str | None = None,
        request_sent: bool = False,
    ) -> None:
        self.url = None if url is None else shown_url(url)
        what = f"{step}: {message}" if step else message
        what = f"{what}, at {self.url}" if self.url else what
        what = what if status is None else f"{what} (HTTP {status})"
        super().__init__(_headline(what, method, server), request_sent=request_sent)
        self.status = status
        self.error = None if error is None else escape_peer_text(error, 64)
        self.description = None if description is None else escape_peer_text(description)
        self.method = method
        self.server = server
        self.step = step


class AuthChallengeError(AuthError):
    """The server wants authorization that is not there, or refuses what is."""


class AuthDiscoveryError(AuthError):
    """Who gives tokens for the server, and how, could not be found out."""


class AuthRegistrationError(AuthError):
    """The authorization server does not know the client and did not register it."""


class AuthorizationError(AuthError):
    """The user or the authorization server said no, or did not answer."""


class AuthTokenError(AuthError):
    """No token was given, or none that may be used."""


class AuthStepUpError(AuthError):
    """The server wants more scopes than were, or may be, granted."""


class ConfigError(FerruleError):
    """What the caller set contradicts itself or the protocol. Nothing was sent."""
