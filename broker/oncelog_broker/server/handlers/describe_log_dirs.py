"""DescribeLogDirs, v0, tells directories of this broker, their space, and the replicas on each.

Whole-request error: CLUSTER_AUTHORIZATION_FAILED. A directory that is offline: STORAGE_ERROR. One
with logs in which rot was found is listed twice: these replicas follow under CORRUPT_MESSAGE.
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
        wanted = None if request.topics is None else frozenset(request.topics)
        watermarks = self._replicas.high_watermarks()
        found: dict[str, list[ReplicaSize]] = {d.path: [] for d in self._logs.dirs}
        rotten: dict[str, list[ReplicaSize]] = {d.path: [] for d in self._logs.dirs}
        damaged = {p.topic_partition for p in self._replicas.partitions() if p.repair.needed}
        for log in self._logs.all():
            if wanted is None or log.topic_partition.topic in wanted:
                watermark = watermarks.get(log.topic_partition, log.log_start_offset)
                is_sound = log.topic_partition not in damaged or not log.log_dir.online
                entry = found if is_sound else rotten
                entry[log.log_dir.path].append(_replica(log, watermark))
        listed = [self._directory(d.path, d.online, found[d.path]) for d in self._logs.dirs]
        for path, replicas in rotten.items():
            if replicas:
                listed.append(DescribedLogDir(CorruptMessageError.code, path, -1, -1, replicas))
        respond(DescribeLogDirsResponse(NO_ERROR, listed))

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


def _replica(log: PartitionLog, high_watermark: int) -> ReplicaSize:
    return ReplicaSize(
        log.topic_partition.topic,
        log.topic_partition.partition,
        log.size_bytes,
        log.log_start_offset,
        log.log_end_offset,
        high_watermark,
    )
