"""Keys and values are decoded by the column, as text or as structs.

Rules
-----
* The common case is one call of Arrow for the whole column. Only where something in a column cannot
  be decoded are parts of it gone through one by one.
* ``permissive`` makes null of what cannot be decoded, field by field, as Spark's ``from_json`` has
  it; ``failfast`` makes an error of it that names the offset. Null stays null.
* A record of which something was made null is a misfit: the first of each field is logged, all of
  them are in the column ``misfit``, for who asks for it.
* Fields that the schema does not have are left out; those that a document does not have are null.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from oncelog import ColumnBatch

logger = logging.getLogger(__name__)

FAILFAST = "failfast"

Zone = Callable[[], tzinfo]


class DecodeError(ValueError):
    """A key or value is not what ``keyFormat`` or ``valueFormat`` says."""


class Misfits:
    """Some batches of one partition had these misfits.

    :param once: whether a text is new to this process: what was logged once is not logged again.
    """

    def __init__(self, once: Callable[[str], bool]) -> None:
        self._once = once
        self._found: dict[int, list[str]] = {}

    def take(
        self, name: str, problems: Sequence[tuple[int, str]], batches: Sequence[ColumnBatch]
    ) -> None:
        """Note for the column ``name`` which records did not fit, and why."""
        for index, problem in problems:
            self._found.setdefault(index, []).append(f"{name}: {problem}")
            field = problem.partition(": ")[0] if ": " in problem else ""
            if self._once(f"misfit {batches[0].topic} {name} {field}"):
                logger.warning(
                    "the %s of %s does not fit its schema: %s; what does not fit is NULL. Others of"
                    " this kind are counted, not logged",
                    name,
                    place(batches, index),
                    problem,
                )

    def taken(self, count: int) -> list[str | None]:
        """Return one text for each of the records, None where everything fits; then begin anew."""
        found, self._found = self._found, {}
        texts: list[str | None] = [None] * count
        for at, problems in found.items():
            texts[at] = "; ".join(problems)
        return texts


def place(batches: Sequence[ColumnBatch], index: int) -> str:
    """Return where a record stands in the log, for people."""
    offsets = list(chain.from_iterable(batch.offsets for batch in batches))
    return f"{batches[0].topic}-{batches[0].partition} at offset {offsets[index]}"


def decode(
    raw: pa.Array,
    kind: str,
    field: pa.Field,
    mode: str,
    batches: Sequence[ColumnBatch],
    zone: Zone,
    misfits: Misfits,
) -> pa.Array:
    """Decode ``raw`` as ``kind``, which is string or json; ``batches`` tell where it came from.

    :param zone: that times count in which name none.
    :raises DecodeError: something cannot be decoded, and ``mode`` is failfast.
    """
    if kind == "string":
        decoded, problems = _as_text(raw, field.type)
    else:
        from pyspark_oncelog.json_columns import read_column

        decoded, problems = read_column(raw, field.type, zone)
    if problems and mode == FAILFAST:
        index, problem = problems[0]
        raise DecodeError(
            f"the {field.name} of {place(batches, index)} cannot be decoded: {problem}"
        )
    misfits.take(field.name, problems, batches)
    return decoded


def _as_text(raw: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[tuple[int, str]]]:
    try:
        return raw.cast(kind), []
    except pa.ArrowInvalid:
        pass
    decoded: list[str | None] = []
    problems: list[tuple[int, str]] = []
    for index, value in enumerate(raw.to_pylist()):
        try:
            decoded.append(None if value is None else value.decode())
        except UnicodeDecodeError as error:
            problems.append((index, str(error)))
            decoded.append(None)
    return pa.array(decoded, kind), problems
