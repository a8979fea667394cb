"""Requests for ACLs, users and quotas begin and end alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_protocol.acls import ALLOW, LITERAL, TOPIC, WRITE, AclBinding, AclBindingFilter
from oncelog_protocol.errors import RequestTimedOutError, SecurityDisabledError
from oncelog_protocol.messages.acls import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from oncelog_protocol.messages.quotas import AlterQuotasRequest, DescribeQuotasRequest, QuotaChange
from oncelog_protocol.messages.users import (
    CREATE,
    AlterUsersRequest,
    DescribeUsersRequest,
    UserWish,
)
from oncelog_protocol.quotas import PRODUCER_BYTE_RATE, QuotaFilter
from oncelog_protocol.sasl.user import CredentialRow
from support.controller_driver import Driver
from support.room_settings import controller_settings
from support.sasl import CREDENTIALS, SHA_256

ENTRY = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
WISH = UserWish("app", CREATE, [CredentialRow.of(CREDENTIALS[SHA_256])])
QUOTA = QuotaChange("app", None, None, PRODUCER_BYTE_RATE, 1.0)

CHANGES = [
    CreateAclsRequest([ENTRY]),
    AlterUsersRequest([WISH]),
    AlterQuotasRequest([QUOTA]),
]
REQUESTS = [
    *CHANGES,
    DeleteAclsRequest([AclBindingFilter()]),
    DescribeAclsRequest(AclBindingFilter()),
    DescribeUsersRequest(),
    DescribeQuotasRequest(QuotaFilter()),
]


def secured() -> Driver:
    return Driver.started(1, 2, config=controller_settings(security=True))


def name(request: Any) -> str:
    return type(request).__name__


@pytest.mark.parametrize("request_", REQUESTS, ids=name)
def test_where_nothing_is_kept_everything_is_refused_and_nothing_written(request_: Any) -> None:
    driver = Driver.started(1, 2)
    before = dict(driver.nodes)
    assert driver.ask(request_).error_code == SecurityDisabledError.code
    assert driver.nodes == before


@pytest.mark.parametrize("request_", CHANGES, ids=name)
def test_a_change_is_answered_when_brokers_have_it_and_a_trial_at_once(request_: Any) -> None:
    driver = secured()
    driver.auto_ack = False
    trial = replace(request_, validate_only=True)
    assert driver.ask(trial).version == 0
    request_id = driver.ask_later(replace(request_, timeout_ms=5000))
    assert driver.ask(trial).version == 1
    broker, order = driver.requests[-1]
    driver.handle(driver.answer(broker, order))
    assert request_id not in driver.replies
    driver.pass_time(5.1)
    response = driver.replies[request_id]
    assert response.error_code == RequestTimedOutError.code
    assert (response.version, response.unacknowledged) == (1, [3 - broker])
