"""The loader reads the whole store, and leaves out what is missing or spoilt."""

from __future__ import annotations

import pytest

from oncelog_controller import move_nodes, quota_nodes, security_nodes, user_nodes, znodes
from oncelog_controller.events import TombstoneRead
from oncelog_controller.loader import (
    READS_MAX,
    load_brokers,
    load_cluster,
    load_plans,
    load_security,
    load_users,
    prepare_store,
)
from oncelog_controller.move_nodes import MoveWish, PlanHead
from oncelog_controller.security import ClusterSecurity, StoredAcls, StoredQuotas, StoredUser
from oncelog_controller.state import DynamicConfig, OutOfService, PartitionState
from oncelog_controller.store import Create, WatchEvent
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    DENY,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    AclBinding,
    AclPattern,
)
from oncelog_protocol.messages.broker_states import DECOMMISSIONING, DRAINING
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_protocol.quotas import DEFAULT_ENTITY, PRODUCER_BYTE_RATE, QuotaEntity
from oncelog_protocol.sasl.user import ScramUser
from oncelog_testing.memory.store import MemoryMetadataStore, MemoryZooKeeper
from support.sasl import CREDENTIALS, SECRET, SHA_256
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


@pytest.mark.hostile(55)
async def test_acls_are_read_where_a_cluster_has_them_and_spoilt_ones_close_their_pattern(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, store = await client()
    read = await load_cluster(store, 1, 0, ignore)
    assert read.security is None
    assert await store.exists(security_nodes.VERSION) is None, "nothing is made elsewhere"
    read = await load_cluster(store, 1, 0, ignore, secret=SECRET)
    assert read.security == ClusterSecurity(0, secret=SECRET)
    entry = AclBinding(GROUP, PREFIXED, "a/b", "User:app", "*", READ, ALLOW)
    good, spoilt = entry.pattern, AclPattern(TOPIC, LITERAL, "orders")
    await store.create(security_nodes.acls_path(good), security_nodes.encode_acls([entry]))
    tomorrow = b'{"version":2,"acls":[]}'
    await store.create(security_nodes.acls_path(spoilt), tomorrow)
    await store.create("/security/acls/TOPIC/LITERAL/%", tomorrow)
    await store.set(security_nodes.VERSION, b"", 0)
    read = await load_cluster(store, 1, 0, ignore, secret=SECRET)
    assert read.security is not None
    assert read.security.version == 1
    denied = AclBinding(*spoilt, "User:*", "*", ALL, DENY)
    assert read.security.acls == {
        good: StoredAcls((entry,), 0),
        spoilt: StoredAcls((denied,), 0),
    }
    assert caplog.text.count("acls_unreadable path=/security/acls/TOPIC/LITERAL/") == 2


async def test_users_are_read_with_the_secret_that_was_made_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, store = await client()
    assert await load_users(store) is None
    await load_security(store)
    assert await load_users(store) is None, "what brokers decide by needs no secret"
    read = await load_cluster(store, 1, 0, ignore, secret=SECRET)
    assert read.security == ClusterSecurity(0, secret=SECRET)
    app = ScramUser("app", 1, (CREDENTIALS[SHA_256],))
    spoilt = user_nodes.user_path("spoilt")
    await store.create(user_nodes.user_path("app"), user_nodes.encode_user(app))
    await store.create(spoilt, b'{"version":2}')
    await store.create(f"{user_nodes.USERS}/%", b"")
    await store.set(security_nodes.VERSION, b"", 0)
    read = await load_cluster(store, 1, 0, ignore, secret=b"\1" * 32)
    assert read.security is not None
    assert (read.security.version, read.security.secret) == (1, SECRET)
    nobody = ScramUser("spoilt", 0, ())
    assert read.security.users == {"app": StoredUser(app, 0), "spoilt": StoredUser(nobody, 0)}
    assert read.security == await load_users(store)
    assert caplog.text.count(f"user_unreadable path={user_nodes.USERS}/") == 4


@pytest.mark.hostile(55)
async def test_quotas_are_read_with_acls_and_spoilt_ones_bound_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, store = await client()
    await load_cluster(store, 1, 0, ignore, secret=SECRET)
    good, spoilt = QuotaEntity("app"), QuotaEntity(None, DEFAULT_ENTITY)
    data = quota_nodes.encode_quotas({PRODUCER_BYTE_RATE: 5})
    await store.create(quota_nodes.quotas_path(good), data)
    await store.create(quota_nodes.quotas_path(spoilt), b'{"version":2}')
    await store.create("/security/quotas/clients/%", data)
    read = await load_cluster(store, 1, 0, ignore, secret=SECRET)
    assert read.security is not None
    assert read.security.quotas == {
        good: StoredQuotas({PRODUCER_BYTE_RATE: 5}, 0),
        spoilt: StoredQuotas({}, 0),
    }
    assert caplog.text.count("quotas_unreadable path=/security/quotas/clients/") == 2


async def test_a_secret_that_cannot_be_read_is_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    _, store = await client()
    await load_cluster(store, 1, 0, ignore, secret=SECRET)
    await store.set(user_nodes.SECRET, b"{}")
    assert await load_users(store) is None
    other = b"\1" * 32
    read = await load_cluster(store, 1, 0, ignore, secret=other)
    assert read.security == ClusterSecurity(0, secret=other)
    assert "secret_unreadable" in caplog.text


async def test_who_is_out_of_service_is_read_and_a_spoilt_node_takes_nothing_from_anybody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, store = await client()
    taken = OutOfService(DECOMMISSIONING, 1234, "User:ops")
    await store.create(znodes.broker_state_path(3), znodes.encode_broker_state(taken))
    await store.create(znodes.broker_state_path(1), b"{}")
    await store.create(f"{znodes.BROKER_STATES}/x", b"{}")
    read = await load_cluster(store, 1, 0, ignore)
    assert read.out_of_service == {1: OutOfService(DRAINING, 0, ""), 3: taken}
    assert caplog.text.count("broker_state_unreadable path=/brokers/states/") == 2


async def test_plans_of_moves_are_read_and_one_that_cannot_be_is_left() -> None:
    server, store = await client()
    head, wish = PlanHead("3-1", "User:a", "why", 7), MoveWish("t", "id", 0, (1, 2))
    more = MoveWish("t", "id", 1, (2,))
    for path, data in (
        (move_nodes.plan_path("3-1"), move_nodes.encode_plan(head, [wish])),
        (move_nodes.plan_path("3-1", 1), move_nodes.encode_wishes([more])),
        (move_nodes.plan_path("3-2"), b"damaged"),
    ):
        server.apply(Create(path, data))
    (read,) = await load_plans(store)
    assert read.head == head
    assert [(piece.number, piece.wishes) for piece in read.pieces] == [(0, (wish,)), (1, (more,))]
    await store.close()
