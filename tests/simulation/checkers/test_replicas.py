"""[A30] and [A32]: replicas differ, and leader epochs disagree."""

from __future__ import annotations

import pytest

from oncelog_protocol.records.batch import stamp
from oncelog_protocol.records.builder import encode_batch
from simulation.checkers import leader_epochs_agree, replicas_agree
from simulation.checkers.replicas import Entry, Replicas, entries_of
from simulation.checkers.violation import Rules

KEY = ("x", 0)


def log(*epochs: int, start: int = 0, size: int = 2, text: str = "") -> list[Entry]:
    """Return batches of ``size`` records, one for each epoch given, from ``start`` on."""
    offsets = [start + size * number for number in range(len(epochs))]
    return [
        Entry(offset, offset + size, epoch, f"{offset}{text}".encode())
        for offset, epoch in zip(offsets, epochs, strict=True)
    ]


def replaced(entries: list[Entry], at: int, data: bytes) -> list[Entry]:
    return [e._replace(data=data) if i == at else e for i, e in enumerate(entries)]


SAME = log(1, 1, 3)

BAD_REPLICAS = {
    "other bytes": (Replicas(6, {1: SAME, 2: SAME, 3: replaced(SAME, 1, b"2!")}), 2),
    "a missing batch": (Replicas(6, {1: SAME, 2: SAME[:2]}), 4),
    "a hole": (Replicas(6, {1: SAME, 2: [SAME[0], SAME[2]]}), 2),
    "nothing at all": (Replicas(6, {1: SAME, 2: []}), 0),
    "another epoch": (Replicas(6, {1: SAME, 2: log(1, 2, 3)}), 2),
}


@pytest.mark.parametrize("name", BAD_REPLICAS)
def test_replicas_that_differ_are_found(name: str) -> None:
    replicas, offset = BAD_REPLICAS[name]
    found = replicas_agree.check({KEY: replicas}, Rules())
    assert [(v.anomaly, v.partition, v.offsets) for v in found] == [("A30", KEY, (offset,))]


GOOD_REPLICAS = {
    "the same": Replicas(6, {1: SAME, 2: SAME, 3: SAME}),
    "tails above the high watermark": Replicas(4, {1: SAME, 2: SAME[:2], 3: log(1, 1, 9)}),
    "retention has cut one": Replicas(6, {1: SAME, 2: SAME[1:], 3: SAME[2:]}),
    "empty": Replicas(0, {1: [], 2: []}),
    "all retention": Replicas(6, {}),
}


@pytest.mark.parametrize("name", GOOD_REPLICAS)
def test_replicas_that_agree_are_accepted(name: str) -> None:
    assert replicas_agree.check({KEY: GOOD_REPLICAS[name]}, Rules()) == []
    assert leader_epochs_agree.check({KEY: GOOD_REPLICAS[name]}, Rules()) == []


BACK = log(1, 3, 2)
BAD_EPOCHS = {
    "epochs go back": Replicas(6, {1: BACK}),
    "an epoch goes back above the high watermark": Replicas(2, {1: SAME, 2: BACK}),
    "another beginning": Replicas(6, {1: log(1, 1, 3), 2: log(1, 3, 3)}),
    "a wrong memory": Replicas(6, {1: SAME}, {1: [(1, 0), (3, 5)]}),
    "a forgotten epoch": Replicas(6, {1: SAME}, {1: [(1, 0)]}),
    "a memory that begins behind its log": Replicas(6, {1: SAME}, {1: [(1, 1), (3, 4)]}),
}


@pytest.mark.parametrize("name", BAD_EPOCHS)
def test_epochs_that_disagree_are_found(name: str) -> None:
    found = leader_epochs_agree.check({KEY: BAD_EPOCHS[name]}, Rules())
    assert [(v.anomaly, v.partition) for v in found] == [("A32", KEY)]


GOOD_EPOCHS = {
    "the same memory": Replicas(6, {1: SAME}, {1: [(1, 0), (3, 4)]}),
    "an epoch without records": Replicas(6, {1: SAME}, {1: [(1, 0), (2, 4), (3, 4)]}),
    "retention cut an epoch": Replicas(6, {1: SAME, 2: SAME[1:]}, {2: [(1, 2), (3, 4)]}),
    "retention cut it in the middle": Replicas(6, {1: SAME[1:]}, {1: [(1, 0), (3, 4)]}),
    "different tails": Replicas(2, {1: log(1, 2, 2), 2: log(1, 1, 3)}),
}


@pytest.mark.parametrize("name", GOOD_EPOCHS)
def test_epochs_that_agree_are_accepted(name: str) -> None:
    assert leader_epochs_agree.check({KEY: GOOD_EPOCHS[name]}, Rules()) == []


def test_entries_are_read_from_the_bytes_of_a_log() -> None:
    first, second = (
        encode_batch([b"a", b"b"], timestamps=[1, 1]),
        encode_batch([b"c"], timestamps=[2]),
    )
    stamp(first, 0, 0, 4)
    stamp(second, 0, 2, 5)
    entries = entries_of(bytes(first) + bytes(second))
    assert entries == [Entry(0, 2, 4, bytes(first)), Entry(2, 3, 5, bytes(second))]
