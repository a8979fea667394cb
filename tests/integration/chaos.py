"""Exactly once under fire: copiers, and the brokers under them, are killed and stopped at random.

``make chaos MESSAGES=100000 ROUNDS=5``. A round copies a topic while processes die, and ends when
the group has committed every position. Then the copy must hold every record once, in order, and no
transaction may be left open. Rounds take turns: hard (SIGKILL, SIGSTOP) and clean (SIGTERM), with
partitions that are assigned and with a group that assigns them. After Kafka's own system tests
(transactions_test.py). One line of JSON on stdout is the verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from integration.copied import Copied, compare, ends_of, fill, read_all, settled
from integration.copier import EXIT_FENCED, CopierOptions
from integration.processes import Processes
from oncelog import Admin, TopicPartition
from oncelog.errors import OncelogError
from oncelog_cli.local.process import ManagedProcess, start_process
from support.waiting import in_thread

PARTITIONS = 6
COPIERS = 3
LIBRARIES = Path(__file__).parents[1]
ENDS = (0, EXIT_FENCED, -signal.SIGTERM)
"""Exit codes that are no mishap; the last of a copier that was only just being started."""
SETTLE_WITHIN_S = 90.0
"""The time from the end of the chaos until everything is copied."""


@dataclass(frozen=True, slots=True)
class Round:
    """In one round processes end and partitions are assigned like this."""

    name: str
    messages: int
    seconds: float
    """How long the copying takes if nothing gets in its way."""
    hard: bool
    in_group: bool
    seed: int


class Copiers:
    """The copiers of one round: each has an id that it keeps over its lives."""

    def __init__(self, bootstrap: str, directory: Path, plan: Round) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._plan = plan
        self._lives = 0
        self.running: dict[int, ManagedProcess] = {}
        self.replaced: list[ManagedProcess] = []
        """Stopped ones whose successor runs: they are to be fenced when they wake up."""
        self.mishaps: list[str] = []
        """Ends that nobody asked for."""

    def start(self, number: int) -> None:
        """Start a copier, under the id of the one before."""
        plan = self._plan
        self._lives += 1
        own = [p for p in range(PARTITIONS) if p % COPIERS == number]
        options = CopierOptions(
            self._bootstrap,
            f"{plan.name}-in",
            f"{plan.name}-out",
            f"{plan.name}-group",
            f"{plan.name}-copier-{number}",
            seed=plan.seed * 1000 + self._lives,
            rate=max(20, int(plan.messages / plan.seconds / COPIERS)),
            partitions=[] if plan.in_group else own,
            # Some that are stopped are over when they wake up.
            transaction_timeout_ms=2_000 if plan.hard else 10_000,
        )
        self.running[number] = start_process(
            [sys.executable, "-m", "integration.copier", options.to_json()],
            log_path=self._directory / f"{plan.name}-copier-{number}.log",
            environment={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(LIBRARIES), *filter(None, sys.path)]),
            },
        )

    def mind(self) -> None:
        """Start again what ended though nobody asked for it; that is noted. A successor may be
        fenced by the one it replaced, if that one was stopped before it had begun."""
        for number, process in list(self.running.items()):
            if not process.is_alive():
                tail = "fenced" if process.exit_code == EXIT_FENCED else process.log_tail(4)
                self.mishaps.append(f"copier {number} ended with {process.exit_code}: {tail}")
                self.start(number)

    async def stop(self) -> None:
        """End all, cleanly. One that was replaced and has found nothing to do since has not noticed
        it: that is no mishap."""
        every = [(f"copier {number}", process) for number, process in self.running.items()]
        every += [("a replaced copier", process) for process in self.replaced]
        for _, process in every:
            process.resume()
            process.terminate()
        for name, process in every:
            await asyncio.to_thread(process.wait, 20.0)
            if process.exit_code not in ENDS:
                tail = process.log_tail(4)
                self.mishaps.append(f"{name} ended with {process.exit_code}: {tail}")

    def kill(self) -> None:
        """Send SIGKILL to whatever runs."""
        for process in [*self.running.values(), *self.replaced]:
            if process.is_alive():
                process.kill()


class Nemesis:
    """It kills and stops at random, one broker at a time and any copier, until told to end."""

    def __init__(self, processes: Processes, copiers: Copiers, plan: Round) -> None:
        self._processes = processes
        self._copiers = copiers
        self._hard = plan.hard
        self._chance = random.Random(plan.seed)
        self.broker_kills = 0
        self.client_kills = 0

    async def run(self) -> None:
        """Do harm until cancelled."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.3, 1.5))
            self._copiers.mind()
            await self._one()

    async def _one(self) -> None:
        if self._chance.random() < 0.5:
            broker = self._chance.choice(self._processes.broker_ids)
            if not self._hard:
                await self._bounce_broker(broker)
            elif self._chance.random() < 0.3:
                await self._pause_broker(broker)
            else:
                await self._kill_broker(broker)
            return
        number = self._chance.randrange(COPIERS)
        if not self._hard:
            await self._bounce_copier(number)
        elif self._chance.random() < 0.4:
            await self._pause_copier(number)
        else:
            await self._kill_copier(number)

    async def _kill_broker(self, broker: int) -> None:
        self._processes.kill(broker)
        self.broker_kills += 1
        await asyncio.sleep(self._chance.uniform(0, 2))
        await self._processes.restart(broker)

    async def _bounce_broker(self, broker: int) -> None:
        await self._processes.stop_cleanly(broker)
        self.broker_kills += 1
        await asyncio.sleep(self._chance.uniform(0, 1))
        await self._processes.restart(broker)

    async def _pause_broker(self, broker: int) -> None:
        self._processes.pause(broker)
        self.broker_kills += 1
        await asyncio.sleep(self._chance.uniform(0.2, 5))
        self._processes.resume(broker)

    async def _kill_copier(self, number: int) -> None:
        self._copiers.running[number].kill()
        self.client_kills += 1
        await asyncio.sleep(self._chance.uniform(0, 1))
        self._copiers.start(number)

    async def _bounce_copier(self, number: int) -> None:
        await in_thread(self._copiers.running[number].stop, 20.0)
        self.client_kills += 1
        self._copiers.start(number)

    async def _pause_copier(self, number: int) -> None:
        """Stop it; then it either goes on, or has a successor by then and must not harm it."""
        process = self._copiers.running[number]
        process.pause()
        self.client_kills += 1
        await asyncio.sleep(self._chance.uniform(0.2, 3))
        if self._chance.random() < 0.5:
            self._copiers.start(number)
            self._copiers.replaced.append(process)
            await asyncio.sleep(self._chance.uniform(0, 2))
        process.resume()


@dataclass(slots=True)
class Verdict:
    """It judges one round, or several."""

    count_in: int = 0
    count_out: int = 0
    lost: int = 0
    doubled: int = 0
    out_of_order: int = 0
    broker_kills: int = 0
    client_kills: int = 0
    ok: bool = True

    def add(self, copied: Copied, nemesis: Nemesis, *, ok: bool) -> None:
        """Count a round in."""
        self.count_in += copied.count_in
        self.count_out += copied.count_out
        self.lost += copied.lost
        self.doubled += copied.doubled
        self.out_of_order += copied.out_of_order
        self.broker_kills += nemesis.broker_kills
        self.client_kills += nemesis.client_kills
        self.ok = self.ok and ok

    def to_json(self) -> str:
        fields: dict[str, Any] = {
            "in": self.count_in,
            "out": self.count_out,
            "lost": self.lost,
            "doubled": self.doubled,
            "out_of_order": self.out_of_order,
            "broker_kills": self.broker_kills,
            "client_kills": self.client_kills,
            "ok": self.ok,
        }
        return json.dumps(fields)


def say(text: str) -> None:
    """Print progress, for people."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


async def play(processes: Processes, directory: Path, plan: Round, verdict: Verdict) -> None:
    """Play one round; ``verdict`` takes what came of it."""
    source, target = f"{plan.name}-in", f"{plan.name}-out"
    for topic in (source, target):
        await processes.create_topic(topic, PARTITIONS)
    counts = {p: len(range(p, plan.messages, PARTITIONS)) for p in range(PARTITIONS)}
    await fill(processes.bootstrap, source, counts)
    copiers = Copiers(processes.bootstrap, directory, plan)
    nemesis = Nemesis(processes, copiers, plan)
    is_done = False
    try:
        for number in range(COPIERS):
            copiers.start(number)
        async with processes.harmed_by(nemesis.run()):
            is_done = await wait_copied(processes, plan, 3 * plan.seconds)
        is_done = is_done or await wait_copied(processes, plan, SETTLE_WITHIN_S, copiers)
        await copiers.stop()
    finally:
        copiers.kill()
    await settled(processes.bootstrap, partitions_of(target))
    copies = await read_all(processes.bootstrap, target, PARTITIONS)
    copied = compare(copies, counts)
    for mishap in copiers.mishaps:
        say(f"{plan.name}: {mishap}")
    say(f"{plan.name}: {copied}{'' if is_done else ', NOT DONE in time'}")
    verdict.add(copied, nemesis, ok=copied.is_exact and is_done)
    for topic in (source, target):
        await processes.delete_topic(topic)


def partitions_of(topic: str) -> list[TopicPartition]:
    """Return all partitions of a topic of these runs."""
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


async def wait_copied(
    processes: Processes, plan: Round, within_s: float, copiers: Copiers | None = None
) -> bool:
    """Return whether the group has committed the ends of all partitions in time."""
    wanted = partitions_of(f"{plan.name}-in")
    ends: dict[TopicPartition, int] = {}
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if copiers is not None:
            copiers.mind()
        try:
            ends = ends or await ends_of(processes.bootstrap, wanted, isolation="read_committed")
            async with Admin(processes.bootstrap) as admin:
                found = await admin.list_group_offsets(
                    f"{plan.name}-group", wanted, require_stable=True, timeout_ms=3000
                )
        except (OncelogError, OSError):
            found = {}  # brokers are down: ask again
        if ends and all((o := found.get(tp)) and o.offset == end for tp, end in ends.items()):
            return True
        await asyncio.sleep(0.3)
    return False


def plans(messages: int, rounds: int, seconds: float, seed: int) -> list[Round]:
    """Draw hard and clean rounds, assigned and in a group, in turns."""
    kinds = [(True, False), (True, True), (False, False), (False, True)]
    found = []
    for number in range(rounds):
        hard, in_group = kinds[number % len(kinds)]
        name = f"{'hard' if hard else 'clean'}-{'group' if in_group else 'assigned'}-{number}"
        found.append(Round(name, messages, seconds, hard, in_group, seed + number))
    return found


async def run(options: argparse.Namespace) -> int:
    """Run all rounds on one cluster; return the exit code."""
    verdict = Verdict()
    directory = Path(options.dir or tempfile.mkdtemp(prefix="oncelog-chaos-"))
    say(f"seed {options.seed}, logs in {directory}")
    processes = Processes(directory / "cluster")
    await asyncio.to_thread(processes.cluster.start)
    try:
        for plan in plans(options.messages, options.rounds, options.seconds, options.seed):
            await play(processes, directory, plan, verdict)
    except Exception as error:
        verdict.ok = False
        say(f"failed: {error!r}")
    finally:
        await asyncio.to_thread(processes.cluster.stop)
    if verdict.ok and not options.dir:
        shutil.rmtree(directory)
    print(verdict.to_json())
    return 0 if verdict.ok else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="records a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0, help="of a round, undisturbed")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--dir", help="where cluster and logs live; a fresh folder in /tmp")
    return uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
