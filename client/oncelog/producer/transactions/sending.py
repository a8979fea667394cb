"""A transaction and a shared writer have these calls, which send through a producer of their own.

Rules: each is the producer's call of that name, made only while the transaction may be written to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from oncelog.producer.partition_queue import Delivery
from oncelog.producer.record_metadata import BatchMetadata, RecordMetadata
from oncelog.producer.record_producer import RecordProducer
from oncelog.producer.send_options import ColumnOptions, RecordOptions


class Sending:
    """A ``Transaction`` and a ``SharedWriter`` send by these calls."""

    def __init__(self, producer: RecordProducer) -> None:
        self._producer = producer

    def _check(self) -> None:
        """Raise if nothing may be sent now; here the producer alone knows."""

    async def send(
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> RecordMetadata:
        """Send one record as ``Producer.send`` does, and wait until it is in the log.

        It becomes visible once the transaction commits; in a shared one, if this writer wins.
        """
        self._check()
        return await self._producer.send(topic, value, **options)

    async def enqueue(
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Put one record in line as ``Producer.enqueue`` does; commit and receipt wait for it."""
        self._check()
        return await self._producer.enqueue(topic, value, **options)

    def send_nowait(
        self, topic: str, value: bytes | None = None, **options: Unpack[RecordOptions]
    ) -> Delivery:
        """Put one record in line at once, as ``Producer.send_nowait`` does."""
        self._check()
        return self._producer.send_nowait(topic, value, **options)

    async def send_many(
        self, topic: str, values: Sequence[bytes | None], **options: Unpack[ColumnOptions]
    ) -> BatchMetadata:
        """Send a list of records as ``Producer.send_many`` does."""
        self._check()
        return await self._producer.send_many(topic, values, **options)

    async def enqueue_many(
        self, topic: str, values: Sequence[bytes | None], **options: Unpack[ColumnOptions]
    ) -> None:
        """Put a list in line as ``Producer.enqueue_many`` does; commit and receipt wait for it."""
        self._check()
        await self._producer.enqueue_many(topic, values, **options)

    async def flush(self, timeout_ms: int | None = None) -> None:
        """Send what is in line, as ``Producer.flush`` does; a commit and a receipt need it."""
        self._check()
        await self._producer.flush(timeout_ms)
