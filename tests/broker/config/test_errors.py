"""Mistakes: one message each, and one error that names them all."""

from __future__ import annotations

from oncelog_broker.config.errors import ConfigError, InconsistentError, Problem


def test_a_message_names_place_key_problem_and_remedy() -> None:
    assert str(ConfigError("a", "is wrong", "Mend it", "file")) == "file: a: is wrong. Mend it"
    assert str(ConfigError("", "is wrong", "Mend it")) == "is wrong. Mend it"


def test_several_mistakes_are_one_error() -> None:
    one, two = ConfigError("a", "is wrong", "Mend it"), ConfigError("b", "is too", "Do")
    both = ConfigError.of_all([one, two])
    assert [each.key for each in both.all] == ["a", "b"]
    assert str(both) == "a: is wrong. Mend it (and 1 more mistakes)"
    assert both.message == one.message


def test_problems_know_what_they_follow_from() -> None:
    problem = Problem("a.b", "does not fit c", "Change it", ["c"])
    assert problem.involved == ("a", "c")
    assert str(InconsistentError([problem])) == "a.b: does not fit c"
