"""The machine as a whole: brokers come and go, suspicion, orders, loading, lost writes."""

from __future__ import annotations

import pytest

from oncelog_controller import znodes
from oncelog_controller.events import (
    BrokerCleared,
    BrokerSuspected,
    TimeReached,
)
from oncelog_controller.machine import EventOutOfTurnError
from oncelog_controller.store import SessionExpiredError
from oncelog_controller.transitions import PartitionPhase
from oncelog_protocol.errors import (
    RequestTimedOutError,
)
from oncelog_protocol.messages import admin, replication
from oncelog_protocol.messages.replication import LeaderAndIsrRequest, UpdateMetadataRequest
from oncelog_protocol.types import TopicPartition
from support.controller_driver import Driver, registration, summary
from support.room_settings import controller_settings

# ---------------------------------------------------------------- brokers come and go


def test_a_new_controller_tells_every_broker_everything() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    heir = driver.take_over()
    full = [
        (broker_id, type(r).__name__) for broker_id, r in heir.requests if getattr(r, "full", False)
    ]
    assert full == [
        (broker_id, name)
        for broker_id in (1, 2, 3)
        for name in ("LeaderAndIsrRequest", "UpdateMetadataRequest")
    ]
    orders = [r for _, r in heir.requests if isinstance(r, LeaderAndIsrRequest)]
    assert all(r.controller_epoch == 2 for r in orders)
    assert [r.broker_epoch for r in orders] == [heir.brokers[b].broker_epoch for b in (1, 2, 3)]
    assert [[p.topic for p in r.partitions] for r in orders] == [["t"]] * 3
    assert len(heir.requests) == 6


def test_a_lost_leader_is_replaced_from_the_isr_and_leaves_it() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.lose(1)
    assert summary(driver) == (2, 1, [2, 3])
    order = driver.orders[-1][2].replicas
    assert order is not None
    assert order[TopicPartition("t", 0)].leader == 2


def test_a_lost_follower_leaves_the_isr_in_a_new_epoch() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.lose(3)
    assert summary(driver) == (1, 1, [1, 2])


def test_the_last_isr_member_stays_and_nobody_leads() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    driver.lose(1)
    driver.lose(2)
    assert summary(driver) == (-1, 2, [2])
    assert driver.partition("t").phase is PartitionPhase.OFFLINE
    driver.join(1)
    assert summary(driver) == (-1, 2, [2]), "only an ISR member may lead"
    driver.join(2)
    assert summary(driver) == (2, 3, [2])


def test_all_lost_at_once_all_stay_in_the_isr() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [2, 3])
    driver.lose(2, 3)
    assert summary(driver) == (-1, 1, [2, 3])
    driver.join(3)
    assert driver.state("t").leader == 3


def test_a_restart_between_two_reads_is_a_bounce() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.requests.clear()
    driver.join(1)  # a new epoch under the same id
    assert summary(driver) == (2, 1, [2, 3])
    full = [b for b, r in driver.requests if isinstance(r, LeaderAndIsrRequest) and r.full]
    assert full == [1]


def test_a_bounced_sole_member_leads_again_in_a_new_epoch() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1])
    driver.join(1)
    assert summary(driver) == (1, 1, [1])


def test_a_joining_broker_is_told_everything_the_others_only_of_it() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.requests.clear()
    driver.join(3)
    told = {b: r for b, r in driver.requests if isinstance(r, UpdateMetadataRequest)}
    assert sorted(told) == [1, 2, 3]
    assert told[3].full
    assert [p.topic for p in told[3].partitions] == ["t"]
    assert not told[1].full
    assert told[1].partitions == []
    assert [b.broker_id for b in told[1].live_brokers] == [1, 2, 3]
    assert [b for b, r in driver.requests if isinstance(r, LeaderAndIsrRequest)] == [3]


def test_nothing_changes_when_the_brokers_are_the_same() -> None:
    driver = Driver.started(1, 2)
    before = len(driver.requests)
    driver.read_brokers()
    assert len(driver.requests) == before


def test_a_partition_whose_brokers_were_all_away_gets_its_first_leader_when_one_comes() -> None:
    driver = Driver.started(1, 2)
    assert driver.create("t", [1, 2]).error_code == 0
    half_made = driver.take_over()
    del half_made.nodes[znodes.state_path("t", 0)]
    del half_made.nodes[znodes.partition_path("t", 0)]
    half_made.brokers.clear()
    heir = half_made.take_over()
    assert heir.partition("t").phase is PartitionPhase.NEW
    heir.join(2)
    assert summary(heir) == (2, 0, [2])


# ---------------------------------------------------------------- suspicion


def test_a_suspected_leader_loses_leadership_at_once() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.suspect(1)
    assert summary(driver) == (2, 1, [2, 3])
    assert sorted(driver.machine.cluster.brokers) == [1, 2, 3], "membership stays with the session"


def test_a_suspected_follower_leaves_the_isr_so_that_commits_go_on() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3], min_insync_replicas="2")
    driver.suspect(3)
    assert summary(driver) == (1, 1, [1, 2])


def test_suspicion_never_takes_an_isr_below_min_isr() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2], min_insync_replicas="2")
    driver.suspect(2)
    assert summary(driver) == (1, 0, [1, 2])
    driver.clear(2)
    driver.suspect(1)
    assert summary(driver) == (2, 1, [1, 2])


def test_a_suspect_that_alone_could_lead_is_left_alone() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1])
    driver.suspect(1)
    assert summary(driver) == (1, 0, [1])
    driver.clear(1)
    assert summary(driver) == (1, 0, [1])


def test_a_cleared_suspect_gets_its_share_back_when_it_has_caught_up() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.suspect(1)
    driver.clear(1)
    driver.pass_time(5)
    assert driver.state("t").leader == 2, "not before it is in the ISR"
    assert driver.alter_isr("t", 1, 2, 3).error_code == 0
    driver.pass_time(0.5)
    assert driver.state("t").leader == 2
    driver.pass_time(0.6)
    assert summary(driver) == (1, 2, [1, 2, 3])


def test_evidence_about_an_earlier_life_is_ignored() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    old = driver.brokers[1].broker_epoch
    driver.join(1)
    before = summary(driver)
    driver.handle(BrokerSuspected(1, old))
    driver.handle(BrokerCleared(1, old))
    driver.handle(BrokerSuspected(9, 1))
    assert summary(driver) == before
    assert not driver.machine.cluster.suspected


def test_an_offline_partition_is_led_again_when_its_suspect_is_cleared() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.suspect(1)
    driver.lose(2)
    assert driver.state("t").leader == -1
    driver.join(2)
    assert driver.state("t").leader == 2


def test_both_suspected_then_one_cleared() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    driver.suspect(2)
    assert summary(driver) == (1, 1, [1])
    driver.suspect(1)
    assert summary(driver) == (1, 1, [1]), "nobody else can lead: nothing is written"


def test_a_controller_may_be_elected_knowing_suspects() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.load(frozenset({(1, driver.brokers[1].broker_epoch), (2, 7)}))
    assert driver.machine.cluster.suspected == {1}
    assert driver.state("t").leader == 2


def test_a_dead_brokers_share_spreads_over_the_others() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", *[[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 4)
    driver.suspect(1)
    leaders = [driver.state("t", p).leader for p in range(12)]
    assert {leader: leaders.count(leader) for leader in (2, 3)} == {2: 6, 3: 6}


# ---------------------------------------------------------------- many partitions


@pytest.mark.slow
def test_two_thousand_partitions_fail_over_in_batches() -> None:
    driver = Driver.started(1, 2, 3)
    response = driver.ask(admin.CreateTopicsRequest([admin.CreatableTopic("t", 2000, 3)], 1000))
    assert response.topics[0].error_code == 0
    driver.writes.clear()
    driver.requests.clear()
    driver.suspect(1)
    assert len(driver.writes) == -(-2000 // 128)
    assert all(driver.state("t", p).leader in (2, 3) for p in range(0, 2000, 97))


# ---------------------------------------------------------------- preferred leaders


def test_preferred_leaders_come_back_soon_after_a_broker_is_in_sync() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.lose(1)
    driver.join(1)
    driver.alter_isr("t", 1, 2, 3)
    driver.pass_time(1.1)
    assert driver.state("t").leader == 1


def test_no_rebalance_when_switched_off() -> None:
    config = controller_settings(auto_leader_rebalance_enable=False)
    driver = Driver.started(1, 2, config=config)
    driver.create("t", [1, 2])
    driver.lose(1)
    driver.join(1)
    driver.alter_isr("t", 1, 2)
    driver.pass_time(1000)
    assert driver.state("t").leader == 2


def test_the_periodic_check_finds_what_was_missed() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.pass_time(2)
    partition = driver.partition("t")
    assert partition.state is not None
    driver.suspect(1)
    driver.clear(1)
    driver.pass_time(2)  # the quick check finds broker 1 out of sync
    driver.machine._leadership.plan_rebalance = lambda: None  # type: ignore[method-assign]
    driver.alter_isr("t", 1, 2)
    driver.pass_time(301)
    assert driver.state("t").leader == 1


# ---------------------------------------------------------------- loading


def test_a_leader_that_restarted_unseen_gets_a_new_epoch_or_a_successor() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2])
    driver.create("u", [1])
    driver.zxid += 10
    driver.brokers[1] = registration(1, driver.zxid)  # restarted; no controller saw it
    heir = driver.take_over()
    assert summary(heir, "t") == (2, 1, [2])
    assert summary(heir, "u") == (1, 1, [1])


def test_all_restarted_unseen_keep_their_isr() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    for broker_id in (1, 2):
        driver.zxid += 10
        driver.brokers[broker_id] = registration(broker_id, driver.zxid)
    heir = driver.take_over()
    assert summary(heir) == (1, 1, [1, 2])


def test_loading_twice_changes_nothing() -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    before = dict(driver.nodes)
    heir = driver.take_over()
    again = heir.take_over()
    del before[znodes.CONTROLLER_EPOCH]
    assert all(again.nodes[path].data == node.data for path, node in before.items())


def test_settings_in_the_store_that_are_not_valid_are_ignored() -> None:
    driver = Driver.started(1)
    driver.create("t", [1], retention_ms="5")
    driver.nodes[znodes.config_path("t")].data = znodes.encode_config({"retention_ms": "soon"})
    heir = driver.take_over()
    assert heir.partition("t").topic.settings.retention_ms == 604_800_000


# ---------------------------------------------------------------- writes that fail


def test_a_fenced_write_ends_the_term() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.nodes[znodes.CONTROLLER_EPOCH].version += 1
    driver.suspect(1)
    assert driver.resigned is not None
    assert driver.state("t").leader == 1
    assert driver.partition("t").leader == 1


def test_an_expired_session_ends_the_term() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.fail_write = lambda ops: (SessionExpiredError(), False)
    driver.suspect(1)
    assert driver.resigned is not None


@pytest.mark.parametrize("applied", [True, False])
def test_an_unclear_write_is_read_again(applied: bool) -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.disconnect_once(applied=applied)
    driver.suspect(1)
    assert driver.reloads == 1
    with pytest.raises(EventOutOfTurnError):
        driver.machine.handle(TimeReached(), driver.now)
    driver.load()
    assert summary(driver) == (2, 1, [2])
    assert driver.machine.cluster.suspected == {1}, "what was found out is kept"


@pytest.mark.parametrize("applied", [True, False])
def test_alter_partition_tells_its_outcome_after_an_unclear_write(applied: bool) -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.disconnect_once(applied=applied)
    assert driver.alter_isr("t", 1, 2) is None
    driver.load()
    (response,) = list(driver.replies.values())[-1:]
    assert response.partitions[0].error_code == 0
    assert response.partitions[0].isr == [1, 2]
    assert response.partitions[0].partition_epoch == 1
    assert list(driver.state("t").isr) == [1, 2]


@pytest.mark.parametrize("applied", [True, False])
def test_a_shutdown_and_a_change_of_settings_are_repeated_too(applied: bool) -> None:
    driver = Driver.started(1, 2, 3)
    driver.create("t", [1, 2, 3])
    driver.disconnect_once(applied=applied)
    epoch = driver.brokers[1].broker_epoch
    stop = driver.ask_later(replication.ControlledShutdownRequest(1, epoch))
    driver.load()
    assert (driver.replies[stop].error_code, driver.replies[stop].remaining) == (0, 0)
    assert 1 not in driver.state("t").isr
    driver.disconnect_once(applied=applied)
    entry = admin.ConfigEntry("retention_ms", "7")
    wish = admin.ConfigAlteration(admin.RESOURCE_TOPIC, "t", [entry])
    change = driver.ask_later(admin.AlterConfigsRequest([wish]))
    driver.load()
    assert driver.replies[change].resources[0].error_code == 0
    assert driver.partition("t").topic.settings.retention_ms == 7


def test_other_requests_say_that_their_outcome_is_not_known() -> None:
    driver = Driver.started(1)
    driver.disconnect_once(applied=True)
    assert driver.create("t", [1]) is None
    driver.load()
    (response,) = driver.replies.values()
    assert response.topics[0].error_code == RequestTimedOutError.code
    assert driver.state("t").leader == 1


def test_a_state_changed_by_somebody_else_is_read_again() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    driver.nodes[znodes.state_path("t", 0)].version += 5
    driver.suspect(1)
    assert driver.reloads == 1
    assert driver.resigned is None
    driver.load()
    assert driver.state("t").leader == 2


def test_one_bad_batch_of_many_does_not_lose_the_others() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", *[[1, 2]] * 300)
    failing = driver.nodes[znodes.state_path("t", 0)]
    failing.version += 1
    driver.suspect(1)
    assert driver.state("t", 299).leader == 2
    assert driver.partition("t", 299).leader == 2
    assert driver.partition("t", 0).leader == 1
    driver.load()
    assert driver.partition("t", 0).leader == 2


def test_an_outside_event_while_writes_are_pending_is_a_bug() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    effects = driver.machine.handle(BrokerSuspected(1, driver.brokers[1].broker_epoch), 0.0)
    assert effects
    assert driver.machine.busy
    with pytest.raises(EventOutOfTurnError):
        driver.machine.handle(TimeReached(), 0.0)


def test_memory_moves_only_when_the_write_has_succeeded() -> None:
    driver = Driver.started(1, 2)
    driver.create("t", [1, 2])
    before = len(driver.requests)
    driver.machine.handle(BrokerSuspected(1, driver.brokers[1].broker_epoch), 0.0)
    assert driver.partition("t").leader == 1
    assert len(driver.requests) == before
