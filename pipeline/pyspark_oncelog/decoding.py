"""Keys and values as text or as structs, decoded by the column.

Rules
-----
* The common case is one call of Arrow for the whole column. Only where something in a column cannot
  be decoded is that column gone through one by one.
* ``permissive`` makes null of what cannot be decoded, ``failfast`` an error that names the offset:
  as Spark's ``from_json`` has it. Null stays null.
* Fields that the schema does not have are left out; those that a document does not have are null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from oncelog import ColumnBatch

FAILFAST = "failfast"


class DecodeError(ValueError):
    """A key or value is not what ``keyFormat`` or ``valueFormat`` says."""


def decode(
    raw: pa.Array, kind: str, field: pa.Field, mode: str, batches: Sequence[ColumnBatch]
) -> pa.Array:
    """``raw`` as ``kind``, which is string or json; ``batches`` tell where it came from.

    :raises DecodeError: something cannot be decoded, and ``mode`` is failfast.
    """
    if kind == "string":
        return _as_text(raw, field, mode, batches)
    return _as_json(raw, field, mode, batches)


def _as_text(raw: pa.Array, field: pa.Field, mode: str, batches: Sequence[ColumnBatch]) -> pa.Array:
    try:
        return raw.cast(field.type)
    except pa.ArrowInvalid:
        pass
    decoded: list[str | None] = []
    for index, value in enumerate(raw.to_pylist()):
        try:
            decoded.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            if mode == FAILFAST:
                raise _failure(field.name, index, batches, error) from error
            decoded.append(None)
    return pa.array(decoded, field.type)


def _as_json(raw: pa.Array, field: pa.Field, mode: str, batches: Sequence[ColumnBatch]) -> pa.Array:
    from pyspark_oncelog.json_columns import NotTabular, parse_column

    try:
        return parse_column(raw, field.type)
    except NotTabular:
        pass
    decoded: list[pa.Array] = []
    for index, value in enumerate(raw.to_pylist()):
        try:
            decoded.append(_one(value, field.type))
        except (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException) as error:
            if mode == FAILFAST:
                raise _failure(field.name, index, batches, error) from error
            decoded.append(pa.nulls(1, field.type))
    return pa.concat_arrays(decoded) if decoded else pa.nulls(0, field.type)


def _one(value: bytes | None, kind: pa.DataType) -> pa.Array:
    """An array of one; Arrow refuses what does not fit, such as a number that is too large."""
    from pyspark_oncelog.json_columns import parse_one

    if value is None:
        return pa.nulls(1, kind)
    return pa.array([parse_one(json.loads(value.decode()), kind)], kind)


def _failure(
    name: str, index: int, batches: Sequence[ColumnBatch], error: BaseException
) -> DecodeError:
    offsets = list(chain.from_iterable(batch.offsets for batch in batches))
    where = f"{batches[0].topic}-{batches[0].partition} at offset {offsets[index]}"
    return DecodeError(f"the {name} of {where} cannot be decoded: {error}")
