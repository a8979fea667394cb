"""These tests check [I15], [I17], [A21] and [A23] over known logs, and their replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import ControlType, encode_marker
from oncelog_protocol.types import NO_TXN_NUMBER, TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from simulation.log_view import LogView
from simulation.store_view import InvariantViolation
from simulation.truth import Replica, Truth
from simulation.txn_invariants import TxnInvariants
from simulation.txn_replay import TxnReplay

X, Y = TopicPartition("x", 0), TopicPartition("y", 0)


def batches(text: str) -> list[bytes]:
    """Read "7/0 7/0 8 C7/1": data of producer 7 in epoch 0, twice; a plain record of producer 8;
    the commit of 7 with marker epoch 1 (A is an abort; with #2 it has the
    number 2). Compaction took away what is a "-"."""
    made = []
    for offset, word in enumerate(text.split()):
        if word == "-":
            continue
        kind = word[0] if word[0] in "CA" else ""
        word, _, number = word.removeprefix(kind).partition("#")
        producer, _, epoch = word.partition("/")
        if kind:
            made.append(
                encode_marker(
                    ControlType.COMMIT if kind == "C" else ControlType.ABORT,
                    producer_id=int(producer),
                    producer_epoch=int(epoch),
                    coordinator_epoch=0,
                    timestamp_ms=1,
                    base_offset=offset,
                    leader_epoch=0,
                    number=int(number or NO_TXN_NUMBER),
                )
            )
        else:
            made.append(
                encode_batch(
                    [b"v"],
                    timestamps=1,
                    base_offset=offset,
                    leader_epoch=0,
                    producer_id=int(producer),
                    producer_epoch=int(epoch or 0),
                    base_sequence=offset,
                    transactional=bool(epoch),
                )
            )
    return [bytes(batch) for batch in made]


def replayed(text: str) -> TxnReplay:
    replay = TxnReplay()
    said = [replay.take(batch) for batch in batches(text)]
    assert not any(said), said
    return replay


def test_a_replay_knows_what_is_open_and_what_holds_nothing() -> None:
    replay = replayed("7/0 8/3 7/0 A7/1 9 7/1 C8/4")
    assert {pid: txn.offsets for pid, txn in replay.open.items()} == {7: [5]}
    assert replay.holes == {0, 2, 3, 6}
    ended = [(txn.producer_id, txn.commit, txn.first_offset) for txn in replay.ended]
    assert ended == [(7, False, 0), (8, True, 1)]
    assert [replay.stable_at(high) for high in range(8)] == [0, 0, 0, 0, 1, 1, 1, 5]
    assert replay.is_open(5)
    assert not replay.is_open(1)


def test_numbers_tell_transactions_of_one_epoch_apart() -> None:
    replay = replayed("7/1 C7/1#1 7/1 A7/1#2 C7/1#3 7/1 A7/2 7/3 C7/3#1")
    ended = [(txn.key, txn.first_offset) for txn in replay.ended]
    assert ended == [((7, 1, 1), 0), ((7, 1, 2), 2), ((7, 1, 3), -1), ((7, 2), 5), ((7, 3, 1), 7)]
    assert not replay.open


WRONG = {
    "a zombie's batch": ("7/3 C7/4 7/3", "epoch 3 of producer 7 after epoch 4"),
    "two transactions in one": ("7/0 7/1", "joins the transaction of epoch 0"),
    "not transactional in between": ("7/0 7", "outside of the open transaction"),
    "a marker without a newer epoch": ("7/1 C7/1", "that of its data is 1"),
    "a number twice": ("7/1 C7/1#1 7/1 C7/1#1", "number 1 after (1, 1)"),
    "a number of an older epoch": ("7/1 C7/2 C7/1#4", "number 4 after"),
    "an old marker": ("7/5 C7/6 A7/6", "epoch 6 after 6"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_replay_says_what_is_wrong(name: str) -> None:
    text, said = WRONG[name]
    replay = TxnReplay()
    assert said in [replay.take(batch) for batch in batches(text)][-1]


@dataclass
class World:
    """Its partitions have a leader each, which says what a test wants it to say."""

    truths: dict[TopicPartition, Truth] = field(default_factory=dict)
    partitions: dict[TopicPartition, Any] = field(default_factory=dict)

    def put(self, name: TopicPartition, text: str, *, stable: int, high: int | None = None) -> None:
        """Set its log; of transactions that it says are aborted see ``aborted``."""
        files = MemoryFiles("/data", "/data/0")
        path = f"/data/0/{name}/00000000000000000000.log"
        files.make_dirs(f"/data/0/{name}")
        made = batches(text)
        files.open(path, create=True).append([b"".join(made)])
        view = LogView(files)
        assert view._walk(path, None), view.fault
        truth = self.truths.setdefault(name, Truth(name, "id"))
        replica = truth.replicas.setdefault(1, Replica(1))
        replica.view = cast(Any, view)
        view_any = cast(Any, view)
        view_any.log = SimpleNamespace(
            needs_refetch=False, refetch_until=-1, log_dir=SimpleNamespace(online=True)
        )
        high = len(made) if high is None else high
        truth.canon.extend(view, high)
        before = self.partitions.get(name)
        self.partitions[name] = replica.partition = cast(
            Any,
            SimpleNamespace(
                leader=object(),
                failed=False,
                refetching=False,
                leader_epoch=0,
                high_watermark=high,
                last_stable_offset=stable,
                log=SimpleNamespace(log_start_offset=0),
                index=[] if before is None else before.index,
            ),
        )
        partition = self.partitions[name]
        partition.aborted_transactions = lambda start, upto: [
            SimpleNamespace(producer_id=pid, first_offset=first) for pid, first in partition.index
        ]


def breach(world: World, invariants: TxnInvariants | None = None) -> str:
    with pytest.raises(InvariantViolation) as caught:
        (invariants or TxnInvariants()).check(world.truths)
    return caught.value.id


def test_a_sound_cluster_passes() -> None:
    world, invariants = World(), TxnInvariants()
    world.put(X, "7/0 8/0 C7/1", stable=1)
    world.put(Y, "7/0 C7/1 9", stable=3)
    invariants.check(world.truths)
    world.put(X, "7/0 8/0 C7/1 A8/1", stable=4)
    world.partitions[X].index = [(8, 1)]
    with pytest.raises(InvariantViolation, match=r"K2.*not prepared at all"):
        invariants.check_at_rest(world.truths)
    invariants.states.prepared = {(7, 1): True, (8, 1): False}
    invariants.check_at_rest(world.truths)
    assert (invariants.committed, invariants.aborted) == (2, 1)
    assert invariants.holes() == {("x", 0): {1, 2, 3}, ("y", 0): {1}}
    assert not any(invariants.undecided().values())


def test_what_is_open_is_named() -> None:
    world, invariants = World(), TxnInvariants()
    world.put(X, "9 7/4", stable=1)
    invariants.check(world.truths)
    assert invariants.undecided() == {("x", 0): [(7, 4, 1)]}


def test_one_transaction_ended_both_ways_is_found() -> None:
    world = World()
    world.put(X, "7/0 C7/1", stable=2)
    world.put(Y, "7/0 A7/1", stable=2)
    assert breach(world) == "I17"


def test_two_markers_in_one_partition_are_found() -> None:
    world = World()
    world.put(X, "7/0 C7/1 8 C7/1", stable=4)
    assert breach(world) == "I17"


def test_a_marker_with_the_epoch_of_its_data_is_found() -> None:
    world = World()
    world.put(X, "7/1 C7/1", stable=2)
    assert breach(world) == "I17"


def test_a_zombies_batch_is_found() -> None:
    world = World()
    world.put(X, "7/0 C7/1 7/0", stable=2)
    assert breach(world) == "A21"


def test_a_last_stable_offset_that_ignores_transactions_is_found() -> None:
    world = World()
    world.put(X, "7/0 8", stable=2)
    assert breach(world) == "I15"


def test_a_marker_that_is_not_committed_ends_nothing() -> None:
    world = World()
    world.put(X, "7/0 8 C7/1", stable=2, high=2)
    assert breach(world) == "I15"


def test_what_compaction_has_taken_away_holds_nobody_back() -> None:
    """The marker was committed when it did; the leader begins with a high watermark of before."""
    world, invariants = World(), TxnInvariants()
    world.put(X, "7/0 A7/1", stable=0)
    invariants.check(world.truths)
    world.put(X, "- A7/1", stable=1, high=1)
    invariants.check(world.truths)
    world.put(X, "7/0 A7/1", stable=1, high=1)
    assert breach(world, invariants) == "I15"


def test_an_aborted_transaction_that_is_not_in_the_index_is_found() -> None:
    world = World()
    world.put(X, "7/0 A7/1", stable=2)
    assert breach(world) == "I15"


def test_a_last_stable_offset_that_goes_back_is_found() -> None:
    world, invariants = World(), TxnInvariants()
    world.put(X, "8 8", stable=2)
    invariants.check(world.truths)
    world.put(X, "8 8 8", stable=1)
    assert breach(world, invariants) == "A23"


def test_one_above_the_high_watermark_is_found() -> None:
    world = World()
    world.put(X, "8 8", stable=2, high=1)
    assert breach(world) == "A23"


def test_one_that_stays_behind_is_found_at_rest_only() -> None:
    world, invariants = World(), TxnInvariants()
    world.put(X, "8 8", stable=1)
    invariants.check(world.truths)
    with pytest.raises(InvariantViolation, match="stays below 2"):
        invariants.check_at_rest(world.truths)
