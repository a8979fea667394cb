"""Brokers come and go and partitions move under load, while brokers are killed.

``make chaos-moves ROUNDS=3``. In a round a cluster of three brokers becomes one of five, its
replicas are spread, moved by hand, cancelled and moved again, and two brokers, drawn by chance, are
taken out for good. All of that is done by ``oncelog brokers``, ``balance`` and ``partitions``. The
receiver of a copy, its donor, a leader that loses its partition and the controller are killed by
SIGKILL, each in the middle of copies. Meanwhile records come in, and a group copies them to another
topic in transactions. Then both topics must hold every record once, in order; no client may have
seen an error that its retries did not mend; and the time that was told for a copy must have been
right within a quarter. One line of JSON on stdout is the verdict.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from integration.chaos import COPIERS, PARTITIONS, Copiers, Round, partitions_of, say, wait_copied
from integration.copied import compare_with, read_all, settled
from integration.elastic import INTERNAL, Elastic, Role, Targets
from integration.workload import Workload
from oncelog import Admin
from simulation.history import value_of

RATE = 150
"""So many records come in each second; the copiers together can copy four times as many."""
COPIED_WITHIN_S = 90.0
PACE = 16 << 20
ESTIMATED_BYTES = 256 << 20
"""A partition of this size takes a quarter of a minute at that pace."""
ESTIMATES_MAX = 3
ALL = frozenset(range(1, 6))


@dataclass(slots=True)
class MovesVerdict:
    """It judges one round, or several."""

    count_in: int = 0
    count_out: int = 0
    lost: int = 0
    doubled: int = 0
    moves_finished: int = 0
    moves_cancelled: int = 0
    brokers_added: int = 0
    brokers_removed: int = 0
    kills: int = 0
    ok: bool = True

    def to_json(self) -> str:
        """Return the line for programs."""
        fields = asdict(self)
        counts = {"in": fields.pop("count_in"), "out": fields.pop("count_out")}
        return json.dumps({**counts, **fields})


class MovesRound:
    """One round is played on a cluster of three, which has three brokers again when it is over.

    :param removed: these two brokers of the five are taken out.
    :param estimate: whether the time that is told for a copy is held against what it took.
    """

    def __init__(
        self,
        elastic: Elastic,
        name: str,
        removed: tuple[int, int],
        verdict: MovesVerdict,
        *,
        estimate: bool,
    ) -> None:
        self._elastic = elastic
        self._processes = elastic.processes
        self._name = name
        self._removed = removed
        self._verdict = verdict
        self._estimate = estimate
        self.complaints: list[str] = []
        """What was not as it is to be, for people."""
        self._refused_before: set[str] = set()

    async def play(self, directory: Path, seed: int) -> None:
        """Play it, and judge it."""
        source, target = f"{self._name}-in", f"{self._name}-out"
        for topic in (source, target):
            await self._processes.create_topic(topic, PARTITIONS)
        # The rate of each copier is that of all records: two can do what three have to.
        plan = Round(self._name, COPIERS * RATE, 1.0, hard=False, in_group=True, seed=seed)
        copiers = Copiers(self._processes.bootstrap, directory, plan)
        async with Workload(self._processes.bootstrap, source, PARTITIONS, rate=RATE) as load:
            try:
                for number in range(COPIERS):
                    copiers.start(number)
                await self._wait_shared()
                await self._change(load, directory)
                await load.wait_for(50)
                await load.stop()
                if not await wait_copied(self._processes, plan, COPIED_WITHIN_S, copiers):
                    self.complaints.append("not all is copied in time")
                await copiers.stop()
            finally:
                copiers.kill()
        self.complaints += [f"not written: {error!r}" for error in load.failed]
        self.complaints += copiers.mishaps
        self.complaints += sorted(self._refused(directory) - self._refused_before)
        await settled(self._processes.bootstrap, partitions_of(target))
        await self._judge(load, source, target)
        for topic in (source, target):
            await self._processes.delete_topic(topic)

    async def _judge(self, load: Workload, source: str, target: str) -> None:
        originals = {
            partition: [
                value_of(source, partition, "writer", number)
                for number in range(partition, load.sent, PARTITIONS)
            ]
            for partition in range(PARTITIONS)
        }
        for topic in (source, target):
            read = await read_all(self._processes.bootstrap, topic, PARTITIONS)
            found = compare_with(read, originals)
            say(f"{topic}: {found}")
            if not found.is_exact:
                self.complaints.append(f"{topic}: {found}")
            self._verdict.lost += found.lost
            self._verdict.doubled += found.doubled
        self._verdict.count_in += load.sent
        self._verdict.count_out += found.count_out
        await self._elastic.wait_whole()
        await load.verify(await self._processes.replicas(source))
        for topic in INTERNAL:
            await self._processes.wait_isr(topic, 3)

    # ---- the course of it

    async def _wait_shared(self) -> None:
        """Wait until the copiers share the partitions alike."""

        async def shared(admin: Admin) -> bool | None:
            (group,) = await admin.describe_groups([f"{self._name}-group"], include_offsets=False)
            counts = [len(member.partitions) for member in group.members]
            alike = counts == [PARTITIONS // COPIERS] * COPIERS
            return (group.state == "Stable" and alike) or None

        await self._processes.eventually("the copiers share the partitions", shared)

    def _refused(self, directory: Path) -> set[str]:
        """Return what copiers were told that their retries did not mend."""
        logs = directory.glob(f"{self._name}-copier-*.log")
        lines = (line for log in logs for line in log.read_text().splitlines())
        return {line for line in lines if line.startswith("not committed")}

    async def _change(self, load: Workload, directory: Path) -> None:
        elastic = self._elastic
        for topic in INTERNAL:  # they are made when they are needed first
            await self._processes.wait_isr(topic, 3)
        added = sorted(ALL - elastic.in_service)
        for broker in added:
            await elastic.add(broker)
            self._verdict.brokers_added += 1
        # A transaction that is open when members come to the group has to be begun again.
        self._refused_before = self._refused(directory)
        await self._moved(await elastic.balance(), "receiver", load)
        await self._expect_coordinators_at(added)
        await self._cancelled()
        await self._moved(await elastic.move(await elastic.other_leaders()), "leader", load)
        if self._estimate:
            await self._hold_estimate()
        roles: tuple[Role, Role] = ("donor", "controller")
        for broker, role in zip(self._removed, roles, strict=True):
            await self._evacuated(broker, role, load)

    async def _moved(self, targets: Targets, role: Role, load: Workload) -> None:
        """Kill who has the role in a move, and wait until all are where they are to be."""
        say(f"{self._name}: {len(targets)} partitions move")
        await self._harm(role, load)
        moved = await self._elastic.wait_moved(targets)
        self._verdict.moves_finished += moved
        if moved < len(targets):
            self.complaints.append(f"{len(targets) - moved} of {len(targets)} have not moved")
        await self._elastic.wait_whole()

    async def _evacuated(self, broker: int, role: Role, load: Workload) -> None:
        """Take a broker out, and kill who has the role while its replicas leave it."""
        held = await self._elastic.decommission(broker)
        say(f"{self._name}: {len(held)} partitions leave broker {broker}")
        await self._harm(role, load)
        await self._elastic.remove(broker)
        self._verdict.moves_finished += len(held)
        self._verdict.brokers_removed += 1
        await self._elastic.wait_whole()

    async def _harm(self, role: Role, load: Workload) -> None:
        killed = await self._elastic.kill_while_copying(role)
        say(f"{self._name}: the {role} is {killed}")
        if killed is None:
            self.complaints.append(f"no {role} was killed: the copies were over")
            return
        self._verdict.kills += 1
        await load.wait_for(20)
        await self._elastic.mend(killed)

    async def _cancelled(self) -> None:
        """Begin moves and cancel them: the replicas are those from before."""
        before = await self._elastic.replicas()
        await self._elastic.move(await self._elastic.other_leaders())
        self._verdict.moves_cancelled += await self._elastic.cancel()
        await self._elastic.wait_moved({})
        after = await self._elastic.replicas()
        changed = [tp for tp, held in before.items() if set(after[tp]) != set(held)]
        if changed:
            self.complaints.append(f"cancelled, and not as before: {changed}")
        await self._elastic.wait_whole()

    async def _hold_estimate(self) -> None:
        """Hold the time that is told against what a copy takes. Nobody can know what else a machine
        will have to do meanwhile, so it is tried again when that was wrong."""
        for _ in range(ESTIMATES_MAX):
            estimate = await self._elastic.estimated(ESTIMATED_BYTES)
            self._verdict.moves_finished += 1
            say(f"{self._name}: {estimate}")
            if estimate is not None and estimate.is_right:
                return
        self.complaints.append(f"no time that was told is right, at last {estimate}")

    async def _expect_coordinators_at(self, brokers: list[int]) -> None:
        held = await self._elastic.replicas()
        for topic in INTERNAL:
            at = {broker for tp, every in held.items() if tp.topic == topic for broker in every}
            if not at & set(brokers):
                self.complaints.append(f"nothing of {topic} has come to brokers {brokers}")


async def run(options: argparse.Namespace) -> int:
    """Run all rounds on one cluster; return the exit code."""
    verdict = MovesVerdict()
    directory = Path(options.dir or tempfile.mkdtemp(prefix="oncelog-chaos-moves-"))
    say(f"seed {options.seed}, logs in {directory}")
    chance = random.Random(options.seed)
    elastic = Elastic(directory / "cluster", pace=PACE, ballast=options.ballast)
    try:
        await elastic.start()
        for number in range(options.rounds):
            first, second = chance.sample(sorted(ALL), 2)
            round_ = MovesRound(elastic, f"round-{number}", (first, second), verdict, estimate=True)
            await round_.play(directory, options.seed + number)
            for complaint in round_.complaints:
                say(f"round-{number}: {complaint}")
            verdict.ok = verdict.ok and not round_.complaints
    except Exception as error:
        verdict.ok = False
        say(f"failed: {error!r}")
    finally:
        await elastic.stop()
    if verdict.ok and not options.dir:
        shutil.rmtree(directory)
    print(verdict.to_json())
    return 0 if verdict.ok else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos-moves", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--ballast", type=int, default=64 << 20, help="bytes of each large partition"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--dir", help="where cluster and logs live; a fresh folder in /tmp")
    return uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
