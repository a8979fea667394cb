"""A failed operation ends as *fail* or as *info*, by what its error promises."""

from __future__ import annotations

from oncelog.errors import DeliveryTimeoutError
from oncelog.history import note_failure
from support.histories import ListHistory


def test_definite_failures_fail_and_others_are_info() -> None:
    history = ListHistory()
    for definite in (True, False):
        number = history.invoke("send", "t", 0, [b"v"])
        note_failure(history, number, DeliveryTimeoutError("x", definite=definite))
    assert [event for event, *_ in history.events] == ["invoke", "fail", "invoke", "info"]
