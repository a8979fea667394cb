"""The nodes of quotas hold what was written, and garbage in them is told as such."""

from __future__ import annotations

import pytest

from oncelog_controller import quota_nodes, security_nodes
from oncelog_controller.security import ClusterSecurity, StoredQuotas
from oncelog_controller.store import Create, Delete, SetData
from oncelog_controller.znodes import CorruptNodeError
from oncelog_protocol.quotas import (
    CONNECTIONS,
    CONSUMER_BYTE_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    QuotaEntity,
)

APP = QuotaEntity("app")
ENTITIES = {
    APP: "/security/quotas/users/YXBw",
    QuotaEntity(DEFAULT_ENTITY): "/security/quotas/users/~",
    QuotaEntity(None, "a/b"): "/security/quotas/clients/YS9i",
    QuotaEntity("app", DEFAULT_ENTITY): "/security/quotas/user-clients/YXBw.~",
    QuotaEntity(DEFAULT_ENTITY, "."): "/security/quotas/user-clients/~.Lg",
    QuotaEntity(None, None, "::1"): "/security/quotas/addresses/Ojox",
}
VALUES = {PRODUCER_BYTE_RATE: 1024.0, CONSUMER_BYTE_RATE: 0.5}


@pytest.mark.parametrize("entity", ENTITIES, ids=str)
def test_every_entity_has_a_path_of_its_own(entity: QuotaEntity) -> None:
    path = quota_nodes.quotas_path(entity)
    assert path == ENTITIES[entity]
    assert quota_nodes.entity_of(path) == entity
    assert path.rpartition("/")[0] in quota_nodes.QUOTA_PARENTS


@pytest.mark.parametrize(
    "node",
    [
        *("users/%", "users/YQ==", "users/YR", "users/YXBw.YXBw", "users/~~", "users/Cg"),
        *("user-clients/YXBw", "user-clients/.", "clients/~.~", "groups/YXBw", "users", "."),
        *("addresses/YXBw", "addresses/OjpmZmZmOjEuMi4zLjQ"),
    ],
)
def test_a_node_whose_name_is_no_entity(node: str) -> None:
    with pytest.raises(CorruptNodeError, match="name"):
        quota_nodes.entity_of(f"{quota_nodes.QUOTAS}/{node}")


def test_quotas_come_back() -> None:
    data = quota_nodes.encode_quotas(VALUES)
    assert quota_nodes.decode_quotas(ENTITIES[APP], data) == VALUES
    assert b'"producer_byte_rate":1024' in data


@pytest.mark.hostile(55)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":2,"quotas":{}}',
        b'{"version":1}',
        b'{"version":1,"quotas":[]}',
        b'{"version":1,"quotas":{"producer_byte_rate":"1"}}',
        b'{"version":1,"quotas":{"producer_byte_rate":true}}',
        b'{"version":1,"quotas":{"producer_byte_rate":-1}}',
        b'{"version":1,"quotas":{"producer_byte_rate":NaN}}',
        b'{"version":1,"quotas":{"producer_byte_rate":1e400}}',
        b'{"version":1,"quotas":{"connections":1}}',
        b'{"version":1,"quotas":{"of_tomorrow":1}}',
    ],
)
def test_garbage_is_not_taken_for_quotas(data: bytes) -> None:
    with pytest.raises(CorruptNodeError, match=ENTITIES[APP]):
        quota_nodes.decode_quotas(ENTITIES[APP], data)


def test_a_write_sets_the_version_and_makes_changes_or_deletes_nodes() -> None:
    host = QuotaEntity(None, None, "10.0.0.1")
    other = QuotaEntity(None, "c")
    security = ClusterSecurity(5, quotas={APP: StoredQuotas(VALUES, 3), other: StoredQuotas({}, 1)})
    changes = {APP: {PRODUCER_BYTE_RATE: 1.0}, host: {CONNECTIONS: 2.0}, other: {}}
    version, *ops = quota_nodes.write_quotas(security, changes)
    assert version == security_nodes.set_version(5)
    path = quota_nodes.quotas_path
    assert ops == [
        SetData(path(APP), quota_nodes.encode_quotas(changes[APP]), 3),
        Create(path(host), quota_nodes.encode_quotas(changes[host])),
        Delete(path(other), 1),
    ]
    security.take_quotas(changes)
    assert security.version == 6
    assert security.quotas == {
        APP: StoredQuotas({PRODUCER_BYTE_RATE: 1.0}, 4),
        host: StoredQuotas({CONNECTIONS: 2.0}, 0),
    }
