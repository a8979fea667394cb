"""One run at a time, and one transaction at a time, says what is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from oncelog import OffsetAndMetadata, TopicPartition
from oncelog.consumer.boundary import Boundary
from oncelog.errors import ClientError


class Nothing:
    """This run handles nothing."""

    def done_offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {}

    async def taking_away(self, partitions: Sequence[TopicPartition]) -> None: ...


def test_one_run_at_a_time_and_no_transaction_beside_it() -> None:
    boundary, work = Boundary(), Nothing()
    boundary.check_free()
    boundary.begin_work(work)
    with pytest.raises(ClientError, match="one at a time"):
        boundary.begin_work(work)
    with pytest.raises(ClientError, match="already"):
        boundary.check_free()
    boundary.end_work()
    boundary.begin_work(work)


def test_a_transaction_is_left_once_and_commits_stay_with_transactions() -> None:
    boundary, part = Boundary(), object()
    boundary.enter(part)
    with pytest.raises(ClientError, match="already"):
        boundary.check_free()
    assert not boundary.leave(object())
    assert boundary.leave(part)
    assert not boundary.leave(part)
    boundary.check_free()
    assert boundary.in_transactions
