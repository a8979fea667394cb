"""A quota is a value that is checked before it is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.quotas import (
    CONSUMER_BYTE_RATE,
    DEFAULT_ENTITY,
    NEVER_HELD,
    PRODUCER_BYTE_RATE,
    QUOTA_VALUE_MAX,
    Quota,
)
from oncelog_protocol.registry import REQUESTS

OF_APP = Quota("app", None, PRODUCER_BYTE_RATE, 1000)


@pytest.mark.parametrize("value", [0, 0.5, 1, QUOTA_VALUE_MAX])
def test_a_number_that_can_be_counted_is_taken(value: float) -> None:
    quota = replace(OF_APP, value=value)
    assert quota.checked() is quota


NO_VALUES: list[Any] = [
    *(-1, -0.001, float("nan"), float("inf"), -float("inf"), 2**63, 2.0**63, 10**400),
    *(True, "1", None),
]


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: repr(value)[:16])
def test_any_other_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="not a number from 0"):
        replace(OF_APP, value=value).checked()


@pytest.mark.parametrize(
    ("user", "client_id"),
    [("app", "c"), ("app", DEFAULT_ENTITY), (DEFAULT_ENTITY, None), (None, "c"), ("app", None)],
)
def test_a_quota_is_of_a_user_a_client_id_or_both(user: str | None, client_id: str | None) -> None:
    quota = Quota(user, client_id, CONSUMER_BYTE_RATE, 1)
    assert quota.checked() is quota


@pytest.mark.parametrize(
    ("quota", "reason"),
    [
        (replace(OF_APP, user=None), "of a user, of a client id, or of both"),
        (replace(OF_APP, user="a\n"), "user"),
        (replace(OF_APP, user="u" * 256), "too long"),
        (replace(OF_APP, client_id="c" * 1025), "too long"),
        (replace(OF_APP, key="request_percentage"), "not one of"),
    ],
)
def test_what_it_is_of_is_checked(quota: Quota, reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        quota.checked()


def test_what_is_never_held_is_spoken_here() -> None:
    assert set(REQUESTS) >= NEVER_HELD
