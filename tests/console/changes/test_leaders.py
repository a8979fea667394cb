"""Leaders are elected as planned: preferred ones, or any where nobody leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog import Producer, TopicPartition
from oncelog.admin.results import LogDirDescription
from oncelog_console.changes.change import FormError, RefusedError
from oncelog_console.plans import PlanError
from oncelog_console.snapshot import Snapshot
from support.changes import Workshop
from support.cluster import Cluster
from support.console import console_of
from support.waiting import eventually


def nobody_leads(seen: Snapshot) -> bool:
    topic = seen.topic("t")
    return topic is not None and topic.partitions[0].leader < 0


def replicas(seen: Snapshot) -> list[LogDirDescription]:
    return [each for each in seen.log_dirs.value or () if each.replicas]


async def moved_away(cluster: Cluster) -> None:
    """Broker 1 has been away: it leads nothing any more, and is in sync again."""
    await cluster.create_topic("t", partitions=2, replication_factor=2)
    await cluster.stop_broker(1)
    await eventually(lambda: [cluster.leader("t", n) for n in (0, 1)] == [2, 2])
    await cluster.start_broker(1)
    await eventually(lambda: all(sorted(cluster.state("t", n).isr) == [1, 2] for n in (0, 1)))


async def test_preferred_leaders(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2, auto_leader_rebalance_enable=False) as cluster:
        await moved_away(cluster)
        async with console_of(cluster.bootstrap, changes=True) as browser:
            shop = Workshop(browser)
            plan, late = [await shop.plan("elect-preferred", partitions="t") for _ in range(2)]
            (row,) = plan.seen.tables[0].rows
            assert (row["leader"], row["preferred"]) == (2, 1)
            assert plan.change.typed == ""
            line = plan.change.command(plan.seen).text()
            assert line == f"oncelog elect-leaders --topic t:{row['partition']}"
            await shop.carry_out(plan)
            await shop.arrives(plan)
            assert sorted(cluster.leader("t", n) for n in (0, 1)) == [1, 2]
            with pytest.raises(PlanError, match="is led by its preferred replica"):
                await shop.carry_out(late)
            with pytest.raises(RefusedError, match="led by its preferred replica"):
                await shop.plan("elect-preferred")
            with pytest.raises(FormError, match="only shows it"):
                await shop.plan("elect-preferred", partitions="__consumer_offsets:0")
            with pytest.raises(FormError, match="expected TOPIC"):
                await shop.plan("elect-preferred", partitions="t:")


@pytest.mark.slow
async def test_an_unclean_election_counts_what_is_lost(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=2) as cluster:
        await cluster.create_topic("t", replication_factor=2)
        first = cluster.leader("t")
        other = 3 - first
        async with console_of(cluster.bootstrap, changes=True) as browser:
            shop = Workshop(browser)
            with pytest.raises(RefusedError, match=f"t-0 is led by broker {first}"):
                await shop.plan("elect-unclean", topic="t", partition="0")
            with pytest.raises(RefusedError, match="no partition 7"):
                await shop.plan("elect-unclean", topic="t", partition="7")
            await cluster.crash_broker(other)
            await eventually(lambda: list(cluster.state("t").isr) == [first])
            async with Producer(cluster.bootstrap) as producer:
                for _ in range(5):
                    await producer.send("t", b"committed")
            tp = TopicPartition("t", 0)
            await browser.until(lambda seen: seen.committed.get(tp) == 5)
            await cluster.crash_broker(first)
            await cluster.start_broker(other)
            await eventually(
                lambda: cluster.brokers[other].runner.is_active and cluster.leader("t") < 0
            )
            await browser.until(
                lambda seen: nobody_leads(seen) and other in [b.broker_id for b in replicas(seen)],
                timeout_s=40,
            )
            plan, late = [
                await shop.plan("elect-unclean", topic="t", partition="0") for _ in range(2)
            ]
            assert plan.change.typed == "t-0"
            rows = {row["broker"]: row for row in plan.seen.tables[0].rows}
            assert rows[first]["end"] is None
            assert "away" in rows[first]["was"]
            assert (rows[other]["end"], rows[other]["loss"]) == (0, 5)
            assert plan.seen.sentences[1].startswith("At least 5 committed records are lost")
            assert f"Broker {other} is the likely one." in plan.seen.sentences[0]
            with pytest.raises(PlanError, match="type 't-0' exactly"):
                await shop.carry_out(plan, "t")
            await shop.carry_out(plan)
            await shop.arrives(plan)
            assert cluster.leader("t") == other
            with pytest.raises(PlanError, match="void"):
                await shop.carry_out(late)
