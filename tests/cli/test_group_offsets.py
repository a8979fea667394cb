"""These tests check how people write partitions, durations, times and files of offsets."""

from __future__ import annotations

import pytest

from oncelog_cli.group_offsets import (
    Chosen,
    csv_line,
    duration_ms,
    parse_partitions,
    read_csv,
    time_ms,
)

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


def test_topics_and_partitions() -> None:
    assert parse_partitions(["a", "b:0", "b:2, 1", "a", "b:1"]) == Chosen(
        ("a",), (("b", 0), ("b", 2), ("b", 1))
    )
    assert parse_partitions([]) == Chosen()


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:-1", "a:1,", "a:1:2", "a:2147483648"])
def test_what_names_no_partition(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|cannot be the partition"):
        parse_partitions([text])


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("PT30M", 30 * MINUTE_MS),
        ("P1DT2H", DAY_MS + 120 * MINUTE_MS),
        ("P7D", 7 * DAY_MS),
        ("PT1.5S", 1500),
        ("PT0S", 0),
        ("P1DT1H1M1.001S", DAY_MS + 61 * MINUTE_MS + 1001),
        ("30m", 30 * MINUTE_MS),
        ("1d2h", DAY_MS + 120 * MINUTE_MS),
        ("250ms", 250),
    ],
)
def test_durations(text: str, length_ms: int) -> None:
    assert duration_ms(text) == length_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1D T1H", "P1H", "-1h", "1", "1w", "hour"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-01-31T09:00:00Z", 1_769_850_000_000),
        ("2026-01-31T10:00:00+01:00", 1_769_850_000_000),
        ("2026-01-31T09:00:00.000", 1_769_850_000_000),
        ("1987-06-03T21:56:53.887Z", 549_755_813_887),  # as a float it would end in 886.99
        ("1769850000", 1_769_850_000_000),
        ("1769850000123", 1_769_850_000_123),
    ],
)
def test_times(text: str, timestamp_ms: int) -> None:
    assert time_ms(text) == timestamp_ms


@pytest.mark.parametrize("text", ["", "1h", "yesterday", "17698500001234", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        time_ms(text)


def test_a_file_of_offsets() -> None:
    lines = ["# a backup\n", "\n", "t,0,5\n", " t , 1 , 6 \n", "g,t,2,7\n", "other,t,3,8\n"]
    assert read_csv(lines, "g") == {("t", 0): 5, ("t", 1): 6, ("t", 2): 7}
    assert read_csv([], "g") == {}
    assert read_csv([csv_line("t", 3, 9)], "g") == {("t", 3): 9}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("t,0", "line 2: expected topic,partition,offset"),
        (",0,1", "line 2: expected"),
        ("t,0,1,2,3", "line 2: expected"),
        ("t,x,1", "line 2: 'x' cannot be the partition"),
        ("t,0,-1", "line 2: '-1' cannot be the offset"),
        (f"t,0,{2**63}", "line 2: .* cannot be the offset"),
        ("t,7,3", "line 2: t 7 for the second time"),
        ("g,t,7,3", "line 2: t 7 for the second time"),
    ],
)
def test_a_file_that_makes_no_sense(line: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        read_csv(["t,7,1\n", line], "g")
