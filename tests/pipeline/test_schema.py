"""The source's columns have these Arrow types."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.options import SourceOptions
from pyspark_oncelog.schema import COLUMNS, arrow_schema, check_schema, source_ddl

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
FIELDS = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(HEADER),
}


def parse(**options: str) -> SourceOptions:
    return SourceOptions.parse({"bootstrap.servers": "a:1", "subscribe": "t", **options})


def schema_of(*names: str) -> StructType:
    return StructType([StructField(name, FIELDS[name]) for name in names])


def test_columns_are_sparks_kafka_columns() -> None:
    assert list(COLUMNS) == list(FIELDS)
    plain = source_ddl(parse())
    assert plain == (
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT,"
        " timestamp TIMESTAMP, timestampType INT"
    )
    headers = source_ddl(parse(includeHeaders="true"))
    assert headers == f"{plain}, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    assert source_ddl(None) == headers
    assert source_ddl(parse(includeMisfits="true")) == f"{plain}, misfit STRING"


def test_decoded_columns() -> None:
    told = source_ddl(parse(keyFormat="string", valueFormat="json", valueSchema=" a INT, b STRING"))
    assert told.startswith("key STRING, value STRUCT<a INT, b STRING>, topic")
    whole = source_ddl(parse(valueFormat="json", valueSchema="array<int>"))
    assert "value array<int>," in whole


def test_arrow_types_are_those_that_spark_compares_with() -> None:
    expected = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    assert arrow_schema(schema_of(*FIELDS)).equals(expected)


def test_some_columns_in_any_order() -> None:
    check_schema(schema_of(*FIELDS), parse())
    check_schema(schema_of("offset", "value"), parse())
    check_schema(schema_of(), parse())


def test_a_column_that_there_is_not() -> None:
    wrong = StructType([StructField("id", LongType())])
    with pytest.raises(OptionError, match=r"no column 'id'.*valueFormat=json"):
        check_schema(wrong, parse())


def test_a_column_of_another_type() -> None:
    text = StructType([StructField("value", StringType())])
    with pytest.raises(OptionError, match="'value' is binary, not string"):
        check_schema(text, parse())
    check_schema(text, parse(valueFormat="string"))
    check_schema(
        StructType([StructField("value", HEADER)]),
        parse(valueFormat="json", valueSchema="key STRING"),
    )
    with pytest.raises(OptionError, match="'offset' is bigint, not int"):
        check_schema(StructType([StructField("offset", IntegerType())]), parse())


def test_what_json_cannot_be() -> None:
    options = parse(valueFormat="json", valueSchema="whatever INT")

    def refused(kind: DataType, told: str) -> None:
        with pytest.raises(OptionError, match=told):
            check_schema(StructType([StructField("value", kind)]), options)

    firm = StructType([StructField("id", LongType(), nullable=False)])
    refused(firm, "valueSchema: id is NOT NULL")
    refused(
        ArrayType(StructType([StructField("in", firm)])), r"valueSchema: \[\].in.id is NOT NULL"
    )
    refused(MapType(LongType(), LongType()), "STRING keys")
    refused(
        StructType([StructField("for", DayTimeIntervalType())]),
        "valueSchema: INTERVAL DAY TO SECOND at for is not read from JSON",
    )
    fine = [DecimalType(5, 2), TimestampNTZType(), MapType(StringType(), ByteType()), BooleanType()]
    for kind in fine:
        check_schema(StructType([StructField("value", kind)]), options)
    check_schema(StructType([StructField("misfit", StringType())]), parse())
