"""Deleted records stay deleted, whoever leads next; and what refuses to delete any."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.log.log_starts import LogStarts
from oncelog_broker.replication.record_deletion import ALL_COMMITTED
from oncelog_broker.replication.safeguards import Safeguards
from oncelog_protocol.errors import (
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    StorageError,
)
from oncelog_runtime.entropy import SeededEntropy
from support.replicas import Replicas, topic_config
from unsafe.replication import without


async def write_down(group: Replicas, *broker_ids: int) -> None:
    """Write checkpoints at these brokers, and do what follows from them."""
    for broker_id in broker_ids:
        assert await group[broker_id].partition.log.log_dir.write_checkpoints()
    await asyncio.sleep(0)


def filled(isr: list[int] | None = None, **options: Any) -> Replicas:
    """Make three records, and commit them."""
    group = Replicas(isr=isr, **options)
    group.produce(b"a", b"b", b"c")
    group.replicate(*(broker for broker in group.isr if broker != 1))
    assert group[1].partition.high_watermark == 3
    return group


async def test_answered_when_every_disk_of_the_isr_holds_it() -> None:
    group = filled()
    deletion = group[1].partition.deletion
    answers: list[int] = []
    assert deletion.delete_below(2) == 2
    assert deletion.when_deleted(2, answers.append) is not None
    assert group[1].partition.log.log_start_offset == 2, "nobody reads below it any more"
    await write_down(group, 1)
    assert deletion.low_watermark() == 0
    for follower in (2, 3):
        group.fetch(follower)
        assert group[follower].partition.log.log_start_offset == 2
        group.fetch(follower)
        assert not answers, "in its memory is not on its disk"
        await write_down(group, follower)
        assert not answers
        group.fetch(follower)
    assert answers == [0]
    assert deletion.low_watermark() == 2
    assert [group.values(broker) for broker in (1, 2, 3)] == [[b"c"]] * 3
    assert deletion.when_deleted(deletion.delete_below(1), answers.append) is None
    assert answers == [0, 0], "what is gone is gone"


async def test_all_that_is_committed() -> None:
    group = filled()
    group.produce(b"d")  # nobody else has it yet
    deletion = group[1].partition.deletion
    assert deletion.delete_below(ALL_COMMITTED) == 3
    group.replicate()
    await write_down(group, 1, 2, 3)
    group.replicate()
    assert deletion.low_watermark() == 3
    assert group.values(2) == [b"d"]


async def test_a_follower_that_is_behind_begins_at_the_start() -> None:
    group = filled(isr=[1, 2])
    group[1].partition.deletion.delete_below(3)
    group.fetch(3)
    assert group[3].partition.log.log_start_offset == 3
    group.replicate(3)
    assert group.isr == [1, 2, 3], "its cut was marked on its disk"


def promised_without_three(safeguards: Safeguards) -> Replicas:
    """Broker 3 has all records and is not in sync, while 1 and 2 give them up."""
    group = filled(isr=[1, 2], safeguards=safeguards)
    group.fetch(3)
    group.sync(3)
    group[1].partition.deletion.delete_below(3)
    return group


async def test_who_has_deleted_records_does_not_join() -> None:
    group = promised_without_three(Safeguards())
    answers: list[int] = []
    group[1].partition.deletion.when_deleted(3, answers.append)
    group.fetch(2)
    await write_down(group, 1, 2)
    group.fetch(2)
    assert answers == [0]
    group.fetch(3, lose_answer=True)
    assert not group.settle_isr()
    group[3].connect()
    group[3].machine.add(group[3].partition)
    group.fetch(3)
    await write_down(group, 3)
    group.fetch(3)
    assert group.settle_isr()
    assert group.isr == [1, 2, 3]
    group.elect(3, isr=[3])
    assert group.values(3) == []


async def test_without_that_rule_deleted_records_come_back() -> None:
    group = promised_without_three(without("join_at_log_start"))
    answers: list[int] = []
    group[1].partition.deletion.when_deleted(3, answers.append)
    group.fetch(2)
    await write_down(group, 1, 2)
    group.fetch(2)
    assert answers == [0]
    group.fetch(3, lose_answer=True)
    assert group.settle_isr()
    group.elect(3, isr=[3])
    assert group.values(3) == [b"a", b"b", b"c"]


async def promised_then_power_cut() -> Replicas:
    """Everybody has heard of it, and then all machines lose their power."""
    group = filled()
    deletion = group[1].partition.deletion
    answers: list[int] = []
    deletion.when_deleted(deletion.delete_below(3), answers.append)
    for follower in (2, 3):
        group.fetch(follower)
    if starts_are_durable(group):
        await write_down(group, 1, 2, 3)
    for follower in (2, 3):
        group[follower].machine.add(group[follower].partition)
        group.fetch(follower)
    assert answers == [0]
    for broker in group.brokers.values():
        broker.crash("none")
    for broker in group.brokers.values():
        broker.restart()
    group.elect(2)
    return group


def starts_are_durable(group: Replicas) -> bool:
    """Return whether the rule is in force."""
    log = group[2].partition.log
    return log.log_dir.starts.durable(log) < log.log_start_offset


async def test_it_holds_over_a_power_cut() -> None:
    assert (await promised_then_power_cut()).values(2) == []


async def test_in_memory_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStarts, "durable", lambda _, log: log.log_start_offset)  # as in Kafka
    assert (await promised_then_power_cut()).values(2) == [b"a", b"b", b"c"]


async def test_the_rule_holds_under_the_next_leader() -> None:
    group = promised_without_three(Safeguards())
    group.fetch(2)
    group.elect(2, isr=[2, 1], to=[2, 3])
    group.fetch(3, lose_answer=True)
    assert not group.settle_isr()


async def test_refusals() -> None:
    group = filled(min_isr=2)
    deletion = group[1].partition.deletion
    for offset in (4, -2, 2**63 - 1):
        with pytest.raises(OffsetOutOfRangeError, match="committed up to 3"):
            deletion.delete_below(offset)
    with pytest.raises(NotLeaderOrFollowerError):
        group[2].partition.deletion.delete_below(1)
    log = group[1].partition.log
    log.reconfigure(topic_config(cleanup_policy="compact", min_insync_replicas=2))
    with pytest.raises(PolicyViolationError, match="cleanup_policy"):
        deletion.delete_below(1)
    log.reconfigure(topic_config(cleanup_policy="compact,delete", min_insync_replicas=2))
    deletion.delete_below(1)
    group.elect(1, isr=[1])
    with pytest.raises(NotEnoughReplicasError, match="at least 2"):
        deletion.delete_below(2)
    assert log.log_start_offset == 1
    assert deletion.low_watermark() == -1, "nobody can promise anything"
    log.damage = "rot"
    with pytest.raises(StorageError):
        deletion.delete_below(1)


async def test_who_waits_hears_of_the_end_of_the_leadership() -> None:
    group = filled()
    deletion = group[1].partition.deletion
    answers: list[int] = []
    deletion.when_deleted(deletion.delete_below(3), answers.append)
    group.elect(2)
    assert answers == [NotLeaderOrFollowerError.code]


async def test_who_leaves_the_isr_is_waited_for_no_longer() -> None:
    group = filled()
    deletion = group[1].partition.deletion
    answers: list[int] = []
    deletion.when_deleted(deletion.delete_below(3), answers.append)
    group.fetch(2)
    await write_down(group, 1, 2)
    group.fetch(2)
    assert not answers
    leader = group[1].partition.leader
    assert leader is not None
    assert leader.propose_leave([3])
    assert not answers, "until the controller has agreed, it may lead"
    group.settle_isr()
    assert answers == [0]


# ------------------------------------------------------------------------------ any order of events

STEPS = 200


class Story:
    """Three brokers meet records, fetches, syncs, checkpoints, crashes and elections. What was
    promised to be deleted must not be there under any leader that the controller may elect."""

    def __init__(self, seed: int, safeguards: Safeguards) -> None:
        self.chance = SeededEntropy(seed)
        self.group = Replicas(safeguards=safeguards)
        self.promised = 0
        self.promises = 0
        self.produced = 0

    async def run(self) -> int:
        """Return how far a leader fell behind what was promised, and 0 when none did."""
        steps = [self.produce, *[self.fetch] * 8, *[self.sync] * 4, self.delete]
        steps += [self.settle, self.settle, self.crash, self.restart, self.drop_dead]
        for _ in range(STEPS):
            if self.chance.random() < 0.25:
                await self.write_down()
            else:
                self.chance.choice(steps)()
            leader = self.group.leader
            start = leader.partition.log.log_start_offset
            if leader.alive and start < self.promised:
                return self.promised - start
        return 0

    def alive(self, *, leader: bool = True) -> list[int]:
        return [
            broker_id
            for broker_id, broker in sorted(self.group.brokers.items())
            if broker.alive and (leader or broker_id != self.group.leader_id)
        ]

    def produce(self) -> None:
        if self.group.leader.alive:
            self.produced += 1
            self.group.produce(b"%d" % self.produced, b"more", b"and more")

    def fetch(self) -> None:
        followers = self.alive(leader=False)
        if followers and self.group.leader.alive:
            lost = self.chance.random() < 0.2
            follower = self.chance.choice(followers)
            self.group.fetch(follower, lose_answer=lost)
            if lost:  # with its connection
                self.group[follower].connect()
                self.group[follower].machine.add(self.group[follower].partition)

    def sync(self) -> None:
        self.group.sync(self.chance.choice(self.alive()))

    async def write_down(self) -> None:
        await write_down(self.group, self.chance.choice(self.alive()))

    def delete(self) -> None:
        leader = self.group.leader
        if not leader.alive:
            return
        high_watermark = leader.partition.high_watermark
        offset = self.chance.choice([self.chance.randint(0, high_watermark), high_watermark])
        deletion = leader.partition.deletion
        deletion.delete_below(offset)

        def answered(code: int) -> None:
            if code == 0:
                self.promises += offset > self.promised
                self.promised = max(self.promised, offset)

        deletion.when_deleted(offset, answered)

    def settle(self) -> None:
        if self.group.leader.alive:
            self.group.settle_isr()

    def drop_dead(self) -> None:
        """The leader notices who is gone."""
        role = self.group.leader.partition.leader
        dead = [broker_id for broker_id in self.group.isr if not self.group[broker_id].alive]
        if self.group.leader.alive and role is not None and dead:
            role.propose_leave(dead)
            self.group.settle_isr()

    def crash(self) -> None:
        if len(self.alive()) == 1 or self.chance.random() < 0.6:
            return
        broker_id = self.chance.choice(self.alive())
        self.group[broker_id].crash(self.chance.choice(["none", "all"]))
        if broker_id == self.group.leader_id:
            self.elect()

    def restart(self) -> None:
        dead = [
            broker_id for broker_id in sorted(self.group.brokers) if broker_id not in self.alive()
        ]
        if dead:
            self.group[self.chance.choice(dead)].restart()
            self.elect()

    def elect(self) -> None:
        """Elect a leader of the ISR, if one lives; the order tells all others where they are."""
        members = [broker_id for broker_id in self.group.isr if self.group[broker_id].alive]
        if members:
            self.group.elect(self.chance.choice(members), isr=members)


SEEDS = range(30)


async def test_what_was_promised_holds_whatever_comes() -> None:
    promises = 0
    for seed in SEEDS:
        story = Story(seed, Safeguards())
        assert await story.run() == 0, f"seed {seed}"
        promises += story.promises
    assert promises > len(SEEDS), "nothing was put to the test"
