"""Faults of disks are imported for their registration: these disks fail for good."""

from __future__ import annotations

import asyncio
import errno

from oncelog_broker.app import Broker
from oncelog_controller.state import ClusterPartition, Topic
from oncelog_controller.store import NodeStat
from oncelog_controller.znodes import broker_path, decode_broker, decode_state
from oncelog_protocol.topic_config import parse_topic_config
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.crashes import draw_power_cut
from oncelog_testing.memory.files import Operation
from simulation.cluster import DATA, SimCluster
from simulation.nemesis import Nemesis, fault
from simulation.store_view import InvariantViolation

CHANGES: tuple[Operation, ...] = (
    "append",
    "truncate",
    "rewrite",
    "rename",
    "remove",
    "make_dirs",
)


@fault
async def remount(self: Nemesis) -> None:
    """A sync fails; once the broker has ended the volume is mounted again, and the broker
    started on a machine that has not stopped. What was not synced is gone, or cut short. In every
    second case one other broker is down before, and the rest die behind it: it is back first, and
    was the last but one of the ISR.

    A disk that hangs cannot take the note of its failure. Without the note nobody can know that the
    volume lost what was not synced, so such a disk is left alone."""
    broker_id, cluster = self._any(), self.cluster
    broker = cluster.brokers.get(broker_id)
    if broker is None or self._busy or not self._may_fail(broker_id) or broker_id in self._hung:
        return
    path, down = self._directory(), self._others(broker_id) if self.chance.random() < 0.5 else []
    # Where there is no other directory it must be able to take the note of its failure.
    times = self.chance.choice([1, None]) if cluster.knobs.log_dirs > 1 else 1
    self._busy.update(dict.fromkeys([broker_id, *down]))
    try:
        if down:
            cluster.crash_broker(down[0])
            await self._wait(self._session_s(), 3 * self._session_s())
        cluster.remounts[broker_id] = path, draw_power_cut(self.chance)
        cluster.disks[broker_id].fail("sync", path, times=times)
        await _offline(self, broker, path)
        for other in down[1:]:
            cluster.crash_broker(other)
        await self._wait(0.001, 0.5)
        failed = [d.path for d in broker.logs.dirs if not d.online]
        if cluster.brokers.get(broker_id) is broker and failed == [path]:
            cluster.crash_broker(broker_id, hold=False, remount=True)
        await self._wait(0.5, 3 * self._session_s())
    finally:
        cluster.remounts.pop(broker_id, None)
        cluster.disks[broker_id].heal()
        for other in (broker_id, *down):
            self._busy.pop(other, None)
            cluster.start_broker(other)


@fault
async def hung_disk(self: Nemesis) -> None:
    """The disk of one directory does not answer. A sync takes half a minute there, or never
    ends; the broker gives the directory up, and the machine is started again."""
    broker_id, cluster = self._any(), self.cluster
    if not self._may_fail(broker_id) or broker_id in self._hung or broker_id in cluster.remounts:
        return
    path, timeout_s = self._directory(), cluster.knobs.log_dir_sync_timeout_ms / 1000
    cluster.hangs[broker_id, path] = self.chance.choice([30.0, 1e6])
    self._hung[broker_id] = None
    try:
        try:
            await asyncio.sleep(timeout_s)
            cluster.hangs.pop((broker_id, path), None)
            await asyncio.sleep(timeout_s)  # by then every sync that hangs has been given up
        except asyncio.CancelledError:
            cluster.hangs.pop((broker_id, path), None)
            cluster.crash_broker(broker_id, hold=False)
            raise
        await self._disk_fault(broker_id)
    finally:
        del self._hung[broker_id]


@fault
async def replace_disk(self: Nemesis) -> None:
    """A broker dies, and comes back with one of several disks replaced by an empty one. Its
    registration vouches for what lies on the others.

    :raises InvariantViolation: [I28], it does not.
    """
    broker_id, cluster = self._any(), self.cluster
    broker, disks = cluster.brokers.get(broker_id), cluster.knobs.log_dirs
    if disks < 2 or broker is None or broker_id in self._busy or not self.may_destroy(broker_id):
        return
    number = self.chance.randint(0, disks - 1)
    vouched = _vouched(self, broker, f"{DATA}/{number}")
    self._busy[broker_id] = None
    try:
        cluster.crash_broker(broker_id)
        for name in cluster.replace_disk(broker_id, number):
            self.invariants.note_damage(broker_id, name)
        await self._wait(0.0, 2.5 * self._session_s())
    finally:
        del self._busy[broker_id]
        cluster.start_broker(broker_id)
    until_s = cluster.loop.now_s + 3 * self._session_s()
    while broker_id not in cluster.serving and cluster.loop.now_s < until_s:
        await asyncio.sleep(0.02)
    check_claim(cluster, broker_id, vouched)


def _vouched(self: Nemesis, broker: Broker, replaced: str) -> dict[TopicPartition, int]:
    """Return what the broker has had to this day on disks other than the one that is replaced: the
    broker epochs under which it was admitted."""
    found = {}
    for name, stored in self.invariants.store.partitions.items():
        log, data = broker.logs.get(name), self.cluster.partition_state(*name)
        if log is None or data is None or log.damage or log.log_dir.path == replaced:
            continue
        own = broker.logs.continuity._own.get(log.log_dir.directory_id)
        admitted = decode_state(*name, data, NodeStat(0, 0)).admitted_at(broker.broker_id)
        sound = log.log_dir.online and log.topic_id == stored.topic_id
        if not sound or own is None or own.since is None or admitted is None:
            continue
        if max(own.since, log.made_epoch) <= admitted:
            found[name] = admitted
    return found


def check_claim(cluster: SimCluster, broker_id: int, admitted: dict[TopicPartition, int]) -> None:
    """Check that the registration of a broker keeps what it was admitted with.

    :raises InvariantViolation: [I28], it does not.
    """
    broker = cluster.brokers.get(broker_id)
    data = cluster.zookeeper.data(broker_path(broker_id))
    if broker is None or data is None or broker_id not in cluster.serving:
        return
    said = decode_broker(broker_id, data, NodeStat(0, broker.broker_epoch))
    for name, epoch in admitted.items():
        log = broker.logs.get(name)
        if log is None or not log.log_dir.online:
            continue
        topic = Topic(name.topic, log.topic_id, parse_topic_config({}))
        if not said.keeps(epoch, ClusterPartition(topic, name.partition, (broker_id,))):
            raise InvariantViolation(
                "I28",
                f"{name} on broker {broker_id} lies on a sound disk, and its registration does not"
                f" vouch for what it had under epoch {epoch}: {said.data}",
            )


async def _offline(self: Nemesis, broker: Broker, path: str) -> None:
    """Wait for a directory to fail, for a while."""
    until_s = self.cluster.loop.now_s + 2 * self._session_s()
    while self.cluster.loop.now_s < until_s:
        if any(d.path == path and not d.online for d in broker.logs.dirs):
            return
        await asyncio.sleep(0.02)


@fault
async def failed_append(self: Nemesis) -> None:
    """Fail with EIO in the middle of a batch."""
    broker_id = self._any()
    if not self._may_fail(broker_id):
        return
    keep = self.chance.choice([0, 1, 30, 100])
    self.cluster.disks[broker_id].fail("append", self._directory(), keep_bytes=keep)
    await self._disk_fault(broker_id)


@fault
async def disk_full(self: Nemesis) -> None:
    """Leave no room at any byte; later there is again."""
    broker_id = self._any()
    if self._may_fail(broker_id):
        self.cluster.disks[broker_id].set_free_bytes(self.chance.randint(0, 3000))
        await self._disk_fault(broker_id)


@fault
async def disk_read_only(self: Nemesis) -> None:
    """Everything that changes a directory fails."""
    broker_id = self._any()
    if not self._may_fail(broker_id):
        return
    disk, directory = self.cluster.disks[broker_id], self._directory()
    for operation in CHANGES:
        disk.fail(operation, directory, error=errno.EROFS, times=None)
    await self._disk_fault(broker_id)
