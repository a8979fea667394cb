"""DescribeEvents answers from the history of the broker that is asked."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.server.authorizer import AllowAllAuthorizer
from oncelog_broker.server.event_history import EventHistory
from oncelog_broker.server.handlers.describe_events import COUNT_MAX, DescribeEventsHandler
from oncelog_protocol.errors import ClusterAuthorizationFailedError
from oncelog_protocol.messages.events import DescribeEventsRequest, DescribeEventsResponse
from support.happened import happened
from support.server import DenyAll, answer


def filled(count: int) -> EventHistory:
    history = EventHistory(7)
    for number in range(count):
        history.add(happened("isr_changed", number))
    return history


def ask(history: EventHistory, *request: Any) -> DescribeEventsResponse:
    handler = DescribeEventsHandler(history, AllowAllAuthorizer())
    found: DescribeEventsResponse = answer(handler, DescribeEventsRequest(*request))
    return found


def test_from_a_place_on() -> None:
    response = ask(filled(4), 7, 2)
    assert [event.sequence for event in response.events] == [2, 3]
    assert (response.started_ms, response.first_sequence, response.next_sequence) == (7, 0, 4)
    assert not response.more


def test_a_place_in_another_life_is_none_in_this_one() -> None:
    assert [event.sequence for event in ask(filled(2), 6, 2).events] == [0, 1]
    assert [event.sequence for event in ask(filled(2)).events] == [0, 1]


@pytest.mark.parametrize(("wanted", "count"), [(3, 3), (0, 1), (-5, 1), (2**31 - 1, COUNT_MAX)])
def test_an_answer_has_a_bound(wanted: int, count: int) -> None:
    response = ask(filled(COUNT_MAX + 1), 7, 0, None, wanted)
    assert (len(response.events), response.more) == (count, True)


def test_names() -> None:
    assert ask(filled(2), 7, 0, ["leader_changed"]).events == []
    assert len(ask(filled(2), 7, 0, ["leader_changed", "isr_changed"]).events) == 2


def test_who_may_not_is_refused() -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        answer(DescribeEventsHandler(filled(1), DenyAll()), DescribeEventsRequest())
