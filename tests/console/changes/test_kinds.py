"""A form has the fields of its kind, each once, and with one of its choices."""

from __future__ import annotations

import pytest

from oncelog_console.changes.change import FormError
from oncelog_console.changes.kinds import KINDS, change_of, values_of


def test_every_kind_has_a_form() -> None:
    for name, kind in KINDS.items():
        assert kind.name == name
        assert kind.fields
        names = [field.name for field in kind.fields]
        assert len(set(names)) == len(names)
        for field in kind.fields:
            assert field.kind in ("text", "area", "choice")
            assert (field.kind == "choice") == bool(field.choices)
            if field.choices:
                assert field.default in dict(field.choices)


def test_missing_fields_have_their_defaults() -> None:
    values = values_of(KINDS["reset-offsets"], [("group", "g")])
    assert values == {"group": "g", "place": "to_earliest", "value": "", "topics": ""}


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_fields_are_refused(kind: str) -> None:
    with pytest.raises(FormError, match="'typed' is no field"):
        change_of(KINDS[kind], [("typed", "x")], 0)


@pytest.mark.parametrize("kind", ["delete-topic", "delete-records", "add-partitions"])
def test_one_topic_at_a_time(kind: str) -> None:
    with pytest.raises(FormError, match="named twice; one at a time"):
        change_of(KINDS[kind], [("topic", "a"), ("topic", "b")], 0)


@pytest.mark.parametrize(
    "kind",
    ["create-topic", "add-partitions", "delete-topic", "delete-records", "produce-record"],
)
def test_internal_topics_are_only_looked_at(kind: str) -> None:
    form = {"topic": "__consumer_offsets", "partitions": "1", "before": "end"}
    names = {field.name for field in KINDS[kind].fields}
    with pytest.raises(FormError, match="belongs to the cluster itself"):
        change_of(KINDS[kind], [item for item in form.items() if item[0] in names], 0)


def test_a_choice_is_one_of_its_choices() -> None:
    with pytest.raises(FormError, match="'2' is not all or 1 or 0"):
        values_of(KINDS["produce-record"], [("topic", "t"), ("acks", "2")])
