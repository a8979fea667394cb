"""The shell of fetching connects, reconnects, and does not wait for stalled disks or silence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.replication import fetch_loop
from oncelog_broker.replication.fetch_loop import FetchLoop
from oncelog_broker.replication.follower import FollowerMachine
from oncelog_broker.replication.ports import ReplyCallback
from oncelog_protocol.connection import Reply
from oncelog_protocol.errors import InvalidFetchSessionEpochError
from oncelog_protocol.messages.fetch import FetchRequest, FetchResponse
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.channel import ChannelClosedError
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.tasks import Tasks
from support.replication_cluster import Cluster
from support.room_settings import replica_settings
from support.waiting import eventually

TP = TopicPartition("t", 0)


class ScriptedChannel:
    """It is a leader that answers when the test says so."""

    def __init__(self) -> None:
        self.closed = False
        self.requests: list[FetchRequest] = []
        self._waiting: list[ReplyCallback] = []

    def send(self, request: Any, payload: Any = (), *, callback: ReplyCallback) -> None:
        self.requests.append(request)
        self._waiting.append(callback)

    def answer(self, response: FetchResponse) -> None:
        self._waiting.pop(0)(Reply(0, response, memoryview(b"")), None)

    def close(self, reason: str = "") -> None:
        self.closed = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(None, ChannelClosedError(reason))


class ScriptedLeader:
    """This ``LeaderConnector`` refuses as often as ``refusals`` says."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.attempts = 0
        self.channels: list[ScriptedChannel] = []

    async def open(self, broker_id: int) -> ScriptedChannel:
        await asyncio.sleep(0)
        self.attempts += 1
        if self.attempts <= self.refusals:
            raise ConnectionRefusedError("not yet")
        self.channels.append(ScriptedChannel())
        return self.channels[-1]


class Rig:
    """It is a loop that follows one real partition of a broker that has no other loops."""

    def __init__(self, cluster: Cluster, leader: ScriptedLeader) -> None:
        self.node = cluster[1]
        self.leader = leader
        self.tasks = Tasks("test")
        config = replica_settings(replica_fetch_backoff_ms=1, replica_fetch_backoff_max_ms=4)
        self.machine = FollowerMachine(
            1, config, broker_epoch=lambda: 5, on_log_failure=lambda partition: None
        )
        self.loop = FetchLoop(
            2,
            self.machine,
            connector=leader,
            config=config,
            entropy=SeededEntropy(1),
            tasks=self.tasks,
        )
        cluster.lead(TP, 2, isr=[1, 2], to=[1])
        self.loop.add(self.node.partition(TP))

    async def channel(self, number: int) -> ScriptedChannel:
        await eventually(lambda: len(self.leader.channels) > number)
        channel = self.leader.channels[number]
        await eventually(lambda: channel.requests)
        return channel

    async def close(self) -> None:
        self.loop.close()
        await self.tasks.close()


async def test_it_connects_again_until_the_leader_is_there() -> None:
    async with Cluster(brokers=1) as cluster:
        rig = Rig(cluster, ScriptedLeader(refusals=3))
        channel = await rig.channel(0)
        assert rig.leader.attempts == 4
        assert channel.requests[0].session_epoch == 0
        assert len(channel.requests[0].topics) == 1
        await rig.close()


async def test_a_broken_connection_begins_a_new_session() -> None:
    async with Cluster(brokers=1) as cluster:
        rig = Rig(cluster, ScriptedLeader())
        channel = await rig.channel(0)
        channel.answer(FetchResponse())
        assert [r.session_epoch for r in channel.requests] == [0, 1]
        channel.close("reset")
        second = await rig.channel(1)
        assert second.requests[0].session_epoch == 0
        assert len(second.requests[0].topics) == 1
        await rig.close()


async def test_a_refused_session_is_begun_anew() -> None:
    async with Cluster(brokers=1) as cluster:
        rig = Rig(cluster, ScriptedLeader())
        channel = await rig.channel(0)
        channel.answer(FetchResponse(InvalidFetchSessionEpochError.code))
        await rig.channel(1)
        assert channel.closed
        await rig.close()


async def test_a_silent_leader_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_loop, "SILENCE_S", -0.45)
    async with Cluster(brokers=1) as cluster:
        rig = Rig(cluster, ScriptedLeader())
        channel = await rig.channel(0)
        await rig.channel(1)
        assert channel.closed
        await rig.close()


async def test_nothing_followed_nothing_asked() -> None:
    async with Cluster(brokers=1) as cluster:
        rig = Rig(cluster, ScriptedLeader())
        channel = await rig.channel(0)
        rig.loop.remove(TP)
        assert TP not in rig.loop
        assert len(rig.loop) == 0
        channel.answer(FetchResponse())
        await asyncio.sleep(0)
        # The last fetch tells the leader to forget it; then there is silence.
        await eventually(lambda: len(channel.requests) == 2)
        assert len(channel.requests[1].forgotten) == 1
        channel.answer(FetchResponse())
        assert len(channel.requests) == 2
        await rig.close()


async def test_a_stalled_disk_does_not_hold_the_other_partitions() -> None:
    """The partition that waits for its sync is not named, the others go on being fetched."""
    other = TopicPartition("t", 1)
    async with Cluster(brokers=2) as cluster:
        cluster.lead(TP, 1, isr=[1, 2])
        cluster.lead(other, 1, isr=[1, 2])
        await cluster.produced(TP, b"a")
        stalled = cluster[2].partition(TP)
        finish_sync = type(stalled.log).finish_sync
        held: list[Any] = []

        class Stalled(type(stalled.log)):  # type: ignore[misc]
            __slots__ = ()

            def finish_sync(self, job: Any) -> None:
                held.append(job)

        stalled.log.__class__ = Stalled
        parked = cluster.produce(TP, b"b")
        await eventually(lambda: held)
        assert (await cluster.produced(other, b"c")).error_code == 0
        assert not parked.done.is_set()
        stalled.log.__class__ = Stalled.__mro__[1]
        finish_sync(stalled.log, held[0])
        message = await parked.wait()
        assert message.topics[0].partitions[0].error_code == 0
