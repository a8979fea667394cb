"""This broker reaches the controller, and partition leaders, through these channels.

:class:`ControllerChannel` sends requests to whoever is controller, by the image: over a connection
    to its internal listener, or by a plain call when that is this very process. All requests sent
    this way are idempotent, so whatever goes wrong is tried again, with the then controller, until
    the caller's deadline: NOT_CONTROLLER and broken connections wait for new metadata or a short
    pause.

:class:`IsrChannel` is the replica manager's port to it: what partitions ask for while one request
    is on its way leaves together in the next one. :class:`BrokerConnector` opens fetch connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.server.controller_port import ControllerPort
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.errors import (
    NotControllerError,
    ProtocolError,
    RebootstrapRequiredError,
    SaslAuthenticationFailedError,
    error_for,
)
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.replication import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
)
from oncelog_protocol.types import NO_BROKER
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import PLAIN, Dialer
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks
from oncelog_runtime.tls_errors import TlsError

logger = get_logger(__name__)

RETRY_S = 0.1
"""A failed attempt is followed by this pause, unless new metadata comes sooner."""

ATTEMPT_S = 5.0
"""One attempt may take so long before its connection is given up."""

ALTER_PARTITION_S = 15.0
CONNECT_S = 3.0

RETRIED = (NotControllerError, RebootstrapRequiredError)
"""Another attempt may change these answers: the controller moved, or its address leads astray."""


class BrokerConnector:
    """It opens connections to other brokers' internal listeners, by the image: each names the
    broker that is meant, its cluster and this one."""

    def __init__(
        self,
        broker_id: int,
        image: MetadataImage,
        listener: str,
        *,
        dialer: Dialer = PLAIN,
        safeguards: Safeguards = SAFE,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._listener = listener
        self._dialer = dialer
        self._safeguards = safeguards
        self._astray: dict[int, str] = {}
        """This was found last in place of a broker, by its id: it is said once, not at every
        attempt."""

    async def open(self, broker_id: int) -> RequestChannel:
        """Open a new connection whose reply payloads live until the next read.

        :raises OSError: not in the metadata, refused, or broken. TimeoutError: no answer in time.
        :raises RebootstrapRequiredError: another broker, or one of another cluster, is there.
        :raises TlsError: who is there has not proved to be that broker.
        """
        address = self._image.address(broker_id, self._listener)
        if address is None:
            raise ConnectionError(f"broker {broker_id} is not in the metadata")
        meant = self._safeguards.meant(Identity(self._image.cluster_id, broker_id))
        machine = ClientConnection(
            f"broker-{self._broker_id}", reuse=True, meant=meant, own_broker_id=self._broker_id
        )
        try:
            channel = await self._dialer.open(
                address.host, address.port, machine, connect_timeout_s=CONNECT_S
            )
        except (RebootstrapRequiredError, SaslAuthenticationFailedError, TlsError) as error:
            if self._astray.get(broker_id) != str(error):
                self._astray[broker_id] = str(error)
                logger.warning(
                    "address_leads_astray",
                    broker_id=broker_id,
                    host=address.host,
                    port=address.port,
                    error=error,
                )
            raise
        self._astray.pop(broker_id, None)
        return channel


class ControllerChannel:
    """It sends requests to the controller of the moment."""

    def __init__(
        self,
        broker_id: int,
        image: MetadataImage,
        connector: BrokerConnector,
        local: ControllerPort,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._connector = connector
        self._local = local
        self._channel: RequestChannel | None = None
        self._channel_to = NO_BROKER
        self._opening = asyncio.Lock()

    async def call(self, request: Request, *, timeout_s: float) -> Any:
        """Return the controller's response to ``request``.

        :raises TimeoutError: no controller answered in time; the request may have had an effect.
        """
        async with asyncio.timeout(timeout_s):
            while True:
                version = self._image.version
                try:
                    response = await self._attempt(request)
                    if not _not_controller(response):
                        return response
                    reason = "NOT_CONTROLLER"
                except (OSError, TimeoutError, ProtocolError, *RETRIED) as exc:
                    reason = repr(exc)
                logger.info("controller_asked_again", request=type(request).__name__, reason=reason)
                await self._metadata_after(version)

    async def call_once(self, request: Request, *, timeout_s: float) -> Any:
        """Return the response of whoever is taken for the controller, from one attempt. It is for
        what is said again later anyway.

        :raises OSError, TimeoutError, OncelogError: nobody is known, or reached, or understands it.
        """
        async with asyncio.timeout(timeout_s):
            return await self._attempt(request)

    def close(self) -> None:
        """Drop the connection."""
        if self._channel is not None:
            self._channel.close("the broker stops")
            self._channel = None

    async def _attempt(self, request: Request) -> Any:
        controller_id = self._image.controller_id
        if controller_id == NO_BROKER:
            raise NotControllerError("no controller is known")
        if controller_id == self._broker_id:
            return await self._local.handle(request, internal=True)
        channel = await self._open(controller_id)
        reply = await channel.call(request, timeout_s=ATTEMPT_S)
        return reply.message

    async def _open(self, controller_id: int) -> RequestChannel:
        async with self._opening:
            channel = self._channel
            if channel is not None and not channel.closed and self._channel_to == controller_id:
                return channel
            self.close()
            channel = self._channel = await self._connector.open(controller_id)
            self._channel_to = controller_id
            return channel

    async def _metadata_after(self, version: int) -> None:
        """Return when the image is newer than ``version``, or after a pause."""
        if self._image.version != version:
            return
        changed = asyncio.Event()
        self._image.on_change.append(changed.set)
        try:
            async with asyncio.timeout(RETRY_S):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            self._image.on_change.remove(changed.set)


class IsrChannel:
    """It is the replica manager's ``IsrPort``: AlterPartition, one request at a time, batched."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        channel: ControllerChannel,
        tasks: Tasks,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._channel = channel
        self._tasks = tasks
        self._queue: list[
            tuple[list[AlterPartitionItem], asyncio.Future[AlterPartitionResponse]]
        ] = []
        self._sending = False

    async def alter_partition(self, items: list[AlterPartitionItem]) -> AlterPartitionResponse:
        """Ask for ISR changes; the response holds one result an item, in their order.

        :raises TimeoutError: the outcome is unknown. :raises ApiError: the whole request was
            refused."""
        future: asyncio.Future[AlterPartitionResponse] = asyncio.get_running_loop().create_future()
        self._queue.append((items, future))
        if not self._sending:
            self._sending = True
            self._tasks.spawn("alter partition", self._send())
        return await future

    async def _send(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue, []
                await self._send_batch(batch)
        finally:
            self._sending = False

    async def _send_batch(
        self, batch: list[tuple[list[AlterPartitionItem], asyncio.Future[AlterPartitionResponse]]]
    ) -> None:
        # The newest wish of a partition stands for it.
        wishes = {(i.topic, i.partition): i for items, _ in batch for i in items}
        request = AlterPartitionRequest(
            self._broker_id, self._broker_epoch(), list(wishes.values())
        )
        try:
            response = await self._channel.call(request, timeout_s=ALTER_PARTITION_S)
            if response.error_code:
                raise error_for(response.error_code)
        except BaseException as exc:
            for _, future in batch:
                if not future.done():
                    if isinstance(exc, Exception):
                        future.set_exception(exc)
                    else:
                        future.cancel()
            if not isinstance(exc, Exception):
                raise
            return
        results: dict[tuple[str, int], AlterPartitionResult] = {
            (r.topic, r.partition): r for r in response.partitions
        }
        for items, future in batch:
            if not future.done():
                found = [results.get((i.topic, i.partition)) for i in items]
                future.set_result(AlterPartitionResponse(0, [r for r in found if r is not None]))


def _not_controller(response: Any) -> bool:
    """Return whether the answer, or any item of it, says NOT_CONTROLLER."""
    if response.error_code == NotControllerError.code:
        return True
    items = getattr(response, "topics", None) or getattr(response, "partitions", None) or ()
    return any(item.error_code == NotControllerError.code for item in items)
