"""DescribeLogDirs, v0 to v1, tells directories of this broker, their space, and what is on each.

Whole-request error: CLUSTER_AUTHORIZATION_FAILED. A directory that is offline: STORAGE_ERROR. One
with logs in which rot was found is listed twice: these replicas follow under CORRUPT_MESSAGE. From
v1 on the copies of replicas that move to a directory are among its replicas.
"""

from __future__ import annotations

from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.server.access import SEE_CLUSTER
from oncelog_broker.server.authorizer import Authorizer
from oncelog_broker.server.request import RequestContext, Respond
from oncelog_protocol.errors import (
    NO_ERROR,
    CorruptMessageError,
    StorageError,
)
from oncelog_protocol.messages.admin import (
    DescribedLogDir,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ReplicaSize,
)
from oncelog_runtime.files import Files


class DescribeLogDirsHandler:
    """It answers from the logs and the file system."""

    def __init__(
        self, files: Files, logs: LogManager, replicas: ReplicaManager, authorizer: Authorizer
    ) -> None:
        self._files = files
        self._logs = logs
        self._replicas = replicas
        self._authorizer = authorizer

    def handle(
        self,
        context: RequestContext,
        request: DescribeLogDirsRequest,
        payload: memoryview,
        respond: Respond,
    ) -> None:
        """Answer from the logs, for a principal that may describe the cluster.

        :raises ClusterAuthorizationFailedError: it may not.
        """
        SEE_CLUSTER.demand(self._authorizer, context)
        found: dict[str, list[ReplicaSize]] = {d.path: [] for d in self._logs.dirs}
        rotten: dict[str, list[ReplicaSize]] = {d.path: [] for d in self._logs.dirs}
        for log in self._asked(request):
            replica = self._replicas.held(log.topic_partition)
            is_sound = replica is None or not replica.repair.needed or not log.log_dir.online
            entry = found if is_sound else rotten
            entry[log.log_dir.path].append(self._replica(log))
        if context.api_version >= 1:
            for path, future in self._futures(request):
                found[path].append(future)
        listed = [self._directory(d.path, d.online, found[d.path]) for d in self._logs.dirs]
        for path, replicas in rotten.items():
            if replicas:
                listed.append(DescribedLogDir(CorruptMessageError.code, path, -1, -1, replicas))
        respond(DescribeLogDirsResponse(NO_ERROR, listed))

    def _asked(self, request: DescribeLogDirsRequest) -> list[PartitionLog]:
        """Return the logs that are asked for. It costs as much as they are, not as all are: a
        console asks again and again for some topics of many."""
        if request.topics is None:
            return self._logs.all()
        logs = (
            log for topic in dict.fromkeys(request.topics) for log in self._logs.of_topic(topic)
        )
        return sorted(logs, key=lambda log: log.topic_partition)

    def _futures(self, request: DescribeLogDirsRequest) -> list[tuple[str, ReplicaSize]]:
        """Return what is going to be elsewhere, with where."""
        futures = []
        for future in self._logs.moves.under_way():
            topic, partition = future.topic_partition
            log = self._logs.get(future.topic_partition)
            if log is None or (request.topics is not None and topic not in request.topics):
                continue
            size = ReplicaSize(
                topic,
                partition,
                future.size_bytes,
                log.log_start_offset,
                future.end_offset,
                min(self._watermark(log), future.end_offset),
                is_future=True,
                offset_lag=log.log_end_offset - future.end_offset,
            )
            futures.append((future.path, size))
        return futures

    def _watermark(self, log: PartitionLog) -> int:
        watermark = self._replicas.high_watermark(log.topic_partition)
        return log.log_start_offset if watermark is None else watermark

    def _directory(self, path: str, online: bool, replicas: list[ReplicaSize]) -> DescribedLogDir:
        if online:
            try:
                space = self._files.disk_space(path)
                return DescribedLogDir(
                    NO_ERROR, path, space.total_bytes, space.free_bytes, replicas
                )
            except OSError:
                pass
        return DescribedLogDir(StorageError.code, path, -1, -1, replicas)

    def _replica(self, log: PartitionLog) -> ReplicaSize:
        return ReplicaSize(
            log.topic_partition.topic,
            log.topic_partition.partition,
            log.size_bytes,
            log.log_start_offset,
            log.log_end_offset,
            self._watermark(log),
        )
