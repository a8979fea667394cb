"""A topic is deleted and made again under those who read it; imported for its registration.

The fault brings its own topic, writer and readers: of the topics of the run nothing may be lost.
Readers live on while the topic goes and comes, and a group stops and begins again meanwhile. What
they are handed of the new topic is judged by ``skips``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from oncelog import Admin, Consumer, NewTopic, Producer
from oncelog.errors import OncelogError
from oncelog_runtime.entropy import SeededEntropy
from simulation.loop import ProcessKilledError
from simulation.nemesis import Nemesis, fault

EXPECTED = (OncelogError, OSError, TimeoutError)
FORMER, NEW = b"former", b"new"
FORMER_COUNT = 6
NEW_COUNT = 14
"""More: the position of before lies in the middle of the new topic."""

ASK_S = 3.0
READ_S = 20.0
"""How long a reader is given for what there is; a fault of another kind may be at work."""


def skips(seen: Sequence[tuple[bytes, int]]) -> str:
    """Return what a reader left out of the new topic, in which it was handed these (value, offset),
    one after the other; "" if nothing. It may be handed anything again."""
    expected = 0
    for value, offset in seen:
        if value != NEW:
            continue
        if offset > expected:
            return f"was handed offset {offset} of the new topic, and never {expected}"
        expected = max(expected, offset + 1)
    return ""


class _Again:
    """It is one topic, and who works on it."""

    def __init__(self, nemesis: Nemesis, name: str, entropy: SeededEntropy) -> None:
        self.nemesis = nemesis
        self.topic = name
        self.entropy = entropy
        self.bootstrap = nemesis.cluster.bootstrap
        self.security = nemesis.cluster.security
        self.seen: dict[str, list[tuple[bytes, int]]] = {}

    def _admin(self, name: str) -> Admin:
        return Admin(self.bootstrap, security=self.security, entropy=self.entropy.fork(name))

    async def make(self) -> None:
        """The topic is there, and led."""
        replicas = self.nemesis.cluster.knobs.replication_factor
        while True:
            try:
                async with self._admin("make") as admin:
                    made = await admin.create_topics([NewTopic(self.topic, 1, replicas)])
                    if made[0].error is None:
                        return
            except EXPECTED:
                pass
            await asyncio.sleep(0.1)
            if await self._is_there():
                return

    async def _is_there(self) -> bool:
        try:
            async with self._admin("look") as admin:
                return self.topic in await admin.list_topics()
        except EXPECTED:
            return False

    async def delete(self) -> None:
        """The topic is gone, as far as who is asked knows."""
        while True:
            try:
                async with self._admin("delete") as admin:
                    (gone,) = await admin.delete_topics([self.topic])
                    if gone.error is None:
                        return
            except EXPECTED:
                pass
            await asyncio.sleep(0.1)

    async def write(self, value: bytes, count: int) -> None:
        """Write so many records, each acknowledged."""
        producer = Producer(
            self.bootstrap,
            security=self.security,
            entropy=self.entropy.fork("write"),
            clock=self.nemesis.cluster.client_clock,
            linger_ms=0,
        )
        async with producer:
            for _ in range(count):
                await producer.send(self.topic, value)

    def reader(self, name: str, group: str | None) -> Consumer:
        """Open somebody who has seen nothing yet, or a member of a group."""
        knobs = self.nemesis.cluster.knobs
        consumer = Consumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            security=self.security,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            session_timeout_ms=knobs.session_timeout_ms,
            heartbeat_interval_ms=100,
            request_timeout_ms=knobs.request_timeout_ms,
            max_block_ms=int(ASK_S * 1000),
            clock=self.nemesis.cluster.client_clock,
            entropy=self.entropy.fork(name),
        )
        if not knobs.positions_know_topics:
            consumer._router.cluster.topic_id = lambda topic: ""  # type: ignore[method-assign]
        return consumer

    async def read(self, name: str, consumer: Consumer, value: bytes, end: int) -> bool:
        """Read until the record before ``end`` was handed out, or for a while."""
        seen = self.seen.setdefault(name, [])
        loop = asyncio.get_running_loop()
        until = loop.time() + READ_S
        while loop.time() < until:
            try:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    seen += [(record.value or b"", record.offset) for record in records]
            except EXPECTED:
                await asyncio.sleep(0.1)
            if seen and seen[-1] == (value, end - 1):
                return True
        return False

    async def happen(self) -> None:
        """Do all of it; when a step cannot be done in time nothing is judged."""
        await self.make()
        await self.write(FORMER, FORMER_COUNT)
        async with self.reader("live", None) as live:
            if not await self.read("live", live, FORMER, FORMER_COUNT):
                return
            async with self.reader("group", f"{self.topic}-group") as member:
                if not await self.read("group", member, FORMER, FORMER_COUNT):
                    return
                await member.getmany(timeout_ms=0)  # done with
                if self.entropy.random() < 0.5:
                    await self._again(live, member)
                    return
            await self._again(live, None)

    async def _again(self, live: Consumer, member: Consumer | None) -> None:
        await self.delete()
        await asyncio.sleep(self.entropy.random())
        await self.make()
        await self.write(NEW, NEW_COUNT)
        self.nemesis.cluster.loop.trace(f"made again {self.topic}")
        await self.read("live", live, NEW, NEW_COUNT)
        if member is not None:
            await self.read("group", member, NEW, NEW_COUNT)
        else:
            async with self.reader("group-2", f"{self.topic}-group") as successor:
                await self.read("group", successor, NEW, NEW_COUNT)


@fault
async def topic_made_again(self: Nemesis) -> None:
    """A topic goes and comes again under a live reader and a group."""
    number = self.chance.randint(0, 2**40)
    again = _Again(self, f"again-{number}", self.chance.fork("again"))
    process = self.cluster.client_process(f"client-again-{number}")
    try:
        async with asyncio.timeout(90):
            await process.call(again.happen(), "a topic made again")
    except (*EXPECTED, ProcessKilledError):
        pass
    finally:
        process.kill()
        for name, seen in again.seen.items():
            if left_out := skips(seen):
                self.skipped.append(f"X1 nothing_of_a_new_topic_is_skipped {name} {left_out}")
