"""Records of a batch of Kafka for a compacted topic are looked at for their keys, in steps. Pure.

A large batch has up to a million records, and compressed ones become up to 64 MiB: to look at them
all takes seconds. So whoever serves others meanwhile takes steps, and appends the batch when its
check is done.
"""

from __future__ import annotations

from oncelog_protocol.errors import (
    ApiError,
    CorruptMessageError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
)
from oncelog_protocol.records.batch import BatchHeader, CorruptBatchError
from oncelog_protocol.records.compression import CodecUnavailableError
from oncelog_protocol.records.decode import plain_pieces
from oncelog_protocol.records.kafka_body import KeyScan


class KeyCheck:
    """It is the check of one batch, whose bytes must stay as they are until it is done."""

    __slots__ = ("_crc", "_error", "_scan")

    def __init__(self, batch: memoryview, header: BatchHeader) -> None:
        self._crc = header.crc
        self._scan = KeyScan(plain_pieces(batch, header), header.record_count)
        self._error: ApiError | None = None

    @property
    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self._scan.done or self._error is not None

    def step(self, work: int) -> int:
        """Go on for so much work; return how much was left of it, see ``KeyScan.step``."""
        try:
            return self._scan.step(work)
        except CorruptBatchError as error:
            self._error = InvalidRecordError(str(error))
        except CodecUnavailableError as error:
            self._error = UnsupportedCompressionTypeError(str(error))
        return 0

    def verdict(self, header: BatchHeader) -> None:
        """Take the steps that are left, and say what was found about the batch with this header.

        :raises InvalidRecordError: records have no key; or the body lies.
        :raises UnsupportedCompressionTypeError: the library of its codec is not installed.
        :raises CorruptMessageError: it is not the batch that was looked at.
        """
        if header.crc != self._crc:
            raise CorruptMessageError("another batch than the one whose keys were looked at")
        while not self.done:
            self.step(header.record_count)
        if self._error is not None:
            raise self._error
        if self._scan.keyless:
            raise InvalidRecordError(
                f"{self._scan.keyless_count} of {header.record_count} records have no key, and the"
                " topic is compacted",
                self._scan.keyless,
            )
