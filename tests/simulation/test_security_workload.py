"""Users of a secured run may do what the warden says, from when it is acknowledged on."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.history_events import HistoryEvent
from oncelog_protocol.acls import READ, WRITE
from oncelog_runtime.entropy import SeededEntropy
from simulation import security_workload
from simulation.cluster import SimCluster
from simulation.knobs import Knobs
from simulation.loop import until
from simulation.play import play_cluster
from simulation.rights import PASSWORD
from simulation.security_workload import SecurityWorkload
from simulation.workload import TOPIC, Workload
from unsafe.security import without

KNOBS = Knobs(partitions=2, clients=1, secured=True, security_stale_max_ms=1000)


class Scene:
    """It has the users of a calm cluster at work."""

    def __init__(self, cluster: SimCluster) -> None:
        self.events: list[HistoryEvent] = []
        entropy = SeededEntropy("rights")
        places = Workload(cluster, entropy, self.events.append).partitions_of(TOPIC)
        self.workload = SecurityWorkload(cluster, entropy, self.events.append, places)
        self.workload.start()

    def refused(self, user: str) -> set[str]:
        """Return what a user was refused for."""
        refusals = self.workload.rights.refusals
        return {each.right for each in refusals if each.process.startswith(f"{user}.")}

    def sent(self, holder: str) -> int:
        """Count the sends of a holder that were acknowledged."""
        return sum(
            event.process.startswith(f"{holder}.") and (event.f, event.type) == ("send", "ok")
            for event in self.events
        )


def test_subjects_work_and_a_guest_is_refused() -> None:
    async def scene(cluster: SimCluster) -> None:
        played = Scene(cluster)
        await asyncio.sleep(4)
        await played.workload.restore(timeout_s=30)
        assert played.refused("ann") == played.refused("bob") == set()
        assert played.refused("eve") == set(), "to whom may do nothing the topic is not there"
        assert played.sent("ann.1") > 0
        assert played.sent("eve.1") == 0
        await played.workload.stop(timeout_s=30)
        assert played.workload.failures == []

    play_cluster(scene, KNOBS)


def test_what_is_taken_is_refused_and_what_is_given_back_is_not() -> None:
    async def scene(cluster: SimCluster) -> None:
        played = Scene(cluster)
        workload = played.workload
        await workload.change_right("ann", WRITE, granted=False)
        await workload.change_right("bob", READ, granted=False, by_deny=True)
        (taken,) = [each for each in workload.rights.changes if each.asked_s and each.who == "ann"]
        assert taken.acked_s is not None
        assert taken.force_by_s == taken.acked_s + 1.0, "every broker knew it"
        await asyncio.sleep(3)
        assert played.refused("ann") == {WRITE}
        assert played.refused("bob") == {READ}
        await workload.restore(timeout_s=30)
        assert workload.allowed["ann", WRITE]
        assert workload.allowed["bob", READ]
        await workload.stop(timeout_s=30)

    play_cluster(scene, KNOBS)


def test_a_user_that_was_deleted_is_another_holder_afterwards() -> None:
    async def scene(cluster: SimCluster) -> None:
        played = Scene(cluster)
        workload = played.workload
        await workload.delete_user("ann")
        await workload.change_password("bob")
        assert (workload.holder("ann"), workload.holder("bob")) == ("ann.1", "bob.2")
        await asyncio.sleep(3)
        assert PASSWORD in played.refused("ann")
        await workload.restore(timeout_s=30)
        assert workload.holder("ann") == "ann.2"
        assert played.sent("ann.2") > 0
        assert played.sent("bob.2") > 0
        await workload.stop(timeout_s=30)

    play_cluster(scene, KNOBS)


def test_a_change_that_nobody_acknowledges_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lack of ``security.newer_version_only`` found it: such a run had no end."""
    monkeypatch.setattr(security_workload, "CHANGED_WITHIN_S", 2.0)

    async def scene(cluster: SimCluster) -> None:
        played = Scene(cluster)
        for broker in cluster.brokers.values():
            broker.dispatcher.suspend_clients(True)
        with pytest.raises(TimeoutError, match="no change of rights within 2 s"):
            await played.workload.change_right("ann", WRITE, granted=False)
        for broker in cluster.brokers.values():
            broker.dispatcher.suspend_clients(False)
        await played.workload.stop(timeout_s=30)

    play_cluster(scene, KNOBS)


def test_nobody_is_there_where_nothing_is_secured() -> None:
    async def scene(cluster: SimCluster) -> None:
        played = Scene(cluster)
        await played.workload.restore(timeout_s=1)
        await played.workload.stop(timeout_s=1)
        assert played.workload.subjects == []
        assert played.events == []

    play_cluster(scene, Knobs())


def test_knobs_are_forced_by_a_text() -> None:
    assert Knobs.read("secured=1,groups=0 latency_s=0.5") == {
        "secured": True,
        "groups": 0,
        "latency_s": 0.5,
    }
    drawn = Knobs.draw(SeededEntropy(3), {"secured": True, "brokers": 4})
    assert (drawn.secured, drawn.brokers) == (True, 4)
    with pytest.raises(ValueError, match="secure is no knob"):
        Knobs.read("secure=1")


def controllers_follower(cluster: SimCluster) -> int:
    """Return a broker that is not the controller."""
    return next(b for b in cluster.ids if not cluster.brokers[b].runner.is_active)


@pytest.mark.ablation("stop_when_stale")
def test_a_broker_that_hears_nobody_refuses_clients_though_connections_stand() -> None:
    """The simulator's fault ``isolate_from_security`` found it: packets were lost, no connection
    broke, and a broker served by what was revoked for as long as one looked."""

    async def scene(cluster: SimCluster) -> None:
        lost = controllers_follower(cluster)
        watch = cluster.brokers[lost].security_watch
        others = [cluster.host(b) for b in cluster.ids if b != lost]
        cluster.cut_from_zookeeper(lost)
        await asyncio.sleep(5)
        assert not watch.refusal, "the controller would tell"
        cluster.network.part([cluster.host(lost)], others)
        await until(lambda: bool(watch.refusal), timeout_s=6, what="clients refused")
        assert cluster.brokers[lost].dispatcher.suspended
        for other in others:
            cluster.network.release(cluster.host(lost), other)
            cluster.network.release(other, cluster.host(lost))
        cluster.join_zookeeper(lost)
        await until(lambda: not watch.refusal, timeout_s=30, what="clients served")

    play_cluster(scene, KNOBS)


@pytest.mark.ablation("stop_when_stale")
def test_a_broker_that_hears_nobody_serves_on_without_the_rule() -> None:
    """Its clients may do for ever what was taken from them meanwhile."""

    async def scene(cluster: SimCluster) -> None:
        lost = controllers_follower(cluster)
        cluster.cut_from_zookeeper(lost)
        cluster.network.part(
            [cluster.host(lost)], [cluster.host(b) for b in cluster.ids if b != lost]
        )
        await asyncio.sleep(20)
        assert cluster.brokers[lost].security_watch.refusal
        assert not cluster.brokers[lost].dispatcher.suspended

    rule_left_out = {"security_safeguards": without("stop_when_stale")}
    play_cluster(scene, KNOBS, safeguards=rule_left_out)
