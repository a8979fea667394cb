"""A client speaks Kafka's protocol by hand, and in any version."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from oncelog_broker.kafka.wire.codec import decode, encode
from oncelog_broker.kafka.wire.declaration import KafkaRequest
from oncelog_broker.kafka.wire.messages.api_versions import KafkaApiVersionsRequest
from support.cluster import Cluster

__all__ = ["WAIT_S", "RawClient", "connected"]

WAIT_S = 20


class RawClient:
    """It speaks Kafka's protocol by hand, one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(
        self, request: KafkaRequest, version: int, payload: list[bytes] | None = None
    ) -> Any:
        """Return the answer.

        :raises EOFError: the broker has closed the connection.
        """
        self.send(request, version, payload or [])
        data = memoryview(await self.frame())
        flexible = version >= request.response.flexible_since
        has_tags = flexible and request.api_key != KafkaApiVersionsRequest.api_key
        return decode(request.response, version, data, 5 if has_tags else 4)

    def send(self, request: KafkaRequest, version: int, payload: list[bytes]) -> None:
        """Send a request, and wait for nothing."""
        head = struct.pack(">hhih", request.api_key, version, 1, 3) + b"raw"
        head += b"\0" if version >= request.flexible_since else b""
        body = b"".join(bytes(each) for each in encode(request, version, payload))
        self.send_frame(head + body)

    def send_frame(self, frame: bytes) -> None:
        """Send a size and these bytes."""
        self.write(struct.pack(">i", len(frame)) + frame)

    def write(self, data: bytes) -> None:
        """Send these bytes."""
        self._writer.write(data)

    async def frame(self) -> bytes:
        """Return what comes behind the next size.

        :raises EOFError: the broker has closed the connection.
        """
        async with asyncio.timeout(WAIT_S):
            try:
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                return await self._reader.readexactly(size)
            except ConnectionError as error:
                raise EOFError from error

    async def frames_until_the_end(self) -> int:
        """Return how many frames come before the broker closes the connection."""
        count = 0
        try:
            while True:
                await self.frame()
                count += 1
        except EOFError:
            return count

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def connected(
    cluster: Cluster, broker_id: int = 1, listener: str = "kafka", **options: Any
) -> RawClient:
    """Return a client of one broker."""
    host, port = cluster.brokers[broker_id].addresses[listener]
    return RawClient(*await asyncio.open_connection(host, port, **options))
