"""The source has these columns, with Spark types and Arrow types; options say which are wanted.

Rules
-----
* Names, order and types are those of Spark's Kafka source; ``headers`` is there with
  ``includeHeaders``. With ``keyFormat`` and ``valueFormat`` the two columns have another type.
* A schema that the user gives takes some of the columns, in any order: what is not named is not
  made, and costs nothing. (PySpark tells a source nothing of the columns that a query needs.)
* PySpark compares Arrow schemas exactly, so they come from its own translation.
* What a document has is not known before it is read: no field of a JSON schema is NOT NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark_oncelog.ddl import is_whole_type
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
"""The columns in Spark's order, with their types in DDL."""

MISFIT = "misfit"
"""The column of ``includeMisfits``: what of a record did not fit its schema, or NULL."""

JSON_TYPES = (
    "boolean", "byte", "short", "integer", "long", "float", "double", "string", "binary", "date",
    "timestamp", "timestamp_ntz", "decimal",
)  # fmt: skip
"""Spark's names of those that JSON is read as."""


def source_ddl(options: SourceOptions | None) -> str:
    """Return the schema of the source; it has all columns when there are no options."""
    columns = dict(COLUMNS)
    if options is not None:
        if not options.include_headers:
            del columns["headers"]
        if options.include_misfits:
            columns[MISFIT] = "STRING"
        columns["key"] = _decoded_ddl(options.key_format, options.key_schema)
        columns["value"] = _decoded_ddl(options.value_format, options.value_schema)
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def _decoded_ddl(kind: str, ddl: str) -> str:
    if kind != "json":
        return kind.upper()
    text = ddl.strip()
    return text if is_whole_type(text) else f"STRUCT<{text}>"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema that PySpark will ask for."""
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
    expected[MISFIT] = "STRING"
    for column in schema.fields:
        if column.name not in expected:
            raise OptionError(
                f"there is no column {column.name!r}; a schema takes some of"
                f" {', '.join(expected)}. For fields inside of the value, give valueFormat=json"
                " and valueSchema"
            )
        wanted = expected[column.name]
        if wanted == "json":
            _check_json(f"{column.name}Schema", column.dataType, "")
            continue
        actual = column.dataType.simpleString()
        if actual != wanted.lower().replace(": ", ":").replace(", ", ","):
            raise OptionError(f"column {column.name!r} is {wanted.lower()}, not {actual}")


def _check_json(option: str, kind: Any, path: str) -> None:
    """Refuse types that JSON is not read as, and promises about what it has.

    :raises OptionError: naming the option and the field.
    """
    from pyspark.sql import types

    where = f" at {path}" if path else ""
    if isinstance(kind, types.StructType):
        for field in kind.fields:
            inner = f"{path}.{field.name}" if path else field.name
            if not field.nullable:
                raise OptionError(
                    f"{option}: {inner} is NOT NULL, but what a record lacks, or what does not fit,"
                    " is NULL. Leave NOT NULL out, and filter"
                )
            _check_json(option, field.dataType, inner)
    elif isinstance(kind, types.ArrayType):
        _check_json(option, kind.elementType, f"{path}[]")
    elif isinstance(kind, types.MapType):
        if not isinstance(kind.keyType, types.StringType):
            raise OptionError(f"{option}: a MAP{where} has STRING keys, as JSON's objects have")
        _check_json(option, kind.valueType, f"{path}{{}}")
    elif kind.typeName() not in JSON_TYPES:
        raise OptionError(
            f"{option}: {kind.simpleString().upper()}{where} is not read from JSON. Read it as"
            " STRING, and let Spark convert it"
        )
