"""A cluster of real processes grows, shrinks and moves its partitions, by the command line alone.

``oncelog brokers``, ``balance`` and ``partitions`` do all of it; the admin client only looks. A
large topic that nobody writes, ``BALLAST``, makes copies that take a while: brokers die in them.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from integration.processes import DEADLINE_S, Processes
from oncelog import Admin, NewTopic, Producer, TopicPartition
from oncelog.admin.reassignments import COPYING
from support.shell import oncelog
from support.waiting import in_thread

BALLAST = "ballast"
BALLAST_PARTITIONS = 4
ESTIMATED = "estimated"
HALF_PERCENT = 50
LOOK_S = 0.3
RECORD = b"\0" * 500_000
INTERNAL = ("__consumer_offsets", "__transaction_state")

Role = Literal["receiver", "donor", "leader", "controller"]
Targets = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """It has the seconds that were told in the middle of a copy, and those that it took."""

    told_s: float
    took_s: float

    @property
    def is_right(self) -> bool:
        """Return whether it was right within a quarter."""
        return abs(self.told_s - self.took_s) <= self.took_s / 4


class Elastic:
    """Brokers come to a cluster and go, and its partitions move.

    :param pace: the bytes a second at which a broker copies what is far behind.
    :param ballast: the bytes of each partition of the large topic.
    """

    def __init__(self, directory: Path, *, pace: int, ballast: int) -> None:
        settings = {"replica_catch_up_max_bytes_per_second": pace}
        self.processes = Processes(directory, settings=settings)
        self.in_service = set(self.processes.broker_ids)
        self._ballast = ballast

    async def start(self) -> None:
        """Start three brokers, and fill the large topic."""
        await in_thread(self.processes.cluster.start)
        await self.processes.create_topic(BALLAST, BALLAST_PARTITIONS)
        await self._fill(BALLAST, BALLAST_PARTITIONS, self._ballast)

    async def _fill(self, topic: str, partitions: int, size: int) -> None:
        """Write so many bytes to each partition."""
        async with Producer(self.processes.bootstrap, acks="all") as producer:
            for partition in range(partitions):
                for _ in range(size // len(RECORD)):
                    await producer.enqueue(topic, RECORD, partition=partition)
            await producer.flush()

    async def stop(self) -> None:
        """End every process."""
        await in_thread(self.processes.cluster.stop)

    async def command(self, *words: str) -> Any:
        """Return the document that a command prints; it must succeed.

        :raises AssertionError: it did not, with what it says.
        """
        shown = await oncelog(*words, "--json", bootstrap=self.processes.bootstrap)
        assert shown.code == 0, f"oncelog {' '.join(words)}: {shown.out}{shown.err}"
        return shown.document

    # ---- brokers

    async def add(self, broker_id: int) -> None:
        """Start a broker with nothing; one that was taken out is taken back first."""
        cluster = self.processes.cluster
        if broker_id in cluster.brokers:
            await self.command("brokers", "recommission", str(broker_id))
            await in_thread(cluster.start_broker, broker_id, DEADLINE_S)
        else:
            cluster.grow(broker_id)
            await in_thread(cluster.start)
        self.in_service.add(broker_id)

    async def decommission(self, broker_id: int) -> set[TopicPartition]:
        """Take a broker out of the cluster, whose replicas move by themselves; return which."""
        held = {tp for tp, brokers in (await self.replicas()).items() if broker_id in brokers}
        await self.command("brokers", "decommission", str(broker_id), "--yes")

        async def begun(admin: Admin) -> bool | None:
            return bool((await admin.list_partition_reassignments()).partitions) or None

        await self.processes.eventually(f"replicas leave broker {broker_id}", begun)
        return held

    async def remove(self, broker_id: int) -> None:
        """Wait until a broker is decommissioned; end its process, and throw its data away.

        :raises AssertionError: it has data of a partition still.
        """
        limit = ("--wait", "--timeout", f"{DEADLINE_S:g}s")
        await self.command("brokers", "decommission", str(broker_id), "--yes", *limit)
        await self.processes.stop_cleanly(broker_id)
        self.in_service.remove(broker_id)
        data = self.processes.cluster.broker(broker_id).data_path
        left = [each.name for each in data.iterdir() if each.is_dir()]
        assert not left, f"broker {broker_id} is decommissioned and has {left}"
        shutil.rmtree(data)

    # ---- moves

    async def balance(self, *words: str) -> Targets:
        """Have the controller plan and move; return what is to move where."""
        return _planned(await self.command("balance", "run", "--yes", *words))

    async def move(self, targets: Targets) -> Targets:
        """Move partitions of the large topic by hand; return what is to move where."""
        done: dict[TopicPartition, Sequence[int]] = {}
        for (topic, partition), target in targets.items():
            to = ",".join(map(str, target))
            name = f"{topic}:{partition}"
            done |= _planned(await self.command("partitions", "move", name, "--to", to, "--yes"))
        return done

    async def cancel(self) -> int:
        """Cancel all that moves; return how many partitions that was."""
        document = await self.command("partitions", "cancel", "--all", "--yes")
        return sum(row["result"] == "cancelled" for row in document["partitions"])

    async def wait_moved(self, targets: Targets) -> int:
        """Wait until nothing moves; return how many of these are where they are to be."""
        watch = ("--watch", "--exit-when-done", "--interval", "200ms", "--timeout", "2m")
        shown = await oncelog("partitions", "status", *watch, bootstrap=self.processes.bootstrap)
        assert shown.code == 0, shown.out[-2000:] + shown.err
        held = await self.replicas()
        return sum(held.get(tp) == tuple(target) for tp, target in targets.items())

    async def other_leaders(self) -> dict[TopicPartition, list[int]]:
        """Return targets for the large topic that take each leader away, for an idle broker."""
        async with self.processes.admin() as admin:
            (topic,) = await admin.describe_topics([BALLAST])
        targets = {}
        for item in topic.partitions:
            new = sorted(self.in_service - set(item.replicas))
            stay = [broker for broker in item.replicas if broker != item.leader]
            target = [new[item.partition % len(new)], *stay]
            targets[TopicPartition(BALLAST, item.partition)] = target
        return targets

    async def estimated(self, size: int) -> Estimate | None:
        """Move a partition of its own by hand, and hold the time that is told in the first half of
        its copy against the time that it took; None: no time was told.

        :param size: the bytes of the partition. The last 16 MiB of a copy are not held back, so the
            time that is told for a copy of few times that is too long.
        """
        old, new = sorted(self.in_service)[:2]
        tp = TopicPartition(ESTIMATED, 0)
        async with self.processes.admin() as admin:
            topic = NewTopic(ESTIMATED, assignment=[[old]])
            (await admin.create_topics([topic])).raise_for_errors()
        await self._fill(ESTIMATED, 1, size)
        targets = await self.move({tp: [new]})
        loop = asyncio.get_running_loop()
        told: list[tuple[float, int]] = []
        while rows := (await self.command("partitions", "status", ESTIMATED))["partitions"]:
            row = rows[0]
            if row["phase"] == COPYING and row["seconds_left"] and row["percent"] < HALF_PERCENT:
                told.append((loop.time(), row["seconds_left"]))
            await asyncio.sleep(LOOK_S)
        over = loop.time()
        assert await self.wait_moved(targets) == 1
        await self.processes.delete_topic(ESTIMATED)
        if not told:
            return None
        at, seconds = told[len(told) // 2]
        return Estimate(seconds, over - at)

    # ---- damage

    async def kill_while_copying(self, role: Role) -> int | None:
        """Kill -9 the broker of this role in a copy of the large topic, and return it; None: the
        copies were over before.

        A donor is the leader of what is copied; a leader is one that leads no more afterwards.
        """

        async def victim(admin: Admin) -> int | None:
            listed = await admin.list_partition_reassignments()
            copying = [m for m in listed.partitions if m.phase == COPYING]
            copying = [m for m in copying if m.partition.topic == BALLAST]
            if not copying:
                return None if listed.partitions else -1
            if role == "controller":
                return (await admin.describe_cluster()).controller_id
            (topic,) = await admin.describe_topics([BALLAST])
            for move in copying:
                leader = topic.partitions[move.partition.partition].leader
                if role == "receiver" and move.adding:
                    return move.adding[0]
                if leader >= 0 and (role == "donor" or leader in move.removing):
                    return leader
            return None

        found = await self.processes.eventually(f"a copy has a {role}", victim)
        if found < 0:
            return None
        self.processes.kill(found)
        return found

    async def mend(self, broker_id: int) -> None:
        """Start a broker again."""
        await self.processes.restart(broker_id)

    # ---- facts

    async def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return who has each partition, those of coordinators too."""
        async with self.processes.admin() as admin:
            topics = await admin.describe_topics(None)
        return {
            TopicPartition(topic.topic, item.partition): tuple(item.replicas)
            for topic in topics
            for item in topic.partitions
        }

    async def wait_whole(self) -> None:
        """Wait until each partition has a leader, and all of its replicas are in sync."""

        async def whole(admin: Admin) -> bool | None:
            every = [p for t in await admin.describe_topics(None) for p in t.partitions]
            good = [p.leader >= 0 and set(p.isr) == set(p.replicas) for p in every]
            return all(good) or None

        await self.processes.eventually("every replica is in sync", whole)


def _planned(document: Any) -> Targets:
    return {
        TopicPartition(row["topic"], row["partition"]): row["target"]
        for row in document["partitions"]
        if row["result"] == "planned"
    }
