"""Forms say what a change needs, or are refused with the field that is wrong."""

from __future__ import annotations

import pytest

from oncelog_cli.documents.answer import Answer, Failure
from oncelog_console.changes.change import (
    FormError,
    RefusedError,
    all_sound,
    failures_text,
    needed_name,
    needed_number,
    number_of,
    own_topic,
)


def test_numbers() -> None:
    assert number_of({"n": " 98,331 "}, "n") == 98_331
    assert number_of({"n": ""}, "n") is None
    assert needed_number({"n": "0"}, "n") == 0


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "9" * 30, "0x1"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(FormError, match="^n: "):
        number_of({"n": text}, "n")
    with pytest.raises(FormError, match="a number is needed"):
        needed_number({"n": ""}, "n")


def test_names() -> None:
    assert needed_name({"group": " g "}, "group") == " g ", "spaces may be part of a name"
    with pytest.raises(FormError, match="a name is needed"):
        needed_name({"group": ""}, "group")
    assert own_topic({"topic": "orders"}) == "orders"
    with pytest.raises(FormError, match="only shows it"):
        own_topic({"topic": "__consumer_offsets"})


def test_failures_refuse_a_change() -> None:
    assert all_sound(Answer({"a": 1})).document == {"a": 1}
    failures = [Failure("orders", "orders does not exist"), Failure("b", "is away")]
    assert failures_text(failures) == "orders does not exist; b: is away"
    with pytest.raises(RefusedError, match="b: is away"):
        all_sound(Answer({}, failures))
