"""The columns of the source: their Spark types, their Arrow types, and which of them are wanted.

Rules
-----
* Names, order and types are those of Spark's Kafka source; ``headers`` is there with
  ``includeHeaders``. With ``keyFormat`` and ``valueFormat`` the two columns have another type.
* A schema that the user gives takes some of the columns, in any order: what is not named is not
  made, and costs nothing. (PySpark tells a source nothing of the columns that a query needs.)
* PySpark compares Arrow schemas exactly, so they come from its own translation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_oncelog.option_values import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_oncelog.options import SourceOptions

COLUMNS = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""In Spark's order, with their types in DDL."""

NESTED = ("struct<", "array<", "map<")


def source_ddl(options: SourceOptions | None) -> str:
    """The schema of the source; all columns when there are no options."""
    columns = dict(COLUMNS)
    if options is not None:
        if not options.include_headers:
            del columns["headers"]
        columns["key"] = _decoded_ddl(options.key_format, options.key_schema)
        columns["value"] = _decoded_ddl(options.value_format, options.value_schema)
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _decoded_ddl(kind: str, ddl: str) -> str:
    if kind != "json":
        return kind.upper()
    text = ddl.strip()
    return text if text.lower().startswith(NESTED) else f"STRUCT<{text}>"


def arrow_schema(schema: StructType) -> pa.Schema:
    """As PySpark will ask for it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    translate: Any = to_arrow_schema
    try:
        return translate(schema, timezone="UTC")
    except TypeError:  # before PySpark 4.3 it is always so
        return translate(schema)


def check_schema(schema: StructType, options: SourceOptions) -> None:
    """Refuse what the source cannot make.

    :raises OptionError: a column that does not exist, or has another type; naming those there are.
    """
    expected = dict(COLUMNS)
    expected["key"], expected["value"] = options.key_format, options.value_format
    for column in schema.fields:
        if column.name not in expected:
            raise OptionError(
                f"there is no column {column.name!r}; a schema takes some of"
                f" {', '.join(expected)}. For fields inside of the value, give valueFormat=json"
                " and valueSchema"
            )
        wanted = expected[column.name]
        if wanted == "json":
            continue
        actual = column.dataType.simpleString()
        if actual != wanted.lower().replace(": ", ":").replace(", ", ","):
            raise OptionError(f"column {column.name!r} is {wanted.lower()}, not {actual}")
