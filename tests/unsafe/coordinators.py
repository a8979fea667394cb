"""The coordinators lack one of their rules here, for tests that prove that the rule is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from oncelog_broker.coordinator.ports import MarkerOrder, MarkerSenderPort, PartitionWriter
from oncelog_broker.coordinator.result import CoordinatorRecord
from oncelog_broker.coordinator.safeguards import AskDeleted, CoordinatorSafeguards
from oncelog_broker.coordinator.transaction.ordinary import (
    Now,
    ProducerIdAndEpoch,
    Step,
    present,
)
from oncelog_broker.coordinator.transaction.records import SavedTransaction
from oncelog_broker.coordinator.transaction.states import Ending, TxnState
from oncelog_protocol.types import TopicPartition

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class HalfServed(CoordinatorSafeguards):
    """A coordinator answers from what it has read so far."""

    def serves_while_loading(self) -> bool:
        """Return True."""
        return True


class _Hasty:
    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def when_committed(
        self, topic_partition: TopicPartition, offset: int, callback: Callable[[int], None]
    ) -> None:
        """Say at once that it is committed."""
        callback(0)


class CutIgnored(CoordinatorSafeguards):
    """Whoever is elected adopts what it has read before, though the log was cut since."""

    def adopts(self, holds: bool) -> bool:
        """Return True."""
        return True


class AppendsAnswered(CoordinatorSafeguards):
    """A coordinator answers as soon as the leader has appended."""

    def writer(self, writer: PartitionWriter) -> PartitionWriter:
        """Return one for which all is committed."""
        return cast(PartitionWriter, _Hasty(writer))


class NoBarrier(CoordinatorSafeguards):
    """A coordinator that was deposed tells what was true once."""

    def barrier(self) -> tuple[CoordinatorRecord, ...]:
        """Return nothing."""
        return ()


class AnybodyCommits(CoordinatorSafeguards):
    """A commit counts whoever sends it."""

    def sender(self, check: Callable[[A, B], C], group: A, request: B) -> C | None:
        """Return nobody, unchecked."""
        return None


class DeparturesForgotten(CoordinatorSafeguards):
    """A coordinator alone knows who has gone from a generation, until there is the next one."""

    def departures(self, records: Sequence[CoordinatorRecord]) -> Sequence[CoordinatorRecord]:
        """Return nothing."""
        return ()


class UnstableTold(CoordinatorSafeguards):
    """Everybody is told the last committed offset."""

    def stable(self, required: bool) -> bool:
        """Return False."""
        return False


class EpochsStay(CoordinatorSafeguards):
    """Epoch and markers stay the same at an end, as before KIP-890.

    It needs partitions that take such markers: those of ``markers_need_newer_epoch`` of the log.
    """

    def end(
        self, saved: SavedTransaction | None, producer: ProducerIdAndEpoch, commit: bool, now: Now
    ) -> Step:
        """Return the step with the epoch as it was; a repeat in it changes nothing."""
        if saved is None or producer != present(saved):
            return super().end(saved, producer, commit, now)
        if saved.state is not TxnState.ONGOING and saved.state.is_committed == commit:
            return Step()
        raised = super().end(saved, producer, commit, now)
        ended = saved.prepared(commit, Ending.CLIENT, producer, producer.epoch, now.now_ms)
        completed = (ended, ended.completed(now.now_ms))
        return Step(completed[: len(raised.states)])

    def timed_out(self, saved: SavedTransaction, now: Now) -> SavedTransaction:
        """Return the end with the epoch as it was."""
        producer = present(saved)
        return saved.prepared(False, Ending.TIMEOUT, producer, producer.epoch, now.now_ms)

    def marker_epoch(self, producer_epoch: int) -> int:
        """Return the one after the marker's, which is that of the data."""
        return producer_epoch + 1


class _AtOnce:
    def __init__(self, sender: MarkerSenderPort) -> None:
        self._sender = sender

    def send(self, order: MarkerOrder, done: Callable[[], None]) -> Callable[[], None]:
        """Send the markers, and say at once that they are written."""
        self._sender.send(order, lambda: None)
        done()
        return lambda: None


class MarkersUnawaited(CoordinatorSafeguards):
    """The next transaction of a producer begins while markers of the last are under way."""

    def marker_sender(self, sender: MarkerSenderPort) -> MarkerSenderPort:
        """Return one that waits for nobody."""
        return _AtOnce(sender)


class AnyPartitionTaken(CoordinatorSafeguards):
    """A leader may append what a client has not added to its transaction."""

    def missing(self, partitions: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Return nothing."""
        return ()


class MarkersBeforeDecision(CoordinatorSafeguards):
    """Markers go out when the decision was appended."""

    def prepared(self, send_markers: Callable[[], None]) -> None:
        """Send them."""
        send_markers()


async def _no_more(where: TopicPartition) -> bool:
    return True


class UnheardOfIsDeleted(CoordinatorSafeguards):
    """A marker is given up when this broker has not heard of its partition."""

    def asks_deleted(self, ask: AskDeleted) -> AskDeleted:
        """Return who asks nobody."""
        return _no_more


UNSAFE: dict[str, CoordinatorSafeguards] = {
    "wait_for_load": HalfServed(),
    "adopt_uncut_only": CutIgnored(),
    "fence_generation": AnybodyCommits(),
    "replies_wait_for_commit": AppendsAnswered(),
    "outsiders_wait_for_barrier": NoBarrier(),
    "departures_are_durable": DeparturesForgotten(),
    "require_stable": UnstableTold(),
    "bump_epoch_per_txn": EpochsStay(),
    "prepare_before_markers": MarkersBeforeDecision(),
    "all_markers_before_next": MarkersUnawaited(),
    "must_be_added": AnyPartitionTaken(),
    "confirm_deletions": UnheardOfIsDeleted(),
}
"""Rules by the switch that turns them off."""


def without(switch: str) -> CoordinatorSafeguards:
    """Return the safeguards without one of them."""
    return UNSAFE[switch]
