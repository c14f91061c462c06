import pickle

import pytest

from ferrule import Retry
from ferrule._protocol.rpc_errors import rpc_error
from ferrule._session.retry import may_repeat
from ferrule.errors import (
    ConfigError,
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    InvalidMessage,
    InvalidResult,
    LimitExceeded,
    RequestTimeout,
    ServerExited,
    SessionExpired,
)

ALWAYS: list[FerruleError] = [
    ConnectError("x"),
    ConnectionClosed("x", request_sent=False),
    ServerExited("x", request_sent=False),
]
IF_IDEMPOTENT: list[FerruleError] = [
    ConnectionClosed("x", request_sent=True),
    ServerExited("x", request_sent=True),
    HTTPStatusError("x", status=500),
    HTTPStatusError("x", status=503),
    HTTPStatusError("x", status=429),
    InvalidMessage("x"),
]
NEVER: list[FerruleError] = [
    RequestTimeout("x", request_sent=True),
    SessionExpired("x"),  # at most once, in a new session: that is no retry
    LimitExceeded("x", limit="max_message_bytes", request_sent=True),
    HTTPStatusError("x", status=400),
    HTTPStatusError("x", status=501),
    InvalidResult("tools/list", "x"),
    rpc_error(code=-32603, message="x"),
    ConfigError("x"),
]


@pytest.mark.parametrize("error", ALWAYS, ids=repr)
def test_what_was_not_sent_may_be_sent_again(error: FerruleError) -> None:
    assert may_repeat(error, idempotent=False)


@pytest.mark.parametrize("error", IF_IDEMPOTENT, ids=repr)
def test_a_lost_answer_may_be_asked_for_again_only_if_the_method_is_idempotent(error: FerruleError) -> None:
    assert may_repeat(error, idempotent=True)
    assert not may_repeat(error, idempotent=False)


@pytest.mark.parametrize("error", NEVER, ids=repr)
def test_an_answer_is_an_answer_whatever_the_method(error: FerruleError) -> None:
    assert not may_repeat(error, idempotent=True)


def test_the_waits_double_up_to_the_longest_and_are_spread_over_half() -> None:
    retry = Retry(attempts=9, backoff=0.5, max_backoff=3.0)
    assert [retry.delay(attempt, 1.0) for attempt in (1, 2, 3, 4, 500)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert retry.delay(1, 0.0) == 0.25


@pytest.mark.parametrize(("attempts", "backoff", "longest"), [(0, 0.5, 8.0), (3, -1.0, 8.0), (3, 9.0, 8.0)])
def test_a_policy_that_makes_no_sense_is_refused(attempts: int, backoff: float, longest: float) -> None:
    with pytest.raises(ConfigError):
        Retry(attempts, backoff, longest)


def test_a_policy_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(Retry(2))) == Retry(2)
    assert repr(Retry(2, 0.1, 1.0)) == "Retry(attempts=2, backoff=0.1, max_backoff=1.0)"
