"""A child's life: how it ends, by itself or told to, what its callers learn, and what is started after it."""

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import RequestTimeout, ServerExited
from tests.support.child import (
    ScriptedChild,
    answer,
    deaf,
    die,
    echo,
    is_alive,
    is_running,
    mute,
    raw,
    sleep,
    stderr,
    wait,
)

both_eras = pytest.mark.parametrize("era", ["stateless", "handshake"])
ONCE = Retry(attempts=1)
FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
QUICK = Limits(exit_grace=0.2)
NEVER_HELD_BACK = Limits(restart_window=0, exit_grace=0.2)


def names(server: ScriptedChild) -> list[str]:
    return [call["params"]["name"] for call in server.calls()]


def ended(server: ScriptedChild) -> bool:
    return not any(is_alive(pid) for pid in server.pids)


# --- the child exits -----------------------------------------------------------------------------


@pytest.mark.req("D4", "R2", "R4")
@pytest.mark.parametrize(("step", "code"), [(die(3), 3), (die(0), 0), (die(by_signal=9), -9)])
@both_eras
def test_a_call_whose_child_exits_fails_with_its_exit_code_and_the_next_starts_another(
    flavour: Any, child: Any, era: str, step: Any, code: int
) -> None:
    server = child({"tools/call": [[step], [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None)
    with pytest.raises(ServerExited) as caught:
        client.call_tool("first", {})
    assert (caught.value.exit_code, caught.value.request_sent, caught.value.retry_after) == (code, True, None)
    assert client.call_tool("second", {"a": 1}).text == '{"a": 1}'
    # Over all lives each tool call arrived once, and each life of the handshake era began with a handshake.
    assert names(server) == ["first", "second"]
    assert len(server.pids) == 2
    assert server.count("initialize") == server.count("notifications/initialized") == 2 * (era == "handshake")
    assert server.count("server/discover") == 1
    assert not is_alive(server.pids[0])


@pytest.mark.req("D4")
def test_the_exit_code_is_known_though_the_output_ended_first(flavour: Any, child: Any) -> None:
    client = flavour.connect(child({"tools/call": [[mute(), sleep(0.05), die(3)]]}).stdio(), timeout=None)
    with pytest.raises(ServerExited) as caught:
        client.call_tool("x", {})
    assert caught.value.exit_code == 3


@pytest.mark.req("D4", "T5")
@both_eras
def test_every_waiting_call_fails_at_once(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[]] * 7 + [[die(1)], [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None)
    outcomes = flavour.together(*(lambda n=n: client.call_tool(f"call-{n}", {}) for n in range(8)))
    assert {type(outcome) for outcome in outcomes} == {ServerExited}
    assert {(outcome.exit_code, outcome.request_sent) for outcome in outcomes} == {(1, True)}
    assert len({id(outcome) for outcome in outcomes}) == 8
    assert client.call_tool("after", {}).text == "{}"
    assert sorted(names(server)) == sorted(["after", *(f"call-{n}" for n in range(8))])


@pytest.mark.req("D4", "R1")
@both_eras
def test_what_may_be_repeated_is_repeated_in_the_next_life(flavour: Any, child: Any, era: str) -> None:
    server = child({"resources/read": [[die(1)], [answer({"contents": [{"uri": "a", "text": "again"}]})]]}, era=era)
    client = flavour.connect(server.stdio(), retry=FAST)
    assert client.read_resource("demo://a").contents[0].text == "again"
    assert (server.count("resources/read"), len(server.pids)) == (2, 2)


@pytest.mark.req("D4", "W16")
@both_eras
def test_an_exit_between_calls_goes_unseen(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[echo()]]}, era=era)
    client = flavour.connect(server.stdio())
    for life in range(3):
        assert client.call_tool(f"call-{life}", {"a": 1}).text == '{"a": 1}'
        looked_at_from = time.monotonic() + 0.002
        os.kill(server.pids[-1], signal.SIGKILL)
        # Only after a millisecond of idleness does the client look before it writes (W16).
        server.wait_until(lambda pid=server.pids[-1], at=looked_at_from: not is_running(pid) and time.monotonic() > at)
        if life == 0:
            continue
        # Twice within the window: later starts are held back, and say so without having been sent.
        with pytest.raises(ServerExited) as caught:
            client.call_tool("held-back", {})
        assert (caught.value.retry_after or 0) > 0
        assert not caught.value.request_sent
        break
    assert names(server) == ["call-0", "call-1"]


@pytest.mark.req("D4")
@both_eras
def test_a_notification_after_an_exit_goes_to_the_next_child(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[die(1)]]}, era=era)
    client = flavour.connect(server.stdio())
    with pytest.raises(ServerExited):
        client.call_tool("x", {})
    client.notify("notifications/custom", {"a": 1})
    server.wait_until(lambda: server.count("notifications/custom") == 1)
    assert len(server.pids) == 2


@pytest.mark.req("D4")
@both_eras
def test_a_child_that_keeps_exiting_is_held_back_ever_longer(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[die(1)]] * 4 + [[echo()]]}, era=era)
    limits = Limits(restart_backoff=0.2, max_restart_backoff=0.3)
    client = flavour.connect(server.stdio(), limits=limits, timeout=None)

    def exits() -> None:
        with pytest.raises(ServerExited) as caught:
            client.call_tool("x", {})
        assert caught.value.exit_code == 1

    def held_back(at_most: float) -> None:
        lives = len(server.pids)
        with pytest.raises(ServerExited) as caught:
            client.call_tool("x", {})
        assert not caught.value.request_sent
        pause = caught.value.retry_after
        assert pause is not None
        assert at_most / 2 < pause <= at_most
        assert len(server.pids) == lives
        time.sleep(pause)  # what a caller is told to do

    exits()
    exits()
    held_back(0.2)
    exits()
    held_back(0.3)
    exits()
    held_back(0.3)
    assert client.call_tool("x", {"a": 1}).text == '{"a": 1}'
    assert (server.count("tools/call"), len(server.pids)) == (5, 5)


@pytest.mark.req("D4")
def test_exits_outside_the_window_hold_nothing_back(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[die(1)]]})
    client = flavour.connect(server.stdio(), limits=NEVER_HELD_BACK)
    for _ in range(5):
        with pytest.raises(ServerExited) as caught:
            client.call_tool("x", {})
        assert caught.value.exit_code == 1
    assert len(server.pids) == 5


@pytest.mark.req("D4", "N8")
def test_nothing_of_an_old_session_is_sent_into_the_next_one(flavour: Any, child: Any, tmp_path: Path) -> None:
    hello = answer({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
    rules = {"initialize": [[hello], [wait(tmp_path / "go"), hello]], "tools/call": [[die(1)], [echo()]]}
    server = child(rules, era="handshake")
    client = flavour.connect(server.stdio())
    view = client.with_options(timeout=0.3)
    with pytest.raises(ServerExited):
        view.call_tool("first", {})
    second = flavour.start(client.call_tool, "second", {})
    server.wait_until(lambda: server.count("initialize") == 2)
    hasty = flavour.start(view.call_tool, "hasty", {}).outcome()
    assert isinstance(hasty, RequestTimeout)
    assert not hasty.request_sent
    (tmp_path / "go").write_text("")
    assert second.result().text == "{}"
    assert names(server) == ["first", "second"]


@pytest.mark.req("D4")
@both_eras
def test_a_child_that_closes_its_output_is_given_up_and_ended(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[mute()], [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None, limits=QUICK)
    with pytest.raises(ServerExited) as caught:
        client.call_tool("x", {})
    assert caught.value.request_sent
    assert client.call_tool("x", {"a": 1}).text == '{"a": 1}'
    server.wait_until(lambda: not is_alive(server.pids[0]))


@pytest.mark.req("D4", "D5")
@both_eras
def test_a_child_that_closes_its_input_is_replaced_and_its_last_answers_are_read(
    flavour: Any, child: Any, tmp_path: Path, era: str
) -> None:
    script = [deaf(), echo(), wait(tmp_path / "go")]
    server = child({"tools/call": [script, [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None, limits=Limits(exit_grace=0.5))
    assert client.call_tool("first", {}).text == "{}"
    second = flavour.start(client.call_tool, "second", {}).outcome()
    assert isinstance(second, ServerExited)
    assert client.call_tool("third", {"a": 1}).text == '{"a": 1}'
    assert names(server) == ["first", "third"]
    server.wait_until(lambda: not is_alive(server.pids[0]))


@pytest.mark.req("D4")
def test_an_answer_written_just_before_the_exit_counts(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[echo(), die(1)]]})
    client = flavour.connect(server.stdio(), limits=NEVER_HELD_BACK)
    for n in range(5):
        assert client.call_tool("x", {"n": n}).text == f'{{"n": {n}}}'
        server.wait_until(lambda: not is_running(server.pids[-1]))
        time.sleep(0.002)  # within 1 ms of an answer a child is taken to run still


@pytest.mark.req("D4")
def test_half_a_line_at_the_end_is_no_answer(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[raw(b'{"id":$ID,"result":{"content":[]}}'), die(1)]]})
    client = flavour.connect(server.stdio(), timeout=None)
    with pytest.raises(ServerExited):
        client.call_tool("x", {})


# --- stderr --------------------------------------------------------------------------------------


@pytest.mark.req("D2")
@pytest.mark.parametrize("lines", [[], [b"x"]])
def test_a_flood_on_stderr_never_blocks(flavour: Any, child: Any, lines: list[bytes]) -> None:
    server = child({"tools/call": [[stderr("noise\n" * 300_000), echo()]]})
    taken: list[bytes] = []
    client = flavour.connect(server.stdio(stderr=taken.append if lines else "discard"), timeout=None)
    assert client.call_tool("x", {"a": 1}).text == '{"a": 1}'
    if lines:
        server.wait_until(lambda: len(taken) == 300_000)
        assert set(taken) == {b"noise"}


@pytest.mark.req("D2")
def test_inherited_stderr_goes_where_ours_goes(flavour: Any, child: Any, capfd: Any) -> None:
    server = child({"tools/call": [[stderr("from the child\n"), echo()]]})
    flavour.connect(server.stdio()).call_tool("x", {})
    assert "from the child" in capfd.readouterr().err


@pytest.mark.req("D2")
def test_discarded_stderr_goes_nowhere(flavour: Any, child: Any, capfd: Any) -> None:
    server = child({"tools/call": [[stderr("from the child\n"), echo()]]})
    flavour.connect(server.stdio(stderr="discard")).call_tool("x", {})
    assert "from the child" not in capfd.readouterr().err


@pytest.mark.req("D2", "G1")
@pytest.mark.parametrize("size", [8192, 10, 0])
def test_the_end_of_stderr_is_on_the_error_and_not_in_its_text(
    flavour: Any, child: Any, caplog: Any, size: int
) -> None:
    caplog.set_level(logging.DEBUG)
    words = "x" * 20_000 + "hunter2\n"
    server = child({"tools/call": [[stderr(words), die(4)]]})
    limits = Limits() if size == 8192 else Limits(stderr_tail_bytes=size)
    client = flavour.connect(server.stdio(stderr="discard"), limits=limits)
    with pytest.raises(ServerExited) as caught:
        client.call_tool("x", {})
    assert caught.value.stderr_tail == words.encode()[len(words) - size :]
    assert "hunter2" not in str(caught.value) + repr(caught.value) + caplog.text


@pytest.mark.req("D2", "T6")
def test_a_stderr_handler_that_raises_disturbs_nothing(flavour: Any, child: Any, caplog: Any) -> None:
    def handler(line: bytes) -> None:
        raise ValueError(line)

    server = child({"tools/call": [[stderr("hunter2\n" * 3), echo()]]})
    client = flavour.connect(server.stdio(stderr=handler))
    assert client.call_tool("x", {"a": 1}).text == '{"a": 1}'
    server.wait_until(lambda: "ValueError" in caplog.text)
    assert "hunter2" not in caplog.text
