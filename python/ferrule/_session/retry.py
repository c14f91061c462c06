"""When a request may be sent again, and after how long.

| what happened | any method | idempotent methods also |
| --- | --- | --- |
| no connection (`ConnectError`) that may be had a moment later, or closed before a byte was written | yes | |
| no such command, or none that can be run (`ConnectError.transient` is False) | never | |
| connection lost, child exited, stream ended without an answer | | yes |
| HTTP 5xx or 429 (`Retry-After` honoured, capped) | | yes |
| an answer that cannot be understood (`InvalidMessage`) | | yes |
| session lost (`SessionExpired`) | | once, in a new session: the session sees to that |
| child not started again yet (`ServerExited.retry_after`): fails fast | never | |
| timeout, oversized answer, other HTTP status, JSON-RPC error, invalid result | | never |

A stream that ends early after its server named an event (handshake era) is not a case of this table until the server
refuses to go on with it: the answer is fetched by GET, and no second request is sent (`_transports/resumption.py`).

The reason for the middle column: nothing was sent. A `tools/call` may have run once a byte of it left,
so only its caller can say that running it twice is harmless (`idempotent=True`). Annotations of a tool do not: they
are the server's word about itself.

Beside these, a request of any method is written again after a complete answer that proves that it was refused before
execution (`_protocol/refusals.py`); that is no retry, and counts against no `attempts`:

| the answer | written again |
| --- | --- |
| 307, 308 within the origin | where it leads, at most `Limits.max_redirects` times |
| -32022, unsupported revision | once, at the revision that is agreed anew |
| 401, 403 insufficient_scope, 401 use_dpop_nonce | once each in a round, if the `Auth` has other credentials |
| -32020, headers that do not match, to `call_tool` | once, by the list as it is then (`_session/tool_calls.py`) |

What a proxy between client and server does with a request it has passed on is beyond this: some send it again.
"""

from __future__ import annotations

from .._protocol import refusals
from .._value import Frozen
from ..errors import (
    ConfigError,
    ConnectError,
    ConnectionClosed,
    HTTPStatusError,
    InvalidMessage,
    InvalidResult,
    LimitExceeded,
    RequestTimeout,
    RPCError,
    ServerExited,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._transports.call import Call
    from ..errors import FerruleError


class Retry(Frozen):
    """How often and how patiently to try again.

    Attributes:
        attempts: How often a request is sent at most, the first time included. Default 3; 1 turns retries off.
        backoff: Seconds before the second attempt, doubled for each further one. Default 0.5.
        max_backoff: The longest such wait in seconds. Default 8.0.
    """

    __slots__ = ("attempts", "backoff", "max_backoff")

    attempts: int
    backoff: float
    max_backoff: float

    def __init__(self, attempts: int = 3, backoff: float = 0.5, max_backoff: float = 8.0) -> None:
        if not isinstance(attempts, int) or attempts < 1:
            raise ConfigError("Retry: attempts must be a whole number from 1")
        if not 0 <= backoff <= max_backoff:
            raise ConfigError("Retry: 0 <= backoff <= max_backoff (seconds) must hold")
        self._set("attempts", attempts)
        self._set("backoff", float(backoff))
        self._set("max_backoff", float(max_backoff))

    def delay(self, attempt: int, chance: float) -> float:
        """Seconds to wait after the failed `attempt` (from 1).

        Args:
            attempt: Which attempt failed.
            chance: A random number in [0, 1): spreads clients that failed together over half the wait.
        """
        longest = min(self.max_backoff, self.backoff * 2.0 ** min(attempt - 1, 60))
        return longest * (0.5 + chance / 2)


class Tries:
    """How far one operation has come with its attempts.

    Attributes:
        count: Which attempt this is, from 1; what did not count against `Retry.attempts` left aside.
        earlier: What the last one failed with.
        renewed: Was what is known of the server found out again, which is done once?
    """

    __slots__ = ("count", "earlier", "renewed")

    def __init__(self) -> None:
        self.count = 1
        self.earlier: FerruleError | None = None
        self.renewed = False


_LOST = (ConnectionClosed, ServerExited)
_UNCLEAR = (ConnectionClosed, ServerExited, InvalidMessage)


def may_repeat(error: FerruleError, idempotent: bool) -> bool:
    """May the request that failed like this be sent again? The table above, as code."""
    if isinstance(error, ConnectError):
        return error.transient
    if isinstance(error, ServerExited) and error.retry_after is not None:
        return False
    if isinstance(error, _LOST) and not error.request_sent:
        return True
    if not idempotent or isinstance(error, (InvalidResult, LimitExceeded)):
        return False
    if isinstance(error, HTTPStatusError):
        return transient(error.status)
    return isinstance(error, _UNCLEAR)


def refuses_revision(error: FerruleError) -> bool:
    """Was the request refused for its revision, before execution, so that it may be written again whatever it is?"""
    # One whose data do not have the shape that belongs to its code is a plain RPCError.
    return isinstance(error, RPCError) and type(error) is not RPCError and error.code == refusals.REVISION


def account(error: FerruleError, call: Call | None, earlier: FerruleError | None) -> None:
    """Say on the error what is true of the operation as a whole, all its attempts together."""
    if call is not None and call.sent:
        error.request_sent = True
    if earlier is None:
        return
    error.request_sent = error.request_sent or earlier.request_sent
    first: BaseException = error
    while first is not earlier and first.__cause__ is not None:
        first = first.__cause__
    if first is not earlier:
        first.__cause__ = earlier


def passes(error: FerruleError) -> bool:
    """Is this trouble that time may mend, so that what has all the time may wait for it?"""
    if isinstance(error, HTTPStatusError):
        return transient(error.status)
    return isinstance(error, (ConnectError, ConnectionClosed, RequestTimeout, ServerExited))


def transient(status: int) -> bool:
    """Does this HTTP status say "not now" rather than "no"?"""
    return status == 429 or (status >= 500 and status != 501)
