"""Quotas are set, listed and taken away, and every broker counts by them afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, QuotaAlteration, QuotaEntity, QuotaFilter
from oncelog.admin.quotas import (
    CONNECTIONS,
    CONSUMER_BYTE_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    effective_quotas,
)
from oncelog.errors import ConfigurationError, InvalidRequestError, SecurityDisabledError
from oncelog_protocol import limits
from support.cluster import Cluster

APP = QuotaEntity("app")
ANYBODY = QuotaEntity(DEFAULT_ENTITY)
BOTH = QuotaEntity("app", "c")
HOST = QuotaEntity(address="192.0.2.7")


def secured(directory: Path) -> Cluster:
    return Cluster(directory, brokers=2, authorizer="acl", super_users=["User:ANONYMOUS"])


async def test_quotas_from_beginning_to_end(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        set_to: dict[str, float | None] = {PRODUCER_BYTE_RATE: 1024, CONSUMER_BYTE_RATE: 0}
        outcomes = await admin.alter_quotas(
            [QuotaAlteration(APP, set_to), QuotaAlteration(HOST, {CONNECTIONS: 5})]
        )
        assert [(each.entity, each.key, each.error) for each in outcomes] == [
            (APP, PRODUCER_BYTE_RATE, None),
            (APP, CONSUMER_BYTE_RATE, None),
            (HOST, CONNECTIONS, None),
        ]
        expected = {HOST: {CONNECTIONS: 5}, APP: set_to}
        assert await admin.describe_quotas() == expected
        assert await admin.describe_quotas(QuotaFilter(user="app")) == {APP: set_to}
        for broker in cluster.brokers.values():
            assert broker.known_quotas.values == expected
        taken = QuotaAlteration(APP, dict.fromkeys(set_to))
        (await admin.alter_quotas([taken], validate_only=True)).raise_for_errors()
        assert await admin.describe_quotas() == expected
        (await admin.alter_quotas([taken, taken])).raise_for_errors()
        for broker in cluster.brokers.values():
            assert broker.known_quotas.values == {HOST: {CONNECTIONS: 5}}


async def test_what_is_refused_takes_no_other_with_it(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        values: dict[str, float | None] = {
            PRODUCER_BYTE_RATE: float("nan"),
            CONSUMER_BYTE_RATE: 7,
            CONNECTIONS: 1,
            REQUEST_RATE: 2**63,
        }
        outcomes = list(await admin.alter_quotas([QuotaAlteration(APP, values)]))
        assert [type(each.error) for each in outcomes] == [
            InvalidRequestError,
            type(None),
            InvalidRequestError,
            InvalidRequestError,
        ]
        assert await admin.describe_quotas() == {APP: {CONSUMER_BYTE_RATE: 7}}


async def test_more_quotas_than_one_request_takes(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        count = limits.QUOTAS_OF_REQUEST_MAX + 1
        wishes = [QuotaAlteration(QuotaEntity(f"u{n}"), {REQUEST_RATE: n}) for n in range(count)]
        outcomes = await admin.alter_quotas(wishes)
        assert [each.entity for each in outcomes] == [each.entity for each in wishes]
        assert len(await admin.describe_quotas()) == count


@pytest.mark.parametrize("value", ["7", True, 10**400], ids=lambda value: repr(value)[:8])
async def test_a_value_that_is_no_number_is_not_sent(tmp_path: Path, value: Any) -> None:
    async with secured(tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(ConfigurationError, match="request_rate"):
            await admin.alter_quotas([QuotaAlteration(APP, {REQUEST_RATE: value})])


async def test_a_cluster_that_does_not_decide_by_acls_has_no_quotas(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(SecurityDisabledError):
            await admin.describe_quotas()
        with pytest.raises(SecurityDisabledError):
            await admin.alter_quotas([QuotaAlteration(APP, {REQUEST_RATE: 1})])


def test_what_counts_for_somebody_is_the_most_special_quota_of_each_key() -> None:
    quotas = {
        ANYBODY: {PRODUCER_BYTE_RATE: 1.0, REQUEST_RATE: 2.0},
        APP: {PRODUCER_BYTE_RATE: 3.0},
        BOTH: {PRODUCER_BYTE_RATE: 4.0},
        HOST: {CONNECTIONS: 5.0},
    }
    assert effective_quotas(quotas, "User:app", "c") == {
        PRODUCER_BYTE_RATE: (4.0, BOTH),
        REQUEST_RATE: (2.0, ANYBODY),
    }
    assert effective_quotas(quotas, "User:app", "")[PRODUCER_BYTE_RATE] == (3.0, APP)
    assert effective_quotas(quotas, "User:eve", "")[PRODUCER_BYTE_RATE] == (1.0, ANYBODY)
    assert effective_quotas({}, "User:eve", "c") == {}
