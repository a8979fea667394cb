"""What a leader does about its ISR: whom it proposes to remove or to add, and the answers.

The state of a change is ``isr``'s, who may join or must leave is ``leadership``'s; here is when the
partition asks, and what it says about it in the log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncelog_broker.replication import logged
from oncelog_broker.replication.leadership import LeaderRole
from oncelog_protocol.messages.replication import AlterPartitionResult

if TYPE_CHECKING:
    from oncelog_broker.replication.partition import Partition

logger = logged.get_logger(__name__)


def propose(partition: Partition, leader: LeaderRole, now: float, lag_s_max: float) -> bool:
    """Propose to remove followers that have not kept up, or else to add one that has; whether
    there is something to ask for."""
    end = partition.log.log_end_offset
    lagging = leader.lagging(end, now, lag_s_max)
    if lagging and leader.propose_leave(lagging):
        logger.warning(
            logged.FOLLOWERS_LAG, partition.topic_partition, lagging, partition.high_watermark, end
        )
        return True
    return leader.propose_any_join(partition.high_watermark, now)


def leave_at_once(partition: Partition, leader: LeaderRole, replica_id: int, offset: int) -> bool:
    """A follower stands at ``offset`` and so lacks what is committed: propose to remove it; whether
    there is something to ask for."""
    if not leader.propose_leave([replica_id]):
        return False
    logger.log(
        # Otherwise it may just have been empty before.
        logging.ERROR if offset < partition.high_watermark else logging.INFO,
        logged.FOLLOWER_LOST_RECORDS,
        partition.topic_partition,
        replica_id,
        offset,
        partition.high_watermark,
    )
    return True


def take_answer(
    partition: Partition, leader: LeaderRole, result: AlterPartitionResult | None, now: float
) -> bool:
    """The controller's answer, None when there was none; whether the ISR is smaller now."""
    before = leader.isr
    if result is None:
        leader.unanswered()
    else:
        leader.answered(result, now)
    if leader.isr != before:
        logger.info(
            logged.ISR_CHANGED,
            partition.topic_partition,
            before,
            leader.isr,
            leader.state.partition_epoch,
        )
    return len(leader.isr) < len(before)
