"""A TLS handshake on a socket that does not block, within a deadline.

Knows what OpenSSL wants next. Knows no stream: whether that was closed meanwhile is asked.
"""

from __future__ import annotations

from time import monotonic

from . import Closing, Expired
from .wakers import LONGEST, POLLIN, POLLOUT, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from .wakers import Waker


def shake_hands(sock: ssl.SSLSocket, waker: Waker, deadline: float, is_closed: Callable[[], bool]) -> None:
    """Finish the handshake.

    Raises:
        Expired: The deadline passed first.
        OSError: The peer or its certificate is not acceptable, or the socket was closed.
    """
    fd = sock.fileno()
    while events := _step(sock):
        waker.pending = False
        if is_closed():
            raise ConnectionResetError("the stream was closed")
        if waker.scope.over:
            raise Closing
        seconds = min(deadline - monotonic(), LONGEST)
        if seconds <= 0:
            raise Expired
        poll = new_poll()
        poll.register(waker.fd, POLLIN)
        poll.register(fd, events)
        waker.asleep = True
        ready = () if waker.pending else poll.poll(seconds * 1000)
        waker.asleep = False
        if any(one == waker.fd for one, _ in ready):
            waker.clear()


def _step(sock: ssl.SSLSocket) -> int:
    """Go on as far as possible; return what to wait for, or 0 when it is done."""
    import ssl

    try:
        sock.do_handshake()
    except ssl.SSLWantReadError:
        return POLLIN
    except ssl.SSLWantWriteError:
        return POLLOUT
    return 0
