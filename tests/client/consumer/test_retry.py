"""These tests count attempts and pauses."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.consumer.retry import JITTER, ONCE, Retry
from oncelog.errors import ConfigurationError
from oncelog_runtime.entropy import SeededEntropy


def test_the_first_time_counts() -> None:
    retry = Retry(3)
    error = ValueError()
    assert [retry.again(attempts, error) for attempts in (1, 2, 3, 4)] == [True, True, False, False]
    assert not ONCE.again(1, error)


def test_errors_of_which_no_attempt_helps() -> None:
    retry = Retry(3, give_up_on=(LookupError, TypeError))
    assert retry.again(1, ValueError())
    assert not retry.again(1, KeyError())


def test_pauses_grow_up_to_a_bound_with_jitter() -> None:
    retry = Retry(10, backoff_ms=100, backoff_max_ms=1000, multiplier=3)
    entropy = SeededEntropy(1)
    for attempts, nominal_s in ((1, 0.1), (2, 0.3), (3, 0.9), (4, 1.0), (100_000, 1.0)):
        pauses = [retry.pause_s(attempts, entropy) for _ in range(50)]
        assert nominal_s * (1 - JITTER) <= min(pauses) < max(pauses) <= nominal_s * (1 + JITTER)


def test_no_pause_and_even_pauses() -> None:
    entropy = SeededEntropy(1)
    assert Retry(backoff_ms=0).pause_s(1_000_000, entropy) == 0
    assert Retry(backoff_ms=60_000, backoff_max_ms=1).pause_s(3, entropy) >= 48
    assert Retry(backoff_ms=10, multiplier=1).pause_s(1_000_000, entropy) < 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": "5"},
        {"backoff_ms": -1},
        {"backoff_max_ms": -1},
        {"multiplier": 0.5},
        {"multiplier": True},
        {"give_up_on": [ValueError]},
        {"give_up_on": (ValueError(),)},
    ],
)
def test_what_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Retry(**wrong)
