"""A ``FollowerMachine`` is driven here over one connection to one leader, by its callbacks.

No task runs per fetch: a reply is handled inside the socket's callback (records go from the receive
buffer to the log without a copy) and the next fetch leaves from there, or from the callback of the
sync.

* When only the sync of what just came is awaited, the next fetch waits with it, for ``PATIENCE_S``
  at most: the names that follow the sync need a fetch of their own anyway. A stalled directory must
  not keep the partitions of the others from being fetched, so then a fetch goes out without it.
* One task connects, and reconnects with back-off, for as long as something is followed.
* Over the catch-up lane a fetch asks for what the pace allows, and waits until that is enough.
* A leader that says nothing for ``SILENCE_S`` beyond the longest park is given up and connected to
  anew.
"""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog_broker.replication.catch_up import Pace
from oncelog_broker.replication.follower import FollowerMachine, FollowState
from oncelog_broker.replication.partition import Partition
from oncelog_broker.replication.ports import LeaderChannel, LeaderConnector, ReplicaConfig
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.messages.broker_reports import COPYING, LEADER_NOT_REACHED, TRIED_AGAIN
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

PATIENCE_S = 0.02
SILENCE_S = 10.0


class FetchLoop:
    """It fetches from one leader."""

    def __init__(
        self,
        leader_id: int,
        machine: FollowerMachine,
        *,
        connector: LeaderConnector,
        config: ReplicaConfig,
        entropy: Entropy,
        tasks: Tasks,
        pace: Pace | None = None,
    ) -> None:
        """``pace`` None: this is the main lane, which nothing holds back."""
        self.leader_id = leader_id
        self._pace = pace
        self._paced: asyncio.TimerHandle | None = None
        self._machine = machine
        self._connector = connector
        self._config = config
        self._entropy = entropy
        self._loop = asyncio.get_running_loop()
        self._channel: LeaderChannel | None = None
        self._wanted = asyncio.Event()
        self._broken = asyncio.Event()
        self._pump_scheduled = False
        self._impatient: asyncio.TimerHandle | None = None
        self._truncation_scheduled = False
        self._held_since_s = 0.0
        self._retry: asyncio.TimerHandle | None = None
        self._heard_at_s = 0.0
        self._was_served = False
        self._closed = False
        what = "fetch from" if pace is None else "catch up from"
        tasks.spawn(f"{what} {leader_id}", self._run())

    def __len__(self) -> int:
        return len(self._machine)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._machine

    def leader_epoch_of(self, topic_partition: TopicPartition) -> int | None:
        """Return the leader epoch in which a partition is followed here, or None."""
        return self._machine.leader_epoch_of(topic_partition)

    def hindrance(self, topic_partition: TopicPartition) -> str:
        """Return what keeps a partition from being fetched, in the words of broker reports; "":
        nothing."""
        if self._channel is None or self._channel.closed:
            return LEADER_NOT_REACHED
        delayed = self._machine.state_of(topic_partition) is FollowState.DELAYED
        return TRIED_AGAIN if delayed else COPYING

    def add(self, partition: Partition) -> None:
        """Follow a partition from here, or in its new leader epoch."""
        self._machine.add(partition)
        self._wanted.set()
        self._schedule_pump()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Follow it no longer."""
        self._machine.remove(topic_partition)
        if not self._machine:
            self._wanted.clear()
        self._schedule_pump()

    def name_again(self) -> None:
        """Tell the leader anew where all partitions are."""
        self._machine.name_again()
        self._schedule_pump()

    def synced(self, partition: Partition) -> None:
        """Go on with a partition whose log our disk has caught up a step with."""
        machine = self._machine
        machine.synced(partition.topic_partition)
        if machine.syncing == 0:
            self._pump()
        else:
            self._schedule_pump()

    def close(self) -> None:
        """Stop; the task is cancelled by its owner."""
        self._closed = True
        for timer in (self._impatient, self._retry, self._paced):
            if timer is not None:
                timer.cancel()
        if self._channel is not None:
            self._channel.close("the broker stops fetching")

    # ---- connection

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            try:
                channel = await self._connector.open(self.leader_id)
            except (OSError, TimeoutError, OncelogError) as error:
                failures += 1
                logger.info("fetch_no_connection", broker_id=self.leader_id, error=error)
                await asyncio.sleep(self._backoff_s(failures))
                continue
            self._channel = channel
            self._broken.clear()
            self._machine.reconnect()
            self._heard_at_s = self._loop.time()
            self._was_served = False
            logger.info("fetch_began", broker_id=self.leader_id)
            self._pump()
            await self._watch(channel)
            self._channel = None
            channel.close("the fetch session ended")
            # A leader that hangs up or refuses at once is not asked in a tight circle.
            failures = 0 if self._was_served else failures + 1
            await asyncio.sleep(self._backoff_s(failures))

    async def _watch(self, channel: LeaderChannel) -> None:
        """Return when the connection has broken or the leader has gone silent."""
        silence_s = self._config.replica_fetch_wait_max_ms / 1000 + SILENCE_S
        while not self._broken.is_set():
            try:
                async with asyncio.timeout(silence_s / 2):
                    await self._broken.wait()
            except TimeoutError:
                if channel.closed:
                    return
                silent_s = self._loop.time() - self._heard_at_s
                if self._machine.in_flight and silent_s > silence_s:
                    logger.warning(
                        "fetch_silent", broker_id=self.leader_id, seconds=round(silent_s, 1)
                    )
                    return

    def _backoff_s(self, failures: int) -> float:
        if failures == 0:
            return 0.0
        config = self._config
        longest = config.replica_fetch_backoff_max_ms / 1000
        delay: float = min(
            config.replica_fetch_backoff_ms / 1000 * 2 ** min(failures - 1, 10), longest
        )
        return delay * (0.8 + 0.4 * self._entropy.random())

    # ---- fetches

    def _schedule_pump(self) -> None:
        if not self._pump_scheduled and not self._closed:
            self._pump_scheduled = True
            self._loop.call_soon(self._scheduled_pump)

    def _scheduled_pump(self) -> None:
        self._pump_scheduled = False
        self._pump()

    def _pump(self, *, patient: bool = True) -> None:
        """Send what should be sent."""
        channel = self._channel
        if channel is None or self._closed:
            return
        if channel.closed:
            self._broken.set()
            return
        machine = self._machine
        if machine.wants_to_send(patient=patient):
            now = self._loop.time()
            room_bytes = self._room_bytes(now)
            if room_bytes == 0:
                return
            if not machine.in_flight:
                self._heard_at_s = now
            try:
                channel.send(machine.next_request(now, room_bytes), callback=self._on_reply)
            except OncelogError:
                logger.exception("fetch_not_asked", broker_id=self.leader_id)
                self._broken.set()
        elif machine.syncing and not machine.in_flight:
            self._hold()

    def _room_bytes(self, now: float) -> int | None:
        """Return what the pace allows to ask for: None is all, 0 nothing yet."""
        pace = self._pace
        if pace is None:
            return None
        room_bytes = pace.room_bytes(now)
        if room_bytes == 0 and self._paced is None:
            self._paced = self._loop.call_at(pace.ready_at(now), self._room_again)
        return room_bytes

    def _room_again(self) -> None:
        self._paced = None
        self._pump()

    def _hold(self) -> None:
        """Wait for the sync, but not for ever. The timer is left to run: it is re-used."""
        self._held_since_s = self._loop.time()
        if self._impatient is None:
            self._impatient = self._loop.call_later(PATIENCE_S, self._lose_patience)

    def _lose_patience(self) -> None:
        self._impatient = None
        machine = self._machine
        if not machine.syncing or machine.in_flight:
            return
        left_s = self._held_since_s + PATIENCE_S - self._loop.time()
        if left_s > 0:
            self._impatient = self._loop.call_later(left_s, self._lose_patience)
        else:
            self._pump(patient=False)

    def _on_reply(self, reply: Any, error: BaseException | None) -> None:
        if error is not None:
            self._broken.set()
            return
        if self._closed or self._channel is None or self._broken.is_set():
            return
        now = self._heard_at_s = self._loop.time()
        if self._pace is not None:
            self._pace.spend(len(reply.payload))
        try:
            self._machine.take(reply.message, reply.payload, now)
        except OncelogError as refusal:
            logger.warning("fetch_refused", broker_id=self.leader_id, error=refusal)
            self._broken.set()
            return
        except Exception:
            # A defect; the session's state is not to be trusted any more.
            logger.exception("fetch_answer_failed", broker_id=self.leader_id)
            self._broken.set()
            return
        self._was_served = True
        self._go_on_truncating()
        if self._machine.delayed and self._retry is None:
            self._arm_retry(self._machine.retry_due(now))
        self._pump()

    def _go_on_truncating(self) -> None:
        if self._machine.truncating and not self._truncation_scheduled:
            self._truncation_scheduled = True
            self._loop.call_soon(self._truncate_some)

    def _truncate_some(self) -> None:
        self._truncation_scheduled = False
        if not self._closed:
            self._machine.truncate_some(self._loop.time())
            self._go_on_truncating()
            self._pump()

    def _arm_retry(self, at_s: float | None) -> None:
        if at_s is not None:
            self._retry = self._loop.call_at(at_s, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self._arm_retry(self._machine.retry_due(self._loop.time()))
        self._pump()

    def __repr__(self) -> str:
        return f"<FetchLoop from {self.leader_id}: {len(self._machine)} partitions>"
