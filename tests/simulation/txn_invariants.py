"""Invariants of transactions are checked with global knowledge, on what is committed.

- [I15]: a leader's last stable offset is what a replay of its committed batches gives, or below
  where it has to hold back; what was aborted is in its index before the offset passes it;
- [I17]: the markers of a transaction are all COMMIT or all ABORT, one in each partition, with an
  epoch above that of its data;
- [A21]: nothing of an older epoch, and no part of another transaction, follows a newer epoch of its
  producer;
- [A23]: within one leader epoch the last stable offset does not go back, and is not above the high
  watermark.

A transaction is known by its producer and the epoch of its markers: every end bumps it (KIP-890).
One that ends by number is known by its number as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_broker.replication.partition import Partition
from oncelog_protocol.records.batch import CorruptBatchError, verify_crc
from oncelog_protocol.types import TopicPartition
from simulation.checkers.transactions_are_decided import Open
from simulation.log_view import Batch, Canon
from simulation.store_view import InvariantViolation
from simulation.truth import Replica, Truth
from simulation.txn_replay import EndedTxn, TxnReplay
from simulation.txn_state_invariants import TxnStateInvariants

__all__ = ["TxnInvariants"]


class _Watched:
    """It is one partition."""

    def __init__(self, canon: Canon) -> None:
        self.canon = canon
        self.replay = TxnReplay()
        self.taken = 0
        """Batches."""
        self.stable: dict[int, int] = {}
        """The highest last stable offset by leader epoch, and so of one broker."""
        self.judged = 0
        """Ended transactions that were compared with those of other partitions."""
        self.indexed: dict[tuple[int, int], int] = {}
        """By broker and leader epoch: ended transactions that were looked up in its index."""


class TxnInvariants:
    """It takes in what is committed, once, and looks at leaders."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[int, ...], tuple[bool, TopicPartition]] = {}
        """By producer and marker epoch: how the transaction ended, and where that was seen."""
        self.committed = self.aborted = 0
        """Markers that ended something."""
        self.states = TxnStateInvariants()
        self._partitions: dict[TopicPartition, _Watched] = {}

    def check(self, truths: Mapping[TopicPartition, Truth]) -> None:
        """Look at what is new since the last call.

        :raises InvariantViolation: [I15], [I16], [I17], [A21], [A23] or [K2].
        """
        self.states.check(truths)
        known = len(self.decisions)
        for name, truth in truths.items():
            watched = self._partitions.get(name)
            if watched is None or watched.canon is not truth.canon:
                watched = self._partitions[name] = _Watched(truth.canon)
            self._take(truth, watched)
            if truth.lossy:
                continue
            for replica in truth.replicas.values():
                self._check_leader(truth, watched, replica)
        if len(self.decisions) > known:
            self.states.check_markers(dict(list(self.decisions.items())[known:]))

    # ---- batches

    def _take(self, truth: Truth, watched: _Watched) -> None:
        batches = watched.canon.batches
        while watched.taken < len(batches):
            batch = batches[watched.taken]
            data = _bytes_of(truth, watched.taken)
            if data is None and not _is_gone(truth, batch):
                break  # nobody runs who could show it
            watched.taken += 1
            if data is None:
                watched.replay.skip(batch.next)
                continue
            said = watched.replay.take(data)
            if said and not truth.lossy:
                id = "I17" if "marker" in said else "A21"
                raise InvariantViolation(id, f"{truth.name}: {said}")
        ended = watched.replay.ended
        while watched.judged < len(ended):
            self._judge(truth, ended[watched.judged], ended[: watched.judged])
            watched.judged += 1

    def _judge(self, truth: Truth, txn: EndedTxn, before: list[EndedTxn]) -> None:
        if txn.first_offset >= 0:
            self.committed += txn.commit
            self.aborted += not txn.commit
        key = txn.key
        commit, where = self.decisions.setdefault(key, (txn.commit, truth.name))
        if truth.lossy:
            return
        what = f"the transaction that ended producer {key[0]}'s epoch before {key[1]}"
        if commit != txn.commit:
            ways = {True: "committed", False: "aborted"}
            raise InvariantViolation(
                "I17",
                f"{what} was {ways[commit]} in {where} and {ways[txn.commit]} in {truth.name} at"
                f" {txn.marker_offset}",
            )
        twice = [each for each in before if each.key == key]
        if twice:
            raise InvariantViolation(
                "I17",
                f"{truth.name}: {what} has markers at {twice[0].marker_offset} and"
                f" {txn.marker_offset}",
            )

    # ---- leaders

    def _check_leader(self, truth: Truth, watched: _Watched, replica: Replica) -> None:
        partition = replica.partition
        if partition is None or partition.leader is None or partition.failed or replica.exempt:
            return
        high, stable = partition.high_watermark, partition.last_stable_offset
        where = f"{truth.name} on broker {replica.broker_id} in epoch {partition.leader_epoch}"
        before = watched.stable.get(partition.leader_epoch, -1)
        if stable > high or stable < before:
            raise InvariantViolation(
                "A23",
                f"{where}: last stable offset {before} -> {stable}, high watermark {high}",
            )
        watched.stable[partition.leader_epoch] = stable
        if high > watched.replay.end:
            return  # its batches were gone before anybody could look
        right = watched.replay.stable_at(high)
        if stable > right and _holds_undecided(watched.replay, replica, high, stable):
            raise InvariantViolation(
                "I15", f"{where}: last stable offset {stable}, by its batches it is {right}"
            )
        self._check_index(where, watched, replica, partition, stable)

    def _check_index(
        self, where: str, watched: _Watched, replica: Replica, partition: Partition, stable: int
    ) -> None:
        ended, key = watched.replay.ended, (replica.broker_id, partition.leader_epoch)
        done = watched.indexed.get(key, 0)
        while done < len(ended) and ended[done].marker_offset < stable:
            txn = ended[done]
            done += 1
            if txn.commit or txn.first_offset < partition.log.log_start_offset:
                continue
            batch = watched.canon.at(txn.first_offset)
            if batch is None or replica.view is None or not replica.view.holds(batch):
                continue  # compaction has taken it away
            said = partition.aborted_transactions(txn.first_offset, txn.marker_offset + 1)
            if (txn.producer_id, txn.first_offset) not in {
                (each.producer_id, each.first_offset) for each in said
            }:
                raise InvariantViolation(
                    "I15",
                    f"{where}: last stable offset {stable} is past the aborted transaction of"
                    f" producer {txn.producer_id} at {txn.first_offset}, its index has {said}",
                )
        watched.indexed[key] = done

    # ---- the end of a run

    def holes(self) -> dict[tuple[str, int], set[int]]:
        """Return offsets that hold nothing for readers, by partition."""
        return {
            (name.topic, name.partition): watched.replay.holes
            for name, watched in self._partitions.items()
        }

    def undecided(self) -> dict[tuple[str, int], list[Open]]:
        """Return what no marker has ended, by partition."""
        return {
            (name.topic, name.partition): [
                Open(txn.producer_id, txn.epoch, txn.first_offset)
                for txn in watched.replay.open.values()
            ]
            for name, watched in self._partitions.items()
        }

    def check_at_rest(self, truths: Mapping[TopicPartition, Truth]) -> None:
        """Nothing happens any more: last stable offsets are exactly what they must be.

        :raises InvariantViolation: [I15].
        """
        self.check(truths)
        if not any(truth.lossy for truth in truths.values()):
            self.states.check_markers(self.decisions, over=True)
        for name, truth in truths.items():
            watched = self._partitions[name]
            for replica in truth.replicas.values():
                partition = replica.partition
                if partition is None or partition.leader is None or replica.exempt or truth.lossy:
                    continue
                right = watched.replay.stable_at(partition.high_watermark)
                if partition.last_stable_offset != right:
                    raise InvariantViolation(
                        "I15",
                        f"{name} on broker {replica.broker_id}: last stable offset"
                        f" {partition.last_stable_offset} stays below {right}",
                    )


def _holds_undecided(replay: TxnReplay, replica: Replica, high: int, stable: int) -> bool:
    """Return whether readers below ``stable`` can meet a record that is not decided.

    Compaction may have taken it away: it was decided then, and a leader that begins with an older
    high watermark need not wait for the marker.
    """
    view = replica.view
    for offset in replay.undecided_at(high):
        if offset >= stable:
            continue
        batch = None if view is None else view.at(offset)
        if view is None or (batch is not None and offset in dict(view.records_of(batch))):
            return True
    return False


def _is_gone(truth: Truth, batch: Batch) -> bool:
    """Return whether compaction or retention has taken a batch from all replicas that there are."""
    views = [replica.view for replica in truth.replicas.values() if replica.view is not None]
    return bool(views) and all(view.start > batch.base or truth.compacts for view in views)


def _bytes_of(truth: Truth, index: int) -> bytes | None:
    """Return the bytes of a committed batch, from a replica that has it as it was."""
    batch = truth.canon.batches[index]
    for replica in truth.replicas.values():
        view = replica.view
        if view is not None and view.holds(batch):
            try:
                data = view.batch_bytes(view.index(batch))
                verify_crc(data)
                return data
            except (LookupError, CorruptBatchError):
                continue
    return None
