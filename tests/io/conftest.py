"""`driver`: each of the drivers in turn. `peer(handle)`: a listener that ends with the test."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from tests.io.drivers import Driver, Peer


@pytest.fixture(params=["blocking", "asyncio", "uvloop"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


@pytest.fixture
def blocking() -> Driver:
    return Driver("blocking")


@pytest.fixture
def peer() -> Iterator[Callable[..., Peer]]:
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(Peer(*args, **kwargs))


@pytest.fixture
def nervous() -> Iterator[None]:
    """Threads change places after almost every bytecode."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port where connection attempts get no answer at all: its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield listener.getsockname()[1]


@pytest.fixture(params=["plain", "tls"])
def wire(request: pytest.FixtureRequest, certificates: Any) -> Any:
    """Options for a peer, and for dialling it."""
    if request.param == "plain":
        return {}, {}
    return {"tls": certificates.server}, {"tls": certificates.client(), "server_hostname": "localhost"}
