"""`driver`: each of the drivers in turn."""

from __future__ import annotations

import pytest

from tests.io.drivers import Driver


@pytest.fixture(params=["blocking", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)
