"""A thread that speaks for a loop knows when the loop has stopped."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_controller.dead_man import DeadMan


class Loop:
    """It turns when the test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waiting: list[Callable[[], None]] = []
        self.dead_man = DeadMan(self.waiting.append, patience_s=6.0, now_s=lambda: self.now_s)

    def turn(self) -> None:
        waiting, self.waiting[:] = self.waiting[:], []
        for callback in waiting:
            callback()


def test_a_loop_that_turns_may_be_spoken_for() -> None:
    loop = Loop()
    for _ in range(20):
        assert loop.dead_man.turns()
        loop.now_s += 2.0
        loop.turn()


def test_a_loop_that_hangs_is_not_spoken_for_after_its_time() -> None:
    loop = Loop()
    assert loop.dead_man.turns()
    loop.now_s += 5.9
    assert loop.dead_man.turns()
    loop.now_s += 0.1
    assert not loop.dead_man.turns()
    assert len(loop.waiting) == 1, "it is not asked again and again"
    loop.turn()
    assert loop.dead_man.turns()
