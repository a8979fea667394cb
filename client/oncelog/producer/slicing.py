"""Lists of records are cut into batches of about ``batch_size`` bytes. Pure, and in C where it
counts.

Rules: no loop in Python runs over records: sizes are taken by ``map(len, ...)``; when all are equal
the cuts are at a fixed stride, otherwise they are found by bisection in the running sum.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from oncelog.producer.checks import Headers
from oncelog_protocol import limits

ITEM_BYTES = 5
"""The most that msgpack adds to one value."""

RECORD_OVERHEAD_BYTES = 12
"""One record costs so many bytes in a batch beside its key and value: msgpack's headers and a
timestamp."""

KEYED_OVERHEAD_BYTES = RECORD_OVERHEAD_BYTES + 5
"""The same with a key."""


def sizes_of(column: Sequence[bytes | None]) -> list[int]:
    """Return the size of each item in bytes, 0 for None; raise TypeError where there is none."""
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:
        return [0 if item is None else len(item) for item in column]


def cuts(sizes: Sequence[int], extra: int, batch_size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, stop, size in bytes) of each slice, in order.

    A slice holds at least one record, and as many as fit ``batch_size`` with ``extra`` bytes added
    to each.
    """
    count = len(sizes)
    if not count:
        return
    smallest, largest = min(sizes), max(sizes)
    if smallest == largest:
        each = smallest + extra
        rows = min(max(batch_size // each, 1), limits.BATCH_RECORD_COUNT_MAX)
        for start in range(0, count, rows):
            stop = min(start + rows, count)
            yield start, stop, (stop - start) * each
        return
    ends = list(accumulate(sizes))
    start, before = 0, 0
    while start < count:
        # The extra bytes are per record, so look at the mean first and correct downwards.
        stop = bisect_right(ends, before + batch_size, lo=start)
        while stop - start > 1 and ends[stop - 1] - before + (stop - start) * extra > batch_size:
            stop = start + max(_fewer(stop - start, ends[stop - 1] - before, extra, batch_size), 1)
        stop = min(max(stop, start + 1), start + limits.BATCH_RECORD_COUNT_MAX, count)
        yield start, stop, ends[stop - 1] - before + (stop - start) * extra
        start, before = stop, ends[stop - 1]


def _fewer(rows: int, data: int, extra: int, batch_size: int) -> int:
    """Return fewer rows than ``rows``, by the mean size: at least one less, so the search ends."""
    mean = data / rows + extra
    return min(int(batch_size / mean), rows - 1)


def pick(column: Sequence[bytes | None], rows: Sequence[int]) -> list[bytes | None]:
    """Return the items at ``rows``, in that order."""
    if isinstance(rows, range):
        return list(column[rows.start : rows.stop : rows.step])
    return [column[row] for row in rows]


def record_size(value: bytes | None, key: bytes | None, headers: Headers | None) -> int:
    """Return an upper bound of what one record takes in a batch, in bytes."""
    size = RECORD_OVERHEAD_BYTES
    if value is not None:
        size += len(value)
    if key is not None:
        size += len(key) + KEYED_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES
    if headers:
        for name, data in headers:
            size += 4 * len(name) + 10 + (len(data) if data is not None else 0)
    return size
