"""A client can wait until records come behind some offsets, without reading them.

Rules
-----
* One question a leader is under way at most; one that nobody waits for any more ends by itself, at
  the time that it was given. A later call goes on with it: an answer to an older question is a
  reason to look again, nothing more.
* Whatever goes wrong ends the waiting: who waits looks then, and hears what is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from oncelog.core.connection import DATA
from oncelog.core.router import Router
from oncelog.errors import BrokerUnreachableError, HandshakeError
from oncelog_protocol.messages.fetch import ALL_FORMATS, FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.types import CONSUMER_REPLICA_ID, NO_EPOCH, NO_LEADER, TopicPartition
from oncelog_runtime.channel import NotSentError

BYTES_MAX = 1
"""A leader sends a whole batch all the same, where there is one; never more than one."""

WAIT_MIN_MS = 1


class Arrivals:
    """One client waits for records at its leaders by long polls."""

    def __init__(self, router: Router, isolation_level: int) -> None:
        self._router = router
        self._isolation_level = isolation_level
        self._asked: set[int] = set()
        """Leaders that have a question."""
        self._answered = asyncio.Event()
        self._arrived = False

    async def wait(self, offsets: Mapping[TopicPartition, int], timeout_s: float) -> bool:
        """Return True when something may have come at or behind one of ``offsets``.

        It returns False after ``timeout_s`` seconds without anything. A partition that has no
        leader is not waited for.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        self._arrived = False
        try:
            async with asyncio.timeout_at(deadline):
                while not self._arrived:
                    self._answered.clear()
                    left_ms = int((deadline - loop.time()) * 1000)
                    if left_ms >= WAIT_MIN_MS:
                        await self._ask(offsets, left_ms)
                    if not self._arrived:
                        await self._answered.wait()
        except TimeoutError:
            pass
        return self._arrived

    async def _ask(self, offsets: Mapping[TopicPartition, int], wait_ms: int) -> None:
        cluster = self._router.cluster
        by_leader: dict[int, list[FetchTopic]] = {}
        for tp, offset in offsets.items():
            leader = cluster.leader(tp)
            if leader == NO_LEADER or leader in self._asked:
                continue
            topics = by_leader.setdefault(leader, [])
            if not topics or topics[-1].topic != tp.topic:
                topics.append(FetchTopic(tp.topic, []))
            topics[-1].partitions.append(
                FetchPartition(tp.partition, offset, BYTES_MAX, cluster.leader_epoch(tp), NO_EPOCH)
            )
        for leader, topics in by_leader.items():
            request = FetchRequest(
                *(CONSUMER_REPLICA_ID, -1, wait_ms, 1, BYTES_MAX, self._isolation_level, -1),
                topics,
                formats=ALL_FORMATS,
            )
            try:
                channel = await self._router.connections.channel(leader, DATA)
                await channel.drain()
            except (BrokerUnreachableError, HandshakeError, NotSentError):
                self._arrived = True
                return
            self._asked.add(leader)
            channel.send(request, callback=partial(self._take, leader))

    def _take(self, leader: int, reply: Any, error: BaseException | None) -> None:
        self._asked.discard(leader)
        self._answered.set()
        if error is not None or reply.message.error_code:
            self._arrived = True
            return
        for topic in reply.message.topics:
            for answer in topic.partitions:
                if answer.error_code or answer.diverging is not None or answer.records.length:
                    self._arrived = True
