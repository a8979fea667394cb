"""Quotas are set, taken away and listed; what is refused takes nothing else with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_controller import quota_nodes, security_nodes
from oncelog_controller.store import check_request_size
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    InvalidRequestError,
    PolicyViolationError,
)
from oncelog_protocol.messages.quotas import (
    AlterQuotasRequest,
    DescribeQuotasRequest,
    QuotaChange,
)
from oncelog_protocol.messages.security import FULL, UpdateSecurityRequest
from oncelog_protocol.quotas import (
    CONNECTIONS,
    CONSUMER_BYTE_RATE,
    DEFAULT_ENTITY,
    PRODUCER_BYTE_RATE,
    QUOTA_VALUE_MAX,
    EntityQuotas,
    QuotaEntity,
    QuotaFilter,
)
from support.controller_driver import Driver
from support.room_settings import controller_settings

APP = QuotaEntity("app")
HOST = QuotaEntity(None, None, "10.0.0.1")
PRODUCE, CONSUME = PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE
INVALID = InvalidRequestError.code


def deciding() -> Driver:
    return Driver.started(1, 2, config=controller_settings(security=True))


def change(entity: QuotaEntity, value: float | None, key: str = PRODUCE) -> QuotaChange:
    return QuotaChange(*entity, key, None if value is None else float(value))


def alter(driver: Driver, *changes: QuotaChange, validate_only: bool = False) -> list[int]:
    response = driver.ask(AlterQuotasRequest(list(changes), validate_only))
    assert response.error_code == 0
    return [result.error_code for result in response.results]


EVERYTHING = QuotaFilter()


def described(driver: Driver, wanted: QuotaFilter = EVERYTHING) -> list[EntityQuotas]:
    response = driver.ask(DescribeQuotasRequest(wanted))
    assert response.error_code == 0
    assert response.version == driver.nodes[security_nodes.VERSION].version
    quotas: list[EntityQuotas] = response.quotas
    return quotas


def kept(driver: Driver) -> dict[QuotaEntity, dict[str, float]]:
    return {each.entity: each.checked() for each in described(driver)}


def test_what_was_set_is_listed_also_by_the_next_controller() -> None:
    driver = deciding()
    assert (
        alter(
            driver,
            change(APP, 1024),
            change(APP, 0, CONSUME),
            change(QuotaEntity("app", DEFAULT_ENTITY), 7),
            change(QuotaEntity(None, "c"), 0.5),
            change(QuotaEntity(None, None, "::ffff:10.0.0.1"), 5, CONNECTIONS),
        )
        == [0] * 5
    )
    expected = [
        EntityQuotas.of(HOST, [(CONNECTIONS, 5)]),
        EntityQuotas.of(QuotaEntity(None, "c"), [(PRODUCE, 0.5)]),
        EntityQuotas.of(QuotaEntity("app", DEFAULT_ENTITY), [(PRODUCE, 7)]),
        EntityQuotas.of(APP, [(CONSUME, 0), (PRODUCE, 1024)]),
    ]
    for controller in (driver, driver.take_over()):
        assert described(controller) == expected
        assert described(controller, QuotaFilter(user="app")) == expected[2:]
        assert described(controller, QuotaFilter(user="app", strict=True)) == expected[3:]
        assert described(controller, QuotaFilter(address="10.0.0.1")) == expected[:1]


def test_a_value_is_changed_and_taken_away() -> None:
    driver = deciding()
    alter(driver, change(APP, 1), change(APP, 2, CONSUME))
    assert alter(driver, change(APP, 5), change(APP, None, CONSUME)) == [0, 0]
    assert kept(driver) == {APP: {PRODUCE: 5}}
    assert alter(driver, change(APP, None)) == [0]
    assert kept(driver) == {}
    assert quota_nodes.quotas_path(APP) not in driver.nodes


def test_what_changes_nothing_is_not_written() -> None:
    driver = deciding()
    alter(driver, change(APP, 1))
    writes = len(driver.writes)
    assert alter(driver, change(APP, 1), change(HOST, None, CONNECTIONS)) == [0, 0]
    assert alter(driver, change(HOST, 3, CONNECTIONS), change(HOST, None, CONNECTIONS)) == [0, 0]
    assert len(driver.writes) == writes
    assert alter(driver, change(APP, None), change(APP, 2)) == [0, 0]
    assert kept(driver) == {APP: {PRODUCE: 2}}


NO_VALUES = (-1, -0.001, float("nan"), float("inf"), -float("inf"), 2.0**63, 1e300)


@pytest.mark.hostile(47)
@pytest.mark.parametrize("value", NO_VALUES, ids=repr)
def test_a_value_that_is_no_number_is_refused_and_takes_no_other_with_it(value: float) -> None:
    driver = deciding()
    wishes = [change(APP, value), change(APP, 0, CONSUME), change(HOST, value, CONNECTIONS)]
    assert alter(driver, *wishes) == [INVALID, 0, INVALID]
    assert kept(driver) == {APP: {CONSUME: 0}}


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (change(QuotaEntity(), 1), "of a user, of a client id, of both, or of an address"),
        (change(QuotaEntity("app", None, "10.0.0.1"), 1, CONNECTIONS), "of no user"),
        (change(QuotaEntity(None, None, "10.0.0.0/8"), 1, CONNECTIONS), "is no address"),
        (change(QuotaEntity("a\n"), 1), "not printable"),
        (change(QuotaEntity(None, "c" * 256), 1), "too long"),
        (change(APP, 1, CONNECTIONS), "'connections' of users: not one of"),
        (change(HOST, 1), "'producer_byte_rate' of addresses: not one of"),
        (change(APP, None, "request_percentage"), "not one of"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_the_reason(refused: QuotaChange, reason: str) -> None:
    driver = deciding()
    response = driver.ask(AlterQuotasRequest([refused, change(APP, 1)]))
    assert [result.error_code for result in response.results] == [INVALID, 0]
    assert reason in response.results[0].error_message
    assert kept(driver) == {APP: {PRODUCE: 1}}


def test_the_largest_value_that_a_float_can_be_is_taken() -> None:
    driver = deciding()
    largest = float(QUOTA_VALUE_MAX - 1024)
    assert alter(driver, change(APP, largest)) == [0]
    assert kept(driver.take_over()) == {APP: {PRODUCE: largest}}


def test_a_trial_changes_nothing_and_tells_the_same() -> None:
    driver = deciding()
    assert alter(driver, change(APP, 1), change(APP, -1), validate_only=True) == [0, INVALID]
    assert kept(driver) == {}


def test_quotas_that_cannot_be_read_may_be_written_over() -> None:
    driver = deciding()
    alter(driver, change(APP, 1), change(HOST, 1, CONNECTIONS))
    for entity in (APP, HOST):
        path = quota_nodes.quotas_path(entity)
        empty = quota_nodes.encode_quotas({})
        driver.nodes[path] = replace(driver.nodes[path], data=empty)
    after = driver.take_over()
    assert kept(after) == {APP: {}, HOST: {}}
    assert alter(after, change(APP, 2), change(HOST, None, CONNECTIONS)) == [0, 0]
    assert kept(after) == {APP: {PRODUCE: 2}}


# ---- what brokers are told


def told(driver: Driver) -> list[UpdateSecurityRequest]:
    return [each for _, each in driver.requests if isinstance(each, UpdateSecurityRequest)]


def test_brokers_are_told_everything_then_what_has_changed() -> None:
    driver = deciding()
    alter(driver, change(APP, 1), change(APP, 2, CONSUME), change(HOST, 3, CONNECTIONS))
    alter(driver, change(APP, 5), change(HOST, None, CONNECTIONS))
    app = EntityQuotas.of(APP, [(PRODUCE, 5), (CONSUME, 2)])
    for each in told(driver)[-2:]:
        assert (each.base, each.version, each.acls, each.users) == (1, 2, [], [])
        assert each.quotas == [app, EntityQuotas(*HOST)]
    for each in told(driver.take_over()):
        assert (each.base, each.version) == (FULL, 2)
        assert [quotas.checked() for quotas in each.quotas] == [app.checked()]


# ---- bounds


def test_there_are_so_many_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUOTAS_MAX", 2)
    driver = deciding()
    many = PolicyViolationError.code
    assert alter(driver, change(APP, 1), change(HOST, 1, CONNECTIONS)) == [0, 0]
    assert alter(driver, change(APP, 1, CONSUME), change(APP, 9)) == [many, 0]
    assert alter(driver, change(APP, None), change(APP, 1, CONSUME), change(APP, 1)) == [0, 0, many]
    assert kept(driver) == {HOST: {CONNECTIONS: 1}, APP: {CONSUME: 1}}


def test_the_names_of_all_quotas_fit_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUOTAS_CHARS_MAX", 7)
    driver = deciding()
    wishes = [change(APP, 1), change(APP, 1, CONSUME), change(QuotaEntity("ab"), 1)]
    assert alter(driver, *wishes) == [0, 0, PolicyViolationError.code]
    assert alter(driver, change(APP, None), change(QuotaEntity("ab"), 1)) == [0, 0]


def test_a_request_has_so_many_changes_and_the_store_takes_them() -> None:
    driver = deciding()
    count = limits.QUOTAS_OF_REQUEST_MAX
    wishes = [
        change(QuotaEntity("\U0001f600" * 250 + f"{number}", "\U0001f600" * 255), number)
        for number in range(count + 1)
    ]
    assert driver.ask(AlterQuotasRequest(wishes)).error_code == INVALID
    assert alter(driver, *wishes[:count]) == [0] * count
    check_request_size(driver.writes[-1])
