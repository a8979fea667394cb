"""Each id of a block is given once, whatever happens to controllers and answers (KIP-730)."""

from __future__ import annotations

from oncelog_controller.producer_ids import BLOCK_COUNT
from oncelog_controller.state import UNKNOWN_PRODUCER_IDS
from oncelog_protocol.errors import NotControllerError, StaleBrokerEpochError, StorageError
from oncelog_protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from support.controller_driver import Driver


def ask(driver: Driver, broker: int, *, epoch: int | None = None) -> AllocateProducerIdsResponse:
    if epoch is None:
        epoch = driver.brokers[broker].broker_epoch
    response: AllocateProducerIdsResponse = driver.ask(AllocateProducerIdsRequest(broker, epoch))
    return response


def test_each_broker_gets_a_block_of_its_own() -> None:
    driver = Driver.started(1, 2)
    blocks = [ask(driver, 1), ask(driver, 2), ask(driver, 1)]
    assert [(b.error_code, b.first_producer_id, b.count) for b in blocks] == [
        (0, n * BLOCK_COUNT, BLOCK_COUNT) for n in range(3)
    ]


def test_the_next_controller_goes_on_behind_the_last_block() -> None:
    driver = Driver.started(1, 2)
    ask(driver, 1)
    assert ask(driver.take_over(), 2).first_producer_id == BLOCK_COUNT


def test_a_block_whose_write_has_an_unknown_outcome_is_not_given_twice() -> None:
    for applied in (True, False):
        driver = Driver.started(1, 2)
        driver.disconnect_once(applied=applied)
        epoch = driver.brokers[1].broker_epoch
        driver.ask(AllocateProducerIdsRequest(1, epoch))
        driver.load()
        given = [r for r in driver.replies.values() if isinstance(r, AllocateProducerIdsResponse)]
        given.append(ask(driver, 2))
        firsts = [r.first_producer_id for r in given if not r.error_code]
        assert len(firsts) == len(set(firsts)), applied


def test_only_registered_lives_of_brokers_get_ids() -> None:
    driver = Driver.started(1, 2)
    assert ask(driver, 9, epoch=1).error_code == StaleBrokerEpochError.code
    assert ask(driver, 1, epoch=1).error_code == StaleBrokerEpochError.code
    assert ask(driver, 1, epoch=10**9).error_code == NotControllerError.code
    assert not driver.writes


def test_a_damaged_node_stops_the_giving_of_ids_and_nothing_else() -> None:
    driver = Driver.started(1, 2)
    driver.machine.cluster.next_producer_id = UNKNOWN_PRODUCER_IDS
    assert ask(driver, 1).error_code == StorageError.code
    assert not driver.writes
    driver.create("t", [1, 2])
