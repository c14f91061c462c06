"""Every bound of ferrule, with its default, unit and reason, in one value.

Knows numbers; what happens when a bound is reached is said where it is enforced.
"""

from __future__ import annotations

from ._value import Frozen
from .errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KIB = 1024
_MIB = 1024 * _KIB
_LARGEST = 2**53  # exact as an int, as a float and in every other language

# Here zero is a choice and not a mistake: no redirect, no waiting, nothing kept.
_MAY_BE_ZERO = frozenset(
    {
        "idle_timeout",
        "drain_timeout",
        "listen_wait",
        "max_redirects",
        "max_cookies",
        "max_retry_after",
        "stderr_tail_bytes",
        "exit_grace",
        "restart_window",
        "restart_backoff",
        "round_backoff",
        "max_handler_time",
    }
)

# What `help(Limits)` shows for each field, in the order of the constructor.
_DOCS = {
    "max_message_bytes": """Default 64 MiB. Bytes of one message, before and after
        decompression: a JSON body, an SSE event, a line on stdio. Above what real tools
        return (large images included) and still harmless to hold twice.""",
    "max_head_bytes": """Default 64 KiB. Bytes of the head of an HTTP response. Common servers
        and proxies send at most 8 to 32 KiB.""",
    "max_connections": """Default 100. Connections per origin that calls may hold at once; more
        calls wait in turn. Browsers allow 6, httpx 100; a server's own limit is often 100
        streams. Replies, cancellations and listening streams do not count.""",
    "idle_timeout": """Default 4.0 seconds. An unused connection is closed after this long,
        just before the 5 s after which uvicorn and Node close theirs.""",
    "drain_timeout": """Default 0.25 seconds. How long a connection may take to end its HTTP
        message after the caller has its answer; then it is closed instead of reused.""",
    "max_redirects": """Default 3. Redirects within one origin that one request follows:
        `/mcp` to `/mcp/` is one.""",
    "max_cookies": """Default 64. Cookies kept per origin for sticky load balancers. Browsers
        keep at least 50.""",
    "max_cookie_bytes": """Default 4096 bytes. Name and value of one cookie, as in browsers.""",
    "max_pages": """Default 1000. Pages that one listing gathers, so that a server that always
        gives another cursor cannot keep a caller for ever.""",
    "max_items": """Default 100,000. Items that one listing gathers, whatever its pages.""",
    "close_timeout": """Default 5.0 seconds. How long closing a client may take, even when the
        server does not answer DELETE or ignores the end of its input.""",
    "cancel_timeout": """Default 1.0 seconds. How long a notification that nobody waits for
        (cancelled) may take in the background.""",
    "reply_timeout": """Default 10.0 seconds. How long the answer to a request of the server's
        may take to be sent, once there is one.""",
    "probe_timeout": """Default 10.0 seconds. How long a stdio server may leave
        `server/discover` unanswered before it is taken for one of the handshake era. `npx`
        and `uvx` servers take seconds to start.""",
    "listen_wait": """Default 1.0 seconds. How long the first call waits for the headers of the
        stream that carries what the server sends unasked. Servers that have one answer within
        milliseconds; some answer only with the first event, and no call may hang on that.""",
    "max_handlers": """Default 32. Handlers of server requests that run at once, and as many of
        notifications; further ones wait. What a pool of threads has by default.""",
    "max_queue": """Default 1024. Notifications of one stream that wait for a slow handler, and
        requests that wait for their turn; further ones are counted, reported and lost.""",
    "max_cache_bytes": """Default 16 MiB. Bytes of kept responses in one client, and of kept lists in one session
        (`keep_lists`), as JSON; the oldest make room. A thousand tools with their schemas are about one MiB.""",
    "max_cache_entries": """Default 4096. Kept responses in one client, the small marks by which lists are dropped
        included; the least used make room.""",
    "max_cache_age": """Default 86400.0 seconds (a day). The longest a response is used without asking
        again, whatever the server allows.""",
    "poll_interval": """Default 1.0 seconds. How long to wait between two looks at a task whose
        server names no interval, as the official SDKs do.""",
    "min_poll_interval": """Default 0.1 seconds. The shortest such wait, whatever the server names.""",
    "max_poll_interval": """Default 60.0 seconds. The longest such wait, whatever the server names.""",
    "max_rounds": """Default 10. Rounds of one call: how often it is sent again with what its
        server asked for. A form and its corrections take two or three.""",
    "round_backoff": """Default 0.05 seconds. How long to wait before a call is sent again whose
        server asked for nothing; it doubles while that goes on.""",
    "max_round_backoff": """Default 1.0 seconds. The longest such wait: the server may be waiting
        for a person.""",
    "max_handler_time": """Default 3600.0 seconds. How long the handlers of one call may take, all its
        rounds together, while its timeout stands still: people take minutes, and a timeout is
        about servers. 0: the timeout runs on while a handler runs.""",
    "max_schema_bytes": """Default 1 MiB. Bytes of one output schema that results are checked by. Real
        ones have a few KiB.""",
    "max_subschemas": """Default 10,000. Subschemas that an output schema may apply to one value, each
        as often as it is reached: a few nested references can ask for millions.""",
    "max_skill_files": """Default 512. Files of one skill that is loaded: what every host accepts.""",
    "max_skill_bytes": """Default 16 MiB. Bytes of all files of one skill together, as the server
        lists them: what every host accepts.""",
    "stderr_tail_bytes": """Default 8192 bytes. The end of a child's stderr that is kept for
        `ServerExited`: about a hundred lines.""",
    "exit_grace": """Default 2.0 seconds. How long a child may take to end after its input is
        closed, and again after it was asked to terminate, before it is killed.""",
    "restart_window": """Default 10.0 seconds. A child that exits this soon after its start
        counts as failing; two in a row hold back the next start.""",
    "restart_backoff": """Default 0.5 seconds. The first wait before a failing child is started
        again; it doubles.""",
    "max_restart_backoff": """Default 30.0 seconds. The longest such wait.""",
    "max_retry_after": """Default 60.0 seconds. The most that a server's Retry-After, or the
        `retry:` of a stream that is kept open, is honoured; a call's own deadline holds anyway.""",
    "auth_timeout": """Default 10.0 seconds. How long one request to an authorization server, or for a
        document about one, may take; the call that needs it has its own deadline besides.""",
    "max_auth_bytes": """Default 1 MiB. Bytes of one such answer. Metadata and tokens are a few KiB.""",
}


class Limits(Frozen):
    """Every bound, frozen. Change one with `limits.replace(max_pages=10)`.

    Reaching a bound that concerns a call raises `LimitExceeded`, whose `.limit` is the field's
    name. `help(Limits)` shows each field's default, unit and reason.
    """

    __slots__ = _DOCS

    max_message_bytes: int
    max_head_bytes: int
    max_connections: int
    idle_timeout: float
    drain_timeout: float
    max_redirects: int
    max_cookies: int
    max_cookie_bytes: int
    max_pages: int
    max_items: int
    close_timeout: float
    cancel_timeout: float
    reply_timeout: float
    probe_timeout: float
    listen_wait: float
    max_handlers: int
    max_queue: int
    max_cache_bytes: int
    max_cache_entries: int
    max_cache_age: float
    poll_interval: float
    min_poll_interval: float
    max_poll_interval: float
    max_rounds: int
    round_backoff: float
    max_round_backoff: float
    max_handler_time: float
    max_schema_bytes: int
    max_subschemas: int
    max_skill_files: int
    max_skill_bytes: int
    stderr_tail_bytes: int
    exit_grace: float
    restart_window: float
    restart_backoff: float
    max_restart_backoff: float
    max_retry_after: float
    auth_timeout: float
    max_auth_bytes: int

    def __init__(
        self,
        *,
        max_message_bytes: int = 64 * _MIB,
        max_head_bytes: int = 64 * _KIB,
        max_connections: int = 100,
        idle_timeout: float = 4.0,
        drain_timeout: float = 0.25,
        max_redirects: int = 3,
        max_cookies: int = 64,
        max_cookie_bytes: int = 4096,
        max_pages: int = 1000,
        max_items: int = 100_000,
        close_timeout: float = 5.0,
        cancel_timeout: float = 1.0,
        reply_timeout: float = 10.0,
        probe_timeout: float = 10.0,
        listen_wait: float = 1.0,
        max_handlers: int = 32,
        max_queue: int = 1024,
        max_cache_bytes: int = 16 * _MIB,
        max_cache_entries: int = 4096,
        max_cache_age: float = 86400.0,
        poll_interval: float = 1.0,
        min_poll_interval: float = 0.1,
        max_poll_interval: float = 60.0,
        max_rounds: int = 10,
        round_backoff: float = 0.05,
        max_round_backoff: float = 1.0,
        max_handler_time: float = 3600.0,
        max_schema_bytes: int = _MIB,
        max_subschemas: int = 10_000,
        max_skill_files: int = 512,
        max_skill_bytes: int = 16 * _MIB,
        stderr_tail_bytes: int = 8192,
        exit_grace: float = 2.0,
        restart_window: float = 10.0,
        restart_backoff: float = 0.5,
        max_restart_backoff: float = 30.0,
        max_retry_after: float = 60.0,
        auth_timeout: float = 10.0,
        max_auth_bytes: int = _MIB,
    ) -> None:
        given = locals()
        for name in Limits.__slots__:
            self._set(name, _checked(name, given[name]))


_DEFAULTS: dict[str, Any] = Limits.__init__.__kwdefaults__ or {}


def _checked(name: str, value: object) -> object:
    """The value, if it can be a bound: a whole number where the default is one."""
    whole = isinstance(_DEFAULTS[name], int)
    expected = "a whole number" if whole else "a number"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise ConfigError(f"limits.{name}: expected {expected}, not {type(value).__name__}")
    zero = name in _MAY_BE_ZERO
    if not (0 < value <= _LARGEST or (zero and value == 0)):
        least = "zero or more" if zero else "positive"
        raise ConfigError(f"limits.{name}: expected {expected}, {least} and finite")
    return value
