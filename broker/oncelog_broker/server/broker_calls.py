"""Requests go to other brokers' internal listeners over connections that are kept.

A connection belongs to a broker and a *lane*: a caller that must not wait behind another's slow
request asks on a lane of its own. One call at a time in a lane; the caller sees to that.
"""

from __future__ import annotations

import asyncio
from typing import Any

from oncelog_broker.server.controller_channel import BrokerConnector
from oncelog_protocol.messages.base import Request
from oncelog_runtime.channel import RequestChannel


class BrokerCalls:
    """It keeps the connections. It is made open; ``close`` ends it."""

    def __init__(self, connector: BrokerConnector) -> None:
        self._connector = connector
        self._channels: dict[tuple[int, int], RequestChannel] = {}
        self._opening: dict[tuple[int, int], asyncio.Lock] = {}
        self._closed = False

    async def channel(self, broker_id: int, lane: int = 0) -> RequestChannel:
        """Return the connection of a lane, for a caller that asks several things of it at once; it
        is opened if there is none.

        :raises OSError, TimeoutError, OncelogError: it cannot be, or this is closed.
        """
        async with self._opening.setdefault((broker_id, lane), asyncio.Lock()):
            channel = self._channels.get((broker_id, lane))
            if channel is None or channel.closed:
                channel = await self._connector.open(broker_id)
                if self._closed:
                    channel.close("the broker stops")
                    raise ConnectionError("the broker stops")
                self._channels[broker_id, lane] = channel
            return channel

    async def call(
        self, broker_id: int, request: Request, *, timeout_s: float, lane: int = 0
    ) -> Any:
        """Return the broker's response to ``request``.

        :raises OSError: it cannot be reached, or the connection broke. TimeoutError: no answer
            within ``timeout_s``. OncelogError: it does not speak our language. Except with
            NotSentError the request may have had an effect.
        """
        channel = await self.channel(broker_id, lane)
        reply = await channel.call(request, timeout_s=timeout_s)
        return reply.message

    def close(self) -> None:
        """Drop the connections; callers that wait get an error."""
        self._closed = True
        for channel in self._channels.values():
            channel.close("the broker stops")
        self._channels.clear()
