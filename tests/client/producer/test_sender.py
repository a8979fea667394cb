"""Batches are pipelined, keep their order under retries, and survive failover up to their
deadline."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import uvloop

from oncelog import Producer
from oncelog.errors import (
    ClosedError,
    ClusterAuthorizationFailedError,
    ConnectionLostError,
    CorruptMessageError,
    DeliveryTimeoutError,
    InvalidRecordError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UndeliveredRecordsError,
    UnknownTopicOrPartitionError,
)
from oncelog.errors import ReorderError as Reorder
from oncelog.producer.record_producer import BEGUN_MAX
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster
from support.histories import ListHistory
from support.waiting import eventually


def make(cluster: FakeCluster, **options: Any) -> Producer:
    given = {"linger_ms": 0, "entropy": SeededEntropy(1), **options}
    return Producer(cluster.bootstrap, **given)


def in_first_order(values: list[bytes | None]) -> list[bytes | None]:
    """Leave out repeats: return the order in which values came first."""
    return list(dict.fromkeys(values))


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


async def test_five_requests_are_pipelined_and_no_more() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            await producer.send("t", b"first")
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=1)
            deliveries = []
            for value in numbered(8):
                deliveries.append(await producer.enqueue("t", value))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            await eventually(lambda: cluster.count(ApiKey.PRODUCE) == 6)
            held.release.set()
            await producer.flush()
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 9))
        assert cluster.count(ApiKey.PRODUCE) == 7, "what could not go out went out together"


async def test_records_for_several_partitions_share_the_requests_to_their_leaders() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 10)
        async with make(cluster) as producer:
            for partition in range(10):
                await producer.send("t", b"first", partition=partition)
            before = cluster.count(ApiKey.PRODUCE)
            for partition in range(10):
                await producer.enqueue("t", b"x", partition=partition)
            await producer.flush()
            assert cluster.count(ApiKey.PRODUCE) == before + 2


async def test_records_for_many_partitions_do_not_hold_the_loop() -> None:
    many = 5 * BEGUN_MAX
    async with FakeCluster() as cluster:
        cluster.create_topic("t", many)
        async with make(cluster) as producer:
            await producer.send("t", b"first", partition=0)
            before = cluster.count(ApiKey.PRODUCE)
            for partition in range(many):
                await producer.enqueue("t", b"x", partition=partition)
            sent = cluster.count(ApiKey.PRODUCE) - before + producer.metrics().requests_in_flight
            assert sent > 0, "the loop had turns meanwhile, and some went out"
            await producer.flush()


async def test_the_first_batch_to_a_leader_goes_alone() -> None:
    """A leader that is not ready refuses the first of five and takes the rest."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        async with make(cluster, batch_size=20) as producer:
            for value in numbered(5):
                await producer.enqueue("t", value)
            await eventually(lambda: held.met == 1)
            await asyncio.sleep(0.02)
            assert cluster.count(ApiKey.PRODUCE) == 1
            held.release.set()
        assert cluster.partition("t").values() == numbered(5)


async def test_partitions_of_one_leader_share_a_request() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 4)
        async with make(cluster, linger_ms=20) as producer:
            for number in range(4):
                await producer.enqueue("t", b"v", partition=number)
            await producer.flush()
        assert cluster.count(ApiKey.PRODUCE) == 1


async def test_a_request_is_bounded_and_everybody_gets_a_turn() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 4)
        async with make(cluster, linger_ms=20, max_request_size=2048) as producer:
            for number in range(4):
                await producer.enqueue("t", b"v" * 900, partition=number)
            await producer.flush()
        assert cluster.count(ApiKey.PRODUCE) == 2
        assert all(len(p.values()) == 1 for p in cluster.topics["t"])


@pytest.mark.parametrize("action", [Action.DROP_BEFORE, Action.DROP_AFTER])
@pytest.mark.parametrize("nth", [0, 1, 3])
async def test_a_lost_connection_loses_nothing_and_reorders_nothing(
    action: Action, nth: int
) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=40) as producer:
            await producer.send("t", b"warm")
            seen = 0

            def is_nth(_: object) -> bool:
                nonlocal seen
                seen += 1
                return seen == nth + 1

            cluster.rule(ApiKey.PRODUCE, action, when=is_nth)
            for value in numbered(60):
                await producer.enqueue("t", value)
            await producer.flush()
        values = cluster.partition("t").values()
        assert in_first_order(values) == [b"warm", *numbered(60)]
        if action is Action.DROP_BEFORE:
            assert len(values) == 61


@pytest.mark.parametrize(
    "error", [NotLeaderOrFollowerError, UnknownTopicOrPartitionError, CorruptMessageError]
)
async def test_a_retriable_error_is_tried_again(error: Any) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=error, times=3)
        async with make(cluster) as producer:
            metadata = await producer.send("t", b"v")
        assert metadata.offset == 0
        assert cluster.partition("t").values() == [b"v"]


async def test_when_all_in_flight_fail_all_are_sent_again_in_order() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=40) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotLeaderOrFollowerError, times=5)
            for value in numbered(40):
                await producer.enqueue("t", value)
            await producer.flush()
        assert cluster.partition("t").values() == [b"warm", *numbered(40)]


async def test_a_batch_that_others_have_overtaken_is_not_sent_again() -> None:
    """The second of three fails, the third is acknowledged: a retry would change the order."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        history = ListHistory()
        options = {"batch_size": 20, "history": history, "enable_idempotence": False}
        async with make(cluster, **options) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotEnoughReplicasError, times=1)
            deliveries = [await producer.enqueue("t", value) for value in numbered(3)]
            with pytest.raises(Reorder) as caught:
                await deliveries[0]
            assert caught.value.definite, "nothing was appended, the broker said"
            assert (await deliveries[1]).offset == 1
            assert (await deliveries[2]).offset == 2
        assert cluster.partition("t").values() == [b"warm", *numbered(3)[1:]]
        assert [event for event, *_ in history.events].count("fail") == 1


async def test_a_refused_batch_is_not_sent_again_behind_one_that_may_be_there() -> None:
    """The first is refused, the second is appended and its connection breaks before the answer."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=20, enable_idempotence=False) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotEnoughReplicasError)
            cluster.rule(ApiKey.PRODUCE, Action.DROP_AFTER)
            deliveries = [await producer.enqueue("t", value) for value in numbered(3)]
            with pytest.raises(Reorder) as caught:
                await deliveries[0]
            assert caught.value.definite
            await asyncio.gather(*deliveries[1:])
        values = in_first_order(cluster.partition("t").values())
        assert values == [b"warm", *numbered(3)[1:]]


async def test_one_in_flight_needs_no_such_error() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        options = {"batch_size": 20, "max_in_flight_requests_per_connection": 1}
        async with make(cluster, **options) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=NotEnoughReplicasError, times=2)
            for value in numbered(5):
                await producer.enqueue("t", value)
            await producer.flush()
        assert cluster.partition("t").values() == [b"warm", *numbered(5)]


async def test_what_is_in_the_log_before_what_was_acknowledged_has_not_failed() -> None:
    """A broker did not see it replicated in time, and saw the next one replicated."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.latency_s = 0.01
        async with make(cluster, batch_size=20) as producer:
            await producer.send("t", b"warm")
            cluster.rule(ApiKey.PRODUCE, Action.ERROR_AFTER, error=RequestTimedOutError)
            deliveries = [await producer.enqueue("t", value) for value in numbered(12)]
            assert [(await each).offset for each in deliveries] == list(range(1, 13))
        assert cluster.partition("t").values() == [b"warm", *numbered(12)]


@pytest.mark.parametrize("error", [MessageTooLargeError, InvalidRecordError])
async def test_a_fatal_error_is_told_at_once_and_others_go_on(error: Any) -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=error)
            with pytest.raises(error, match="t-0") as caught:
                await producer.send("t", b"v")
            assert caught.value.definite
            assert (await producer.send("t", b"w")).offset == 0


async def test_a_definite_error_after_an_indefinite_one_is_not_definite() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            cluster.rule(ApiKey.PRODUCE, Action.ERROR_AFTER, error=RequestTimedOutError)
            cluster.rule(ApiKey.PRODUCE, Action.ERROR, error=MessageTooLargeError)
            with pytest.raises(MessageTooLargeError) as caught:
                await producer.send("t", b"v")
            assert not caught.value.definite
        assert cluster.partition("t").values() == [b"v"]


async def test_the_next_leader_gets_what_the_dead_one_did_not_acknowledge() -> None:
    async with FakeCluster(3) as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=40) as producer:
            await producer.send("t", b"warm")
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, broker=1, times=100)
            for value in numbered(30):
                await producer.enqueue("t", value)
            await eventually(lambda: held.met > 0)
            await cluster.brokers[1].stop()
            cluster.move_leader("t", 0, 2)
            await producer.flush()
        assert in_first_order(cluster.partition("t").values()) == [b"warm", *numbered(30)]


async def test_a_refused_leader_does_not_stall_the_others() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 2)
        async with make(cluster) as producer:
            await producer.send("t", b"warm", partition=0)
            await cluster.brokers[1].stop()
            stuck = await producer.enqueue("t", b"stuck", partition=0)
            for value in numbered(20):
                await producer.send("t", value, partition=1)
            assert not stuck.done()
            await cluster.brokers[1].start()
            await stuck
        assert cluster.partition("t", 1).values() == numbered(20)


async def test_a_leaderless_partition_is_waited_for() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, -1)
        async with make(cluster) as producer:
            delivery = await producer.enqueue("t", b"v")
            await eventually(lambda: cluster.count(ApiKey.METADATA) > 5)
            cluster.move_leader("t", 0, 2)
            assert (await delivery).offset == 0


async def test_the_leader_moves_while_its_answer_is_out() -> None:
    """Nothing goes to the new leader before the old one has answered for what it holds."""
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        async with make(cluster, batch_size=20) as producer:
            await producer.send("t", b"warm")
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, broker=1)
            first = await producer.enqueue("t", b"first")
            await eventually(lambda: held.met == 1)
            cluster.move_leader("t", 0, 2)
            second = await producer.enqueue("t", b"second")
            await producer._router.refresh()
            await asyncio.sleep(0.02)
            assert cluster.count(ApiKey.PRODUCE, 2) == 0
            held.release.set()
            assert (await first).offset == 1
            assert (await second).offset == 2


async def test_a_silent_leader_that_was_deposed_is_given_up() -> None:
    """A stopped process keeps its connections: who leads now decides, not the time-out."""
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        async with make(cluster) as producer:
            await producer.send("t", b"warm")
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, broker=1, times=10)
            delivery = await producer.enqueue("t", b"v")
            await eventually(lambda: held.met == 1)
            cluster.move_leader("t", 0, 2)
            assert (await delivery).offset == 1
            held.release.set()
        assert cluster.count(ApiKey.PRODUCE, 2) == 1


async def test_an_unanswered_request_is_tried_on_a_new_connection() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, request_timeout_ms=50) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
            assert (await producer.send("t", b"v")).offset == 0
            held.release.set()


async def test_delivery_times_out_definitely_when_nothing_was_sent() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, -1)
        async with make(cluster, delivery_timeout_ms=100) as producer:
            with pytest.raises(DeliveryTimeoutError, match="no leader") as caught:
                await producer.send("t", b"v")
            assert caught.value.definite


async def test_delivery_times_out_indefinitely_when_the_answer_is_missing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        history = ListHistory()
        async with make(cluster, delivery_timeout_ms=100, history=history) as producer:
            held = cluster.rule(ApiKey.PRODUCE, Action.HOLD_AFTER)
            with pytest.raises(DeliveryTimeoutError, match="has not answered") as caught:
                await producer.send("t", b"v")
            assert not caught.value.definite
            held.release.set()
            assert (await producer.send("t", b"w")).offset == 1
        assert [event for event, *_ in history.events] == ["invoke", "info", "invoke", "ok"]


@pytest.mark.cve("2026-35554")
async def test_bytes_of_a_batch_that_was_given_up_are_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CVE-2026-35554: they may still wait to be sent, and would take other records to its topic."""
    written: list[tuple[str, list[bytearray], list[bytes]]] = []
    send = RequestChannel.send

    def noted(channel: RequestChannel, request: Any, payload: Any = (), **given: Any) -> None:
        if isinstance(request, ProduceRequest):
            (topic,) = (each.topic for each in request.topics)
            written.append((topic, list(payload), [bytes(each) for each in payload]))
        send(channel, request, payload, **given)

    monkeypatch.setattr(RequestChannel, "send", noted)
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        cluster.create_topic("u", partitions=2)
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD, times=100, broker=1)
        async with make(cluster, delivery_timeout_ms=120, request_timeout_ms=60) as producer:
            for value in numbered(3):
                with pytest.raises(DeliveryTimeoutError):
                    await producer.send("t", value)
                for _ in range(20):
                    await producer.send("u", b"other", partition=1)
            held.release.set()
        assert set(cluster.partition("u", 1).values()) == {b"other"}
        assert set(cluster.partition("t").values()) <= set(numbered(3))
    assert {topic for topic, _, _ in written} == {"t", "u"}
    topics: dict[int, str] = {}
    for topic, buffers, copies in written:
        assert [bytes(each) for each in buffers] == copies, "nothing has written into them since"
        for each in buffers:
            assert topics.setdefault(id(each), topic) == topic


async def test_acks_0_asks_nobody() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with make(cluster, acks=0) as producer:
            for value in numbered(50):
                assert (await producer.send("t", value)).offset == -1
            await eventually(lambda: cluster.partition("t").next_offset == 50)
        assert cluster.partition("t").values() == numbered(50)


async def test_close_says_what_was_not_acknowledged() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        producer = make(cluster)
        await producer.start()
        held = cluster.rule(ApiKey.PRODUCE, Action.HOLD)
        await producer.enqueue("t", b"v")
        await eventually(lambda: held.met == 1)
        never_sent = await producer.enqueue("t", b"w")
        with pytest.raises(UndeliveredRecordsError, match="2 records") as caught:
            await producer.close(timeout_ms=20)
        assert isinstance(caught.value.first, ConnectionLostError)
        assert isinstance(never_sent.exception(), ClosedError)
        await producer.close()
        held.release.set()


async def test_work_that_comes_while_it_closes_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The sender was woken after it had closed its tasks, and called that a failure of its own."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        producer = make(cluster, linger_ms=0)
        await producer.start()
        assert producer._sender is not None
        await producer._sender._tasks.close()
        await producer.enqueue("t", b"v")
        with pytest.raises(UndeliveredRecordsError):
            await producer.close(timeout_ms=20)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_failure_inside_is_heard_by_every_caller() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        producer = make(cluster)
        await producer.start()
        await producer.send("t", b"v")

        def broken() -> None:
            raise ZeroDivisionError

        assert producer._sender is not None
        producer._sender._pump = broken  # type: ignore[method-assign]
        with pytest.raises(ClosedError) as caught:
            await producer.send("t", b"w")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(ClosedError):
            await producer.send("t", b"x")
        await producer.close()


async def test_who_may_not_have_a_producer_id_is_told_and_may_try_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A right that was missing may be there the next time. An answer is no defect of ours."""
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        denied = ClusterAuthorizationFailedError
        cluster.rule(ApiKey.INIT_PID, Action.ERROR, error=denied, times=1000)
        async with make(cluster) as producer:
            for _ in range(2):
                with pytest.raises(denied):
                    await producer.send("t", b"v")
            cluster.rules.clear()
            assert (await producer.send("t", b"w")).offset == 0
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_the_history_holds_what_was_asked_and_what_is_known() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        history = ListHistory()
        async with make(cluster, history=history) as producer:
            await producer.send_many("t", [b"a", b"b"])
            await producer.send("t", b"c")
        assert history.events == [
            ("invoke", 1, "send", "t", 0, [b"a", b"b"]),
            ("ok", 1, [0, 1], []),
            ("invoke", 2, "send", "t", 0, [b"c"]),
            ("ok", 2, [2], []),
        ]


def test_what_is_due_at_once_is_no_timer_with_uvloop() -> None:
    async def story() -> None:
        async with FakeCluster() as cluster:
            cluster.create_topic("t")
            async with make(cluster) as producer:
                assert producer._sender is not None
                now = asyncio.get_running_loop().time()
                for when in (now, now + 1, now - 1):
                    producer._sender._wake_at(when)
                assert (await producer.send("t", b"v")).offset == 0

    uvloop.run(story())
