"""A pause is over in its time, or when something has changed."""

from __future__ import annotations

import asyncio

import pytest

from oncelog_runtime.pause import Pause


async def test_it_ends_in_its_time() -> None:
    await Pause().sleep(0.001)
    await Pause().sleep(0)


async def test_it_ends_early_and_sleeps_again() -> None:
    pause, rounds = Pause(), 0

    async def loop() -> None:
        nonlocal rounds
        while True:
            await pause.sleep(None)
            rounds += 1

    task = asyncio.get_running_loop().create_task(loop())
    for expected in (1, 2):
        pause.end()
        pause.end()
        for _ in range(5):
            await asyncio.sleep(0)
        assert rounds == expected
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_change_while_nobody_sleeps_is_not_slept_through() -> None:
    pause = Pause()
    pause.end()
    async with asyncio.timeout(5):
        await pause.sleep(None)
