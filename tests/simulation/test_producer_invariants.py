"""These tests check [I14] over logs with known batches."""

from __future__ import annotations

from typing import Any, cast

import pytest

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles
from simulation.log_view import RunningLog
from simulation.producer_invariants import EVERY, ProducerInvariants, replayed
from simulation.store_view import InvariantViolation
from simulation.truth import Replica, Truth
from support.logs import batch, make_log, topic_config

NAME = TopicPartition("orders", 0)


def filled() -> tuple[PartitionLog, dict[TopicPartition, Truth], Replica]:
    """Make a log of two producers, and what the invariants see of it."""
    files = MemoryFiles()
    log = make_log(files, topic_config(segment_bytes=1024))
    for sequence in range(8):
        for producer_id in (1, 2):
            log.append_as_leader(batch(b"x" * 50, producer=(producer_id, 0, sequence)), 0)
    replica = Replica(1)
    replica.view = RunningLog(files, log, replica.rots)
    replica.view.update()
    truth = Truth(NAME, "topic-id")
    truth.replicas[1] = replica
    return log, {NAME: truth}, replica


def forget(log: PartitionLog) -> None:
    del log.producers.state.producers[2]


def test_a_replay_gives_what_the_log_knows() -> None:
    log, truths, replica = filled()
    known = log.producers.state.producers
    assert replica.view is not None
    found = replayed(replica.view).producers
    assert {pid: entry.batches for pid, entry in found.items()} == {
        pid: entry.batches for pid, entry in known.items()
    }
    ProducerInvariants().check_all(truths)


def test_a_producer_that_is_forgotten_is_found_in_its_turn() -> None:
    log, truths, _ = filled()
    forget(log)
    invariants = ProducerInvariants()
    for _ in range(EVERY - 1):
        invariants.sample(truths)
    with pytest.raises(InvariantViolation, match="I14: orders-0 on broker 1.*producer 2"):
        invariants.sample(truths)


@pytest.mark.parametrize("why", ["rotten", "hurt", "damaged", "fault", "behind"])
def test_logs_that_are_not_as_they_should_be_are_not_looked_at(why: str) -> None:
    log, truths, replica = filled()
    forget(log)
    view = cast(Any, replica.view)
    if why == "rotten":
        replica.rots["x", 0] = b"", b""
    elif why == "fault":
        view.fault = "a reason"
    elif why == "behind":
        view.end -= 1
    else:
        setattr(replica, why, True)
    ProducerInvariants().check_all(truths)


def test_what_was_looked_at_is_not_read_again_until_it_changes() -> None:
    log, truths, replica = filled()
    invariants = ProducerInvariants()
    invariants.check_all(truths)
    forget(log)
    invariants.check_all(truths)
    log.append_as_leader(batch(b"x", producer=(1, 0, 8)), 0)
    assert replica.view is not None
    replica.view.update()
    with pytest.raises(InvariantViolation, match="I14"):
        invariants.check_all(truths)
