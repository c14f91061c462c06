"""Where the browser comes back to: one answer on a loopback port, and the page that the user sees then.

Knows the request line of an HTTP GET (RFC 8252, section 7.3) and HTML. Whether the answer is good is judged by who
waits for it, who also says so on the page.
"""

from __future__ import annotations

from .._http.url import parse_url
from ..errors import ConfigError
from .pkce import same_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._http.url import Url
    from .._io.interface import IO, Asked, Listener

_ANY = 80
"""What a URL without a port has: nobody listens for a browser there."""
_DONE = "You are logged in."
_CLOSE = "You can close this window and go back to the program."
_STRAY = "This answer does not belong to a log-in that is under way here."
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>
body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1.5rem;
  color: #1f2328; background: #fff }}
h1 {{ font-size: 1.5rem; color: {colour} }}
@media (prefers-color-scheme: dark) {{ body {{ color: #e6edf3; background: #0d1117 }} }}
</style>
<h1>{title}</h1>
<p>{text}</p>
</html>
"""
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
    "Cache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Connection: close\r\n"
)


class Receiver:
    """A listener for one answer.

    Attributes:
        redirect_uri: What to register and to send as `redirect_uri`.
    """

    __slots__ = ("_answered", "_listener", "_path", "redirect_uri")

    def __init__(self, listener: Listener, wanted: Url) -> None:
        self._listener = listener
        self._path = wanted.target
        self._answered: Asked | None = None
        self.redirect_uri = _with_port(wanted, listener.port)

    async def query(self, state: str, deadline: float) -> str:
        """Wait for the answer that carries the state; its query, undecoded.

        What else comes (a favicon, an old tab, a page that guesses) is turned away and the wait goes on.

        Raises:
            Expired: The deadline passed.
        """
        while True:
            asked = await self._listener.request(deadline)
            path, _, query = _target(asked.head).partition("?")
            if path != self._path:
                asked.reply(_response("404 Not Found", "Not found", "There is nothing here.", bad=True))
            elif not same_secret(state, read_query(query).get("state", "")):
                asked.reply(_response("400 Bad Request", "Not logged in", _STRAY, bad=True))
            else:
                self._answered = asked
                return query

    def show(self, problem: str | None) -> None:
        """Tell the user, in the browser, how it went; None: well."""
        if self._answered is not None:
            if problem is None:
                page = _response("200 OK", _DONE, _CLOSE, bad=False)
            else:
                page = _response("200 OK", "The log-in did not succeed", problem, bad=True)
            self._answered.reply(page)
            self._answered = None

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()


async def open_receiver(io: IO, wanted: Url, before: str | None) -> Receiver:
    """Listen where a redirect URI of this machine points to.

    Args:
        io: Who listens.
        wanted: The URI. Without a port of its own any will do (RFC 8252, section 7.3).
        before: The one of last time, which the client may be registered with: its port is tried first then.

    Raises:
        OSError: The port is taken.
    """
    fixed = 0 if wanted.port == _ANY else wanted.port
    last = 0 if fixed else _port_of(before, wanted)
    if last:
        try:
            return Receiver(await io.listen(last), wanted)
        except OSError:
            pass  # somebody else's now: any other will do
    return Receiver(await io.listen(fixed), wanted)


def _with_port(wanted: Url, port: int) -> str:
    return f"http://{wanted.host}:{port}{wanted.target}"


def _port_of(before: str | None, wanted: Url) -> int:
    """The port of an earlier redirect URI that differs in nothing else; else 0."""
    if before is None:
        return 0
    try:
        port = parse_url(before).port
    except ConfigError:
        return 0
    return port if before == _with_port(wanted, port) else 0


def _target(head: bytes) -> str:
    """The target of a GET; "" for anything else."""
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    return rest.partition(" ")[0] if method == "GET" else ""


def read_query(query: str) -> dict[str, str]:
    """The parameters of an answer.

    One that comes twice is worth nothing (RFC 6749, section 3.1), but it is there: an `iss` must not vanish because
    somebody added another.
    """
    from urllib.parse import parse_qsl

    found: dict[str, str] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=100)
    except ValueError:
        return {}
    for name, value in pairs:
        found[name] = "" if name in found else value
    return found


def _response(status: str, title: str, text: str, *, bad: bool) -> bytes:
    from html import escape

    page = _PAGE.format(title=escape(title), text=escape(text), colour="#cf222e" if bad else "#1a7f37").encode()
    return f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(page)}\r\n\r\n".encode() + page
