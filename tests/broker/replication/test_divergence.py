"""These tests find where two logs part: the cases of KIP-279, and any two possible histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.clean_state import FROM_SCRATCH
from oncelog_broker.log.compaction import hole
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.divergence import common_end, divergence, may_lack_tombstones
from oncelog_broker.replication.ports import FetchPosition
from oncelog_protocol.errors import OffsetOutOfRangeError
from oncelog_protocol.messages.fetch import EpochEnd
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, follower_batches, make_log, topic_config


def log_of(epochs: list[int]) -> PartitionLog:
    """Make a log with one record a batch, of these leader epochs."""
    log = make_log(MemoryFiles())
    if epochs:
        log.append_as_follower(
            follower_batches(*[(offset, 1, epoch) for offset, epoch in enumerate(epochs)])
        )
    return log


def position(log: PartitionLog) -> FetchPosition:
    return FetchPosition(log.log_end_offset, 99, log.latest_epoch(), log.log_start_offset)


@pytest.mark.parametrize(
    ("leader", "follower", "answer", "end"),
    [
        ([0, 0, 1], [0, 0], None, 2),
        ([0, 0, 1], [0, 0, 0], EpochEnd(0, 2), 2),
        ([0, 2, 2], [0, 1, 1, 1], EpochEnd(0, 1), 1),
        ([0, 2, 2, 2, 4], [0, 1, 1, 3], EpochEnd(2, 4), 3),  # the first of two cuts
        ([3, 3], [1, 2], EpochEnd(2, 0), 0),
        ([5], [], None, 0),
        ([0, 1], [0, 1, 1, 1], EpochEnd(1, 2), 2),
    ],
)
def test_cases(leader: list[int], follower: list[int], answer: EpochEnd | None, end: int) -> None:
    log = log_of(follower)
    assert divergence(log_of(leader), position(log)) == answer
    if answer is not None:
        assert common_end(log, answer) == end


def test_an_epoch_of_which_the_leader_knows_nothing() -> None:
    with pytest.raises(OffsetOutOfRangeError):
        divergence(log_of([0, 1]), FetchPosition(2, 99, 7))


def test_the_log_start_is_not_passed() -> None:
    log = log_of([0, 0, 1, 1])
    log.advance_log_start(3)
    assert common_end(log, EpochEnd(0, 1)) == 3


@given(
    st.lists(st.integers(0, 3), max_size=6).map(sorted),
    st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=6),
)
def test_a_follower_arrives_at_the_common_part(
    shared: list[int], parts: list[tuple[bool, int]]
) -> None:
    """Both begin alike, then each goes on in epochs of its own, as no epoch has two leaders."""
    leader, follower = list(shared), list(shared)
    for epoch, (leads, count) in enumerate(parts, 4):
        (leader if leads else follower).extend([epoch] * count)
    leader.append(4 + len(parts))
    ours, log = log_of(leader), log_of(follower)
    cuts = 0
    while (answer := divergence(ours, position(log))) is not None:
        log.truncate_to(common_end(log, answer))
        cuts += 1
        assert cuts <= len(parts) + 1
    assert log.log_end_offset == len(shared)


def test_who_was_away_for_longer_than_tombstones_are_kept_may_lack_some() -> None:
    compacted = topic_config(cleanup_policy="compact", delete_retention_ms=1000)
    touched, whole = memoryview(hole(2, 9, 0, NOW_MS)), follower_batches((2, 1, 0))
    log = make_log(MemoryFiles(), compacted)
    assert not may_lack_tombstones(log, touched, NOW_MS + 5000), "it is empty"
    log.append_as_follower(follower_batches((0, 2, 0)))
    log.roll()
    log.clean.in_step_ms = -1
    assert not may_lack_tombstones(log, touched, NOW_MS + 1000)
    assert may_lack_tombstones(log, touched, NOW_MS + 1001)
    assert not may_lack_tombstones(log, whole, NOW_MS + 1001)
    assert not may_lack_tombstones(log, memoryview(bytes(100)), NOW_MS + 1001)
    log.clean.in_step_ms = NOW_MS + 500
    assert not may_lack_tombstones(log, touched, NOW_MS + 1500)
    assert may_lack_tombstones(log, touched, NOW_MS + 1501)
    log.clean.in_step_ms = FROM_SCRATCH
    assert not may_lack_tombstones(log, touched, NOW_MS + 5000)
    log.clean.in_step_ms = -1
    log.reconfigure(topic_config())
    assert not may_lack_tombstones(log, touched, NOW_MS + 5000)
