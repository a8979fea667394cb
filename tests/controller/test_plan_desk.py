"""Jobs are done one after another, a turn at a time, and begin anew when the store was read."""

from __future__ import annotations

from oncelog_controller.balance.turns import Work
from oncelog_controller.core import Core
from oncelog_controller.plan_desk import PlanDesk, PlanJob
from support.room_settings import controller_settings


class Notes:
    """They say what jobs have done."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def job(self, name: str) -> PlanJob:
        def work() -> Work[None]:
            self.taken.append(f"{name} begins")
            yield
            self.taken.append(f"{name} is done")

        return work


def test_one_job_after_another_a_turn_at_a_time() -> None:
    desk, notes = PlanDesk(Core(1, controller_settings())), Notes()
    desk.go_on()
    desk.ask(notes.job("a"))
    desk.ask(notes.job("b"))
    seen: list[tuple[str, bool]] = []
    while desk.waiting:
        desk.go_on()
        seen.append((notes.taken[-1], desk.deadline is None))
    assert seen == [
        ("a begins", False),
        ("a is done", False),
        ("b begins", False),
        ("b is done", True),
    ]


def test_what_is_worked_at_begins_anew_when_the_store_was_read() -> None:
    desk, notes = PlanDesk(Core(1, controller_settings())), Notes()
    desk.ask(notes.job("a"))
    desk.go_on()
    desk.loaded()
    while desk.waiting:
        desk.go_on()
    assert notes.taken == ["a begins", "a begins", "a is done"]
