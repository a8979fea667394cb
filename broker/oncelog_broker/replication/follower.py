"""A follower machine names partitions to its leader and acts on the answers. Pure.

``fetch_session`` describes the scheme. This machine holds, for each partition followed over one
connection, where it is in the cycle:

==========  =================================================  ==========================
state       meaning                                            leaves it by
==========  =================================================  ==========================
NAMEABLE    its position may be named in the next fetch        being named
OPEN        named, the leader has not answered                 data, an error, divergence
TRUNCATING  its log diverges and is to be truncated            being truncated
SYNCING     appended, waiting for our own disk                 the sync
DELAYED     an error; wait a little                            its retry time
==========  =================================================  ==========================

* An answer counts for a partition only if it answers a request that came no earlier than the
  partition's last name, and the partition still follows in the leader epoch that was named
  (KAFKA-13207).
* A diverging answer makes the follower truncate its log, and nothing else of that answer is used
  (KAFKA-14704).
* A truncation waits for the disk, several times. Where many logs diverge in one answer, as after
  an election, some are truncated at a time, so that others are served in between.
* An answer without records leaves the name open: it brings a high watermark (KAFKA-15510).
* Compacted batches for a log that was away for longer than tombstones are kept make it begin again:
  it may lack some that have gone.
* OFFSET_OUT_OF_RANGE means that nothing of ours is in the leader's log: begin again at its log
  start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from oncelog_broker.replication.catch_up import ReplicaLanes
from oncelog_broker.replication.divergence import may_lack_tombstones
from oncelog_broker.replication.invariants import InvariantError
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import ReplicaConfig
from oncelog_protocol.errors import (
    OffsetOutOfRangeError,
    OncelogError,
    StorageError,
    error_for,
)
from oncelog_protocol.messages.fetch import (
    ALL_FORMATS,
    NOT_KNOWN,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from oncelog_protocol.types import FetchLane, TopicPartition
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)


TRUNCATIONS_PER_TURN = 1
"""Each truncation waits for the disk up to three times: for its mark, the name of that, and the
truncation."""
_NOTHING = memoryview(b"")


class FollowState(Enum):
    """It tells where a partition is in the fetch cycle."""

    NAMEABLE = "nameable"
    OPEN = "open"
    TRUNCATING = "truncating"
    SYNCING = "syncing"
    DELAYED = "delayed"


@dataclass(slots=True, eq=False)
class Followed:
    """It is one partition followed over this connection."""

    partition: Partition
    leader_epoch: int
    state: FollowState = FollowState.NAMEABLE
    named_in: int = -1
    """The request of this number named it last."""
    anew: bool = False
    """It tells whether it was named as an empty log, because it is damaged."""
    retry_at_s: float = 0.0
    backoff_s: float = 0.0


class FollowerMachine:
    """It does everything about fetching from one leader except the connection. Times are loop
    time."""

    def __init__(
        self,
        broker_id: int,
        config: ReplicaConfig,
        *,
        broker_epoch: Callable[[], int],
        on_log_failure: Callable[[Partition], None],
        lane: FetchLane = FetchLane.MAIN,
        lanes: ReplicaLanes | None = None,
        on_other_lane: Callable[[Partition, FetchLane], None] | None = None,
    ) -> None:
        """``lanes`` says which lane a partition belongs on; None: there is only this connection.
        ``on_other_lane`` is called when that is another one."""
        self._broker_id = broker_id
        self._config = config
        self._broker_epoch = broker_epoch
        self._on_log_failure = on_log_failure
        self._lane = lane
        self._lanes = lanes
        self._on_other_lane = on_other_lane
        self._followed: dict[TopicPartition, Followed] = {}
        self._nameable: dict[TopicPartition, Followed] = {}
        self._delayed: dict[TopicPartition, Followed] = {}
        self._truncations: deque[tuple[Followed, FetchPartitionResponse]] = deque()
        self._forgotten: dict[TopicPartition, None] = {}
        self._syncing = 0
        self._sent = 0
        self._answered = 0

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._followed

    @property
    def in_flight(self) -> int:
        """Return how many fetches were sent on this connection and not answered."""
        return self._sent - self._answered

    @property
    def syncing(self) -> int:
        """Return how many partitions wait for our own disk."""
        return self._syncing

    @property
    def delayed(self) -> int:
        """Return how many partitions wait after an error."""
        return len(self._delayed)

    def partitions(self) -> list[Partition]:
        """Return the partitions that are followed."""
        return [followed.partition for followed in self._followed.values()]

    def state_of(self, topic_partition: TopicPartition) -> FollowState | None:
        """Return where a partition is in the cycle; None when it is not followed here."""
        followed = self._followed.get(topic_partition)
        return None if followed is None else followed.state

    def leader_epoch_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the leader epoch in which a partition is followed; None when it is not followed
        here."""
        followed = self._followed.get(topic_partition)
        return None if followed is None else followed.leader_epoch

    # ---- what is followed

    def add(self, partition: Partition) -> None:
        """Follow a partition, or go on with it in its new leader epoch."""
        topic_partition = partition.topic_partition
        self._drop(topic_partition)
        # In case it is to be forgotten: being named again replaces what the leader holds of it.
        self._forgotten.pop(topic_partition, None)
        followed = Followed(partition, partition.leader_epoch)
        self._followed[topic_partition] = followed
        self._after_write(followed)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Follow it no longer; the leader is told with the next fetch."""
        followed = self._drop(topic_partition)
        if followed is not None and followed.named_in >= 0:
            self._forgotten[topic_partition] = None

    def name_again(self) -> None:
        """Name everything in the next fetches, also what the leader has not answered yet."""
        for partition in self.partitions():
            self.add(partition)

    def reconnect(self) -> None:
        """Begin a new session, in which everything is named again: the connection is gone."""
        self._sent = self._answered = 0
        self._forgotten.clear()
        self._truncations.clear()
        partitions = self.partitions()
        self._followed.clear()
        self._nameable.clear()
        self._delayed.clear()
        self._syncing = 0
        for partition in partitions:
            self.add(partition)

    def synced(self, topic_partition: TopicPartition) -> None:
        """Make a partition nameable if our disk holds all of it now."""
        followed = self._followed.get(topic_partition)
        if (
            followed is not None
            and followed.state is FollowState.SYNCING
            and followed.partition.is_durable
        ):
            self._syncing -= 1
            self._make_nameable(followed)

    def retry_due(self, now: float) -> float | None:
        """Make partitions nameable that have waited long enough; return when to call again, or
        None."""
        earliest: float | None = None
        for topic_partition, followed in list(self._delayed.items()):
            # A timer may fire a hair early.
            if followed.retry_at_s <= now + 0.001:
                del self._delayed[topic_partition]
                self._after_write(followed)
            elif earliest is None or followed.retry_at_s < earliest:
                earliest = followed.retry_at_s
        return earliest

    # ---- requests

    def wants_to_send(self, *, patient: bool) -> bool:
        """Return whether a fetch should go out now.

        ``patient``: when nothing can be named, hold an empty long poll back while partitions wait
        for the sync, because the names that come with it make a fetch of their own.
        """
        if self._nameable or self._forgotten:
            return self.in_flight < 2
        return self.in_flight == 0 and bool(self._followed) and not (patient and self._syncing)

    def next_request(self, now: float, room_bytes: int | None = None) -> FetchRequest:
        """Return the next fetch of the session; it names all that is nameable.

        :param room_bytes: the answer may have so many bytes, if that is less than the setting.
        """
        most = self._config.replica_fetch_response_max_bytes
        topics: dict[tuple[str, str], FetchTopic] = {}
        nameable, self._nameable = self._nameable, {}
        for topic_partition, followed in nameable.items():
            partition = followed.partition
            try:
                position = partition.position()
            except InvariantError as error:
                partition.break_down(error)
                continue
            except (StorageError, OSError) as error:
                self._log_refused(followed, error, now)
                continue
            followed.state = FollowState.OPEN
            followed.named_in = self._sent
            followed.anew = partition.log.needs_refetch
            named = FetchPartition(
                topic_partition.partition,
                position.fetch_offset,
                self._config.replica_fetch_max_bytes,
                followed.leader_epoch,
                position.last_fetched_epoch,
                position.log_start_offset,
            )
            key = topic_partition.topic, partition.topic_id
            topic = topics.get(key)
            if topic is None:
                topics[key] = FetchTopic(topic_partition.topic, [named], partition.topic_id)
            else:
                topic.partitions.append(named)
        forgotten: dict[str, ForgottenTopic] = {}
        for gone in self._forgotten:
            forgotten.setdefault(gone.topic, ForgottenTopic(gone.topic, [])).partitions.append(
                gone.partition
            )
        self._forgotten.clear()
        request = FetchRequest(
            replica_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            min_bytes=self._config.replica_fetch_min_bytes,
            max_bytes=most if room_bytes is None else min(most, room_bytes),
            isolation_level=0,
            session_epoch=self._sent,
            topics=list(topics.values()),
            forgotten=list(forgotten.values()),
            lane=self._lane.value,
            formats=ALL_FORMATS,
        )
        self._sent += 1
        return request

    # ---- answers

    def take(self, response: FetchResponse, payload: memoryview, now: float) -> None:
        """Act on the answer to the oldest open request. ``payload`` is used during the call only.

        :raises ApiError: the leader refused the whole fetch; the session is over.
        """
        number = self._answered
        self._answered += 1
        if response.error_code:
            raise error_for(response.error_code)
        for topic in response.topics:
            for answer in topic.partitions:
                followed = self._followed.get(TopicPartition(topic.topic, answer.partition))
                if (
                    followed is None
                    or followed.state is not FollowState.OPEN
                    or followed.named_in > number
                    or followed.leader_epoch != followed.partition.leader_epoch
                    or followed.partition.failed
                ):
                    continue
                if answer.diverging is not None and not answer.error_code:
                    followed.state = FollowState.TRUNCATING
                    self._truncations.append((followed, answer))
                else:
                    self._take_one(followed, answer, payload, now)
        self.truncate_some(now)

    @property
    def truncating(self) -> bool:
        """Return whether logs are to be truncated: then ``truncate_some`` is to be called in other
        turns."""
        return bool(self._truncations)

    def truncate_some(self, now: float) -> None:
        """Truncate some of the logs that diverge, in the order in which the leader told of them."""
        left = TRUNCATIONS_PER_TURN
        while left and self._truncations:
            followed, answer = self._truncations.popleft()
            partition = followed.partition
            if (
                self._followed.get(partition.topic_partition) is followed
                and followed.state is FollowState.TRUNCATING
                and followed.leader_epoch == partition.leader_epoch
                and not partition.failed
            ):
                self._take_one(followed, answer, _NOTHING, now)
                left -= 1

    def _take_one(
        self, followed: Followed, answer: FetchPartitionResponse, payload: memoryview, now: float
    ) -> None:
        partition = followed.partition
        try:
            if answer.error_code:
                self._take_error(followed, answer, now)
                return
            followed.backoff_s = 0.0
            if answer.diverging is not None:
                partition.safeguards.diverges(partition, answer)
                partition.truncate_to_divergence(answer.diverging)
                self._after_write(followed)
                return
            records = answer.records
            before = partition.log.log_end_offset
            if records.length:
                if followed.anew and partition.log.needs_refetch:
                    # The leader counts on this copy no more, and has another.
                    partition.restart_log_at(partition.log.log_start_offset)
                data = payload[records.offset : records.offset + records.length]
                if not self._append(followed, answer, data):
                    return
            partition.leader_offsets(answer.high_watermark, answer.log_start_offset)
            log = partition.log
            if log.config.is_compacted and log.log_end_offset >= answer.high_watermark:
                log.clean.in_step(log.log_dir.clock.now_ms())
            if records.length:
                self._after_write(followed)
            if records.length or answer.bytes_left != NOT_KNOWN:
                self._choose_lane(partition, answer, log.log_end_offset - before)
        except InvariantError as error:
            partition.break_down(error)
        except (StorageError, OSError) as error:
            self._log_refused(followed, error, now)
        except (OncelogError, ValueError) as error:
            # Corruption at the leader, or on the way: nothing was appended, ask again.
            logger.error("follower_data_refused", partition=partition.topic_partition, error=error)
            self._delay(followed, now)

    def _choose_lane(
        self, partition: Partition, answer: FetchPartitionResponse, records: int
    ) -> None:
        """Hand a partition to the other lane if that is where it belongs now."""
        if self._lanes is None or self._on_other_lane is None:
            return
        lane = self._lanes.after(partition, answer, records)
        if lane is not self._lane:
            logger.debug(
                "follower_changes_lane",
                partition=partition.topic_partition,
                lane=lane.name,
                left_bytes=answer.bytes_left,
            )
            self._on_other_lane(partition, lane)

    def _append(self, followed: Followed, answer: FetchPartitionResponse, data: memoryview) -> bool:
        """Append the records of the leader; return False if the log was begun anew instead."""
        partition = followed.partition
        log = partition.log
        if log.config.is_compacted and may_lack_tombstones(log, data, log.log_dir.clock.now_ms()):
            logger.warning("follower_away_too_long", partition=partition.topic_partition)
            partition.restart_log_at(answer.log_start_offset)
            self._after_write(followed)
            return False
        log.append_as_follower(data)
        partition.traffic.fetched_from_leader(len(data))
        return True

    def _take_error(self, followed: Followed, answer: FetchPartitionResponse, now: float) -> None:
        if answer.error_code == OffsetOutOfRangeError.code and answer.log_start_offset >= 0:
            followed.partition.restart_log_at(answer.log_start_offset)
            self._after_write(followed)
            return
        logger.debug(
            "follower_refused",
            partition=followed.partition.topic_partition,
            broker_id=followed.partition.leader_id,
            error=error_for(answer.error_code).name,
        )
        self._delay(followed, now)

    # ---- states

    def _after_write(self, followed: Followed) -> None:
        """Have the position told to the leader once all of the log is durable."""
        if followed.partition.is_durable:
            self._make_nameable(followed)
        else:
            followed.state = FollowState.SYNCING
            self._syncing += 1

    def _make_nameable(self, followed: Followed) -> None:
        followed.state = FollowState.NAMEABLE
        self._nameable[followed.partition.topic_partition] = followed

    def _delay(self, followed: Followed, now: float) -> None:
        config = self._config
        followed.backoff_s = min(
            max(followed.backoff_s * 2, config.replica_fetch_backoff_ms / 1000),
            config.replica_fetch_backoff_max_ms / 1000,
        )
        followed.retry_at_s = now + followed.backoff_s
        followed.state = FollowState.DELAYED
        self._delayed[followed.partition.topic_partition] = followed

    def _log_refused(self, followed: Followed, error: Exception, now: float) -> None:
        """Stop or delay a partition whose log cannot be written. It stops for good if its directory
        is gone; else (the disk is full, or corruption was found, which the next name begins anew)
        it is tried again after a while."""
        if followed.partition.log.log_dir.online:
            logger.error(
                "follower_cannot_write", partition=followed.partition.topic_partition, error=error
            )
            self._delay(followed, now)
            return
        logger.error("follower_stopped", partition=followed.partition.topic_partition, error=error)
        self.remove(followed.partition.topic_partition)
        self._on_log_failure(followed.partition)

    def _drop(self, topic_partition: TopicPartition) -> Followed | None:
        followed = self._followed.pop(topic_partition, None)
        if followed is None:
            return None
        self._nameable.pop(topic_partition, None)
        self._delayed.pop(topic_partition, None)
        if followed.state is FollowState.SYNCING:
            self._syncing -= 1
        return followed
