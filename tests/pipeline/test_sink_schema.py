"""Some columns can be records, and errors explain those that cannot."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from pyspark_oncelog.sink_schema import Layout, SinkSchemaError, layout_of

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_all_columns_in_any_order_and_case() -> None:
    given = schema(
        Timestamp=TimestampType(),
        headers=HEADERS,
        VALUE=StringType(),
        key=BinaryType(),
        partition=ByteType(),
        topic=StringType(),
    )
    assert layout_of(given, topic=None) == Layout(
        timestamp=0, headers=1, value=2, key=3, partition=4, topic=5
    )
    assert layout_of(given, topic="t", include_headers=False) == Layout(
        timestamp=0, value=2, key=3, partition=4
    )


def test_what_a_source_yields_can_be_written() -> None:
    given = schema(
        key=BinaryType(),
        value=VarcharType(10),
        topic=StringType(),
        partition=IntegerType(),
        offset=LongType(),
        timestamp=TimestampType(),
        timestampType=IntegerType(),
    )
    layout = layout_of(given, topic=None)
    assert (layout.key, layout.value, layout.topic, layout.partition) == (0, 1, 2, 3)
    assert layout.timestamp == 5


VALUE = StringType()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (schema(key=VALUE), "no column 'value'"),
        (schema(value=VALUE, kye=VALUE), "did you mean 'key'"),
        (schema(value=VALUE, amount=DoubleType()), "to_json"),
        (schema(value=DoubleType()), r"'value' is double.*cast"),
        (schema(value=schema(a=VALUE)), "to_json"),
        (schema(value=VALUE, key=LongType()), "'key' is bigint"),
        (schema(value=VALUE, partition=StringType()), "must be int"),
        (schema(value=VALUE, timestamp=LongType()), "timestamp_millis"),
        (schema(value=VALUE, timestamp=TimestampNTZType()), "timestamp_ntz"),
        (schema(value=VALUE, headers=MapType(VALUE, VALUE)), "array<struct"),
        (schema(value=VALUE, headers=ArrayType(VALUE)), "array<struct"),
        (schema(value=VALUE, Value=VALUE), "two columns 'value'"),
    ],
)
def test_mistakes_are_named_with_their_remedy(given: StructType, says: str) -> None:
    with pytest.raises(SinkSchemaError, match=says):
        layout_of(given, topic="t")


def test_a_topic_must_come_from_somewhere() -> None:
    with pytest.raises(SinkSchemaError, match="which topic"):
        layout_of(schema(value=VALUE), topic=None)
    with pytest.raises(SinkSchemaError, match="'topic' is int"):
        layout_of(schema(value=VALUE, topic=IntegerType()), topic=None)
