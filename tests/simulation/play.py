"""The simulator's own tests use one short simulation."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import SimCluster
from simulation.knobs import Knobs
from simulation.loop import SimLoop
from simulation.workload import Workload

T = TypeVar("T")


def play(main: Callable[[SimLoop], Coroutine[Any, Any, T]], seed: int | str = 1) -> T:
    """Run ``main(loop)`` on a new loop, in which nothing must go wrong unseen."""
    loop = SimLoop(seed)
    result = loop.run(main(loop))
    assert loop.unhandled == []
    return result


def play_cluster(
    scene: Callable[[SimCluster], Coroutine[Any, Any, T]],
    knobs: Knobs | None = None,
    *,
    seed: int | str = 1,
    safeguards: dict[str, Any] | None = None,
) -> T:
    """Run ``scene(cluster)`` on a cluster that has started and has the workload's topic."""

    async def main(loop: SimLoop) -> T:
        entropy = SeededEntropy(seed)
        cluster = SimCluster(loop, knobs or Knobs(), entropy, safeguards=safeguards)
        await cluster.start()
        await Workload(cluster, entropy.fork("workload"), lambda event: None).create_topic()
        return await scene(cluster)

    return play(main, seed)
