"""One shard at work: one thing at a time, replies held until committed, refusals, time-outs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from oncelog_broker.coordinator.led_shard import (
    LedShard,
    ShardState,
    append_refusal,
)
from oncelog_broker.coordinator.result import (
    BARRIER,
    CoordinatorRecord,
    Result,
)
from oncelog_broker.coordinator.safeguards import SAFE
from oncelog_protocol.errors import (
    ApiError,
    CoordinatorNotAvailableError,
    FencedLeaderEpochError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    RequestTimedOutError,
    StorageError,
    UnknownServerError,
)
from support.coordinators import TP, Bench, MemoryWriter, TextShard
from support.waiting import eventually

NOT_HERE = NotCoordinatorError.code
NOT_AVAILABLE = CoordinatorNotAvailableError.code
TIMED_OUT = RequestTimedOutError.code


async def test_a_reply_waits_for_its_commit() -> None:
    bench = Bench()
    bench.put("a", "1")
    bench.put("b", "1")
    assert bench.shard.values == {"a": "1", "b": "1"}
    assert bench.told() == []
    bench.log.commit(1)
    assert bench.told() == [("ok", 0)]
    bench.log.commit(2)
    assert bench.told() == [("ok", 0)]
    assert bench.shard.story == ["loaded", "committed a", "committed b"]
    assert bench.led.pending_count == 0


async def test_a_read_sees_now_and_is_told_when_that_is_committed() -> None:
    bench = Bench()
    bench.put("a", "1")
    bench.get("a")
    bench.put("a", "2")
    assert bench.told() == []
    bench.log.commit(1)
    assert bench.told() == [("ok", 0), ("1", 0)]
    bench.log.commit(2)
    bench.get("a")
    assert bench.told() == [("ok", 0), ("2", 0)]


async def test_a_result_without_records_is_given_at_once() -> None:
    bench = Bench()
    bench.put("a", "1")
    bench.led.write(lambda shard: Result(reply="alive"), bench.reply)
    assert bench.told() == [("alive", 0)]


async def test_a_result_that_rests_on_the_log_waits_for_what_is_there() -> None:
    bench = Bench()

    def repeat() -> None:
        result = Result(
            (),
            "again",
            lambda: bench.shard.story.append("sure"),
            lambda code: bench.shard.story.append(f"unsure {code}"),
            rests_on_log=True,
        )
        bench.led.write(lambda _: result, bench.reply)

    repeat()
    assert bench.told() == [("again", 0)]
    bench.put("a", "1")
    repeat()
    assert bench.told() == []
    bench.log.commit()
    assert bench.told() == [("ok", 0), ("again", 0)]
    assert bench.shard.story == ["loaded", "sure", "committed a", "sure"]
    bench.put("a", "2")
    repeat()
    bench.led.unload(NOT_HERE)
    assert bench.told() == [(None, TIMED_OUT)] * 2
    assert f"unsure {TIMED_OUT}" in bench.shard.story


async def test_a_shard_that_wants_to_know_is_told_its_leader_epoch() -> None:
    told: list[int] = []

    class Knowing(TextShard):
        def led_in(self, leader_epoch: int) -> None:
            assert "loaded" not in self.story or told
            told.append(leader_epoch)

    led = LedShard(
        TP,
        3,
        writer=MemoryWriter(),
        make_shard=Knowing,
        commit_timeout_s=60.0,
        safeguards=SAFE,
        on_broken=lambda _: None,
    )
    led.activate(0)
    led.leads_on(5)
    assert (told, led.leader_epoch) == ([3, 5], 5)


async def test_a_parked_caller_is_the_shards_business() -> None:
    bench = Bench(auto_commit=True)

    def park(shard: TextShard) -> Result[str]:
        shard.parked.append(bench.reply)
        return Result()

    bench.led.write(park, bench.reply)
    bench.put("a", "1", reply=None)
    assert bench.told() == []
    bench.writer.fail(NotEnoughReplicasError.code)
    bench.put("a", "2", reply=None)
    assert bench.told() == []
    assert bench.shard.story[-1] == f"failed a {NOT_AVAILABLE}"
    bench.led.unload(NOT_HERE)
    assert bench.told() == [(None, NOT_HERE)]


async def test_without_on_failure_a_refused_append_is_replied() -> None:
    bench = Bench()
    bench.writer.fail(NotEnoughReplicasError.code)
    bench.led.write(lambda _: Result([CoordinatorRecord(b"a", b"1")]), bench.reply)
    assert bench.told() == [(None, NOT_AVAILABLE)]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotLeaderOrFollowerError, NotCoordinatorError),
        (FencedLeaderEpochError, NotCoordinatorError),
        (NotEnoughReplicasError, CoordinatorNotAvailableError),
        (MessageTooLargeError, InvalidCommitOffsetSizeError),
        (RecordListTooLargeError, InvalidCommitOffsetSizeError),
        (StorageError, RequestTimedOutError),
        (IllegalGenerationError, CoordinatorNotAvailableError),
    ],
)
async def test_a_refused_append_replays_nothing(
    error: type[ApiError], told: type[ApiError]
) -> None:
    bench = Bench()
    bench.writer.fail(error.code)
    bench.put("a", "1")
    assert append_refusal(error()) == told.code
    assert bench.told() == [(None, told.code)]
    assert bench.shard.values == {}
    assert bench.shard.story == ["loaded", f"failed a {told.code}"]
    bench.writer.fail(0)
    bench.put("a", "2")
    assert bench.shard.values == {"a": "2"}


async def test_an_append_that_fails_in_no_known_way_may_have_happened() -> None:
    bench = Bench()
    bench.writer.append = broken_append  # type: ignore[assignment,method-assign]
    bench.put("a", "1")
    assert bench.told() == [(None, TIMED_OUT)]


def broken_append(*_: object) -> int:
    raise ValueError("a bug")


async def test_operations_that_refuse_or_fail() -> None:
    bench = Bench()

    def refuse(shard: TextShard) -> Result[str]:
        raise IllegalGenerationError

    def fail(shard: TextShard) -> Result[str]:
        raise ValueError("a bug")

    bench.led.write(refuse, bench.reply)
    bench.led.write(fail, bench.reply)
    bench.led.read(refuse, bench.reply)
    bench.led.read(fail, bench.reply)
    refused, failed = (None, IllegalGenerationError.code), (None, UnknownServerError.code)
    assert bench.told() == [refused, failed, refused, failed]
    assert bench.log.records == []


async def test_what_a_reply_brings_waits_for_its_turn() -> None:
    """A reply may bring the client's next request at once: not into the middle of an operation."""
    bench = Bench(auto_commit=True)
    order: list[str] = []

    def second(shard: TextShard) -> Result[str]:
        order.append("second")
        return Result(reply="2")

    def first(shard: TextShard) -> Result[str]:
        bench.led.write(second, bench.reply)
        bench.led.read(lambda _: order.append("read"), lambda value, code: None)
        order.append("first")
        return shard.put("a", "1")

    bench.led.write(first, bench.reply)
    assert order == ["first", "second", "read"]
    assert bench.told() == [("2", 0), ("ok", 0)]


async def test_commits_are_heard_one_after_another() -> None:
    """An append that moves the high watermark itself does not run on_committed inside of it."""
    bench = Bench()
    order: list[str] = []
    bench.led.write(
        lambda _: Result([CoordinatorRecord(b"a", b"1")], "1", lambda: order.append("committed")),
        bench.reply,
    )

    def operation(shard: TextShard) -> Result[str]:
        bench.log.commit()
        order.append("operation")
        return Result(reply="2")

    bench.led.write(operation, bench.reply)
    assert order == ["operation", "committed"]


async def test_a_commit_that_takes_too_long_may_have_happened() -> None:
    bench = Bench(commit_timeout_s=0.02)
    bench.put("a", "1")
    bench.get("a")
    await eventually(lambda: len(bench.answers) == 2)
    assert bench.told() == [(None, TIMED_OUT), (None, NOT_AVAILABLE)]
    assert bench.shard.values == {"a": "1"}, "it was appended, so it is the state"
    assert bench.shard.story == ["loaded", f"failed a {TIMED_OUT}"]
    bench.log.commit()
    assert bench.told() == []
    bench.get("a")
    assert bench.told() == [("1", 0)]
    bench.put("a", "2")
    await eventually(lambda: len(bench.answers) == 1)
    assert bench.told() == [(None, TIMED_OUT)]


async def test_a_commit_that_cannot_be_waited_for_may_have_happened() -> None:
    bench = Bench()
    bench.put("a", "1")
    bench.get("a")
    bench.log.fail_waiting(NotEnoughReplicasAfterAppendError.code)
    assert bench.told() == [(None, TIMED_OUT), (None, NOT_AVAILABLE)]
    bench.put("b", "1")
    bench.get("a")
    bench.log.fail_waiting(NotLeaderOrFollowerError.code)
    assert bench.told() == [(None, TIMED_OUT), (None, NOT_HERE)]


async def test_unloading_tells_everybody_who_waits() -> None:
    bench = Bench()
    bench.put("a", "1")
    bench.get("a")
    bench.shard.parked.append(bench.reply)
    bench.led.unload(NOT_HERE)
    assert bench.told() == [(None, TIMED_OUT), (None, NOT_HERE), (None, NOT_HERE)]
    assert bench.shard.story == ["loaded", f"failed a {TIMED_OUT}", f"unloaded {NOT_HERE}"]
    bench.log.commit()
    bench.led.unload(NOT_HERE)
    assert bench.told() == []


async def test_after_unloading_nothing_runs() -> None:
    bench = Bench()
    bench.shard.timers.set("t", 0.0, lambda: Result([CoordinatorRecord(b"t", b"1")]))
    bench.led.unload(NOT_HERE)
    bench.put("a", "1")
    bench.get("a")
    assert bench.told() == [(None, NOT_HERE)] * 2
    bench.shard.timers.set("t", 0.0, lambda: Result([CoordinatorRecord(b"t", b"1")]))
    assert len(bench.led.timers) == 0
    assert bench.log.records == []
    assert bench.led.state is ShardState.UNLOADED


async def test_unloaded_in_the_middle_of_an_operation() -> None:
    """The append finds a broken replica, which ends the leadership at once: the operation goes to
    its end first, what waits behind it is refused."""
    bench = Bench()

    def operation(shard: TextShard) -> Result[str]:
        bench.led.write(lambda s: s.put("b", "1"), bench.reply)
        bench.led.unload(NOT_HERE)
        return shard.put("a", "1")

    bench.led.write(operation, bench.reply)
    assert bench.told() == [(None, NOT_HERE), (None, TIMED_OUT)]
    assert bench.shard.story[-1] == f"unloaded {NOT_HERE}"


async def test_timers_run_as_operations() -> None:
    bench = Bench(auto_commit=True)
    bench.shard.timers.set("t", 0.0, lambda: Result([CoordinatorRecord(b"t", b"1")]))
    await eventually(lambda: bench.shard.values == {"t": "1"})
    assert bench.log.records == [CoordinatorRecord(b"t", b"1")]


async def test_a_timer_that_fails_harms_no_other() -> None:
    bench = Bench(auto_commit=True)

    def fail() -> Result[None]:
        raise ValueError("a bug")

    bench.shard.timers.set("bad", 0.0, fail)
    bench.shard.timers.set("good", 0.0, lambda: Result([CoordinatorRecord(b"t", b"1")]))
    await eventually(lambda: bench.shard.values == {"t": "1"})


async def test_a_timer_whose_records_are_refused_sets_itself_again() -> None:
    bench = Bench(auto_commit=True)
    bench.writer.fail(NotEnoughReplicasError.code)
    tries: list[int] = []

    def expire() -> Result[None]:
        return Result([CoordinatorRecord(b"t", b"1")], on_failure=again)

    def again(code: int) -> None:
        tries.append(code)
        if len(tries) == 2:
            bench.writer.fail(0)
        bench.shard.timers.set("t", 0.0, expire)

    bench.shard.timers.set("t", 0.0, expire)
    await eventually(lambda: bench.shard.values == {"t": "1"})
    assert tries == [NOT_AVAILABLE] * 2


async def test_timers_set_while_loading_are_held() -> None:
    ran: list[str] = []

    def make(partition: int, timers: Any) -> TextShard:
        shard = TextShard(partition, timers)
        timers.set("t", 0.0, note(ran, "t"))
        return shard

    led = LedShard(
        TP,
        0,
        writer=MemoryWriter(),
        make_shard=make,
        commit_timeout_s=1.0,
        safeguards=SAFE,
        on_broken=lambda led: None,
    )
    assert not led.serves
    led.replay([CoordinatorRecord(b"a", b"1")])
    assert ran == []
    led.activate(1)
    await eventually(lambda: ran == ["t"])


def note(ran: list[str], name: str) -> Callable[[], Result[None]]:
    def operation() -> Result[None]:
        ran.append(name)
        return Result()

    return operation


async def test_a_shard_that_cannot_be_loaded_serves_nothing() -> None:
    bench = Bench()
    led = LedShard(
        TP,
        0,
        writer=bench.writer,
        make_shard=TextShard,
        commit_timeout_s=1.0,
        safeguards=SAFE,
        on_broken=lambda led: None,
    )
    led.fail(NOT_AVAILABLE)
    assert led.state is ShardState.FAILED
    assert led.refusal_code == NOT_AVAILABLE
    assert not led.serves
    assert "failed" in repr(led)


async def test_time_outs_that_follow_within_a_millisecond() -> None:
    """With uvloop what is due so soon is no timer, and does not know when it is due."""
    told: list[int] = []

    async def story() -> None:
        bench = Bench(commit_timeout_s=0.002)
        bench.put("a", "1")
        await asyncio.sleep(0.0005)
        bench.put("b", "1")
        await eventually(lambda: len(bench.answers) == 2)
        told.extend(code for _, code in bench.told())

    await asyncio.to_thread(uvloop.run, story())
    assert told == [TIMED_OUT, TIMED_OUT]


# ---------------------------------------------------------------- barriers


def ask(bench: Bench, name: str) -> None:
    bench.led.read_confirmed(lambda shard: shard.values.get(name, "none"), bench.reply)


async def test_a_confirmed_read_waits_for_a_write_that_says_nothing() -> None:
    bench = Bench()
    ask(bench, "a")
    assert bench.told() == []
    assert [record.key for record in bench.log.records] == [BARRIER.key]
    bench.log.commit()
    assert bench.told() == [("none", 0)]


async def test_questions_share_barriers_that_were_written_after_them() -> None:
    bench = Bench()
    for name in "abc":
        ask(bench, name)
    assert len(bench.log.records) == 1, "the others came when it was written"
    bench.put("b", "1")
    bench.log.commit()
    assert len(bench.log.records) == 3, "one more for both"
    assert bench.told() == [("none", 0), ("ok", 0)]
    bench.log.commit()
    assert bench.told() == [("1", 0), ("none", 0)]


async def test_who_cannot_commit_tells_nothing_from_the_past() -> None:
    bench = Bench(commit_timeout_s=0.01)
    ask(bench, "a")
    ask(bench, "b")
    await eventually(lambda: len(bench.answers) == 2)
    assert bench.told() == [(None, NOT_AVAILABLE)] * 2


async def test_unloading_answers_who_waits_for_a_barrier() -> None:
    bench = Bench()
    ask(bench, "a")
    ask(bench, "b")
    bench.led.unload(NOT_HERE)
    assert bench.told() == [(None, NOT_AVAILABLE), (None, NOT_HERE)]


async def test_barriers_are_no_news_to_a_shard_that_loads() -> None:
    bench = Bench()
    bench.led.replay([BARRIER])
    assert bench.shard.values == {}
