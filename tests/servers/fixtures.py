"""Fixtures that start real servers, once per test process."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.servers import launch


@pytest.fixture(scope="session")
def sdk_http_url() -> Iterator[str]:
    """The official Python SDK's server; event streams in the handshake era."""
    with launch.sdk_over_http() as url:
        yield url


@pytest.fixture(scope="session")
def sdk_json_url() -> Iterator[str]:
    """The official Python SDK's server, answering with JSON."""
    with launch.sdk_over_http("--json") as url:
        yield url


@pytest.fixture(scope="session")
def sdk_sse_url() -> Iterator[str]:
    """The official Python SDK's server over the HTTP+SSE transport of 2024-11-05."""
    with launch.sdk_over_http("--sse") as url:
        yield url


@pytest.fixture(scope="session")
def resumable_url() -> Iterator[str]:
    """The official Python SDK's server with an event store."""
    with launch.resumable_over_http() as url:
        yield url


@pytest.fixture(scope="session")
def sdk_command() -> list[str]:
    """The official Python SDK's server over stdio."""
    return launch.sdk_over_stdio()


@pytest.fixture(scope="session")
def everything_url() -> Iterator[str]:
    """`@modelcontextprotocol/server-everything` over Streamable HTTP (handshake era)."""
    with launch.everything_over_http() as url:
        yield url


@pytest.fixture(scope="session")
def everything_sse_url() -> Iterator[str]:
    """`@modelcontextprotocol/server-everything` over the HTTP+SSE transport of 2024-11-05."""
    with launch.everything_over_http("sse", "/sse") as url:
        yield url


@pytest.fixture(scope="session")
def everything_command() -> list[str]:
    """`@modelcontextprotocol/server-everything` over stdio (handshake era)."""
    return launch.everything_over_stdio()


@pytest.fixture(scope="session")
def demo_url() -> Iterator[str]:
    """The demo server that ships with the package, over HTTP, in a process of its own."""
    with launch.demo_over_http() as url:
        yield url


@pytest.fixture(scope="session")
def demo_command() -> list[str]:
    """The demo server over stdio."""
    return [sys.executable, "-m", "ferrule.demo_server"]
