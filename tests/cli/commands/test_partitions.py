"""These tests run ``oncelog partitions list`` and the filters of ``topics list`` at real
brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.shell import Shown, oncelog
from support.waiting import eventually


def names(shown: Shown) -> list[str]:
    assert shown.code == 0, shown.err
    return [f"{row['topic']}-{row['partition']}" for row in shown.document["partitions"]]


def known_dead(image: Any, dead: int, alone: str) -> bool:
    """Return whether a broker knows who is out of the ISR, and that nobody leads what was there
    alone."""
    orders = [image.partition(TopicPartition("three", number)) for number in range(3)]
    lost = image.partition(TopicPartition("one", int(alone[-1])))
    return lost.leader < 0 and all(dead not in order.isr for order in orders)


async def test_filters(tmp_path: Path) -> None:
    async with Cluster(tmp_path, brokers=3, auto_leader_rebalance_enable=False) as cluster:
        await cluster.create_topic(
            "three", partitions=3, replication_factor=3, min_insync_replicas=2
        )
        await cluster.create_topic("one", partitions=3)
        servers = cluster.bootstrap
        shown = await oncelog("partitions", "list", "--json", bootstrap=servers)
        assert names(shown) == [f"{t}-{n}" for t in ("one", "three") for n in range(3)]
        assert all(row["states"] == [] for row in shown.document["partitions"])
        shown = await oncelog("partitions", "list", "--leader", "2", "--json", bootstrap=servers)
        assert [row["leader"] for row in shown.document["partitions"]] == [2, 2]

        dead = 3 if cluster.controller.broker_id != 3 else 2
        alone = next(f"one-{n}" for n in range(3) if cluster.leader("one", n) == dead)
        await cluster.crash_broker(dead)
        await eventually(
            lambda: all(
                known_dead(broker.image, dead, alone) for broker in cluster.brokers.values()
            ),
            timeout_s=15,
            what="its death being known everywhere",
        )
        servers = cluster.bootstrap

        async def listed(*options: str) -> list[str]:
            return names(await oncelog("partitions", "list", *options, "--json", bootstrap=servers))

        threes = [f"three-{n}" for n in range(3)]
        assert await listed("--unavailable") == [alone]
        assert await listed("--at-min-isr") == threes
        assert await listed("--under-min-isr") == [], "the last member of an ISR stays in it"
        assert await listed("-r", "th.*", "--under-replicated") == threes
        assert len(await listed("--not-preferred", "three")) == 1
        assert await listed("--broker", str(dead), "one") == [alone]

        async def topics(*options: str) -> list[str]:
            shown = await oncelog("topics", "list", *options, "--json", bootstrap=servers)
            return [row["topic"] for row in shown.document["topics"]]

        assert await topics("--at-min-isr") == ["three"]
        assert await topics("--unavailable") == ["one"]
        shown = await oncelog("partitions", "list", "none", "--json", bootstrap=servers)
        assert shown.code == 1
        shown = await oncelog("partitions", "list", "-r", "none", bootstrap=servers)
        assert (shown.code, "no topic matches" in shown.err) == (1, True)
