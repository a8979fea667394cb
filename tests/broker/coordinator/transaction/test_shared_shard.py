"""Shared transactions run over the real engine here."""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.records import SavedShared
from oncelog_protocol.errors import (
    InvalidTxnStateError,
    PolicyViolationError,
    ProducerFencedError,
    TransactionAlreadyCommittedError,
)
from oncelog_protocol.types import TopicPartition
from support.transaction_world import transaction_world
from support.waiting import eventually

A0 = TopicPartition("a", 0)


async def test_many_writers_and_one_commit_that_names_its_winners() -> None:
    async with transaction_world() as world:
        ordinal = world.begin_shared()
        writers = [await world.joined(ordinal, 7, f"w{n}") for n in range(3)]
        assert writers == [(1000, 0), (1001, 0), (1002, 0)]
        assert world.join(ordinal, 7, "w1").producer == (1001, 0)
        for number, writer in enumerate(writers):
            assert world.add(writer, number).code == 0
        ended = world.end_shared(ordinal, 7, [1000, 1002])
        assert (ended.value.committed, ended.value.already) == (True, False)
        assert world.markers.orders[0].markers == [
            (1000, 1, True, [TopicPartition("a", 0)], -1),
            (1001, 1, False, [TopicPartition("a", 1)], -1),
            (1002, 1, True, [TopicPartition("a", 2)], -1),
        ]
        again = world.end_shared(ordinal, 7, [1000, 1002])
        assert (again.value.committed, again.value.already) == (True, True)
        await world.completed()
        assert not world.shard.transactions["t"].writers
        aborting = world.end_shared(ordinal, 7)
        assert (aborting.value.committed, aborting.value.already) == (True, True)
        late = world.join(ordinal, 7, "w3")
        assert late.code == TransactionAlreadyCommittedError.code
        assert late.value.last_committed_tag == 7
        assert world.join(world.begin_shared(), 6).code == TransactionAlreadyCommittedError.code
        assert world.add(writers[0], 5).code == ProducerFencedError.code
        await world.moved(2)
        assert world.join(ordinal, 7).code == TransactionAlreadyCommittedError.code


async def test_the_next_coordinator_knows_writers_and_winners() -> None:
    async with transaction_world() as world:
        ordinal = world.begin_shared()
        for name in ("v", "w"):
            world.add(await world.joined(ordinal, 1, name))
        await world.moved(2)
        assert world.join(ordinal, 1, "v").producer == (1000, 0)
        world.end_shared(ordinal, 1, [1001])
        await world.moved(3)
        assert world.markers.orders[-1].markers == [
            (1000, 1, False, [A0], -1),
            (1001, 1, True, [A0], -1),
        ]
        await world.completed()
        await world.moved(4)
        assert not world.shard.transactions["t"].writers
        assert world.begin_shared() == ordinal + 1


async def test_a_newer_ordinal_takes_over() -> None:
    async with transaction_world() as world:
        old, new = world.begin_shared(), world.begin_shared()
        zombie = await world.joined(old, 1, "z")
        world.add(zombie)
        arriving = world.join(new, 1, "w")
        assert arriving.waits
        assert [marker.commit for marker in world.markers.orders[0].markers] == [False]
        assert world.end_shared(old, 1, [zombie[0]]).code == ProducerFencedError.code
        world.markers.done()
        await eventually(lambda: not arriving.waits)
        assert arriving.producer == (1001, 0)
        assert world.join(old, 1, "z").code == ProducerFencedError.code
        assert world.end_shared(old, 1, [zombie[0]]).code == ProducerFencedError.code
        assert world.add(zombie).code == ProducerFencedError.code


async def test_an_owner_that_gives_up_before_anybody_came_keeps_everybody_out() -> None:
    async with transaction_world() as world:
        ordinal = world.begin_shared()
        assert world.end_shared(ordinal, 1).value.committed is False
        assert world.join(ordinal, 1).code == ProducerFencedError.code
        assert world.end_shared(ordinal, 1).value.already
        assert world.end_shared(ordinal, 1, []).code == ProducerFencedError.code
        assert await world.joined(world.begin_shared(), 1) == (1000, 0)


async def test_a_shared_transaction_that_takes_too_long_is_over() -> None:
    async with transaction_world() as world:
        ordinal = world.begin_shared()
        writer = await world.joined(ordinal, 1)
        world.add(writer)
        world.clock.advance(60_000)
        await world.moved(2)
        await eventually(lambda: world.markers.orders, what="markers")
        assert world.end_shared(ordinal, 1, [writer[0]]).code == ProducerFencedError.code
        assert world.end_shared(ordinal, 1).value.already
        assert world.join(ordinal, 1, "late").code == ProducerFencedError.code
        await world.completed()
        saved = world.saved()
        assert isinstance(saved, SavedShared)
        assert saved.last_committed_tag == -1


async def test_ids_are_ordinary_or_shared_and_stay_so() -> None:
    async with transaction_world() as world:
        await world.joined(world.begin_shared(), 1)
        for answer in (world.init(), world.end((1000, 0))):
            assert answer.code == InvalidTxnStateError.code
        await world.inited(transactional_id="u")
        shared = (
            world.join(2, 1, transactional_id="u"),
            world.end_shared(2, 1, transactional_id="u"),
        )
        assert {answer.code for answer in shared} == {InvalidTxnStateError.code}


async def test_ordinals_rise_whatever_becomes_of_coordinators() -> None:
    async with transaction_world() as world:
        given = [world.begin_shared() for _ in range(3)]
        await world.moved(2)
        given.append(world.begin_shared())
        assert given == [1, 2, 3, 4]


async def test_a_shared_transaction_has_room_for_so_many_writers_and_partitions() -> None:
    async with transaction_world(shared_txn_writers_max=2, shared_txn_partitions_max=3) as world:
        ordinal = world.begin_shared()
        first = await world.joined(ordinal, 1, "v")
        second = await world.joined(ordinal, 1, "w")
        third = world.join(ordinal, 1, "x")
        await eventually(lambda: not third.waits)
        assert third.code == PolicyViolationError.code
        assert world.add(first, 0, 1).code == 0
        assert world.add(second, 0, 1).code == PolicyViolationError.code
        assert world.add(second, 0).code == 0
