"""Readers get batches here only in formats that they understand.

Rules:

- a log may hold batches of our format and of Kafka's, side by side. A reader says in Fetch which it
  understands; who says nothing is of an older release, and understands ours only [D17];
- such a reader gets what lies before the first batch that it does not understand. When that batch
  is the first one, its error is UNSUPPORTED_VERSION, which every release knows;
- nothing is looked at for readers that understand all, as those of this release do. For the others
  the headers of what is sent are walked: nothing is kept of what a log holds, so nothing can be
  wrong after a recovery, a compaction or a truncation.
"""

from __future__ import annotations

from oncelog_broker.replication.ports import Buffer
from oncelog_protocol.errors import UnsupportedVersionError
from oncelog_protocol.messages.fetch import ALL_FORMATS, format_of
from oncelog_protocol.records.batch import iter_headers


def understood(records: Buffer, formats: int) -> Buffer:
    """Return the batches that a reader of these formats understands, from the first one on.

    :raises UnsupportedVersionError: it does not understand the first.
    :raises CorruptBatchError: a header does not hold.
    """
    if formats & ALL_FORMATS == ALL_FORMATS or not records:
        return records
    for position, header in iter_headers(records):
        if not format_of(header.magic) & formats:
            if not position:
                raise UnsupportedVersionError(
                    f"the batch at offset {header.base_offset} has magic {header.magic}, which the"
                    " reader does not understand"
                )
            return memoryview(records)[:position]
    return records
