"""Marked secrets: text that stands for content, credentials and ids, and is recognised wherever it comes out.

The mark comes from the environment, so that no source line, which a traceback may show, holds it.
"""

from __future__ import annotations

import base64
import os
import re

VARIABLE = "SECRET_MARK"
MARK = os.environ.get(VARIABLE, "unmarked")
ARGUMENT = "SECRET_ARGUMENT"


def secret(place: str) -> str:
    """A secret that says where it was put."""
    return f"{MARK}-{place}-"


def leaks(text: str, mark: str) -> set[str]:
    """The places whose secrets stand in a text: as they are, or as base64 at any of its three offsets."""
    found = set(re.findall(rf"{mark}-([a-z0-9-]+?)-", text))
    for offset in range(3):
        encoded = base64.b64encode(b"x" * offset + mark.encode())[4 if offset else 0 : -4].decode()
        if encoded in text:
            found.add("base64")
    return found | ({"without a place"} if mark in text and not found else set())
