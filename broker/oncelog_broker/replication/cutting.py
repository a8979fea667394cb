"""A follower's log is not its leader's: how the replica gives up what must go.

Rules:

- the log is cut where the common part ends (KIP-279), also when that is its end: an epoch without
  records must go (KAFKA-10706);
- the high watermark goes along: what was cut below it was committed, and is counted as lost;
- producers and transactions are known again, as of the new end, before either moves (B13):
  ``PartitionLog`` sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog_broker.replication import logged
from oncelog_broker.replication.divergence import common_end
from oncelog_protocol.messages.fetch import EpochEnd

if TYPE_CHECKING:
    from oncelog_broker.replication.partition import Partition

logger = logged.get_logger(__name__)


def truncate_to_divergence(partition: Partition, diverging: EpochEnd) -> None:
    """Cut where the leader's log parts from ours. Raises StorageError."""
    log = partition.log
    before = log.log_end_offset
    log.truncate_to(common_end(log, diverging))
    cut = partition.high_watermark - log.log_end_offset
    if cut > 0:
        partition.committed_records_cut += cut
        partition.high_watermark = log.log_end_offset
        logger.error(logged.COMMITTED_RECORDS_CUT, partition.topic_partition, cut)
    logger.info(
        logged.FOLLOWER_CUT,
        partition.topic_partition,
        before,
        log.log_end_offset,
        diverging.leader_epoch,
        diverging.end_offset,
    )


def restart_log_at(partition: Partition, offset: int) -> None:
    """Drop everything and begin again at ``offset`` (KAFKA-9491). Raises StorageError."""
    log = partition.log
    if log.needs_refetch:
        partition.repair.begins()
    logger.warning(
        logged.FOLLOWER_BEGAN_ANEW,
        partition.topic_partition,
        log.log_start_offset,
        log.log_end_offset,
        offset,
    )
    log.truncate_fully_and_start_at(offset)
    partition.repair.dropped()
    partition.high_watermark = offset
