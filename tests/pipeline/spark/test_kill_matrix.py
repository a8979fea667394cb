"""A pipeline with real Spark and real brokers is killed everywhere: every record arrives once.

One Spark driver runs several copies at a time, each of which is brought to its own point; then the
driver is killed with SIGKILL, at all these points at once, and a second life of it goes on from the
checkpoints. Starting Spark is what takes the time here, so two lives do for the whole matrix;
``make chaos-spark`` repeats it at random, with brokers that die meanwhile. The copy in trouble
takes minutes, and so belongs to the night.

=========  =======================================================================================
copy       what happens to it
=========  =======================================================================================
before     killed when all tasks have written, before the broker is asked to commit
after      killed when the broker has committed, before Spark's commit log says so
zombie     a worker is stopped in the middle of its writes, and wakes up when the batch was written
           again, and committed
trouble    in batch 1 a task's process dies in the middle, and its next attempt fails at the end;
           in batch 2 the leader of a partition that is written to dies;
           in batch 3 the coordinator dies when the commit is decided and a marker has yet to come;
           in batch 4 every attempt of a task fails: Spark aborts the batch and the query fails
=========  =======================================================================================
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from integration.processes import Processes
from integration.test_coordinator_killed import coordinator_of
from oncelog_cli.local.process import ManagedProcess
from pipeline.chaos_driver import DriverOptions
from pipeline.drivers import SparkDriver, next_life, of_pid
from pipeline.gates import Gates
from pipeline.stream_copy import StreamCopy

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(900)]

PARTITIONS = 2
MESSAGES = 4_000
TROUBLE = "trouble"
KILLED = ("before", "after", "zombie")
BATCHES = {TROUBLE: 6, **dict.fromkeys(KILLED, 3)}
RETRIED, FAILOVER, MARKERS, ABORTED = 1, 2, 3, 4
"""Batches of ``trouble``."""
SLOW_START = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start; a busy machine may need longer."""
REACHED_WITHIN_S = 400.0
"""A driver comes to its points within half a minute where it is alone. Beside other tests on two
slow cores 200 seconds were too few."""
CONF = {"spark.python.daemon.module": "pipeline.preloaded_daemon"}


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three runs, and is whole again afterwards."""
    yield processes
    await processes.heal()


@dataclass(slots=True)
class Matrix:
    """It holds the copies, and the driver of all of them."""

    cluster: Processes
    state: Path
    copies: dict[str, StreamCopy]
    options: DriverOptions
    driver: SparkDriver
    gates: Gates

    @classmethod
    async def begin(cls, cluster: Processes, state: Path, names: Sequence[str]) -> Matrix:
        """Make the topics of some copies and their records, and begin the first life."""
        copies = {name: StreamCopy(cluster, name, PARTITIONS, MESSAGES) for name in names}
        for copy in copies.values():
            await copy.prepare()
        gates = Gates(state / "gates")
        gates.arm("before.before-commit", batch=1)
        gates.arm("after.after-commit", batch=1)
        gates.arm("zombie.write-middle", "stay", batch=1)
        if TROUBLE in names:
            gates.arm("trouble.write-middle", "die", batch=RETRIED)
            gates.arm("trouble.write-end", "fail", batch=RETRIED)
        queries = [copy.query(BATCHES[name]) for name, copy in copies.items()]
        options = DriverOptions(
            cluster.bootstrap,
            str(state / "life-1"),
            str(state),
            # The one with the most to do comes first.
            queries[::-1],
            master="local[8,4]",
            conf=CONF,
        )
        return cls(cluster, state, copies, options, SparkDriver(options), gates)

    async def until(self, what: str) -> None:
        """Wait until somebody comes to a gate; the driver must live meanwhile."""
        try:
            await self.gates.reached(what, REACHED_WITHIN_S, self.driver.check_alive)
        except AssertionError as error:
            raise AssertionError(f"{error}; {self.story()}") from None

    def story(self) -> str:
        """Return how far the driver has come: whoever waited in vain wants to know."""
        gates = sorted(path.name for path in (self.state / "gates").iterdir())
        status = self.driver.status()
        return f"gates: {gates}; the driver told: {status}; its log: {self.driver.log}"

    async def kill(self, spare: tuple[int, ...] = ()) -> None:
        """End one life, and begin the next."""
        await self.driver.kill(spare)
        left = [query for query in self.options.queries if query.name in KILLED]
        self.options = replace(next_life(self.options, 2), queries=left)
        self.driver = SparkDriver(self.options)

    def committed(self, name: str) -> list[int]:
        """Return the batches that Spark's commit log has."""
        folder = self.state / "checkpoints" / name / "commits"
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())

    async def until_arrived(self, name: str) -> None:
        """Wait until a copy has come to its end; the driver must live meanwhile."""
        arrived = await self.copies[name].arrived(300, self.driver.check_alive)
        failures = self.driver.failures(name)
        assert arrived, f"{name} did not arrive; it failed with {failures}: {self.driver.log}"

    def failures(self, name: str) -> list[str]:
        """Return why a query had to be started again, other than for a slow machine."""
        return [text for text in self.driver.failures(name) if SLOW_START not in text]

    def transactional_id(self, name: str) -> str:
        """Return that of a query, by its id in the checkpoint."""
        path = self.state / "checkpoints" / name / "metadata"
        return f"spark-{json.loads(path.read_text())['id']}"


async def attempts_fail(matrix: Matrix) -> None:
    """One dies, the next fails; the others go on by themselves."""
    await matrix.until("trouble.write-middle")
    await matrix.until("trouble.write-end")
    matrix.gates.arm("trouble.write-middle", batch=FAILOVER)


async def leader_dies_in_the_batch(matrix: Matrix) -> None:
    await matrix.until("trouble.write-middle")
    matrix.gates.arm("trouble.before-commit", batch=MARKERS)
    matrix.gates.arm("trouble.after-commit", batch=MARKERS)
    victim = await matrix.cluster.leader("trouble-out", 0)
    matrix.cluster.kill(victim)
    matrix.gates.release("trouble.write-middle")
    await matrix.cluster.restart(victim)


async def coordinator_dies_before_a_marker(matrix: Matrix) -> None:
    """One that leads a partition is stopped, so that its marker cannot be written meanwhile."""
    await matrix.until("trouble.before-commit")
    victim = await coordinator_of(matrix.cluster, matrix.transactional_id(TROUBLE))
    leaders = [await matrix.cluster.leader("trouble-out", p) for p in range(PARTITIONS)]
    stopped = next((leader for leader in leaders if leader != victim), None)
    if stopped is not None:
        matrix.cluster.pause(stopped)
    matrix.gates.arm("trouble.write-middle", "fail", batch=ABORTED, once=False)
    matrix.gates.arm("trouble.abort", batch=ABORTED)
    matrix.gates.release("trouble.before-commit")
    await matrix.until("trouble.after-commit")
    matrix.cluster.kill(victim)
    if stopped is not None:
        matrix.cluster.resume(stopped)
    matrix.gates.release("trouble.after-commit")
    await matrix.cluster.restart(victim)


async def spark_aborts_the_batch(matrix: Matrix) -> None:
    await matrix.until("trouble.abort")
    matrix.gates.disarm("trouble.write-middle")
    matrix.gates.release("trouble.abort")


async def trouble_comes(matrix: Matrix) -> None:
    """Tasks, a leader and a coordinator die one after the other; the driver goes on."""
    await attempts_fail(matrix)
    await leader_dies_in_the_batch(matrix)
    await coordinator_dies_before_a_marker(matrix)
    await spark_aborts_the_batch(matrix)
    await matrix.until_arrived(TROUBLE)
    failures = matrix.failures(TROUBLE)
    assert len(failures) == 1, failures
    assert "as told" in failures[0]


async def the_driver_dies(matrix: Matrix) -> None:
    """It is killed when each copy has come to its point, and a second life goes on."""
    for point in ("before.before-commit", "after.after-commit", "zombie.write-middle"):
        await matrix.until(point)
    zombie = matrix.gates.visitor("zombie.write-middle")
    assert zombie is not None
    worker = of_pid(zombie.pid)
    worker.pause()
    for name in KILLED:
        assert not matrix.failures(name), name
        assert matrix.committed(name) == [0]
    await matrix.kill(spare=(zombie.pid,))
    for name in KILLED:
        await matrix.until_arrived(name)
    await the_zombie_wakes(matrix, worker)


@pytest.mark.parametrize(
    "names", [KILLED, pytest.param((*KILLED, TROUBLE), marks=pytest.mark.nightly)], ids=len
)
async def test_the_kill_matrix(cluster: Processes, tmp_path: Path, names: Sequence[str]) -> None:
    matrix = await Matrix.begin(cluster, tmp_path / "state", names)
    try:
        if TROUBLE in names:
            await trouble_comes(matrix)
        await the_driver_dies(matrix)
        for name, copy in matrix.copies.items():
            copied = await copy.compare()
            assert copied.is_exact, f"{name}: {copied}"
            assert copied.count_out == MESSAGES
    finally:
        await matrix.driver.stop()


async def the_zombie_wakes(matrix: Matrix, worker: ManagedProcess) -> None:
    """It goes on with its writes, which the broker refuses; without its Spark it ends then."""
    assert worker.is_paused()
    matrix.gates.release("zombie.write-middle")
    worker.resume()
    deadline = asyncio.get_running_loop().time() + 100
    while not (told := matrix.gates.told("zombie.write")):
        assert asyncio.get_running_loop().time() < deadline, "the zombie said nothing"
        await asyncio.sleep(0.05)
    assert "has epoch" in told[0] or "Fenced" in told[0], told
    assert await asyncio.to_thread(worker.wait, 30.0)
