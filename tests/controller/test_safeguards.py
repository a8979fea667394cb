"""Each switch of the controller is turned: what it guards is lost then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from oncelog_controller import znodes
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.state import DataLoss
from oncelog_controller.store import Op, SetData, StoreDisconnectedError, StoreError
from oncelog_protocol.errors import ERRORS, NO_ERROR
from oncelog_protocol.messages import admin
from oncelog_protocol.messages.moves import (
    AlterPartitionReassignmentsRequest,
    ReassignedPartition,
)
from oncelog_protocol.messages.replication import (
    ControlledShutdownRequest,
    IsrMember,
    StopReplicaRequest,
)
from support.controller_driver import Driver
from support.safeguards import decisions, left_out
from unsafe.controller import UNSAFE, without


def started(*broker_ids: int, **on: bool) -> Driver:
    off = [name for name, is_on in on.items() if not is_on]
    return Driver.started(*broker_ids, safeguards=without(off[0]) if off else SAFE)


def name_of(code: int) -> str:
    return "NONE" if code == NO_ERROR else ERRORS[code].name


# ---------------------------------------------------------------- trust_only_complete_replicas


@pytest.mark.parametrize("trusting", [False, True], ids=["safe", "trusting"])
def test_a_replica_that_lost_its_data_leads_if_it_is_trusted(trusting: bool) -> None:
    """KIP-966: 2 has left the ISR and is complete; 1 goes on alone, and loses its tail."""
    driver = started(1, 2, trust_only_complete_replicas=not trusting)
    driver.create("t", [1, 2], min_insync_replicas="2")
    driver.alter_isr("t", 1)
    driver.lose_data(1, loss=DataLoss.TAIL)
    state = driver.state("t")
    assert state.unclean_epoch == -1
    if trusting:
        assert state.leader == 1, "2 is about to cut to what 1 has left: committed records go"
    else:
        assert (state.leader, state.last_known_elr) == (2, (1,))


@pytest.mark.parametrize("trusting", [False, True], ids=["safe", "trusting"])
def test_an_empty_disk_is_the_last_of_the_isr_if_it_is_trusted(trusting: bool) -> None:
    driver = started(1, 2, 3, trust_only_complete_replicas=not trusting)
    driver.create("t", [1, 2, 3])
    for broker_id in (1, 2, 3):
        driver.register(broker_id)
    driver.lose_data(2)  # all restarted, one of them with nothing
    driver.suspect(1)
    driver.suspect(3)
    assert (2 in driver.state("t").isr) is trusting
    assert (driver.state("t").leader == 2) is trusting


# ---------------------------------------------------------------- check_broker_epochs


@pytest.mark.parametrize("checked", [True, False])
def test_what_was_true_of_an_earlier_life_lets_an_empty_disk_in(checked: bool) -> None:
    """[K22]: the leader has seen 2 caught up; before its wish arrives, 2 is wiped and registers."""
    driver = started(1, 2, check_broker_epochs=checked)
    driver.create("t", [1, 2])
    driver.alter_isr("t", 1)
    wish = [IsrMember(1, -1), IsrMember(2, driver.brokers[2].broker_epoch)]
    driver.lose_data(2)
    result = driver.alter_isr("t", 1, isr=wish)
    driver.lose(1)
    if checked:
        assert name_of(result.error_code) == "INELIGIBLE_REPLICA"
        assert driver.state("t").leader == -1
    else:
        assert (driver.state("t").leader, driver.state("t").unclean_epoch) == (2, -1)


@pytest.mark.parametrize("checked", [True, False])
def test_a_member_without_an_epoch_proves_nothing(checked: bool) -> None:
    driver = started(1, 2, check_broker_epochs=checked)
    driver.create("t", [1, 2])
    driver.alter_isr("t", 1)
    wish = [IsrMember(1, -1), IsrMember(2, -1)]
    result = driver.alter_isr("t", 1, isr=wish)
    assert name_of(result.error_code) == ("INELIGIBLE_REPLICA" if checked else "NONE")


@pytest.mark.parametrize("checked", [True, False])
def test_an_earlier_life_shuts_the_present_one_out(checked: bool) -> None:
    """[K21]: a ControlledShutdown that was late takes the ISR from a broker that is back."""
    driver = started(1, 2, check_broker_epochs=checked)
    driver.create("t", [1, 2])
    late = ControlledShutdownRequest(1, driver.brokers[1].broker_epoch)
    driver.join(1)
    assert driver.alter_isr("t", 1, 2).error_code == 0
    driver.pass_time(2)
    assert driver.state("t").leader == 1
    response = driver.ask(late)
    if checked:
        assert name_of(response.error_code) == "STALE_BROKER_EPOCH"
        assert driver.state("t").isr == (1, 2)
    else:
        assert driver.state("t").isr == (2,)


def test_an_epoch_that_the_controller_has_yet_to_hear_of_is_no_stale_one() -> None:
    """KAFKA-9839, the other way round: the broker knows its registration first."""
    driver = started(1, 2)
    driver.create("t", [1, 2])
    driver.register(1)
    response = driver.ask(ControlledShutdownRequest(1, driver.brokers[1].broker_epoch))
    assert name_of(response.error_code) == "NOT_CONTROLLER", "it may ask again"
    assert driver.state("t").isr == (1, 2)


# ---------------------------------------------------------------- check_controller_epoch


def zombie_and_heir(checked: bool) -> tuple[Driver, Driver]:
    """Return a paused controller with a topic in memory, and its successor, over one store."""
    zombie = started(1, 2, check_controller_epoch=checked)
    zombie.create("t", [1, 2])
    return zombie, zombie.take_over()


def wake(zombie: Driver, heir: Driver) -> None:
    zombie.nodes, zombie.brokers, zombie.zxid = heir.nodes, heir.brokers, heir.zxid + 1
    zombie._check = lambda: None  # type: ignore[method-assign]


@pytest.mark.parametrize("checked", [True, False])
def test_a_controller_that_was_paused_deletes_what_its_successor_made(checked: bool) -> None:
    zombie, heir = zombie_and_heir(checked)
    heir.ask(admin.DeleteTopicsRequest(["t"], 1000))
    made: Any = heir.create("t", [1, 2])
    assert made.error_code == 0
    wake(zombie, heir)
    zombie.ask(admin.DeleteTopicsRequest(["t"], 1000))
    assert (znodes.state_path("t", 0) in zombie.nodes) is checked
    assert (zombie.resigned is not None) is checked


@pytest.mark.parametrize("checked", [True, False])
def test_a_controller_that_was_paused_elects_beside_its_successor(checked: bool) -> None:
    """[I12]: two controllers' writes in one store, and the newer one does not know."""
    zombie, heir = zombie_and_heir(checked)
    wake(zombie, heir)
    zombie.suspect(1)
    stored = zombie.state("t")
    assert (stored == heir.partition("t").state) is checked
    assert stored.controller_epoch == 1


# ---------------------------------------------------------------- moves


def move(driver: Driver, *target: int) -> None:
    item = ReassignedPartition("t", 0, list(target))
    driver.ask(AlterPartitionReassignmentsRequest([item], allow_replication_factor_change=True))


@pytest.mark.parametrize("needed", [True, False])
def test_a_move_that_waits_for_nobody_ends_before_it_has_copied(needed: bool) -> None:
    """[M5]: from one replica to three, and one of the two is there."""
    driver = started(1, 2, 3, finish_needs_added=needed)
    driver.create("t", [1])
    move(driver, 1, 2, 3)
    assert bool(driver.partition("t").placement.origin) is needed


@pytest.mark.parametrize("kept", [True, False])
def test_a_smaller_factor_beside_a_lagging_member_leaves_one_alone(kept: bool) -> None:
    driver = started(1, 2, 3, finish_keeps_redundancy=kept)
    driver.create("t", [1, 2, 3])
    driver.alter_isr("t", 1, 2)
    move(driver, 1, 3)
    assert driver.state("t").isr == ((1, 2) if kept else (1,))


@pytest.mark.parametrize("counted", [True, False])
def test_a_member_that_is_believed_dead_leads_after_the_end(counted: bool) -> None:
    """[M5]: 2 stays in the ISR, as writes need two, though it refuses connections."""
    driver = started(1, 2, 3, finish_counts_sound=counted)
    driver.create("t", [1, 2], min_insync_replicas="2")
    driver.suspect(2)
    move(driver, 2, 3)
    driver.alter_isr("t", 1, 2, 3)
    assert bool(driver.partition("t").placement.origin) is counted
    assert (driver.state("t").leader == 2) is not counted


@pytest.mark.parametrize("kept", [True, False])
def test_a_member_that_lags_is_in_sync_after_the_end(kept: bool) -> None:
    """[M6]: 2 is wanted, and lacks what is committed."""
    driver = started(1, 2, 3, finish_keeps_isr=kept)
    driver.create("t", [1, 2, 3])
    driver.alter_isr("t", 1, 3)
    move(driver, 1, 3, 2)
    assert driver.state("t").isr == ((1, 3) if kept else (1, 3, 2))


@pytest.mark.parametrize("bumped", [True, False])
def test_a_move_in_the_epoch_that_was_there_before_never_begins(bumped: bool) -> None:
    """[M2]: the controller sees that the state may not exist, and leaves the partition alone."""
    driver = started(1, 2, moves_bump_epoch=bumped)
    driver.create("t", [1])
    epoch = driver.state("t").leader_epoch
    driver._check = lambda: None  # type: ignore[method-assign]
    move(driver, 1, 2)
    assert driver.state("t").leader_epoch - epoch == bumped
    assert driver.partition("t").halted is not bumped


@pytest.mark.parametrize("waits", [True, False])
def test_what_is_deleted_before_the_write_was_needed(waits: bool) -> None:
    """[M7]: the write is lost with the controller, and 2 was in the ISR with what is gone."""
    driver = started(1, 2, delete_after_write=waits)
    driver.create("t", [1, 2])
    driver.auto_ack = False
    driver.requests.clear()

    def lost(ops: Sequence[Op]) -> tuple[StoreError, bool] | None:
        end = any(b'"leaving":[2]' in op.data for op in ops if isinstance(op, SetData))
        return (StoreDisconnectedError(), False) if end else None

    driver.fail_write = lost
    move(driver, 1)
    assert driver.state("t").isr == (1, 2)
    stopped = [b for b, request in driver.requests if isinstance(request, StopReplicaRequest)]
    assert stopped == ([] if waits else [2])


@pytest.mark.parametrize("remembered", [True, False])
def test_who_is_away_and_not_remembered_keeps_its_data_for_ever(remembered: bool) -> None:
    """[M8]: there is a stray log when it comes back."""
    driver = started(1, 2, remember_leaving=remembered)
    driver.create("t", [1, 2])
    driver.lose(2)
    move(driver, 1)
    driver.requests.clear()
    driver.join(2)
    stops = [b for b, request in driver.requests if isinstance(request, StopReplicaRequest)]
    assert stops == ([2] if remembered else [])


def test_every_rule_can_be_left_out() -> None:
    assert left_out(UNSAFE.values()) == decisions(ControllerSafeguards)
