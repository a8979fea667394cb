"""A hand speaks the group protocol as it likes, and a well-behaved group is beside it.

``Peer`` sends any request to the coordinator; ``Canary`` produces, consumes and commits all the
while and must not notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oncelog import Consumer, Producer, RebalanceListener, TopicPartition
from oncelog.config import Address
from oncelog.core.connection import open_channel
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.groups import (
    FindCoordinatorRequest,
    GroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from oncelog_runtime.channel import RequestChannel

TIMEOUT_S = 20.0
MEMBER_ID_REQUIRED = 79
NOT_YET = (14, 15, 16)
"""The coordinator is being found or loaded."""


class Peer:
    """It is one connection. ``async with Peer(port)``."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._channel: RequestChannel | None = None

    async def __aenter__(self) -> Peer:
        self._channel = await open_channel(Address("127.0.0.1", self._port), "peer", 5.0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._channel is not None
        self._channel.close()
        await self._channel.wait_closed()

    async def ask(self, request: Request) -> Any:
        """Return the answer to one request, whatever it says."""
        assert self._channel is not None
        return (await self._channel.call(request, timeout_s=TIMEOUT_S)).message

    async def ask_all(self, requests: Iterable[Request]) -> list[Any]:
        """Return the answers to many requests that are all sent at once."""
        return list(await asyncio.gather(*(self.ask(request) for request in requests)))

    async def ready(self, group: str) -> None:
        """Wait until the group's coordinator serves."""
        async with asyncio.timeout(TIMEOUT_S):
            while (await self.ask(FindCoordinatorRequest(group))).error_code in NOT_YET:
                await asyncio.sleep(0.05)
            while (await self.ask(join(group, session_ms=0))).error_code in NOT_YET:
                await asyncio.sleep(0.05)

    async def join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        """Join, and again under the id that is handed out, as a member does."""
        answer: JoinGroupResponse = await self.ask(request)
        if answer.error_code == MEMBER_ID_REQUIRED:
            answer = await self.ask(replace(request, member_id=answer.member_id))
        return answer

    async def become_member(self, group: str, **options: Any) -> JoinGroupResponse:
        """Be the only member of a stable group."""
        joined = await self.join(join(group, **options))
        assert joined.error_code == 0, joined
        synced = await self.ask(sync(group, joined))
        assert synced.error_code == 0, synced
        return joined


def join(
    group: str,
    *,
    member: str = "",
    instance: str | None = None,
    session_ms: int = 30_000,
    rebalance_ms: int = 2_000,
    protocol_type: str = "consumer",
    protocols: Iterable[tuple[str, bytes]] = (("range", b"x"),),
) -> JoinGroupRequest:
    """Return a JoinGroup, well-formed unless told otherwise."""
    named = [GroupProtocol(name, metadata) for name, metadata in protocols]
    return JoinGroupRequest(group, session_ms, rebalance_ms, member, instance, protocol_type, named)


def sync(group: str, joined: JoinGroupResponse, **changes: Any) -> SyncGroupRequest:
    """Return the SyncGroup that follows."""
    request = SyncGroupRequest(
        group,
        joined.generation_id,
        joined.member_id,
        None,
        joined.protocol_type,
        joined.protocol_name,
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return request


class Canary(RebalanceListener):
    """It is a group of one that reads what it writes, and commits: ``async with Canary(...)``."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self.consumed = 0
        self.moves = 0

    async def __aenter__(self) -> Canary:
        self._tasks = [
            asyncio.create_task(self._produce()),
            asyncio.create_task(self._consume()),
        ]
        await self.still_sings()
        self.moves = 0
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _produce(self) -> None:
        async with Producer(self._bootstrap, linger_ms=0) as producer:
            while True:
                await producer.send(self._topic, b"tweet")
                await asyncio.sleep(0.01)

    async def _consume(self) -> None:
        consumer = Consumer(
            bootstrap_servers=self._bootstrap,
            group_id="canary",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        async with consumer:
            consumer.subscribe(topics=[self._topic], listener=self)
            while True:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    self.consumed += len(records)
                await consumer.commit()

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Nobody must take its partitions away, nor must it lose them."""
        self.moves += 1

    async def still_sings(self) -> None:
        """Wait until it has read and committed more than now; neither it nor its group stirred."""
        before = self.consumed
        async with asyncio.timeout(TIMEOUT_S):
            while self.consumed < before + 10:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)
        assert self.moves == 0


def resident_mb(pid: int) -> float:
    """Return the resident set of a process in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)
