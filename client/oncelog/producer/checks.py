"""A record is checked before it is taken. Pure.

Rules: whatever would fail a whole batch when it is encoded, or be refused by every broker, is
refused here, in the caller's hands, and harms no other record.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import MessageTooLargeError
from oncelog_protocol import limits

BYTES_OR_NONE = frozenset({bytes, type(None)})
INT = frozenset({int})
LIST_OR_TUPLE = frozenset({list, tuple})
HEADER_PAIRS = "headers: pairs of str and bytes or None"
TIMESTAMP_MS_MAX = 2**63 - 1

Headers = Sequence[tuple[str, bytes | None]]


def check_record(
    value: bytes | None, key: bytes | None, headers: Headers | None, timestamp_ms: int | None
) -> None:
    """Raise TypeError or ValueError for a record that cannot be sent."""
    if value is not None and type(value) is not bytes:
        raise TypeError(f"value: {type(value).__name__} is not bytes or None; encode it first")
    if key is not None and type(key) is not bytes:
        raise TypeError(f"key: {type(key).__name__} is not bytes or None; encode it first")
    if timestamp_ms is not None and (
        type(timestamp_ms) is not int or not 0 <= timestamp_ms <= TIMESTAMP_MS_MAX
    ):
        raise ValueError(f"timestamp_ms={timestamp_ms!r}: must be milliseconds since 1970")
    if headers:
        check_headers(headers)


def check_headers(headers: Headers) -> None:
    """Raise TypeError or ValueError for headers that cannot be sent."""
    if type(headers) not in LIST_OR_TUPLE and not _is_list(headers):
        raise TypeError(
            f"headers: {type(headers).__name__} is not a list of pairs;"
            ' names may repeat, so write headers=[("name", b"value")]'
        )
    if len(headers) > limits.HEADER_COUNT_MAX:
        raise ValueError(f"{len(headers)} headers, at most {limits.HEADER_COUNT_MAX}")
    for pair in headers:
        try:
            name, data = pair
        except (TypeError, ValueError):
            raise TypeError(HEADER_PAIRS) from None
        if type(name) is not str or type(data) not in BYTES_OR_NONE:
            raise TypeError(HEADER_PAIRS)
        name.encode()  # a lone surrogate is a ValueError


def too_large(size: int, max_request_size: int) -> MessageTooLargeError:
    """Make the error for a record of ``size`` bytes that no request can hold."""
    return MessageTooLargeError(
        f"a record of {size} bytes is larger than max_request_size={max_request_size} allows"
    )


def _is_list(headers: object) -> bool:
    return isinstance(headers, Sequence) and not isinstance(headers, (str, bytes, bytearray))


def check_columns(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    headers: Sequence[Headers | None] | None,
    timestamps_ms: Sequence[int] | int,
) -> None:
    """Raise TypeError or ValueError unless all columns are right and equally long."""
    count = len(values)
    columns: dict[str, Sequence[object] | None] = {"keys": keys, "headers": headers}
    if isinstance(timestamps_ms, int):
        check_record(None, None, None, timestamps_ms)
    else:
        columns["timestamps_ms"] = timestamps_ms
        if not INT.issuperset(map(type, timestamps_ms)) or min(timestamps_ms, default=0) < 0:
            raise ValueError("timestamps_ms: must be milliseconds since 1970")
    for name, column in columns.items():
        if column is not None and len(column) != count:
            raise ValueError(f"{name}: {len(column)} items for {count} values")
    for name, items in (("values", values), ("keys", keys)):
        if items is not None and not BYTES_OR_NONE.issuperset(map(type, items)):
            wrong = next(item for item in items if type(item) not in BYTES_OR_NONE)
            raise TypeError(f"{name}: {type(wrong).__name__} is not bytes or None; encode it first")
    for some in headers or ():
        if some:
            check_headers(some)
