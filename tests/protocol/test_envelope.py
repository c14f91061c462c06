import pytest

from ferrule._protocol.envelope import RequestEnvelope, without_reserved

P = "io.modelcontextprotocol/"


@pytest.mark.req("E1")
def test_the_envelope_carries_version_info_and_capabilities() -> None:
    envelope = RequestEnvelope("2026-07-28", {"roots": {}}, {"name": "app", "version": "1"})
    assert envelope.to_meta() == {
        P + "protocolVersion": "2026-07-28",
        P + "clientInfo": {"name": "app", "version": "1"},
        P + "clientCapabilities": {"roots": {}},
    }


@pytest.mark.req("E1", "N11")
def test_an_anonymous_client_sends_no_client_info_and_a_log_level_only_when_asked() -> None:
    assert RequestEnvelope("2026-07-28", {}).to_meta() == {
        P + "protocolVersion": "2026-07-28",
        P + "clientCapabilities": {},
    }
    assert RequestEnvelope("2026-07-28", {}, log_level="debug").to_meta()[P + "logLevel"] == "debug"


@pytest.mark.req("E1")
def test_the_keys_of_the_client_cannot_be_set_by_a_caller_and_all_others_survive() -> None:
    given = {
        P + "protocolVersion": "1900-01-01",
        P + "clientInfo": {},
        P + "clientCapabilities": {},
        P + "logLevel": "debug",
        "progressToken": 9,
        "traceparent": "00-0-0-01",
        "com.example/tenant": "a",
    }
    before = dict(given)
    assert without_reserved(given) == {"traceparent": "00-0-0-01", "com.example/tenant": "a"}
    assert given == before


def test_an_envelope_cannot_be_changed() -> None:
    envelope = RequestEnvelope("2026-07-28", {})
    with pytest.raises(AttributeError, match="immutable"):
        envelope.protocol_version = "x"  # type: ignore[misc]
