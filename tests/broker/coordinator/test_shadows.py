"""A broker that is elected has what it read of a coordinator's partition while it followed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_broker.coordinator import shadows
from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.coordinator.result import CoordinatorRecord, Result
from oncelog_broker.coordinator.safeguards import SAFE, CoordinatorSafeguards
from oncelog_broker.coordinator.timers import ShardTimers
from oncelog_protocol.errors import (
    CoordinatorLoadInProgressError,
    NotCoordinatorError,
    StorageError,
)
from oncelog_runtime.tasks import Tasks
from support.coordinators import TP, MemoryPartition, MemoryWriter, TextShard
from support.waiting import eventually
from unsafe.coordinators import without

NOT_HERE = NotCoordinatorError.code
LOADING = CoordinatorLoadInProgressError.code
NEXT = TP.partition


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "LOOK_S", 0.001)
    monkeypatch.setattr(shadows, "AGAIN_S", 0.001)


class World:
    """It is an engine that follows one partition, of which it is to be the next leader."""

    def __init__(self, safeguards: CoordinatorSafeguards = SAFE) -> None:
        self.writer = MemoryWriter()
        self.shards: list[TextShard] = []
        self.failures: list[str] = []
        self.tasks = Tasks("test", lambda name, error: self.failures.append(f"{name}: {error!r}"))
        self.engine = CoordinatorEngine(
            name="texts",
            topic=TP.topic,
            writer=self.writer,
            make_shard=self._make_shard,
            tasks=self.tasks,
            commit_timeout_ms=60_000,
            safeguards=safeguards,
        )
        self.engine.set_partition_count(1)

    def _make_shard(self, partition: int, timers: Any) -> TextShard:
        self.shards.append(TextShard(partition, timers))
        return self.shards[-1]

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.engine.close()
        await self.tasks.close()
        assert not self.failures

    @property
    def log(self) -> MemoryPartition:
        return self.writer.partition(TP)

    def write(self, **texts: str) -> None:
        """Write as another leader does; all is committed."""
        for name, text in texts.items():
            self.log.append([CoordinatorRecord(name.encode(), text.encode())])
        self.log.commit()

    async def follow(self, **texts: str) -> TextShard:
        """Be named, and have read what the shadow is to know."""
        self.engine.resigned(NEXT, 0, is_next=True)
        await eventually(lambda: self.shards[-1].values == texts, what="a shadow that has read all")
        return self.shards[-1]

    async def lead(self, epoch: int = 1) -> dict[str, str]:
        """Be elected; return what the shard knows."""
        self.engine.elected(NEXT, epoch)
        await eventually(lambda: self.engine.refusal("a") == 0, what="a loaded shard")
        return self.engine.led[0].shard.values


async def test_a_shadow_reads_what_is_committed_and_nothing_else() -> None:
    async with World() as world:
        world.write(a="1")
        shadow = await world.follow(a="1")
        world.write(a="2", b="3")
        await eventually(lambda: shadow.values == {"a": "2", "b": "3"})
        world.log.append([CoordinatorRecord(b"a", b"lost, maybe")])
        await asyncio.sleep(0.01)
        assert shadow.values == {"a": "2", "b": "3"}


async def test_a_shadow_serves_nobody_and_its_timers_are_held() -> None:
    async with World() as world:
        world.write(a="1")
        shadow = await world.follow(a="1")
        assert world.engine.refusal("a") == NOT_HERE
        assert not world.engine.loading
        assert world.engine.led == []
        assert world.engine.all_shards(lambda shard: shard.values) == []
        assert shadow.story == []
        ran: list[int] = []
        assert isinstance(shadow.timers, ShardTimers)

        def due() -> Result[None]:
            ran.append(1)
            return Result()

        shadow.timers.soon(due)
        await asyncio.sleep(0.01)
        assert not ran


async def test_whoever_is_elected_adopts_its_shadow_and_reads_on_to_the_end() -> None:
    async with World() as world:
        world.write(a="1", b="1")
        shadow = await world.follow(a="1", b="1")
        world.log.append([CoordinatorRecord(b"b", b"2")])  # what a leader has will be committed
        assert await world.lead() == {"a": "1", "b": "2"}
        assert world.shards == [shadow]
        assert shadow.story == ["loaded"]
        assert world.engine.led[0].leader_epoch == 1
        answers: list[tuple[Any, int]] = []
        world.engine.write("a", lambda s: s.put("a", "3"), lambda *answer: answers.append(answer))
        assert answers == [("ok", 0)]


async def test_a_shadow_that_is_still_reading_is_adopted_and_misses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is elected in the middle of a batch."""
    monkeypatch.setattr(shadows, "REPLAY_COUNT_MAX", 3)
    async with World() as world:
        texts = {f"k{number}": str(number) for number in range(10)}
        world.log.append([CoordinatorRecord(k.encode(), v.encode()) for k, v in texts.items()])
        world.write(last="1")
        world.engine.resigned(NEXT, 0, is_next=True)
        while not world.shards[-1].values:
            await asyncio.sleep(0)
        assert len(world.shards[-1].values) == 3
        world.engine.elected(NEXT, 1)
        assert world.engine.refusal("a") == LOADING
        assert await world.lead() == texts | {"last": "1"}
        assert len(world.shards) == 1


async def test_a_shadow_of_a_log_that_was_cut_is_thrown_away() -> None:
    async with World() as world:
        world.write(a="1", b="1")
        shadow = await world.follow(a="1", b="1")
        world.log.cut(1)
        world.write(b="2")
        assert await world.lead() == {"a": "1", "b": "2"}
        assert shadow.story == [f"unloaded {NOT_HERE}"]


async def test_without_the_rule_a_value_goes_back() -> None:
    async with World(without("adopt_uncut_only")) as world:
        world.write(a="1", b="1")
        await world.follow(a="1", b="1")
        world.log.cut(1)
        world.write(b="2")
        assert await world.lead() == {"a": "1", "b": "1"}


async def test_a_cut_that_the_shadow_sees_itself_makes_it_begin_anew() -> None:
    async with World() as world:
        world.write(a="1", b="1")
        await world.follow(a="1", b="1")
        world.log.cut(1)
        world.write(b="2")
        await eventually(lambda: world.shards[-1].values == {"a": "1", "b": "2"})
        assert len(world.shards) == 2
        assert await world.lead() == {"a": "1", "b": "2"}
        assert len(world.shards) == 2


async def test_a_shadow_is_warm_when_little_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadows, "WARM_RECORDS", 2)
    async with World() as world:
        world.write(a="1", b="2", c="3")
        world.writer.gate = asyncio.Event()
        world.engine.resigned(NEXT, 0, is_next=True)
        await asyncio.sleep(0.01)
        assert world.engine.warm == []
        world.writer.gate.set()
        await eventually(lambda: world.engine.warm == [NEXT])
        await world.lead()
        assert world.engine.warm == []


@pytest.mark.parametrize("why", ["another is to lead", "closed"])
async def test_a_shadow_that_nobody_wants_any_more_is_forgotten(why: str) -> None:
    async with World() as world:
        world.write(a="1")
        shadow = await world.follow(a="1")
        if why == "closed":
            world.engine.close()
        else:
            world.engine.resigned(NEXT, 2)
        assert shadow.story == [f"unloaded {NOT_HERE}"]
        assert world.engine.warm == []


async def test_a_shadow_lives_on_when_the_leader_changes_to_a_third() -> None:
    async with World() as world:
        world.write(a="1")
        shadow = await world.follow(a="1")
        world.engine.resigned(NEXT, 1, is_next=True)
        await world.lead(epoch=2)
        assert world.shards == [shadow]


async def test_whoever_led_and_is_to_lead_again_reads_anew() -> None:
    async with World() as world:
        world.write(a="1")
        await world.lead()
        world.engine.resigned(NEXT, 2, is_next=True)
        assert world.engine.refusal("a") == NOT_HERE
        world.write(a="2")
        await eventually(lambda: world.shards[-1].values == {"a": "2"})
        assert await world.lead(epoch=3) == {"a": "2"}
        assert len(world.shards) == 2


@pytest.mark.parametrize("error", [StorageError("the disk"), ValueError("a defect")])
async def test_a_shadow_that_fails_is_made_anew(error: Exception) -> None:
    async with World() as world:
        world.write(a="1", b="2")
        world.writer.read_error = error
        world.engine.resigned(NEXT, 0, is_next=True)
        await eventually(lambda: len(world.shards) > 2)
        world.writer.read_error = None
        await eventually(lambda: world.shards[-1].values == {"a": "1", "b": "2"})
        assert await world.lead() == {"a": "1", "b": "2"}
