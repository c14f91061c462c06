"""Links that are lost as soon as they are there: how often one operation opens another."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import ConnectionClosed
from tests.support.old_sse import OldServer

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
PRIOR = {"era": "handshake", "revision": "2025-11-25", "transport": "http+sse"}


@pytest.mark.req("O2", "R1")
def test_a_stream_that_is_lost_again_and_again_is_not_opened_for_ever(flavour: Any, serve: Any) -> None:
    def lose(plan: OldServer, request: Any) -> None:
        if request.method == "notifications/initialized":
            plan.end()

    server = serve(OldServer(before=lose).rules, era=None, path="/sse")
    client = flavour.client(server.url, prior=PRIOR, retry=FAST)
    with pytest.raises(ConnectionClosed) as caught:
        client.list_tools()
    # Whether the end is noticed before a request is written is luck; how often it is tried is not.
    if caught.value.request_sent:
        server.wait_until(lambda: server.count("tools/list") > 0)  # written is not read yet
    else:
        assert server.count("tools/list") == 0
    assert 2 <= server.count("GET") <= 5
