"""A quota is a value that is checked before it is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.quotas import (
    ADDRESS_QUOTA_KEYS,
    ADDRESSES,
    CLIENT_QUOTA_KEYS,
    CLIENTS,
    CONSUMER_BYTE_RATE,
    DEFAULT_ENTITY,
    NEVER_HELD,
    PRODUCER_BYTE_RATE,
    QUOTA_VALUE_MAX,
    USER_CLIENTS,
    USERS,
    EntityQuotas,
    KeyQuotas,
    QuotaEntity,
    QuotaFilter,
    QuotaValue,
)
from oncelog_protocol.registry import REQUESTS

APP = QuotaEntity("app")


def travelled(
    user: str | None, client_id: str | None, value: Any, key: str = CONSUMER_BYTE_RATE
) -> EntityQuotas:
    return EntityQuotas(user, client_id, None, [QuotaValue(key, value)])


@pytest.mark.parametrize("value", [0, 0.5, 1, QUOTA_VALUE_MAX])
def test_a_number_that_can_be_counted_is_taken(value: float) -> None:
    assert travelled("app", None, value).checked() == {CONSUMER_BYTE_RATE: value}


NO_VALUES: list[Any] = [
    *(-1, -0.001, float("nan"), float("inf"), -float("inf"), 2**63, 2.0**63, 10**400),
    *(True, "1", None),
]


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: repr(value)[:16])
def test_any_other_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="not a number from 0"):
        travelled("app", None, value).checked()


@pytest.mark.parametrize(
    ("user", "client_id"),
    [("app", "c"), ("app", DEFAULT_ENTITY), (DEFAULT_ENTITY, None), (None, "c"), ("app", None)],
)
def test_a_quota_is_of_a_user_a_client_id_or_both(user: str | None, client_id: str | None) -> None:
    assert travelled(user, client_id, 1).checked() == {CONSUMER_BYTE_RATE: 1}


@pytest.mark.parametrize(
    ("quota", "reason"),
    [
        (travelled(None, None, 1), "of a user, of a client id, of both, or of an address"),
        (travelled("a\n", None, 1), "user"),
        (travelled("u" * 256, None, 1), "too long"),
        (travelled("app", "c" * 256, 1), "too long"),
        (travelled("app", None, 1, "request_percentage"), "not one of"),
    ],
)
def test_what_it_is_of_is_checked(quota: EntityQuotas, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        quota.checked()


def test_what_is_never_held_is_spoken_here() -> None:
    assert set(REQUESTS) >= NEVER_HELD


# ---- whom a quota is of


@pytest.mark.parametrize(
    ("entity", "kind", "sentence"),
    [
        (QuotaEntity("app"), USERS, "user app"),
        (QuotaEntity(DEFAULT_ENTITY), USERS, "any user"),
        (QuotaEntity(None, "c"), CLIENTS, "client id c"),
        (QuotaEntity("app", DEFAULT_ENTITY), USER_CLIENTS, "user app with any client id"),
        (QuotaEntity(None, None, "10.0.0.1"), ADDRESSES, "address 10.0.0.1"),
        (QuotaEntity(None, None, DEFAULT_ENTITY), ADDRESSES, "any address"),
    ],
)
def test_an_entity_has_a_kind_and_a_sentence(entity: QuotaEntity, kind: str, sentence: str) -> None:
    assert entity.checked() == entity
    assert (entity.kind, entity.sentence()) == (kind, sentence)
    assert entity.keys == (ADDRESS_QUOTA_KEYS if kind == ADDRESSES else CLIENT_QUOTA_KEYS)


def test_an_address_has_one_spelling() -> None:
    for text, kept in (("::ffff:10.0.0.1", "10.0.0.1"), ("0:0::1", "::1"), ("::A", "::a")):
        assert QuotaEntity(None, None, text).checked().address == kept


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        (QuotaFilter(), 4),
        (QuotaFilter(user="app"), 2),
        (QuotaFilter(user="app", strict=True), 1),
        (QuotaFilter(user="app", client_id="c"), 1),
        (QuotaFilter(client_id=DEFAULT_ENTITY), 0),
        (QuotaFilter(address="::1", strict=True), 1),
        (QuotaFilter(strict=True), 0),
    ],
)
def test_a_filter_leaves_parts_open_or_wants_them_absent(wanted: QuotaFilter, chosen: int) -> None:
    entities = [
        QuotaEntity("app"),
        QuotaEntity("app", "c"),
        QuotaEntity(None, "d"),
        QuotaEntity(None, None, "::1"),
    ]
    assert sum(map(wanted.matches, entities)) == chosen


def test_quotas_of_an_entity_travel_together_and_are_checked() -> None:
    sent = EntityQuotas.of(QuotaEntity("app"), [(PRODUCER_BYTE_RATE, 5)])
    assert sent.checked() == {PRODUCER_BYTE_RATE: 5}
    assert sent.entity == QuotaEntity("app")
    for wrong in (
        replace(sent, user=None),
        replace(sent, values=[QuotaValue("connections", 1)]),
        replace(sent, values=[QuotaValue(PRODUCER_BYTE_RATE, -1)]),
        EntityQuotas(None, None, "::ffff:10.0.0.1"),
    ):
        with pytest.raises(InvalidRequestError):
            wrong.checked()


def test_the_quota_that_counts_is_found_with_whose_it_is() -> None:
    any_user, both = QuotaEntity(DEFAULT_ENTITY), QuotaEntity("app", "c")
    quotas = KeyQuotas()
    for value, entity in enumerate((any_user, APP, both)):
        quotas.put(entity, value)
    assert quotas.find("User:app", "c") == (both, 2)
    assert quotas.find("User:app", "d") == (APP, 1)
    assert quotas.find("User:eve", "c") == (any_user, 0)
    quotas.put(both, 5)
    assert (quotas.find("User:app", "c"), len(quotas)) == ((both, 5), 3)
    for entity in (both, both, any_user):
        quotas.drop(entity)
    assert quotas.find("User:app", "c") == (APP, 1)
    assert quotas.find("User:eve", "c") is None
    quotas.drop(APP)
    assert (quotas.find("User:app", "c"), len(quotas)) == (None, 0)
