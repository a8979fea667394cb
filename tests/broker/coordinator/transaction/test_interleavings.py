"""Producers, their zombies, late requests and coordinators come and go: whatever the order, each
transaction is decided once, the same way everywhere, and nobody is condemned without cause.

A seed picks what happens next: requests of producers and owners, repeats of old requests, commits
of the log up to anywhere, refused appends, markers that land one by one, failovers that lose any
part of what is not committed, time. Then all is healed, and the data partitions are looked at. Time
is virtual.
"""

from __future__ import annotations

import asyncio
import logging
import random
import selectors
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from oncelog_broker.coordinator.ports import MarkerOrder
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.coordinator.transaction.records import SavedShared, SavedTransaction, id_record
from oncelog_broker.coordinator.transaction.states import TxnState
from oncelog_protocol.errors import ERRORS, Kind, NotEnoughReplicasError
from support.transaction_world import Answer, TransactionWorld, transaction_world
from unsafe.coordinators import without

SEEDS = 25
STEPS = 800
PARTITIONS = 3
ABORTABLE = 120
ALREADY_COMMITTED = 1000

Pair = tuple[int, int]


class VirtualTime(asyncio.SelectorEventLoop):
    """Its clock jumps to whatever is due next."""

    def __init__(self) -> None:
        super().__init__(selectors.SelectSelector())
        self.now_s = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def jump(timeout: float | None = None) -> Any:
            self.now_s += timeout or 0.0
            return select(0)

        self._selector.select = jump  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now_s


@dataclass
class DataPartition:
    """A leader knows the last epoch of each producer, what is open, and how data ended."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    ended: dict[Pair, list[bool]] = field(default_factory=dict)
    markers: dict[int, int] = field(default_factory=dict)
    """How many have landed, by producer id: what makes a guard void."""
    coordinator_epochs: dict[int, int] = field(default_factory=dict)

    def append(self, producer: Pair, guard: int) -> bool:
        producer_id, epoch = producer
        if self.markers.get(producer_id, 0) != guard or self.epochs.get(producer_id, -1) > epoch:
            return False
        assert self.open.get(producer_id, epoch) == epoch, "two transactions in one"
        self.epochs[producer_id] = epoch
        self.open[producer_id] = epoch
        return True

    def mark(self, coordinator_epoch: int, producer_id: int, epoch: int, commit: bool) -> bool:
        """Return whether it is done there (KIP-1228)."""
        if coordinator_epoch < self.coordinator_epochs.get(producer_id, -1):
            return False
        known = self.epochs.get(producer_id, -1)
        if epoch <= known:
            return True
        self.coordinator_epochs[producer_id] = coordinator_epoch
        self.epochs[producer_id] = epoch
        self.markers[producer_id] = self.markers.get(producer_id, 0) + 1
        opened = self.open.pop(producer_id, None)
        if opened is not None:
            self.ended.setdefault((producer_id, opened), []).append(commit)
        return True


class Producer:
    """It is one instance under an ordinary id, as a correct client behaves."""

    def __init__(self, play: Play, name: str, number: int) -> None:
        self.play = play
        self.name = name
        self.number = number
        self.pair: Pair | None = None
        self.written: dict[int, bool] = {}
        """Partitions of the open transaction, and whether the leader has said yes."""
        self.asked: tuple[str, Answer, bool] | None = None
        self.again: list[int] = []
        """Partitions whose leader has said that it may be tried again."""
        self.must_abort = False
        self.reinit: Pair | None = None
        self.is_dead = False

    def step(self) -> None:
        if self.is_dead:
            return
        if self.asked is not None:
            what, answer, commit = self.asked
            if answer.waits:
                if self.play.random.random() < 0.9:
                    return
                self.unknown(what)
            else:
                self.asked = None
                self.told(what, answer, commit)
        elif self.pair is None:
            self.asked = ("init", self.play.init(self, (-1, -1)), False)
        elif self.reinit is not None:
            self.asked = ("init", self.play.init(self, self.reinit), False)
        elif not self.must_abort and len(self.written) < 2 and self.play.random.random() < 0.7:
            self.write()
        elif self.again:
            partition = self.again.pop()
            self.play.produce(self, self.pair, partition)
        elif self.must_abort or all(self.written.values()) or self.play.random.random() < 0.05:
            commit = not self.must_abort and bool(self.written) and self.play.random.random() < 0.7
            self.end(commit and all(self.written.values()))

    def end(self, commit: bool) -> None:
        assert self.pair is not None
        self.asked = ("end", self.play.end(self, self.pair, commit), commit)

    def write(self) -> None:
        assert self.pair is not None
        partition = self.play.random.randrange(PARTITIONS)
        self.written[partition] = False
        self.play.produce(self, self.pair, partition)

    def unknown(self, what: str) -> None:
        """Ask the same again, or begin anew: no answer came in time."""
        assert self.asked is not None
        _, _, commit = self.asked
        self.asked = None
        if what == "end" and self.play.random.random() < 0.7:
            self.end(commit)
        elif self.pair is not None:
            self.reinit = self.pair

    def told(self, what: str, answer: Answer, commit: bool) -> None:
        code = answer.code
        if code == 0:
            if what == "end" and self.pair is not None:
                self.play.decided(self.pair, commit, self.written)
            self.pair, self.written, self.again = answer.producer, {}, []
            self.must_abort, self.reinit = False, None
            self.play.holds(self, self.pair)
        elif code == ABORTABLE:
            self.must_abort = True
        elif ERRORS[code].kind is Kind.RETRIABLE:
            if what == "end":
                self.unknown_end(commit)
        else:
            self.is_dead = True
            if self.play.newest[self.name] == self.number:
                self.play.condemned.append(f"{what}: {answer.value}")

    def unknown_end(self, commit: bool) -> None:
        if self.play.random.random() < 0.8:
            self.end(commit)
        else:
            self.reinit = self.pair


class Play:
    """It has a world, its data partitions, and those who act."""

    def __init__(self, world: TransactionWorld, seed: int) -> None:
        self.world = world
        self.deposed: list[TransactionWorld] = []
        """Coordinators that do not know that there is a newer one."""
        self.random = random.Random(seed)
        self.partitions = [DataPartition() for _ in range(PARTITIONS)]
        self.newest: dict[str, int] = {}
        self.arriving: dict[str, list[Answer]] = {}
        self.producers: list[Producer] = []
        self.owners: dict[Pair, object] = {}
        self.promises: list[tuple[Pair, bool, list[int]]] = []
        self.late: list[Callable[[], object]] = []
        self.marker_ways: dict[Pair, bool] = {}
        self.too_early: list[MarkerOrder] = []
        self.both_ways: list[MarkerOrder] = []
        self.condemned: list[str] = []
        """Final errors of instances that were the newest."""
        self.epoch = 1
        self.shared = SharedPlay(self)
        world.markers.on_send = self.check_order

    # ---- what producers do

    @property
    def asked(self) -> TransactionWorld:
        """Return who is taken for the coordinator."""
        if self.deposed and self.random.random() < 0.15:
            return self.random.choice(self.deposed)
        return self.world

    def init(self, producer: Producer, named: Pair) -> Answer:
        self.late.append(lambda: self.late_init(producer, named))
        return self.initing(self.asked, producer, named, producer.number)

    def late_init(self, producer: Producer, named: Pair) -> None:
        # Nobody holds what this gives; whoever was the newest is not any more.
        self.initing(self.world, producer, named, -1)

    def initing(
        self, world: TransactionWorld, producer: Producer, named: Pair, number: int
    ) -> Answer:
        name = producer.name
        if named[0] < 0:
            # Of instances that come at once, either may be the newer one.
            at_once = any(answer.waits for answer in self.arriving.get(name, ()))
            self.newest[name] = -1 if at_once else number
        answer = world.init(named, transactional_id=name, timeout_ms=20_000)
        if named[0] < 0:
            self.arriving.setdefault(name, []).append(answer)
        return answer

    def end(self, producer: Producer, pair: Pair, commit: bool) -> Answer:
        self.late.append(lambda: self.world.end(pair, commit, transactional_id=producer.name))
        return self.asked.end(pair, commit, transactional_id=producer.name)

    def produce(self, producer: Producer, pair: Pair, partition: int) -> None:
        self.late.append(lambda: self.add(producer.name, pair, partition, lambda _: None))

        def told(code: int) -> None:
            if producer.pair != pair:
                return
            if code == 0:
                producer.written[partition] = True
            elif code >= 0 and ERRORS[code].kind is Kind.FATAL:
                if self.newest[producer.name] == producer.number:
                    self.condemned.append(f"produce: {code}")
                producer.is_dead = True
            elif code < 0 or code == ABORTABLE:
                producer.must_abort = True
            else:
                producer.again.append(partition)

        self.add(producer.name, pair, partition, told)

    def add(self, name: str, pair: Pair, partition: int, told: Callable[[int], None]) -> None:
        leader = self.partitions[partition]
        guard = leader.markers.get(pair[0], 0)
        answer = self.asked.add(pair, partition, transactional_id=name)

        def arrived(value: Any) -> None:
            code = value.error_code
            if code == 0 and not leader.append(pair, guard):
                code = -1
            told(code)

        if answer.waits:
            answer.__class__ = _make_calling(arrived)
        else:
            arrived(answer.value)

    def holds(self, producer: object, pair: Pair) -> None:
        assert self.owners.setdefault(pair, producer) is producer, f"two hold {pair}"

    def decided(self, pair: Pair, commit: bool, written: dict[int, bool]) -> None:
        self.promises.append((pair, commit, [p for p, acked in written.items() if acked]))

    # ---- what happens around them

    def check_order(self, order: MarkerOrder) -> None:
        """PREPARE is committed, and two coordinators never end a transaction two ways."""
        world = next(
            world
            for world in [self.world, *self.deposed]
            if world.partition.leader_epoch == order.coordinator_epoch
        )
        committed = world.states_below(world.partition.high_watermark, order.transactional_id)
        if not committed or not committed[-1].startswith("Prepare"):
            self.too_early.append(order)
        for producer_id, epoch, commit, _, _ in order.markers:
            if self.marker_ways.setdefault((producer_id, epoch), commit) != commit:
                self.both_ways.append(order)

    def land(self, entry: tuple[MarkerOrder, Callable[[], None]], share: float) -> None:
        """Some markers, or all: the order is done then, unless its coordinator is fenced."""
        order, done = entry
        landed = [
            self.random.random() < share
            and self.partitions[number].mark(order.coordinator_epoch, producer_id, epoch, commit)
            for producer_id, epoch, commit, partitions, _ in order.markers
            for _, number in partitions
        ]
        if all(landed) and entry in self.world.markers.open:
            self.world.markers.open.remove(entry)
            done()

    async def step(self) -> None:
        chance = self.random.random()
        world = self.world
        if chance < 0.40:
            self.random.choice(self.producers[-4:]).step()
        elif chance < 0.52:
            self.shared.step()
        elif chance < 0.56 and self.late:
            self.random.choice(self.late[-12:])()
        elif chance < 0.75:
            self.commit_some()
        elif chance < 0.77:
            refuses = world.writer.refuse is None and self.random.random() < 0.2
            world.writer.fail(NotEnoughReplicasError.code if refuses else 0)
        elif chance < 0.95 and world.markers.open:
            entry = self.random.choice(world.markers.open)
            self.land(entry, 0.5 if self.random.random() < 0.4 else 1.0)
        elif chance < 0.953:
            await self.fail_over()
        elif chance < 0.96:
            name = self.random.choice(["t", "u"])
            self.producers.append(Producer(self, name, len(self.producers)))
        else:
            pause_s = self.random.choice([0.001] * 4 + [0.1] * 4 + [1.0, 1.0, 6.0])
            world.clock.advance(int(pause_s * 1000))
            await asyncio.sleep(pause_s)
        await asyncio.sleep(0)

    async def fail_over(self) -> None:
        """The coordinator moves; it may not know that for a while."""
        self.epoch += 1
        keeps = self.random.randrange(4)
        if self.random.random() < 0.3:
            await self.world.moved(self.epoch, keeps=keeps)
        elif self.deposed and self.random.random() < 0.5:
            self.deposed.pop(0).engine.close()
        else:
            old = self.world
            self.deposed.append(old)
            self.world = old.fork(keeps=keeps)
            await self.world.elected(self.epoch)

    def commit_some(self) -> None:
        """Commit up to the end of any batch."""
        partition, ends = self.world.partition, [0]
        for batch in partition.batches:
            ends.append(ends[-1] + len(batch))
        later = [end for end in ends if end >= partition.high_watermark]
        partition.commit(self.random.choice(later) if self.random.random() < 0.3 else later[-1])

    async def heal(self) -> None:
        world = self.world
        for old in self.deposed:
            old.engine.close()
        world.writer.fail(0)
        world.writer.auto_commit = True
        for _ in range(60):
            world.partition.commit()
            for entry in list(world.markers.open):
                self.land(entry, 1.0)
            world.clock.advance(1_000)
            await asyncio.sleep(1.0)

    def check(self) -> None:
        assert not self.condemned, self.condemned
        assert not self.too_early, "markers before PREPARE was committed"
        assert not self.both_ways, "a transaction is ended two ways"
        for txn in self.world.shard.transactions.values():
            assert txn.saved is not None
            assert txn.saved.state.label.startswith(("Complete", "Empty")), txn.saved
            assert not txn.delayed
            assert txn.order is None
        ways: dict[Pair, set[bool]] = {}
        for partition in self.partitions:
            assert not partition.open, "a transaction hangs"
            for pair, ended in partition.ended.items():
                ways.setdefault(pair, set()).update(ended)
        for pair, found in ways.items():
            assert len(found) == 1, f"{pair} is torn"
        for pair, commit, written in self.promises:
            for number in written:
                assert self.partitions[number].ended.get(pair) == [commit], (pair, commit)
        self.shared.check()


def _make_calling(arrived: Callable[[Any], None]) -> type[Answer]:
    """Return an answer that somebody acts upon when it comes."""

    class Calling(Answer):
        def __call__(self, value: Any) -> None:
            super().__call__(value)
            arrived(value)

    return Calling


class SharedPlay:
    """Owners of tags come one after the other or at once, and so do their writers."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.owners: list[list[Any]] = []
        """[answer with the ordinal, tag, joins, winners, has decided]; no winners: aborts."""
        self.committed: dict[int, tuple[int, list[int]]] = {}
        self.tag = 0

    def step(self) -> None:
        random, world = self.play.random, self.play.world
        if not self.owners or random.random() < (0.3 if self.owners[-1][4] else 0.03):
            answer = Answer()
            world.transactions.begin_shared(None, answer)  # type: ignore[arg-type]
            self.owners.append([answer, self.tag + random.randrange(2), [], None, False])
            return
        owner = random.choice(self.owners[-2:])
        begun, tag, joins, decision, _ = owner
        if begun.waits or begun.code:
            return
        ordinal = begun.value.ordinal
        if random.random() < 0.7:
            joins.append(self.join(ordinal, tag, f"w{random.randrange(3)}"))
            return
        if decision is None:
            known = [a.value.producer_id for a in joins if not a.waits and a.code == 0]
            if not known and random.random() < 0.8:
                return
            commit = bool(known) and random.random() < 0.8
            decision = random.sample(known, random.randint(1, len(known))) if commit else []
            owner[3] = decision
        winners = decision or None
        answer = self.play.asked.end_shared(ordinal, tag, winners, transactional_id="s")
        owner[4] = True
        self.expect(answer, ordinal, tag, winners)

    def join(self, ordinal: int, tag: int, writer: str) -> Answer:
        answer = self.play.asked.join(ordinal, tag, writer, transactional_id="s", timeout_ms=20_000)

        def arrived(value: Any) -> None:
            if value.error_code == ALREADY_COMMITTED:
                assert value.last_committed_tag >= tag
            if value.error_code == 0:
                pair = (value.producer_id, value.producer_epoch)
                assert pair[1] == 0
                number = self.play.random.randrange(PARTITIONS)
                self.play.add("s", pair, number, lambda _: None)
                self.play.late.append(lambda: self.play.add("s", pair, number, lambda _: None))

        if answer.waits:
            answer.__class__ = _make_calling(arrived)
        else:
            arrived(answer.value)
        return answer

    def expect(self, answer: Answer, ordinal: int, tag: int, winners: list[int] | None) -> None:
        def arrived(value: Any) -> None:
            if value.error_code == 0 and value.committed:
                self.tag = max(self.tag, tag + 1)
                assert winners is not None, "an abort has committed"
                known = self.committed.setdefault(tag, (ordinal, winners))
                assert known == (ordinal, winners), f"tag {tag} is committed twice"

        if answer.waits:
            answer.__class__ = _make_calling(arrived)
        else:
            arrived(answer.value)

    def check(self) -> None:
        for _, winners in self.committed.values():
            for winner in winners:
                for partition in self.play.partitions:
                    ended = partition.ended.get((winner, 0), [True])
                    assert ended == [True], f"{winner} has won"
        saved = self.play.world.saved("s")
        if isinstance(saved, SavedShared):
            assert saved.last_committed_tag >= max(self.committed, default=-1)


async def play(seed: int, safeguards: CoordinatorSafeguards = SAFE) -> dict[str, int]:
    async with transaction_world(commit_timeout_ms=3_000, safeguards=safeguards) as world:
        world.writer.auto_commit = False
        world.partition.commit()
        staged = Play(world, seed)
        staged.producers = [Producer(staged, name, n) for n, name in enumerate("tu")]
        if seed % 3 == 0:
            _near_the_last_epoch(world)
            await world.moved(1)
        for _ in range(STEPS):
            await staged.step()
        await staged.heal()
        staged.check()
        staged.world.engine.close()
        return {
            "commits": sum(commit for _, commit, _ in staged.promises),
            "aborts": sum(not commit for _, commit, _ in staged.promises),
            "tags": len(staged.shared.committed),
        }


def _near_the_last_epoch(world: TransactionWorld) -> None:
    saved = SavedTransaction(TxnState.EMPTY, 1, 32_763, 20_000)
    world.partition.append([id_record("t", saved)])
    world.partition.commit()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_the_order(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(play(seed))
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    "switch",
    [
        "outsiders_wait_for_barrier",
        "replies_wait_for_commit",
        "bump_epoch_per_txn",
        "prepare_before_markers",
    ],
)
def test_every_rule_is_needed(switch: str) -> None:
    for seed in range(SEEDS):
        try:
            with asyncio.Runner(loop_factory=VirtualTime) as runner:
                runner.run(play(seed, without(switch)))
        except AssertionError:
            return
    pytest.fail(f"without {switch} nothing goes wrong")


@pytest.mark.slow
def test_that_something_happens() -> None:
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        counts = [runner.run(play(seed)) for seed in range(15)]
    for what, least in (("commits", 20), ("aborts", 20), ("tags", 3)):
        assert sum(count[what] for count in counts) >= least, (what, counts)
