"""These tests check that the controller counts what happened, each under its own name."""

from __future__ import annotations

from dataclasses import astuple

from oncelog_controller.stats import ControllerStats


def test_each_event_has_a_counter_of_its_own() -> None:
    stats = ControllerStats()
    stats.term_began()
    for _ in range(2):
        stats.leader_changed()
    for _ in range(3):
        stats.elected_uncleanly()
    for _ in range(4):
        stats.assertion_failed()
    assert astuple(stats) == (1, 2, 3, 4)
    named = (stats.terms, stats.leader_changes, stats.unclean_elections, stats.assertions_failed)
    assert named == (1, 2, 3, 4)
