"""Consumers are in groups while the world breaks: members come, go, crash, dawdle and commit.

Each member is a process of its own that subscribes, polls, and commits, by itself or automatically.
Now and then it asks what is committed, closes and begins anew, or takes longer between two polls
than it may and commits then. Static members come back under their instance id. What members
ask and hear goes to the history; whether it may be so is for the checkers to say.

Rules: a member never lets an expected error end it; faults may hold it (``hold``), let it dawdle
(``dawdle``) or stop it (``pause``). When all is healed members work on without crashes until their
group has read everything: ``GroupWorkload.catch_up``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from oncelog import Consumer
from oncelog.errors import FencedInstanceIdError, OncelogError
from oncelog.history_events import HistoryEvent, HistoryRecorder
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import SimCluster
from simulation.hasty_assignor import strategies
from simulation.loop import Process, ProcessKilledError, until

logger = logging.getLogger("simulation")

CRASH_EVERY_S = 12.0
EXPECTED = (OncelogError, OSError, TimeoutError)


class GroupWorkload:
    """It has all groups of a run.

    :param topics: what every group subscribes to.
    """

    def __init__(
        self,
        cluster: SimCluster,
        entropy: SeededEntropy,
        sink: Callable[[HistoryEvent], None],
        topics: Sequence[str],
    ) -> None:
        self.cluster = cluster
        self.sink = sink
        self.topics = list(topics)
        self.calm = False
        """Nobody crashes, leaves or dawdles any more."""
        self.over = False
        self.failures: list[BaseException] = []
        """What a member raised that it must not."""
        self.read_up_to: dict[tuple[str, TopicPartition], int] = {}
        """How far some member of a group has come in its position."""
        self.members: list[Member] = []
        self._entropy = entropy
        self._tasks: list[asyncio.Task[None]] = []
        for number in range(1, cluster.knobs.groups + 1):
            for index in range(1, cluster.knobs.group_members + 1):
                self._add(f"g{number}", f"{index}")

    @property
    def groups(self) -> list[str]:
        """Return their names."""
        return list(dict.fromkeys(member.group for member in self.members))

    def _add(self, group: str, index: str) -> Member:
        static = self.cluster.knobs.group_static and index == "1"
        name = f"client-{group}-{index}"
        member = Member(self, name, group, name if static else None, self._entropy.fork(name))
        self.members.append(member)
        return member

    def start(self) -> None:
        """Let the members work until ``stop``."""
        for member in self.members:
            self._start(member)
        if self.members:
            task = self.cluster.loop.create_task(self._observe(), name="observer")
            self._tasks.append(task)

    def _start(self, member: Member) -> None:
        task = self.cluster.loop.create_task(member.live(), name=member.name)
        self._tasks.append(task)

    async def _observe(self) -> None:
        """Somebody who is in no group asks what the groups have committed."""
        process = self.cluster.client_process("client-observer")
        try:
            await process.call(self._ask(self._entropy.fork("observer")), "observer")
        finally:
            process.kill()

    async def _ask(self, entropy: SeededEntropy) -> None:
        cluster, knobs = self.cluster, self.cluster.knobs
        partitions = [TopicPartition(self.topics[0], p) for p in range(knobs.partitions)]
        part = 0
        while not self.over:
            part += 1
            group = entropy.choice(self.groups)
            recorder = HistoryRecorder(
                "observer", self.sink, lambda: cluster.loop.now_s, client=f"{group}-{part}"
            )
            consumer = Consumer(
                bootstrap_servers=cluster.bootstrap,
                security=cluster.security,
                group_id=group,
                request_timeout_ms=knobs.request_timeout_ms,
                connect_timeout_ms=1000,
                max_block_ms=3000,
                clock=cluster.client_clock,
                entropy=entropy.fork(f"{part}"),
                history=recorder,
            )
            try:
                await consumer.start()
                try:
                    for _ in range(entropy.randint(1, 5)):
                        await consumer.committed(partitions)
                        await asyncio.sleep(entropy.random())
                finally:
                    await consumer.close()
            except EXPECTED:
                await asyncio.sleep(0.5)

    def join(self, group: str) -> Member:
        """Add one more member, for as long as it is not told to ``leave``."""
        member = self._add(group, f"x{len(self.members)}")
        self._start(member)
        return member

    async def find_coordinator(self, *, timeout_s: float) -> None:
        """Have the internal topic made while nothing is wrong."""
        process = self.cluster.client_process("admin")
        entropy = self._entropy.fork("find")

        async def ask() -> None:
            async with Consumer(
                bootstrap_servers=self.cluster.bootstrap,
                security=self.cluster.security,
                group_id="g1",
                entropy=entropy,
            ) as consumer:
                await consumer.committed([TopicPartition(self.topics[0], 0)])

        async with asyncio.timeout(timeout_s):
            await process.call(ask(), "find the coordinator")
        process.kill()

    async def catch_up(self, ends: Mapping[TopicPartition, int], *, timeout_s: float) -> None:
        """Let every group read up to these offsets. :raises TimeoutError: one does not."""
        self.calm = True
        for member in self.members:
            member.released.set()

        def behind() -> list[str]:
            return [
                f"group {group} stands at {self.read_up_to.get((group, name), 0)} of {name}, not"
                f" at {end}"
                for group in self.groups
                for name, end in ends.items()
                if name.topic in self.topics and self.read_up_to.get((group, name), 0) < end
            ]

        try:
            await until(lambda: not behind(), timeout_s=timeout_s, what="groups", every_s=0.1)
        except TimeoutError:
            raise TimeoutError(f"within {timeout_s:g} s: {'; '.join(behind()[:4])}") from None

    async def stop(self, *, timeout_s: float) -> None:
        """Let every member close. :raises TimeoutError: one does not."""
        self.calm = self.over = True
        for member in self.members:
            member.released.set()
        if not self._tasks:
            return
        _, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
        if pending:
            names = ", ".join(sorted(task.get_name() for task in pending))
            raise TimeoutError(f"{names} did not end within {timeout_s:g} s")
        for task in self._tasks:
            task.result()


class Member:
    """It is one member of a group, again and again after each crash."""

    def __init__(
        self,
        workload: GroupWorkload,
        name: str,
        group: str,
        instance_id: str | None,
        entropy: SeededEntropy,
    ) -> None:
        self.workload = workload
        self.name = name
        self.group = group
        self.instance_id = instance_id
        self.lives = 0
        self.released = asyncio.Event()
        """Cleared, it stays away from its group once it has left or died."""
        self.released.set()
        self.leaves = False
        """It shall close, and not come back."""
        self.dawdles = False
        """It takes longer between two polls than it may."""
        self.process: Process | None = None
        self._entropy = entropy
        self._recorder: HistoryRecorder | None = None

    # ---- what faults do

    def kill(self) -> None:
        """Kill it as kill -9 does."""
        if self.process is not None and self.process.alive:
            self.workload.cluster.loop.trace(f"crash {self.name}")
            self.process.kill()

    # ---- life

    async def live(self) -> None:
        """Run, crash, run, until the workload is over."""
        workload = self.workload
        cluster = workload.cluster
        while not (workload.over or self.leaves):
            await self.released.wait()
            self.lives += 1
            process = self.process = cluster.client_process(self.name)
            crash_s = CRASH_EVERY_S * (0.2 + 1.6 * self._entropy.random())
            life = cluster.loop.create_task(process.call(self._work(), self.name))
            done, _ = await asyncio.wait([life], timeout=crash_s)
            if not (done or workload.calm or self.leaves):
                self.kill()
            try:
                await life
            except ProcessKilledError:
                pass
            except Exception as error:
                workload.failures.append(error)
                logger.error("%s raised %r", self.name, error, exc_info=error)
            process.kill()
            if self._recorder is not None:
                self._recorder.crashed()
            await asyncio.sleep(0.5 * self._entropy.random())

    async def _work(self) -> None:
        entropy = self._entropy.fork(f"life-{self.lives}")
        part = 0
        while not (self.workload.over or self.leaves) and self.released.is_set():
            part += 1
            consumer = self._consumer(entropy, part)
            try:
                await consumer.start()
                try:
                    if self.workload.cluster.knobs.group_pattern:
                        consumer.subscribe(pattern="[tk]")
                    await self._take_part(consumer, entropy)
                finally:
                    await consumer.close()
            except EXPECTED:
                await asyncio.sleep(0.2)

    def _consumer(self, entropy: SeededEntropy, part: int) -> Consumer:
        cluster = self.workload.cluster
        knobs = cluster.knobs
        kind = "static" if self.instance_id else "consumer"
        self._recorder = HistoryRecorder(
            f"{self.name}.{self.lives}",
            self.workload.sink,
            lambda: cluster.loop.now_s,
            client=f"{kind}-{part}",
        )
        topics = () if knobs.group_pattern else self.workload.topics
        return Consumer(
            *topics,
            bootstrap_servers=cluster.bootstrap,
            security=cluster.security,
            client_id=self.name,
            group_id=self.group,
            group_instance_id=self.instance_id,
            enable_auto_commit=knobs.group_auto_commit,
            auto_commit_interval_ms=knobs.auto_commit_interval_ms,
            session_timeout_ms=knobs.session_timeout_ms,
            heartbeat_interval_ms=knobs.heartbeat_interval_ms,
            max_poll_interval_ms=knobs.max_poll_interval_ms,
            partition_assignment_strategy=strategies(knobs.group_strategy),
            auto_offset_reset="earliest",
            fetch_min_bytes=entropy.choice([1, 3000]),
            fetch_max_wait_ms=300,
            request_timeout_ms=knobs.request_timeout_ms,
            connect_timeout_ms=1000,
            max_block_ms=5000,
            clock=cluster.client_clock,
            entropy=entropy.fork(f"consumer-{part}"),
            history=self._recorder,
        )

    # ---- in the group

    async def _take_part(self, consumer: Consumer, entropy: SeededEntropy) -> None:
        """Poll and commit, until it is time to close."""
        workload = self.workload
        while not (workload.over or self.leaves) and self.released.is_set():
            try:
                await self._turn(consumer, entropy)
            except FencedInstanceIdError:
                raise  # for good; a new consumer takes the name back
            except EXPECTED:
                await asyncio.sleep(0.1)
            if not workload.calm and entropy.random() < 1 / 150:
                return

    async def _turn(self, consumer: Consumer, entropy: SeededEntropy) -> None:
        workload, knobs = self.workload, self.workload.cluster.knobs
        found = await consumer.getmany(timeout_ms=200, max_records=entropy.choice([1, 20, 500]))
        self._note(found)
        if workload.calm:  # the last records of a log that compacts may be gone
            for partition in consumer.assignment():
                self._reaches(partition, await consumer.position(partition))
        draw = entropy.random()
        if self.dawdles or (not workload.calm and draw < 1 / 200):
            await asyncio.sleep(knobs.max_poll_interval_ms / 1000 * (0.9 + entropy.random()))
            await consumer.commit()
        elif found and not knobs.group_auto_commit:
            await self._commit(consumer, entropy, draw)
        elif draw < 0.03 and consumer.assignment():
            await consumer.committed(consumer.assignment())
        elif draw < 0.05:
            await consumer.commit()
        await asyncio.sleep(entropy.random() * (0.02 if workload.calm else 0.4))

    @staticmethod
    async def _commit(consumer: Consumer, entropy: SeededEntropy, draw: float) -> None:
        if draw < 0.5:
            await consumer.commit()
        elif draw < 0.8:
            pending = consumer.commit_async()
            if entropy.random() < 0.5:
                await pending
            else:
                pending.add_done_callback(_heard)

    def _note(self, found: Mapping[TopicPartition, Sequence[object]]) -> None:
        for name, records in found.items():
            if records:
                self._reaches(name, records[-1].offset + 1)  # type: ignore[attr-defined]

    def _reaches(self, partition: TopicPartition, end: int) -> None:
        seen, place = self.workload.read_up_to, (self.group, partition)
        seen[place] = max(seen.get(place, 0), end)


def _heard(pending: asyncio.Future[None]) -> None:
    """An error that nobody waits for is in the history."""
    if not pending.cancelled():
        pending.exception()
