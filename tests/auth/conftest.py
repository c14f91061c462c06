"""`driver`: each driver in turn. `world`, `visitor`: servers that want tokens, and a user. `clock`: the time of day."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.auth.browsing import Visitor
from tests.io.drivers import Driver
from tests.servers.protected import World


@pytest.fixture(params=["blocking", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


class Clock:
    """The system's clock, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What clients that are made from now on take for the time of day."""
    clock = Clock()
    monkeypatch.setattr("ferrule._io.blocking.BlockingIO.wall", clock)
    monkeypatch.setattr("ferrule._io.asyncio.AsyncIO.wall", clock)
    return clock


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def visitor(world: World) -> Visitor:
    """A user who consents, at each of the world's authorization servers."""
    return Visitor(world.authority, world.stranger)
