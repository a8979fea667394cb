"""A sieve holds back markers and the records of aborted transactions. Pure.

Rules
-----
* The leader does not filter: it names the aborted transactions that touch what it sends, each by
  its producer and its first offset there (KIP-98). From that offset on nothing transactional of
  the producer is handed out, up to its abort marker in the span.
* Markers are never handed out, whatever the isolation level.
* A span stands for itself: what is known of it goes with it. So what is held does not grow with the
  number of transactions, open or ended; and the names count as bytes held in advance.
* Spans without markers and without aborted transactions have no sieve: they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_protocol.messages.fetch import AbortedTransaction
from oncelog_protocol.records.batch import BatchHeader
from oncelog_protocol.records.control import ControlType, decode_marker

ABORTED_BYTES = 120
"""A named transaction takes about so many bytes here: a tuple and its two numbers."""


class Sieve:
    """A sieve is for one span, whose batches are shown to it in order; one may be shown again."""

    __slots__ = ("_ahead", "_dropping", "size")

    def __init__(self, aborted: Sequence[AbortedTransaction] | None = None) -> None:
        self._ahead = sorted(
            ((item.first_offset, item.producer_id) for item in aborted or ()), reverse=True
        )
        """Those that begin behind what was shown, the next one last."""
        self._dropping: set[int] = set()
        """Producers of which nothing transactional is handed out now."""
        self.size = ABORTED_BYTES * len(self._ahead)
        """Bytes that it holds."""

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether to hide this batch; raise CorruptBatchError for an unknown marker."""
        ahead = self._ahead
        while ahead and ahead[-1][0] <= header.last_offset:
            self._dropping.add(ahead.pop()[1])
        if header.is_control:
            if header.producer_id in self._dropping:
                marker = decode_marker(batch, verify=False)
                if marker.control_type is ControlType.ABORT:
                    self._dropping.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._dropping
