"""Work in pieces: one a turn, whatever is in line."""

from __future__ import annotations

import asyncio

from oncelog_broker.log.slices import Slices, Work
from support.turns import Turns


def work(pieces: int, turns: Turns) -> Work:
    left = pieces

    def piece() -> bool:
        nonlocal left
        left -= 1
        turns.note()
        return left > 0

    return piece


async def test_one_piece_is_done_in_a_turn_of_all_that_is_in_line() -> None:
    slices = Slices()
    async with Turns() as turns:
        for pieces in (1, 5, 3):
            assert slices.add(work(pieces, turns))
        assert len(slices) == 3
        while slices:
            await asyncio.sleep(0)
    assert turns.noted == 9
    assert turns.most_in_one == 1


async def test_a_work_that_breaks_down_ends_alone() -> None:
    slices = Slices()

    def broken() -> bool:
        raise ValueError("broken")

    async with Turns() as turns:
        slices.add(broken)
        slices.add(work(3, turns))
        while slices:
            await asyncio.sleep(0)
    assert turns.noted == 3


def test_without_a_loop_nothing_is_taken() -> None:
    assert not Slices().add(lambda: False)
