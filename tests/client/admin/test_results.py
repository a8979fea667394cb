"""Results hold every item; who wants all or an exception says so."""

from __future__ import annotations

import pytest

from oncelog.admin.results import AdminError, Results, TopicOutcome
from oncelog.errors import InvalidTopicError, RequestTimedOutError


def test_results_are_a_sequence() -> None:
    results = Results([TopicOutcome("a"), TopicOutcome("b")])
    assert [item.topic for item in results] == ["a", "b"]
    assert (len(results), results[1].topic, len(results[:1])) == (2, "b", 1)
    assert results.raise_for_errors() is results
    assert "'a'" in repr(results)


def test_one_error_is_raised_as_it_is_and_several_together() -> None:
    bad = TopicOutcome("b", InvalidTopicError("b is bad"))
    with pytest.raises(InvalidTopicError):
        Results([TopicOutcome("a"), bad]).raise_for_errors()
    late = TopicOutcome("c", RequestTimedOutError("c is late"))
    with pytest.raises(AdminError, match="b is bad; c is late") as caught:
        Results([bad, late]).raise_for_errors()
    assert len(caught.value.errors) == 2
    assert not caught.value.definite
