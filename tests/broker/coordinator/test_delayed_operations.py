"""A delayed operation goes on in its turn, with its caller, or hears why not."""

from __future__ import annotations

import asyncio

from oncelog_broker.coordinator.led_shard import RESUMED_COUNT_MAX
from oncelog_broker.coordinator.result import Delay, DelayedOperations, Result
from oncelog_protocol.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    RequestTimedOutError,
    StorageError,
)
from support.coordinators import Bench, TextShard
from support.waiting import eventually

NOT_HERE = NotCoordinatorError.code
NOT_AVAILABLE = CoordinatorNotAvailableError.code
TIMED_OUT = RequestTimedOutError.code


class Door:
    """Operations wait for it."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.delayed = DelayedOperations()

    def enter(self, name: str) -> Result[str]:
        """Return the result of an operation that puts ``name`` when the door opens."""

        def go_on(error: ApiError | None) -> Result[str]:
            if error is not None:
                return Result(reply=f"{name}: {error}")
            return self.bench.shard.put(name, "in", f"{name} is in")

        return Result(delay=Delay(self.delayed, go_on))

    def wait(self, name: str) -> None:
        self.bench.led.write(lambda _: self.enter(name), self.bench.reply)

    def open(self) -> None:
        """An operation of the shard lets all go on."""

        def resume(_: TextShard) -> Result[str]:
            self.delayed.resume()
            return Result()

        self.bench.led.write(resume, self.bench.reply)


async def test_what_is_delayed_goes_on_in_order_with_its_caller() -> None:
    bench = Bench(auto_commit=True)
    door = Door(bench)
    door.wait("a")
    door.wait("b")
    assert len(door.delayed) == 2
    assert not bench.told()
    door.open()
    assert bench.told() == [("a is in", 0), ("b is in", 0)]
    door.open()
    assert not len(door.delayed)
    assert not bench.told()


async def test_what_waits_in_vain_hears_why() -> None:
    bench = Bench()
    door = Door(bench)
    door.wait("a")
    door.delayed.refuse(StorageError("no way"))
    assert not bench.told()
    await asyncio.sleep(0)
    assert bench.told() == [("a: no way", 0)]
    assert not bench.log.records


async def test_what_is_delayed_may_be_delayed_again() -> None:
    bench = Bench(auto_commit=True)
    first, second = Door(bench), Door(bench)
    result = Result(delay=Delay(first.delayed, lambda _: second.enter("a")))
    bench.led.write(lambda _: result, bench.reply)
    first.open()
    assert not bench.told()
    second.open()
    assert bench.told() == [("a is in", 0)]


async def test_records_before_a_delay_answer_only_when_they_are_not_committed() -> None:
    bench = Bench()
    door = Door(bench)

    def put_and_wait(shard: TextShard) -> Result[str]:
        result = shard.put("first", "x", None)
        result.delay = door.enter("a").delay
        return result

    bench.led.write(put_and_wait, bench.reply)
    bench.log.commit()
    assert not bench.told()
    door.open()
    bench.log.commit()
    assert bench.told() == [("a is in", 0)]
    bench.writer.refuse = NotEnoughReplicasError()
    bench.led.write(put_and_wait, bench.reply)
    assert bench.told() == [(None, NOT_AVAILABLE)]
    assert not len(door.delayed)
    bench.writer.refuse = None
    bench.led.write(put_and_wait, bench.reply)
    door.open()
    bench.log.fail_waiting(StorageError.code)
    # It has gone on before: what became of the first records is not told, what of its own is.
    assert bench.told() == [(None, TIMED_OUT)]
    assert bench.shard.story[-2:] == [f"failed first {TIMED_OUT}", f"failed a {TIMED_OUT}"]


async def test_so_many_go_on_in_one_turn() -> None:
    bench = Bench(auto_commit=True)
    door = Door(bench)
    count = RESUMED_COUNT_MAX + 2
    for number in range(count):
        door.wait(str(number))
    door.open()
    assert len(bench.answers) == RESUMED_COUNT_MAX
    bench.put("between", "x")
    await eventually(lambda: len(bench.answers) == count + 1)
    answers = [value for value, _ in bench.answers]
    assert answers.index("ok") == RESUMED_COUNT_MAX
    assert answers[-2:] == [f"{count - 2} is in", f"{count - 1} is in"]


async def test_unloading_tells_who_is_delayed_and_nothing_goes_on() -> None:
    bench = Bench(auto_commit=True)
    door, other = Door(bench), Door(bench)
    for number in range(RESUMED_COUNT_MAX + 1):
        door.wait(str(number))
    other.wait("a")
    door.open()
    bench.told()
    bench.led.unload(NOT_AVAILABLE)
    assert bench.told() == [(None, NOT_HERE), (None, NOT_AVAILABLE)]
    other.delayed.resume()
    await asyncio.sleep(0)
    assert not bench.told()


async def test_a_timer_that_is_refused_is_tried_again_if_it_says_so() -> None:
    bench = Bench(auto_commit=True)
    bench.writer.refuse = NotEnoughReplicasError()
    bench.shard.timers.soon(lambda: bench.shard.put("a", "x"), retry_s=0.001)
    await eventually(lambda: bench.writer.refused_count == 2)
    bench.writer.refuse = None
    await eventually(lambda: bench.shard.values == {"a": "x"})
