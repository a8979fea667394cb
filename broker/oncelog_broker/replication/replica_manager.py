"""The replica manager keeps all replicas of one broker and applies the controller's orders.

* A LeaderAndIsr is applied per partition, wholly or not at all [Z13]; repeating one is harmless
  [Z15]. The server has checked before whether the sender is the controller, and means this life of
  the broker. Orders of many partitions are applied some a turn, in the line in which they came:
  neither another one nor a stop begins before.
* Every follower belongs to exactly one fetch loop, the one of its leader; a leader belongs to none
  [I13].
* The topic id decides whose data a directory holds [K25]: one with another id is moved out of the
  way before the partition begins anew.
* A place is cleared by one task, to move a former topic's log aside or to delete. A deletion that
  is ordered meanwhile waits for its end; the newest state of a replica there is applied then.
* When a directory fails its replicas stop at once and alone; produces and fetches for them are
  answered with STORAGE_ERROR, and so are orders, which tells the controller. So does a replica that
  has found itself wrong (``invariants``); no other does.
* Nothing is said to be deleted that is, or may be, in a directory that is offline: it would be
  there again after a repair, and nobody would know of it [M8]. The order comes again when the
  broker registers the next time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.catch_up import Paces, ReplicaLanes
from oncelog_broker.replication.fetch_loop import FetchLoop
from oncelog_broker.replication.follower import FollowerMachine
from oncelog_broker.replication.invariants import InvariantError, check_fetchers
from oncelog_broker.replication.isr_sender import IsrSender
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import IsrPort, LeaderConnector, ReplicaConfig
from oncelog_broker.replication.purgatory import Deadlines
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.replication.traffic import TrafficTable
from oncelog_protocol.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidConfigError,
    NotLeaderOrFollowerError,
    OncelogError,
    StorageError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol.messages.broker_reports import NO_LEADER, NO_ROOM, OUT_OF_SERVICE
from oncelog_protocol.messages.replication import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    ReplicaResult,
    StopPartition,
    StopReplicaRequest,
)
from oncelog_protocol.topic_config import TopicConfig, parse_topic_config
from oncelog_protocol.types import NO_BROKER, FetchLane, TopicPartition
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.pause import Pause
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

ORDERS_PER_TURN = 8
"""So many new partitions, which are some files each, are made in one turn."""
STOPS_AT_ONCE = 16
"""So many replicas are deleted side by side: in a row, each would wait for the disk alone."""
CONFIGS_PER_TURN = 128
"""So many logs take on changed settings of the broker in one turn."""
WITHOUT_OVERRIDES = ""
"""It is no topic's name, and stands for all topics without overrides."""
CHECKS_PER_TURN = 128
"""One turn of the lag check looks at so many replicas."""

TOPIC_DELETED = -2
"""A StopReplica that comes of the topic's deletion has this leader epoch: it is newer than any."""


@dataclass(slots=True, eq=False)
class _Clearing:
    """A place is being cleared while its log is being deleted."""

    newest: LeaderAndIsrPartition | None
    """It is the newest state of a replica there, to be applied afterwards."""
    task: asyncio.Task[int] | None = None

    async def ended(self) -> int:
        """Wait for the end; the waiting task may be cancelled without cancelling it."""
        assert self.task is not None
        return await asyncio.shield(self.task)


class ReplicaManager:
    """It is the face of replication to the server. It is made before the loop runs; ``start``
    begins its work."""

    def __init__(
        self,
        *,
        broker_id: int,
        logs: LogManager,
        clock: WallClock,
        entropy: Entropy,
        config: ReplicaConfig,
        isr_port: IsrPort,
        connector: LeaderConnector,
        safeguards: Safeguards = SAFE,
        on_failure: Callable[[str, BaseException], None] | None = None,
        on_broken_replica: Callable[[], None] | None = None,
        is_known: Callable[[TopicPartition], bool] | None = None,
    ) -> None:
        """``on_broken_replica`` has the controller asked for its orders, so that it is told.
        ``is_known`` tells whether the cluster has such a partition somewhere; this tells *not here*
        from *nowhere*."""
        self.broker_id = broker_id
        self.broker_epoch = -1
        """It is the czxid of the registration, and is sent with every fetch."""
        self.deadlines = Deadlines()
        self.traffic = TrafficTable()
        self.leaderships_taken = 0
        """So many orders have made a replica here the leader."""
        self.assertions_failed = 0
        """So many replicas broke down because they contradicted themselves."""
        self.on_leadership: list[Callable[[Partition], None]] = []
        """They are told of a replica whose role may be another one now: an order was applied, or it
        was stopped or has failed. The call may repeat itself, and must be cheap."""
        self._logs = logs
        self._clock = clock
        self._entropy = entropy
        self._config = config
        self._connector = connector
        self._safeguards = safeguards
        self.isr_sender = IsrSender(isr_port, config, entropy)
        self._partitions: dict[TopicPartition, Partition] = {}
        self._loops: dict[tuple[int, FetchLane], FetchLoop] = {}
        self._followed_from: dict[TopicPartition, tuple[int, FetchLane]] = {}
        self._lanes = ReplicaLanes(config)
        self.paces = Paces(config)
        self._overrides: dict[str, dict[str, str]] = {}
        self._configs: dict[str, TopicConfig] = {}
        """They are what overrides and defaults come to, where somebody has asked."""
        self._watermarks: dict[TopicPartition, int] = {}
        self._unwritable: dict[TopicPartition, None] = {}
        """These gave way: until their directory takes writes again they do not follow."""
        self._clearings: dict[TopicPartition, _Clearing] = {}
        self._on_broken_replica = on_broken_replica
        self._is_known = is_known
        self._in_line = asyncio.Lock()
        """The lock is held while a request is being applied."""
        self._tasks = Tasks("replication", on_failure)
        self._lag_pause = Pause()
        self._unsettled: deque[PartitionLog] = deque()
        """These logs go by settings of which the broker has others now."""
        self._settling = False
        """It tells whether a later turn goes on with them."""
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- life

    def registered(self, broker_epoch: int) -> None:
        """Tell all leaders of a new registration of this broker. It is the same process and holds
        what it held, but they would propose it under an epoch that counts no more."""
        self.broker_epoch = broker_epoch
        for loop in self._loops.values():
            loop.name_again()

    async def start(self) -> None:
        """Begin; the logs are loaded. Partitions appear with the controller's orders."""
        self._loop = asyncio.get_running_loop()
        self.paces.start(self._loop)
        for log_dir in self._logs.dirs:
            log_dir.flusher.tell_rounds(self.paces.watch_disk())
        self._watermarks = dict(self._logs.high_watermark_checkpoint())
        self._logs.set_high_watermark_source(self.high_watermarks)
        self._logs.tell_damage_to(self._damage_found)
        self._logs.moves.go_by(self.paces.fetched, self._log_moved)
        self._tasks.spawn("isr changes", self.isr_sender.run())
        self._tasks.spawn("lag checks", self._check_lag())

    async def stop(self) -> None:
        """Stop fetching and serving; everybody who waits is told to ask elsewhere."""
        for fetched_from in sorted(self._loops):
            self._loops[fetched_from].close()
        self.paces.close()
        for partition in self.partitions():
            partition.stop()
        self.deadlines.close()
        await self._tasks.close()

    def now(self) -> float:
        """Return the loop time in seconds. Handlers ask for it with every request: looking the
        running loop up each time costs a system call."""
        loop = self._loop if self._loop is not None else asyncio.get_running_loop()
        return loop.time()

    # ---- the table

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """Return the replica of a partition.

        :raises NotLeaderOrFollowerError: other brokers have it.
        :raises UnknownTopicOrPartitionError: nobody has it, as far as this broker knows.
        """
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition
        if self._is_known is not None and self._is_known(topic_partition):
            raise NotLeaderOrFollowerError(f"{topic_partition} has no replica here")
        raise UnknownTopicOrPartitionError(f"{topic_partition} is not known here")

    def hindrance(self, partition: Partition) -> str:
        """Return what keeps a replica that does not lead from catching up, in the words of broker
        reports; "": nothing."""
        if partition.failed:
            return OUT_OF_SERVICE
        if partition.log.log_dir.full:
            return NO_ROOM
        fetched_from = self._followed_from.get(partition.topic_partition)
        if fetched_from is None:
            return NO_LEADER
        return self._loops[fetched_from].hindrance(partition.topic_partition)

    @property
    def task_count(self) -> int:
        """Return how many background tasks run."""
        return len(self._tasks)

    def partitions(self) -> list[Partition]:
        """Return all replicas, by topic and number."""
        return [self._partitions[key] for key in sorted(self._partitions)]

    def held(self, topic_partition: TopicPartition) -> Partition | None:
        """Return the replica of a partition; None where no order has named one here yet."""
        return self._partitions.get(topic_partition)

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """Return the high watermark of a replica; if no order has named it yet, it is the
        checkpointed one, None without one."""
        partition = self._partitions.get(topic_partition)
        if partition is not None:
            return partition.high_watermark
        return self._watermarks.get(topic_partition)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the high watermark of every replica; if no order has named it yet, it is the
        checkpointed one."""
        known = {key: p.high_watermark for key, p in self._partitions.items()}
        return {**self._watermarks, **known}

    # ---- LeaderAndIsr

    async def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> list[ReplicaResult]:
        """Take the roles that the controller gives; return one result a partition, in order. A
        request of few partitions is applied at once."""
        async with self._in_line:
            for number, config in enumerate(request.configs, start=1):
                self.reconfigure_topic(
                    config.topic, dict(zip(config.keys, config.values, strict=False))
                )
                if number % ORDERS_PER_TURN == 0:
                    await asyncio.sleep(0)
            results = []
            for number, state in enumerate(request.partitions, start=1):
                code = self._apply_partition(state, self.now())
                results.append(ReplicaResult(state.topic, state.partition, code))
                if number % ORDERS_PER_TURN == 0:
                    await asyncio.sleep(0)
            if request.full:
                self._note_strays(
                    {TopicPartition(o.topic, o.partition) for o in request.partitions}
                )
            return results

    def _apply_partition(self, state: LeaderAndIsrPartition, now: float) -> int:
        topic_partition = TopicPartition(state.topic, state.partition)
        clearing = self._clearings.get(topic_partition)
        if clearing is not None:
            clearing.newest = state
            return InconsistentTopicIdError.code
        try:
            partition = self._replica_for(topic_partition, state)
        except (StorageError, OSError) as error:
            logger.error("replica_without_log", partition=topic_partition, error=error)
            return StorageError.code
        except InconsistentTopicIdError as error:
            # The topic was deleted and made anew. Orders come in their order from one controller,
            # so the order's id is the present one and ours is of the past.
            logger.warning("old_log_removed", partition=topic_partition, error=error)
            self._remove(topic_partition)
            self._clear(topic_partition, state)
            return error.code
        isr, epoch = partition.isr, partition.leader_epoch
        code = partition.apply_leader_and_isr(state, now)
        if code == 0:
            if partition.is_leader and partition.leader_epoch != epoch:
                self.leaderships_taken += not isr
                self.isr_sender.count_change(isr, partition)
            self._follow_leader_of(partition)
            self._check_fetchers(partition)
        self._tell_leadership(partition)
        return code

    def _tell_leadership(self, partition: Partition) -> None:
        """Tell the listeners of a role; their failures must not keep a request from being
        applied."""
        for callback in self.on_leadership:
            try:
                callback(partition)
            except Exception:
                logger.exception("role_callback_failed", partition=partition.topic_partition)

    def _clear(
        self, topic_partition: TopicPartition, state: LeaderAndIsrPartition | None
    ) -> _Clearing:
        """Begin to delete what holds a place; ``state`` is applied when it is free."""
        clearing = self._clearings[topic_partition] = _Clearing(state)
        clearing.task = self._tasks.spawn(
            f"clear {topic_partition}", self._run_clearing(topic_partition, clearing)
        )
        return clearing

    async def _run_clearing(self, topic_partition: TopicPartition, clearing: _Clearing) -> int:
        """Delete the log, and return the error code that answers a StopReplica."""
        code = 0
        try:
            await self._logs.delete(topic_partition)
        except (StorageError, OSError) as error:
            logger.error("replica_not_deleted", partition=topic_partition, error=error)
            code = StorageError.code
        finally:
            del self._clearings[topic_partition]
        if clearing.newest is not None:
            self._apply_partition(clearing.newest, self.now())
        return code

    def _replica_for(
        self, topic_partition: TopicPartition, state: LeaderAndIsrPartition
    ) -> Partition:
        partition = self._partitions.get(topic_partition)
        if partition is not None and partition.topic_id == state.topic_id:
            return partition
        if self._logs.get(topic_partition) is None and not state.is_new and self._some_offline():
            raise StorageError("it may be in a directory that is offline")
        log = self._logs.create(topic_partition, state.topic_id, self._topic_config(state.topic))
        partition = Partition(
            topic_partition,
            log,
            broker_id=self.broker_id,
            high_watermark=self._watermarks.pop(topic_partition, 0),
            owner=self,
            safeguards=self._safeguards,
            traffic=self.traffic.acquire(topic_partition.topic),
        )
        if not log.log_dir.online:
            partition.fail()
        self._partitions[topic_partition] = partition
        return partition

    def _some_offline(self) -> bool:
        return not all(directory.online for directory in self._logs.dirs)

    def _follow_leader_of(self, partition: Partition) -> None:
        topic_partition = partition.topic_partition
        leader_id = partition.leader_id
        before = self._followed_from.get(topic_partition)
        if leader_id == NO_BROKER or partition.is_leader or topic_partition in self._unwritable:
            self._stop_following(topic_partition)
            return
        loop = None if before is None or before[0] != leader_id else self._loops[before]
        if loop is not None and loop.leader_epoch_of(topic_partition) == partition.leader_epoch:
            return
        lane_before = None if before is None else before[1]
        self._follow_on(partition, self._lanes.first(partition, lane_before))

    def _follow_on(self, partition: Partition, lane: FetchLane) -> None:
        """Follow a partition on a lane to its leader, and on no other."""
        fetched_from = (partition.leader_id, lane)
        if self._followed_from.get(partition.topic_partition) != fetched_from:
            self._stop_following(partition.topic_partition)
        loop = self._loops.get(fetched_from)
        if loop is None:
            loop = self._loops[fetched_from] = self._make_loop(*fetched_from)
        self._followed_from[partition.topic_partition] = fetched_from
        loop.add(partition)

    def _stop_following(self, topic_partition: TopicPartition) -> None:
        before = self._followed_from.pop(topic_partition, None)
        if before is not None:
            self._loops[before].remove(topic_partition)

    def _make_loop(self, leader_id: int, lane: FetchLane) -> FetchLoop:
        machine = FollowerMachine(
            self.broker_id,
            self._config,
            broker_epoch=lambda: self.broker_epoch,
            on_log_failure=self._log_failed,
            lane=lane,
            lanes=self._lanes,
            on_other_lane=self._follow_on,
        )
        return FetchLoop(
            leader_id,
            machine,
            connector=self._connector,
            config=self._config,
            entropy=self._entropy,
            tasks=self._tasks,
            pace=self.paces.fetched if lane is FetchLane.CATCH_UP else None,
        )

    def _remove(self, topic_partition: TopicPartition) -> None:
        """Remove a replica that is this broker's no longer."""
        self._stop_following(topic_partition)
        self._lanes.forget(topic_partition)
        partition = self._partitions.pop(topic_partition, None)
        if partition is not None:
            self.traffic.release(topic_partition.topic)
            partition.stop()
            self._tell_leadership(partition)
        self._watermarks.pop(topic_partition, None)
        self._unwritable.pop(topic_partition, None)

    def _note_strays(self, listed: set[TopicPartition]) -> None:
        """Remove replicas that the controller does not count as ours: they serve nobody. Their data
        stays: a deleted topic that comes back has another id, and then the old log goes."""
        for partition in self.partitions():
            if partition.topic_partition not in listed:
                logger.warning("replica_not_ours", partition=partition.topic_partition)
                self._remove(partition.topic_partition)
        for log in self._logs.all():
            if log.topic_partition not in listed:
                logger.warning("replica_stray", partition=log.topic_partition, path=log.directory)

    async def stop_replicas(self, request: StopReplicaRequest) -> list[ReplicaResult]:
        """Stop serving replicas, and delete those that the controller says, some at a time."""
        results = []
        for first in range(0, len(request.partitions), STOPS_AT_ONCE):
            group = request.partitions[first : first + STOPS_AT_ONCE]
            async with self._in_line:
                begun = [self._stop_replica(stop) for stop in group]
            for stop, code in zip(group, begun, strict=True):
                if isinstance(code, _Clearing):
                    code = await code.ended()
                results.append(ReplicaResult(stop.topic, stop.partition, code))
        return results

    def _stop_replica(self, stop: StopPartition) -> int | _Clearing:
        """Begin to stop a replica; return the error code that answers, or what is to end first."""
        topic_partition = TopicPartition(stop.topic, stop.partition)
        clearing = self._clearings.get(topic_partition)
        if clearing is not None:
            waiting = clearing.newest
            if (
                waiting is not None
                and waiting.topic_id == stop.topic_id
                and (
                    stop.leader_epoch == TOPIC_DELETED or stop.leader_epoch >= waiting.leader_epoch
                )
            ):
                # The place is still held, and a newer state must wait for it.
                clearing.newest = None
            return clearing if stop.delete else 0
        partition = self._partitions.get(topic_partition)
        log = self._logs.get(topic_partition)
        if log is not None and log.topic_id and log.topic_id != stop.topic_id:
            # The log here belongs to a topic of the same name; the one meant is gone already.
            logger.info("replica_unknown", partition=topic_partition, topic_id=stop.topic_id)
            return StorageError.code if stop.delete and self._some_offline() else 0
        if (
            partition is not None
            and stop.leader_epoch != TOPIC_DELETED
            and stop.leader_epoch < partition.leader_epoch
        ):
            return FencedLeaderEpochError.code
        self._remove(topic_partition)
        if not stop.delete:
            return 0
        if log is None:
            return StorageError.code if self._some_offline() else 0
        return self._clear(topic_partition, None) if log.log_dir.online else StorageError.code

    # ---- configs

    def reconfigure_topic(self, topic: str, overrides: dict[str, str]) -> None:
        """Replace all overrides of a topic; they take effect on its replicas here."""
        if overrides:
            self._overrides[topic] = dict(overrides)
        else:
            self._overrides.pop(topic, None)
        self._configs.pop(topic, None)
        config = self._topic_config(topic)
        for log in self._logs.of_topic(topic):
            if log.config != config:
                log.reconfigure(config)

    def forget_settings(self, known: Container[str]) -> None:
        """Drop the overrides of topics that are not ``known`` any more, and have no log here."""
        for topic in [t for t in self._overrides if t not in known and not self._logs.of_topic(t)]:
            del self._overrides[topic]
            self._configs.pop(topic, None)

    def settings_changed(self) -> None:
        """Apply the broker's changed settings, and with them the defaults of topics. If there are
        many logs, some take them on now, and the others in later turns."""
        self._lag_pause.end()
        self._configs.clear()
        self._unsettled = deque(self._logs.all())
        if not self._settling:
            self._settle_some()

    def _settle_some(self) -> None:
        for _ in range(min(CONFIGS_PER_TURN, len(self._unsettled))):
            log = self._unsettled.popleft()
            config = self._topic_config(log.topic_partition.topic)
            if log.config != config and self._logs.get(log.topic_partition) is log:
                log.reconfigure(config)
        self._settling = bool(self._unsettled)
        if self._settling:
            asyncio.get_running_loop().call_soon(self._settle_some)

    def _topic_config(self, topic: str) -> TopicConfig:
        """Return what holds for a topic. Its partitions share it, and topics without overrides do
        with each other."""
        name = topic if topic in self._overrides else WITHOUT_OVERRIDES
        if name not in self._configs:
            self._configs[name] = self._parsed(name)
        return self._configs[name]

    def _parsed(self, topic: str) -> TopicConfig:
        defaults = self._logs.topic_defaults
        try:
            return parse_topic_config(self._overrides.get(topic, {}), defaults)
        except InvalidConfigError as error:
            # The controller checked it; a newer release may know settings that we do not.
            logger.error("topic_settings_ignored", topic=topic, error=error)
            return parse_topic_config({}, defaults)

    # ---- failures

    def directory_failed(self, directory: LogDir) -> None:
        """Stop the replicas of a log directory that went offline [K26]."""
        for partition in self.partitions():
            if partition.log.log_dir is directory:
                self._log_failed(partition)

    def _log_failed(self, partition: Partition) -> None:
        self._stop_following(partition.topic_partition)
        partition.fail()
        self._tell_leadership(partition)

    def _check_fetchers(self, partition: Partition) -> None:
        """Check that exactly one loop fetches for a follower, and none for others [I13]."""
        topic_partition = partition.topic_partition
        fetchers = sorted(
            (leader_id, loop.leader_epoch_of(topic_partition))
            for (leader_id, _), loop in self._loops.items()
            if topic_partition in loop
        )
        follows = not (partition.is_leader or partition.failed or partition.leader_id == NO_BROKER)
        follows = follows and topic_partition not in self._unwritable
        wanted = [(partition.leader_id, partition.leader_epoch)] if follows else []
        try:
            check_fetchers(fetchers, wanted)
        except InvariantError as error:
            for loop in self._loops.values():
                loop.remove(topic_partition)
            self._followed_from.pop(topic_partition, None)
            partition.break_down(error)

    def _damage_found(self, log: PartitionLog, damage: str) -> None:
        """Tell the replica of corruption that the scrubber has found in its log."""
        partition = self._partitions.get(log.topic_partition)
        if partition is not None and partition.log is log:
            partition.corruption_found(damage)
        else:
            logger.error("replica_damaged", path=log.directory, error=damage)

    def give_way(self, partitions: Sequence[Partition]) -> None:
        """Have other replicas lead partitions that are led here and cannot be written to. These go
        on until then, and follow when writes are taken again (``writable_again``): sooner they
        would be in sync with a leader to whom nobody writes, and be made leaders again."""
        for partition in partitions:
            if partition.leader is not None:
                partition.leader.give_way()
                self._unwritable[partition.topic_partition] = None
                self._tell_leadership(partition)
        if partitions:
            self._ask_for_orders()

    def _log_moved(self, log: PartitionLog) -> None:
        """Go on with a replica that gave way, if its log is in a directory now that takes
        writes."""
        if log.topic_partition in self._unwritable and not log.log_dir.full:
            self.writable_again(log.log_dir)

    def writable_again(self, directory: LogDir) -> None:
        """Let replicas follow again whose directory was full, or did not answer. They lead on where
        they still do, or where nobody does: the broker that was to lead may have died at once."""
        leaderless = False
        for topic_partition in list(self._unwritable):
            partition = self._partitions[topic_partition]
            if partition.log.log_dir is directory:
                del self._unwritable[topic_partition]
                leaderless |= partition.leader_id == NO_BROKER
                if partition.leader is not None:
                    partition.leader.stay()
                if not partition.failed:
                    self._follow_leader_of(partition)
        if leaderless:
            self._ask_for_orders()

    # ---- PartitionOwner

    def refetch_wanted(self, partition: Partition) -> None:
        """Name the partition again: that is when a damaged log is dropped."""
        fetched_from = self._followed_from.get(partition.topic_partition)
        if fetched_from is not None:
            self._loops[fetched_from].add(partition)

    def replica_broke_down(self, partition: Partition) -> None:
        """Stop fetching, and have the controller ask: it hears of it only then."""
        self.assertions_failed += partition.failed
        self._stop_following(partition.topic_partition)
        self._tell_leadership(partition)
        self._ask_for_orders()

    def _ask_for_orders(self) -> None:
        if self._on_broken_replica is not None:
            self._on_broken_replica()

    def isr_change_wanted(self, partition: Partition) -> None:
        """Queue a partition that has a proposal for the controller."""
        self.isr_sender.enqueue(partition)

    def follower_synced(self, partition: Partition) -> None:
        """Go on with a follower whose log has become durable further on."""
        fetched_from = self._followed_from.get(partition.topic_partition)
        if fetched_from is not None:
            self._loops[fetched_from].synced(partition)

    async def _check_lag(self) -> None:
        """Check twice per lag time, for ever, which followers lag and must leave the ISR."""
        while True:
            await self._lag_pause.sleep(self._config.replica_lag_time_max_ms / 1000 / 2)
            await self.check_lag_once()

    async def check_lag_once(self) -> None:
        """Look at every replica once, some a turn."""
        lag_s_max = self._config.replica_lag_time_max_ms / 1000
        for number, partition in enumerate(self.partitions(), start=1):
            if self._partitions.get(partition.topic_partition) is not partition:
                continue  # gone since
            try:
                partition.check_invariants()
                self._check_fetchers(partition)
                partition.check_isr(self.now(), lag_s_max)
            except OncelogError:
                logger.exception("lag_check_failed", partition=partition.topic_partition)
            if number % CHECKS_PER_TURN == 0:
                await asyncio.sleep(0)
