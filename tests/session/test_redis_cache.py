"""The store that a fleet shares, against a real Redis-compatible server that the test starts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import RedisCache
from ferrule.errors import ConfigError
from tests.support.caches import hinted, tools
from tests.support.pushes import note
from tests.support.steps import answer, result, stream, text, turns

PROGRAMS = ("redis-server", "valkey-server")
PATIENCE = 10.0


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a server that keeps nothing on disk. Without a server program the test says that it did not run."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        if os.environ.get("FERRULE_REQUIRE_REDIS"):
            pytest.fail(f"none of {', '.join(PROGRAMS)} is installed")
        pytest.skip(f"not run: none of {', '.join(PROGRAMS)} is installed")
    folder = tmp_path_factory.mktemp("redis")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = start_server(program, port, folder)
    try:
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def start_server(program: str, port: int, folder: Path) -> subprocess.Popen[bytes]:
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            threading.Event().wait(0.01)
        else:
            return process
    process.kill()
    process.wait(PATIENCE)
    raise AssertionError("the server did not start")


@pytest.fixture
def store(flavour: Any, redis_port: int) -> Iterator[Callable[..., RedisCache]]:
    """`store(prefix=..., secret=...)`: a new store for the flavour, on an empty server."""
    import redis

    with redis.Redis(port=redis_port) as admin:
        admin.flushall()
    ends: list[Any] = []

    def make(**options: Any) -> RedisCache:
        kind: Any = redis.asyncio.Redis if flavour.is_async else redis.Redis
        client = flavour._loop.call(lambda: kind(port=redis_port)) if flavour.is_async else kind(port=redis_port)
        ends.append(client)
        return RedisCache(client, **options)

    yield make
    for client in ends:
        if flavour.is_async:
            from tests.support.clients import Portal

            Portal(client, flavour._loop.loop)._call(client.aclose)
        else:
            client.close()


def asked(flavour: Any, server: Any, store: Any, **options: Any) -> int:
    before = server.count("tools/list")
    client = flavour.client(server.url, cache=store, protocol="stateless", **options)
    client.list_tools()
    return int(server.count("tools/list") - before)


@pytest.mark.req("C3", "C5")
def test_a_fleet_shares_public_answers(flavour: Any, serve: Any, store: Any) -> None:
    server = serve(hinted(scope="public"))
    assert [asked(flavour, server, store(), auth=one) for one in ("a", "b", "c")] == [1, 0, 0]
    assert asked(flavour, server, store(prefix="other:")) == 1


@pytest.mark.req("C3")
def test_private_answers_are_shared_by_those_with_one_secret_and_one_identity(
    flavour: Any, serve: Any, store: Any
) -> None:
    server = serve(hinted(scope="private"))
    assert [asked(flavour, server, store(), auth="a") for _ in range(2)] == [1, 1]
    secret = b"a secret of the fleet's"
    found = [asked(flavour, server, store(secret=secret), auth=one) for one in ("a", "b", "a")]
    assert found == [1, 1, 0]


@pytest.mark.req("C1")
def test_the_server_keeps_an_answer_as_long_as_it_may_be_used(
    flavour: Any, serve: Any, store: Any, redis_port: int
) -> None:
    import redis

    server = serve({"tools/list": turns(answer(tools("a", ttl=50_000)), answer(tools("b", ttl=1)))})
    client = flavour.connect(server.url, cache=store(prefix="p:"))
    client.list_tools()
    with redis.Redis(port=redis_port) as admin:
        keys = sorted(admin.keys())
        assert [key[:3] for key in keys] == [b"p:a", b"p:m"]
        assert 0 < admin.pttl(keys[0]) <= 50_000
        assert 86_400_000 < admin.pttl(keys[1]) <= 2 * 86_400_000
    client.list_tools(cache="refresh")
    for _ in range(1000):
        client.list_tools()
        if server.count("tools/list") > 2:
            break
    assert server.count("tools/list") > 2


@pytest.mark.req("L4", "C6")
def test_what_one_hears_or_clears_is_dropped_for_all(flavour: Any, serve: Any, store: Any, redis_port: int) -> None:
    import redis

    said = stream(note("tools/list_changed"), result(text("said")))
    server = serve({**hinted(), "tools/call": said})
    clients = [flavour.client(server.url, cache=store(), protocol="stateless") for _ in range(2)]
    with redis.Redis(port=redis_port) as admin:

        def gone() -> bool:
            return not any(key.startswith(b"ferrule:m") for key in admin.scan_iter())

        for number, drop in enumerate((lambda: clients[0].call_tool("echo", {}), clients[0].clear_cache), start=1):
            for client in clients:
                client.list_tools()
            assert server.count("tools/list") == number
            drop()
            for _ in range(1000):
                if gone():
                    break
                threading.Event().wait(0.005)
            assert gone()
    clients[1].list_tools()
    assert server.count("tools/list") == 3


@pytest.mark.req("C3", "C5")
def test_a_server_that_is_gone_costs_no_call(flavour: Any, serve: Any) -> None:
    import redis

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    kind: Any = redis.asyncio.Redis if flavour.is_async else redis.Redis
    retry: Any = (redis.asyncio if flavour.is_async else redis).retry.Retry(redis.backoff.NoBackoff(), 0)
    make: Callable[[], Any] = lambda: kind(port=port, retry=retry)  # noqa: E731
    client = flavour._loop.call(make) if flavour.is_async else make()
    server = serve(hinted())
    assert [asked(flavour, server, RedisCache(client)) for _ in range(2)] == [1, 1]
    if not flavour.is_async:
        client.close()


def test_what_cannot_work_is_a_config_error() -> None:
    import redis

    with redis.Redis(decode_responses=True) as client, pytest.raises(ConfigError, match="decode_responses"):
        RedisCache(client)
    with redis.Redis() as client:
        for secret in (b"short", "a text is no secret"):
            with pytest.raises(ConfigError, match="16 bytes"):
                RedisCache(client, secret=secret)  # type: ignore[arg-type]
        assert repr(RedisCache(client, prefix="hunter2", secret=b"hunter2hunter2hunter2")) == "<RedisCache>"
