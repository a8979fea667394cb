"""Pauses grow, are jittered, bounded, and start over."""

from __future__ import annotations

from oncelog.core.backoff import GROWTH, JITTER, Backoff
from oncelog_runtime.entropy import SeededEntropy


def make(first_s: float = 0.01, max_s: float = 0.5) -> Backoff:
    return Backoff(first_s, max_s, SeededEntropy(1))


def test_pauses_grow_to_a_bound_within_their_jitter() -> None:
    backoff = make()
    nominal = 0.01
    for _ in range(40):
        pause_s = backoff.next_s()
        assert nominal * (1 - JITTER) <= pause_s <= nominal * (1 + JITTER)
        nominal = min(nominal * GROWTH, 0.5)
    assert nominal == 0.5


def test_a_reset_begins_again() -> None:
    backoff = make()
    for _ in range(20):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() <= 0.01 * (1 + JITTER)


def test_what_ends_is_noticed_soon_after() -> None:
    """Whenever the outage ends, the next attempt is at most about half as late again."""
    backoff = make(0.008, 0.5)
    elapsed_s = 0.0
    while elapsed_s < 1.0:
        pause_s = backoff.next_s()
        assert pause_s <= max(0.01, 0.5 * elapsed_s + 0.01)
        elapsed_s += pause_s
