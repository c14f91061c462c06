"""Each driver in turn, and scripted servers that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.http.wire import Driver, WireServer


@pytest.fixture(params=["blocking", "asyncio", "uvloop"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


@pytest.fixture
def wire() -> Iterator[Callable[..., WireServer]]:
    """`wire([step, ...], [step, ...])` starts a server: one list for each connection."""
    with ExitStack() as stack:

        def start(*scripts: Any, **options: Any) -> WireServer:
            return stack.enter_context(WireServer(scripts, **options))

        yield start
