"""A handler may return records for the log. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oncelog.consumer.record import RecordHeaders
from oncelog.producer.checks import Headers, check_record
from oncelog_protocol import limits

OVERHEAD_BYTES = 120
"""A result takes about so many bytes here beside its key and value."""


class ProducerRecord(NamedTuple):
    """A handler returns this to have a record written.

    Without ``partition`` the partitioner chooses; without ``timestamp_ms`` (milliseconds since
    1970) it is the time of writing.
    """

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    headers: Headers | RecordHeaders = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def checked_results(returned: object) -> list[ProducerRecord]:
    """Return a handler's result as a list: nothing, one record, or several.

    :raises TypeError, ValueError: something that cannot be written.
    """
    if returned is None:
        return []
    if isinstance(returned, ProducerRecord):
        results = [returned]
    elif isinstance(returned, Iterable) and not isinstance(returned, (str, bytes, tuple)):
        results = list(returned)
    else:
        raise TypeError(
            f"the handler returned {type(returned).__name__}: must be None, a ProducerRecord or a"
            " list of them"
        )
    for item in results:
        if not isinstance(item, ProducerRecord):
            raise TypeError(f"the handler returned a {type(item).__name__} in a list of records")
        topic: object = item.topic  # the caller's, whatever the annotation says
        if not isinstance(topic, str) or not limits.TOPIC_PATTERN.fullmatch(topic):
            raise ValueError(f"topic={topic!r:.100}: must be the name of a topic")
        check_record(item.value, item.key, item.headers, item.timestamp_ms)
    return results


def size_of(results: Iterable[ProducerRecord]) -> int:
    """Return about how many bytes the results take."""
    return sum(OVERHEAD_BYTES + len(item.value or b"") + len(item.key or b"") for item in results)
