"""A form has the fields of its kind, each once, and with one of its choices."""

from __future__ import annotations

import pytest

from oncelog_console.changes.change import FormError
from oncelog_console.changes.kinds import KINDS, change_of


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


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_fields_are_refused(kind: str) -> None:
    with pytest.raises(FormError, match="'typed' is no field"):
        change_of(KINDS[kind], [("typed", "x")], 0)


@pytest.mark.parametrize("kind", ["delete-topic", "add-partitions"])
def test_one_topic_at_a_time(kind: str) -> None:
    with pytest.raises(FormError, match="named twice; one at a time"):
        change_of(KINDS[kind], [("topic", "a"), ("topic", "b")], 0)


@pytest.mark.parametrize(
    "kind",
    ["create-topic", "add-partitions", "delete-topic"],
)
def test_internal_topics_are_only_looked_at(kind: str) -> None:
    form = {"topic": "__consumer_offsets", "partitions": "1", "before": "end"}
    names = {field.name for field in KINDS[kind].fields}
    with pytest.raises(FormError, match="belongs to the cluster itself"):
        change_of(KINDS[kind], [item for item in form.items() if item[0] in names], 0)
