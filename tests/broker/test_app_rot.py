"""The disks of whole brokers rot: readers are served by those who hold what they want [D2]."""

from __future__ import annotations

from pathlib import Path

from oncelog import Consumer
from oncelog_protocol.types import TopicPartition
from support.cluster import Cluster
from support.hand_records import produce
from support.waiting import eventually


def flip(cluster: Cluster, broker_id: int, topic: str, at: float) -> None:
    """Flip a byte in the log of one broker, below what is read lately."""
    log = cluster.brokers[broker_id].logs.get(TopicPartition(topic, 0))
    assert log is not None
    path = Path(log.segments[0].path)
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 0xFF
    path.write_bytes(bytes(data))


async def test_rot_on_a_leader_ends_its_leadership_and_no_reader_hears_of_it(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, brokers=3) as cluster:
        await cluster.create_topic("t", replication_factor=3)
        former = cluster.leader("t")
        channel = await cluster.channel(former)
        values = [b"%05d" % number * 200 for number in range(20)]
        for value in values:
            assert (await produce(channel, "t", 0, [value])).error_code == 0
        channel.close()
        await eventually(lambda: len(cluster.state("t").isr) == 3)
        flip(cluster, former, "t", 0.52)
        read: list[bytes | None] = []
        async with Consumer(
            "t", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            while len(read) < len(values):
                read.append((await consumer.getone()).value)
        assert read == values
        assert cluster.leader("t") != former
        replica = cluster.brokers[former].replicas.partition(TopicPartition("t", 0))

        def whole() -> bool:
            return not (
                replica.refetching or replica.log.needs_refetch or replica.repair.corruption
            )

        await eventually(lambda: whole() and len(cluster.state("t").isr) == 3)
