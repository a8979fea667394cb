"""The demo's judge finds what it must find, and nothing else."""

from __future__ import annotations

from oncelog_cli.demo.verdict import DemoVerdict, Ledger


def judge(sent: list[int], acknowledged: list[int], read: list[tuple[int, int]]) -> DemoVerdict:
    ledger = Ledger()
    for _ in sent:
        ledger.on_sent()
    for row in acknowledged:
        ledger.on_acknowledged(row)
    for partition, row in read:
        ledger.on_read(partition, row)
    return ledger.verdict(leaders_killed=1, failover_seconds=0.2)


def test_everything_once_and_in_order_is_ok() -> None:
    verdict = judge([0, 1, 2, 3], [0, 1, 2, 3], [(1, 1), (0, 0), (0, 2), (1, 3)])
    assert verdict == DemoVerdict(4, 4, 4, 0, 0, 0, 1, 0.2, True)


def test_an_acknowledged_row_that_never_came_back_is_lost() -> None:
    verdict = judge([0, 1, 2], [0, 1, 2], [(0, 0), (0, 2)])
    assert (verdict.lost, verdict.ok) == (1, False)


def test_a_row_that_was_never_acknowledged_is_not_lost_but_the_job_is_not_done() -> None:
    verdict = judge([0, 1], [0], [(0, 0)])
    assert (verdict.lost, verdict.acknowledged, verdict.ok) == (0, 1, False)


def test_duplicates_are_no_disorder_and_not_ok() -> None:
    verdict = judge([0, 1, 2], [0, 1, 2], [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2)])
    assert (verdict.read, verdict.duplicated, verdict.out_of_order, verdict.ok) == (5, 2, 0, False)


def test_a_later_row_read_first_is_out_of_order() -> None:
    verdict = judge([0, 1, 2], [0, 1, 2], [(0, 0), (0, 2), (0, 1)])
    assert (verdict.out_of_order, verdict.ok) == (1, False)


def test_order_is_judged_within_a_partition_only() -> None:
    assert judge([0, 1], [0, 1], [(0, 1), (1, 0)]).ok
