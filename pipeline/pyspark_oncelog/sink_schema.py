"""A data frame's columns become the parts of a record, if their types allow it. Pure.

Rules: the columns are Kafka's, found whatever their case. A column that would be dropped without a
word is an error, but for those that only a source has (``offset``, ``timestampType``), so that a
topic can be copied as it is read.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

COLUMNS = ("key", "value", "topic", "partition", "headers", "timestamp")
OF_SOURCES = ("offset", "timestamptype")
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_BYTES = frozenset({"binary", "string"})
_AS_BYTES = (
    "binary or string. Cast it (col({0!r}).cast('string')), or make it JSON (to_json(col({0!r})))"
)
_WANTED = {
    "key": _AS_BYTES.format("key"),
    "value": _AS_BYTES.format("value"),
    "topic": "string",
    "partition": "int",
    "timestamp": "timestamp. Of milliseconds: timestamp_millis(...); one that is part of the data"
    " belongs into the value",
    "headers": HEADERS_TYPE,
}


class SinkSchemaError(ValueError):
    """The data frame cannot be written as records; says which column and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A layout has the positions of the columns; None: there is no such column. May be pickled."""

    value: int
    key: int | None = None
    topic: int | None = None
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None


def layout_of(schema: StructType, *, topic: str | None, include_headers: bool = True) -> Layout:
    """Return the layout of a data frame that is written to ``topic``, or where its column says.

    :raises SinkSchemaError: a column is missing, unknown, there twice, or of a wrong type.
    """
    found: dict[str, int] = {}
    for position, column in enumerate(schema.fields):
        name = column.name.lower()
        if name in OF_SOURCES:
            continue
        if name not in COLUMNS:
            _refuse(column.name, schema)
        if name in found:
            raise SinkSchemaError(f"there are two columns {name!r}: drop one")
        _check_type(name, column.dataType)
        found[name] = position
    if "value" not in found:
        raise SinkSchemaError(
            f"there is no column 'value' among {schema.names}: the records' values, binary or"
            " string; all columns as JSON: select(to_json(struct('*')).alias('value'))"
        )
    if topic is not None:
        found.pop("topic", None)
    elif "topic" not in found:
        raise SinkSchemaError(
            "which topic? .option(\"topic\", ...), or a column 'topic' that says it row by row"
        )
    if not include_headers:
        found.pop("headers", None)
    return Layout(**found)


def _refuse(name: str, schema: StructType) -> None:
    near = difflib.get_close_matches(name.lower(), COLUMNS, n=1)
    if near and near[0] not in (other.lower() for other in schema.names):
        raise SinkSchemaError(f"unknown column {name!r}: did you mean {near[0]!r}?")
    raise SinkSchemaError(
        f"unknown column {name!r}: records have {', '.join(COLUMNS)}. Drop it, or put it into the"
        " value: select(to_json(struct('*')).alias('value'))"
    )


def _check_type(name: str, kind: DataType) -> None:
    text = kind.simpleString()
    limited = text.startswith(("char(", "varchar("))
    fits = {
        "key": text in _BYTES or limited,
        "value": text in _BYTES or limited,
        "topic": text == "string" or limited,
        "partition": text in _WHOLE,
        "timestamp": text == "timestamp",
        "headers": _are_headers(kind),
    }
    if not fits[name]:
        raise SinkSchemaError(f"column {name!r} is {text}: must be {_WANTED[name]}")


def _are_headers(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, StructType

    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [column.name.lower() for column in fields] == ["key", "value"]
        and fields[0].dataType.simpleString() == "string"
        and fields[1].dataType.simpleString() in _BYTES
    )
