"""The partition of a key is pinned: a release that hashes otherwise loses every group."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog_protocol.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.types import INTERNAL_TOPICS


@pytest.mark.parametrize(
    ("key", "count", "partition"),
    [("", 50, 0), ("my-group", 50, 6), ("größe", 50, 41), ("a" * 1024, 50, 22), ("g", 1, 0)],
)
def test_the_hash_never_changes(key: str, count: int, partition: int) -> None:
    assert coordinator_partition(key, count) == partition


def test_keys_spread_over_all_partitions() -> None:
    found = Counter(coordinator_partition(f"group-{n}", 50) for n in range(10_000))
    assert sorted(found) == list(range(50))
    assert max(found.values()) < 2 * min(found.values())


def test_there_must_be_partitions() -> None:
    with pytest.raises(ValueError, match="not positive"):
        coordinator_partition("a", 0)


def test_the_topics_are_internal() -> None:
    assert {GROUP_TOPIC, TRANSACTION_TOPIC} == INTERNAL_TOPICS
