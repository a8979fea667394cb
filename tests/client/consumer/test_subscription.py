"""These tests check positions, turns, and what a seek throws away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncelog.consumer.isolation import Sieve
from oncelog.consumer.subscription import Reset, Subscription, TopicPartitionState, reset_of
from oncelog.errors import ClientError
from oncelog_protocol.messages.fetch import AbortedTransaction
from oncelog_protocol.types import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def fill(state: TopicPartitionState, size: int = 10) -> None:
    state.fetched(memoryview(bytes(size)), state.fetch_offset + 5, 1)


def test_assigning_anew_keeps_the_positions_of_those_that_stay() -> None:
    subscription = Subscription()
    subscription.assign([A, B], Reset.LATEST)
    assert [state.reset for state in subscription.without_position()] == [Reset.LATEST] * 2
    subscription.state(A).seek(7)
    dropped = subscription.state(B)
    fill(dropped)
    subscription.assign([C, A], Reset.EARLIEST)
    assert list(subscription.states) == [C, A]
    assert subscription.state(A).offset == 7
    assert dropped.version == 1, "what comes for it now is ignored"
    assert dropped.buffered == 0
    with pytest.raises(ClientError, match="t-1"):
        subscription.state(B)


def test_partitions_take_turns() -> None:
    subscription = Subscription()
    subscription.assign([A, B, C], None)
    for tp in (A, B, C):
        subscription.state(tp).seek(0)
    assert subscription.next_with_data() is None
    fill(subscription.state(A))
    fill(subscription.state(C))
    found = [subscription.next_with_data() for _ in range(4)]
    assert [state.tp for state in found if state] == [A, C, A, C]
    subscription.state(A).paused = True
    assert subscription.next_with_data() is subscription.state(C)
    assert subscription.buffered == 20


def test_a_partition_added_later() -> None:
    subscription = Subscription()
    subscription.assign([A], None)
    subscription.add(B, Reset.EARLIEST)
    assert subscription.state(B).reset is Reset.EARLIEST
    assert subscription.without_position()[-1].tp == B


def test_a_seek_drops_what_was_fetched_and_what_is_under_way() -> None:
    state = TopicPartitionState(A, Reset.LATEST)
    state.seek(10)
    version = state.version
    fill(state)
    assert (state.fetch_offset, state.fetch_epoch, state.has_data) == (15, 1, True)
    state.error = ValueError()
    state.seek(3, epoch=2)
    assert state.version > version
    assert (state.offset, state.fetch_offset, state.fetch_epoch) == (3, 3, 2)
    assert (state.buffered, state.has_data) == (0, False)
    assert state.error is None


def test_where_reading_begins_is_unasked_until_the_application_asks_or_chooses() -> None:
    subscription = Subscription()
    subscription.assign([A, B, C], Reset.EARLIEST)
    a, b, c = (subscription.state(tp) for tp in (A, B, C))
    for state in (a, b, c):
        subscription.found(state, 7, 1, "id")
    assert (a.offset, a.epoch, a.topic_id, a.origin) == (7, 1, "id", (7, 1))
    assert list(subscription.unasked) == [a, b, c]
    subscription.chosen(b)
    subscription.remove([C])
    assert list(subscription.unasked) == [a]
    subscription.asked()
    assert not subscription.unasked


def test_losing_the_position() -> None:
    state = TopicPartitionState(A)
    state.seek(10)
    fill(state)
    state.lose(Reset.EARLIEST)
    assert (state.offset, state.reset, state.has_data) == (None, Reset.EARLIEST, False)


def test_an_error_counts_as_something_to_hand_out() -> None:
    state = TopicPartitionState(A)
    state.error = ValueError()
    assert state.has_data
    state.paused = True
    assert not state.has_data


def test_reset_timestamps_are_kafkas() -> None:
    assert (Reset.EARLIEST.timestamp(9), Reset.LATEST.timestamp(9)) == (-2, -1)


@pytest.mark.parametrize(
    ("policy", "reset"),
    [
        ("earliest", Reset.EARLIEST),
        ("latest", Reset.LATEST),
        ("none", None),
        ("error", None),
        ("by_duration:PT1H", Reset("by_duration", 3_600_000)),
        ("by_duration:P1DT2M0.5S", Reset("by_duration", 86_520_500)),
        (timedelta(seconds=3), Reset("by_duration", 3000)),
    ],
)
def test_policies(policy: Any, reset: Reset | None) -> None:
    assert reset_of(policy) == reset


def test_a_duration_counts_from_now() -> None:
    assert Reset("by_duration", 3000).timestamp(10_000) == 7000
    assert Reset("by_duration", 3000).timestamp(10) == 0


def test_what_is_withheld_is_not_handed_out() -> None:
    subscription = Subscription()
    subscription.assign([A, B], None)
    for tp in (A, B):
        subscription.state(tp).seek(0)
        fill(subscription.state(tp))
    subscription.state(A).withheld = True
    assert subscription.next_with_data() is subscription.state(B)
    subscription.remove([A])
    assert list(subscription.states) == [B]
    assert subscription.state(B).chunks, "those that stay keep what was fetched"


def test_what_departed_is_kept_while_somebody_wants_to_know() -> None:
    subscription = Subscription()
    subscription.assign([A, B], None)
    gone = subscription.state(A)
    subscription.departed = []
    subscription.remove([A])
    subscription.add(A, None)
    assert subscription.departed == [gone]
    assert subscription.state(A) is not gone
    subscription.departed = None
    subscription.remove([B])


def test_what_a_sieve_takes_counts_as_held_in_advance() -> None:
    subscription = Subscription()
    subscription.assign([A], None)
    state = subscription.state(A)
    state.seek(0)
    sieve = Sieve([AbortedTransaction(7, 0)])
    state.fetched(memoryview(bytes(10)), 5, -1, sieve)
    assert subscription.buffered == 10 + sieve.size > 10
    assert state.chunks[0].sieve is sieve
