"""Byte streams that somebody else opened: what their objects are to a driver.

Knows sockets and the platforms where pipes cannot be polled.
"""

from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def as_socket(reader: Any, writer: Any) -> socket.socket | None:
    """One socket, made non-blocking, for both directions; None where two descriptors are polled as they are."""
    if reader is writer and isinstance(reader, socket.socket):
        reader.setblocking(False)
        return reader
    if os.name != "nt":
        return None
    from .processes import bridge

    sock = bridge(writer, reader)
    sock.setblocking(False)
    return sock
