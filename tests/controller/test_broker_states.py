"""Brokers are taken out of service and back, and the store remembers it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.broker_states import GIVEN_UP_MAX
from oncelog_controller.state import DataLoss, OutOfService
from oncelog_protocol.errors import (
    BrokerIdNotRegisteredError,
    IneligibleReplicaError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    UnsupportedVersionError,
)
from oncelog_protocol.messages import admin, moves
from oncelog_protocol.messages.broker_states import (
    DECOMMISSIONED,
    DECOMMISSIONING,
    DRAINING,
    HAS_DATA,
    MOVES,
    NAMED_MAX,
    NOBODY_ELSE,
    NOT_PLANNED,
    AlterBrokerStatesRequest,
    AlterBrokerStatesResponse,
    HeldPartition,
    LostPartition,
)
from oncelog_protocol.messages.metadata import ACTIVE
from support.controller_driver import ASKED_AT_MS, ASKER, Driver, summary


def alter(driver: Driver, broker_id: int, wanted: str, **fields: Any) -> AlterBrokerStatesResponse:
    request_id = driver.ask_later(AlterBrokerStatesRequest(broker_id, wanted, **fields))
    if wanted == DECOMMISSIONING and request_id not in driver.replies:
        driver.pass_time(0)  # it is found out whether there is room elsewhere
    answer = driver.replies[request_id]
    assert isinstance(answer, AlterBrokerStatesResponse)
    return answer


def done(driver: Driver, broker_id: int, wanted: str, **fields: Any) -> AlterBrokerStatesResponse:
    answer = alter(driver, broker_id, wanted, **fields)
    assert answer.error_code == 0, answer.error_message
    return answer


def refused(driver: Driver, broker_id: int, wanted: str, **fields: Any) -> tuple[int, str]:
    writes = len(driver.writes)
    answer = alter(driver, broker_id, wanted, **fields)
    assert answer.error_message
    assert len(driver.writes) == writes, "nothing has changed"
    return answer.error_code, answer.error_message


def stored(driver: Driver, broker_id: int) -> str:
    return driver.read_cluster().out_of_service.get(broker_id, OutOfService(ACTIVE, 0, "")).state


def created(driver: Driver, topic: str, factor: int, partitions: int = 1) -> set[int]:
    """Create a topic and return the brokers that have replicas of it."""
    new = admin.CreatableTopic(topic, partitions, factor)
    (result,) = driver.ask(admin.CreateTopicsRequest([new], 1000)).topics
    assert result.error_code == 0, result.error_message
    found = [driver.partition(topic, index).replicas for index in range(partitions)]
    return {broker_id for replicas in found for broker_id in replicas}


def test_a_broker_that_drains_gives_its_leaderships_up_and_stays_in_sync() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1, 3], [2, 1, 3], [1, 2, 3])
    answer = done(driver, 2, DRAINING)
    assert (answer.state, answer.since_ms, answer.by) == (DRAINING, ASKED_AT_MS, ASKER)
    assert (answer.leaders_left, answer.leaders_left_count) == ([], 0)
    assert {driver.partition("t", index).leader for index in (0, 1)} == {1, 3}, "they share it"
    assert summary(driver, "t", 0)[1:] == (1, [2, 1, 3]), "a new epoch with all members"
    assert summary(driver, "t", 2) == (1, 0, [1, 2, 3]), "it was not concerned"
    assert driver.resigned is None, "another broker is controller"


def test_everybody_is_told_the_state() -> None:
    driver = Driver.started(1, 2)
    driver.orders.clear()
    done(driver, 2, DRAINING)
    told = {
        to: {b.broker_id: b.state for b in orders.live_brokers} for to, _, orders in driver.orders
    }
    assert told == {1: {1: ACTIVE, 2: DRAINING}, 2: {1: ACTIVE, 2: DRAINING}}


def test_what_nobody_else_can_lead_stays_until_somebody_can() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1])
    driver.create("alone", [2])
    driver.alter_isr("t", 2)
    answer = done(driver, 2, DRAINING)
    left = [HeldPartition("alone", 0, NOBODY_ELSE), HeldPartition("t", 0, NOBODY_ELSE)]
    assert (answer.leaders_left, answer.leaders_left_count) == (left, 2)
    assert answer.lost_with_it_count == 2, "nobody else has a whole copy"
    driver.alter_isr("t", 2, 1)
    assert summary(driver) == (2, 0, [2, 1])
    driver.pass_time(1)
    assert summary(driver) == (1, 1, [2, 1])


def test_a_broker_that_drains_joins_isrs() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.alter_isr("t", 1)
    done(driver, 2, DRAINING)
    assert driver.alter_isr("t", 1, 2).error_code == 0
    assert summary(driver) == (1, 0, [1, 2])


def test_so_many_leaderships_move_in_a_second() -> None:
    driver = Driver.started(1, 2)
    count = GIVEN_UP_MAX + 50
    driver.create("t", *[[2, 1]] * count)

    def led() -> int:
        return sum(partition.leader == 2 for partition in driver.machine.cluster.partitions())

    answer = done(driver, 2, DRAINING)
    assert answer.leaders_left_count == led() == 50
    assert {held.reason for held in answer.leaders_left} == {""}, "only time is in the way"
    driver.pass_time(0.9)
    assert led() == 50
    driver.pass_time(0.2)
    assert led() == 0


def test_an_answer_names_so_many_partitions_and_counts_all() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", *[[2]] * (NAMED_MAX + 5))
    answer = done(driver, 2, DRAINING)
    for named, count in (
        (answer.leaders_left, answer.leaders_left_count),
        (answer.lost_with_it, answer.lost_with_it_count),
    ):
        assert (len(named), count) == (NAMED_MAX, NAMED_MAX + 5)


def test_preferred_leaders_come_back_with_their_broker() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1])
    done(driver, 2, DRAINING)
    driver.pass_time(1000)
    assert driver.partition("t").leader == 1, "no preferred election goes to it"
    elect = admin.ElectLeadersRequest(False, [admin.ElectionTarget("t", 0)])
    assert driver.ask(elect).partitions[0].error_code != 0
    answer = done(driver, 2, ACTIVE)
    assert (answer.state, answer.since_ms, answer.by) == (ACTIVE, 0, "")
    driver.pass_time(1000)
    assert driver.partition("t").leader == 2
    assert znodes.broker_state_path(2) not in driver.nodes


def test_the_next_controller_goes_on() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1], [3, 1])
    state = znodes.encode_broker_state(OutOfService(DRAINING, ASKED_AT_MS, ASKER))
    driver.put(znodes.broker_state_path(2), state)  # the controller died right after it
    heir = driver.take_over()
    heir.pass_time(0.1)
    assert heir.partition("t", 0).leader == 1
    assert heir.partition("t", 1).leader == 3
    heir.join(2)
    heir.alter_isr("t", 1, 2)
    heir.pass_time(1000)
    assert heir.partition("t").leader == 1, "a restart of the broker changes nothing"


def test_the_controller_gives_its_office_up() -> None:
    driver = Driver.started(1, 2)
    answer = done(driver, 1, DRAINING)
    assert answer.state == DRAINING, "who asked is answered first"
    assert driver.resigned == "this broker is out of service"


def test_the_controller_stays_while_nobody_else_is_in_service() -> None:
    driver = Driver.started(1, 2)
    done(driver, 2, DRAINING)
    done(driver, 1, DRAINING)
    assert driver.resigned is None
    driver.join(3)
    assert driver.resigned == "this broker is out of service"


def test_new_partitions_go_elsewhere_if_there_are_enough_others() -> None:
    driver = Driver.started(1, 2, 3)
    done(driver, 2, DRAINING)
    assert created(driver, "two", 2, 6) == {1, 3}
    assert created(driver, "three", 3) == {1, 2, 3}, "there are too few others"
    assert driver.partition("three").leader != 2


def test_a_broker_that_is_decommissioned_gets_no_new_partition() -> None:
    driver = Driver.started(1, 2, 3)
    done(driver, 2, DECOMMISSIONING)
    assert created(driver, "two", 2, 6) == {1, 3}
    new = admin.CreatableTopic("three", 1, 3)
    (result,) = driver.ask(admin.CreateTopicsRequest([new], 1000)).topics
    assert result.error_code == InvalidReplicationFactorError.code
    assert "1 to 2" in (result.error_message or "")
    assert driver.create("named", [1, 2]).error_code == InvalidReplicaAssignmentError.code


def test_to_decommission_is_refused_when_too_few_brokers_would_remain() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("narrow", [1, 2])
    driver.create("wide", [1, 2, 3])
    code, text = refused(driver, 2, DECOMMISSIONING)
    assert code == InvalidReplicationFactorError.code
    assert "wide (3)" in text
    assert "narrow" not in text
    assert refused(driver, 2, DECOMMISSIONING, validate_only=True)[0] == code
    assert stored(driver, 2) == ACTIVE
    alone = Driver.started(1)
    assert refused(alone, 1, DECOMMISSIONING)[0] == code, "nobody would remain"


def test_what_holds_a_broker_up_is_named_until_it_is_decommissioned() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1], [1, 2], [1, 3])
    answer = done(driver, 2, DECOMMISSIONING)
    left = [HeldPartition("t", 0, NOT_PLANNED), HeldPartition("t", 1, NOT_PLANNED)]
    assert (answer.state, answer.replicas_left, answer.replicas_left_count) == (
        DECOMMISSIONING,
        left,
        2,
    )
    assert answer.leaders_left_count == answer.lost_with_it_count == 0
    driver.pass_time(0)
    answer = done(driver, 2, DECOMMISSIONING, validate_only=True)
    assert [held.reason for held in answer.replicas_left] == [MOVES, MOVES]
    driver.auto_ack = False
    driver.alter_isr("t", 1, 2, 3, partition=0)
    driver.alter_isr("t", 1, 2, 3, partition=1)
    answer = done(driver, 2, DECOMMISSIONING, validate_only=True)
    assert {held.reason for held in answer.replicas_left} == {HAS_DATA}
    driver.pass_time(3)
    assert stored(driver, 2) == DECOMMISSIONING
    driver.auto_ack = True
    driver.join(2)  # it is told everything, and deletes
    driver.pass_time(3)
    assert stored(driver, 2) == DECOMMISSIONED
    answer = done(driver, 2, DECOMMISSIONING)
    assert (answer.state, answer.by, answer.replicas_left) == (DECOMMISSIONED, ASKER, [])
    assert refused(driver, 2, DRAINING)[0] == InvalidRequestError.code
    assert done(driver, 2, ACTIVE).state == ACTIVE
    assert created(driver, "new", 3) == {1, 2, 3}


def test_a_broker_without_a_replica_is_decommissioned_soon() -> None:
    driver = Driver.started(1, 2, 3)
    done(driver, 2, DRAINING)
    assert done(driver, 2, DECOMMISSIONING).state in (DECOMMISSIONING, DECOMMISSIONED)
    driver.pass_time(2)
    assert stored(driver, 2) == DECOMMISSIONED


def test_nothing_changes_when_it_is_only_asked() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 1])
    writes = len(driver.writes)
    answer = done(driver, 2, DECOMMISSIONING, validate_only=True)
    assert (answer.state, answer.leaders_left, answer.replicas_left) == (
        DECOMMISSIONING,
        [HeldPartition("t", 0)],
        [HeldPartition("t", 0, NOT_PLANNED)],
    )
    assert len(driver.writes) == writes


def test_wishes_that_cannot_be() -> None:
    driver = Driver.started(1, 2)
    assert refused(driver, 9, DRAINING)[0] == BrokerIdNotRegisteredError.code
    assert refused(driver, 2, "idle")[0] == InvalidRequestError.code
    assert refused(driver, 2, DECOMMISSIONED)[0] == InvalidRequestError.code


def test_a_broker_that_is_away_can_be_drained() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [2, 1])
    driver.lose(2)
    done(driver, 2, DRAINING)
    driver.join(2)
    driver.alter_isr("t", 1, 2)
    driver.pass_time(1000)
    assert driver.partition("t").leader == 1


def test_records_of_a_dead_broker_are_given_up_by_name() -> None:
    driver = Driver.started(1, 2, 3, 4)
    driver.create("alone", [2])
    driver.create("pair", [2, 1])
    driver.create("safe", [1, 2])
    driver.alter_isr("pair", 2)
    accepted = [LostPartition("alone", 0), LostPartition("pair", 0)]
    living = refused(driver, 2, DECOMMISSIONING, accept_loss=accepted)
    assert "broker 2 is there" in living[1]
    driver.lose(2)
    answer = done(driver, 2, DECOMMISSIONING)
    assert answer.lost_with_it == [HeldPartition("alone", 0), HeldPartition("pair", 0)]
    for wrong in (LostPartition("safe", 0), LostPartition("none", 0), LostPartition("pair", 1)):
        code, text = refused(driver, 2, DECOMMISSIONING, accept_loss=[wrong])
        assert code == InvalidRequestError.code
        assert f"{wrong.topic}-{wrong.partition}" in text
    assert "only a broker" in refused(driver, 2, DRAINING, accept_loss=accepted)[1]
    answer = done(driver, 2, DECOMMISSIONING, accept_loss=accepted)
    assert answer.lost_with_it_count == 0
    alone, pair = driver.partition("alone"), driver.partition("pair")
    assert alone.placement.leaving == pair.placement.leaving == (2,)
    assert alone.leader in (3, 4, 1)
    assert (pair.leader, len(pair.replicas)) == (1, 2), "who has something leads"
    assert pair.state is not None
    assert pair.state.unclean_epoch == pair.state.leader_epoch
    driver.lose_data(2, loss=DataLoss.NONE)
    driver.join(2)
    assert stored(driver, 2) == DECOMMISSIONING, "it has a replica of safe-0"
    driver.pass_time(3)
    assert driver.partition("alone").placement.leaving == (), "it has deleted what it had"


def test_records_are_not_given_up_while_a_broker_knows_no_moves() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("alone", [2])
    driver.lose(2)
    driver.brokers[3] = replace(driver.brokers[3], features=frozenset())
    driver.read_brokers()
    lost = [LostPartition("alone", 0)]
    code, text = refused(driver, 2, DECOMMISSIONING, accept_loss=lost)
    assert code == UnsupportedVersionError.code
    assert "brokers 3 run a release" in text


def test_nothing_moves_to_a_broker_that_is_to_leave() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1])
    done(driver, 2, DECOMMISSIONING)
    wish = moves.ReassignedPartition("t", 0, [2])
    (result,) = driver.ask(moves.AlterPartitionReassignmentsRequest([wish])).items
    assert result.error_code == IneligibleReplicaError.code
    assert result.error_message.startswith("t-0 cannot move to 2, which is being decommissioned")
    done(driver, 2, ACTIVE)
    done(driver, 2, DRAINING)
    (result,) = driver.ask(moves.AlterPartitionReassignmentsRequest([wish])).items
    assert result.error_code == 0


@pytest.mark.parametrize("applied", [False, True])
def test_a_write_whose_outcome_is_open_is_found_out(applied: bool) -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [2, 1])
    driver.disconnect_once(applied=applied)
    request_id = driver.ask_later(AlterBrokerStatesRequest(2, DRAINING))
    driver.load()
    assert driver.replies[request_id].state == DRAINING
    assert stored(driver, 2) == DRAINING
    driver.pass_time(0.1)
    assert driver.partition("t").leader == 1
