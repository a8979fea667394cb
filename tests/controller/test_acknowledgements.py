"""A change of what brokers decide by is answered when they have taken it."""

from __future__ import annotations

from typing import Any

from oncelog_controller.events import OrdersAnswered
from oncelog_protocol.acls import ALLOW, LITERAL, TOPIC, WRITE, AclBinding, AclBindingFilter
from oncelog_protocol.errors import RequestTimedOutError
from oncelog_protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from oncelog_protocol.messages.security import (
    FULL,
    UpdateSecurityRequest,
    UpdateSecurityResponse,
)
from support.controller_driver import Driver
from support.room_settings import controller_settings

ENTRY = AclBinding(TOPIC, LITERAL, "orders", "User:app", "*", WRITE, ALLOW)
CREATE = CreateAclsRequest([ENTRY], timeout_ms=2_000)


def secured(*, auto_ack: bool = False) -> Driver:
    """Return a controller of two brokers that have everything."""
    driver = Driver.started(1, 2, config=controller_settings(security=True))
    driver.auto_ack = auto_ack
    return driver


def told(driver: Driver) -> list[tuple[int, int, int]]:
    """Return (broker, base, version) of each order so far."""
    return [
        (broker_id, request.base, request.version)
        for broker_id, request in driver.requests
        if isinstance(request, UpdateSecurityRequest)
    ]


def acknowledge(driver: Driver, *broker_ids: int) -> None:
    """Have the newest order of each broker answered."""
    for broker_id in broker_ids:
        orders = [
            request
            for to, request in driver.requests
            if to == broker_id and isinstance(request, UpdateSecurityRequest)
        ]
        driver.handle(driver.answer(broker_id, orders[-1]))


def test_nothing_is_told_where_brokers_do_not_decide_by_acls() -> None:
    assert told(Driver.started(1, 2)) == []


def test_all_is_told_first_and_then_the_changes() -> None:
    driver = secured(auto_ack=True)
    driver.ask(CREATE)
    driver.join(3)
    driver.ask(DeleteAclsRequest([AclBindingFilter()]))
    assert told(driver) == [
        *[(1, FULL, 0), (2, FULL, 0)],
        *[(1, 0, 1), (2, 0, 1)],
        (3, FULL, 1),
        *[(1, 1, 2), (2, 1, 2), (3, 1, 2)],
    ]
    heir = driver.take_over()
    assert told(heir) == [(1, FULL, 2), (2, FULL, 2), (3, FULL, 2)]


def test_the_answer_waits_for_every_broker() -> None:
    driver = secured()
    request_id = driver.ask_later(CREATE)
    acknowledge(driver, 1)
    assert request_id not in driver.replies
    acknowledge(driver, 2)
    response = driver.replies[request_id]
    assert (response.error_code, response.version, response.unacknowledged) == (0, 1, [])


def test_after_the_time_out_the_answer_names_who_has_not() -> None:
    driver = secured()
    request_id = driver.ask_later(CREATE)
    acknowledge(driver, 2)
    driver.pass_time(2)
    response = driver.replies[request_id]
    assert response.error_code == RequestTimedOutError.code
    assert response.unacknowledged == [1]
    assert [result.error_code for result in response.results] == [0], "it was made"
    again = driver.ask_later(CREATE)
    assert again not in driver.replies, "asking again waits for the same"
    acknowledge(driver, 1)
    assert driver.replies[again].error_code == 0


def test_a_trial_waits_for_nobody() -> None:
    driver = secured()
    driver.ask_later(CREATE)
    assert driver.ask(CreateAclsRequest([ENTRY], True)).error_code == 0


def test_a_broker_that_is_suspected_or_gone_is_not_waited_for() -> None:
    for leave in (Driver.suspect, Driver.lose):
        driver = secured()
        request_id = driver.ask_later(CREATE)
        acknowledge(driver, 1)
        leave(driver, 2)
        assert driver.replies[request_id].error_code == 0


def test_a_broker_that_restarts_is_waited_for_anew() -> None:
    driver = secured()
    request_id = driver.ask_later(CREATE)
    acknowledge(driver, 1)
    old = next(request for to, request in driver.requests[::-1] if to == 2)
    driver.join(2)
    driver.handle(OrdersAnswered(2, old.broker_epoch, old, UpdateSecurityResponse(0, 1)))
    assert request_id not in driver.replies, "that was its last life"
    acknowledge(driver, 2)
    assert driver.replies[request_id].error_code == 0


def test_a_broker_that_asks_for_everything_is_told_everything() -> None:
    driver = secured()
    request_id = driver.ask_later(CREATE)
    acknowledge(driver, 1)
    change: Any = driver.requests[-1][1]
    assert driver.requests[-1][0] == 2
    answer = UpdateSecurityResponse(0, -1, True)
    driver.handle(OrdersAnswered(2, change.broker_epoch, change, answer))
    assert told(driver)[-1] == (2, FULL, 1)
    assert request_id not in driver.replies
    acknowledge(driver, 2)
    assert driver.replies[request_id].error_code == 0
