"""A column of JSON documents becomes an Arrow array: in one call where Arrow's reader can do it.

Rules
-----
* Arrow's reader reads lines. Documents are put on lines of their own, one for each record and
  ``{}`` for each null. Each begins and ends an object, so none can be left open for the next one to
  close it; that as many were found is checked.
* Where something does not fit, or Arrow would read it differently from Spark, a column is cut into
  pieces, and small pieces that still hold such a document go one by one: see ``json_document``.
* Times and dates are read as text. Arrow converts them where all are written in full, as ISO 8601.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import tzinfo
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_oncelog.json_document import Documents

PLAIN = (
    pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string,
    pa.types.is_decimal128, pa.types.is_date32, pa.types.is_timestamp,
)  # fmt: skip
"""Types that Arrow's reader reads; others go one by one."""

OBJECT = r"^[ \t]*\{"
SUSPECT = (
    r"[\n\r\x00]"  # a line has one document
    r"|\}[ \t]*n"  # a null behind it ends the process (Arrow 26), and text is anybody's
    r"|[:,\[][ \t]*-?(NaN|Inf)"  # it takes more words for these than Spark
    r"|[:,\[][ \t]*-0[,\]} \t]"  # -0 is a whole number, which has no sign
)
DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
LOCAL = r"^(19[0-9]{2}|20[0-9]{2})-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
ZONED = LOCAL + r"(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])$"
"""Arrow knows no zone's time before there were zones."""

PARTS = 8
"""That a column is cut into when it does not go as a whole."""
FEW = 48
"""Documents that go one by one sooner than Arrow says which of them does not fit."""


class NotTabular(Exception):
    """The column is none that Arrow's reader can take."""


def read_column(
    raw: pa.Array, kind: pa.DataType, zone: Callable[[], tzinfo]
) -> tuple[pa.Array, list[tuple[int, str]]]:
    """Read all documents of ``raw`` (binary) as ``kind``.

    :param zone: that times without one count in; asked for only where there are such.
    :returns: the documents; and of those that did not fit which it was, and what of it.
    """
    pieces: list[pa.Array] = []
    problems: list[tuple[int, str]] = []
    documents = cache(lambda: Documents(kind, zone()))

    def read(raw: pa.Array, first: int) -> None:
        try:
            pieces.append(parse_column(raw, kind, zone))
            return
        except NotTabular:
            pass
        if len(raw) > FEW and tabular(kind):
            size = -(-len(raw) // PARTS)
            for start in range(0, len(raw), size):
                read(raw.slice(start, size), first + start)
            return
        values: list[Any] = []
        for index, document in enumerate(raw.to_pylist(), start=first):
            value, problem = (None, None) if document is None else documents().read(document)
            values.append(value)
            if problem is not None:
                problems.append((index, problem))
        pieces.append(pa.array(values, kind))

    read(raw, 0)
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind), problems


def parse_column(raw: pa.Array, kind: pa.DataType, zone: Callable[[], tzinfo]) -> pa.Array:
    """Read all documents of ``raw`` by Arrow's reader.

    :raises NotTabular: something does not fit, or it would not be read as Spark reads it.
    """
    if not tabular(kind) or len(raw) == 0:
        raise NotTabular
    from pyarrow import json as arrow_json

    filled = raw.fill_null(b"{}") if raw.null_count else raw
    if not _harmless(filled):
        raise NotTabular
    joined = b"\n".join(filled.to_pylist())
    asked = [pa.field(item.name, _asked(item.type)) for item in kind]
    options = arrow_json.ParseOptions(
        explicit_schema=pa.schema(asked), unexpected_field_behavior="ignore"
    )
    block = arrow_json.ReadOptions(block_size=min(len(joined) + 1, 2**31 - 1), use_threads=False)
    try:
        table = arrow_json.read_json(pa.BufferReader(joined), block, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise NotTabular from error
    if table.num_rows != len(raw):
        raise NotTabular
    columns = [
        _converted(_whole(table.column(index), asked[index]), item.type, zone)
        for index, item in enumerate(kind)
    ]
    mask = raw.is_null() if raw.null_count else None
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def _whole(column: Any, asked: pa.Field) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.nulls(0, asked.type)])


def _harmless(documents: pa.Array) -> bool:
    """Return whether Arrow's reader takes each document for exactly what it is.

    Each must be a line of UTF-8 that begins and ends an object, and holds nothing that Arrow's
    reader takes for something else.
    """
    try:
        text = documents.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    if not pc.all(pc.ends_with(text, "}")).as_py():
        text = pc.utf8_rtrim(text, " \t")
        if not pc.all(pc.ends_with(text, "}")).as_py():
            return False
    objects = pc.all(pc.match_substring_regex(text, OBJECT)).as_py()
    return bool(objects) and not pc.any(pc.match_substring_regex(text, SUSPECT)).as_py()


def tabular(kind: pa.DataType) -> bool:
    """Return whether Arrow's reader can make a struct of this type at all."""
    return bool(pa.types.is_struct(kind)) and _plain(kind)


def _plain(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        names = [item.name for item in kind]
        return len(set(names)) == len(names) > 0 and all(_plain(item.type) for item in kind)
    if pa.types.is_list(kind):
        return _plain(kind.value_type)
    return any(check(kind) for check in PLAIN)


def _converts(kind: pa.DataType) -> bool:
    """Return whether the result of Arrow's reader has to be converted or checked for this type."""
    if pa.types.is_struct(kind):
        return any(_converts(item.type) for item in kind)
    if pa.types.is_list(kind):
        return _converts(kind.value_type)
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _asked(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow's reader is asked for: times as text."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(item.name, _asked(item.type)) for item in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _asked(kind.value_type)))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _converted(read: pa.Array, kind: pa.DataType, zone: Callable[[], tzinfo]) -> pa.Array:
    if not _converts(kind):
        return read
    if pa.types.is_struct(kind):
        parts = [_converted(read.field(n), item.type, zone) for n, item in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=read.is_null())
    if pa.types.is_list(kind):
        items = _converted(read.values, kind.value_type, zone)
        return pa.ListArray.from_arrays(read.offsets, items, type=kind, mask=read.is_null())
    if pa.types.is_decimal(kind):
        return _checked(read)
    return _moments(read, kind, zone)


def _checked(decimals: pa.Array) -> pa.Array:
    """Arrow's reader looks at the digits behind the point alone."""
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid as error:
        raise NotTabular from error
    return decimals


def _moments(text: pa.Array, kind: pa.DataType, zone: Callable[[], tzinfo]) -> pa.Array:
    if text.null_count == len(text):
        return pa.nulls(len(text), kind)
    try:
        if pa.types.is_date(kind):
            return _all(text, DATE).cast(kind)
        if kind.tz is None:
            return _all(text, LOCAL + "$").cast(kind)
        if _matches(text, ZONED):
            return text.cast(kind)
        local = _all(text, LOCAL + "$").cast(pa.timestamp("us"))
        name = _arrow_zone(zone())
        return pc.assume_timezone(local, name, ambiguous="earliest").cast(kind)
    except pa.ArrowInvalid as error:  # no such day, no such hour
        raise NotTabular from error


def _arrow_zone(zone: tzinfo) -> str:
    """Return the zone's name for Arrow.

    Where a name is not enough the documents go one by one.
    """
    key = getattr(zone, "key", None)
    offset = re.fullmatch(r"UTC(?:([+-][0-9]{2}:[0-9]{2}))?", str(zone))
    if key is None and offset is None:
        raise NotTabular
    return key or (offset[1] if offset is not None and offset[1] else "UTC")


def _matches(text: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, pattern)).as_py())


def _all(text: pa.Array, pattern: str) -> pa.Array:
    if not _matches(text, pattern):
        raise NotTabular
    return text
