"""Transactions of Kafka's older clients end by number: the epoch stays, and nothing is mixed."""

from __future__ import annotations

from oncelog_broker.coordinator.transaction.records import (
    SavedTransaction,
    decode_record,
    id_record,
)
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_protocol.errors import (
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)
from oncelog_protocol.types import TopicPartition
from support.transaction_world import TransactionWorld, transaction_world
from support.waiting import eventually
from unsafe.coordinators import without

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
FENCED = ProducerFencedError.code
WRONG = InvalidTxnStateError.code
ABORTABLE = TransactionAbortableError.code


def saved(world: TransactionWorld) -> SavedTransaction:
    found = world.saved("t")
    assert isinstance(found, SavedTransaction)
    return found


async def one_transaction(
    world: TransactionWorld, producer: tuple[int, int], *, commit: bool = True
) -> None:
    assert world.add(producer, 0, by_number=True).code == 0
    assert world.end(producer, commit, by_number=True).producer == producer
    await world.completed()


async def test_the_epoch_stays_and_the_numbers_count() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        await one_transaction(world, producer)
        await one_transaction(world, producer, commit=False)
        assert [order.markers for order in world.markers.orders] == [
            [(1000, 0, True, [A0], 1)],
            [(1000, 0, False, [A0], 2)],
        ]


async def test_the_next_one_does_not_begin_before_all_markers_are_written() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer, by_number=True)
        world.end(producer, by_number=True)
        added = world.add(producer, 1, by_number=True)
        assert added.waits
        world.markers.done()
        await eventually(lambda: not added.waits)
        assert (added.code, saved(world).number, saved(world).partitions) == (0, 2, (A1,))


async def test_without_that_rule_the_next_one_begins_beside_open_markers() -> None:
    async with transaction_world(safeguards=without("all_markers_before_next")) as world:
        producer = await world.inited()
        world.add(producer, by_number=True)
        world.end(producer, by_number=True)
        added = world.add(producer, 1, by_number=True)
        await eventually(lambda: not added.waits)
        assert added.code == 0
        assert world.markers.open, "and the marker of the last one is still under way"


async def test_a_repeated_end_is_answered_like_the_first() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer, by_number=True)
        for _ in range(2):
            assert world.end(producer, by_number=True).producer == producer
        assert world.end(producer, False, by_number=True).code == WRONG
        await world.completed()
        assert world.end(producer, by_number=True).producer == producer
        assert len(world.markers.orders) == 1


async def test_nothing_ends_where_nothing_was_added() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        for commit in (True, False):
            assert world.end(producer, commit, by_number=True).code == WRONG


async def test_the_kinds_are_not_mixed() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        world.add(producer, by_number=True)
        assert world.add(producer, 1).code == WRONG
        assert world.end(producer).code == WRONG
        assert world.end(producer, by_number=True).code == 0
        await world.completed()
        assert world.add(producer).code == WRONG, "the epoch has had numbers"
        other = await world.inited()
        assert world.add(other).code == 0
        assert world.add(other, 1, by_number=True).code == WRONG
        assert world.end(other, by_number=True).code == WRONG
        ended = world.end(other)
        await world.completed()
        assert world.add(ended.producer, by_number=True).code == 0, "a new epoch, a new choice"


async def test_leaders_are_told_the_number_and_add_nothing() -> None:
    async with transaction_world() as world:
        producer = await world.inited()
        await one_transaction(world, producer)
        assert world.add(producer, 0, verify_only=True).code == ABORTABLE
        world.add(producer, 0, by_number=True)
        asked = world.add(producer, 0, verify_only=True)
        assert (asked.code, asked.value.number) == (0, 2)
        assert world.add(producer, 1, verify_only=True).code == ABORTABLE
        assert saved(world).partitions == (A0,)


async def test_without_that_rule_leaders_are_told_yes() -> None:
    async with transaction_world(safeguards=without("must_be_added")) as world:
        producer = await world.inited()
        world.add(producer, 0, by_number=True)
        assert world.add(producer, 1, verify_only=True).code == 0
        assert saved(world).partitions == (A0,)


async def test_a_newer_instance_raises_the_epoch_and_fences() -> None:
    async with transaction_world() as world:
        zombie = await world.inited()
        await one_transaction(world, zombie)
        world.add(zombie, by_number=True)
        init = world.init()
        world.markers.done()
        await eventually(lambda: not init.waits)
        assert init.producer == (1000, 2)
        assert world.markers.orders[-1].markers == [(1000, 1, False, [A0], -1)]
        for answer in (world.add(zombie, by_number=True), world.end(zombie, by_number=True)):
            assert answer.code == FENCED
        await one_transaction(world, init.producer)
        assert world.markers.orders[-1].markers == [(1000, 2, True, [A0], 1)]


async def test_an_instance_of_an_older_epoch_may_not_go_on_as_if_it_were_the_last() -> None:
    async with transaction_world() as world:
        zombie = await world.inited()
        await one_transaction(world, await world.inited())
        assert world.init(zombie).code == FENCED
        assert world.add(zombie, by_number=True).code == FENCED


async def test_a_time_out_raises_the_epoch_and_its_producer_may_begin_anew() -> None:
    async with transaction_world() as world:
        producer = await world.inited(timeout_ms=1)
        await one_transaction(world, producer)
        world.add(producer, by_number=True)
        await eventually(lambda: len(world.markers.orders) == 2)
        assert world.markers.orders[-1].markers == [(1000, 1, False, [A0], -1)]
        await world.completed()
        assert world.end(producer, by_number=True).code == FENCED
        assert await world.inited(producer=producer) == (1000, 2)


def test_records_of_numbers_are_one_version_up() -> None:
    new = SavedTransaction(TxnState.ONGOING, 7, 3, 60_000, partitions=(A0,), number=5)
    record = id_record("t", new)
    assert decode_record(record) == ("t", new)
    old = id_record("t", new._replace(number=0))
    assert (record.value or b"")[1] == 1
    assert (old.value or b"")[1] == 0
