"""Keys are looked at a little in each turn of the loop, for all requests together."""

from __future__ import annotations

import pytest

from oncelog_broker.log.key_check import KeyCheck
from oncelog_broker.server.handlers.key_checks import (
    WORK_A_TURN,
    KeyCheckQueue,
    WaitingRequest,
    step_all,
)
from oncelog_protocol.records.batch import KAFKA_MAGIC, parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.compression import PIECE_BYTES, Codec
from oncelog_protocol.records.kafka_body import WORK_BYTES
from support.turns import Turns
from support.waiting import eventually

WORK_OVER = PIECE_BYTES // WORK_BYTES + 1
"""The last piece of a turn may be so much more than was left."""


class Noting(KeyCheck):
    """It notes in which turn of the loop how much was done."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns, count: int, size: int = 1, codec: Codec = Codec.NONE) -> None:
        values = [b"%d" % index * size for index in range(count)]
        batch = encode_batch(
            values, keys=[b"k"] * count, timestamps=1, codec=codec, magic=KAFKA_MAGIC
        )
        super().__init__(memoryview(batch), parse_header(batch))
        self._turns = turns

    def step(self, work: int) -> int:
        left = super().step(work)
        self._turns.note(work - left)
        return left


def request(checks: list[KeyCheck], done: list[str], name: str = "done") -> WaitingRequest:
    return WaitingRequest(
        checks, lambda: False, lambda: done.append(name), lambda: done.append("failed")
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
async def test_no_turn_of_the_loop_does_more_than_its_work(codec: Codec) -> None:
    done: list[str] = []
    async with Turns() as turns:
        queue = KeyCheckQueue()
        checks: list[KeyCheck] = [Noting(turns, 10_000, 20, codec) for _ in range(3)]
        queue.add(request(checks, done))
        queue.add(request([Noting(turns, 10_000, 20, codec)], done))
        await eventually(lambda: len(done) == 2)
        assert turns.noted >= 40_000
        assert turns.most_in_one <= WORK_A_TURN + WORK_OVER
    assert all(check.done for check in checks)


async def test_small_checks_are_done_at_once_and_one_more_is_not_begun() -> None:
    async with Turns() as turns:
        small = [Noting(turns, 3) for _ in range(5)]
        assert step_all(small)
        large, next_one = Noting(turns, 3 * WORK_A_TURN), Noting(turns, 3)
        assert not step_all([large, next_one])
        assert not next_one.done


async def test_a_request_with_much_keeps_no_other_one_back() -> None:
    done: list[str] = []
    async with Turns() as turns:
        queue = KeyCheckQueue()
        queue.add(request([Noting(turns, 40 * WORK_A_TURN)], done, "much"))
        queue.add(request([Noting(turns, 2 * WORK_A_TURN)], done, "little"))
        await eventually(lambda: len(done) == 2)
    assert done == ["little", "much"]


async def test_a_request_whose_connection_is_gone_is_forgotten() -> None:
    done: list[str] = []
    gone = False
    async with Turns() as turns:
        queue = KeyCheckQueue()
        waiting = request([Noting(turns, 5 * WORK_A_TURN)], done, "gone")
        waiting.is_gone = lambda: gone
        queue.add(waiting)
        await eventually(lambda: turns.noted > 0)
        gone = True
        queue.add(request([Noting(turns, WORK_A_TURN)], done, "stays"))
        await eventually(lambda: bool(done))
    assert done == ["stays"]
    assert not waiting.checks[0].done


async def test_after_a_bug_the_others_go_on() -> None:
    done: list[str] = []

    def raising() -> None:
        raise RuntimeError("a bug")

    async with Turns() as turns:
        queue = KeyCheckQueue()
        broken = request([Noting(turns, WORK_A_TURN)], done)
        broken.then = raising
        queue.add(broken)
        queue.add(request([Noting(turns, WORK_A_TURN)], done))
        await eventually(lambda: len(done) == 2)
    assert sorted(done) == ["done", "failed"]
