"""Leaders whose disk is full or does not answer give way to followers that can be written to.

* A full disk refuses writes and goes on reading, so its leaders would refuse for as long as it is
  full. While a directory is full, the brokers of in-sync followers are asked how much room they
  have (DescribeLogDirs). A leader with such a follower gives the leadership away.
* A disk that does not answer lets writes wait until its directory is given up, and that may be
  long. A leader whose writes wait gives way sooner, as soon as a follower holds on its own disk
  what the leader's log held when the round of syncs began. Nobody needs to be asked.

A leader without such a follower stays, and serves readers. A leader that gave way does not follow
before its directory takes writes again: on an idle partition it would be in sync at once, and be
made the leader again.
"""

from __future__ import annotations

import asyncio

from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.server.broker_calls import BrokerCalls
from oncelog_protocol.errors import OncelogError, StorageError
from oncelog_protocol.messages.admin import DescribeLogDirsRequest, DescribeLogDirsResponse
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

LOOK_S = 1.0
"""The directories are looked at this often."""

LEADERS_PER_TURN = 128
"""One turn of the loop looks at so many leaders."""

ASK_S = 5.0
"""A broker may take so long to answer."""


class GivingWay:
    """It lets the leaders of one broker give way."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        calls: BrokerCalls,
        *,
        safeguards: Safeguards = SAFE,
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._calls = calls
        self._safeguards = safeguards

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look_here()
            for log_dir in self._logs.dirs:
                await self.look_at_stall(log_dir)
            if any(log_dir.full for log_dir in self._logs.dirs):
                await self.look()

    def close(self) -> None:
        """Stop asking others."""
        self._calls.close()

    def look_here(self) -> None:
        """Let replicas follow again in directories that take writes again."""
        for log_dir in self._logs.dirs:
            if log_dir.full:
                try:
                    log_dir.take_space(0, internal=False)
                except StorageError:
                    continue
            if log_dir.flusher.stalled_since is None:
                self._replicas.writable_again(log_dir)

    # ---- disks that do not answer

    async def look_at_stall(self, log_dir: LogDir) -> None:
        """Give away the partitions that wait for this directory and are safe elsewhere, if it
        stalls."""
        if not self._safeguards.gives_way(log_dir.flusher.stalled_since is not None):
            return
        partitions = self._replicas.partitions()
        for first in range(0, len(partitions), LEADERS_PER_TURN):
            group = partitions[first : first + LEADERS_PER_TURN]
            self._replicas.give_way([p for p in group if self._is_elsewhere(p, log_dir)])
            await asyncio.sleep(0)

    def _is_elsewhere(self, partition: Partition, log_dir: LogDir) -> bool:
        """Return whether what waits for this directory is synced on another replica that may
        lead."""
        log, leader, since = partition.log, partition.leader, log_dir.flusher.stalled_since
        if leader is None or leader.gives_way or log.log_dir is not log_dir or since is None:
            return False
        now = self._replicas.now()
        able = leader.ahead(log.synced_offset, log.log_end_offset, since, now)
        if able:
            logger.warning(
                "leader_stalls",
                partition=partition.topic_partition,
                seconds=round(now - since, 1),
                successor=able[0],
            )
        return bool(able)

    # ---- full disks

    async def look(self) -> None:
        """Give away what others can lead better."""
        stuck = {
            partition: successors
            for partition in self._replicas.partitions()
            if (successors := self._successors(partition))
        }
        with_room: dict[tuple[int, TopicPartition], None] = {}
        topics = sorted({partition.topic_partition.topic for partition in stuck})
        for broker_id in sorted({member for members in stuck.values() for member in members}):
            with_room |= await self._ask(broker_id, topics)
        leaving = []
        for partition in stuck:
            name = partition.topic_partition
            # Looked at again: an answer may have taken its time.
            able = [m for m in self._successors(partition) if (m, name) in with_room]
            if able:
                logger.warning("leader_without_room", partition=name, successor=able[0])
                leaving.append(partition)
        self._replicas.give_way(leaving)

    def _successors(self, partition: Partition) -> list[int]:
        leader = partition.leader
        if leader is None or leader.gives_way or not partition.log.log_dir.full:
            return []
        return leader.successors(self._replicas.now())

    async def _ask(
        self, broker_id: int, topics: list[str]
    ) -> dict[tuple[int, TopicPartition], None]:
        """Return the replicas there that have room to grow."""
        try:
            response: DescribeLogDirsResponse = await self._calls.call(
                broker_id, DescribeLogDirsRequest(topics), timeout_s=ASK_S
            )
        except (OSError, TimeoutError, OncelogError) as error:
            logger.info("room_not_known", peer=broker_id, error=error)
            return {}
        headroom_bytes = self._logs.config.headroom_bytes
        return {
            (broker_id, TopicPartition(replica.topic, replica.partition)): None
            for log_dir in response.log_dirs
            # Twice what is kept back: leaderships shall not go round and round.
            if not log_dir.error_code
            and log_dir.free_bytes > 2 * min(headroom_bytes, log_dir.total_bytes // 20)
            for replica in log_dir.replicas
        }
