"""Quotas are counted by user and client id, and a debt holds the connection until it is paid."""

from __future__ import annotations

import math

import pytest

from oncelog_broker.server import client_quotas
from oncelog_broker.server.client_quotas import HOLD_S_MAX, NO_QUOTAS, ClientQuotas, TokenBucket
from oncelog_broker.server.request import RequestContext
from oncelog_broker.server.request_prices import price
from oncelog_protocol.messages.base import ApiKey
from oncelog_protocol.quotas import (
    CONSUMER_BYTE_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    QuotaEntity,
)
from support.server import make_context

KEY = PRODUCER_BYTE_RATE

OneQuota = tuple[QuotaEntity, str, float]


def asks(user: str = "app", client_id: str = "c", *, internal: bool = False) -> RequestContext:
    context = make_context(internal=internal)
    context.principal, context.client_id = f"User:{user}", client_id
    return context


class Counted:
    """It has quotas, and a time that a test moves."""

    def __init__(self, *quotas: OneQuota, super_users: tuple[str, ...] = ()) -> None:
        self.time = 100.0
        self.quotas = ClientQuotas(lambda: self.time, super_users)
        self.take(*quotas)

    def take(self, *quotas: OneQuota) -> None:
        changes: dict[QuotaEntity, dict[str, float]] = {}
        for entity, key, value in quotas:
            changes.setdefault(entity, {})[key] = value
        self.quotas.take(changes)

    def held_s(self, context: RequestContext, amount: float, key: str = KEY) -> float:
        """Charge, and return for how long the connection is held then."""
        context.connection.let_go()
        self.quotas.charge(context, key, amount)
        until = context.connection.held_until
        return until - self.time if until else 0.0


def of(user: str | None, client_id: str | None, value: float, key: str = KEY) -> OneQuota:
    return QuotaEntity(user, client_id), key, value


# ---- the bucket


def test_one_second_may_be_had_at_once_and_what_is_beyond_is_a_debt() -> None:
    bucket = TokenBucket(100, 5.0)
    assert bucket.take(100, 5.0) == 0.0
    assert bucket.take(50, 5.0) == pytest.approx(0.5)
    assert bucket.fill(5.25) == pytest.approx(-25)
    assert bucket.fill(5.5) == pytest.approx(0)
    assert bucket.fill(1000.0) == 100


def test_time_that_goes_backwards_fills_nothing() -> None:
    bucket = TokenBucket(100, 5.0)
    bucket.take(100, 5.0)
    assert bucket.fill(4.0) == 0


def test_a_rate_of_0_holds_for_ever() -> None:
    bucket = TokenBucket(0, 5.0)
    assert bucket.take(0, 5.0) == math.inf
    assert bucket.take(1, 6.0) == math.inf
    bucket.change(10, 7.0)
    assert bucket.take(5, 8.0) == 0.0


def test_a_debt_outlives_a_change_of_the_rate() -> None:
    bucket = TokenBucket(10, 5.0)
    bucket.take(30, 5.0)
    bucket.change(100, 5.0)
    assert bucket.fill(5.0) == -20
    bucket.change(1000, 6.0)
    bucket.change(7, 6.0)
    assert bucket.fill(6.0) == 7


# ---- which quota counts

ALL_KINDS = [
    of("app", "c", 8),
    of("app", DEFAULT_ENTITY, 7),
    of("app", None, 6),
    of(DEFAULT_ENTITY, "c", 5),
    of(DEFAULT_ENTITY, DEFAULT_ENTITY, 4),
    of(DEFAULT_ENTITY, None, 3),
    of(None, "c", 2),
    of(None, DEFAULT_ENTITY, 1),
]


@pytest.mark.parametrize("gone", range(len(ALL_KINDS) + 1))
def test_the_most_special_one_counts(gone: int) -> None:
    counted = Counted(*reversed(ALL_KINDS[gone:]))
    expected = ALL_KINDS[gone][2] if gone < len(ALL_KINDS) else None
    assert counted.quotas.left(asks(), KEY) == expected


@pytest.mark.parametrize(
    ("quota", "shares", "apart"),
    [
        (of("app", "c", 9), asks(), None),
        (of("app", DEFAULT_ENTITY, 9), asks(), asks(client_id="d")),
        (of("app", None, 9), asks(client_id="d"), None),
        (of(DEFAULT_ENTITY, "c", 9), asks(), asks("eve")),
        (of(DEFAULT_ENTITY, None, 9), asks(client_id="d"), asks("eve")),
        (of(None, "c", 9), asks("eve"), None),
        (of(None, DEFAULT_ENTITY, 9), asks("eve"), asks(client_id="d")),
    ],
)
def test_a_bucket_is_shared_by_whom_the_quota_does_not_tell_apart(
    quota: OneQuota, shares: RequestContext, apart: RequestContext | None
) -> None:
    counted = Counted(quota)
    counted.quotas.charge(asks(), KEY, 4)
    assert counted.quotas.left(shares, KEY) == 5
    assert apart is None or counted.quotas.left(apart, KEY) == 9


@pytest.mark.parametrize("user", ["eve", "app2"])
def test_others_are_not_bound(user: str) -> None:
    counted = Counted(of("app", None, 1))
    assert counted.quotas.left(asks(user), KEY) is None
    assert counted.held_s(asks(user), 1000) == 0


def test_each_key_has_buckets_of_its_own() -> None:
    counted = Counted(of("app", None, 10), of("app", None, 20, CONSUMER_BYTE_RATE))
    counted.quotas.charge(asks(), KEY, 10)
    assert counted.quotas.left(asks(), KEY) == 0
    assert counted.quotas.left(asks(), CONSUMER_BYTE_RATE) == 20


def test_brokers_and_super_users_have_none() -> None:
    counted = Counted(of(DEFAULT_ENTITY, None, 0), super_users=("User:root",))
    for context in (asks(internal=True), asks("root")):
        assert counted.quotas.left(context, KEY) is None
        assert not counted.quotas.is_stopped(context, KEY)
        assert counted.held_s(context, 1000) == 0


# ---- holding


def test_a_debt_holds_the_connection_until_it_is_paid() -> None:
    counted = Counted(of("app", None, 100))
    context = asks()
    assert counted.held_s(context, 100) == 0
    assert counted.held_s(context, 50) == pytest.approx(0.5)
    counted.time += 0.5
    assert counted.quotas.left(context, KEY) == pytest.approx(0)


def test_it_is_held_for_30_s_at_most_and_the_rest_is_paid_later() -> None:
    counted = Counted(of("app", None, 10))
    assert counted.held_s(asks(), 10 + 500) == HOLD_S_MAX == 30
    counted.time += HOLD_S_MAX
    assert counted.held_s(asks(), 0) == pytest.approx(20)


def test_a_shorter_hold_does_not_end_a_longer_one() -> None:
    state = asks().connection
    state.hold(20.0)
    state.hold(10.0)
    assert state.held_until == 20.0


def test_0_stops() -> None:
    counted = Counted(of("app", None, 0))
    assert counted.quotas.is_stopped(asks(), KEY)
    assert counted.quotas.left(asks(), KEY) == 0
    assert counted.held_s(asks(), 1) == HOLD_S_MAX
    assert not counted.quotas.is_stopped(asks(), CONSUMER_BYTE_RATE)


def test_who_has_something_left_is_admitted_and_makes_a_debt() -> None:
    counted = Counted(of("app", None, 10))
    context = asks()
    assert counted.quotas.admit(context, KEY, 25)
    assert context.connection.held_until == pytest.approx(counted.time + 1.5)
    assert not counted.quotas.admit(context, KEY, 1)
    counted.time += 1.6
    assert counted.quotas.admit(context, KEY, 1)


def test_work_is_counted_by_the_table_of_prices() -> None:
    counted = Counted(of("app", None, 1000, REQUEST_RATE))
    context = asks()
    counted.quotas.charge_request(context, ApiKey.HEARTBEAT, 0)
    assert counted.quotas.left(context, REQUEST_RATE) == 1000
    counted.quotas.charge_request(context, ApiKey.METADATA, 0)
    assert counted.quotas.left(context, REQUEST_RATE) == 1000 - price(ApiKey.METADATA, 0)


def test_without_quotas_nothing_is_counted() -> None:
    for quotas in (NO_QUOTAS, Counted().quotas):
        context = asks()
        quotas.charge_request(context, ApiKey.PRODUCE, 1 << 30)
        quotas.charge(context, KEY, 1 << 30)
        assert quotas.admit(context, KEY, 1 << 30)
        assert quotas.left(context, KEY) is None
        assert not quotas.is_stopped(context, KEY)
        assert context.connection.held_until == 0


# ---- the set


def test_an_entity_has_what_was_told_last() -> None:
    counted = Counted(of("app", None, 10))
    counted.quotas.charge(asks(), KEY, 30)
    counted.take(of("app", None, 100))
    assert counted.quotas.left(asks(), KEY) == -20
    counted.take(of("app", None, 5, CONSUMER_BYTE_RATE))
    assert counted.quotas.left(asks(), KEY) is None
    assert counted.quotas.left(asks(), CONSUMER_BYTE_RATE) == 5
    counted.quotas.take({QuotaEntity("app"): {}})
    assert counted.quotas.left(asks(), CONSUMER_BYTE_RATE) is None


def test_others_stay_as_they_are_when_one_changes() -> None:
    counted = Counted(of("eve", None, 10), of("app", None, 20), of(None, "c", 30))
    counted.quotas.take({QuotaEntity("app"): {}})
    assert [counted.quotas.left(asks(user), KEY) for user in ("eve", "app")] == [10, 30]
    counted.take(of("app", "c", 7))
    assert [counted.quotas.left(asks(user), KEY) for user in ("eve", "app")] == [10, 7]


@pytest.mark.hostile(48)
def test_many_client_ids_do_not_escape_the_quota_of_their_user() -> None:
    counted = Counted(of("app", None, 10), of(None, DEFAULT_ENTITY, 10))
    for number in range(1000):
        counted.quotas.charge(asks(client_id=f"c{number}"), KEY, 1)
    assert counted.quotas.left(asks(), KEY) == -990
    assert counted.quotas.bucket_count == 1


@pytest.mark.hostile(48)
def test_there_are_so_many_buckets_and_the_longest_idle_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_quotas, "BUCKETS_MAX", 3)
    counted = Counted(of(None, DEFAULT_ENTITY, 10))
    for name in ("a", "b", "c", "a", "d"):
        counted.quotas.charge(asks(client_id=name), KEY, 1)
    assert counted.quotas.bucket_count == 3
    assert counted.quotas.left(asks(client_id="a"), KEY) == 8
    assert counted.quotas.left(asks(client_id="b"), KEY) == 10
