"""A guard ends in these ways, and nothing else ends it [K13]."""

from __future__ import annotations

import pytest

from oncelog_broker.log.partition_log import PartitionLog
from oncelog_protocol.errors import InvalidTxnStateError
from oncelog_protocol.records.batch import parse_header
from oncelog_testing.memory.files import MemoryFiles
from support.logs import NOW_MS, batch, make_log
from support.transactional_logs import TxnProducer, txn_batch


@pytest.fixture
def log() -> PartitionLog:
    return make_log(MemoryFiles())


def test_a_guard_lets_in_the_batch_it_was_taken_for(log: PartitionLog) -> None:
    guard = log.producers.take_guard(7, 3)
    log.append_as_leader(batch(b"of somebody else"), 0)
    TxnProducer(8).send(log, b"so is this")
    assert guard.valid
    assert guard.covers(parse_header(txn_batch(producer=(7, 3, 0))))
    assert not guard.covers(parse_header(txn_batch(producer=(7, 4, 0))))
    assert not guard.covers(parse_header(txn_batch(producer=(8, 3, 0))))
    log.append_as_leader(txn_batch(b"first", producer=(7, 3, 0)), 0, guard)
    log.append_as_leader(txn_batch(b"second", producer=(7, 3, 1)), 0)


def test_a_marker_ends_it_even_though_the_next_transaction_looks_the_same(
    log: PartitionLog,
) -> None:
    """ABA: before and after, nothing is open."""
    guard = log.producers.take_guard(7, 1)
    log.append_marker(False, 7, 1, 0, 0)
    assert not guard.valid
    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(txn_batch(producer=(7, 1, 0)), 0, guard)
    assert log.producers.take_guard(7, 1).valid, "and a new one counts"


def test_a_newer_epoch_ends_it(log: PartitionLog) -> None:
    guard = log.producers.take_guard(7, 1)
    TxnProducer(7, epoch=2).send(log, b"of the next instance")
    assert not guard.valid


def test_a_cut_ends_it(log: PartitionLog) -> None:
    log.append_as_leader(batch(b"a"), 0)
    guard = log.producers.take_guard(7, 1)
    log.truncate_to(0)
    assert not guard.valid


def test_a_change_of_the_leader_ends_it(log: PartitionLog) -> None:
    guard = log.producers.take_guard(7, 1)
    log.producers.void_guards()
    assert not guard.valid


def test_a_marker_that_was_forgotten_ends_it_like_one_that_is_known(log: PartitionLog) -> None:
    guard = log.producers.take_guard(7, 1)
    log.append_marker(False, 7, 1, 0, 0)
    log.producers.committed(log.log_end_offset)
    log.producers.expire(NOW_MS + 2000, 1000)
    assert 7 not in log.producers.state.producers
    assert not guard.valid
    later = log.producers.take_guard(7, 1)
    assert later.valid


def test_producers_that_are_forgotten_without_a_newer_marker_end_none(log: PartitionLog) -> None:
    log.append_marker(False, 8, 1, 0, 0)
    log.producers.committed(log.log_end_offset)
    guard = log.producers.take_guard(7, 1)
    log.producers.expire(NOW_MS + 2000, 1000)
    assert guard.valid
