"""Single options are understood, or refused with an explanation."""

from __future__ import annotations

import pytest

from pyspark_oncelog.option_values import (
    OffsetPoint,
    OptionError,
    parse_assignment,
    parse_bool,
    parse_choice,
    parse_count,
    parse_duration_ms,
    parse_names,
    parse_offsets,
    parse_pattern,
    parse_timestamps,
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000),
        ("500ms", 500),
        ("30s", 30_000),
        ("2 hours", 7_200_000),
        ("1 minute", 60_000),
        ("1d", 86_400_000),
        ("250", 250),
        (" 3 SEC ", 3_000),
    ],
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse_duration_ms("maxTriggerDelay", text) == milliseconds


@pytest.mark.parametrize("text", ["", "m", "-1s", "1 fortnight", "1.5s", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(OptionError, match="maxTriggerDelay"):
        parse_duration_ms("maxTriggerDelay", text)


def test_words_and_numbers() -> None:
    assert parse_bool("includeHeaders", "TRUE")
    assert not parse_bool("includeHeaders", "false")
    assert parse_count("minPartitions", " 7 ") == 7
    assert parse_choice("keyFormat", "JSON", ("binary", "json")) == "json"
    assert parse_names("subscribe", "b, a,b,") == ("b", "a")
    assert parse_pattern("subscribePattern", "orders-.*") == "orders-.*"


@pytest.mark.parametrize("text", ["0", "-1", "1.0", "1e3", "", "²", "99999999999999999999"])
def test_counts_begin_at_one(text: str) -> None:
    with pytest.raises(OptionError, match=r"minPartitions=.*integer from 1"):
        parse_count("minPartitions", text)


def test_words_that_are_not_known() -> None:
    with pytest.raises(OptionError, match="true or false"):
        parse_bool("includeHeaders", "maybe")
    with pytest.raises(OptionError, match="one of binary, json"):
        parse_choice("keyFormat", "avro", ("binary", "json"))
    with pytest.raises(OptionError, match="at least one topic"):
        parse_names("subscribe", " , ")
    with pytest.raises(OptionError, match="no.* regular expression"):
        parse_pattern("subscribePattern", "(")


def test_offsets_in_all_their_forms() -> None:
    assert parse_offsets("startingOffsets", " Earliest ") == OffsetPoint("earliest")
    assert parse_offsets("startingOffsets", "latest") == OffsetPoint("latest")
    expected = OffsetPoint("offsets", {"a": {0: 23, 1: -2}, "b": {0: -1}})
    text = '{"b": {"0": -1}, "a": {"1": -2, "0": 23}}'
    assert parse_offsets("startingOffsets", text) == expected
    progress = '{"version": 1, "topics": {"a": {"id": "x", "offsets": {"0": 5}}}}'
    assert parse_offsets("startingOffsets", progress) == OffsetPoint("offsets", {"a": {0: 5}})


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "soon", '{"a": 5}', '{"a": {}}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}',
     '{"a": {"0": -3}}', '{"a": {"0": true}}'],
)  # fmt: skip
def test_what_is_no_offset(text: str) -> None:
    with pytest.raises(OptionError, match="startingOffsets"):
        parse_offsets("startingOffsets", text)


def test_times() -> None:
    found = parse_timestamps("startingOffsetsByTimestamp", '{"a": {"0": 1700000000000}}')
    assert found == OffsetPoint("timestamps", {"a": {0: 1_700_000_000_000}})
    with pytest.raises(OptionError, match="milliseconds since 1970"):
        parse_timestamps("startingOffsetsByTimestamp", '{"a": {"0": -2}}')


def test_assignments() -> None:
    assert parse_assignment("assign", '{"b": [1, 0, 1], "a": [2]}') == {"a": (2,), "b": (0, 1)}
    for text in ('{"a": []}', '{"a": ["0"]}', '{"a": 0}', '{"a": [-1]}', "a"):
        with pytest.raises(OptionError, match="assign"):
            parse_assignment("assign", text)
