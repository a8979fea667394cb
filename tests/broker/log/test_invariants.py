"""A log that contradicts itself writes nothing more."""

from __future__ import annotations

import pytest

from oncelog_broker.log.epoch_history import EpochHistory
from oncelog_broker.log.invariants import InvariantError, check_history, check_neighbours
from oncelog_protocol.errors import StorageError, error_for
from oncelog_testing.memory.files import MemoryFiles
from support.logs import batch, follower_batches, make_log, sync, values_in


def test_clients_are_told_a_storage_error() -> None:
    assert InvariantError.code == StorageError.code
    assert InvariantError.name == StorageError.name
    assert type(error_for(StorageError.code)) is StorageError


@pytest.mark.parametrize("next_offset", [0, 2], ids=["repeat", "gap"])
@pytest.mark.parametrize("as_leader", [True, False])
def test_offsets_that_do_not_follow_are_not_written(next_offset: int, as_leader: bool) -> None:
    log = make_log(MemoryFiles())
    log.append_as_leader(batch(b"a"), 0)
    size = log.segments.active.open().size()
    log.segments.active.next_offset = next_offset
    with pytest.raises(InvariantError):
        _ = (
            log.append_as_leader(batch(b"b"), 0)
            if as_leader
            else log.append_as_follower(follower_batches((1, 1, 0)))
        )
    assert log.segments.active.open().size() == size
    assert log.log_end_offset == 1


def test_a_follower_may_begin_inside_a_batch() -> None:
    """Here the first batch begins below the log end, and is in order (KAFKA-6975)."""
    log = make_log(MemoryFiles())
    log.truncate_fully_and_start_at(5)
    log.append_as_follower(follower_batches((3, 4, 1), (7, 1, 1)))
    sync(log)
    assert values_in(log) == [b"5", b"6", b"7"]


HISTORIES = [
    ([1, 2], [0, 0]),
    ([2, 2], [0, 5]),
    ([1, 3, 2], [0, 5, 7]),
    ([1, 2, 3], [0, 5, 4]),
    ([1, 2], [0]),
]


@pytest.mark.parametrize(("epochs", "starts"), HISTORIES)
def test_a_history_out_of_order_is_seen(epochs: list[int], starts: list[int]) -> None:
    history = EpochHistory()
    history._epochs, history._starts = epochs, starts
    with pytest.raises(InvariantError):
        history.check()


def test_histories_in_order_pass() -> None:
    for epochs, starts in (([], []), ([4], [9]), ([1, 2, 9], [0, 5, 6])):
        check_history(epochs, starts)
        for index in range(-len(epochs), len(epochs)):
            check_neighbours(epochs, starts, index)


def test_neighbours_are_looked_at_where_a_history_changes() -> None:
    with pytest.raises(InvariantError):
        check_neighbours([1, 3, 2], [0, 5, 7], -1)
    with pytest.raises(InvariantError):
        check_neighbours([1, 3, 4], [0, 5, 5], 2)
    history = EpochHistory([(1, 0), (3, 5)])
    history._epochs[1] = 0
    with pytest.raises(InvariantError):
        history.truncate_from_start(2)
