"""Each place in the log has one text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_oncelog.offsets import LogOffsets, SourcePartition, TopicOffsets, make_offsets

PLACES = st.dictionaries(
    st.sampled_from(["a", "b", "orders", "é"]),
    st.dictionaries(st.integers(0, 12), st.integers(0, 2**62), min_size=1),
)


def place(numbers: dict[str, dict[int, int]]) -> LogOffsets:
    return LogOffsets({name: TopicOffsets(f"id-{name}", o) for name, o in numbers.items()})


def backwards(numbers: dict[str, dict[int, int]]) -> dict[str, dict[int, int]]:
    return {name: dict(reversed(o.items())) for name, o in reversed(numbers.items())}


@given(PLACES)
def test_equal_places_are_equal_texts(numbers: dict[str, dict[int, int]]) -> None:
    text = json.dumps(place(numbers).to_json())
    assert json.dumps(place(backwards(numbers)).to_json()) == text
    found = LogOffsets.from_json(json.loads(text))
    assert found == place(numbers)
    assert json.dumps(found.to_json()) == text


@given(PLACES, PLACES, st.booleans())
def test_a_first_end_holds_its_beginning(
    numbers: dict[str, dict[int, int]], before: dict[str, dict[int, int]], initial: bool
) -> None:
    told = LogOffsets(place(numbers).topics, initial, place(before))
    assert LogOffsets.from_json(json.loads(json.dumps(told.to_json()))) == told
    assert told.to_json()["from"] == place(before).to_json()


@given(PLACES)
def test_places_are_made_of_offsets(numbers: dict[str, dict[int, int]]) -> None:
    made = make_offsets({name: f"id-{name}" for name in numbers}, dict(place(numbers)))
    assert made == place(numbers)


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    told = place({"t": {10: 1, 9: 2}})
    assert json.dumps(told.to_json()) == (
        '{"version": 1, "topics": {"t": {"id": "id-t", "offsets": {"9": 2, "10": 1}}}}'
    )
    assert list(told) == [(SourcePartition("t", 9), 2), (SourcePartition("t", 10), 1)]
    assert told.get(SourcePartition("t", 9)) == 2
    assert told.get(SourcePartition("t", 1)) is None
    assert told.get(SourcePartition("u", 9)) is None
    assert (told.topic_id("t"), told.topic_id("u")) == ("id-t", "")


@pytest.mark.parametrize(
    "text",
    [{}, {"version": 2, "topics": {}}, {"t": {"0": 5}}, {"version": 1}, {"version": 1, "topics": 5},
     {"version": 1, "topics": {"t": {"offsets": {"0": 1}}}},
     {"version": 1, "topics": {"t": {"id": "x", "offsets": {"zero": 1}}}}],
)  # fmt: skip
def test_what_is_no_place_is_refused(text: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        LogOffsets.from_json(text)
