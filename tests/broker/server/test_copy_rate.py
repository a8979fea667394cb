"""The rate of a copy is a mean over seconds: bursts do not show, and a change does, in time."""

from __future__ import annotations

from oncelog_broker.server.copy_rate import COPY_RATE_S, CopyRate


def looked(rate: CopyRate, began_s: float, had: int, *seconds: int) -> int:
    """Look once a second, after so many bytes each time; return how many have come."""
    for number, size in enumerate(seconds, start=1):
        had += size
        rate.looked(began_s + number, had)
    return had


def test_one_look_knows_no_rate() -> None:
    rate = CopyRate()
    rate.looked(5.0, 1000)
    assert rate.bytes_per_s is None
    rate.looked(5.0, 2000)
    assert rate.bytes_per_s is None


def test_bursts_do_not_show() -> None:
    rate = CopyRate()
    rate.looked(0.0, 0)
    looked(rate, 0.0, 0, 0, 200, 0, 200)
    assert rate.bytes_per_s == 100


def test_what_is_older_than_the_span_does_not_count() -> None:
    rate = CopyRate()
    rate.looked(0.0, 0)
    had = looked(rate, 0.0, 0, *[1000] * 20)
    assert rate.bytes_per_s == 1000
    looked(rate, 20.0, had, *[100] * int(COPY_RATE_S))
    assert rate.bytes_per_s == 100


def test_looks_that_are_far_apart_count_all_the_same() -> None:
    rate = CopyRate()
    rate.looked(0.0, 0)
    rate.looked(100.0, 5000)
    assert rate.bytes_per_s == 50
    rate.looked(200.0, 5000)
    assert rate.bytes_per_s == 0


def test_a_log_that_begins_anew_has_no_rate_from_before() -> None:
    rate = CopyRate()
    rate.looked(0.0, 5000)
    rate.looked(1.0, 10)
    assert rate.bytes_per_s is None
    rate.looked(2.0, 30)
    assert rate.bytes_per_s == 20
