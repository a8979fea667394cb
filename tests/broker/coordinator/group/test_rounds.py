"""Rounds under chance: members come, go, die and misbehave, time passes, appends fail, the
coordinator moves. Invariants are looked at after every step, and once it is quiet, every group is
stable with all members that live, or empty [B28]."""

from __future__ import annotations

import pytest

from oncelog_broker.coordinator.group.group import Group
from oncelog_broker.coordinator.group.states import GroupState
from oncelog_protocol.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    MemberIdRequiredError,
    NotCoordinatorError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from oncelog_runtime.entropy import SeededEntropy
from support.group_world import Answer, GroupWorld, durable, subscribed
from support.room_settings import group_settings

CONFIG = group_settings(group_max_size=6, group_new_member_join_timeout_ms=40_000)
SESSION_MS, REBALANCE_MS = 10_000, 20_000
PARTITIONS = 8
STEPS = 400
QUIET_S = 180
"""More than two rebalance time-outs, a session and the time of a new member."""


class Bot:
    """It is a member that plays by the rules, unless the test makes it stop."""

    def __init__(self, number: int, instance: str | None) -> None:
        self.number = number
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.given: dict[str, bytes] | None = None
        self.owned: frozenset[int] = frozenset()
        self.call: Answer | None = None
        self.phase = "out"
        self.is_over = False
        self.topic = "t"

    def act(self, world: GroupWorld) -> None:
        """Do the next thing that it would do."""
        if self.phase == "out":
            self._join(world)
        elif self.call is not None:
            if self.call.waits:
                return
            call, self.call = self.call, None
            self._joined(world, call) if self.phase == "joining" else self._synced(world, call)
        elif self.phase == "joined":
            self.phase = "syncing"
            self.call = world.sync(
                self.member_id, self.generation, self.given, instance=self.instance
            )
        else:
            code = world.heartbeat(self.member_id, self.generation, instance=self.instance)
            if code:
                self._refused(code)

    def _join(self, world: GroupWorld) -> None:
        # Eager: whoever joins has given up everything.
        self.owned = frozenset()
        self.phase = "joining"
        self.call = world.join(
            self.member_id,
            instance=self.instance,
            protocols=(("range", subscribed(self.topic)),),
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            client=f"bot{self.number}",
        )

    def _joined(self, world: GroupWorld, call: Answer) -> None:
        answer = call.value
        if answer.error_code == MemberIdRequiredError.code:
            self.member_id = answer.member_id
            self._join(world)
        elif answer.error_code:
            self._refused(answer.error_code)
        else:
            self.phase = "joined"
            self.member_id, self.generation = answer.member_id, answer.generation_id
            members = sorted(member.member_id for member in answer.members)
            self.given = None
            if members and not answer.skip_assignment:
                self.given = {
                    member_id: bytes(range(index, PARTITIONS, len(members)))
                    for index, member_id in enumerate(members)
                }

    def _synced(self, world: GroupWorld, call: Answer) -> None:
        answer = call.value
        if answer.error_code:
            self._refused(answer.error_code)
        else:
            self.phase = "member"
            self.owned = frozenset(answer.assignment)

    def _refused(self, code: int) -> None:
        self.phase = "out"
        if code in (UnknownMemberIdError.code, IllegalGenerationError.code):
            self.member_id, self.generation = "", -1
        elif code in (FencedInstanceIdError.code, GroupMaxSizeReachedError.code):
            self.is_over = True
        else:
            assert code in (
                RebalanceInProgressError.code,
                CoordinatorNotAvailableError.code,
                NotCoordinatorError.code,
            )


class Story:
    """It is what happens by one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = SeededEntropy(f"rounds-{seed}")
        self.world = GroupWorld(config=CONFIG, seed=f"world-{seed}")
        self.bots: list[Bot] = []
        self.dead: list[Bot] = []
        self.number = 0
        self.generation = 0
        self.committed = 0
        self.acked = 0
        self.pending: list[tuple[int, Answer]] = []
        self.left: dict[str, Answer] = {}

    def step(self) -> None:
        actions = [self.come, self.act, self.act, self.act, self.act, self.act, self.act, self.wait]
        rare = [self.go, self.die, self.commit, self.misbehave, self.hold, self.refuse, self.settle]
        rarest = [self.move, self.change, self.delete, self.outside]
        draw = self.chance.random()
        kind = actions if draw < 0.8 else rare if draw < 0.97 else rarest
        self.chance.choice(kind)()
        self.look()

    # ---- what may happen

    def come(self) -> None:
        if len(self.bots) < 5:
            self.number += 1
            instance = self.chance.choice([None, None, "a", "b"])
            self.bots.append(Bot(self.number, instance))

    def act(self) -> None:
        if self.bots:
            self.chance.choice(self.bots).act(self.world)

    def wait(self) -> None:
        self.world.advance(self.chance.choice([0.0, 0.3, 1.0, 4.0, 9.0]))

    def go(self) -> None:
        if self.bots:
            bot = self.chance.choice(self.bots)
            self.bots.remove(bot)
            self.dead.append(bot)
            answer = self.world.leave((bot.member_id, bot.instance))
            if bot.member_id:
                self.left[bot.member_id] = answer

    def die(self) -> None:
        if self.bots:
            bot = self.chance.choice(self.bots)
            self.bots.remove(bot)
            self.dead.append(bot)

    def commit(self) -> None:
        members = [bot for bot in self.bots if bot.phase == "member"]
        if members:
            bot = self.chance.choice(members)
            self.committed += 1
            self.pending.append(
                (
                    self.committed,
                    self.world.commit_offset(
                        self.committed,
                        member_id=bot.member_id,
                        generation=bot.generation,
                        instance=bot.instance,
                    ),
                )
            )

    def outside(self) -> None:
        """Commit as a tool does: only an empty group takes that."""
        group = self.world.shard.groups.get("g")
        self.committed += 1
        answer = self.world.commit_offset(self.committed)
        self.pending.append((self.committed, answer))
        if group is not None and group.members and not answer.waits:
            assert answer.code

    def misbehave(self) -> None:
        """Send late requests of whoever is gone, and of nobody."""
        bots = [*self.bots, *self.dead, Bot(0, None)]
        bot, other = self.chance.choice(bots), self.chance.choice(bots)
        generation = self.generation + self.chance.randint(-2, 1)
        kind = self.chance.randint(0, 4)
        if kind == 0:
            self.world.heartbeat(bot.member_id, generation, instance=other.instance)
        elif kind == 1 and bot in self.dead:
            self.world.sync(bot.member_id, generation, {other.member_id: b"\xff"})
        elif kind == 2 and bot in self.dead and bot.instance is None and bot.member_id:
            self.world.join(bot.member_id, session_ms=SESSION_MS, rebalance_ms=REBALANCE_MS)
        elif kind == 3 and bot.member_id:
            generation += self.chance.choice([-10, 10])
            assert self.world.commit_offset(0, member_id=bot.member_id, generation=generation).code
        else:
            self.world.sync(bot.member_id, self.generation + 1, instance=other.instance)

    def hold(self) -> None:
        self.world.hold = True

    def refuse(self) -> None:
        self.world.refuse = CoordinatorNotAvailableError.code

    def settle(self) -> None:
        self.world.hold, self.world.refuse = False, 0
        self.chance.choice([self.world.commit, self.world.fail])()

    def move(self) -> None:
        """Another coordinator takes over, with what the log holds."""
        before = self.world
        before.commit()
        before.shard.unload(NotCoordinatorError.code)
        waiting = [b.number for b in self.bots if b.call is not None and b.call.waits]
        assert not waiting, "whoever waits is told"
        self.world = before.restarted()
        group = self.world.shard.groups.get("g")
        members = () if group is None else group.members
        told = [member_id for member_id, answer in self.left.items() if is_told(answer)]
        assert not set(told).intersection(members), "they were told that they have left"
        # A generation that was never assigned is forgotten: nobody has worked in it.
        self.generation = 0
        for bot in self.bots:
            if bot.phase == "syncing" and bot.call is None:
                bot.phase = "joined"

    def change(self) -> None:
        if self.bots:
            bot = self.chance.choice(self.bots)
            bot.topic = self.chance.choice(["t", "u"])
            if bot.phase == "member":
                bot.phase = "out"

    def delete(self) -> None:
        results: list[int] = []
        self.world.groups.delete(["g"], lambda given: results.append(given[0].error_code))
        if results in ([], [0]):
            # Done, or to be committed: what is to be seen is as it was before the first commit.
            self.acked = self.generation = 0
            self.pending = []

    # ---- what must hold

    def look(self) -> None:
        for number, answer in list(self.pending):
            if not answer.waits:
                self.pending.remove((number, answer))
                if answer.value.error_code == 0:
                    self.acked = max(self.acked, number)
        group = self.world.shard.groups.get("g")
        if group is None:
            assert not self.acked
            self.generation = 0
            return
        assert group.generation >= self.generation
        known = self.world.offsets().get(("t", 0), 0)
        assert known >= self.acked
        self.generation = group.generation
        self._check_ownership(group)

    def _check_ownership(self, group: Group) -> None:
        """Check [I18] of members that could commit."""
        owners: dict[int, int] = {}
        for bot in self.bots:
            if (
                bot.phase == "member"
                and bot.generation == group.generation
                and bot.member_id in group.members
            ):
                for partition in sorted(bot.owned):
                    assert partition not in owners, f"bots {owners[partition]} and {bot.number}"
                    owners[partition] = bot.number

    def compare_with_log(self) -> None:
        """A coordinator that reads the log now would go on with the same."""
        live = self.world.shard
        world = GroupWorld(config=CONFIG, log=self.world.log, clock=self.world.clock, seed="again")
        assert durable(world.shard) == durable(live)
        for group_id, group in world.shard.groups.items():
            now = live.groups[group_id]
            if now.state is GroupState.STABLE:
                assert describe(now) == describe(group)

    def heal(self) -> None:
        """Nothing happens any more but what members do by themselves."""
        self.world.hold, self.world.refuse = False, 0
        self.world.commit()
        for _ in range(QUIET_S):
            for bot in self.bots:
                bot.act(self.world)
                bot.act(self.world)
            self.bots = [bot for bot in self.bots if not bot.is_over]
            self.look()
            self.world.advance(1)


def is_told(leaving: Answer) -> bool:
    """Return whether a member was told that it has left."""
    return not (leaving.waits or leaving.code or leaving.value.members[0].error_code)


def describe(group: Group) -> tuple[object, ...]:
    members = {
        m.member_id: (
            m.group_instance_id,
            m.assignment,
            m.offer.metadata(group.protocol_name),
            m.offer.session_timeout_ms,
            m.offer.rebalance_timeout_ms,
            m.client_id,
        )
        for m in group.members.values()
    }
    return (
        group.state,
        group.generation,
        group.leader,
        group.protocol_type,
        group.protocol_name,
        group.static,
        group.subscribed_topics,
        members,
    )


@pytest.mark.parametrize("seed", range(60))
def test_chance(seed: int) -> None:
    story = Story(seed)
    for _ in range(STEPS):
        story.step()
        if story.chance.random() < 0.02:
            story.compare_with_log()
    story.heal()
    alive = sorted(bot.member_id for bot in story.bots)
    group = story.world.shard.groups.get("g")
    if group is None or not group.members:
        assert not alive
        assert group is None or group.state is GroupState.EMPTY
    else:
        assert group.state is GroupState.STABLE
        assert sorted(group.members) == alive
        assert all(bot.phase == "member" for bot in story.bots)
        owned = sorted(partition for bot in story.bots for partition in bot.owned)
        assert owned == list(range(PARTITIONS)), "all partitions are read by one (I19)"
    story.compare_with_log()
    expected = len(alive) + 1
    assert len(story.world.timers.due) <= expected, sorted(story.world.timers.due)


def test_a_storm_ends_when_it_is_over() -> None:
    """Members come and go every 100 ms; then it is quiet."""
    story = Story(-1)
    for _ in range(300):
        story.chance.choice([story.come, story.go, story.die])()
        for bot in list(story.bots):
            bot.act(story.world)
        story.world.advance(0.1)
        story.look()
    story.heal()
    group = story.world.group()
    assert group.state in (GroupState.STABLE, GroupState.EMPTY)
    assert sorted(group.members) == sorted(bot.member_id for bot in story.bots)
