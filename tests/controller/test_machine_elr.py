"""Eligible leader replicas go through KIP-966, lost disks, and settings that change."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.state import DataClaim, DataLoss, PartitionState
from oncelog_controller.store import SetData
from oncelog_protocol.errors import ERRORS, StorageError
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.replication import ControlledShutdownRequest, LeaderAndIsrRequest
from support.controller_driver import Driver


def summary(driver: Driver, partition: int = 0) -> tuple[int, list[int], list[int], list[int]]:
    state = driver.state("t", partition)
    return state.leader, list(state.isr), list(state.elr), list(state.last_known_elr)


def alter(driver: Driver, **configs: str) -> None:
    entries = [admin.ConfigEntry(key, value) for key, value in configs.items()]
    wish = admin.ConfigAlteration(admin.RESOURCE_TOPIC, "t", entries)
    assert driver.ask(admin.AlterConfigsRequest([wish])).resources[0].error_code == 0


def three(**configs: str) -> Driver:
    """Start with replicas 1, 2, 3, and min.insync.replicas 2."""
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], **{"min_insync_replicas": "2", **configs})
    return driver


def last_standing(**configs: str) -> Driver:
    """Broker 1 is the last of the ISR; 2 and 3 have left it, in that order, and live."""
    driver = three(**configs)
    driver.alter_isr("t", 1, 3)
    driver.alter_isr("t", 1)
    return driver


def orders_to(driver: Driver, broker_id: int) -> list[LeaderAndIsrRequest]:
    return [r for b, r in driver.requests if b == broker_id and isinstance(r, LeaderAndIsrRequest)]


# ---------------------------------------------------------------- KIP-966, T0 to T3


def test_the_last_replica_standing_loses_its_tail() -> None:
    """At T0 the ISR is 1, 2, 3. T1: 2 and 3 fall behind. T2: 1 loses power, and what it had not
    synced. T3: it is back; without an ELR it would lead, and the others would cut what was
    committed."""
    driver = three()
    driver.alter_isr("t", 1, 3)
    assert summary(driver) == (1, [1, 3], [], []), "an ISR of two: the high watermark goes on"
    result = driver.alter_isr("t", 1)
    assert summary(driver) == (1, [1], [3], []), "2 may lack what was committed since, 3 does not"
    assert result.elr == [3], "and the leader knows"
    driver.lose(1)
    assert summary(driver) == (3, [3], [1], [])
    driver.join(1, data=DataClaim(None, None, DataLoss.TAIL))
    assert summary(driver) == (3, [3], [], [1])
    assert driver.alter_isr("t", 2, 3).error_code == 0
    assert summary(driver) == (3, [2, 3], [], []), "enough of them: nobody else is needed"


def test_the_last_replica_standing_bounces_within_its_session() -> None:
    driver = last_standing()
    driver.lose_data(1, loss=DataLoss.TAIL)
    assert summary(driver) == (3, [3], [], [1])


def test_the_last_replica_standing_keeps_its_data() -> None:
    driver = last_standing()
    driver.join(1)
    assert summary(driver) == (1, [1], [3], []), "in a new epoch"
    assert driver.state("t").leader_epoch == 1


def test_a_killed_leader_gives_way_to_the_elr_by_evidence() -> None:
    driver = last_standing()
    driver.suspect(1)
    assert summary(driver) == (3, [3], [1], [])
    assert orders_to(driver, 3)[-1].partitions[0].elr == [1]
    driver.clear(1)
    assert driver.alter_isr("t", 1, 3).error_code == 0
    assert summary(driver) == (3, [1, 3], [], [])


def test_a_leader_that_stops_hands_over_to_the_elr() -> None:
    driver = last_standing()
    epoch = driver.brokers[1].broker_epoch
    assert driver.ask(ControlledShutdownRequest(1, epoch)).remaining == 0
    assert summary(driver) == (3, [3], [1], [])


# ---------------------------------------------------------------- lost disks


@pytest.mark.parametrize("seen", [True, False], ids=["within its session", "later"])
def test_an_empty_disk_is_in_no_isr(seen: bool) -> None:
    """The ISR is whole, and one member comes back with nothing."""
    driver = three()
    if not seen:
        driver.lose(2)
        driver.claims[2] = DataClaim()
        driver.join(2)
    else:
        driver.lose_data(2)
    assert summary(driver) == (1, [1, 3], [], [])
    driver.suspect(1)
    driver.suspect(3)
    assert 2 not in driver.state("t").isr
    assert driver.state("t").leader != 2


def test_an_empty_disk_that_nobody_saw_leaves_when_the_next_controller_loads() -> None:
    driver = three()
    driver.register(1, data=DataClaim())
    heir = driver.take_over()
    assert summary(heir) == (2, [2, 3], [], [])


def test_the_wiped_disk_of_the_sole_member_loses_nothing_while_others_are_complete() -> None:
    driver = last_standing()
    driver.lose(2, 3)
    driver.lose_data(1)
    assert summary(driver) == (-1, [], [3], [1]), "3 is away, and complete as far as anybody knows"
    driver.join(2)
    assert summary(driver) == (-1, [], [3], [1])
    driver.join(3)
    assert summary(driver) == (3, [3], [], [1])


def test_nobody_complete_is_left(caplog: pytest.LogCaptureFixture) -> None:
    driver = three()
    driver.lose(2, 3)
    with caplog.at_level(logging.WARNING):
        driver.lose(1)
        driver.lose_data(1, loss=DataLoss.TAIL) if 1 in driver.brokers else None
        for broker_id in (1, 2, 3):
            driver.claims[broker_id] = DataClaim(None, None, DataLoss.TAIL)
        driver.join(1)
        driver.join(2)
        assert driver.state("t").leader == -1
        driver.join(3)
    assert summary(driver) == (-1, [], [], [1, 2, 3])
    assert "partitions_without_replica partitions='t-0 (1, 2, 3)'" in caplog.text
    order = orders_to(driver, 2)[-1].partitions[0]
    assert (order.leader, order.isr, order.last_known_elr) == (-1, [], [1, 2, 3])
    again = driver.take_over()
    assert summary(again) == (-1, [], [], [1, 2, 3])
    target = admin.ElectionTarget("t", 0)
    refused = again.ask(admin.ElectLeadersRequest(False, [target])).partitions[0]
    assert ERRORS[refused.error_code].name == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert again.ask(admin.ElectLeadersRequest(True, [target])).partitions[0].error_code == 0
    state = again.state("t")
    assert (state.leader, state.isr, state.last_known_elr) == (1, (1,), ())
    assert state.unclean_epoch == state.leader_epoch, "it is marked where records may be missing"
    assert again.alter_isr("t", 1, 2, 3).error_code == 0
    assert again.state("t").unclean_epoch == state.unclean_epoch


def test_an_unclean_election_takes_who_was_complete_last() -> None:
    driver = three(unclean_leader_election_enable="true")
    driver.alter_isr("t", 1)
    driver.lose(2, 3)
    driver.lose_data(1, loss=DataLoss.TAIL)
    assert summary(driver) == (1, [1], [], [])
    assert driver.state("t").unclean_epoch == driver.state("t").leader_epoch
    assert driver.machine._core.stats.unclean_elections == 1
    driver.join(2)
    assert summary(driver) == (1, [1], [], []), "what was complete before counts no more"


def test_the_right_disk_is_put_back() -> None:
    """Its mount was missing at a start; then it is there again."""
    driver = Driver.started(1, 2)
    driver.create("t", [1])
    admitted = driver.state("t").admitted_at(1)
    assert admitted is not None
    driver.lose_data(1)
    assert summary(driver) == (-1, [], [], [1])
    driver.join(1, data=DataClaim(admitted, admitted, DataLoss.NONE))
    assert summary(driver) == (1, [1], [], [])
    assert driver.state("t").unclean_epoch == -1


def test_a_disk_from_a_backup_is_not_believed() -> None:
    """It remembers an older life than the one in which the replica was admitted."""
    driver = three()
    first = driver.brokers[2].broker_epoch
    driver.join(2)
    driver.alter_isr("t", 1, 2, 3)
    driver.join(2, data=DataClaim(first, first, DataLoss.NONE))
    assert 2 not in driver.state("t").isr
    driver.suspect(1)
    assert driver.state("t").leader == 3


def test_a_single_replica_goes_on_without_its_unsynced_tail() -> None:
    """Nobody else has it; flush=interval has promised no more. An empty disk is another matter."""
    driver = Driver.started(1, 2)
    driver.create("t", [1], min_insync_replicas="1")
    driver.lose_data(1, loss=DataLoss.TAIL)
    assert summary(driver) == (1, [1], [], [])
    assert driver.state("t").unclean_epoch == 1
    driver.lose_data(1, loss=DataLoss.ALL)
    assert summary(driver) == (-1, [], [], [1])


def test_restarts_that_lose_nothing_are_trusted_time_and_again() -> None:
    driver = three()
    for _ in range(5):
        driver.join(2)
        assert driver.alter_isr("t", 1, 2, 3).error_code == 0
    assert driver.state("t").admitted_at(2) == driver.brokers[2].broker_epoch


def test_a_state_of_an_older_release() -> None:
    driver = three()
    old = driver.state("t")
    path = znodes.state_path("t", 0)
    node = driver.nodes[path]
    data = b'{"version":1,"leader":1,"leader_epoch":0,"isr":[1,2,3],"controller_epoch":1}'
    driver.nodes[path] = replace(node, data=data, mzxid=driver.zxid)
    heir = driver.take_over()
    assert heir.state("t").isr == old.isr
    heir.lose_data(2)
    assert summary(heir) == (1, [1, 3], [], [])
    assert heir.state("t").admitted, "written anew, it has broker epochs"


# ---------------------------------------------------------------- who lacks records


def test_a_member_that_the_leader_found_incomplete_is_not_eligible() -> None:
    driver = three()
    driver.alter_isr("t", 1, 2)
    assert driver.alter_isr("t", 1, incomplete=[2]).error_code == 0
    assert summary(driver) == (1, [1], [], [])


def test_an_eligible_replica_found_incomplete_loses_that() -> None:
    driver = last_standing()
    assert summary(driver) == (1, [1], [3], [])
    result = driver.alter_isr("t", 1, incomplete=[3])
    assert (result.error_code, result.elr) == (0, [])
    driver.writes.clear()
    assert driver.alter_isr("t", 1, incomplete=[3]).error_code == 0
    assert not driver.writes, "it is so already"


def test_a_damaged_replica_that_follows_again_is_not_eligible() -> None:
    driver = Driver.started(1, 2, 3, auto_ack=False)
    driver.create("t", [1, 2, 3], min_insync_replicas="2")
    driver.alter_isr("t", 1, 2)
    driver.handle(driver.answer(1, orders_to(driver, 1)[-1], StorageError.code))
    assert summary(driver) == (2, [2], [1], [])
    driver.handle(driver.answer(1, orders_to(driver, 1)[-1]))
    assert summary(driver) == (2, [2], [], []), "it has dropped its log to fetch it again"
    assert driver.alter_isr("t", 1, 2).error_code == 0


def test_a_failed_directory_keeps_its_replica_eligible() -> None:
    driver = Driver.started(1, 2, 3, auto_ack=False)
    driver.create("t", [1, 2, 3], min_insync_replicas="2")
    driver.alter_isr("t", 1, 2)
    driver.handle(driver.answer(1, orders_to(driver, 1)[-1], StorageError.code))
    driver.lose(2)
    assert summary(driver) == (-1, [2], [1], [])
    driver.join(1)
    assert summary(driver) == (1, [1], [2], []), "its directory works again, and lost nothing"


# ---------------------------------------------------------------- min.insync.replicas


def test_a_lower_min_isr_ends_the_elr_before_anybody_hears_of_it() -> None:
    driver = last_standing()
    driver.writes.clear()
    driver.requests.clear()
    alter(driver, min_insync_replicas="1")
    assert summary(driver) == (1, [1], [], [])
    written = [[op.path for op in ops if isinstance(op, SetData)] for ops in driver.writes]
    assert written == [[znodes.state_path("t", 0)], [znodes.config_path("t")]]
    order = orders_to(driver, 1)[0].partitions[0]
    assert (order.leader_epoch, order.elr) == (1, [])


def test_a_lower_min_isr_whose_first_write_failed() -> None:
    driver = last_standing()
    driver.disconnect_once(applied=False)
    wish = admin.ConfigAlteration(
        admin.RESOURCE_TOPIC, "t", [admin.ConfigEntry("min_insync_replicas", "1")]
    )
    driver.ask_later(admin.AlterConfigsRequest([wish]))
    assert driver.lost_track
    driver.load()
    assert summary(driver) == (1, [1], [], [])
    assert driver.partition("t").min_isr == 1


def test_a_higher_min_isr_makes_nobody_eligible() -> None:
    driver = three()
    driver.alter_isr("t", 1, 2)
    alter(driver, min_insync_replicas="3")
    assert summary(driver) == (1, [1, 2], [], []), "3 left while the high watermark went on"
    driver.alter_isr("t", 1)
    assert summary(driver) == (1, [1], [2], [])


def test_a_controller_with_another_default_ends_the_elr_when_it_loads() -> None:
    driver = Driver.started(1, 2, 3)
    driver.config = replace(driver.config, topic_defaults={"min_insync_replicas": "2"})
    driver = driver.take_over()
    driver.create("t", [1, 2, 3])
    driver.alter_isr("t", 1, 2)
    driver.alter_isr("t", 1)
    assert summary(driver) == (1, [1], [2], [])
    driver.config = replace(driver.config, topic_defaults={})
    heir = driver.take_over()
    assert summary(heir) == (1, [1], [], [])


# ---------------------------------------------------------------- states that may not exist


def break_partition(driver: Driver, partition: int, **changes: Any) -> PartitionState:
    """Memory is not as it must be: what is written next would not be, either."""
    known = driver.partition("t", partition)
    assert known.state is not None
    known.state = replace(known.state, **changes)
    return known.state


def test_a_broken_partition_is_left_alone_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], [1, 2, 3])
    stored = driver.state("t", 0)
    break_partition(driver, 0, controller_epoch=7)
    driver._check = lambda: None  # type: ignore[method-assign]
    with caplog.at_level(logging.CRITICAL):
        driver.suspect(1)
    assert driver.state("t", 0) == stored, "nothing was written"
    assert driver.partition("t", 0).halted
    assert "controller epoch below 7" in caplog.text
    assert driver.machine._core.stats.assertions_failed == 1
    assert driver.machine._core.stats.leader_changes == 1, "of the other one"
    assert driver.state("t", 1).leader in (2, 3)
    assert driver.resigned is None
    caplog.clear()
    driver.clear(1)
    driver.lose(3)
    assert not [r for r in caplog.records if r.levelno == logging.CRITICAL], "said once"
    driver.load()
    assert not driver.partition("t", 0).halted
    assert set(driver.state("t", 0).isr) <= {1, 2}


def test_an_isr_change_that_would_break_an_invariant_is_refused() -> None:
    driver = three()
    driver._check = lambda: None  # type: ignore[method-assign]
    state = break_partition(driver, 0, controller_epoch=7)
    result = driver.alter_isr("t", 1, 2, partition_epoch=state.version)
    assert ERRORS[result.error_code].name == "OPERATION_NOT_ATTEMPTED"
    assert driver.state("t").isr == (1, 2, 3)
