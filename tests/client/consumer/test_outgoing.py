"""These tests check what handlers may return."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.consumer.outgoing import ProducerRecord, checked_results, size_of

ONE = ProducerRecord("out", b"value", b"key")


@pytest.mark.parametrize(
    ("returned", "results"),
    [
        (None, []),
        (ONE, [ONE]),
        ([ONE, ONE], [ONE, ONE]),
        ([], []),
        ((item for item in [ONE]), [ONE]),
        ({ONE: 1}.keys(), [ONE]),
    ],
)
def test_what_a_handler_may_return(returned: object, results: list[ProducerRecord]) -> None:
    assert checked_results(returned) == results


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (b"value", TypeError),
        ("out", TypeError),
        (("out", b"value"), TypeError),
        (7, TypeError),
        ([b"value"], TypeError),
        ([("out", b"value")], TypeError),
        (ProducerRecord("no/topic", b""), ValueError),
        (ProducerRecord(7, b""), ValueError),  # type: ignore[arg-type]
        (ProducerRecord("out", "text"), TypeError),  # type: ignore[arg-type]
        (ProducerRecord("out", b"", headers=[("h", "text")]), TypeError),  # type: ignore[list-item]
        (ProducerRecord("out", b"", timestamp_ms=-1), ValueError),
    ],
)
def test_what_it_may_not(returned: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        checked_results(returned)


def test_sizes() -> None:
    assert size_of([ONE]) - size_of([ProducerRecord("out")]) == len(b"valuekey")
