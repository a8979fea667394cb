"""Leader epochs agree with a brute-force model, and with the cases of KIP-279 by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_broker.log.epoch_history import UNDEFINED, EpochHistory


class BruteForce:
    """It gives the same answers from a plain list: the epoch of every offset."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self.start = 0

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """Follow KIP-279, word for word, over every single record."""
        if epoch < 0 or not self.log or epoch > self.log[-1]:
            return UNDEFINED
        end = self.start + len(self.log)
        if epoch == self.log[-1]:
            return epoch, end
        below = [e for e in self.log if e <= epoch]
        if not below:
            return epoch, self.start
        return max(below), self.start + len(below)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.just("cut"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("start"), st.integers(0, 40), st.just(0)),
    ),
    max_size=30,
)


@given(steps)
def test_agrees_with_brute_force(moves: list[tuple[str, int, int]]) -> None:
    history, model = EpochHistory(), BruteForce()
    for kind, a, b in moves:
        end = model.start + len(model.log)
        if kind == "append":
            epoch = (model.log[-1] if model.log else 0) + a
            history.assign(epoch, end)
            model.log += [epoch] * b
        elif kind == "cut":
            target = max(a, model.start)
            history.truncate_from_end(target)
            del model.log[target - model.start :]
        else:
            target = min(max(a, model.start), end)
            history.truncate_from_start(target)
            history.truncate_from_end(max(end, target))
            del model.log[: target - model.start]
            model.start = target
        if not model.log:
            history.clear()
        entries = history.entries()
        epochs = [epoch for epoch, _ in entries]
        starts = [start for _, start in entries]
        assert epochs == sorted(set(epochs))
        assert starts == sorted(set(starts))
        end = model.start + len(model.log)
        for epoch in range(-1, (model.log[-1] if model.log else 0) + 3):
            assert history.end_offset_for(epoch, end) == model.end_offset_for(epoch), epoch
        for number, epoch in enumerate(model.log):
            assert history.epoch_at(model.start + number) == epoch


# The leader's history is [(0, 0), (2, 10), (5, 30)], its log ends at 40.
@pytest.mark.parametrize(
    ("case", "asked", "answer"),
    [
        ("A: the newest epoch ends at the log end", 5, (5, 40)),
        ("B: an epoch in the middle ends where the next begins", 2, (2, 30)),
        ("C: an epoch that the leader never had answers with the one below", 3, (2, 30)),
        ("D: the same, over a wider gap", 4, (2, 30)),
        ("E: one that wrote nothing here, after the first", 1, (0, 10)),
        ("F: newer than anything here is unknown", 6, UNDEFINED),
        ("G: undefined stays undefined", -1, UNDEFINED),
    ],
)
def test_kip_279(case: str, asked: int, answer: tuple[int, int]) -> None:
    history = EpochHistory([(0, 0), (2, 10), (5, 30)])
    assert history.end_offset_for(asked, 40) == answer, case


def test_below_the_first_entry_answers_the_asked_epoch_and_the_first_start() -> None:
    # KAFKA-7415: everything of that epoch lies before this log.
    history = EpochHistory([(4, 100), (7, 200)])
    assert history.end_offset_for(2, 250) == (2, 100)


def test_an_empty_history_knows_nothing() -> None:
    assert EpochHistory().end_offset_for(0, 0) == UNDEFINED
    assert EpochHistory().latest == -1
    assert EpochHistory().epoch_at(5) == -1


def test_an_epoch_that_wrote_nothing_gives_way() -> None:
    history = EpochHistory([(1, 0)])
    assert history.assign(3, 10)
    assert history.assign(4, 10)
    assert history.entries() == [(1, 0), (4, 10)]
    # An older one too: a deposed leader of epoch 4 that wrote nothing follows one of epoch 2.
    assert history.assign(2, 10)
    assert history.entries() == [(1, 0), (2, 10)]


def test_assigning_again_changes_nothing() -> None:
    history = EpochHistory([(1, 0), (2, 10)])
    assert not history.assign(2, 10)
    assert not history.assign(2, 25)
    assert history.revision == 0


def test_the_same_epoch_again_removes_empty_newer_ones() -> None:
    history = EpochHistory([(1, 0), (2, 10), (5, 20)])
    assert history.assign(2, 20)
    assert history.entries() == [(1, 0), (2, 10)]
    history = EpochHistory([(1, 0), (2, 10), (5, 20)])
    assert history.assign(2, 10)
    assert history.entries() == [(1, 0), (2, 10)]


def test_an_older_epoch_cannot_take_over_what_a_newer_one_wrote() -> None:
    history = EpochHistory([(1, 0), (5, 10)])
    with pytest.raises(ValueError, match="older"):
        history.assign(3, 20)
    assert history.entries() == [(1, 0), (5, 10)]


@pytest.mark.parametrize(
    "entries", [[(1, 0), (1, 5)], [(2, 0), (1, 5)], [(1, 5), (2, 5)], [(-1, 0)], [(0, -1)]]
)
def test_entries_must_increase(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError):
        EpochHistory(entries)


def test_negative_epochs_and_offsets_are_refused() -> None:
    with pytest.raises(ValueError):
        EpochHistory().assign(-1, 0)
    with pytest.raises(ValueError):
        EpochHistory().assign(0, -1)


def test_truncation_above_the_log_end_still_cleans_the_tail() -> None:
    # KAFKA-10706: the log ends at 10 and nothing is cut, but epoch 5 began there.
    history = EpochHistory([(1, 0), (5, 10)])
    assert history.truncate_from_end(10)
    assert history.entries() == [(1, 0)]
    assert not history.truncate_from_end(10)


def test_the_epoch_that_holds_the_new_start_begins_there() -> None:
    history = EpochHistory([(1, 0), (3, 10), (5, 20)])
    assert history.truncate_from_start(15)
    assert history.entries() == [(3, 15), (5, 20)]
    assert not history.truncate_from_start(15)
    assert not history.truncate_from_start(3)


def test_revision_moves_with_each_change() -> None:
    history = EpochHistory()
    seen = [history.revision]
    for change in (
        lambda: history.assign(1, 0),
        lambda: history.assign(2, 9),
        lambda: history.truncate_from_start(4),
        lambda: history.truncate_from_end(9),
        history.clear,
    ):
        change()
        seen.append(history.revision)
    assert seen == sorted(set(seen))
    history.clear()
    assert history.revision == seen[-1]
