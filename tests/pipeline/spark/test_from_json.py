"""JSON is read as Spark's permissive ``from_json`` reads it: the same table through both.

What we do otherwise on purpose is at the end, and in the table of ``docs/spark.md``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions
from pyspark.sql.types import StructType

from pyspark_oncelog.json_columns import read_column
from pyspark_oncelog.json_document import Documents
from pyspark_oncelog.moments import find_zone
from pyspark_oncelog.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "+05:45")

NUMBERS = [
    "0", "-0", "1", "-1", "127", "128", "200", "255", "256", "-128", "-129", "32767", "32768",
    "-32769", "2147483647", "2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "12.0",
    "15.5", "1e2", "1E-7", "1.255", "1.245", "-2.5", "999.994", "999.995", "1000", "0.1",
    "-0.0", "1e39", "3.4028236e38", "1e400", "-1e400", "1e-400", "16777217", "9007199254740993",
    "NaN", "Infinity", "-Infinity", "+Infinity", "+INF", "-INF", "true", "false", "null",
]  # fmt: skip
TEXTS = [
    '""', '" "', '"1"', '"15.5"', '"+1"', '".5"', '"5."', '"1e2"', '"1_000"', '"1,000.5"', '"0x1"',
    '"abc"', '"NaN"', '"Infinity"', '"-INF"', '"nan"', '"true"', '"null"', '"1e99999999999"',
    '"\\ud800"', '"\\udc00"', '"\\ud83d\\ude00"', '"a\\u0000b"', '"\\/\\b\\f\\n\\r\\t"', '"\\\'"',
    "'single'", "'it\\'s'", '"}"', '"]"', '"AQI="', '"AQI"', '"AQ=="', '"AR=="', '"AQI=AQI="',
    '"AQ I="', '"_-8="', '"!!"', '"é"', '"\x7f"',
]  # fmt: skip
MOMENTS = [
    '"2024-02-29"', '"2024-02-29 12:00:00"', '"2024-02-29T12:00:00Z"', '"2024-02-29T12:00:00z"',
    '"2024-02-29T12:00:00+02:00"', '"2024-02-29T12:00:00+0200"', '"2024-02-29T12:00:00 +02"',
    '"2024-02-29T12:00:00.123456789"', '"2024-02-29T12:00:00."', '"2024-02-29T12:00"',
    '"2024-02-29T12"', '"2024-2-9 1:2:3"', '"2024"', '"2024 "', '"2024-02"', '"24-01-01"',
    '"12024-01-01"', '"+12024-01-01"', '"-0001-01-01"', '"0000-01-01"', '"1582-10-10"',
    '"1900-01-01 00:00:00"', '"2023-02-29"', '"2024-13-01"', '"2024-02-29 24:00:00"', '"now"',
    '" 2024-02-29 "', '"2024-02-29T"', '"2024-02-29T12:00:00 Europe/Paris"',
    '"2024-02-29 12:00:00 GMT+2"', '"2024-02-29 12:00:00GMT"', '"2024-02-29 12:00:00 PST"',
    '"2024-02-29 12:00:00+1:2"', '"2024-02-29 12:00:00+18:00"', '"2024-02-29 12:00:00+19:00"',
    '"2024-02-29 12:00:00+02:30:15"', '"20240229"', '"1709208000"', '"1709208000000"',
    "1709208000", "1709208000000", "9223372036854", "9223372036855", "-1.5",
    '"2024-03-31 02:30:00"', '"2024-10-27 02:30:00"', '"2024-03-10 02:30:00"',
    '"294247-01-10T04:00:54.775807Z"', '"294247-01-10T04:00:54.775808Z"', '"1234567-01-01"',
    '"2024-02-29 12Z"', '"29.02.2024"', '"-1"', '"+2024-01-01"', '"2024-01-001"', '"12345"',
    '"2932897"', '"99999999999"', '"2024-01-01 00:00:00\\u0000"', '"2024-02-29 23:59:60 x"',
]  # fmt: skip
BASE64 = [
    '""', '"AQI="', '"AQI"', '"AQ=="', '"AR=="', '"AQI=AQI="', '"AQ I="', '"_-8="', '"!!"', '"é"',
    '"true"', '"null"', "'single'",
]  # fmt: skip
"""Spark loses the record when base64 breaks off behind its first character: see below."""
PARTS = ["[]", "{}", "[1]", '{"x":1}', '{ "k" : [ 1.10 , 1E5, -0, NaN, "\\u001f\\ud83d\\ude00" ] }']
TYPES = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY",
    "DECIMAL(5,2)", "DECIMAL(38,10)", "DECIMAL(10,0)", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ",
    "ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<x: INT>",
]  # fmt: skip
NESTED = (
    "a INT, s STRING, c STRUCT<x: INT, y: STRUCT<p: INT, q: ARRAY<INT>>, z: INT>,"
    " d ARRAY<STRUCT<x: INT, y: INT>>, e MAP<STRING, STRUCT<x: INT, y: INT>>,"
    " g ARRAY<ARRAY<INT>>, h MAP<STRING, ARRAY<INT>>, f DOUBLE"
)
DOCUMENTS = [
    "", "  ", "null", "5", '"x"', "true", "[]", '[{"a":1}]', "{", "{}", '{"a":1', '{"a":1,}',
    '{"a":1}xyz', '{"a":1}{"a":2}', '{"a":1}]', '{"a":1},', '{"a":1} null', "{'a':1}", "{a:1}",
    '{"a":01}', '{"a":.5}', '{"a":1.}', '{"a":+1}', '{"a":1x}', '{"a" 1}', '{,"a":1}', '{"a":}',
    '{"a":1 "f":2}', '{"a"\x0b:1}', '\ufeff{"a":1}', '\x00{"a":1}', '{"a":1}\x00', '{1:2}',
    '{"a" :\t1 ,\r\n"f": 2 }', '{"a":1,"a":2}', '{"a":1,"a":"x"}', '{"a":1,"a":null}',
    '{"a":1.5,"a":3}', '{"\\u0061":7}', '{"A":1}', '{"zz":tru,"a":1}', '{"zz":[1,{"a":5}],"f":3}',
    '{"a":1,"s":"\\q"}', '{"a":1,"s":"raw\n"}', '{"a":/*c*/1}', '{"zz":NaN,"a":1}', '{"a":INF}',
    '{"c":{"x":1.5,"z":2},"f":3}', '{"c":{"x":1,"y":5,"z":3},"f":1}', '{"c":[1],"a":1}',
    '{"c":{"x":1,"y":{"p":"w","q":[1,"x"]},"z":3},"f":1}', '{"c":{"x":1,"x":"q"}}',
    '{"d":[{"x":1},{"x":"q","y":3},null],"f":1}', '{"d":[{"x":1},5],"f":1}', '{"d":{"x":1},"f":1}',
    '{"e":{"k":{"x":1},"l":{"x":"q","y":7}},"f":1}', '{"e":{"k":{"x":1},"l":5},"f":1}',
    '{"e":{"k":{"x":1},"k":{"x":2}}}', '{"g":[[1],["x"]],"f":1}', '{"g":[[1],5],"f":1}',
    '{"g":[["x",{"a":7}],5],"f":1}', '{"h":{"k":[1],"l":["x"]},"f":1}', '{"h":{"":[]},"f":1}',
    '{"s":{"a":1},"a":2}', '{"s":[ {"a" : [ ] } ],"a":2}', '{"a":{"f":5},"f":1}',
]  # fmt: skip
BYTES = [
    b'{"s":"x\xffy"}', b'{"s":"\xe2\x82"}', b'{"s":"\xed\xa0\x80"}', b'{"s":"\xc0\x80"}',
    b'{"s":"\xf0\x80\x80\x80"}', b'\xff{"a":1}', b'{"a":1}\xff', b'{\x00"a":1}',
    b'{"s":"\xf4\x90"}',
]  # fmt: skip


class Both:
    """Documents go through Spark and through the source's reader."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def theirs(self, documents: Sequence[bytes], ddl: str, zone: str) -> pa.Array:
        self._spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            rows = [(index, bytearray(d)) for index, d in enumerate(documents)]
            frame = self._spark.createDataFrame(rows, "at INT, s BINARY").coalesce(1)
            read = functions.from_json(functions.col("s").cast("string"), ddl)
            table = frame.select("at", read.alias("v")).toArrow().sort_by("at")
        finally:
            self._spark.conf.unset("spark.sql.session.timeZone")
        found = table.column("v").combine_chunks()
        schema = StructType.fromDDL(f"v {_whole(ddl)}")
        assert isinstance(schema, StructType)
        assert found.type == arrow_schema(schema).field("v").type
        return found

    def compare(self, documents: Sequence[bytes], ddl: str, zone: str = "UTC") -> None:
        """Check that Spark, the column and single documents give the same."""
        theirs = self.theirs(documents, ddl, zone)
        ours, _ = read_column(
            pa.array(documents, pa.binary()), theirs.type, lambda: find_zone(zone)
        )
        reader = Documents(theirs.type, find_zone(zone))
        alone = pa.array([reader.read(document)[0] for document in documents], theirs.type)
        for index, document in enumerate(documents):
            told = (ddl, zone, document)
            expected = plain(theirs[index])
            assert plain(ours[index]) == expected, told
            assert plain(alone[index]) == expected, told


def _whole(ddl: str) -> str:
    return ddl if ddl.startswith(("ARRAY", "MAP")) else f"STRUCT<{ddl}>"


def plain(value: Any) -> Any:
    """Return an Arrow scalar as something to compare: times as numbers, floats by their text."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return tuple(plain(value[index]) for index in range(kind.num_fields))
    if pa.types.is_map(kind):
        return [(plain(entry[0]), plain(entry[1])) for entry in value.values]
    if pa.types.is_list(kind):
        return [plain(item) for item in value.values]
    if pa.types.is_temporal(kind):
        return value.value
    return repr(value.as_py())


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> Both:
    return Both(spark)


@pytest.mark.parametrize("kind", TYPES)
def test_odd_values(both: Both, kind: str) -> None:
    odd = NUMBERS + TEXTS + MOMENTS + PARTS
    if kind == "BINARY":
        odd = [text for text in odd if text[0] not in "\"'" or text in BASE64]
    documents = [f'{{"a":{text},"z":1}}'.encode() for text in odd]
    for zone in ZONES if kind == "TIMESTAMP" else ("UTC",):
        both.compare(documents, f"a {kind}, z INT", zone)


def test_odd_documents(both: Both) -> None:
    both.compare([*(text.encode() for text in DOCUMENTS), *BYTES], NESTED)


@pytest.mark.parametrize(
    ("ddl", "texts"),
    [
        ("ARRAY<INT>", ["[1,2]", '[1,"x"]', '{"a":1}', "[]", "", "null", "[1", "[1]x", "[null]"]),
        ("ARRAY<STRUCT<x: INT, y: INT>>",
         ['[{"x":1},{"x":"q","y":2}]', '{"x":"q","y":2}', '[{"x":1},5]', "[null]", '[{"x":1}']),
        ("MAP<STRING, INT>", ['{"a":1}', '{"a":1,"b":"x"}', "[]", "", '{"a":1,"a":2}']),
    ],
)  # fmt: skip
def test_other_roots(both: Both, ddl: str, texts: list[str]) -> None:
    both.compare([text.encode() for text in texts], ddl)


WIDE = (
    "i INT, l BIGINT, t TINYINT, f DOUBLE, g FLOAT, s STRING, m DECIMAL(7,2), y DATE, ts TIMESTAMP,"
    " n TIMESTAMP_NTZ, b BOOLEAN, st STRUCT<x: INT, y: STRING>, ar ARRAY<INT>,"
    " as ARRAY<STRUCT<x: INT, y: DATE>>"
)


def some_document(chance: random.Random) -> bytes:
    """Fields of ``WIDE``: most fit, some have the value of another field."""

    def moment() -> str:
        day = f"{chance.randint(1900, 2037)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        end = chance.choice(["", "Z", "+02:00", ".5", " Asia/Tokyo"])
        clock = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
        return f'"{day}{chance.choice("T ")}{clock}{end}"'

    number = chance.uniform(-9, 9) * 10 ** chance.randint(-40, 40)
    fitting = {
        "i": str(chance.randint(-(2**31), 2**31 - 1)),
        "l": str(chance.randint(-(2**63), 2**63 - 1)),
        "t": str(chance.randint(-128, 127)),
        "f": f"{number:.17e}",
        "g": f"{number:.9e}",
        "s": '"text"',
        "m": f"{chance.randint(-99999, 99999)}.{chance.randint(0, 99):02}",
        "y": f'"{chance.randint(1, 3000):04}-0{chance.randint(1, 9)}-{chance.randint(10, 28)}"',
        "ts": moment(),
        "n": moment(),
        "b": chance.choice(["true", "false"]),
        "st": f'{{"x":{chance.randint(0, 9)},"y":"q"}}',
        "ar": f"[{chance.randint(0, 9)},null]",
        "as": '[{"x":1},null,{"y":"2024-01-01"}]',
    }
    texts = [value for name, value in fitting.items() if name != "f"]
    shown = {
        name: chance.choice(texts) if name != "s" and chance.random() < 0.05 else value
        for name, value in fitting.items()
        if chance.random() < 0.8
    }
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in shown.items()) + "}").encode()


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_many_documents(both: Both, zone: str) -> None:
    chance = random.Random(zone)
    both.compare([some_document(chance) for _ in range(2000)], WIDE, zone)


@pytest.mark.parametrize(
    ("ddl", "document", "spark_has", "we_have"),
    [
        ("a INT, c STRUCT<x: INT>", '{"a":1,"c":{"x":,}}', ("1", None), (None, None)),
        ("a BINARY, z INT", '{"a":"A","z":1}', (None, None), (None, "1")),
        ("z INT, f DOUBLE", '{"z":1,"f":' + "1" * 1001 + "}", (None, None), ("1", "inf")),
    ],
)  # fmt: skip
def test_what_is_otherwise(
    both: Both, ddl: str, document: str, spark_has: object, we_have: object
) -> None:
    """The table in the guide says so; when this fails, Spark has changed."""
    theirs = both.theirs([document.encode()], ddl, "UTC")
    assert plain(theirs[0]) == spark_has
    ours, _ = read_column(pa.array([document.encode()]), theirs.type, lambda: find_zone("UTC"))
    assert plain(ours[0]) == we_have


def test_a_time_of_day_is_no_timestamp(both: Both) -> None:
    """Spark takes the day on which it is read, so that reading twice gives two results."""
    theirs = both.theirs([b'{"a":"12:00:00"}'], "a TIMESTAMP", "UTC")
    assert theirs[0]["a"].is_valid
    ours, problems = read_column(
        pa.array([b'{"a":"12:00:00"}']), theirs.type, lambda: find_zone("UTC")
    )
    assert (ours.to_pylist(), problems) == ([{"a": None}], [(0, "a: '12:00:00' is no TIMESTAMP")])
