"""A leader proposes changes of the ISR, and makes something of the answers."""

from __future__ import annotations

import logging

import pytest

from oncelog_broker.replication.leadership import LeaderRole
from oncelog_protocol.messages.replication import AlterPartitionResult
from support.replicas import Replicas


def leader_of(group: Replicas) -> LeaderRole:
    leader = group[1].partition.leader
    assert leader is not None
    return leader


async def test_who_lags_is_proposed_to_leave(caplog: pytest.LogCaptureFixture) -> None:
    group = Replicas()
    group.produce(b"a")
    partition, leader = group[1].partition, leader_of(group)
    end = partition.log.log_end_offset
    assert not leader.propose_change(end, group.now, 10.0)
    with caplog.at_level(logging.WARNING):
        assert leader.propose_change(end, group.now + 60.0, 10.0)
    assert "followers_lag partition=t-0 followers=[2, 3]" in caplog.text
    item = partition.isr_item()
    assert item is not None
    assert [member.broker_id for member in item.isr] == [1]
    assert not leader.propose_change(end, group.now + 60.0, 10.0), "one change at a time"


@pytest.mark.parametrize(("offset", "level"), [(0, logging.ERROR), (2, logging.INFO)])
async def test_who_has_lost_records_leaves_at_once(
    offset: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    group = Replicas()
    group.produce(b"a", b"b")
    group.replicate()
    leader = leader_of(group)
    with caplog.at_level(logging.INFO, "oncelog_broker.replication.leadership"):
        assert leader.propose_leave_of_incomplete(3, offset)
    assert [record.levelno for record in caplog.records] == [level]
    assert not leader.propose_leave_of_incomplete(3, offset)


async def test_an_answer_is_the_new_isr() -> None:
    group = Replicas()
    leader = leader_of(group)
    assert leader.propose_leave([3])
    leader.unanswered()
    assert 3 in leader.isr
    version = leader.state.partition_epoch
    smaller = AlterPartitionResult("t", 0, 0, 1, group.leader_epoch, [1, 2], version + 1)
    leader.answered(smaller, group.now)
    assert leader.isr == (1, 2)
