"""A broker tells the controller what it holds: everything first, then what changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog_broker.server.broker_reporter import BrokerReporter
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_controller.broker_reports import BrokerReports
from oncelog_protocol import limits
from oncelog_protocol.errors import NO_ERROR, ApiError
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.broker_reports import (
    ANEW,
    GONE,
    LEADER_NOT_REACHED,
    NO_LEADER,
    BrokerReportRequest,
    BrokerReportResponse,
    ReportedWarm,
)
from oncelog_protocol.messages.replication import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from oncelog_protocol.types import NO_BROKER, TopicPartition
from support.cluster import Cluster as RealCluster
from support.controller_driver import registration
from support.hand_records import produce
from support.replication_cluster import Cluster, travel
from support.waiting import eventually

TP = TopicPartition("t", 0)


class Controller:
    """It keeps reports as the controller does; the brokers are registered under epoch 7."""

    broker_epoch = 7

    def __init__(self) -> None:
        self.reports = BrokerReports()
        self.requests: list[BrokerReportRequest] = []
        self.failure: Exception | None = None

    async def call_once(self, request: Request, *, timeout_s: float) -> BrokerReportResponse:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        page = travel(request)
        assert isinstance(page, BrokerReportRequest)
        self.requests.append(page)
        brokers = {each: registration(each, self.broker_epoch) for each in (1, 2, 3)}
        try:
            self.reports.take(page, brokers, 50.0)
        except ApiError as error:
            return BrokerReportResponse(error.code)
        return BrokerReportResponse(NO_ERROR)

    def told(self) -> list[tuple[str, int, int]]:
        """Return topic id, number and size of what the last page told of."""
        return [
            (topic.topic_id, partition, size)
            for topic in self.requests[-1].topics
            for partition, size in zip(topic.partitions, topic.sizes, strict=True)
        ]


class World:
    """It has brokers, what they know of the cluster, and the reporter of one of them."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        node = cluster[broker_id]
        self.controller = Controller()
        self.image = MetadataImage("cluster")
        self.interval_ms = 3_600_000
        self.warm: list[tuple[str, int]] = []
        self.cluster = cluster
        self.reporter = BrokerReporter(
            broker_id,
            files=node.files,
            logs=node.logs,
            replicas=node.replicas,
            image=self.image,
            epoch=self.controller,
            controller=self.controller,
            interval_ms=lambda: self.interval_ms,
            warm=lambda: self.warm,
        )
        self.tell_image(1)

    def tell_image(self, controller_epoch: int, *orders: LeaderAndIsrPartition) -> None:
        """Have the broker told of partitions, by the controller of an epoch."""
        told = [replace(order, isr=list(order.isr)) for order in orders]
        update = UpdateMetadataRequest(9, controller_epoch, 0, False, told, [])
        self.image.apply(update)


async def test_the_first_report_tells_of_everything_and_the_next_ones_of_what_changed() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        controller = world.controller
        cluster.lead(TP, 1)
        cluster.lead(TopicPartition("t", 1), 2)
        await cluster.produced(TP, b"x" * 1000)
        await world.reporter.report()
        first = controller.requests[-1]
        assert (first.continues, first.last) == (ANEW, True)
        size = cluster[1].partition(TP).log.size_bytes
        assert controller.told() == [("id", 0, size), ("id", 1, 0)]
        (directory,) = first.directories
        assert (directory.path, directory.is_online) == ("/d", True)
        assert 0 < directory.free_bytes <= directory.total_bytes

        await world.reporter.report()  # rates are known from now on
        await world.reporter.report()
        assert controller.told() == []
        await cluster.produced(TP, b"y")
        cluster[1].partition(TP).consumed(10**9)
        await world.reporter.report()
        assert controller.told() == [("id", 0, cluster[1].partition(TP).log.size_bytes)]
        assert controller.reports.rate("id", 0, 1) > 0
        assert controller.reports.rate("id", 1, 1) == 0
        read = controller.reports.replica("id", 0, 1)
        assert read is not None
        assert read.out_bytes_per_s > read.in_bytes_per_s


async def test_replicas_that_went_are_told_of_once() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        cluster.lead(TP, 2)
        await world.reporter.report()
        await cluster[1].replicas.stop_replicas(
            StopReplicaRequest(9, 1, 0, [StopPartition("t", "id", 0, -2, True)])
        )
        await world.reporter.report()
        assert world.controller.told() == [("id", 0, GONE)]
        assert world.controller.reports.replica("id", 0, 1) is None
        await world.reporter.report()
        assert world.controller.told() == []


async def test_many_replicas_go_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPORT_REPLICAS_MAX", 2)
    async with Cluster(brokers=1) as cluster:
        world = World(cluster, 1)
        for partition in range(5):
            cluster.lead(TopicPartition("t", partition), 1)
        await world.reporter.report()
        pages = world.controller.requests
        assert [page.last for page in pages] == [False, False, True]
        assert [bool(page.directories) for page in pages] == [False, False, True]
        known = [world.controller.reports.replica_bytes("id", n, 1) for n in range(5)]
        assert known == [0] * 5


@pytest.mark.parametrize("what", ["another controller", "another life", "it was not reached"])
async def test_a_report_begins_anew(what: str) -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        cluster.lead(TP, 2)
        await world.reporter.report()
        if what == "another controller":
            world.tell_image(2)
        elif what == "another life":
            world.controller.broker_epoch = 8
        else:
            world.controller.failure = ConnectionRefusedError()
            await world.reporter.report()
            world.controller.failure = None
        await world.reporter.report()
        assert world.controller.requests[-1].continues == ANEW
        assert world.controller.told() == [("id", 0, 0)]


async def test_a_controller_that_has_forgotten_hears_everything_next_time() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        cluster.lead(TP, 2)
        await world.reporter.report()
        world.controller.reports = BrokerReports()
        await world.reporter.report()
        assert world.controller.reports.as_of(1) is None
        await world.reporter.report()
        assert world.controller.reports.replica_bytes("id", 0, 1) == 0


# ---------------------------------------------------------------- copies


async def test_a_replica_out_of_sync_is_a_copy_until_it_is_in_the_isr() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 3)
        cluster[3].cut()
        cluster.lead(TP, 1, isr=[1, 2])
        await cluster.produced(TP, b"x" * 1000)
        world.tell_image(1, cluster.orders[TP])
        await world.reporter.report()
        copy = world.controller.reports.copy("id", 0, 3)
        assert copy is not None
        assert (copy.donor, copy.offsets_left, copy.reason) == (1, -1, LEADER_NOT_REACHED)

        cluster[3].reachable = True
        await cluster.isr_is(TP, 1, 2, 3)
        await world.reporter.report()
        copy = world.controller.reports.copy("id", 0, 3)
        assert copy is not None, "the image has not heard of the ISR"
        assert (copy.offsets_left, copy.reason) == (0, "")
        assert copy.bytes_per_s > 0
        world.tell_image(1, cluster.orders[TP])
        await world.reporter.report()
        assert world.controller.reports.copy("id", 0, 3) is None


async def test_a_copy_without_a_leader_says_so() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 3)
        cluster.lead(TP, NO_BROKER, isr=[1])
        world.tell_image(1, cluster.orders[TP])
        await world.reporter.report()
        copy = world.controller.reports.copy("id", 0, 3)
        assert copy is not None
        assert (copy.donor, copy.reason) == (NO_BROKER, NO_LEADER)


# ---------------------------------------------------------------- how often


def begun_move(cluster: Cluster) -> LeaderAndIsrRequest:
    """Return an order that begins to move the partition."""
    order = cluster.orders[TP]
    epoch = order.leader_epoch + 1
    moves = replace(order, leader_epoch=epoch, is_new=False, origin=[1, 2], target=[1, 3])
    return LeaderAndIsrRequest(9, 1, 0, False, [moves], [])


async def test_an_order_that_begins_a_move_hurries_the_reports() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        cluster.lead(TP, 1)
        task = asyncio.create_task(world.reporter.run())
        await eventually(lambda: len(world.controller.requests) == 1)
        await cluster[1].replicas.apply_leader_and_isr(begun_move(cluster))
        await eventually(lambda: len(world.controller.requests) >= 3, timeout_s=15)
        world.reporter.stop()
        await task


async def test_who_is_to_lead_soon_tells_every_second_what_it_has_read() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 2)
        cluster.lead(TP, 1)
        task = asyncio.create_task(world.reporter.run())
        await eventually(lambda: len(world.controller.requests) == 1)
        assert world.controller.requests[-1].warm == []
        world.warm += [("id", 0), ("id", 2), ("other", 1)]
        named = replace(cluster.orders[TP], is_new=False, next_leader=2)
        cluster.send_orders(2, [named])
        await eventually(lambda: len(world.controller.requests) >= 3, timeout_s=15)
        warm = [ReportedWarm("id", [0, 2]), ReportedWarm("other", [1])]
        assert world.controller.requests[-1].warm == warm
        world.reporter.stop()
        await task


async def test_between_two_looks_at_everything_only_what_moves_is_told() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        quiet = TopicPartition("t", 1)
        cluster.lead(TP, 1)
        cluster.lead(quiet, 1)
        await cluster[1].replicas.apply_leader_and_isr(begun_move(cluster))
        await world.reporter.report()
        await world.reporter.report()
        for partition in (TP, quiet):
            append(cluster, partition)
        await world.reporter.report(everything=False)
        sizes = {name.partition: cluster[1].partition(name).log.size_bytes for name in (TP, quiet)}
        assert world.controller.told() == [("id", 0, sizes[0])]
        world.tell_image(2)
        await world.reporter.report(everything=False)
        assert world.controller.told() == [("id", 0, sizes[0]), ("id", 1, sizes[1])]


def append(cluster: Cluster, partition: TopicPartition) -> None:
    """Append to the leader, without waiting for others."""
    cluster.produce(partition, b"x", acks=1, to=1)


async def test_settings_that_change_count_at_once_and_a_stop_ends_it() -> None:
    async with Cluster() as cluster:
        world = World(cluster, 1)
        task = asyncio.create_task(world.reporter.run())
        await eventually(lambda: len(world.controller.requests) == 1)
        world.interval_ms = 100
        world.reporter.hurry()
        await eventually(lambda: len(world.controller.requests) >= 3, timeout_s=15)
        world.reporter.stop()
        await task


# ---------------------------------------------------------------- whole brokers


@pytest.mark.slow
async def test_the_controller_of_a_cluster_knows_what_brokers_hold(tmp_path: Path) -> None:
    async with RealCluster(tmp_path, brokers=3, broker_report_interval_ms=100) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        term = cluster.controller.runner.term
        assert term is not None
        reports, topic_id = term.machine.reports, cluster.controller.image.topic_id("t")
        channel = await cluster.channel(cluster.leader("t"))
        await produce(channel, "t", 0, [b"x" * 5000])
        holders = cluster.state("t").replicas
        await eventually(
            lambda: all(reports.replica_bytes(topic_id, 0, each) > 5000 for each in holders),
            timeout_s=15,
        )
        (other,) = {1, 2, 3} - set(holders)
        assert reports.replica_bytes(topic_id, 0, other) == 0
        assert [len(reports.disks(each) or ()) for each in (1, 2, 3)] == [1, 1, 1]
        channel.close()
