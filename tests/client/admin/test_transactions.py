"""Admin calls about transactions and producers: what hangs is told from what is only slow, and each
is ended by whoever knows of it."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from oncelog import Admin, TopicPartition
from oncelog.admin.transaction_results import ProducerDescription
from oncelog.errors import (
    BrokerUnreachableError,
    ClosedError,
    ConfigurationError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    InvalidTxnStateError,
    TransactionalIdNotFoundError,
)
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.transaction_admin import (
    DescribedProducer,
    DescribedTransaction,
    DescribedWriter,
)
from oncelog_protocol.messages.transactions import TxnTopic
from oncelog_runtime.entropy import SeededEntropy
from support.admin_cluster import AdminCluster, KnownTransaction
from support.clock import ManualClock

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS


def make(cluster: AdminCluster, **options: Any) -> Admin:
    clock = ManualClock()
    clock.advance(NOW_MS - clock.now_ms())
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1), clock=clock, **options)


def in_txn(pid: int, epoch: int = 0, *, start: int = 5, age_ms: int = HOUR_MS) -> DescribedProducer:
    return DescribedProducer(pid, epoch, 3, NOW_MS - age_ms, 2, start)


def idle(pid: int) -> DescribedProducer:
    return DescribedProducer(pid, 4, 3, NOW_MS - 5 * HOUR_MS)


def known(
    name: str,
    pid: int = -1,
    epoch: int = 0,
    *topics: TxnTopic,
    state: str = "Ongoing",
    coordinator: int = 1,
    writers: dict[int, list[TxnTopic]] | None = None,
) -> KnownTransaction:
    item = DescribedTransaction(
        0, name, state, pid, epoch, 60_000, 1_000 if topics or writers else -1, list(topics)
    )
    if writers is not None:
        item.shared, item.ordinal, item.tag, item.last_committed_tag = True, 9, 12, 11
        item.writers = [DescribedWriter(f"w{pid}", pid, some) for pid, some in writers.items()]
    return KnownTransaction(coordinator, item)


def put(cluster: AdminCluster, *transactions: KnownTransaction) -> None:
    for each in transactions:
        cluster.known_transactions[each.described.transactional_id] = each


@pytest_asyncio.fixture
async def cluster() -> Any:
    async with AdminCluster(2) as made:
        made.create_topic("t", 2)
        made.create_topic("u", 1)
        yield made


# ------------------------------------------------------------------------------ looking


async def test_list_and_its_filters(cluster: AdminCluster) -> None:
    put(
        cluster,
        known("pay", 7, 3, TxnTopic("t", [0])),
        known("empty", 8, state="Empty", coordinator=2),
        known("spark", writers={20: [], 21: []}, coordinator=2),
    )
    async with make(cluster) as admin:
        listed = await admin.list_transactions()
        assert [
            (x.transactional_id, x.state, x.producer_id, x.shared, x.coordinator) for x in listed
        ] == [
            ("empty", "Empty", 8, False, 2),
            ("pay", "Ongoing", 7, False, 1),
            ("spark", "Ongoing", None, True, 2),
        ]
        assert listed.raise_for_errors() is listed
        assert [x.transactional_id for x in await admin.list_transactions(states=["Empty"])] == [
            "empty"
        ]
        found = await admin.list_transactions(producer_ids=[21, 7])
        assert [x.transactional_id for x in found] == ["pay", "spark"]
        await admin.list_transactions(older_than_ms=5)
        with pytest.raises(ConfigurationError, match="Sleepy"):
            await admin.list_transactions(states=["Sleepy"])
        with pytest.raises(ConfigurationError, match="older_than_ms"):
            await admin.list_transactions(older_than_ms=-1)
    with pytest.raises(ClosedError):
        await admin.list_transactions()


async def test_a_list_names_the_brokers_that_did_not_say(cluster: AdminCluster) -> None:
    put(cluster, known("a", 1), known("b", 2, coordinator=2))
    async with make(cluster) as admin:
        await cluster.brokers[2].stop()
        listed = await admin.list_transactions(timeout_ms=2_000)
        assert [x.transactional_id for x in listed] == ["a"]
        assert list(listed.unanswered) == [2]
        with pytest.raises(BrokerUnreachableError):
            listed.raise_for_errors()


async def test_describe(cluster: AdminCluster) -> None:
    put(
        cluster,
        known("pay", 7, 3, TxnTopic("t", [1, 0]), TxnTopic("u", [0])),
        known("spark", writers={20: [TxnTopic("t", [0])], 21: []}, coordinator=2),
    )
    async with make(cluster) as admin:
        pay, none, spark = await admin.describe_transactions(["pay", "none", "spark", "pay"])
        assert (pay.error, pay.state, pay.coordinator) == (None, "Ongoing", 1)
        assert (pay.producer_id, pay.producer_epoch, pay.timeout_ms) == (7, 3, 60_000)
        assert (pay.start_ms, pay.partitions, pay.is_open) == (1_000, (T0, T1, U0), True)
        assert (pay.shared, pay.ordinal, pay.tag, pay.writers) == (False, None, None, ())
        assert isinstance(none.error, TransactionalIdNotFoundError)
        assert "none" in str(none.error)
        assert (spark.shared, spark.producer_id, spark.ordinal) == (True, None, 9)
        assert (spark.tag, spark.last_committed_tag) == (12, 11)
        assert [(w.writer, w.producer_id, w.partitions) for w in spark.writers] == [
            ("w20", 20, (T0,)),
            ("w21", 21, ()),
        ]
        assert spark.partitions == (T0,)
        assert not (await admin.describe_transactions([])).errors


async def test_describe_finds_a_coordinator_that_has_moved(cluster: AdminCluster) -> None:
    put(cluster, known("pay", 7))
    async with make(cluster) as admin:
        (before,) = await admin.describe_transactions(["pay"])
        assert before.coordinator == 1
        cluster.known_transactions["pay"].coordinator = 2
        (after,) = await admin.describe_transactions(["pay"])
        assert (after.error, after.coordinator) == (None, 2)
        cluster.known_transactions["pay"].coordinator = -1
        (none,) = await admin.describe_transactions(["pay"], timeout_ms=300)
        assert none.error is not None


async def test_describe_producers(cluster: AdminCluster) -> None:
    cluster.producers[T1] = [in_txn(7, 2), idle(8)]
    async with make(cluster) as admin:
        found = await admin.describe_producers([T1, TopicPartition("t", 9), T0])
        one, none, empty = found
        assert one.producers == (
            ProducerDescription(7, 2, 3, NOW_MS - HOUR_MS, 2, 5),
            ProducerDescription(8, 4, 3, NOW_MS - 5 * HOUR_MS, None, None),
        )
        assert isinstance(none.error, UnknownTopicOrPartitionError)
        assert (empty.error, empty.producers) == (None, ())
        assert len(found.errors) == 1


# ------------------------------------------------------------------------------ hanging


async def test_what_hangs_is_what_no_coordinator_has(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [
        in_txn(1),  # Nobody knows it.
        in_txn(2, 4),  # Its coordinator has it.
        in_txn(3, 4),  # Its coordinator has the producer's next one, long after.
        in_txn(4, age_ms=60_000),  # Still young.
        idle(5),
    ]
    cluster.producers[T1] = [
        in_txn(6),  # Its coordinator has one without this partition.
        in_txn(7),  # That one is over.
        in_txn(20),  # A writer of a shared one.
        in_txn(21),  # A writer who has not written here, says the coordinator.
    ]
    put(
        cluster,
        known("two", 2, 4, TxnTopic("t", [0])),
        known("three", 3, 6, TxnTopic("t", [0])),
        known("six", 6, 0, TxnTopic("t", [0]), coordinator=2),
        known("seven", 7, 1, state="CompleteCommit"),
        known("spark", writers={20: [TxnTopic("t", [1])], 21: [TxnTopic("t", [0])]}),
    )
    async with make(cluster) as admin:
        found = await admin.find_hanging_transactions()
        assert [(x.partition, x.producer.producer_id, x.transactional_id) for x in found] == [
            (T0, 1, None),
            (T0, 3, "three"),
            (T1, 6, "six"),
            (T1, 7, "seven"),
            (T1, 21, "spark"),
        ]
        assert found[0].start_offset == 5
        assert found.raise_for_errors() is found
        assert not found.undecided
        some = await admin.find_hanging_transactions([T0], topics=["u"])
        assert [x.producer.producer_id for x in some] == [1, 3]
        younger = await admin.find_hanging_transactions([T0], max_transaction_timeout_ms=1)
        assert [x.producer.producer_id for x in younger] == [1, 3, 4]
        by_leader = [
            x.producer.producer_id
            for broker_id in (1, 2)
            for x in await admin.find_hanging_transactions(broker_id=broker_id)
        ]
        assert sorted(by_leader) == [1, 3, 6, 7, 21]


async def test_a_transaction_that_ends_meanwhile_does_not_hang(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [in_txn(1)]
    seen = []
    handlers: Any = cluster.brokers[1]._handlers
    original = handlers._list_transactions

    def list_transactions(request: Any) -> Any:
        seen.append(request)
        cluster.producers[T0][0].txn_start_offset = -1
        return original(request)

    handlers._list_transactions = list_transactions
    async with make(cluster) as admin:
        assert len(await admin.find_hanging_transactions()) == 0
        assert seen


@pytest.mark.slow
async def test_nobody_is_said_to_hang_unless_all_coordinators_were_heard(
    cluster: AdminCluster,
) -> None:
    leader = cluster.partition("t", 0).leader
    other = 3 - leader
    cluster.producers[T0] = [in_txn(1), in_txn(2)]
    put(cluster, known("two", 2, 0, TxnTopic("t", [0]), coordinator=leader))
    cluster.loading[other] = CoordinatorLoadInProgressError.code
    async with make(cluster) as admin:
        found = await admin.find_hanging_transactions([T0], timeout_ms=2_000)
        assert len(found) == 0
        assert [x.producer.producer_id for x in found.undecided] == [1]
        assert list(found.unanswered) == [other]
        with pytest.raises(CoordinatorLoadInProgressError):
            found.raise_for_errors()
        with pytest.raises(CoordinatorLoadInProgressError):
            await admin.abort_transaction(T0, producer_id=1, timeout_ms=2_000)
        assert cluster.count(ApiKey.ABORT_TRANSACTION) == 0
        # What is known to be somebody's can be ended.
        aborted = await admin.abort_transaction(T0, producer_id=2, timeout_ms=2_000)
        assert aborted.transactional_id == "two"


async def test_partitions_that_cannot_be_looked_at_are_errors(cluster: AdminCluster) -> None:
    async with make(cluster) as admin:
        found = await admin.find_hanging_transactions([TopicPartition("t", 9)])
        assert [type(error) for error in found.errors] == [UnknownTopicOrPartitionError]
        with pytest.raises(UnknownTopicOrPartitionError):
            found.raise_for_errors()


# ------------------------------------------------------------------------------ ending


async def test_what_nobody_knows_is_ended_by_a_marker(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [in_txn(1, 2, start=50)]
    async with make(cluster) as admin:
        (hanging,) = await admin.find_hanging_transactions()
        would = await admin.abort_transaction(hanging, validate_only=True)
        assert cluster.producers[T0][0].txn_start_offset == 50
        aborted = await admin.abort_transaction(hanging)
        assert aborted == would
        assert aborted.partition == T0
        assert (aborted.producer_id, aborted.producer_epoch) == (1, 2)
        assert aborted.transactional_id is None
        assert cluster.producers[T0][0].txn_start_offset == -1
        assert len(await admin.find_hanging_transactions()) == 0
        with pytest.raises(InvalidTxnStateError, match="producer 1 is open from offset 50"):
            await admin.abort_transaction(hanging)


async def test_what_a_coordinator_has_is_ended_by_it(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [in_txn(2, 4)]
    cluster.producers[U0] = [in_txn(2, 4)]
    put(cluster, known("two", 2, 4, TxnTopic("t", [0]), TxnTopic("u", [0]), coordinator=2))
    async with make(cluster) as admin:
        aborted = await admin.abort_transaction(T0, start_offset=5)
        assert aborted.transactional_id == "two"
        assert cluster.known_transactions["two"].fenced_count == 1
        assert cluster.producers[U0][0].txn_start_offset == -1
        assert cluster.count(ApiKey.ABORT_TRANSACTION) == 0


async def test_a_producer_whose_epochs_are_used_up_is_still_its_coordinators(
    cluster: AdminCluster,
) -> None:
    """While its last transaction is being ended, the id has the next producer already."""
    cluster.producers[T0] = [in_txn(2, 32_766)]
    put(cluster, known("two", 90, 0, TxnTopic("t", [0]), state="PrepareCommit"))
    handlers: Any = cluster.brokers[1]._handlers
    original = handlers._list_transactions

    def list_transactions(request: Any) -> Any:
        request.producer_ids = [90 if pid == 2 else pid for pid in request.producer_ids]
        return original(request)

    handlers._list_transactions = list_transactions
    async with make(cluster) as admin:
        assert len(await admin.find_hanging_transactions()) == 0
        assert (await admin.abort_transaction(T0, producer_id=2)).transactional_id == "two"


async def test_a_shared_transaction_is_ended_for_all_writers(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [in_txn(20)]
    cluster.producers[T1] = [in_txn(21)]
    put(cluster, known("spark", writers={20: [TxnTopic("t", [0])], 21: [TxnTopic("t", [1])]}))
    async with make(cluster) as admin:
        assert (await admin.abort_transaction(T0, producer_id=20)).transactional_id == "spark"
        assert cluster.producers[T1][0].txn_start_offset == -1


async def test_abort_needs_to_know_which(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [in_txn(1)]
    async with make(cluster) as admin:
        with pytest.raises(ConfigurationError, match="producer_id or start_offset"):
            await admin.abort_transaction(T0)
        for producer_id, start_offset in ((3, None), (None, 6), (1, 6)):
            with pytest.raises(InvalidTxnStateError):
                await admin.abort_transaction(
                    T0, producer_id=producer_id, start_offset=start_offset
                )
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.abort_transaction(TopicPartition("t", 9), producer_id=1)
        assert cluster.count(ApiKey.ABORT_TRANSACTION) == 0


async def test_fencing(cluster: AdminCluster) -> None:
    cluster.producers[T0] = [in_txn(2, 4)]
    put(cluster, known("two", 2, 4, TxnTopic("t", [0])), known("spark", writers={}))
    async with make(cluster) as admin:
        two, spark = await admin.fence_producers(["two", "spark"])
        assert (two.error, two.producer_id, two.producer_epoch) == (None, 2, 5)
        assert isinstance(spark.error, InvalidTxnStateError)
        assert cluster.producers[T0][0].txn_start_offset == -1
