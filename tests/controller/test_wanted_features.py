"""A feature is put in use when a broker wants it and every broker knows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog_controller import znodes
from oncelog_controller.features import KAFKA_BATCHES, MOVES
from support.controller_driver import Driver


def in_use(driver: Driver) -> list[str]:
    node = driver.nodes.get(znodes.FEATURES)
    return [] if node is None else znodes.decode_features(node.data)


def change(driver: Driver, broker_id: int, **fields: Any) -> None:
    """Have a broker register again, as one of another release or with other wishes."""
    driver.register(broker_id)
    driver.brokers[broker_id] = replace(driver.brokers[broker_id], **fields)
    driver.read_brokers()


def test_a_feature_is_put_in_use_that_a_broker_wants_and_all_know() -> None:
    driver = Driver.started(1, 2, 3)
    assert in_use(driver) == []
    change(driver, 2, wants=frozenset({KAFKA_BATCHES}))
    assert in_use(driver) == [KAFKA_BATCHES]
    assert driver.machine.cluster.features == {KAFKA_BATCHES}
    change(driver, 3, wants=frozenset({KAFKA_BATCHES, MOVES}))
    assert in_use(driver) == [KAFKA_BATCHES, MOVES]


def test_it_waits_until_every_broker_knows_it() -> None:
    driver = Driver.started(1, 2)
    change(driver, 1, features=frozenset({MOVES}))
    change(driver, 2, wants=frozenset({KAFKA_BATCHES}))
    assert in_use(driver) == [], "broker 1 could not read them"
    driver.lose(1)
    assert in_use(driver) == [KAFKA_BATCHES]


def test_what_this_release_does_not_know_is_not_begun() -> None:
    driver = Driver.started(1)
    tomorrow = frozenset({"tomorrow"})
    change(driver, 1, wants=tomorrow, features=tomorrow)
    assert in_use(driver) == []


def test_a_new_controller_goes_on_with_it() -> None:
    driver = Driver.started(1)
    driver.register(1)
    driver.brokers[1] = replace(driver.brokers[1], wants=frozenset({KAFKA_BATCHES}))
    heir = driver.take_over()
    assert in_use(heir) == [KAFKA_BATCHES]
