"""State that is kept per connection is dropped with it, once and in order; an asker stays whole."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from oncelog_broker.server.request import ConnectionState, RequestContext


class Session:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_session_that_is_kept_is_closed_with_the_connection() -> None:
    state, session = ConnectionState(), Session()
    state.keep_session(session)
    assert state.fetch_session is session
    for callback in state.close():
        callback()
    assert state.closed
    assert session.closed == 1
    assert state.close() == [], "once"


def test_a_session_that_has_ended_is_not_closed_again() -> None:
    state, first, second = ConnectionState(), Session(), Session()
    state.keep_session(first)
    state.drop_session(first)
    assert state.fetch_session is None
    state.keep_session(second)
    for callback in state.close():
        callback()
    assert (first.closed, second.closed) == (0, 1)


def test_a_request_that_is_told_otherwise_is_of_the_same_asker() -> None:
    values: dict[str, Any] = {each.name: object() for each in fields(RequestContext)}
    other: dict[str, Any] = {"magic": 2, "by_number": True, "record_errors": {}}
    told = RequestContext(**values).told(7, **other)
    assert {name: getattr(told, name) for name in values} == {
        **values,
        "api_version": 7,
        **other,
    }
