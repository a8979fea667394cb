"""These tests read the histories of members, on hand-made ones."""

from __future__ import annotations

from collections.abc import Iterable

from integration.groups import in_order, moves_of, owned_by, polled_offsets, read_twice
from oncelog import HistoryRecorder, TopicPartition
from simulation.history import HistoryEvent

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)


class Story:
    """Events of several members, told one after the other."""

    def __init__(self) -> None:
        self.events: list[HistoryEvent] = []
        self._recorders: dict[str, HistoryRecorder] = {}

    def member(self, name: str) -> HistoryRecorder:
        if name not in self._recorders:
            self._recorders[name] = HistoryRecorder(
                name, self.events.append, lambda: float(len(self.events))
            )
        return self._recorders[name]

    def assigned(self, name: str, *partitions: TopicPartition) -> None:
        self.member(name).owned("assigned", "g", name, 1, partitions)

    def revoked(self, name: str, *partitions: TopicPartition) -> None:
        self.member(name).owned("revoked", "g", name, 1, partitions)

    def polled(self, name: str, offsets: Iterable[int]) -> None:
        number = self.member(name).invoke("poll", "t", 0, ())
        at = list(offsets)
        self.member(name).ok(number, at, [b"%d" % offset for offset in at])


def test_who_owns_what() -> None:
    story = Story()
    story.assigned("a", P0, P1)
    story.revoked("a", P1)
    story.assigned("a")
    assert owned_by(story.events) == {P0}
    assert [event.f for event in moves_of(story.events)] == ["revoked"]
    story.member("a").crashed()
    assert owned_by(story.events) == set()


def test_what_was_read_and_how_often() -> None:
    story = Story()
    story.polled("a", range(3))
    assert read_twice(story.events) == {}
    story.polled("b", (2, 4))
    assert polled_offsets(story.events)["t", 0][2] == 2
    assert read_twice(story.events) == {("t", 0): [2]}


def test_events_of_files_in_order_of_time() -> None:
    story = Story()
    story.polled("a", [0])
    story.polled("b", [1])
    backwards = [e for e in story.events if e.process == "b"] + [
        e for e in story.events if e.process == "a"
    ]
    assert in_order(backwards) == story.events
