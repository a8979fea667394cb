"""Directories vouch for some data beside what is said of the whole broker."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.log import claims
from oncelog_broker.log.claims import KeptData, Loss, VouchedPartitions, vouched
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_testing.memory.files import MemoryFiles
from support.logs import make_log, topic_config
from unsafe.log import without

ALL_LOST = KeptData(None, None, Loss.ALL)
KEPT = KeptData(10, 40, Loss.NONE)


def log(number: int, *, made: int = -1, topic_id: str = "id") -> PartitionLog:
    found = make_log(MemoryFiles(), topic_config())
    found.topic_partition = found.topic_partition._replace(partition=number)
    found.made_epoch, found.topic_id = made, topic_id
    return found


def listed(
    whole: KeptData, own: KeptData, *logs: PartitionLog, **more: Any
) -> list[VouchedPartitions]:
    found, left_out = vouched(whole, [(own, logs)], **more)
    assert left_out == 0
    return found


def test_a_sound_directory_names_what_lies_in_it() -> None:
    assert listed(ALL_LOST, KEPT, log(2), log(0), log(1, topic_id="other")) == [
        VouchedPartitions(10, 40, {"id": frozenset([0, 2]), "other": frozenset([1])})
    ]


def test_a_partition_is_vouched_for_since_it_was_made_there() -> None:
    assert listed(ALL_LOST, KEPT, log(0, made=5), log(1, made=30)) == [
        VouchedPartitions(10, 40, {"id": frozenset([0])}),
        VouchedPartitions(30, 40, {"id": frozenset([1])}),
    ]
    unsafe_rule = without("vouch_since_made")
    (unsafe,) = listed(
        ALL_LOST, KEPT, log(0, made=5), log(1, made=30), since_made=unsafe_rule.vouched_since
    )
    assert unsafe == VouchedPartitions(10, 40, {"id": frozenset([0, 1])})


@pytest.mark.parametrize(
    ("whole", "own", "names"),
    [
        (KEPT, KEPT, False),
        (KeptData(20, 40, Loss.NONE), KEPT, True),
        (KeptData(10, 30, Loss.NONE), KEPT, True),
        (KeptData(10, None, Loss.NONE), KEPT, False),
        (KeptData(None, 40, Loss.TAIL), KEPT, True),
        (ALL_LOST, ALL_LOST, False),
        (ALL_LOST, KeptData(None, 40, Loss.TAIL), False),
    ],
)
def test_only_what_was_kept_and_is_more_is_named(
    whole: KeptData, own: KeptData, names: bool
) -> None:
    assert bool(listed(whole, own, log(0))) is names


def test_what_was_made_since_the_loss_is_no_more() -> None:
    assert listed(KeptData(30, 40, Loss.NONE), KEPT, log(0, made=30)) == []


def test_a_log_of_which_nobody_knows_the_topic_is_not_named() -> None:
    assert listed(ALL_LOST, KEPT, log(0, topic_id="")) == []


def test_what_has_no_room_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIM_BYTES_MAX", 40)
    found, left_out = vouched(ALL_LOST, [(KEPT, [log(number) for number in range(9)])])
    (names,) = found
    assert len(names.partitions["id"]) + left_out == 9
    assert names.partitions["id"]
    assert left_out > 0
