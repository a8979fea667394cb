"""A column of JSON documents as an Arrow struct: in one call where Arrow's reader can do it.

Rules
-----
* Arrow's reader reads lines. Documents are put on lines of their own, one for each record and
  ``{}`` for each null; that it found as many is checked. What it cannot read as the schema says, or
  reads differently from Python's ``json``, is :class:`NotTabular`: the caller goes one by one.
* Types of one by one are those of Spark's ``from_json``: numbers from numbers, text from anything,
  times from ISO 8601.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PLAIN = (
    pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string,
)  # fmt: skip
"""Types that Arrow's reader reads as ``json`` would; times and decimals are read one by one."""

OBJECT = r"^[ \t]*\{"
SUSPECT = r"[\n\r\x00]|\}[ \t]*n"


class NotTabular(Exception):
    """The column is none that Arrow's reader can take."""


def parse_column(raw: pa.Array, kind: pa.DataType) -> pa.Array:
    """All documents of ``raw`` (binary) as ``kind``.

    :raises NotTabular: one by one, please.
    """
    if not pa.types.is_struct(kind) or not _plain(kind) or len(raw) == 0:
        raise NotTabular
    from pyarrow import json as arrow_json

    filled = raw.fill_null(b"{}") if raw.null_count else raw
    if not _harmless(filled):
        raise NotTabular
    joined = b"\n".join(filled.to_pylist())
    options = arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(kind)), unexpected_field_behavior="ignore"
    )
    block = arrow_json.ReadOptions(block_size=min(len(joined) + 1, 2**31 - 1), use_threads=False)
    try:
        table = arrow_json.read_json(pa.BufferReader(joined), block, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NotTabular from error
    if table.num_rows != len(raw):
        raise NotTabular  # blank documents are no lines to it
    columns = [table.column(field.name).combine_chunks() for field in kind]
    mask = raw.is_null() if raw.null_count else None
    return pa.StructArray.from_arrays(
        [_whole(column, field) for column, field in zip(columns, kind, strict=True)],
        fields=list(kind),
        mask=mask,
    )


def _whole(column: Any, field: pa.Field) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], field.type)
    return column


def _harmless(documents: pa.Array) -> bool:
    """Whether each is a line of UTF-8 that begins an object, and cannot hold a null beside it:
    that one kills the process (Arrow 26), and text from a log is anybody's."""
    try:
        text = documents.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    objects = pc.all(pc.match_substring_regex(text, OBJECT)).as_py()
    return bool(objects) and not pc.any(pc.match_substring_regex(text, SUSPECT)).as_py()


def _plain(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_plain(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _plain(kind.value_type)
    return any(check(kind) for check in PLAIN)


def parse_one(document: Any, kind: pa.DataType) -> Any:
    """One parsed document, or a part of one, as what Arrow takes for ``kind``.

    :raises ValueError: it does not fit.
    """
    if document is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(document, dict):
            raise ValueError(f"{_short(document)} is no object")
        return {field.name: parse_one(document.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        if not isinstance(document, list):
            raise ValueError(f"{_short(document)} is no array")
        return [parse_one(item, kind.value_type) for item in document]
    if pa.types.is_map(kind):
        if not isinstance(document, dict):
            raise ValueError(f"{_short(document)} is no object")
        return [(key, parse_one(item, kind.item_type)) for key, item in document.items()]
    return _scalar(document, kind)


def _scalar(document: Any, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return document if isinstance(document, str) else json.dumps(document)
    if pa.types.is_boolean(kind):
        return _exactly(document, bool)
    if pa.types.is_integer(kind):
        return _exactly(document, int)
    if pa.types.is_floating(kind):
        if isinstance(document, bool) or not isinstance(document, int | float):
            raise ValueError(f"{_short(document)} is no number")
        return float(document)
    if pa.types.is_decimal(kind):
        return round(Decimal(str(document)), kind.scale)
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(_exactly(document, str))
        return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)  # noqa: UP017
    if pa.types.is_date(kind):
        return date.fromisoformat(_exactly(document, str))
    if pa.types.is_binary(kind):
        return base64.b64decode(_exactly(document, str), validate=True)
    raise ValueError(f"no column of type {kind} is made from JSON")


def _exactly(document: Any, kind: type) -> Any:
    if type(document) is not kind:
        raise ValueError(f"{_short(document)} is no {kind.__name__}")
    return document


def _short(document: Any) -> str:
    return f"{document!r:.60}"
