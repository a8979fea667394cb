"""A clock leaps: some things may expire by it, and some it still accepts."""

from __future__ import annotations

import pytest

from oncelog_runtime.checked_clock import AGREE_MS, ALONE_S, LEAP_MS, CheckedClock
from oncelog_runtime.clock import NOT_YET_MS
from unsafe.log import BelievingClock

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Machine:
    """It has two clocks of one machine, and those of its peers."""

    def __init__(self, *, wrong_ms: int = 0, kind: type[CheckedClock] = CheckedClock) -> None:
        self.passed_s = 0.0
        self.wrong_ms = wrong_ms
        self.told: list[int] = []
        self.clock = kind(self, self.monotonic_s, on_leap=self.told.append)

    @property
    def true_ms(self) -> int:
        return NOW_MS + int(self.passed_s * 1000)

    def now_ms(self) -> int:
        return self.true_ms + self.wrong_ms

    def monotonic_s(self) -> float:
        return 77.5 + self.passed_s

    def hear(self, *errors_ms: int, of: int = 3) -> None:
        """Meet peers whose clocks are wrong by so much."""
        self.clock.heard([self.true_ms + error_ms for error_ms in errors_ms], of)

    def errors(self) -> tuple[int, int, int]:
        """Return those of what may expire, of the checked time, and of what is accepted."""
        clock = self.clock
        times = clock.expiry_ms(), clock.now_ms(), clock.latest_ms()
        return tuple(time_ms - self.true_ms for time_ms in times)  # type: ignore[return-value]


def checked(*, of: int = 3) -> Machine:
    machine = Machine()
    machine.hear(*[0] * (of - 1), of=of)
    return machine


def test_a_clock_that_goes_with_the_others_is_believed() -> None:
    machine = checked()
    for _ in range(100):
        machine.passed_s += 60
        machine.wrong_ms += LEAP_MS // 3  # as NTP steers
        assert machine.errors() == (machine.wrong_ms,) * 3
        machine.wrong_ms = min(machine.wrong_ms, AGREE_MS // 2)
    assert machine.clock.leaps == 0
    assert machine.clock.error_ms == 0


@pytest.mark.parametrize("days", [1, 10, -1, -10])
def test_nothing_expires_by_a_leap(days: int) -> None:
    machine = checked()
    machine.wrong_ms = days * DAY_MS
    machine.passed_s += 5
    assert machine.errors()[:2] == (0, 0)
    assert machine.told == [days * DAY_MS]
    assert machine.clock.leaps == 1
    assert machine.clock.error_ms == days * DAY_MS
    assert not machine.clock.is_settled
    assert machine.errors()[2] == max(0, days * DAY_MS), "it may be right: nothing is refused"
    machine.hear(0, 0)
    assert machine.errors() == (0, 0, 0), "it is wrong"
    machine.passed_s += 500
    machine.hear(0, -1)
    assert machine.errors() == (0, 0, 0)
    assert machine.clock.leaps == 1
    machine.wrong_ms = 0
    assert machine.errors() == (0, 0, 0)
    assert machine.clock.error_ms == 0
    assert machine.clock.is_settled


def test_a_leap_that_most_brokers_confirm_is_believed() -> None:
    machine = checked()
    machine.passed_s += 10
    machine.wrong_ms = DAY_MS  # all of them slept
    machine.hear(DAY_MS, 0)
    assert machine.errors() == (DAY_MS, DAY_MS, DAY_MS)
    assert machine.clock.is_settled
    assert machine.clock.error_ms == 0


def test_before_most_are_heard_nothing_that_happens_has_a_time() -> None:
    machine = Machine(wrong_ms=-10 * DAY_MS)
    assert machine.clock.stamp_of(machine.clock.latest_ms()) == NOT_YET_MS
    machine.hear()
    assert machine.clock.stamp_of(5) == NOT_YET_MS, "one of three is no majority"
    machine.hear(0, 0)
    assert machine.clock.stamp_of(5) == 5
    assert Machine(kind=BelievingClock).clock.stamp_of(5) == 5


@pytest.mark.parametrize("days", [10, -10])
def test_before_most_are_heard_nothing_expires(days: int) -> None:
    machine = Machine(wrong_ms=days * DAY_MS)
    assert machine.clock.expiry_ms() == 0
    machine.hear(of=3)
    assert machine.clock.expiry_ms() == 0, "one of three is no majority"
    machine.hear(0, 0)
    assert machine.errors() == (0, 0, 0), "it was wrong from the beginning"
    assert machine.clock.leaps == 1
    machine.hear(of=3)
    machine.passed_s += 1e5
    assert machine.errors() == (0, 0, 0), "and goes on by what was heard"


@pytest.mark.parametrize(("own", "other"), [(10, 0), (0, 10), (-10, 0), (0, -10)])
def test_where_two_disagree_the_earlier_expires_and_the_later_is_accepted(
    own: int, other: int
) -> None:
    machine = Machine(wrong_ms=own * DAY_MS)
    machine.hear(other * DAY_MS)
    expiry, _, latest = machine.errors()
    assert (expiry, latest) == (min(own, other) * DAY_MS, max(own, other) * DAY_MS)
    machine.hear(0, 0)
    if own:
        assert machine.errors() == (0, 0, 0)


def test_who_is_alone_believes_a_leap_that_stays() -> None:
    machine = checked(of=1)
    machine.wrong_ms = DAY_MS
    machine.hear(of=1)
    assert machine.errors() == (0, 0, DAY_MS)
    machine.passed_s += ALONE_S - 1
    machine.hear(of=1)
    assert machine.errors() == (0, 0, DAY_MS)
    machine.passed_s += 1
    machine.hear(of=1)
    assert machine.errors() == (DAY_MS, DAY_MS, DAY_MS)


def test_a_leap_that_goes_on_leaping_is_counted_again() -> None:
    machine = checked()
    for leap in range(1, 4):
        machine.wrong_ms += DAY_MS
        assert machine.errors()[0] == 0
        assert machine.clock.leaps == leap


def test_without_the_rules_the_wall_clock_is_believed() -> None:
    machine = Machine(kind=BelievingClock)
    machine.wrong_ms = 10 * DAY_MS
    assert machine.errors() == (10 * DAY_MS, 10 * DAY_MS, 10 * DAY_MS)
