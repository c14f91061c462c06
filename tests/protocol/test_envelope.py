import copy
import pickle
from typing import Any

import pytest

from ferrule import server
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


META: dict[str, Any] = {P + "protocolVersion": "2026-07-28", P + "clientCapabilities": {"roots": {}}}
INFO = {P + "clientInfo": {"name": "app", "version": "1"}}


def read(meta: object, **options: Any) -> RequestEnvelope:
    return RequestEnvelope.from_params({"_meta": meta}, **options)


def refused(meta: object, **options: Any) -> server.Refusal:
    with pytest.raises(server.Refusal) as caught:
        read(meta, **options)
    return caught.value


@pytest.mark.req("E2")
def test_what_a_client_sends_a_server_reads_back() -> None:
    for sent in (
        RequestEnvelope("2026-07-28", {"roots": {}}, {"name": "app", "version": "1"}, "debug"),
        RequestEnvelope("2026-07-28", {}),
    ):
        found = read({**sent.to_meta(), "progressToken": 7, "traceparent": "00-0-0-01", "com.example/x": [1]})
        assert found == sent
        assert hash(found) == hash(sent)
        assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == sent


@pytest.mark.req("E2")
def test_client_info_and_log_level_are_optional_and_null_is_absent() -> None:
    found = read({**META, P + "clientInfo": None, P + "logLevel": None})
    assert (found.client_info, found.log_level) == (None, None)
    assert found.to_meta() == META


@pytest.mark.req("E2")
@pytest.mark.parametrize(
    ("meta", "keys"),
    [
        ({}, ["protocolVersion", "clientCapabilities"]),
        (None, ["protocolVersion", "clientCapabilities"]),
        ([], ["protocolVersion", "clientCapabilities"]),
        ("text", ["protocolVersion", "clientCapabilities"]),
        ({**META, P + "protocolVersion": 20260728}, ["protocolVersion"]),
        ({**META, P + "protocolVersion": None}, ["protocolVersion"]),
        ({P + "protocolVersion": "2026-07-28"}, ["clientCapabilities"]),
        ({**META, P + "clientCapabilities": []}, ["clientCapabilities"]),
        ({**META, P + "clientCapabilities": None}, ["clientCapabilities"]),
        ({**META, P + "clientInfo": "app"}, ["clientInfo"]),
        ({**META, P + "logLevel": "loud"}, ["logLevel"]),
        ({**META, P + "logLevel": ["debug"]}, ["logLevel"]),
        ({P + "protocolVersion": 1, P + "clientInfo": 1}, ["protocolVersion", "clientInfo", "clientCapabilities"]),
    ],
)
def test_what_is_missing_or_of_a_wrong_type_is_named_exactly(meta: object, keys: list[str]) -> None:
    refusal = refused(meta)
    assert (refusal.code, refusal.http_status) == (-32602, 400)
    assert refusal.data == {"keys": [P + key for key in keys], "supported": ["2026-07-28"]}
    known = ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")
    named = {key for key in known if P + key in str(refusal)}
    assert named == set(keys)


@pytest.mark.req("E2")
@pytest.mark.parametrize("params", [None, [], "text", 7, {}, {"_meta": None}])
def test_params_of_any_type_are_read_and_refused(params: object) -> None:
    assert not RequestEnvelope.is_stateless(params)
    with pytest.raises(server.Refusal):
        RequestEnvelope.from_params(params)


@pytest.mark.req("E2")
def test_a_revision_that_the_server_does_not_speak_is_refused_with_those_it_does() -> None:
    refusal = refused({**META, P + "protocolVersion": "1900-01-01"}, supported=iter(["2026-07-28", "2025-11-25"]))
    assert (refusal.code, refusal.http_status, refusal.message) == (-32022, 400, "Unsupported protocol version")
    assert refusal.data == {"supported": ["2026-07-28", "2025-11-25"], "requested": "1900-01-01"}
    assert refused(META, supported=["2027-01-01"]).code == -32022
    later = {**META, P + "protocolVersion": "2027-01-01"}
    assert read(later, supported=["2027-01-01"]).protocol_version == "2027-01-01"


@pytest.mark.req("E2")
def test_no_envelope_may_name_a_revision_of_the_handshake_era() -> None:
    old = {**META, P + "protocolVersion": "2025-11-25"}
    assert refused(old, supported=["2026-07-28", "2025-11-25"]).code == -32022


@pytest.mark.req("E2")
def test_shape_is_checked_before_the_revision() -> None:
    assert refused({P + "protocolVersion": "1900-01-01"}).code == -32602


@pytest.mark.req("E2")
def test_the_strict_mode_requires_the_triple_and_calls_what_lacks_it_an_invalid_request() -> None:
    refusal = refused(META, strict=True)
    assert (refusal.code, refusal.http_status) == (-32600, 400)
    assert refusal.data["keys"] == [P + "clientInfo"]
    assert read({**META, **INFO}, strict=True).client_info == {"name": "app", "version": "1"}
    assert refused({**META, **INFO, P + "protocolVersion": "1900-01-01"}, strict=True).code == -32022


@pytest.mark.req("E2")
def test_whoever_claims_a_revision_is_stateless_and_in_the_strict_mode_whoever_sends_the_triple() -> None:
    claimed = {"_meta": {P + "protocolVersion": 7}}
    assert RequestEnvelope.is_stateless(claimed)
    assert not RequestEnvelope.is_stateless(claimed, strict=True)
    assert not RequestEnvelope.is_stateless({"_meta": META}, strict=True)
    assert RequestEnvelope.is_stateless({"_meta": {**META, **INFO}}, strict=True)
    others: list[Any] = [{"progressToken": 1}, {"traceparent": "x"}, {P + "protocolVersion": None}, INFO, [], None]
    for legacy in others:
        assert not RequestEnvelope.is_stateless({"_meta": legacy})


@pytest.mark.req("E2")
def test_nothing_that_a_caller_holds_can_change_an_envelope() -> None:
    capabilities: dict[str, Any] = {"extensions": {"a": [{}]}}
    info = {"name": "app", "icons": [{}]}
    envelope = RequestEnvelope("2026-07-28", capabilities, info)
    before = copy.deepcopy(envelope.to_meta())
    capabilities["extensions"]["a"].append(1)
    info["name"] = "other"
    for out in (envelope.client_capabilities, envelope.to_meta()[P + "clientCapabilities"]):
        out["extensions"]["a"][0]["b"] = 1
    assert envelope.client_info is not None
    envelope.client_info["icons"].append(1)
    assert envelope.to_meta() == before


@pytest.mark.req("E2")
def test_a_copy_with_changes_is_an_envelope_of_its_own() -> None:
    envelope = RequestEnvelope("2026-07-28", {"roots": {}}, log_level="debug")
    other = envelope.replace(log_level=None, client_info={"name": "app"})
    assert other == RequestEnvelope("2026-07-28", {"roots": {}}, {"name": "app"})
    assert envelope.log_level == "debug"


@pytest.mark.req("G1")
def test_the_representation_of_an_envelope_shows_sizes_and_known_revisions_alone() -> None:
    assert repr(RequestEnvelope("2026-07-28", {"a": {}})) == "<RequestEnvelope 2026-07-28, anonymous, capabilities[1]>"
    shown = repr(RequestEnvelope("s3cr3t", {"s3cr3t": {}}, {"s3cr3t": 1}))
    assert shown == "<RequestEnvelope of an unknown revision, client_info[1], capabilities[1]>"
