import json
from typing import Any

import pytest

from ferrule._protocol import methods
from ferrule._protocol.envelope import RequestEnvelope
from ferrule._protocol.handshake import HandshakeEra, usable_session_id
from ferrule._protocol.stateless import StatelessEra
from ferrule.errors import InputRequired, InvalidResult, UnknownResultType

STATELESS = StatelessEra(RequestEnvelope("2026-07-28", {}))


def test_the_two_eras_differ_in_what_they_are_asked() -> None:
    handshake = HandshakeEra("2025-11-25")
    assert (handshake.handshake, handshake.mirrors, handshake.answers_requests) == (True, False, True)
    assert (STATELESS.handshake, STATELESS.mirrors, STATELESS.answers_requests) == (False, True, False)
    assert STATELESS.cancels_by_closing and not handshake.cancels_by_closing
    assert handshake.meta is None


@pytest.mark.req("E1")
def test_the_envelope_is_serialised_once_for_all_requests() -> None:
    assert STATELESS.meta is not None
    assert json.loads(STATELESS.meta)["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


@pytest.mark.req("W13")
def test_batches_are_known_at_2025_03_26_alone() -> None:
    assert HandshakeEra("2025-03-26").batches
    assert not HandshakeEra("2025-06-18").batches
    assert not STATELESS.batches


@pytest.mark.parametrize("result", [{}, {"resultType": "complete"}, {"resultType": None}])
def test_an_absent_result_type_means_complete(result: dict[str, Any]) -> None:
    STATELESS.check_result(methods.TOOLS_CALL, result)


def test_an_unknown_result_type_is_refused_in_the_stateless_era_and_means_nothing_before() -> None:
    with pytest.raises(UnknownResultType):
        STATELESS.check_result(methods.TOOLS_LIST, {"resultType": "surprise"})
    HandshakeEra("2025-11-25").check_result(methods.TOOLS_LIST, {"resultType": "task"})


def test_a_request_for_input_hands_over_requests_and_state() -> None:
    asked = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}, "requestState": "s"}
    with pytest.raises(InputRequired) as caught:
        STATELESS.check_result(methods.TOOLS_CALL, asked)
    assert caught.value.requests == {"a": {"method": "roots/list"}}
    assert caught.value.state == "s"


@pytest.mark.parametrize(
    ("method", "result"),
    [
        (methods.TOOLS_LIST, {"resultType": "input_required"}),
        (methods.TOOLS_CALL, {"resultType": "input_required", "inputRequests": []}),
        (methods.TOOLS_CALL, {"resultType": "input_required", "requestState": 1}),
    ],
)
def test_a_request_for_input_where_none_is_allowed_or_in_a_wrong_shape_is_invalid(
    method: methods.Method, result: dict[str, Any]
) -> None:
    with pytest.raises(InvalidResult):
        STATELESS.check_result(method, result)


@pytest.mark.req("S1")
@pytest.mark.parametrize(
    ("value", "usable"),
    [
        ("a", True),
        ("!~", True),
        ("x" * 4096, True),
        ("x" * 4097, False),
        ("", False),
        ("a b", False),
        ("\u00fc", False),
        (None, False),
    ],
)
def test_a_session_id_is_1_to_4096_visible_ascii_characters(value: str | None, usable: bool) -> None:
    assert usable_session_id(value) is usable
