"""Batches of our own format become Kafka's here, for readers that know no other. Pure.

Everything in the header stays as it is: offsets, leader epoch, times, producer, and the bits of
transactions and of append time. The body is written anew, as records.

Rules
-----
* Kafka's batches go out as they are, byte for byte, neighbours as one piece.
* The body goes out uncompressed: compressing costs more than the bytes. Only a batch that would be
  larger than any batch may be keeps its codec, whose streams are the same.
* What compaction has emptied is left out between others, as Kafka's offsets may have gaps. Where an
  answer holds nothing else the last one is sent, or its reader would not move on.
* The CRC is made anew, so the old one is looked at first: rot would go out as sound [D14].
* A marker goes out with version 0 of its value, the only one that Kafka's readers know.
* An answer is converted by pieces, so that no turn of a loop is long. Only so much is converted as
  asked for, its first batch always, and whole. What needs no conversion has been read and takes no
  more memory: it is not counted.
"""

from __future__ import annotations

from oncelog_protocol import limits
from oncelog_protocol.errors import LocalProtocolError
from oncelog_protocol.records.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    KAFKA_MAGIC,
    BatchHeader,
    CorruptBatchError,
    assemble,
    iter_headers,
    verify_crc,
)
from oncelog_protocol.records.compression import Codec, CodecUnavailableError, compress
from oncelog_protocol.records.control import decode_marker, plain_record
from oncelog_protocol.records.decode import RecordColumns, decode_batch
from oncelog_protocol.records.kafka_body import BodyColumns, encode_body
from oncelog_protocol.types import Buffer


def to_kafka(batch: Buffer, header: BatchHeader) -> Buffer:
    """Return one batch in Kafka's format. ``header`` is what ``parse_header`` said of it.

    :raises CorruptBatchError: the batch does not hold.
    :raises CodecUnavailableError: the library of its codec is not installed.
    :raises LocalProtocolError: it would be larger than any batch may be.
    """
    if header.magic == KAFKA_MAGIC:
        return batch
    verify_crc(batch)
    codec = Codec.NONE
    if not header.record_count:
        body = b""
    elif header.is_control:
        key, value = plain_record(decode_marker(batch, verify=False))
        body = encode_body(BodyColumns([value], [key], None, None, None))
    else:
        body = encode_body(_body_columns(decode_batch(batch, verify=False, header=header)))
        if HEADER_BYTES + len(body) > limits.BATCH_BYTES_MAX:
            codec = header.codec
            body = compress(codec, body)
    attributes = header.attributes & ~CODEC_MASK | codec
    return assemble(header._replace(magic=KAFKA_MAGIC, attributes=attributes), body)


def _body_columns(columns: RecordColumns) -> BodyColumns:
    deltas = None
    if columns.timestamps is not None:
        base = columns.base_timestamp
        deltas = [timestamp - base for timestamp in columns.timestamps]
    return BodyColumns(columns.values, columns.keys, deltas, columns.headers, columns.offset_deltas)


class Conversion:
    """It converts the batches of one answer, some at a time."""

    __slots__ = (
        "_batches",
        "_emptied",
        "_own_from",
        "_own_until",
        "_records",
        "converted_bytes",
        "pieces",
        "size_bytes",
    )

    def __init__(self, records: Buffer) -> None:
        """Convert whole batches, as a log gives them."""
        self._records = memoryview(records)
        self._batches = iter_headers(self._records, whole=True)
        self._own_from = self._own_until = 0
        """Kafka's batches between these two positions were found, and are not yet a piece."""
        self._emptied: tuple[int, BatchHeader] | None = None
        """The last batch without records, as long as there are none with some."""
        self.pieces: list[Buffer] = []
        """What is ready so far, to be sent one after the other."""
        self.size_bytes = 0
        """The pieces have so many bytes together."""
        self.converted_bytes = 0
        """So many of them were converted."""

    def step(self, turn_bytes: int, converted_bytes_max: int) -> bool:
        """Go on until about ``turn_bytes`` more are ready. Return whether no step is left: all is
        ready, or so many bytes are converted that the next batch which has to be is left out.

        :raises CorruptBatchError, CodecUnavailableError, LocalProtocolError: the first batch cannot
            be converted. A later one ends the answer before it.
        """
        begun = self.size_bytes
        while True:
            try:
                found = next(self._batches, None)
                if found is None:
                    break
                position, header = found
                if self.converted_bytes >= converted_bytes_max and header.magic != KAFKA_MAGIC:
                    break
                self._take(position, header)
            except (CorruptBatchError, CodecUnavailableError, LocalProtocolError):
                if not self.size_bytes and self._emptied is None:
                    raise
                break
            if self.size_bytes - begun >= turn_bytes:
                return False
        self._end()
        return True

    def _take(self, position: int, header: BatchHeader) -> None:
        end = position + header.size_bytes
        if not header.record_count:
            self._emptied = (position, header)
            return
        if header.magic != KAFKA_MAGIC:
            converted = to_kafka(self._records[position:end], header)
            self._flush()
            self.pieces.append(converted)
            self.size_bytes += len(converted)
            self.converted_bytes += len(converted)
            return
        if position != self._own_until:
            self._flush()
            self._own_from = position
        self._own_until = end
        self.size_bytes += end - position

    def _flush(self) -> None:
        if self._own_from < self._own_until:
            self.pieces.append(self._records[self._own_from : self._own_until])
        self._own_from = self._own_until = 0

    def _end(self) -> None:
        self._flush()
        if not self.pieces and self._emptied is not None:
            position, header = self._emptied
            self.pieces.append(
                to_kafka(self._records[position : position + header.size_bytes], header)
            )
            self.size_bytes = len(self.pieces[0])
