"""The bounds: their defaults, that they cannot change, and what is refused."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from typing import Any

import pytest

from ferrule.errors import ConfigError
from ferrule.limits import Limits

DEFAULTS = {
    "max_message_bytes": 64 * 1024 * 1024,
    "max_head_bytes": 64 * 1024,
    "max_connections": 100,
    "idle_timeout": 4.0,
    "drain_timeout": 0.25,
    "max_redirects": 3,
    "max_cookies": 64,
    "max_cookie_bytes": 4096,
    "max_pages": 1000,
    "max_items": 100_000,
    "close_timeout": 5.0,
    "cancel_timeout": 1.0,
    "reply_timeout": 10.0,
    "probe_timeout": 10.0,
    "listen_wait": 1.0,
    "max_handlers": 32,
    "max_queue": 1024,
    "max_cache_bytes": 16 * 1024 * 1024,
    "max_cache_entries": 4096,
    "max_cache_age": 86400.0,
    "poll_interval": 1.0,
    "min_poll_interval": 0.1,
    "max_poll_interval": 60.0,
    "max_rounds": 10,
    "round_backoff": 0.05,
    "max_round_backoff": 1.0,
    "max_handler_time": 3600.0,
    "max_schema_bytes": 1024 * 1024,
    "max_subschemas": 10_000,
    "max_skill_files": 512,
    "max_skill_bytes": 16 * 1024 * 1024,
    "stderr_tail_bytes": 8192,
    "exit_grace": 2.0,
    "restart_window": 10.0,
    "restart_backoff": 0.5,
    "max_restart_backoff": 30.0,
    "max_retry_after": 60.0,
    "auth_timeout": 10.0,
    "max_auth_bytes": 1024 * 1024,
}
WORDS = {
    64 * 1024 * 1024: "64 MiB",
    1024 * 1024: "1 MiB",
    16 * 1024 * 1024: "16 MiB",
    64 * 1024: "64 KiB",
    100_000: "100,000",
    10_000: "10,000",
}
each = pytest.mark.parametrize(("name", "default"), DEFAULTS.items(), ids=DEFAULTS.keys())


def test_there_are_these_bounds_and_no_others() -> None:
    parameters = inspect.signature(Limits).parameters
    assert {name: parameter.default for name, parameter in parameters.items()} == DEFAULTS
    assert tuple(Limits.__slots__) == tuple(DEFAULTS)


@each
def test_every_bound_has_its_default_and_says_it_with_a_reason(name: str, default: float) -> None:
    assert getattr(Limits(), name) == default
    doc = inspect.getdoc(getattr(Limits, name)) or ""
    assert doc.startswith(f"Default {WORDS.get(int(default), default)}")
    assert len(doc) > 40


@each
def test_every_bound_can_be_set(name: str, default: float) -> None:
    limits = Limits(**{name: default * 2})  # type: ignore[arg-type]
    assert getattr(limits, name) == default * 2
    assert limits == Limits().replace(**{name: default * 2})
    assert limits != Limits()


@each
@pytest.mark.parametrize("value", [-1, True, "10", None, float("nan"), float("inf"), 10**30])
def test_what_is_no_bound_is_a_config_error_that_names_it(name: str, default: float, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^limits.{name}: expected a (whole )?number"):
        Limits(**{name: value})


@each
def test_a_count_has_to_be_whole_and_a_duration_may_be(name: str, default: float) -> None:
    if isinstance(default, int):
        with pytest.raises(ConfigError, match="expected a whole number, not float"):
            Limits(**{name: 2.0})  # type: ignore[arg-type]
    else:
        assert getattr(Limits(**{name: 2}), name) == 2


def test_zero_is_refused_except_where_it_means_none() -> None:
    accepted = set()
    for name in DEFAULTS:
        try:
            Limits(**{name: 0})
        except ConfigError as error:
            assert "positive" in str(error)
        else:
            accepted.add(name)
    assert accepted == {
        "idle_timeout",
        "drain_timeout",
        "listen_wait",
        "max_redirects",
        "round_backoff",
        "max_handler_time",
        "max_cookies",
        "max_retry_after",
        "stderr_tail_bytes",
        "exit_grace",
        "restart_window",
        "restart_backoff",
    }


def test_limits_cannot_be_changed() -> None:
    limits = Limits()
    with pytest.raises(AttributeError, match=r"use replace\(max_pages=...\)"):
        limits.max_pages = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        limits.max_page = 3
    with pytest.raises(AttributeError):
        del limits.max_pages
    assert limits.max_pages == 1000


def test_an_unknown_bound_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="max_page"):
        Limits(max_page=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="max_page"):
        Limits().replace(max_page=3)


@pytest.mark.req("V1")
def test_limits_are_values() -> None:
    limits = Limits(max_pages=3)
    twins = [pickle.loads(pickle.dumps(limits)), copy.copy(limits), copy.deepcopy(limits)]
    assert all(twin == limits and hash(twin) == hash(limits) for twin in twins)
    assert "max_pages=3, " in repr(limits)
    assert limits != object()
    if sys.version_info >= (3, 13):
        assert copy.replace(limits, max_pages=4).max_pages == 4
