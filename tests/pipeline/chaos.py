"""A pipeline under fire: Spark drivers, tasks, executors and brokers die; the copy must be exact.

``make chaos-spark ROUNDS=4 MESSAGES=20000``. A round copies a topic, micro-batch after micro-batch,
with the real source and the real sink. Task attempts fail or die by chance, brokers are killed and
stopped by chance, and the driver is killed with SIGKILL at the points of the round, where another
life of it goes on. What was stopped in the middle of a write is woken when all is copied. Then the
target must hold every record once and in order, and no transaction may be left open. One line of
JSON on stdout is the verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import uvloop

from integration.copied import Copied
from integration.processes import Processes
from oncelog_cli.local.process import ManagedProcess
from pipeline.chaos_driver import DriverOptions
from pipeline.drivers import SparkDriver, next_life, of_pid, parent_of
from pipeline.faulty_sink import task_kills
from pipeline.gates import Gates
from pipeline.stream_copy import StreamCopy

PARTITIONS = 4
BATCHES = 12
LIFE_WITHIN_S = 300.0
"""How long a life may take until it comes to the point where it ends."""
COPIED_WITHIN_S = 400.0
PRELOADED = {"spark.python.daemon.module": "pipeline.preloaded_daemon"}
SHORT_TIMEOUTS = {
    "spark.network.timeout": "8s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "2s",
    "spark.executor.memory": "1g",
}
"""So that an executor that stands still is given up within seconds."""

Point = Literal["before-commit", "after-commit", "write-end", "zombie", "any time", "executor"]


@dataclass(frozen=True, slots=True)
class Round:
    """In one round the driver is killed at these points, in turn; or an executor is stopped."""

    name: str
    messages: int
    points: tuple[Point, ...]
    seed: int
    fail_part: float = 0.1

    @property
    def master(self) -> str:
        """Return a master with executors of its own only where one is to be stopped."""
        return "local-cluster[2,2,1024]" if "executor" in self.points else "local[4,4]"

    @property
    def conf(self) -> dict[str, str]:
        """Return Spark's settings."""
        return {**PRELOADED, **SHORT_TIMEOUTS} if "executor" in self.points else PRELOADED


KINDS: tuple[tuple[Point, ...], ...] = (
    ("before-commit", "after-commit"),
    ("zombie", "write-end"),
    ("executor",),
    ("any time", "after-commit", "before-commit"),
)


@dataclass(slots=True)
class Verdict:
    """It judges all rounds."""

    count_in: int = 0
    count_out: int = 0
    lost: int = 0
    doubled: int = 0
    driver_kills: int = 0
    task_kills: int = 0
    broker_kills: int = 0
    ok: bool = True

    def add(self, copied: Copied, *, is_done: bool) -> None:
        """Count a round in."""
        self.count_in += copied.count_in
        self.count_out += copied.count_out
        self.lost += copied.lost
        self.doubled += copied.doubled
        self.ok = self.ok and is_done and copied.is_exact

    def to_json(self) -> str:
        return json.dumps(
            {
                "in": self.count_in,
                "out": self.count_out,
                "lost": self.lost,
                "doubled": self.doubled,
                "driver_kills": self.driver_kills,
                "task_kills": self.task_kills,
                "broker_kills": self.broker_kills,
                "ok": self.ok,
            }
        )


def say(text: str) -> None:
    """Print progress, for people."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Play:
    """It is one round on a cluster that runs."""

    def __init__(
        self, processes: Processes, directory: Path, plan: Round, verdict: Verdict
    ) -> None:
        self._processes = processes
        self._plan = plan
        self._verdict = verdict
        self._chance = random.Random(plan.seed)
        self._state = directory / plan.name
        self._copy = StreamCopy(processes, plan.name, PARTITIONS, plan.messages)
        self._gates = Gates(self._state / "gates")
        self._asleep: list[list[ManagedProcess]] = []
        """What was stopped: workers, each with its executor if that was stopped too."""
        self._options = DriverOptions(
            processes.bootstrap,
            str(self._state / "life-1"),
            str(self._state),
            [self._copy.query(BATCHES, plan.fail_part)],
            plan.master,
            plan.conf,
        )
        self._driver: SparkDriver | None = None

    async def run(self) -> None:
        await self._copy.prepare()
        try:
            async with self._processes.harmed_by(self._trouble()):
                for number, point in enumerate(self._plan.points):
                    await self._live(number, point)
                is_done = await self._last_life()
            await self._wake()
            is_done = is_done and await self._copy.arrived(COPIED_WITHIN_S, self._mind)
            copied = await self._copy.compare()
        finally:
            self._verdict.task_kills += task_kills(self._state / "gates") + len(self._asleep)
            await self._end()
        say(f"{self._plan.name}: {copied}{'' if is_done else ', NOT DONE in time'}")
        self._verdict.add(copied, is_done=is_done)
        await self._copy.remove()

    async def _live(self, number: int, point: Point) -> None:
        """Run one life, to its point."""
        name, batch = self._plan.name, 1 + 2 * number
        gate = f"{name}.{'write-middle' if point in ('zombie', 'executor') else point}"
        if point != "any time":
            stays = point in ("zombie", "executor")
            self._gates.arm(gate, "stay" if stays else "wait", batch=batch)
        driver = self._start(number + 1)
        if point == "any time":
            await driver.began(LIFE_WITHIN_S)
            await asyncio.sleep(self._chance.uniform(3, 15))
        else:
            await self._reached(gate, driver)
        say(f"{name}: {point}")
        if point == "executor":
            self._stop_worker(gate, with_executor=True)
            return
        if point == "zombie":
            self._stop_worker(gate, with_executor=False)
        await driver.kill(spare=[process.pid for group in self._asleep for process in group])
        self._verdict.driver_kills += 1
        self._driver = None

    async def _last_life(self) -> bool:
        if self._driver is None:
            self._start(len(self._plan.points) + 1)
        return await self._copy.arrived(COPIED_WITHIN_S, self._mind)

    def _start(self, number: int) -> SparkDriver:
        self._options = next_life(self._options, number)
        self._driver = SparkDriver(self._options)
        return self._driver

    async def _reached(self, gate: str, driver: SparkDriver) -> None:
        deadline = time.monotonic() + LIFE_WITHIN_S
        while self._gates.visitor(gate) is None:
            driver.check_alive()
            assert time.monotonic() < deadline, f"nobody came to {gate}: {driver.log}"
            await asyncio.sleep(0.02)

    def _stop_worker(self, gate: str, *, with_executor: bool) -> None:
        """Send SIGSTOP to whoever waits there, and to the executor whose task it does."""
        visitor = self._gates.visitor(gate)
        assert visitor is not None
        group = [of_pid(visitor.pid)]
        if with_executor:
            group.append(of_pid(parent_of(visitor.parent)))
        for process in reversed(group):
            process.pause()
        self._asleep.append(group)

    async def _wake(self) -> None:
        """The zombies go on with their writes; then their executors wake up as well."""
        self._gates.release(f"{self._plan.name}.write-middle")
        for worker, *others in self._asleep:
            worker.resume()
            await asyncio.to_thread(worker.wait, 20.0)
            for process in others:
                process.resume()
        for word in self._gates.told(f"{self._plan.name}.write"):
            say(f"{self._plan.name}: a writer was told {word:.300}")

    def _mind(self) -> None:
        if self._driver is not None:
            self._driver.check_alive()

    async def _end(self) -> None:
        if self._driver is not None:
            for failure in self._driver.failures(self._plan.name):
                say(f"{self._plan.name}: the query was started again: {failure:.300}")
            await self._driver.stop()
        for group in self._asleep:
            for process in group:
                process.kill()

    # ---- brokers

    async def _trouble(self) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(2, 6))
            broker = self._chance.choice(self._processes.broker_ids)
            self._verdict.broker_kills += 1
            if self._chance.random() < 0.3:
                self._processes.pause(broker)
                await asyncio.sleep(self._chance.uniform(0.2, 5))
                self._processes.resume(broker)
            else:
                self._processes.kill(broker)
                await asyncio.sleep(self._chance.uniform(0, 2))
                await self._processes.restart(broker)


async def run(options: argparse.Namespace) -> int:
    """Run all rounds on one cluster; return the exit code."""
    verdict = Verdict()
    directory = Path(options.dir or tempfile.mkdtemp(prefix="oncelog-chaos-spark-"))
    say(f"seed {options.seed}, logs in {directory}")
    processes = Processes(directory / "cluster")
    await asyncio.to_thread(processes.cluster.start)
    try:
        for number in range(options.rounds):
            points = KINDS[number % len(KINDS)]
            plan = Round(f"round-{number}", options.messages, points, options.seed + number)
            await Play(processes, directory, plan, verdict).run()
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
    parser = argparse.ArgumentParser(prog="chaos-spark", description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000, help="records a round")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--dir", help="where cluster, checkpoints and logs live; fresh in /tmp")
    return uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
