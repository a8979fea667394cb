"""The engine finds shards, loads them despite races, and gains and loses leaderships."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncelog_broker.coordinator.engine import CoordinatorEngine, ShardState
from oncelog_broker.coordinator.ports import Timers
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_protocol.coordinators import coordinator_partition
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    StorageError,
)
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.tasks import Tasks
from support.coordinators import MemoryPartition, MemoryWriter, TextShard
from support.waiting import eventually
from unsafe.coordinators import without

TOPIC = "__consumer_offsets"
COUNT = 4
LOADING = CoordinatorLoadInProgressError.code
NOT_HERE = NotCoordinatorError.code
NOT_AVAILABLE = CoordinatorNotAvailableError.code
TIMED_OUT = RequestTimedOutError.code


class World:
    """It is an engine of four partitions over memory, and what it was answered."""

    def __init__(
        self,
        *,
        auto_commit: bool = True,
        commit_timeout_ms: int = 60_000,
        safeguards: CoordinatorSafeguards = SAFE,
    ) -> None:
        self.writer = MemoryWriter(auto_commit=auto_commit)
        self.shards: list[TextShard] = []
        self.answers: list[tuple[Any, int]] = []
        self.failures: list[str] = []
        self.tasks = Tasks("test", lambda name, error: self.failures.append(f"{name}: {error!r}"))
        self.prepare: Callable[[TextShard], None] | None = None
        self.engine = CoordinatorEngine(
            name="texts",
            topic=TOPIC,
            writer=self.writer,
            make_shard=self._make_shard,
            tasks=self.tasks,
            commit_timeout_ms=commit_timeout_ms,
            safeguards=safeguards,
        )
        self.engine.set_partition_count(COUNT)

    def _make_shard(self, partition: int, timers: Timers) -> TextShard:
        shard = TextShard(partition, timers)
        if self.prepare is not None:
            self.prepare(shard)
        self.shards.append(shard)
        return shard

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.engine.close()
        await self.tasks.close()
        assert not self.failures

    def log(self, key: str = "a") -> MemoryPartition:
        return self.writer.partition(TopicPartition(TOPIC, partition_of(key)))

    async def elect(self, key: str = "a", epoch: int = 0) -> TextShard:
        self.engine.elected(partition_of(key), epoch)
        await eventually(lambda: self.engine.refusal(key) == 0, what="a loaded shard")
        return self.shards[-1]

    def reply(self, value: Any, code: int) -> None:
        self.answers.append((value, code))

    def put(self, name: str, value: str | None, reply: str | None = "ok") -> None:
        self.engine.write(name, lambda shard: shard.put(name, value, reply), self.reply)

    def get(self, name: str) -> None:
        self.engine.read(name, lambda shard: shard.values.get(name, "none"), self.reply)

    def told(self) -> list[tuple[Any, int]]:
        answers, self.answers = self.answers, []
        return answers


def partition_of(key: str) -> int:
    return coordinator_partition(key, COUNT)


async def test_a_write_and_a_read_of_a_loaded_shard() -> None:
    async with World() as world:
        await world.elect("a")
        world.put("a", "1")
        world.get("a")
        assert world.told() == [("ok", 0), ("1", 0)]
        assert world.log().records == [CoordinatorRecord(b"a", b"1")]


async def test_nobody_coordinates_before_the_topic_is_known() -> None:
    async with World() as world:
        world.engine.set_partition_count(None)
        world.engine.elected(0, 0)
        assert world.engine.refusal("a") == NOT_HERE
        world.put("a", "1")
        world.get("a")
        assert world.told() == [(None, NOT_HERE)] * 2


async def test_other_partitions_are_other_coordinators_business() -> None:
    async with World() as world:
        await world.elect("a")
        other = next(k for k in "bcdefghij" if partition_of(k) != partition_of("a"))
        assert world.engine.refusal(other) == NOT_HERE
        world.put(other, "1")
        assert world.told() == [(None, NOT_HERE)]


async def test_load_in_progress_is_said_while_loading_and_never_else() -> None:
    async with World() as world:
        assert world.engine.refusal("a") == NOT_HERE
        world.log().append([CoordinatorRecord(b"a", b"1")])
        world.log().commit()
        world.writer.gate = asyncio.Event()
        world.engine.elected(partition_of("a"), 0)
        assert world.engine.refusal("a") == LOADING
        assert world.engine.loading
        await asyncio.sleep(0)
        world.put("a", "2")
        world.get("a")
        assert world.told() == [(None, LOADING)] * 2
        world.writer.gate.set()
        await eventually(lambda: not world.engine.loading)
        assert world.engine.refusal("a") == 0
        world.get("a")
        assert world.told() == [("1", 0)]
        world.engine.resigned(partition_of("a"), 0)
        assert world.engine.refusal("a") == NOT_HERE


async def test_every_batch_is_replayed_in_order_with_its_tombstones() -> None:
    async with World() as world:
        log = world.log()
        log.append([CoordinatorRecord(b"a", b"1"), CoordinatorRecord(b"b", b"1")])
        log.append([CoordinatorRecord(b"a", None)])
        log.append([CoordinatorRecord(b"b", b"2"), CoordinatorRecord(b"c", b"1")])
        log.append([CoordinatorRecord(b"c", None), CoordinatorRecord(b"a", b"3")])
        shard = await world.elect("a")
        assert shard.values == {"a": "3", "b": "2"}
        assert shard.story == ["loaded"]


async def test_what_was_replayed_is_what_was_live() -> None:
    """State after a live run equals the state of a shard that reads the log."""
    async with World() as world:
        live = await world.elect("a")
        for value in ("1", "2", None, "3"):
            world.put("a", value)
        world.engine.resigned(partition_of("a"), 1)
        replayed = await world.elect("a", 2)
        assert replayed is not live
        assert replayed.values == live.values == {"a": "3"}


async def test_elected_again_in_the_same_epoch_changes_nothing() -> None:
    async with World() as world:
        shard = await world.elect("a", 3)
        world.engine.elected(partition_of("a"), 3)
        world.engine.elected(partition_of("a"), 2)
        assert world.engine.refusal("a") == 0
        assert world.shards == [shard]


async def test_a_leader_that_stays_goes_on_in_a_newer_epoch() -> None:
    """A follower has died: members that are parked and writes on their way do not notice."""
    async with World(auto_commit=False) as world:
        shard = await world.elect("a", 3)
        world.put("a", "1")
        shard.parked.append(world.reply)
        world.log().leader_epoch = 4
        world.engine.elected(partition_of("a"), 4)
        world.put("a", "2")
        world.log().commit()
        assert world.told() == [("ok", 0), ("ok", 0)]
        assert world.shards == [shard]
        assert world.engine.led[0].leader_epoch == 4
        world.engine.resigned(partition_of("a"), 3)
        assert world.engine.refusal("a") == 0


async def test_old_news_of_a_resignation_are_ignored() -> None:
    async with World() as world:
        await world.elect("a", 3)
        world.engine.resigned(partition_of("a"), 2)
        assert world.engine.refusal("a") == 0
        world.engine.resigned(partition_of("a"), 4)
        assert world.engine.refusal("a") == NOT_HERE
        world.engine.resigned(partition_of("a"), 4)


async def test_elected_in_a_newer_epoch_while_loading() -> None:
    """The first load ends without a word, and what it has read is not what is served."""
    async with World() as world:
        log = world.log()
        log.append([CoordinatorRecord(b"a", b"1")])
        log.append([CoordinatorRecord(b"a", b"2")])
        world.writer.gate = asyncio.Event()
        world.engine.elected(partition_of("a"), 0)
        await asyncio.sleep(0)
        log.leader_epoch = 1
        world.engine.elected(partition_of("a"), 1)
        assert world.engine.refusal("a") == LOADING
        log.append([CoordinatorRecord(b"a", b"3")])
        world.writer.gate.set()
        await eventually(lambda: world.engine.refusal("a") == 0)
        first, second = world.shards
        assert first.values == {}
        assert first.story == [f"unloaded {NOT_HERE}"]
        assert second.values == {"a": "3"}
        assert [led.leader_epoch for led in world.engine.led] == [1]


async def test_resigned_while_loading() -> None:
    async with World() as world:
        world.log().append([CoordinatorRecord(b"a", b"1")])
        world.writer.gate = asyncio.Event()
        world.engine.elected(partition_of("a"), 0)
        await asyncio.sleep(0)
        world.engine.resigned(partition_of("a"), 1)
        assert world.engine.refusal("a") == NOT_HERE
        world.writer.gate.set()
        await eventually(lambda: not len(world.tasks))
        assert world.shards[0].story == [f"unloaded {NOT_HERE}"]
        assert world.shards[0].values == {}
        assert not world.engine.loading


async def test_resigned_and_elected_again_while_loading() -> None:
    async with World() as world:
        world.log().append([CoordinatorRecord(b"a", b"1")])
        world.writer.gate = asyncio.Event()
        world.engine.elected(partition_of("a"), 0)
        await asyncio.sleep(0)
        world.engine.resigned(partition_of("a"), 1)
        world.engine.elected(partition_of("a"), 2)
        world.writer.gate.set()
        await eventually(lambda: world.engine.refusal("a") == 0)
        await eventually(lambda: not len(world.tasks))
        assert [shard.story for shard in world.shards] == [[f"unloaded {NOT_HERE}"], ["loaded"]]


async def test_a_topic_made_anew_may_begin_with_an_older_epoch() -> None:
    async with World() as world:
        await world.elect("a", 7)
        world.engine.resigned(partition_of("a"), 7)
        await world.elect("a", 0)


async def test_a_load_that_fails_is_begun_again() -> None:
    async with World() as world:
        world.log().append([CoordinatorRecord(b"a", b"1")])
        world.writer.read_error = StorageError("rot")
        world.engine.elected(partition_of("a"), 0)
        await eventually(lambda: world.engine.refusal("a") == NOT_AVAILABLE)
        assert not world.engine.loading
        assert world.engine.led[0].state is ShardState.FAILED
        world.put("a", "2")
        assert world.told() == [(None, NOT_AVAILABLE)]
        world.writer.read_error = None
        await eventually(lambda: world.engine.refusal("a") == 0)
        assert world.shards[-1].values == {"a": "1"}
        assert len(world.shards) > 1


async def test_a_load_for_which_the_broker_is_not_leader_is_anothers_business() -> None:
    async with World() as world:
        world.log().append([CoordinatorRecord(b"a", b"1")])
        world.log().leader_epoch = 5
        world.engine.elected(partition_of("a"), 0)
        await eventually(lambda: world.engine.refusal("a") == NOT_HERE)
        world.engine.elected(partition_of("a"), 5)
        await eventually(lambda: world.engine.refusal("a") == 0)


async def test_a_record_that_cannot_be_replayed_keeps_the_shard_shut() -> None:
    async with World() as world:

        def prepare(shard: TextShard) -> None:
            shard.refuses_to_replay = b"bad" if len(world.shards) < 2 else None

        world.prepare = prepare
        world.log().append([CoordinatorRecord(b"bad", b"1")])
        world.engine.elected(partition_of("a"), 0)
        await eventually(lambda: world.engine.refusal("a") == NOT_AVAILABLE)
        assert world.shards[0].story == []
        await eventually(lambda: world.engine.refusal("a") == 0)
        assert len(world.shards) == 3


async def test_a_shard_that_cannot_replay_what_was_appended_is_read_anew() -> None:
    async with World() as world:

        def prepare(shard: TextShard) -> None:
            shard.refuses_to_replay = b"a" if not world.shards else None

        world.prepare = prepare
        first = await world.elect("a")
        world.put("a", "1")
        assert world.told() == [(None, TIMED_OUT)]
        assert world.engine.refusal("a") == LOADING
        await eventually(lambda: world.engine.refusal("a") == 0)
        assert first.story == ["loaded", f"failed a {TIMED_OUT}", f"unloaded {NOT_HERE}"]
        assert world.shards[-1].values == {"a": "1"}
        assert world.engine.breakdowns == 1


async def test_results_of_loading_are_carried_out() -> None:
    async with World() as world:

        def prepare(shard: TextShard) -> None:
            shard.at_load = [shard.put("x", "1"), Result(on_committed=lambda: None)]

        world.prepare = prepare
        shard = await world.elect("a")
        assert shard.values == {"x": "1"}
        assert world.log().records == [CoordinatorRecord(b"x", b"1")]


async def test_a_read_right_after_loading_waits_for_what_was_loaded() -> None:
    """A new leader's log end may be lost again as long as it is not committed."""
    async with World(auto_commit=False) as world:
        world.log().append([CoordinatorRecord(b"a", b"1")])
        await world.elect("a")
        world.get("a")
        assert world.told() == []
        world.log().commit()
        assert world.told() == [("1", 0)]


@pytest.mark.slow
async def test_everything_of_a_million_records_gives_way_to_the_loop() -> None:
    async with World() as world:
        records = [CoordinatorRecord(b"k%d" % (i % 5000), b"v%d" % i) for i in range(1_000_000)]
        for start in range(0, len(records), 50_000):
            world.log().append(records[start : start + 50_000])
        turns = 0
        world.engine.elected(partition_of("a"), 0)
        while world.engine.loading:
            await asyncio.sleep(0)
            turns += 1
        assert turns >= 1000
        shard = world.shards[-1]
        assert len(shard.values) == 5000
        assert shard.values["k4999"] == "v999999"


async def test_all_shards_and_operations_on_all() -> None:
    async with World() as world:
        for partition in (2, 0, 3):
            world.engine.elected(partition, 0)
        await eventually(lambda: not world.engine.loading)
        world.engine.elected(1, 0)
        assert world.engine.all_shards(lambda shard: shard.partition) == [0, 2, 3]
        world.engine.write_all(lambda shard: shard.put("n", str(shard.partition)))
        values = world.engine.all_shards(lambda shard: shard.values["n"])
        assert values == ["0", "2", "3"]


async def test_closing_gives_up_all_and_for_good() -> None:
    async with World(auto_commit=False) as world:
        shard = await world.elect("a")
        world.put("a", "1")
        shard.parked.append(world.reply)
        world.engine.close()
        assert world.told() == [(None, TIMED_OUT), (None, NOT_HERE)]
        world.engine.elected(partition_of("a"), 9)
        assert world.engine.refusal("a") == NOT_HERE
        assert world.engine.led == []


async def test_without_waiting_for_the_load_half_is_served() -> None:
    async with World(safeguards=without("wait_for_load")) as world:
        world.log().append([CoordinatorRecord(b"a", b"1")])
        world.writer.gate = asyncio.Event()
        world.engine.elected(partition_of("a"), 0)
        world.get("a")
        assert world.told() == [("none", 0)]


async def test_without_waiting_for_commits_replies_come_at_once() -> None:
    safeguards = without("replies_wait_for_commit")
    async with World(auto_commit=False, safeguards=safeguards) as world:
        await world.elect("a")
        world.put("a", "1")
        world.get("a")
        assert world.told() == [("ok", 0), ("1", 0)]


async def test_a_leadership_lost_and_not_yet_told_of() -> None:
    """The append finds out before the order has reached the engine."""
    async with World() as world:
        shard = await world.elect("a")
        world.log().leader_epoch = 1
        world.put("a", "1")
        assert world.told() == [(None, NOT_HERE)]
        assert shard.values == {}
        assert shard.story == ["loaded", f"failed a {NOT_HERE}"]
        assert NotLeaderOrFollowerError.code != NOT_HERE


async def test_an_operation_on_a_partition_and_not_on_a_key() -> None:
    async with World() as world:
        await world.elect("a")
        number = partition_of("a")
        world.engine.write_partition(number, lambda shard: shard.put("a", "1", "ok"), world.reply)
        world.engine.write_partition(
            (number + 1) % COUNT, lambda shard: shard.put("b", "1", "ok"), world.reply
        )
        assert world.told() == [("ok", 0), (None, NOT_HERE)]
        assert world.log().records == [CoordinatorRecord(b"a", b"1")]
