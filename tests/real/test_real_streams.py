"""Streams and resumption on servers that nobody here wrote."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ferrule import Client
from tests.support.clients import Flavour

pytestmark = pytest.mark.timeout(120)


def hear(client: Any, wanted: str) -> threading.Event:
    """An event that is set when the server sends that notification."""
    heard = threading.Event()

    def listener(method: str, params: Any, link: Any) -> None:
        if method == wanted:
            heard.set()

    client._session.inbound.listeners.append(listener)
    return heard


@pytest.fixture
def resumable(flavour: Flavour, resumable_url: str) -> Client:
    """A client of the server that keeps events, with its standalone stream open."""
    return flavour.connect(resumable_url, protocol="handshake", listen=True, timeout=20.0)


@pytest.mark.req("S5")
@pytest.mark.parametrize("times", [1, 3])
def test_an_answer_is_fetched_after_the_server_closed_the_stream_on_purpose(resumable: Client, times: int) -> None:
    before = resumable.call_tool("leave_and_answer", {"times": 0}).text
    seen: list[float] = []
    result = resumable.call_tool("leave_and_answer", {"times": times}, on_progress=lambda *step: seen.append(step[0]))
    assert int(result.text.split()[1]) == int(before.split()[1]) + 1  # run once
    assert seen == [float(step) for step in range(1, times + 1)]


@pytest.mark.req("S5")
def test_calls_that_are_resumed_at_the_same_time_each_get_their_own_answer(resumable: Client, flavour: Flavour) -> None:
    answers = flavour.together(
        *[lambda n=n: resumable.call_tool("leave_and_answer", {"times": n}).text for n in (1, 2, 1, 2)]
    )
    assert len(set(answers)) == 4


@pytest.mark.req("S4")
def test_notifications_come_on_the_standalone_stream(resumable: Client) -> None:
    heard = hear(resumable, "notifications/tools/list_changed")
    resumable.call_tool("change_tools")
    assert heard.wait(20)


@pytest.mark.req("S4")
def test_the_standalone_stream_is_resumed_where_it_was_left(resumable: Client) -> None:
    heard = hear(resumable, "notifications/tools/list_changed")
    missed = hear(resumable, "notifications/prompts/list_changed")
    resumable.call_tool("change_tools")  # names a place in the stream
    assert heard.wait(20)
    assert resumable.call_tool("leave_the_standalone_stream").text == "left"
    assert missed.wait(20)


@pytest.mark.req("S4", "S3")
def test_the_other_sdks_server_takes_a_stream_and_lets_it_go(flavour: Flavour, everything_url: str) -> None:
    client = flavour.connect(everything_url, listen=True, timeout=20.0)
    assert client.call_tool("echo", {"message": "hi"}).text == "Echo: hi"
    assert client.session_id
    client.close()
