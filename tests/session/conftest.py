"""What tests of what the server sends unasked share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import rounds
from tests.support.asking import Asking, over_http, over_stdio
from tests.support.steps import Message


@pytest.fixture(params=["http", "stdio"])
def asking(request: pytest.FixtureRequest, serve: Any, child: Any) -> Callable[..., Asking]:
    """`asking(message, ..., replies=1)`: a server whose tool call asks these before it answers, on each transport."""

    def make(*messages: Message, replies: int = 1) -> Asking:
        if request.param == "http":
            return over_http(serve, messages, replies)
        return over_stdio(child, messages, replies)

    return make


@pytest.fixture(params=["http", "stdio"])
def in_rounds(request: pytest.FixtureRequest, serve: Any, child: Any) -> Callable[..., rounds.Server]:
    """`in_rounds(result, ..., method=...)`: a stateless server that gives these results, on each transport."""

    def make(*results: Any, method: str = "tools/call") -> rounds.Server:
        if request.param == "http":
            return rounds.over_http(serve, *results, method=method)
        return rounds.over_stdio(child, *results, method=method)

    return make
