"""The end of a partition, and where a time begins in it, are not taken back once told."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_broker.replication.listed_offsets import FoundRecord, end_offset, first_at, newest
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_protocol.errors import (
    CorruptMessageError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
)
from oncelog_protocol.types import Acks, IsolationLevel
from support.replicas import NOW_MS, Replicas, batch_of
from unsafe.replication import without

LEVELS = tuple(IsolationLevel)


def told_and_deposed(safeguards: Safeguards = SAFE) -> Replicas:
    """Broker 1 has told that the log ends at 2. Broker 2, which holds both records and has heard of
    one high watermark, 1, leads now, and nobody has fetched from it."""
    group = Replicas(safeguards=safeguards)
    group.produce(b"a")
    group.replicate()
    group.produce(b"b")
    group.sync(1)
    for follower in (2, 3):
        group.fetch(follower)
        group.sync(follower)
    group.fetch(2)
    group.fetch(3)
    assert [end_offset(group[1].partition, level) for level in LEVELS] == [2, 2]
    group.elect(2)
    assert group[2].partition.high_watermark == 1
    return group


async def test_a_new_leader_tells_no_end_before_it_knows_what_was_told() -> None:
    group = told_and_deposed()
    partition = group[2].partition
    for level in LEVELS:
        with pytest.raises(OffsetNotAvailableError, match="watermark is 1, its epoch began at 2"):
            end_offset(partition, level)
    group.replicate()
    assert [end_offset(partition, level) for level in LEVELS] == [2, 2]


async def test_without_the_rule_an_end_is_taken_back() -> None:
    group = told_and_deposed(without("list_from_epoch_start"))
    assert end_offset(group[2].partition, IsolationLevel.READ_UNCOMMITTED) == 1


async def test_a_time_is_found_below_the_end_that_is_known() -> None:
    group = told_and_deposed()
    partition = group[2].partition
    for level in LEVELS:
        assert first_at(partition, NOW_MS, level) == FoundRecord(NOW_MS, 0, 0)
        with pytest.raises(OffsetNotAvailableError):
            first_at(partition, NOW_MS + 1, level)
    group.replicate()
    assert [first_at(partition, NOW_MS + 1, level) for level in LEVELS] == [None, None]


async def test_a_record_beyond_the_end_is_found_when_it_is_committed() -> None:
    group = Replicas()
    group.produce(b"a")
    group.sync(1)
    partition = group[1].partition
    assert first_at(partition, NOW_MS, IsolationLevel.READ_UNCOMMITTED) is None
    assert end_offset(partition, IsolationLevel.READ_UNCOMMITTED) == 0
    group.replicate()
    assert first_at(partition, NOW_MS, IsolationLevel.READ_UNCOMMITTED) == (NOW_MS, 0, 0)


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_the_newest_record_is_that_of_a_scan(stamps: list[int], start: int, until: int) -> None:
    async def check() -> None:
        group = Replicas()
        partition = group[1].partition
        for index, stamp in enumerate(stamps):
            batch = batch_of(b"v", timestamp_ms=NOW_MS + stamp)
            partition.append_as_leader(batch, Acks.ALL, group.now)
            if index + 1 == until:
                group.replicate()
        end = partition.high_watermark
        begin = min(start, end)
        partition.log.advance_log_start(begin)
        readable = [(NOW_MS + stamp, -offset) for offset, stamp in enumerate(stamps)][begin:end]
        found = newest(partition, IsolationLevel.READ_UNCOMMITTED)
        if not readable:
            assert found is None
        else:
            stamp, offset = max(readable)
            assert found == FoundRecord(stamp, -offset, 0)

    asyncio.run(check())


async def test_a_new_leader_tells_no_newest_record_before_it_knows_the_end() -> None:
    group = told_and_deposed()
    with pytest.raises(OffsetNotAvailableError):
        newest(group[2].partition, IsolationLevel.READ_UNCOMMITTED)


async def test_only_leaders_know() -> None:
    group = told_and_deposed()
    with pytest.raises(NotLeaderOrFollowerError):
        end_offset(group[1].partition, IsolationLevel.READ_UNCOMMITTED)


async def test_rot_that_a_search_by_time_finds_is_the_replicas_trouble() -> None:
    group = told_and_deposed()
    group.replicate()
    partition = group[2].partition
    group[2].files.corrupt(partition.log.segments.active.path, 60)
    with pytest.raises(CorruptMessageError):
        first_at(partition, NOW_MS, IsolationLevel.READ_UNCOMMITTED)
    assert partition.repair.corruption
