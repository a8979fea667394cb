"""The loader reads the whole store, and leaves out what is missing or spoilt."""

from __future__ import annotations

import pytest

from oncelog_controller import znodes
from oncelog_controller.events import TombstoneRead
from oncelog_controller.loader import READS_MAX, load_brokers, load_cluster, prepare_store
from oncelog_controller.state import DynamicConfig, PartitionState
from oncelog_controller.store import Create, WatchEvent
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.waiting import eventually


def ignore(_: WatchEvent) -> None:
    pass


async def client() -> tuple[MemoryZooKeeper, MemoryMetadataStore]:
    server = MemoryZooKeeper()
    store = MemoryMetadataStore(server)
    await store.start()
    await prepare_store(store)
    await prepare_store(store)
    return server, store


def topic(name: str, *leaders: int | None) -> list[Create]:
    ops = [
        Create(znodes.topic_path(name), znodes.encode_topic(f"id-{name}", [[1]] * len(leaders))),
        Create(znodes.partitions_path(name), b""),
    ]
    for index, leader in enumerate(leaders):
        if leader is not None:
            state = PartitionState(leader, 3, (1,), 1, 0, admitted=((1, 77),))
            ops.append(Create(znodes.partition_path(name, index), b""))
            ops.append(Create(znodes.state_path(name, index), znodes.encode_state(state)))
    return ops


async def test_everything_is_read() -> None:
    server, store = await client()
    data = znodes.encode_broker([ListenerAddress("internal", "h", 9)], "r")
    stat = await store.create(znodes.broker_path(2), data, ephemeral=True)
    server.apply(*topic("a", 1, None, -1))
    server.apply(Create(znodes.config_path("a"), znodes.encode_config({"retention_ms": "1"})))
    server.apply(Create(znodes.config_path("ghost"), znodes.encode_config({})))
    grave = znodes.encode_tombstone("t", "id", [[1]])
    server.apply(Create(znodes.tombstone_path("t", "id"), grave))
    read = await load_cluster(store, 4, 44, ignore)
    assert (read.controller_epoch, read.epoch_version) == (4, 44)
    assert [(b.broker_id, b.broker_epoch, b.rack) for b in read.brokers] == [(2, stat.czxid, "r")]
    (found,) = read.topics
    assert (found.name, found.topic_id, found.overrides) == ("a", "id-a", {"retention_ms": "1"})
    assert [None if s is None else s.leader for s in found.states] == [1, None, -1]
    assert found.states[0] is not None
    assert found.states[0].admitted == ((1, 77),)
    assert read.tombstones == (TombstoneRead("t", "id", [[1]]),)
    assert read.stray_configs == {"ghost": 0}


async def test_spoilt_nodes_are_left_out_and_do_not_stop_the_rest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, store = await client()
    server.apply(*topic("good", 1))
    server.apply(Create(znodes.topic_path("bad"), b"x"))
    server.apply(Create(znodes.config_path("good"), b"x"))
    server.apply(Create(f"{znodes.DELETED_TOPICS}/x", b"x"))
    server.apply(Create(f"{znodes.BROKER_IDS}/seven", b"x"))
    server.apply(Create(f"{znodes.BROKER_IDS}/7", b"x"))
    read = await load_cluster(store, 1, 1, ignore)
    assert [t.name for t in read.topics] == ["good"]
    assert read.topics[0].overrides == {}
    assert read.brokers == ()
    assert read.tombstones == ()
    assert "/brokers/topics/bad" in caplog.text


async def test_the_watch_is_armed_by_the_read() -> None:
    server, store = await client()
    seen: list[WatchEvent] = []
    assert await load_brokers(store, seen.append) == ()
    server.apply(Create(znodes.broker_path(1), znodes.encode_broker([], None)))
    await eventually(lambda: seen)
    assert [b.broker_id for b in await load_brokers(store)] == [1]


async def test_brokers_come_by_number_not_by_text() -> None:
    server, store = await client()
    for broker_id in (10, 9, 1):
        server.apply(Create(znodes.broker_path(broker_id), znodes.encode_broker([], None)))
    assert [b.broker_id for b in await load_brokers(store)] == [1, 9, 10]


async def test_more_partitions_than_fit_in_flight() -> None:
    server, store = await client()
    count = READS_MAX + 3
    server.apply(*topic("a", *[1] * count))
    read = await load_cluster(store, 1, 1, ignore)
    assert len(read.topics[0].states) == count


async def test_bare_and_corrupt_partition_nodes_do_not_end_the_term() -> None:
    server, store = await client()
    server.apply(*topic("a", None, None), Create(znodes.partition_path("a", 1), b""))
    server.apply(*topic("b", 1))
    server.apply(
        *topic("c", None),
        Create(znodes.partition_path("c", 0), b""),
        Create(znodes.state_path("c", 0), b"rubbish"),
    )
    read = await load_cluster(store, 1, 1, ignore)
    assert [found.name for found in read.topics] == ["a", "b"]
    assert read.topics[0].bare == {1}


async def test_what_is_set_for_brokers_and_spoilt_nodes_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, store = await client()
    good = znodes.encode_config({"log_level": "debug"})
    for name, data in (("10", good), ("9", good), ("<default>", good), ("8", b"?"), ("me", good)):
        await store.create(f"{znodes.BROKER_CONFIGS}/{name}", data)
    await store.set(znodes.broker_config_path(9), znodes.encode_config({}), 0)
    read = await load_cluster(store, 1, 0, ignore)
    assert list(read.broker_configs) == [-1, 9, 10]
    assert read.broker_configs[9] == DynamicConfig({}, 1)
    assert read.broker_configs[-1] == DynamicConfig({"log_level": "debug"}, 0)
    assert "broker_settings_corrupt broker_name=8 " in caplog.text
    assert "broker_settings_corrupt broker_name=me " in caplog.text
