"""[I14]: what a log says of its producers is what a replay of its batches says.

Reading a whole log is dear, so one replica is looked at every few checks, in turn, and all of them
at the end of a run. Not looked at: a log that has rotted or lost its disk, and one that is being
fetched again; a log that is as it was when it was looked at last.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_broker.log.producer_state import ProducerState
from oncelog_protocol.records.batch import TimestampType, parse_header
from oncelog_protocol.records.control import decode_marker
from oncelog_protocol.types import TopicPartition
from simulation.log_view import RunningLog
from simulation.store_view import InvariantViolation
from simulation.truth import Replica, Truth

__all__ = ["ProducerInvariants", "replayed"]

EVERY = 10
"""Checks from one look to the next."""


class ProducerInvariants:
    """It looks at the logs of a cluster."""

    def __init__(self) -> None:
        self._checks = 0
        self._turn = 0
        self._seen: dict[tuple[TopicPartition, int], tuple[object, ...]] = {}

    def sample(self, truths: Mapping[TopicPartition, Truth]) -> None:
        """Look at one replica, now and then. :raises InvariantViolation: [I14]."""
        self._checks += 1
        if self._checks % EVERY:
            return
        all_of_them = _replicas(truths)
        if all_of_them:
            self._turn = (self._turn + 1) % len(all_of_them)
            self._check(*all_of_them[self._turn])

    def check_all(self, truths: Mapping[TopicPartition, Truth]) -> None:
        """Look at every replica. :raises InvariantViolation: [I14]."""
        for truth, replica in _replicas(truths):
            self._check(truth, replica)

    def _check(self, truth: Truth, replica: Replica) -> None:
        view = replica.view
        if view is None or view.fault or view.rotten or replica.exempt or replica.hurt:
            return
        log = view.log
        if view.end != log.log_end_offset:
            return
        state = (log, view.resets, view.end)
        key = truth.name, replica.broker_id
        if self._seen.get(key) == state:
            return
        self._seen[key] = state
        said = log.producers.state.contradiction(replayed(view), compacted=truth.compacts)
        if said:
            raise InvariantViolation(
                "I14", f"{truth.name} on broker {replica.broker_id}, end {view.end}: {said}"
            )


def replayed(view: RunningLog) -> ProducerState:
    """Return what the batches of a log say."""
    state = ProducerState()
    for index in range(len(view.batches)):
        data = view.batch_bytes(index)
        header = parse_header(data)
        if header.is_control:
            state.marked(decode_marker(data, verify=False), 0)
            continue
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        state.applied(header, 0, append_time=append_time)
    return state


def _replicas(truths: Mapping[TopicPartition, Truth]) -> list[tuple[Truth, Replica]]:
    return [(truth, replica) for truth in truths.values() for replica in truth.replicas.values()]
