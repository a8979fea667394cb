"""A broker is taken out of service and back while its partitions are written, and nobody notices.

Every broker drains once, the controller among them: it loses its leaderships, stays in sync, can be
restarted, and leads again what it led when it is back in service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from integration.processes import DEADLINE_S, Processes
from integration.workload import Workload
from oncelog.admin.broker_states import ACTIVE, DRAINING
from support.shell import oncelog

pytestmark = pytest.mark.integration

TOPIC = "drained"
PARTITIONS = 6
BROKERS = (1, 2, 3)


@pytest_asyncio.fixture
async def cluster(processes: Processes) -> AsyncIterator[Processes]:
    """A cluster of three is running, with a topic that all of them have."""
    await processes.create_topic(TOPIC, PARTITIONS, min_insync_replicas="2")
    await processes.wait_isr(TOPIC, len(BROKERS))
    yield processes
    for broker_id in BROKERS:
        await oncelog("brokers", "recommission", str(broker_id), bootstrap=processes.bootstrap)
    await processes.heal()
    await processes.delete_topic(TOPIC)


async def test_every_broker_drains_under_load_and_nobody_notices(cluster: Processes) -> None:
    async with Workload(cluster.bootstrap, TOPIC, PARTITIONS) as load, cluster.admin() as admin:
        await load.wait_for(20)
        for broker_id in BROKERS:
            shown = await oncelog(
                *("brokers", "drain", str(broker_id), "--wait", "--timeout", f"{DEADLINE_S:g}s"),
                bootstrap=cluster.bootstrap,
            )
            assert shown.code == 0, shown.out + shown.err
            await cluster.wait_drained(TOPIC, broker_id, len(BROKERS))
            await load.wait_for(20)
            described = await admin.describe_cluster()
            assert {broker.broker_id: broker.state for broker in described.brokers} == {
                each: DRAINING if each == broker_id else ACTIVE for each in BROKERS
            }
            shown = await oncelog(
                "brokers", "recommission", str(broker_id), bootstrap=cluster.bootstrap
            )
            assert shown.code == 0, shown.err
            await cluster.wait_preferred(TOPIC)
        await load.wait_for(20)
        await load.stop()
        assert load.failed == []
        assert load.acknowledged == load.sent
        await cluster.wait_isr(TOPIC, len(BROKERS))
        await load.verify(await cluster.replicas(TOPIC))
        assert await load.read_back() == load.acknowledged, "no record is there twice"
