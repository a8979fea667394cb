"""The next leader of a coordinator's partition is named, and waited for, but not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_controller import preloading
from oncelog_controller.events import GoOn
from oncelog_protocol.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.broker_reports import ANEW, BrokerReportRequest, ReportedWarm
from oncelog_protocol.messages.broker_states import DRAINING, AlterBrokerStatesRequest
from oncelog_protocol.messages.metadata import ACTIVE
from oncelog_protocol.messages.moves import (
    COPYING,
    WARMING,
    ListPartitionReassignmentsRequest,
)
from oncelog_protocol.messages.replication import LeaderAndIsrRequest
from support.controller_driver import Driver, summary
from support.room_settings import controller_settings

WAIT_S = 10.0


def started(*replicas: int, topic: str = GROUP_TOPIC, partitions: int = 1, **given: Any) -> Driver:
    """Start a cluster with a coordinator's topic, of which the controller's broker has nothing."""
    settings = controller_settings(**given)
    driver = Driver.started(1, 2, 3, 4, 5, broker_id=5, config=settings)
    assignment = [list(replicas) for _ in range(partitions)]
    new = admin.CreatableTopic(topic, -1, -1, assignment)
    driver.ask(admin.CreateTopicsRequest([new], 1000), internal=True)
    assert driver.state(topic).leader == replicas[0]
    driver.requests.clear()
    return driver


def move(driver: Driver, *target: int, topic: str = GROUP_TOPIC) -> None:
    """Begin to move the first partition, and handle what follows."""
    driver.machine._moves.begin([(driver.partition(topic), target)], "plan")
    driver.handle(GoOn())


def warm(driver: Driver, broker_id: int, *partitions: int, topic: str = GROUP_TOPIC) -> None:
    """Have a broker report which partitions it has read."""
    topic_id = driver.partition(topic).topic.topic_id
    told = [ReportedWarm(topic_id, list(partitions))] if partitions else []
    epoch = driver.brokers[broker_id].broker_epoch
    request = BrokerReportRequest(broker_id, epoch, 1, ANEW, True, warm=told)
    assert driver.ask(request).error_code == 0


def listed(driver: Driver) -> tuple[str, str]:
    """Return the phase of the only move that is listed, and what it waits for."""
    (found,) = driver.ask(ListPartitionReassignmentsRequest()).partitions
    return found.phase, found.reason


def named(driver: Driver, topic: str = GROUP_TOPIC) -> dict[int, int]:
    """Return who was told last that who is the next leader."""
    return {
        broker_id: order.next_leader
        for broker_id, request in driver.requests
        if isinstance(request, LeaderAndIsrRequest)
        for order in request.partitions
        if (order.topic, order.partition) == (topic, 0)
    }


def leader(driver: Driver, topic: str = GROUP_TOPIC, partition: int = 0) -> int:
    return driver.state(topic, partition).leader


def drain(driver: Driver, broker_id: int, wanted: str = DRAINING) -> None:
    answer = driver.ask(AlterBrokerStatesRequest(broker_id, wanted))
    assert answer.error_code == 0, answer.error_message


# ---------------------------------------------------------------- moves


@pytest.mark.parametrize("topic", [GROUP_TOPIC, TRANSACTION_TOPIC])
def test_a_move_names_the_next_leader_at_its_beginning_and_waits_for_it_at_its_end(
    topic: str,
) -> None:
    driver = started(1, 2, topic=topic)
    move(driver, 2, 3, topic=topic)
    assert driver.partition(topic).next_leader == 2, "it is the new preferred leader"
    assert named(driver, topic)[2] == 2
    driver.alter_isr(topic, 1, 2, 3)
    assert summary(driver, topic)[0] == 1
    assert driver.state(topic).placement.origin, "it waits"  # type: ignore[union-attr]
    warm(driver, 2, 0, topic=topic)
    assert summary(driver, topic) == (2, 2, [2, 3])
    assert driver.partition(topic).next_leader == -1
    assert named(driver, topic)[2] == -1


def test_the_listing_of_moves_says_that_the_next_leader_reads() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    assert listed(driver) == (COPYING, "")
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    assert listed(driver) == (WARMING, "broker 2 reads it before it leads")
    driver.alter_isr(GROUP_TOPIC, 1, 2)
    assert listed(driver)[0] == COPYING, "something else is missing again"
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    assert listed(driver)[0] == WARMING
    warm(driver, 2, 0)
    assert not driver.ask(ListPartitionReassignmentsRequest()).partitions


def test_the_order_that_begins_a_move_names_the_next_leader_and_says_who_is_new() -> None:
    driver = started(1)
    move(driver, 3)
    new = [
        (broker_id, order.is_new, order.next_leader, [c.topic for c in request.configs])
        for broker_id, request in driver.requests
        if isinstance(request, LeaderAndIsrRequest)
        for order in request.partitions
    ]
    assert new == [(1, False, -1, []), (3, True, 3, [GROUP_TOPIC])]


def test_a_move_of_another_topic_waits_for_nobody() -> None:
    driver = started(1, 2, topic="t")
    move(driver, 2, 3, topic="t")
    driver.alter_isr("t", 1, 2, 3)
    assert summary(driver, "t") == (2, 2, [2, 3])


def test_a_leader_that_stays_is_not_waited_for() -> None:
    driver = started(1, 2)
    move(driver, 3, 1)
    assert driver.partition(GROUP_TOPIC).next_leader == -1
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    assert summary(driver, GROUP_TOPIC) == (1, 2, [3, 1])


def test_who_tells_nothing_leads_when_the_time_is_over() -> None:
    """A broker of an older release tells nothing."""
    driver = started(1, 2)
    move(driver, 2, 3)
    driver.pass_time(60)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    driver.pass_time(WAIT_S - 1)
    assert leader(driver) == 1, "the time counts from when nothing else was missing"
    driver.pass_time(1.5)
    assert summary(driver, GROUP_TOPIC) == (2, 2, [2, 3])


def test_without_a_timeout_nobody_is_waited_for() -> None:
    driver = started(1, 2, coordinator_preload_timeout_ms=0)
    move(driver, 2, 3)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    assert leader(driver) == 2


def test_the_next_leader_dies_and_another_one_is_named() -> None:
    driver = started(1, 2)
    move(driver, 2, 3, 4)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3, 4)
    assert named(driver)[2] == 2
    driver.lose(2)
    driver.alter_isr(GROUP_TOPIC, 1, 3, 4)
    driver.pass_time(2)
    assert leader(driver) == 1
    driver.join(2)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3, 4)
    heir = driver.partition(GROUP_TOPIC).next_leader
    assert named(driver)[heir] == heir
    warm(driver, heir, 0)
    assert leader(driver) == heir


def test_the_leader_dies_while_the_next_one_reads() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    driver.lose(1)
    assert leader(driver) in (2, 3), "whoever is left leads at once"
    driver.pass_time(WAIT_S + 10)
    assert driver.partition(GROUP_TOPIC).next_leader == -1
    assert driver.state(GROUP_TOPIC).placement.replicas == (2, 3)  # type: ignore[union-attr]


def test_the_controller_dies_while_the_next_leader_reads() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    driver.pass_time(WAIT_S - 1)
    heir = driver.take_over()
    assert named(heir)[2] == 2, "it is named again"
    heir.pass_time(WAIT_S - 1)
    assert leader(heir) == 1, "and waited for anew"
    warm(heir, 2, 0)
    assert summary(heir, GROUP_TOPIC) == (2, 2, [2, 3])


def test_another_target_names_another_leader() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    assert driver.partition(GROUP_TOPIC).next_leader == 2
    move(driver, 1, 4)
    assert driver.partition(GROUP_TOPIC).next_leader == -1
    assert named(driver)[2] == -1


def test_a_report_of_an_earlier_life_is_forgotten() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    warm(driver, 2, 0)
    driver.join(2)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    assert leader(driver) == 1


def test_a_topic_that_is_deleted_is_waited_for_no_more() -> None:
    driver = started(1, 2)
    move(driver, 2, 3)
    driver.alter_isr(GROUP_TOPIC, 1, 2, 3)
    driver.ask(admin.DeleteTopicsRequest([GROUP_TOPIC], 1000), internal=True)
    driver.pass_time(WAIT_S + 10)
    assert GROUP_TOPIC not in driver.machine.cluster.topics


# ---------------------------------------------------------------- preferred leaders


def deposed(**given: Any) -> Driver:
    """Start a cluster in which the preferred leader has died, and come back."""
    driver = started(1, 2, 3, partitions=2, **given)
    driver.lose(1)
    assert leader(driver) != 1
    driver.join(1)
    for index in (0, 1):
        driver.alter_isr(GROUP_TOPIC, 1, 2, 3, partition=index)
    return driver


def test_a_preferred_leader_leads_again_when_it_has_read() -> None:
    driver = deposed()
    driver.pass_time(2)
    assert leader(driver) != 1
    assert named(driver)[1] == 1
    warm(driver, 1, 0)
    driver.pass_time(0)
    assert (leader(driver), leader(driver, partition=1) != 1) == (1, True)
    warm(driver, 1, 1)
    driver.pass_time(0)
    assert leader(driver, partition=1) == 1


def test_a_preferred_leader_that_tells_nothing_leads_when_the_time_is_over() -> None:
    driver = deposed()
    driver.pass_time(WAIT_S + 2)
    assert (leader(driver), leader(driver, partition=1)) == (1, 1)


def test_a_preferred_leader_that_cannot_lead_any_more_is_named_no_more() -> None:
    driver = deposed()
    driver.pass_time(2)
    driver.alter_isr(GROUP_TOPIC, 2, 3)
    assert driver.partition(GROUP_TOPIC).next_leader == 1
    driver.pass_time(WAIT_S + preloading.FORGOTTEN_S + 2)
    assert driver.partition(GROUP_TOPIC).next_leader == -1
    assert named(driver)[1] == -1
    assert driver.machine._preloading.deadline is None


def test_whoever_asks_for_an_election_has_it_at_once() -> None:
    driver = deposed(auto_leader_rebalance_enable=False)
    targets = [admin.ElectionTarget(GROUP_TOPIC, 0)]
    driver.ask(admin.ElectLeadersRequest(False, targets))
    assert leader(driver) == 1


# ---------------------------------------------------------------- brokers that drain


def test_a_broker_that_drains_serves_until_the_next_leader_has_read() -> None:
    driver = started(1, 2, 3)
    drain(driver, 1)
    assert leader(driver) == 1
    heir = driver.partition(GROUP_TOPIC).next_leader
    assert heir in (2, 3)
    driver.pass_time(5)
    assert (leader(driver), driver.partition(GROUP_TOPIC).next_leader) == (1, heir)
    warm(driver, heir, 0)
    driver.pass_time(0)
    assert leader(driver) == heir


def test_a_broker_that_drains_is_rid_of_its_coordinators_when_the_time_is_over() -> None:
    driver = started(1, 2, 3)
    drain(driver, 1)
    driver.pass_time(WAIT_S + 1)
    assert leader(driver) in (2, 3)


def test_a_broker_that_is_active_again_keeps_what_it_leads() -> None:
    driver = started(1, 2, 3)
    drain(driver, 1)
    drain(driver, 1, ACTIVE)
    driver.pass_time(WAIT_S + preloading.FORGOTTEN_S + 5)
    assert leader(driver) == 1
    assert driver.partition(GROUP_TOPIC).next_leader == -1
