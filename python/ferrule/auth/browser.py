"""Sending the user to a URL: in the browser of this machine, or by printing it where there is none.

Knows `webbrowser` and when a machine has no screen.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.interface import IO


async def send_user(io: IO, url: str) -> None:
    """Open the browser; where that cannot be, print the URL to stderr."""
    if not await io.aside(open_browser, url):
        print(f"To log in, open this address in a browser on this machine:\n\n    {url}\n", file=sys.stderr, flush=True)


def open_browser(url: str) -> bool:
    """Was a browser told to open the URL?"""
    if is_headless():
        return False
    import webbrowser

    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False


def is_headless() -> bool:
    """Is there no screen? A browser of the terminal would take over the program's."""
    if os.name == "nt" or sys.platform == "darwin":
        return False
    return not any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
