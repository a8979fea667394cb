"""Failure tests use real processes: signals go in, facts about the cluster come out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from integration.replicas import Place, replicas_on_disk
from oncelog import Admin, Consumer, NewTopic, Security
from oncelog.config import Address
from oncelog.core.connection import ask, open_channel
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.secured import client_security
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from simulation.checkers.replicas import AllReplicas
from support.waiting import in_thread

T = TypeVar("T")

DEADLINE_S = 60.0
POLL_S = 0.05

SETTINGS = {
    "zookeeper_session_timeout_ms": 3000,
    "replica_lag_time_max_ms": 3000,
    "group_initial_rebalance_delay_ms": 300,
    "offsets_topic_num_partitions": 5,
    "transaction_state_log_num_partitions": 5,
    "log_cleaner_backoff_ms": 200,
    "log_retention_check_interval_ms": 500,
    "metrics_port": 0,
}
"""Shorter than the defaults: tests of silent hosts, of groups and of retention are not to wait."""

NO_MORE_SETTINGS: Mapping[str, int] = MappingProxyType({})


class Processes:
    """Three brokers and a ZooKeeper are each a process of its own.

    :param secure: whether it is a cluster as ``oncelog up --secure`` starts it; this side is its
        admin.
    :param settings: over ``SETTINGS``, in every broker.
    """

    def __init__(
        self,
        directory: Path,
        *,
        secure: bool = False,
        settings: Mapping[str, int] = NO_MORE_SETTINGS,
    ) -> None:
        every = {**SETTINGS, **settings}
        self.cluster = LocalCluster(directory, brokers=3, settings=every, secure=secure)
        self.broker_ids = sorted(self.cluster.brokers)
        self.security = admin_of(directory) if secure else None

    @property
    def bootstrap(self) -> str:
        """Return addresses for clients."""
        return self.cluster.bootstrap

    def admin(self, bootstrap: str | None = None) -> Admin:
        """Make an admin client."""
        return Admin(bootstrap or self.bootstrap, security=self.security)

    # ---- damage

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL."""
        self.cluster.broker(broker_id).kill()

    def pause(self, broker_id: int) -> None:
        """Send SIGSTOP."""
        self.cluster.broker(broker_id).pause()

    def resume(self, broker_id: int) -> None:
        """Send SIGCONT."""
        self.cluster.broker(broker_id).resume()

    async def stop_cleanly(self, broker_id: int) -> None:
        """SIGTERM, and it must end by itself."""
        assert await in_thread(self.cluster.broker(broker_id).stop)

    def start(self, broker_id: int) -> None:
        """Start a broker without waiting for it."""
        self.cluster.broker(broker_id).launch()

    async def restart(self, broker_id: int) -> None:
        """Start a broker and wait until it serves."""
        await in_thread(self.cluster.start_broker, broker_id, DEADLINE_S)

    async def wait_ready(self) -> None:
        """Wait until every broker serves."""
        for broker in self.cluster.brokers.values():
            await in_thread(broker.wait_ready, DEADLINE_S)

    def stop_zookeeper(self) -> None:
        """End ZooKeeper."""
        assert self.cluster.zookeeper is not None
        self.cluster.zookeeper.kill()

    def start_zookeeper(self) -> None:
        """Start ZooKeeper on the same port with the same data."""
        assert self.cluster.zookeeper is not None
        self.cluster.zookeeper.start()

    def http(self, broker_id: int) -> tuple[str, int]:
        """Return where a broker answers HTTP; it must be ready."""
        address = self.cluster.broker(broker_id).http_address
        assert address is not None
        host, _, port = address.partition(":")
        return host, int(port)

    async def heal(self) -> None:
        """Mend whatever a test left behind: everything runs again."""
        zookeeper = self.cluster.zookeeper
        assert zookeeper is not None
        if zookeeper.process is None or not zookeeper.process.is_alive():
            self.start_zookeeper()
        for broker_id, broker in self.cluster.brokers.items():
            broker.resume()
            if broker.state == "stopped":
                await self.restart(broker_id)
        await self.wait_ready()

    @asynccontextmanager
    async def harmed_by(self, trouble: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """Endless ``trouble`` is made while the block runs; afterwards every broker runs again."""
        task = asyncio.create_task(trouble)
        try:
            yield
        finally:
            task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            await self.heal()
        if not isinstance(outcome, asyncio.CancelledError):
            raise outcome if isinstance(outcome, BaseException) else AssertionError("it ended")

    # ---- facts

    async def create_topic(self, topic: str, partitions: int, **configs: str) -> None:
        """Create it with three replicas, of which two must be in sync; all are when it returns."""
        async with self.admin() as admin:
            new = NewTopic(topic, partitions, 3, {"min_insync_replicas": "2", **configs})
            (await admin.create_topics([new])).raise_for_errors()
        await self.wait_isr(topic, 3)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        async with self.admin() as admin:
            (await admin.delete_topics([topic])).raise_for_errors()

    async def leader(self, topic: str, partition: int) -> int:
        """Return the leader's broker id; wait until there is one."""

        async def known(admin: Admin) -> int | None:
            leader = (await admin.describe_topics([topic]))[0].partitions[partition].leader
            return leader if leader >= 0 else None

        return await self.eventually(f"{topic}-{partition} has a leader", known)

    async def wait_for_leader_other_than(self, broker: int, topic: str, partition: int) -> None:
        """Wait until somebody else leads, asking the others."""

        async def moved(admin: Admin) -> bool | None:
            leader = (await admin.describe_topics([topic]))[0].partitions[partition].leader
            return True if leader not in (-1, broker) else None

        bootstrap = ",".join(b.address for i, b in self.cluster.brokers.items() if i != broker)
        await self.eventually(f"{topic}-{partition} moved from {broker}", moved, bootstrap)

    async def controller(self) -> int:
        """Return the controller's broker id; wait until there is one that runs."""

        async def known(admin: Admin) -> int | None:
            controller = (await admin.describe_cluster()).controller_id
            alive = controller >= 0 and self.cluster.broker(controller).state != "stopped"
            return controller if alive else None

        return await self.eventually("there is a controller", known)

    async def wait_isr(self, topic: str, size: int) -> None:
        """Wait until every partition has a leader and ``size`` in-sync replicas."""

        async def whole(admin: Admin) -> bool | None:
            partitions = (await admin.describe_topics([topic]))[0].partitions
            good = [len(p.isr) == size and p.leader >= 0 for p in partitions]
            return True if partitions and all(good) else None

        await self.eventually(f"the ISR of {topic} is {size}", whole)

    async def wait_drained(self, topic: str, broker_id: int, size: int) -> None:
        """Wait until a broker leads nothing of the topic, is not controller, and is in all ISRs,
        which have ``size`` members."""

        async def drained(admin: Admin) -> bool | None:
            controller = (await admin.describe_cluster()).controller_id
            partitions = (await admin.describe_topics([topic]))[0].partitions
            whole = all(len(p.isr) == size and broker_id in p.isr for p in partitions)
            idle = all(p.leader not in (broker_id, -1) for p in partitions)
            return (whole and idle and controller not in (broker_id, -1)) or None

        await self.eventually(f"broker {broker_id} leads nothing of {topic}", drained)

    async def wait_preferred(self, topic: str) -> None:
        """Wait until the preferred replica of every partition leads."""

        async def balanced(admin: Admin) -> bool | None:
            partitions = (await admin.describe_topics([topic]))[0].partitions
            return all(p.leader == p.replicas[0] for p in partitions) or None

        await self.eventually(f"the preferred replicas of {topic} lead", balanced)

    async def replicas(self, topic: str) -> AllReplicas:
        """Return what replicas have on disk, once all of them have it up to the high watermark."""
        async with Consumer(
            topic, bootstrap_servers=self.bootstrap, security=self.security
        ) as consumer:
            ends = await consumer.end_offsets(await consumer.partitions_for(topic))
        marks = {tp.partition: offset for tp, offset in ends.items()}
        async with self.admin() as admin:
            (described,) = await admin.describe_topics([topic])
        holders = {item.partition: item.replicas for item in described.partitions}
        places = await self.eventually(
            f"replicas hold {topic} up to {marks}",
            lambda admin: _all_hold(admin, topic, marks, holders),
        )
        return replicas_on_disk(places, topic, marks, holders)

    # ---- groups

    async def coordinator(self, group: str) -> int:
        """Return the broker id of the group's coordinator; wait until there is one that answers."""

        async def known(_: Admin) -> int | None:
            return (await self._ask_coordinator(group))[0]

        return await self.eventually(f"{group} has a coordinator", known)

    async def generation(self, group: str) -> int:
        """Return the group's generation, once it is stable."""

        async def stable(_: Admin) -> int | None:
            described = (await self._ask_coordinator(group))[1]
            return described.generation_id if described.state == "Stable" else None

        return await self.eventually(f"{group} is stable", stable)

    async def _ask_coordinator(self, group: str) -> tuple[int, DescribedGroup]:
        """:raises ApiError: there is none now, or it cannot answer now."""
        alive = [b for b in self.cluster.brokers.values() if b.state == "running"]
        found: FindCoordinatorResponse = await _ask(
            "127.0.0.1", alive[0].port, FindCoordinatorRequest(group)
        )
        if found.error_code:
            raise error_for(found.error_code, found.error_message or "")
        answer: DescribeGroupsResponse = await _ask(
            found.host, found.port, DescribeGroupsRequest([group], False)
        )
        described = answer.groups[0]
        if described.error_code:
            raise error_for(described.error_code, described.error_message or "")
        return found.broker_id, described

    async def eventually(
        self,
        what: str,
        ask: Callable[[Admin], Awaitable[T | None]],
        bootstrap: str | None = None,
    ) -> T:
        """Ask until the answer is not None, and return it; errors of a cluster in trouble are no
        answer.

        :param bootstrap: these brokers are asked, instead of all.
        :raises AssertionError: it stayed None.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        last: object = None
        while loop.time() < deadline:
            try:
                async with self.admin(bootstrap) as admin:
                    answer = await ask(admin)
                    if answer is not None:
                        return answer
            except Exception as error:
                last = error
            await asyncio.sleep(POLL_S)
        raise AssertionError(f"not within {DEADLINE_S:g} s: {what} (last error: {last!r})")


def admin_of(directory: Path) -> Security:
    """Return how the admin of a secured cluster says who this is."""
    options: dict[str, Any] = {**client_security(directory)}
    return Security(**options)


async def _ask(host: str, port: int, request: Request) -> Any:
    """Return the answer to one request over a connection of its own."""
    channel = await open_channel(Address(host, port), "test", 5.0)
    try:
        return await ask(channel, request, 5.0)
    finally:
        channel.close()
        await channel.wait_closed()


async def _all_hold(
    admin: Admin, topic: str, marks: dict[int, int], holders: Mapping[int, Sequence[int]]
) -> Mapping[Place, Path] | None:
    """Return in which directory each replica lies, once all of them reach their marks."""
    held = {
        (replica.partition.partition, log_dir.broker_id): Path(log_dir.path)
        for log_dir in await admin.describe_log_dirs()
        for replica in log_dir.replicas
        if replica.partition.topic == topic
        and replica.log_end_offset >= marks[replica.partition.partition]
    }
    wanted = {(number, broker) for number in marks for broker in holders[number]}
    return held if wanted <= held.keys() else None
