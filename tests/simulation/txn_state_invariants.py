"""[I16] and [K2] are checked on the committed records of the topic of transactional ids.

- [I16]: states follow each other as in the table below; a pair of producer id and epoch is given
  once, to one id; epochs of a producer do not go back;
- [K2]: a marker says what a committed PREPARE record says; of shared transactions, COMMIT for
  winners and ABORT for all others. No marker is written of what nobody has prepared: looked at
  when all is over, since a watermark may be seen later than what followed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog_broker.coordinator.result import BARRIER, CoordinatorRecord
from oncelog_broker.coordinator.transaction.records import (
    IdFact,
    SavedShared,
    SavedTransaction,
    WriterFact,
    decode_record,
)
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_protocol.coordinators import TRANSACTION_TOPIC
from oncelog_protocol.types import TopicPartition
from simulation.compacted_canon import CompactedCanon
from simulation.store_view import InvariantViolation
from simulation.truth import Truth

__all__ = ["NEXT", "TxnStateInvariants"]

S = TxnState
_AT_REST = frozenset({S.EMPTY, S.ONGOING, S.PREPARE_ABORT})

NEXT: dict[TxnState | None, frozenset[TxnState]] = {
    None: _AT_REST,
    S.EMPTY: _AT_REST,
    S.ONGOING: frozenset({S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT}),
    S.PREPARE_COMMIT: frozenset({S.COMPLETE_COMMIT}),
    S.PREPARE_ABORT: frozenset({S.COMPLETE_ABORT}),
    S.COMPLETE_COMMIT: _AT_REST,
    S.COMPLETE_ABORT: _AT_REST,
}
"""These may follow, as a reader of the design expects; the product has its own table."""

Pair = tuple[int, int]
Decision = tuple[bool, TopicPartition]


class TxnStateInvariants:
    """It takes in what is committed to the internal topic, once."""

    def __init__(self) -> None:
        self.saved: dict[str, SavedTransaction | SavedShared] = {}
        """What is durable of each id."""
        self.prepared: dict[tuple[int, ...], bool] = {}
        """By producer and marker epoch, how its transaction is to end."""
        self._writers: dict[str, dict[int, int]] = {}
        """Of shared ids: producer ids of writers, with their ordinal."""
        self._holders: dict[Pair, str] = {}
        self._epochs: dict[int, int] = {}
        self._taken: dict[TopicPartition, tuple[CompactedCanon, int]] = {}
        self._lost = False

    def check(self, truths: Mapping[TopicPartition, Truth]) -> None:
        """Look at the records that have come in since the last call.

        :raises InvariantViolation: [I16].
        """
        for name, truth in truths.items():
            canon = truth.canon
            if name.topic != TRANSACTION_TOPIC or not isinstance(canon, CompactedCanon):
                continue
            before, count = self._taken.get(name, (canon, 0))
            if before is not canon:  # records were lost where that is permitted
                self._lost, count = True, 0
            for offset in canon.offsets[count:]:
                record = canon.records[offset]
                if record.key is None or record.key == BARRIER.key:
                    continue
                fact = decode_record(CoordinatorRecord(record.key, record.value))
                if isinstance(fact, IdFact):
                    self.take(fact)
                elif isinstance(fact, WriterFact):
                    self.take_writer(fact)
            self._taken[name] = canon, len(canon.offsets)

    def take_writer(self, fact: WriterFact) -> None:
        """Take one more record of a writer."""
        if fact.saved is not None:
            writers = self._writers.setdefault(fact.transactional_id, {})
            writers[fact.producer_id] = fact.saved.ordinal
            self._give(fact.transactional_id, (fact.producer_id, 0))

    def take(self, fact: IdFact) -> None:
        """Take one more record of an id. :raises InvariantViolation: [I16]."""
        name, saved = fact.transactional_id, fact.saved
        before = self.saved.get(name)
        if saved is None:
            if before is not None and before.state not in (
                S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT
            ):  # fmt: skip
                self._fail(name, f"was dropped in state {before.state.name}")
            self.saved.pop(name, None)
            return
        if before is not None and type(before) is not type(saved):
            self._fail(name, "is both ordinary and shared")
        if saved.state not in NEXT[None if before is None else before.state]:
            was = "nothing" if before is None else before.state.name
            self._fail(name, f"went from {was} to {saved.state.name}")
        self.saved[name] = saved
        if isinstance(saved, SavedTransaction):
            assert not isinstance(before, SavedShared)
            self._ordinary(name, before, saved)
        elif saved.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
            commits = saved.state is S.PREPARE_COMMIT
            for producer_id, ordinal in self._writers.get(name, {}).items():
                if ordinal == saved.ordinal:
                    won = commits and producer_id in saved.winners
                    self._decide(name, (producer_id, 1), won)

    def _ordinary(
        self, name: str, before: SavedTransaction | None, saved: SavedTransaction
    ) -> None:
        pair = saved.producer_id, saved.producer_epoch
        self._give(name, pair)
        ends = saved.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
        bumps = saved.state is S.EMPTY or (ends and not saved.number)
        begins = saved.state is S.ONGOING and before is not None and before.state is not S.ONGOING
        if before is not None and saved.number not in (
            {0, before.number + 1} if begins else {0, before.number}
        ):
            self._fail(name, f"has number {saved.number} after {before.number}")
        if before is not None and bumps == ((before.producer_id, before.producer_epoch) == pair):
            was = before.producer_id, before.producer_epoch
            self._fail(name, f"has {pair} in {saved.state.name} after {was}")
        if ends:
            pair = saved.marker_id, saved.marker_epoch
            marker = (*pair, saved.number) if saved.number else pair
            self._decide(name, marker, saved.state is S.PREPARE_COMMIT)

    def _give(self, name: str, pair: Pair) -> None:
        holder = self._holders.setdefault(pair, name)
        if holder != name:
            self._fail(name, f"has {pair}, which {holder} has got before")
        newest = self._epochs.get(pair[0], -1)
        if pair[1] < newest:
            self._fail(name, f"has {pair}, of which epoch {newest} was given before")
        self._epochs[pair[0]] = pair[1]

    def _decide(self, name: str, marker: tuple[int, ...], commit: bool) -> None:
        if self.prepared.setdefault(marker, commit) != commit:
            self._fail(name, f"ends {marker} both ways")

    def _fail(self, name: str, text: str) -> None:
        if not self._lost:
            raise InvariantViolation("I16", f"transactional id {name}: {text}")

    def check_markers(self, decisions: Mapping[Any, Decision], *, over: bool = False) -> None:
        """Hold markers against what was prepared.

        :param over: nothing comes any more: what was not prepared by now never was.
        :raises InvariantViolation: [K2].
        """
        for marker, (commit, where) in decisions.items():
            prepared = self.prepared.get(marker)
            if self._lost or prepared == commit or (prepared is None and not over):
                continue
            ways = {True: "to be committed", False: "to be aborted", None: "not prepared at all"}
            raise InvariantViolation(
                "K2",
                f"{where}: producer {marker[0]} has a marker of epoch {marker[1]} that says"
                f" {'COMMIT' if commit else 'ABORT'}, its transaction was {ways[prepared]}",
            )
