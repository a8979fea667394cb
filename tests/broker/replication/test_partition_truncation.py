"""A follower gives up what its leader does not have: the log, the high watermark, transactions."""

from __future__ import annotations

import logging

import pytest

from oncelog_protocol.messages.fetch import EpochEnd
from support.replicas import Replicas
from support.transactional_logs import TxnProducer


def filled(group: Replicas) -> None:
    log = group[2].partition.log
    producer = TxnProducer()
    for _ in range(3):
        producer.send(log, b"x")
        producer.end(log, commit=False)
    group[2].sync()


async def test_the_high_watermark_goes_along_and_the_loss_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = Replicas()
    filled(group)
    partition = group[2].partition
    partition.leader_offsets(5, 0)
    with caplog.at_level(logging.ERROR):
        partition.truncate_to_divergence(EpochEnd(0, 3))
    assert (partition.log.log_end_offset, partition.high_watermark) == (3, 3)
    assert partition.committed_records_truncated == 2
    assert "committed_records_truncated partition=t-0 records=2" in caplog.text
    assert partition.log.producers.first_undecided == 2, "its marker was cut"
    assert [row.marker_offset for row in partition.log.aborted.rows()] == [1]


async def test_what_lies_above_the_high_watermark_is_no_loss() -> None:
    group = Replicas()
    filled(group)
    partition = group[2].partition
    partition.high_watermark = 2
    partition.truncate_to_divergence(EpochEnd(0, 4))
    assert (partition.high_watermark, partition.committed_records_truncated) == (2, 0)


async def test_a_log_that_begins_anew_knows_nothing() -> None:
    group = Replicas()
    filled(group)
    partition = group[2].partition
    TxnProducer(9).send(partition.log, b"open")
    partition.restart_log_at(100)
    assert (partition.high_watermark, partition.last_stable_offset) == (100, 100)
    assert not partition.log.aborted
    assert partition.log.producers.describe(1) == ([], False)
