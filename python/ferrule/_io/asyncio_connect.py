"""Opening a connection on an event loop: names looked up, addresses tried side by side.

Knows the loop's resolver and sockets that are not yet connected. Deadlines are kept by whoever cancels the task.
"""

from __future__ import annotations

import asyncio
import socket

from .addresses import ATTEMPT_DELAY, in_turn, no_such_name, open_socket, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .addresses import Address


def drop(task: asyncio.Future[Any], discard: Callable[[Any], object] | None = None) -> None:
    """Take note of an outcome that nobody waits for."""
    if not task.cancelled() and task.exception() is None and discard is not None:
        discard(task.result())


async def look_up(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[Address]:
    try:
        found = await loop.getaddrinfo(plain(host), port, type=socket.SOCK_STREAM)
    except ValueError:  # the IDNA codec refused it, or a NUL
        raise no_such_name() from None
    return in_turn(found)


async def _attempt(loop: asyncio.AbstractEventLoop, address: Address) -> socket.socket:
    sock = open_socket(address)
    try:
        await loop.sock_connect(sock, address[3])
    except BaseException:
        sock.close()
        raise
    return sock


async def race(loop: asyncio.AbstractEventLoop, addresses: list[Address]) -> socket.socket:
    """Connect to the first address that answers; the next one starts when one fails or is slow."""
    if len(addresses) == 1:
        return await _attempt(loop, addresses[0])
    waiting = list(addresses)
    racing: set[asyncio.Task[socket.socket]] = set()
    failure: BaseException = OSError("the name has no address")
    try:
        while waiting or racing:
            if waiting:
                racing.add(loop.create_task(_attempt(loop, waiting.pop(0))))
            done, _ = await asyncio.wait(
                racing, timeout=ATTEMPT_DELAY if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    racing.discard(task)
                    return task.result()
                failure = error
            racing -= done
        raise failure
    finally:
        for task in racing:
            task.cancel()
            task.add_done_callback(lambda task: drop(task, lambda sock: sock.close()))
