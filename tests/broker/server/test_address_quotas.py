"""An address makes and has as many connections as its quotas say, before anybody is known."""

from __future__ import annotations

import pytest

from oncelog_broker.server import address_quotas
from oncelog_broker.server.address_quotas import AddressQuotas
from oncelog_protocol.quotas import CONNECTION_CREATION_RATE as RATE
from oncelog_protocol.quotas import CONNECTIONS, DEFAULT_ENTITY, PRODUCER_BYTE_RATE, QuotaEntity
from support.server import ServerUnderTest
from support.waiting import eventually

HOST = "10.0.0.1"
OTHER = "10.0.0.2"
LOOPBACK = "127.0.0.1"


Changes = dict[QuotaEntity, dict[str, float]]


def of(address: str, key: str, value: float) -> Changes:
    return {QuotaEntity(None, None, address): {key: value}}


def counted(*quotas: Changes) -> AddressQuotas:
    made = AddressQuotas()
    for each in quotas:
        made.take(each)
    return made


def arrivals(quotas: AddressQuotas, host: str, count: int, now: float) -> int:
    """Return how many of so many connections may come at a time."""
    return sum(not quotas.over_rate(host, now) for _ in range(count))


def test_without_quotas_nothing_is_bounded() -> None:
    quotas = counted({QuotaEntity("app"): {PRODUCER_BYTE_RATE: 0}})
    assert arrivals(quotas, HOST, 1000, 5.0) == 1000
    assert not quotas.over_count(HOST)
    assert quotas.bucket_count == 0


def test_so_many_come_in_a_second() -> None:
    quotas = counted(of(HOST, RATE, 10))
    assert arrivals(quotas, HOST, 30, 5.0) == 10
    assert arrivals(quotas, HOST, 30, 5.5) == 5
    assert arrivals(quotas, OTHER, 30, 5.5) == 30
    assert "connection_creation_rate of this address is 10 a second" in quotas.over_rate(HOST, 5.5)


def test_a_rate_below_1_lets_one_in_and_then_waits() -> None:
    quotas = counted(of(HOST, RATE, 0.5))
    assert [arrivals(quotas, HOST, 9, now) for now in (5.0, 5.9, 6.9, 7.2)] == [1, 0, 0, 1]


def test_so_many_are_open_at_a_time() -> None:
    quotas = counted(of(HOST, CONNECTIONS, 2))
    quotas.opened(HOST)
    assert not quotas.over_count(HOST)
    quotas.opened(f"::ffff:{HOST}")
    assert quotas.over_count(HOST) == "the quota connections of this address is 2"
    quotas.closed(HOST)
    assert not quotas.over_count(HOST)
    quotas.closed(HOST)


def test_what_is_open_already_counts_when_a_quota_comes() -> None:
    quotas = counted()
    for _ in range(5):
        quotas.opened(HOST)
    quotas.take(of(HOST, CONNECTIONS, 3))
    assert quotas.over_count(HOST)
    for _ in range(3):
        quotas.closed(HOST)
    assert not quotas.over_count(HOST)


@pytest.mark.hostile(47)
def test_a_quota_of_0_lets_nobody_in() -> None:
    quotas = counted(of(HOST, CONNECTIONS, 0), of(OTHER, RATE, 0))
    assert quotas.over_count(HOST)
    assert arrivals(quotas, OTHER, 5, 5.0) == 0
    assert arrivals(quotas, OTHER, 5, 5000.0) == 0


def test_a_quota_that_names_the_address_counts_before_the_default() -> None:
    quotas = counted(of(HOST, CONNECTIONS, 2), of(DEFAULT_ENTITY, CONNECTIONS, 0))
    assert not quotas.over_count(HOST)
    assert quotas.over_count(OTHER)


def test_the_default_is_not_of_the_own_machine_and_its_name_is() -> None:
    quotas = counted({QuotaEntity(None, None, DEFAULT_ENTITY): {CONNECTIONS: 0, RATE: 0}})
    for host in (LOOPBACK, "::1", "::ffff:127.0.0.1"):
        assert not quotas.over_count(host)
        assert not quotas.over_rate(host, 5.0)
    quotas.take(of(LOOPBACK, CONNECTIONS, 0))
    assert quotas.over_count("::ffff:127.0.0.1")


def test_another_rate_counts_from_now_on() -> None:
    quotas = counted(of(HOST, RATE, 10))
    arrivals(quotas, HOST, 10, 5.0)
    quotas.take(of(HOST, RATE, 2))
    assert arrivals(quotas, HOST, 9, 6.0) == 2
    quotas.take({QuotaEntity(None, None, HOST): {}})
    assert arrivals(quotas, HOST, 9, 6.0) == 9


def test_there_are_so_many_buckets_and_the_longest_idle_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(address_quotas, "BUCKETS_MAX", 2)
    quotas = counted(of(DEFAULT_ENTITY, RATE, 1))
    for host in (HOST, OTHER, HOST, "10.0.0.3"):
        quotas.over_rate(host, 5.0)
    assert quotas.bucket_count == 2
    assert quotas.over_rate(HOST, 5.0)
    assert not quotas.over_rate(OTHER, 5.0)


async def test_a_listener_refuses_what_is_beyond_and_serves_what_is_there() -> None:
    quotas = counted(of(LOOPBACK, CONNECTIONS, 2))
    async with ServerUnderTest(addresses=quotas) as server:
        first = await server.peer(hello=True)
        await server.peer(hello=True)
        refused = await server.peer()
        assert await refused.closed_within(5)
        assert (server.listener.counters.refused, server.listener.counters.throttled) == (1, 0)
        quotas.take(of(LOOPBACK, RATE, 0.001))
        await server.peer(hello=True)
        assert await (await server.peer()).closed_within(5)
        assert server.listener.counters.throttled == 1
        await first.close()
        await eventually(lambda: len(server.listener.connections) == 2)
        quotas.take(of(LOOPBACK, CONNECTIONS, 3))
        await server.peer(hello=True)


async def test_listeners_count_together() -> None:
    quotas = counted(of(LOOPBACK, CONNECTIONS, 1))
    async with ServerUnderTest(addresses=quotas) as one, ServerUnderTest(addresses=quotas) as other:
        await one.peer(hello=True)
        assert await (await other.peer()).closed_within(5)
        assert other.listener.counters.refused == 1
    async with ServerUnderTest(internal=True) as between_brokers:
        await between_brokers.peer(hello=True)
        await between_brokers.peer(hello=True)
