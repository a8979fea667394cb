"""A batch comes again, at a leader and at the next one [K1]."""

from __future__ import annotations

import pytest

from oncelog_broker.log.log_append import LogAppend
from oncelog_broker.replication.safeguards import Safeguards
from oncelog_protocol.errors import NotEnoughReplicasError, NotLeaderOrFollowerError
from oncelog_protocol.types import Acks
from support.replicas import Replicas, batch_of
from unsafe.replication import without


def send(group: Replicas, sequence: int) -> tuple[LogAppend, list[int]]:
    """Send one batch to whoever leads; the codes that its sender hears are added to the list."""
    partition = group[group.leader_id].partition
    batch = batch_of(b"%d" % sequence, producer=(7, 0, sequence))
    append = partition.append_as_leader(batch, Acks.ALL, group.now)
    heard: list[int] = []
    partition.when_committed(append.last_offset + 1, heard.append)
    return append, heard


async def test_a_repeat_waits_for_the_commit_of_the_first() -> None:
    group = Replicas()
    first, heard = send(group, 0)
    again, heard_again = send(group, 0)
    assert (first.repeated, again.repeated) == (False, True)
    assert again.base_offset == first.base_offset == 0
    group.sync(1)
    assert (heard, heard_again) == ([], [])
    group.replicate()
    assert (heard, heard_again) == ([0], [0])
    assert send(group, 0)[1] == [0]
    assert group.values(1) == [b"0"]


async def test_a_repeat_hears_that_the_leadership_ended() -> None:
    group = Replicas()
    _, heard = send(group, 0)
    _, again = send(group, 0)
    group.elect(2)
    assert heard == again == [NotLeaderOrFollowerError.code]


async def test_a_repeat_is_refused_while_the_isr_is_too_small() -> None:
    group = Replicas(min_isr=2)
    send(group, 0)
    group.replicate()
    group.elect(1, isr=[1])
    with pytest.raises(NotEnoughReplicasError):
        send(group, 0)


async def leader_change(safeguards: Safeguards) -> list[bytes]:
    """The leader dies with an answer; the batch comes again to the next one."""
    group = Replicas(safeguards=safeguards)
    for sequence in range(3):
        send(group, sequence)
    group.replicate()
    group[1].crash("none")
    group.elect(2, isr=[2, 3])
    for sequence in range(4):
        send(group, sequence)
    return group.values(2)


async def test_the_next_leader_knows_it() -> None:
    assert await leader_change(Safeguards()) == [b"0", b"1", b"2", b"3"]


async def test_duplicates_are_caught_when_followers_do_not_listen() -> None:
    deaf = without("log.followers_know_producers")
    assert await leader_change(deaf) == [b"0", b"1", b"2", b"0", b"1", b"2", b"3"]


async def test_what_was_cut_is_not_a_repeat() -> None:
    """The old leader comes back with a batch that nobody else had, is cut, and leads again."""
    group = Replicas()
    send(group, 0)
    group.replicate()
    send(group, 1)
    group.sync(1)
    group[1].crash("none")
    group.elect(2, isr=[2, 3])
    append, _ = send(group, 1)
    assert not append.repeated
    group.replicate()
    group[1].restart()
    group.elect(2)
    group.replicate()
    group.elect(1)
    append, heard = send(group, 1)
    assert append.repeated
    assert heard == [0]
    assert group.values(1) == [b"0", b"1"]
