"""How a client finds out the era of a child, and that a failed connect leaves no process. Over HTTP: tests/session."""

from pathlib import Path
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import ConnectionClosed, FerruleError, NegotiationError, RequestTimeout, RPCError, ServerExited
from tests.support.child import ScriptedChild, answer, die, echo, error, is_alive, raw, wait

MODERN = "2026-07-28"
ONCE = Retry(attempts=1)
SUPPORTED = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}


def unsupported(*supported: str) -> Any:
    return error(-32022, "Unsupported protocol version", {"supported": list(supported), "requested": MODERN})


def methods(server: ScriptedChild) -> list[str]:
    return [message["method"] for message in server.messages]


def gone(server: ScriptedChild) -> bool:
    return bool(server.pids) and not any(is_alive(pid) for pid in server.pids)


# --- the probe -----------------------------------------------------------------------------------


@pytest.mark.req("N4")
def test_discover_is_the_first_line_and_its_answer_decides(flavour: Any, child: Any) -> None:
    server = child()
    client = flavour.connect(server.stdio())
    assert methods(server) == ["server/discover"]
    meta = server.messages[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    assert (client.era, client.protocol_version, client.server_info.name) == ("stateless", MODERN, "scripted")


@pytest.mark.req("N4")
@pytest.mark.parametrize(
    "probe",
    [
        error(-32601, "Method not found"),
        error(-32602, "Invalid params"),
        error(-32600, "not initialized"),
        error(-32000, "before initialize"),
        error(0, ""),
        error(-32022, "without data"),
        error(-32022, "odd data", {"supported": "all"}),
        answer({"tools": []}),
        answer({"supportedVersions": MODERN, "capabilities": {}}),
        answer({"supportedVersions": [MODERN]}),
        answer({"resultType": "strange", **SUPPORTED}),
        raw(b'{"id":$ID,"result":null}\n'),
        raw(b'{"id":$ID,"result":{"x":NaN}}\n'),
    ],
)
def test_any_other_answer_leads_to_initialize_on_the_same_process(flavour: Any, child: Any, probe: Any) -> None:
    server = child({"server/discover": [[probe]]}, era="handshake")
    client = flavour.connect(server.stdio(), timeout=None)
    assert (client.era, client.protocol_version) == ("handshake", "2025-11-25")
    assert methods(server)[:2] == ["server/discover", "initialize"]
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert len(server.pids) == 1
    assert methods(server)[2:] == ["notifications/initialized", "tools/call"]


@pytest.mark.req("N4", "T2", "T3")
def test_silence_leads_to_initialize_and_a_late_answer_changes_nothing(
    flavour: Any, child: Any, tmp_path: Path
) -> None:
    late = [raw(b'{"id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}\n'), echo()]
    server = child({"server/discover": [[]], "tools/call": [late]}, era="handshake")
    client = flavour.connect(server.stdio(), limits=Limits(probe_timeout=0.2))
    assert client.era == "handshake"
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert client.era == "handshake"
    client.close()
    # The probe was given up, and is never cancelled.
    assert methods(server) == ["server/discover", "initialize", "notifications/initialized", "tools/call"]
    assert len(server.pids) == 1


@pytest.mark.req("N4")
@pytest.mark.parametrize("code", [0, 1])
def test_a_probe_that_makes_the_server_exit_leads_to_initialize_on_a_fresh_process(
    flavour: Any, child: Any, code: int
) -> None:
    server = child({"server/discover": [[die(code)]]}, era="handshake")
    client = flavour.connect(server.stdio())
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert methods(server) == ["server/discover", "initialize", "notifications/initialized", "tools/call"]
    assert len(server.pids) == 2
    assert not is_alive(server.pids[0])


@pytest.mark.req("N4", "T1")
def test_a_timeout_shorter_than_the_probe_is_a_timeout_and_no_verdict(flavour: Any, child: Any, tmp_path: Path) -> None:
    server = child({"server/discover": [[wait(tmp_path / "go")], [answer(SUPPORTED)]]}, era="both")
    client = flavour.client(server.stdio(), limits=Limits(exit_grace=0.1))
    with pytest.raises(RequestTimeout):
        client.connect(timeout=0.3)
    (tmp_path / "go").write_text("")
    server.wait_until(lambda: gone(server))
    client.connect()
    assert client.era == "stateless"
    assert "initialize" not in methods(server)


@pytest.mark.req("N2", "N4")
def test_a_refused_version_is_asked_for_once_more_if_it_is_listed(flavour: Any, child: Any) -> None:
    server = child({"server/discover": [[unsupported(MODERN)], [answer(SUPPORTED)]]})
    assert flavour.connect(server.stdio()).era == "stateless"
    assert methods(server) == ["server/discover"] * 2


@pytest.mark.req("N2", "N4")
@pytest.mark.parametrize("by", ["error", "result"])
def test_a_list_of_handshake_revisions_alone_leads_to_initialize(flavour: Any, child: Any, by: str) -> None:
    listed = ["2025-06-18", "2025-03-26"]
    probe = unsupported(*listed) if by == "error" else answer({**SUPPORTED, "supportedVersions": listed})
    server = child({"server/discover": [[probe]]}, era="handshake")
    assert flavour.connect(server.stdio()).protocol_version == "2025-06-18"


# --- connects that fail --------------------------------------------------------------------------


@pytest.mark.req("N10", "N4", "D6")
@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"server/discover": [[unsupported("2099-01-01")]]}, NegotiationError),
        ({"server/discover": [[unsupported(MODERN)]]}, NegotiationError),
        ({"server/discover": [[answer({**SUPPORTED, "supportedVersions": ["2099-01-01"]})]]}, NegotiationError),
        ({"server/discover": [[error(-32020, "headers")]]}, RPCError),
        ({"server/discover": [[error(-32021, "no", {"requiredCapabilities": {"roots": {}}})]]}, RPCError),
        ({"server/discover": [[error(-32601)]], "initialize": [[error(-32603)]]}, RPCError),
        (
            {"server/discover": [[error(-32601)]], "initialize": [[answer({**HELLO, "protocolVersion": 1})]]},
            FerruleError,
        ),
        (
            {
                "server/discover": [[error(-32601)]],
                "initialize": [[answer({**HELLO, "protocolVersion": "1999-01-01"})]],
            },
            NegotiationError,
        ),
        ({"server/discover": [[die(1)]], "initialize": [[die(1)]]}, ServerExited),
        ({"server/discover": [[die(1)]], "initialize": [[]]}, RequestTimeout),
        ({"server/discover": [[]]}, RequestTimeout),
    ],
)
def test_a_failed_connect_leaves_no_process(flavour: Any, child: Any, rules: Any, expected: Any) -> None:
    server = child(rules, era="handshake")
    client = flavour.client(server.stdio(), timeout=0.5, retry=ONCE, limits=Limits(exit_grace=0.2))
    with pytest.raises(expected):
        client.connect()
    server.wait_until(lambda: gone(server))
    assert "notifications/cancelled" not in methods(server)


@pytest.mark.req("N10")
@pytest.mark.parametrize("fault", [error(-32603), answer({**HELLO, "protocolVersion": "1999-01-01"})])
def test_failed_connects_can_be_repeated_and_count_as_no_exits(flavour: Any, child: Any, fault: Any) -> None:
    server = child({"initialize": [[fault]] * 4 + [[answer(HELLO)]]}, era="handshake")
    client = flavour.client(server.stdio(), retry=ONCE, protocol="handshake")
    for life in range(4):
        with pytest.raises(FerruleError):
            client.connect()
        server.wait_until(lambda: gone(server))
        assert len(server.pids) == life + 1
    client.connect()
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert (len(server.pids), server.count("initialize")) == (5, 5)


@pytest.mark.req("N10")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_callers_that_connect_at_once_cause_one_child_and_one_negotiation(flavour: Any, child: Any, era: str) -> None:
    server = child(era=era)
    client = flavour.client(server.stdio())
    outcomes = flavour.together(*(lambda n=n: client.call_tool("echo", {"n": n}) for n in range(8)))
    assert sorted(outcome.text for outcome in outcomes) == sorted(f'{{"n": {n}}}' for n in range(8))
    assert (len(server.pids), server.count("server/discover")) == (1, 1)
    assert server.count("initialize") == server.count("notifications/initialized") == int(era == "handshake")


@pytest.mark.req("N10")
def test_a_caller_that_gives_up_connecting_does_not_take_the_others_along(
    flavour: Any, child: Any, tmp_path: Path
) -> None:
    server = child({"initialize": [[wait(tmp_path / "go"), answer(HELLO)]]}, era="handshake")
    client = flavour.client(server.stdio(), protocol="handshake", limits=Limits(exit_grace=0.2))
    hasty = flavour.start(client.call_tool, "echo", {}, timeout=0.3)
    server.wait_until(lambda: server.count("initialize") == 1)
    patient = flavour.start(client.call_tool, "echo", {"a": 1})
    assert isinstance(hasty.outcome(), RequestTimeout)
    (tmp_path / "go").write_text("")
    assert patient.result().text == '{"a": 1}'
    assert server.count("tools/call") == 1


@pytest.mark.req("T7", "N10")
@pytest.mark.parametrize("method", ["server/discover", "initialize"])
def test_closing_while_connecting_fails_the_connect_and_ends_the_child(flavour: Any, child: Any, method: str) -> None:
    server = child({method: [[]]}, era="handshake")
    client = flavour.client(server.stdio(), limits=Limits(exit_grace=0.2))
    running = flavour.start(client.connect)
    server.wait_until(lambda: server.count(method) == 1)
    client.close()
    assert isinstance(running.outcome(), ConnectionClosed)
    server.wait_until(lambda: gone(server))


@pytest.mark.req("N6")
def test_a_pinned_stateless_revision_needs_no_probe(flavour: Any, child: Any) -> None:
    server = child()
    client = flavour.connect(server.stdio(), protocol=MODERN)
    assert server.pids == []
    assert client.call_tool("echo", {}).text == "{}"
    assert methods(server) == ["tools/call"]


@pytest.mark.req("N6")
def test_a_pinned_handshake_revision_goes_straight_to_initialize(flavour: Any, child: Any) -> None:
    server = child(era="handshake")
    client = flavour.connect(server.stdio(), protocol="2025-06-18")
    assert client.protocol_version == "2025-06-18"
    assert methods(server)[0] == "initialize"
