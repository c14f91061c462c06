"""What tests of what the server sends unasked share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support import rounds
from tests.support.asking import Asking, over_http, over_stdio
from tests.support.listening import HttpEars, LineEars, Place
from tests.support.steps import Message


@pytest.fixture(params=["http", "stdio"])
def asking(request: pytest.FixtureRequest, serve: Any, child: Any) -> Callable[..., Asking]:
    """`asking(message, ..., replies=1)`: a server whose tool call asks these before it answers, on each transport."""

    def make(*messages: Message, replies: int = 1) -> Asking:
        if request.param == "http":
            return over_http(serve, messages, replies)
        return over_stdio(child, messages, replies)

    return make


@pytest.fixture(params=["http", "lines"])
def place(request: pytest.FixtureRequest, serve: Any) -> Iterator[Place]:
    """A server on each transport that agrees to every subscription."""
    with ExitStack() as stack:
        if request.param == "http":
            ears = HttpEars()
            server = serve({"subscriptions/listen": ears})
            yield Place(ears, server.url, lambda: [one.message for one in list(server.requests)])
        else:
            lines = stack.enter_context(LineEars())
            yield Place(lines, lines.target(), lambda: list(lines.messages))


@pytest.fixture
def http(serve: Any) -> Any:
    """The same over HTTP alone."""
    ears = HttpEars()
    server = serve({"subscriptions/listen": ears})
    server.ears = ears
    return server


@pytest.fixture(params=["http", "stdio"])
def in_rounds(request: pytest.FixtureRequest, serve: Any, child: Any) -> Callable[..., rounds.Server]:
    """`in_rounds(result, ..., method=...)`: a stateless server that gives these results, on each transport."""

    def make(*results: Any, method: str = "tools/call") -> rounds.Server:
        if request.param == "http":
            return rounds.over_http(serve, *results, method=method)
        return rounds.over_stdio(child, *results, method=method)

    return make
