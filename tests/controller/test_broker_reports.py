"""Reports of brokers are known for as long as these live, and none of an earlier life counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog_broker.server.copy_rate import CopyRate
from oncelog_controller.broker_reports import BrokerReports, CopyProgress, ReportedReplica
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    ApiError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
)
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    GONE,
    NO_ROOM,
    BrokerReportRequest,
    BrokerReportResponse,
    ReportedCopy,
    ReportedDirectory,
    ReportedTopic,
)
from support.controller_driver import Driver, registration

BROKERS = {broker_id: registration(broker_id, 10 * broker_id) for broker_id in (1, 2, 3)}
DISK = ReportedDirectory("/data", 1000, 400, True)


def topic(topic_id: str, **sizes: int) -> ReportedTopic:
    """Return the replicas of a topic: ``p0=5`` is one of 5 bytes, and 1 is written a second."""
    numbers = [int(name[1:]) for name in sizes]
    count = len(numbers)
    return ReportedTopic(
        topic_id, numbers, list(sizes.values()), [1] * count, [2] * count, [0] * count
    )


def page(
    broker_id: int,
    *topics: ReportedTopic,
    number: int = 1,
    continues: int = ANEW,
    last: bool = True,
    copies: tuple[ReportedCopy, ...] = (),
) -> BrokerReportRequest:
    """Return a page of a report; alone it is a report of everything."""
    epoch = 10 * broker_id
    return BrokerReportRequest(
        broker_id, epoch, number, continues, last, [DISK], list(topics), list(copies)
    )


def test_what_a_broker_tells_is_known() -> None:
    reports = BrokerReports()
    reports.take(page(1, topic("a", p0=5, p3=7), topic("b", p0=9)), BROKERS, 50.0)
    assert reports.as_of(1) == 50.0
    assert reports.disks(1) == (DISK,)
    assert reports.replica("a", 3, 1) == ReportedReplica(7, 1, 2, 0)
    assert reports.replica_bytes("a", 1, 1) == 0, "it was heard, and has none"
    assert reports.partition_bytes("b", 0, (3, 1)) == 9
    assert reports.rate("b", 0, 1) == 1


def test_of_who_has_told_nothing_nothing_is_known() -> None:
    reports = BrokerReports()
    assert (reports.as_of(1), reports.disks(1), reports.replica("a", 0, 1)) == (None, None, None)
    assert reports.replica_bytes("a", 0, 1) == reports.partition_bytes("a", 0, (1, 2)) == -1
    assert reports.rate("a", 0, 1) == -1
    assert reports.progress("a", 0, 1, (2,), (1,)).bytes_left == -1


def test_pages_that_continue_change_only_what_they_name() -> None:
    reports = BrokerReports()
    reports.take(page(1, topic("a", p0=5, p1=6), topic("b", p0=1)), BROKERS, 50.0)
    reports.take(page(1, topic("a", p1=8), number=2, continues=1), BROKERS, 60.0)
    gone = [topic("a", p0=GONE), topic("b", p0=GONE)]
    reports.take(page(1, *gone, number=3, continues=2), BROKERS, 70.0)
    assert reports.replica("a", 0, 1) is None
    assert reports.replica("b", 0, 1) is None
    assert reports.replica_bytes("a", 1, 1) == 8
    assert reports.as_of(1) == 70.0


def test_a_report_of_everything_replaces_the_last_one_when_it_is_whole() -> None:
    reports = BrokerReports()
    reports.take(page(1, topic("a", p0=5), topic("old", p0=1)), BROKERS, 50.0)
    reports.take(page(1, topic("a", p0=6), number=2, last=False), BROKERS, 60.0)
    assert reports.replica_bytes("a", 0, 1) == 5
    reports.take(page(1, topic("b", p0=7), number=3, continues=2), BROKERS, 61.0)
    assert [reports.replica_bytes(name, 0, 1) for name in ("a", "b", "old")] == [6, 7, 0]


def test_a_page_that_continues_something_else_is_refused() -> None:
    reports = BrokerReports()
    with pytest.raises(InvalidUpdateVersionError):
        reports.take(page(1, topic("a", p0=5), number=2, continues=1), BROKERS, 50.0)
    reports.take(page(1, topic("a", p0=5), number=4), BROKERS, 50.0)
    with pytest.raises(InvalidUpdateVersionError):
        reports.take(page(1, topic("a", p0=6), number=6, continues=5), BROKERS, 60.0)
    assert reports.replica_bytes("a", 0, 1) == 5


@pytest.mark.parametrize(
    ("broker_id", "epoch", "error"),
    [(1, 9, StaleBrokerEpochError), (1, 11, NotControllerError), (7, 70, StaleBrokerEpochError)],
)
def test_only_the_registered_life_of_a_broker_is_heard(
    broker_id: int, epoch: int, error: type[ApiError]
) -> None:
    reports = BrokerReports()
    request = BrokerReportRequest(broker_id, epoch, 1, ANEW, True, [DISK])
    with pytest.raises(error):
        reports.take(request, BROKERS, 50.0)
    assert reports.disks(broker_id) is None


def test_misshapen_and_huge_pages_are_refused() -> None:
    reports = BrokerReports()
    with pytest.raises(InvalidRequestError, match="columns"):
        reports.take(page(1, ReportedTopic("a", [0, 1], [5], [0], [0], [0])), BROKERS, 50.0)
    count = limits.REPORT_REPLICAS_MAX + 1
    zeros = [0] * count
    huge = ReportedTopic("a", list(range(count)), zeros, zeros, zeros, zeros)
    with pytest.raises(InvalidRequestError, match="too many"):
        reports.take(page(1, huge), BROKERS, 50.0)


def test_who_goes_or_registers_anew_is_forgotten() -> None:
    reports = BrokerReports()
    for broker_id in BROKERS:
        reports.take(page(broker_id, topic("a", p0=5)), BROKERS, 50.0)
    reports.keep({1: BROKERS[1], 2: registration(2, 21)})
    assert [reports.as_of(broker_id) for broker_id in (1, 2, 3)] == [50.0, None, None]


# ---------------------------------------------------------------- copies


def copy(rate: int, reason: str = "") -> ReportedCopy:
    return ReportedCopy("a", 0, 1, 10, rate, reason)


def test_a_copy_is_as_far_as_its_log_is_large() -> None:
    reports = BrokerReports()
    reports.take(page(1, topic("a", p0=100)), BROKERS, 50.0)
    reports.take(page(2, topic("a", p0=30), copies=(copy(21),)), BROKERS, 50.0)
    progress = reports.progress("a", 0, 1, (2,), (1,))
    assert progress == CopyProgress(100, 30, 20, ""), "1 byte a second is written meanwhile"
    assert progress.bytes_left == 70
    assert progress.seconds_left == 4
    reports.take(page(2, topic("a", p0=30), copies=(copy(1),)), BROKERS, 50.0)
    assert reports.progress("a", 0, 1, (2,), (1,)).seconds_left == -1, "it never comes nearer"


def test_members_of_the_isr_are_done_and_hindrances_are_named() -> None:
    reports = BrokerReports()
    reports.take(page(1, topic("a", p0=100)), BROKERS, 50.0)
    reports.take(page(2, topic("a", p0=130)), BROKERS, 50.0)
    assert reports.progress("a", 0, 1, (2,), (1, 2)) == CopyProgress(100, 100, 0, "")
    reports.take(page(3, copies=(copy(0, NO_ROOM),)), BROKERS, 50.0)
    assert reports.progress("a", 0, 1, (2, 3), (1, 2)) == CopyProgress(200, 100, 0, NO_ROOM)


def test_a_copy_that_has_more_than_its_leader_is_not_more_than_done() -> None:
    reports = BrokerReports()
    reports.take(page(1, topic("a", p0=100)), BROKERS, 50.0)
    reports.take(page(2, topic("a", p0=130), copies=(copy(5),)), BROKERS, 50.0)
    progress = reports.progress("a", 0, 1, (2,), (1,))
    assert (progress.bytes_done, progress.seconds_left) == (100, 0)


# ---------------------------------------------------------------- in the machine


def ask(driver: Driver, request: BrokerReportRequest) -> int:
    """Return the error code that answers a report of the registered life of a broker."""
    request.broker_epoch = driver.brokers[request.broker_id].broker_epoch
    response: BrokerReportResponse = driver.ask(request)
    return response.error_code


def test_the_controller_keeps_reports_and_writes_nothing() -> None:
    driver = Driver.started(1, 2)
    assert ask(driver, page(2, topic("a", p0=5))) == 0
    assert driver.machine.reports.replica_bytes("a", 0, 2) == 5
    assert driver.machine.reports.as_of(2) == driver.now
    assert not driver.writes
    assert ask(driver, page(2, number=9, continues=8)) == InvalidUpdateVersionError.code


def test_a_report_is_forgotten_with_its_broker_and_with_the_controller() -> None:
    driver = Driver.started(1, 2)
    ask(driver, page(2, topic("a", p0=5)))
    ask(driver, page(1, topic("a", p0=6)))
    driver.join(2)
    assert driver.machine.reports.as_of(2) is None
    driver.load()
    assert driver.machine.reports.replica_bytes("a", 0, 1) == 6
    driver = driver.take_over()
    assert driver.machine.reports.as_of(1) is None


def copying(broker_id: int, rate: int, number: int = 1) -> BrokerReportRequest:
    copies = (ReportedCopy("a", 0, 1, 7, rate, ""), ReportedCopy("a", 1, 1, 7, rate, ""))
    return page(broker_id, number=number, copies=copies)


def test_how_long_a_copy_takes_is_told_from_the_last_ones() -> None:
    reports = BrokerReports()
    assert reports.seconds_to_copy(100, [1], 50.0) == -1, "nobody has copied anything"
    reports.take(copying(1, 10), BROKERS, 50.0)
    assert reports.seconds_to_copy(100, [1], 50.0) == 5, "both copies together"
    assert reports.seconds_to_copy(100, [2], 50.0) == 5, "as fast as the others"
    reports.take(copying(2, 5), BROKERS, 50.0)
    assert reports.seconds_to_copy(100, [1, 2], 50.0) == 10, "the slowest counts"
    assert reports.seconds_to_copy(1, [1], 50.0) == 1
    assert reports.seconds_to_copy(0, [1], 50.0) == reports.seconds_to_copy(7, [], 50.0) == 0
    assert reports.seconds_to_copy(-1, [1], 50.0) == -1
    reports.take(page(1, number=2), BROKERS, 60.0)
    assert reports.seconds_to_copy(100, [1], 3600.0) == 5, "it is known when all copies are done"
    assert reports.seconds_to_copy(100, [1], 3700.0) == -1, "but not for ever"


def test_one_fast_second_does_not_change_a_pace_much() -> None:
    reports = BrokerReports()
    reports.take(copying(1, 10), BROKERS, 50.0)
    reports.take(copying(1, 50, number=2), BROKERS, 51.0)
    assert reports.seconds_to_copy(4000, [1], 51.0) == 100


# ------------------------------------------------------------------------------ estimates


def told_of(
    seconds: int,
    *,
    written: Sequence[int],
    copied: Sequence[Sequence[int]],
    size: int,
) -> list[tuple[int, list[int], int]]:
    """Play a move whose brokers report every second; return (second, what each copy lacks, the
    seconds that are told).

    :param written: what producers write to the leader in a second, over and over.
    :param copied: the same for each copy: what it fetches, never more than there is.
    """
    reports, leader_rate = BrokerReports(), CopyRate()
    rates, have = [CopyRate() for _ in copied], [0] * len(copied)
    course = []
    for second in range(seconds):
        leader_rate.looked(float(second), size)
        at_leader = ReportedTopic("a", [0], [size], [leader_rate.bytes_per_s or 0], [0], [0])
        reports.take(page(1, at_leader, number=second), BROKERS, float(second))
        for number, (rate, had) in enumerate(zip(rates, have, strict=True)):
            rate.looked(float(second), had)
            speed = -1 if rate.bytes_per_s is None else rate.bytes_per_s
            copy = ReportedCopy("a", 0, 1, size - had, speed, "")
            at_copy = ReportedTopic("a", [0], [had], [0], [0], [0])
            told = page(2 + number, at_copy, number=second, copies=(copy,))
            reports.take(told, BROKERS, float(second))
        added = range(2, 2 + len(copied))
        told_s = reports.progress("a", 0, 1, added, [1]).seconds_left
        course.append((second, [size - had for had in have], told_s))
        size += written[second % len(written)]
        for number, each in enumerate(copied):
            have[number] = min(size, have[number] + each[second % len(each)])
    return course


@pytest.mark.parametrize(
    ("written", "copied"),
    [
        ([0], [[100]]),
        ([50], [[100]]),
        ([0, 0, 0, 0, 200], [[100]]),
        ([40], [[0, 200, 100, 100]]),
        ([20], [[100], [50]]),
        ([0], [[30], [300]]),
    ],
)
def test_the_time_that_is_told_is_right_within_a_quarter(
    written: Sequence[int], copied: Sequence[Sequence[int]]
) -> None:
    course = told_of(1500, written=written, copied=copied, size=40_000)
    over = next(second for second, left, _ in course if max(left) <= max(written))
    assert course[0][2] == -1, "after one look nobody knows"
    known = [(second, told) for second, _, told in course if 10 <= second < 0.8 * over]
    assert len(known) > 20
    for second, told in known:
        assert abs(told - (over - second)) <= (over - second) / 4 + 1, f"in second {second}"


def test_no_time_is_told_while_one_copy_does_not_come_nearer() -> None:
    course = told_of(20, written=[50], copied=[[500], [40]], size=5_000)
    assert {told for second, _, told in course if second > 1} == {-1}
