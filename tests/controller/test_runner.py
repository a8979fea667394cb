"""Runners have real sockets and a ZooKeeper in memory: races, failover by evidence, zombies,
expiry. Sessions here last a minute, so nothing below waits for one unless it says so."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from oncelog_controller import runner, znodes
from oncelog_controller.campaign import Campaign, Incumbent
from oncelog_controller.store import SetData, StoreError, WatchEvent
from oncelog_controller.transitions import IllegalTransitionError
from oncelog_protocol.errors import NotControllerError, RequestTimedOutError
from oncelog_protocol.messages import admin, replication
from oncelog_protocol.messages.broker_states import DRAINING, AlterBrokerStatesRequest
from oncelog_protocol.types import TopicPartition
from support.controller_cluster import ControllerCluster, Member
from support.waiting import eventually

T0 = TopicPartition("t", 0)


def others(cluster: ControllerCluster, member: Member) -> list[Member]:
    return [m for m in cluster.members.values() if m is not member]


async def catch_up(cluster: ControllerCluster, *isr: int, topic: str = "t") -> int:
    """The leader asks for this ISR until it has it; returns the error of the last answer."""
    controller = await cluster.controller()
    assert controller.runner.term is not None
    partition = controller.runner.term.machine.cluster.partition(topic, 0)
    assert partition is not None
    state = partition.state
    assert state is not None
    leader = cluster.members[state.leader].broker
    members = [
        replication.IsrMember(
            b, -1 if b == state.leader else cluster.members[b].broker.broker_epoch
        )
        for b in isr
    ]
    item = replication.AlterPartitionItem(
        topic, partition.topic.topic_id, 0, state.leader_epoch, state.version, members
    )
    request = replication.AlterPartitionRequest(leader.broker_id, leader.broker_epoch, [item])
    response = await controller.runner.handle(request)
    code: int = response.error_code or response.partitions[0].error_code
    return code


def is_no_longer_active(member: Member) -> bool:
    return not member.runner.is_active


def knows_a_leader(member: Member, leaders: list[int]) -> bool:
    return member.broker.leaders().get(T0) in leaders


# ---------------------------------------------------------------- elections


async def test_one_of_three_is_controller_and_all_know_it() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        controller = await cluster.controller()
        await eventually(
            lambda: (
                {m.runner.controller_id for m in cluster.members.values()} == {controller.broker_id}
            )
        )
        assert sum(m.runner.is_active for m in cluster.members.values()) == 1
        assert {m.runner.epoch for m in cluster.members.values()} == {1}
        await eventually(
            lambda: all(m.broker.live_brokers == [1, 2, 3] for m in cluster.members.values())
        )


async def test_who_is_not_controller_says_so() -> None:
    async with ControllerCluster(1, 2) as cluster:
        controller = await cluster.controller()
        (other,) = others(cluster, controller)
        response = await other.runner.handle(admin.DeleteTopicsRequest(["t"], 1))
        assert response.error_code == NotControllerError.code


async def test_a_clean_stop_hands_over_at_once() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        await cluster.create("t", [1, 2, 3])
        first = await cluster.controller()
        await cluster.stop(first.broker_id)
        second = await cluster.controller()
        assert second.runner.epoch == 2
        await eventually(lambda: first.broker_id not in cluster.state("t").isr)


async def test_a_controller_out_of_service_leaves_its_office_and_does_not_come_back() -> None:
    async with ControllerCluster(1, 2) as cluster:
        first = await cluster.controller()
        (second,) = others(cluster, first)
        drained = AlterBrokerStatesRequest(first.broker_id, DRAINING)
        answer = await cluster.ask(drained)
        assert (answer.error_code, answer.state) == (0, DRAINING), "it is answered before"
        assert await cluster.controller(other_than=first.broker_id) is second
        assert second.store.session_id is not None
        epoch = second.runner.epoch
        second.runner.term.resign("the test wants it")  # type: ignore[union-attr]
        await eventually(lambda: second.runner.epoch == epoch + 1)
        assert second.runner.is_active, "whoever is out of service did not run"
        await cluster.stop(second.broker_id)
        assert await cluster.controller() is first, "there is nobody else"


async def test_a_cluster_is_not_without_a_controller_because_one_stands_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "STAND_BACK_S", 0.2)
    monkeypatch.setattr(runner, "SIT_OUT_S", 0.05)
    async with ControllerCluster(1, 2) as cluster:
        first = await cluster.controller()
        (second,) = others(cluster, first)
        await second.runner.stop()  # registered, and runs for nothing
        answer = await cluster.ask(AlterBrokerStatesRequest(first.broker_id, DRAINING))
        assert answer.state == DRAINING
        await eventually(lambda: first.runner.is_active and first.runner.epoch == 2)


async def test_two_race_again_and_again_and_epochs_never_repeat() -> None:
    async with ControllerCluster(1, 2) as cluster:
        seen: list[int] = []
        for _ in range(5):
            controller = await cluster.controller()
            seen.append(controller.runner.epoch)
            assert controller.store.session_id is not None
            cluster.zookeeper.expire(controller.store.session_id)
            await eventually(partial(is_no_longer_active, controller))
        assert seen == sorted(set(seen))


@pytest.mark.parametrize("lost", ["reply", "request"])
async def test_a_lost_election_reply_elects_all_the_same(lost: str) -> None:
    async with ControllerCluster(1) as cluster:
        await cluster.controller()
        member = await cluster.start(2)
        await eventually(lambda: member.runner.controller_id == 1)
        assert member.store.session_id is not None
        elects = lambda ops: ops[0].path == znodes.CONTROLLER  # noqa: E731
        getattr(cluster.zookeeper, f"lose_{lost}")(member.store.session_id, elects)
        await cluster.stop(1)
        assert (await cluster.controller()).broker_id == 2
        assert member.runner.epoch == 2
        await cluster.create("t", [2])


# ---------------------------------------------------------------- failover by evidence


async def test_a_killed_leader_is_replaced_long_before_its_session_ends() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        controller = await cluster.controller()
        leader, *rest = [m.broker_id for m in others(cluster, controller)]
        await cluster.create("t", [leader, *rest, controller.broker_id])
        await cluster.kill(leader)
        await eventually(lambda: cluster.state("t").leader not in (-1, leader))
        state = cluster.state("t")
        assert leader not in state.isr
        successor = cluster.members[state.leader].broker
        await eventually(lambda: successor.replicas[T0].leader == state.leader)
        assert cluster.zookeeper.data(znodes.broker_path(leader)) is not None


async def test_a_killed_controller_that_leads_is_deposed_and_replaced() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        first = await cluster.controller()
        rest = [m.broker_id for m in others(cluster, first)]
        await cluster.create("t", [first.broker_id, *rest])
        await eventually(lambda: all(m.runner.controller_id > 0 for m in cluster.members.values()))
        await cluster.kill(first.broker_id)
        second = await cluster.controller()
        assert second.broker_id in rest
        await eventually(lambda: cluster.state("t").leader in rest)
        assert set(cluster.state("t").isr) == set(rest)
        for member in cluster.members.values():
            await eventually(partial(knows_a_leader, member, rest))
        assert cluster.zookeeper.data(znodes.broker_path(first.broker_id)) is not None


async def test_broken_connections_alone_depose_nobody() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        controller = await cluster.controller()
        await cluster.create("t", [1, 2, 3])
        for _ in range(3):
            for member in cluster.members.values():
                member.broker.break_connections()
            await asyncio.sleep(0.03)
        assert (await cluster.controller()) is controller
        assert controller.runner.epoch == 1
        assert cluster.state("t").leader_epoch == 0


async def test_a_false_suspicion_of_a_leader_is_harmless() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        controller = await cluster.controller()
        suspect, other = others(cluster, controller)
        await cluster.create("t", [suspect.broker_id, other.broker_id, controller.broker_id])
        await suspect.broker.die()  # its listener only: session and process live
        await eventually(lambda: cluster.state("t").leader != suspect.broker_id)
        assert await catch_up(cluster, *cluster.members) != 0, "a suspect may not join"
        await suspect.broker.start()
        assert controller.runner.term is not None
        machine = controller.runner.term.machine
        await eventually(lambda: not machine.cluster.suspected)
        await eventually(lambda: suspect.broker.replicas[T0].leader != suspect.broker_id)
        assert await catch_up(cluster, *cluster.members) == 0
        await eventually(lambda: cluster.state("t").leader == suspect.broker_id)
        assert set(cluster.state("t").isr) == {1, 2, 3}


async def test_a_false_suspicion_of_the_controller_is_harmless() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        first = await cluster.controller()
        await cluster.create("t", [first.broker_id, *[m.broker_id for m in others(cluster, first)]])
        await eventually(lambda: all(m.runner.controller_id > 0 for m in cluster.members.values()))
        await first.broker.die()
        second = await cluster.controller(other_than=first.broker_id)
        assert second.runner.epoch == 2
        await eventually(lambda: not first.runner.is_active)
        await first.broker.start()
        await eventually(lambda: first.broker.controller_epoch == 2)
        assert await catch_up(cluster, 1, 2, 3) == 0
        await eventually(lambda: cluster.state("t").leader == first.broker_id)


async def test_a_restarted_broker_is_a_bounce_and_gets_its_share_back() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        controller = await cluster.controller()
        leader = others(cluster, controller)[0].broker_id
        rest = [b for b in (1, 2, 3) if b != leader]
        await cluster.create("t", [leader, *rest])
        old = await cluster.kill(leader)
        new = await cluster.start(leader, previous_session=old.sessions[-1])
        orders = new.broker.orders
        await eventually(lambda: any(order.full for order in orders))
        # Orders to the life before may still be on their way to this address.
        epoch = next(order.broker_epoch for order in orders if order.full)
        assert next(order for order in orders if order.broker_epoch == epoch).full
        await eventually(lambda: T0 in new.broker.replicas)
        await eventually(lambda: cluster.state("t").leader in rest)
        assert await catch_up(cluster, 1, 2, 3) == 0
        await eventually(lambda: cluster.state("t").leader == leader)


async def test_a_restarted_controller_does_not_wait_for_its_old_session() -> None:
    async with ControllerCluster(1) as cluster:
        await cluster.create("t", [1])
        old = await cluster.kill(1)
        new = await cluster.start(1, previous_session=old.sessions[-1])
        await cluster.controller()
        assert new.runner.epoch == 2
        await eventually(lambda: cluster.state("t").leader_epoch == 1)
        await eventually(lambda: T0 in new.broker.replicas)


async def test_all_killed_and_started_again() -> None:
    async with ControllerCluster(1, 2, 3) as cluster:
        await cluster.create("t", [1, 2, 3])
        killed = [await cluster.kill(broker_id) for broker_id in (1, 2, 3)]
        for old in killed:
            await cluster.start(old.broker_id, previous_session=old.sessions[-1])
        await cluster.controller()
        await eventually(lambda: cluster.state("t").leader > 0)
        await eventually(lambda: all(T0 in m.broker.replicas for m in cluster.members.values()))


# ---------------------------------------------------------------- zombies and sessions


async def test_a_zombie_controller_is_fenced_by_the_store_and_by_brokers() -> None:
    async with ControllerCluster(1, 2) as cluster:
        await cluster.create("t", [1, 2])
        zombie = await cluster.controller()
        (other,) = others(cluster, zombie)
        assert zombie.store.session_id is not None
        # It is deposed while it is cut off, and has a request waiting.
        cluster.zookeeper.disconnect(zombie.store.session_id)
        asked = asyncio.get_running_loop().create_task(
            zombie.runner.handle(admin.DeleteTopicsRequest(["t"], 1000))
        )
        incumbent = await Campaign(other.store, other.broker_id).run(_ignore)
        assert isinstance(incumbent, Incumbent)
        await Campaign(other.store, other.broker_id).depose(incumbent)
        assert (await cluster.controller(other_than=zombie.broker_id)) is other
        await eventually(lambda: zombie.broker.controller_epoch == 2)
        cluster.zookeeper.reconnect(zombie.store.session_id)
        response = await asked
        assert response.error_code == NotControllerError.code
        assert cluster.zookeeper.data(znodes.topic_path("t")) is not None
        await eventually(lambda: zombie.runner.controller_id == other.broker_id)
        assert not zombie.runner.is_active


def _ignore(_: WatchEvent) -> None:
    pass


async def test_an_expired_controller_comes_back_as_a_broker() -> None:
    async with ControllerCluster(1, 2) as cluster:
        await cluster.create("t", [1, 2])
        first = await cluster.controller()
        assert first.store.session_id is not None
        before = first.lifecycle.broker_epoch
        cluster.zookeeper.expire(first.store.session_id)
        await eventually(lambda: first.lifecycle.broker_epoch > before)
        controller = await cluster.controller()
        assert controller.runner.epoch == 2
        assert controller.runner.term is not None
        machine = controller.runner.term.machine
        await eventually(lambda: sorted(machine.cluster.brokers) == [1, 2])
        await eventually(lambda: first.broker.controller_epoch == 2)


async def test_a_store_that_is_away_for_a_while() -> None:
    async with ControllerCluster(1, 2) as cluster:
        await cluster.create("t", [1, 2])
        controller = await cluster.controller()
        cluster.zookeeper.stop()
        await asyncio.sleep(0.05)
        assert controller.runner.is_active, "disconnected is not expired"
        cluster.zookeeper.start()
        await cluster.create("u", [1])
        assert controller.runner.epoch == 1


async def test_a_session_that_runs_out_takes_the_broker_away() -> None:
    async with ControllerCluster(1, 2, 3, session_timeout_ms=200) as cluster:
        controller = await cluster.controller()
        frozen, _ = others(cluster, controller)
        await cluster.create("t", [frozen.broker_id, controller.broker_id])
        frozen.store.crash()  # like SIGSTOP: the listener stands, nobody speaks
        frozen.broker.muted = True
        await eventually(lambda: cluster.state("t").leader == controller.broker_id)
        assert frozen.broker_id not in cluster.state("t").isr


async def test_without_a_registration_nobody_campaigns() -> None:
    async with ControllerCluster(1) as cluster:
        first = await cluster.controller()
        await first.lifecycle.close()
        await first.store.delete(znodes.CONTROLLER)
        await eventually(lambda: not first.runner.is_active)
        await asyncio.sleep(0.05)
        assert not first.runner.is_active
        await first.lifecycle._try()
        await cluster.controller()


def broken(event: object) -> None:
    raise IllegalTransitionError("the test says so")


async def test_requests_that_are_not_the_controllers_are_refused() -> None:
    async with ControllerCluster(1) as cluster:
        controller = await cluster.controller()
        with pytest.raises(TypeError):
            await controller.runner.handle(admin.DescribeConfigsRequest([]))
        await cluster.create("t", [1])


async def test_a_bug_ends_the_term_not_the_runner() -> None:
    async with ControllerCluster(1) as cluster:
        await cluster.create("t", [1])
        controller = await cluster.controller()
        term = controller.runner.term
        assert term is not None
        term.machine._outside = broken  # type: ignore[method-assign]
        response = await controller.runner.handle(admin.DeleteTopicsRequest(["t"], 1))
        assert response.error_code == RequestTimedOutError.code
        await eventually(lambda: controller.runner.epoch == 2, timeout_s=10)
        await cluster.create("u", [1])


async def test_writes_of_others_are_seen_as_such() -> None:
    async with ControllerCluster(1) as cluster:
        await cluster.create("t", [1])
        data = cluster.zookeeper.data(znodes.state_path("t", 0))
        assert data is not None
        with pytest.raises(StoreError):
            cluster.zookeeper.apply(SetData(znodes.state_path("t", 0), data, 99))
