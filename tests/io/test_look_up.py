"""Names looked up apart from connecting, so that what is connected to can be judged before."""

from __future__ import annotations

import math
import socket
import time
from typing import Any

import pytest

from ferrule._io import Expired
from tests.io.drivers import Driver, Peer, Receiver
from tests.support.leaving import watched


@pytest.fixture(params=["blocking", "asyncio"])  # uvloop has a resolver of its own, which cannot be watched
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


@pytest.mark.req("A5")
def test_a_name_gives_all_its_addresses_families_in_turn(driver: Driver) -> None:
    async def body(io: Any) -> list[Any]:
        found = await io.look_up("idp.example", 443, math.inf)
        return [address[:2] for _, _, _, address in found]

    with watched({"idp.example": ["192.0.2.1", "192.0.2.2", "2001:db8::1"]}):
        assert driver.run(body) == [("192.0.2.1", 443), ("2001:db8::1", 443), ("192.0.2.2", 443)]


@pytest.mark.req("A5")
def test_a_literal_asks_nobody(driver: Driver) -> None:
    async def body(io: Any) -> list[str]:
        return [
            (await io.look_up(host, 1, math.inf))[0][3][0] for host in ("127.1", "0x7f000001", "::1", "::ffff:1.2.3.4")
        ]

    with watched() as leaving:
        assert driver.run(body) == ["127.0.0.1", "127.0.0.1", "::1", "::ffff:1.2.3.4"]
    assert leaving.names == []


@pytest.mark.req("A5")
@pytest.mark.parametrize("host", ["nowhere.example", "a\0b", "\ud800"])
def test_a_name_that_is_none_is_an_oserror(driver: Driver, host: str) -> None:
    with watched(), pytest.raises(OSError):
        driver.run(lambda io: io.look_up(host, 1, math.inf))


@pytest.mark.req("A5")
def test_a_lookup_ends_at_the_deadline(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", slow(socket.getaddrinfo))
    with pytest.raises(Expired):
        driver.run(lambda io: io.look_up("idp.example", 1, io.now() + 0.02))


def slow(real: Any) -> Any:
    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            return real(host, *args, **options)
        time.sleep(0.3)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    return getaddrinfo


@pytest.mark.req("A5")
def test_only_the_addresses_that_are_given_are_connected_to(driver: Driver, peer: Any) -> None:
    listening: Peer = peer(lambda sock: sock.sendall(b"hello"))

    async def body(io: Any) -> bytes:
        addresses = await io.look_up("127.0.0.1", listening.port, math.inf)
        receiver = Receiver()
        stream = await io.connect(
            "idp.example",
            9,
            addresses=addresses,
            tls=None,
            server_hostname=None,
            deadline=io.now() + 5,
            receiver=receiver,
        )
        slot = receiver.expect(io.slot(), b"hello")
        await stream.wait(slot, io.now() + 5)
        stream.close()
        return bytes(slot.result())

    with watched() as leaving:
        assert driver.run(body) == b"hello"
    assert (leaving.names, set(leaving.addresses)) == ([], {"127.0.0.1"})


@pytest.mark.req("A5")
def test_the_systems_clock_is_read_for_what_others_read(driver: Driver) -> None:
    async def body(io: Any) -> float:
        wall: float = io.wall()
        return wall

    assert abs(driver.run(body) - time.time()) < 60
