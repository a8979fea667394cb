"""Arrow batches become columns: groups, order, NULLs, and rows that cannot be records."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pyspark_oncelog.outgoing_columns import Outgoing, SinkRowError, outgoing
from pyspark_oncelog.sink_schema import Layout

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
STAMP = pa.timestamp("us", tz="UTC")


def columns(every: str | None = "t", /, **given: pa.Array) -> list[Outgoing]:
    batch = pa.RecordBatch.from_arrays(list(given.values()), names=list(given))
    layout = Layout(**{name: position for position, name in enumerate(given)})
    return list(outgoing(batch, layout, topic=every, now_ms=77))


def test_values_alone() -> None:
    assert columns(value=pa.array([b"a", None, b""])) == [
        Outgoing("t", None, [b"a", None, b""], None, None, None)
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary(), pa.binary()])
def test_text_becomes_its_bytes(kind: pa.DataType) -> None:
    given = pa.array(["ä".encode(), None]).cast(kind)
    (found,) = columns(value=given, key=given)
    assert found.values == found.keys == ["ä".encode(), None]


def test_keys_that_are_all_null_are_none() -> None:
    (found,) = columns(value=pa.array([b"a"]), key=pa.array([None], pa.binary()))
    assert found.keys is None


def test_rows_are_grouped_by_topic_and_partition_and_keep_their_order() -> None:
    chance = random.Random(7)
    rows = [
        (chance.choice("abc"), chance.choice([None, 0, 1, 70_000]), b"%d" % number)
        for number in range(2000)
    ]
    topics, partitions, values = zip(*rows, strict=True)
    found = columns(
        None,
        topic=pa.array(topics),
        partition=pa.array(partitions, pa.int32()),
        value=pa.array(values),
        key=pa.array(values),
        timestamp=pa.array(range(1000, 2_001_000, 1000), STAMP),
    )
    assert len(found) == 12
    for part in found:
        expected = [
            number
            for number, (topic, partition, _) in enumerate(rows)
            if (topic, partition) == (part.topic, part.partition)
        ]
        assert part.values == part.keys == [b"%d" % number for number in expected]
        assert part.timestamps_ms == [number + 1 for number in expected]


def test_one_topic_for_all_is_not_sorted() -> None:
    value = pa.array([b"b", b"a"])
    assert columns(None, value=value, topic=pa.array(["x", "x"])) == [
        Outgoing("x", None, [b"b", b"a"], None, None, None)
    ]
    assert columns(None, value=value, topic=pa.array(["x", "w"])) == [
        Outgoing("x", None, [b"b"], None, None, None),
        Outgoing("w", None, [b"a"], None, None, None),
    ]
    assert columns(value=value, partition=pa.array([3, 3])) == [
        Outgoing("t", 3, [b"b", b"a"], None, None, None)
    ]
    assert columns(value=value, partition=pa.array([None, None], pa.int32())) == [
        Outgoing("t", None, [b"b", b"a"], None, None, None)
    ]


def test_a_slice_is_what_it_shows() -> None:
    headers = [[], [("a", b"1")], None, [("b", None), ("c", b"3")], [], [("d", b"4")]]
    whole = pa.RecordBatch.from_arrays(
        [
            pa.array([b"%d" % number for number in range(10)]),
            pa.array(headers + [[]] * 4, HEADERS),
        ],
        names=["value", "headers"],
    )
    layout = Layout(value=0, headers=1)
    (found,) = outgoing(whole.slice(2, 3), layout, topic="t", now_ms=0)
    assert found.values == [b"2", b"3", b"4"]
    assert found.headers == [None, [("b", None), ("c", b"3")], None]
    (found,) = outgoing(whole.slice(6, 2), layout, topic="t", now_ms=0)
    assert found.headers is None


def test_timestamps_are_milliseconds_and_null_is_now() -> None:
    when = datetime(2024, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    (found,) = columns(
        value=pa.array([b"a", b"b"]), timestamp=pa.array([when, None], pa.timestamp("us", "CET"))
    )
    assert found.timestamps_ms == [int(when.timestamp() * 1000), 77]
    (found,) = columns(value=pa.array([b"a"]), timestamp=pa.array([None], STAMP))
    assert found.timestamps_ms is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": pa.array(["t", None])}, "'topic' is NULL in 1 rows"),
        ({"partition": pa.array([0, -1])}, "'partition' has -1"),
        ({"partition": pa.array([0, 2**40])}, "'partition' has 1099511627776"),
        ({"timestamp": pa.array([-1_000_000, 5], STAMP)}, "before 1970 in 1 rows"),
        ({"headers": pa.array([[(None, b"x")], []], HEADERS)}, "key is NULL"),
        ({"headers": pa.array([[None], []], HEADERS)}, "key is NULL"),
    ],
)
def test_rows_that_cannot_be_records(given: dict[str, Any], says: str) -> None:
    topic = None if "topic" in given else "t"
    with pytest.raises(SinkRowError, match=says):
        columns(topic, value=pa.array([b"a", b"b"]), **given)
