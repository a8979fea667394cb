"""One partition is on several brokers, joined in process: real logs over memory files, no sockets.

Everything happens when the test says so: ``fetch`` is one exchange between a follower and its
leader, ``sync`` one round of a broker's flusher, ``elect`` an order of the controller to those
brokers that the test names, ``settle_isr`` an AlterPartition exchange. ``crash`` stops a broker and
forgets what was not synced, or only the process. So a scenario of a paper is written down step by
step, and run again with a safeguard switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from oncelog_broker.log.checkpoint import LOG_START
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.recovery import load_log
from oncelog_broker.log.safeguards import SAFE as SAFE_LOG
from oncelog_broker.log.safeguards import LogSafeguards
from oncelog_broker.replication.fetch_session import FollowerSession
from oncelog_broker.replication.follower import FollowerMachine
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.purgatory import Deadlines
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.replication.traffic import TopicTraffic
from oncelog_protocol.errors import (
    ApiError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidUpdateVersionError,
)
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionResult,
    LeaderAndIsrPartition,
)
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.topic_config import TopicConfig, parse_topic_config
from oncelog_protocol.types import Acks, TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.files import Keep, MemoryFiles
from support.clock import ManualClock
from support.room_settings import log_settings, replica_settings

__all__ = ["TOPIC_ID", "TP", "Broker", "Replicas", "batch_of", "make_logs", "topic_config"]

TP = TopicPartition("t", 0)
TOPIC_ID = "topic-id"
NOW_MS = 1_700_000_000_000


def topic_config(**overrides: Any) -> TopicConfig:
    """Return settings of a topic; ``flush=commit`` unless said otherwise."""
    return parse_topic_config({key: str(value) for key, value in overrides.items()})


def batch_of(
    *values: bytes, timestamp_ms: int = NOW_MS, producer: tuple[int, int, int] = (-1, -1, -1)
) -> memoryview:
    """Return a client's batch as a handler gets it: a writable view. ``producer``: its id, epoch,
    and the batch's sequence."""
    producer_id, epoch, sequence = producer
    return memoryview(
        encode_batch(
            list(values),
            timestamps=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


def make_logs(
    files: MemoryFiles, broker_id: int = 1, *dirs: str, safeguards: LogSafeguards = SAFE_LOG
) -> LogManager:
    """The logs of one broker, not started: syncs happen by ``flusher.sync_now()``."""
    return LogManager(
        files=files,
        clock=ManualClock(NOW_MS),
        entropy=SeededEntropy(broker_id),
        config=log_settings(log_dirs=dirs or ("/d",), headroom_bytes=0),
        broker_id=broker_id,
        safeguards=safeguards,
    )


class Broker:
    """It is one replica. The ``PartitionOwner`` of its partition."""

    def __init__(self, group: Replicas, broker_id: int) -> None:
        self.group = group
        self.broker_id = broker_id
        self.broker_epoch = broker_id * 100
        self.files = MemoryFiles("/d")
        self.alive = True
        self.logs = make_logs(self.files, broker_id, safeguards=group.safeguards.log)
        log = self.logs.create(TP, TOPIC_ID, group.config)
        self.partition = self._partition(log, 0)
        self.sync()
        self.machine = self._machine()
        self.session: FollowerSession | None = None
        """The leader's end of this follower's connection."""
        self.answers: list[tuple[FetchResponse, memoryview]] = []
        self.proposals = 0

    def _partition(self, log: Any, high_watermark: int) -> Partition:
        return Partition(
            TP,
            log,
            broker_id=self.broker_id,
            high_watermark=high_watermark,
            owner=self,
            safeguards=self.group.safeguards,
            traffic=TopicTraffic(),
        )

    def _machine(self) -> FollowerMachine:
        return FollowerMachine(
            self.broker_id,
            replica_settings(),
            broker_epoch=lambda: self.broker_epoch,
            on_log_failure=lambda partition: partition.fail(),
        )

    # ---- PartitionOwner

    def isr_change_wanted(self, partition: Partition) -> None:
        self.proposals += 1

    def follower_synced(self, partition: Partition) -> None:
        self.machine.synced(TP)

    def refetch_wanted(self, partition: Partition) -> None:
        self.machine.add(partition)

    def replica_broke_down(self, partition: Partition) -> None:
        self.machine.remove(TP)

    # ---- what a test does

    def sync(self) -> None:
        """Run one round of group commit."""
        self.partition.log.log_dir.flusher.sync_now()

    def take(self, order: LeaderAndIsrPartition, now: float) -> int:
        """Take an order of the controller."""
        code = self.partition.apply_leader_and_isr(order, now)
        if code == 0:
            self.machine.remove(TP)
            if not self.partition.is_leader and order.leader >= 0:
                self.connect()
                self.machine.add(self.partition)
        return code

    def connect(self) -> None:
        """A new connection to the present leader: both ends of the session begin anew."""
        if self.session is not None:
            self.session.close()
        self.session = None
        self.answers.clear()
        self.machine = self._machine()

    def crash(self, keep: Keep) -> None:
        """The process is gone, or with ``none`` the power."""
        self.alive = False
        if self.session is not None:
            self.session.close()
            self.session = None
        for other in self.group.brokers.values():
            if other.partition.leader_id == self.broker_id and other.session is not None:
                other.connect()
                other.machine.add(other.partition)
        self.files = self.files.reborn(keep)

    def restart(self) -> None:
        """Begin a new life with what the disk holds; the role comes with the next order."""
        self.broker_epoch += 1
        checkpointed = self.group.checkpointed_high_watermark.get(self.broker_id, 0)
        self.logs = make_logs(self.files, self.broker_id, safeguards=self.group.safeguards.log)
        log_dir = self.logs.dirs[0]
        start = (log_dir.read_offsets(LOG_START) or {}).get(TP, 0)
        loaded = load_log(
            log_dir.pool,
            f"/d/{TP}",
            interval_bytes=4096,
            recovery_point=0,
            log_start_offset=start,
            clean=False,
            now_ms=NOW_MS,
            producers=self.group.safeguards.log.producer_state(),
        )
        if loaded is None:
            log = self.logs.create(TP, TOPIC_ID, self.group.config)
        else:
            log = self.logs._adopt(log_dir, TP, loaded, self.group.config)
            log_dir.starts.loaded(log, 0 if loaded.marked else start)
        self.partition = self._partition(log, checkpointed)
        self.sync()
        self.machine = self._machine()
        self.alive = True


class Replicas:
    """It is a partition with brokers 1..n, broker 1 leading in epoch 0 with everybody in sync."""

    def __init__(
        self,
        *,
        brokers: int = 3,
        safeguards: Safeguards = SAFE,
        min_isr: int = 1,
        isr: Sequence[int] | None = None,
    ) -> None:
        self.safeguards = safeguards
        self.config = topic_config(min_insync_replicas=min_isr)
        self.loop = asyncio.get_running_loop()
        self.deadlines = Deadlines()
        self.checkpointed_high_watermark: dict[int, int] = {}
        self.time_passed_s = 0.0
        self.acked: list[bytes] = []
        self.failed: list[tuple[bytes, int]] = []
        self.leader_epoch = -1
        self.version = -1
        self.isr: list[int] = list(isr or range(1, brokers + 1))
        self.leader_id = 1
        self.brokers = {i: Broker(self, i) for i in range(1, brokers + 1)}
        self.elect(1)

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[broker_id]

    @property
    def leader(self) -> Broker:
        """Return whom the controller named last."""
        return self.brokers[self.leader_id]

    @property
    def now(self) -> float:
        """Return loop time, plus what ``pass_time`` added."""
        return self.loop.time() + self.time_passed_s

    def pass_time(self, seconds: float) -> None:
        """Let the followers' clocks of lag run."""
        self.time_passed_s += seconds

    # ---- the controller

    def elect(
        self,
        leader_id: int,
        *,
        isr: Sequence[int] | None = None,
        to: Sequence[int] | None = None,
    ) -> LeaderAndIsrPartition:
        """Begin a new leader epoch; the order reaches ``to``, by default every broker alive."""
        self.leader_epoch += 1
        self.version += 1
        self.leader_id = leader_id
        if isr is not None:
            self.isr = list(isr)
        order = LeaderAndIsrPartition(
            "t",
            TOPIC_ID,
            0,
            leader_id,
            self.leader_epoch,
            list(self.isr),
            self.version,
            sorted(self.brokers),
            False,
        )
        for broker_id in sorted(self.brokers) if to is None else to:
            self.deliver(order, broker_id)
        return order

    def deliver(self, order: LeaderAndIsrPartition, broker_id: int) -> int | None:
        """The order arrives, maybe late; None when nobody is there."""
        broker = self.brokers[broker_id]
        return broker.take(order, self.now) if broker.alive else None

    def settle_isr(self, leader_id: int | None = None, *, lose_answer: bool = False) -> bool:
        """Carry one proposal to the controller and the answer back; whether there was one."""
        partition = self.brokers[leader_id or self.leader_id].partition
        item = partition.isr_item()
        if item is None:
            return False
        result = self._alter(partition.broker_id, item)
        partition.isr_answered(item, None if lose_answer else result, self.now)
        return True

    def _alter(self, asker: int, item: AlterPartitionItem) -> AlterPartitionResult:
        members = [member.broker_id for member in item.isr]
        code = 0
        restarted = any(
            member.broker_epoch >= 0
            and (member.broker_epoch != self[member.broker_id].broker_epoch)
            for member in item.isr
        )
        if item.leader_epoch != self.leader_epoch or asker != self.leader_id:
            return AlterPartitionResult("t", 0, FencedLeaderEpochError.code)
        if sorted(members) != sorted(self.isr):
            if item.partition_epoch != self.version:
                code = InvalidUpdateVersionError.code
            elif restarted or not all(self[m].alive for m in members if m not in self.isr):
                return AlterPartitionResult("t", 0, IneligibleReplicaError.code)
            else:
                self.isr = members
                self.version += 1
        return AlterPartitionResult(
            "t", 0, code, self.leader_id, self.leader_epoch, list(self.isr), self.version
        )

    # ---- the data path

    def produce(self, *values: bytes, to: int | None = None, acks: int = Acks.ALL) -> int | None:
        """Produce one batch a value; acknowledgements are gathered in ``acked`` and ``failed``.

        Returns the error code when the leader refused, None when it took them.
        """
        partition = self.brokers[to or self.leader_id].partition
        for value in values:
            try:
                append = partition.append_as_leader(batch_of(value), acks, self.now)
            except ApiError as error:
                return error.code
            partition.when_committed(append.last_offset + 1, self._note(value))
        return None

    def _note(self, value: bytes) -> Any:
        def done(code: int) -> None:
            if code:
                self.failed.append((value, code))
            else:
                self.acked.append(value)

        return done

    def fetch(self, follower_id: int, *, lose_answer: bool = False) -> None:
        """Send one fetch of a follower, answered now; nothing is synced."""
        follower = self.brokers[follower_id]
        leader = self.brokers[follower.partition.leader_id]
        if not leader.alive or not follower.alive:
            return
        if follower.session is None:
            follower.session = FollowerSession(
                follower_id,
                lookup=lambda tp: leader.partition,
                deadlines=self.deadlines,
                now=self.now,
            )
        follower.machine.retry_due(self.now + 60.0)
        request = follower.machine.next_request(self.now)
        request.max_wait_ms = 0
        self.send(follower, request)
        if lose_answer:
            follower.answers.clear()
            return
        self.receive(follower)

    def send(self, follower: Broker, request: FetchRequest) -> None:
        """The request reaches the leader; the answer is kept for ``receive``."""
        assert follower.session is not None

        def respond(message: Any, payload: Sequence[Any] = ()) -> None:
            follower.answers.append((message, memoryview(bytearray(b"".join(payload)))))

        follower.session.handle(request, respond, self.now)

    def receive(self, follower: Broker) -> None:
        """The answers reach the follower."""
        while follower.answers:
            message, payload = follower.answers.pop(0)
            follower.machine.take(message, payload, self.now)

    def sync(self, *broker_ids: int) -> None:
        """Run a round of group commit at these brokers, by default at all that live."""
        for broker_id in broker_ids or sorted(self.brokers):
            if self.brokers[broker_id].alive:
                self.brokers[broker_id].sync()

    def replicate(self, *follower_ids: int, rounds: int = 6) -> None:
        """Fetch and sync until these followers, by default all, have and report everything."""
        for _ in range(rounds):
            self.sync()
            for broker_id in follower_ids or sorted(self.brokers):
                broker = self.brokers[broker_id]
                if broker.alive and not broker.partition.is_leader:
                    self.fetch(broker_id)
                    if broker.alive:
                        broker.sync()
            self.settle_isr()

    # ---- what there is

    def records(self, broker_id: int) -> list[tuple[int, int, bytes]]:
        """Return (offset, leader epoch, value) of everything in a broker's log."""
        log = self.brokers[broker_id].partition.log
        found: list[tuple[int, int, bytes]] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = memoryview(log.read(offset, 1, upto=log.log_end_offset))
            columns = decode_batch(data)
            for at, value in zip(columns.offsets(), columns.values, strict=True):
                found.append((at, columns.header.leader_epoch, value or b""))
            offset = columns.header.next_offset
        return found

    def values(self, broker_id: int) -> list[bytes]:
        return [value for _, _, value in self.records(broker_id)]

    def lost(self) -> list[bytes]:
        """Return acknowledged values that the present leader does not have."""
        held = self.values(self.leader_id)
        return [value for value in self.acked if value not in held]

    def diverged(self) -> bool:
        """Return whether two living brokers hold different records at one offset."""
        seen: dict[int, tuple[int, bytes]] = {}
        for broker_id in sorted(self.brokers):
            if not self.brokers[broker_id].alive:
                continue
            for offset, epoch, value in self.records(broker_id):
                if seen.setdefault(offset, (epoch, value)) != (epoch, value):
                    return True
        return False
