"""The simulator found these bugs, each told again as a small story, without chance."""

from __future__ import annotations

import asyncio
import errno

from oncelog_controller.store import Create
from oncelog_controller.znodes import broker_path
from oncelog_runtime.entropy import SeededEntropy
from simulation.cluster import DATA, SimCluster
from simulation.disk_faults import CHANGES
from simulation.knobs import Knobs
from simulation.loop import SimLoop
from simulation.workload import Workload


def test_a_broker_whose_disks_cannot_be_read_does_not_register() -> None:
    """Seeds 143 and 2043: it registered, said that its data was gone, and failed a moment later;
    meanwhile the controller had taken it at its word."""
    loop = SimLoop(1)

    async def story() -> None:
        cluster = SimCluster(loop, Knobs(), SeededEntropy(1))
        await cluster.start()
        workload = Workload(cluster, SeededEntropy(2), lambda _: None)
        await workload.create_topic()
        await workload.probe(timeout_s=10)
        cluster.crash_broker(1)
        for operation in CHANGES:
            cluster.disks[1].fail(operation, DATA, error=errno.EROFS, times=None)
        seen = len(cluster.zookeeper.writes)
        cluster.start_broker(1)
        await asyncio.sleep(5)
        assert 1 not in cluster.serving
        registrations = [
            op
            for _, ops in cluster.zookeeper.writes[seen:]
            for op in ops
            if isinstance(op, Create) and op.path == broker_path(1)
        ]
        assert not registrations
        cluster.disks[1].heal()
        await cluster.converged(timeout_s=30)

    loop.run(story())
