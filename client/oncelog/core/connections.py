"""One client keeps its connections to brokers here, and notes which broker failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from oncelog.config import Address, ConnectionOptions
from oncelog.core.backoff import Backoff
from oncelog.core.cluster import ClusterMetadata
from oncelog.core.connection import CONTROL, ConnectionSlot, hint, open_channel, reason_of
from oncelog.core.health import Silence
from oncelog.core.refusals import Refusals
from oncelog.errors import (
    ApiError,
    BrokerUnreachableError,
    ClosedError,
    RebootstrapRequiredError,
)
from oncelog.observability.counters import Counters
from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.identity import Identity, misfit
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import Dialer
from oncelog_runtime.tasks import Tasks

logger = logging.getLogger(__name__)


class Connections:
    """One client keeps its connections here; ``on_silence`` hears that the last one is lost."""

    def __init__(
        self,
        options: ConnectionOptions,
        cluster: ClusterMetadata,
        counters: Counters,
        new_backoff: Callable[[str], Backoff],
        on_silence: Callable[[], None],
        dialer: Dialer,
    ) -> None:
        self.blamed: dict[Address, float] = {}
        """When an address last failed, in the loop's time."""
        self.silence = Silence(options.client_id)
        self.refusals = Refusals()
        self._options = options
        self._cluster = cluster
        self._counters = counters
        self._new_backoff = new_backoff
        self._on_silence = on_silence
        self._dialer = dialer
        self._slots: dict[tuple[int, str], ConnectionSlot] = {}
        self._reached: dict[Address, None] = {}
        self._tasks: Tasks | None = None

    def open(self, tasks: Tasks) -> None:
        """Connect from now on, in these tasks."""
        self._tasks = tasks

    def end(self) -> None:
        """Open no more; what is open stays until ``close``."""
        self._tasks = None

    async def close(self) -> None:
        """Close every connection; waits until they are gone. The tasks have ended."""
        self.end()
        self.silence.forget()
        self.refusals.forget()
        channels = [slot.channel for slot in self._slots.values() if slot.channel is not None]
        for channel in channels:
            channel.close("client closed")
        self._slots.clear()
        for channel in channels:
            await channel.wait_closed()

    # ------------------------------------------------------------------------------ what is open

    @property
    def open_count(self) -> int:
        """Return how many connections are open."""
        return sum(slot.open_channel is not None for slot in self._slots.values())

    def channel_now(self, broker_id: int, purpose: str) -> RequestChannel | None:
        """Return the open connection, or None."""
        slot = self._slots.get((broker_id, purpose))
        return None if slot is None else slot.open_channel

    def errors_of(self, broker_ids: list[int]) -> list[tuple[str, str]]:
        """Return the address of each of these brokers, and why there is no connection to it."""
        slots = [self._slot(broker_id, CONTROL) for broker_id in broker_ids]
        return [(str(slot.address), str(slot.error)) for slot in slots]

    def drop_channel(self, broker_id: int, purpose: str, reason: str) -> None:
        """Close a connection that is of no more use; the broker is not to blame for it."""
        channel = self.channel_now(broker_id, purpose)
        if channel is None:
            return
        address = self._slots[broker_id, purpose].address
        blamed = self.blamed.get(address)
        channel.close(reason)
        if blamed is None:
            self.blamed.pop(address, None)

    def drop_stale(self) -> None:
        """Close the connections to brokers that are gone, or that moved."""
        known = {broker.address for broker in self._cluster.brokers.values()}
        self.refusals.keep(known.union(self._options.addresses))
        for (broker_id, purpose), slot in list(self._slots.items()):
            broker = self._cluster.brokers.get(broker_id)
            if broker is None or broker.address != slot.address:
                # A broker may be missing from a lagging answer: one with requests under way stays.
                if (channel := slot.open_channel) is not None:
                    if broker is None and channel.in_flight:
                        continue
                    channel.close("the broker left the cluster or moved")
                del self._slots[broker_id, purpose]

    def raise_if_refused(self) -> None:
        """Raise the error that was told last, when nobody answers this client."""
        refusal = self.refusals.verdict
        if refusal is not None and self.silence.since is not None:
            raise refusal

    # ------------------------------------------------------------------------------ opening

    async def channel(self, broker_id: int, purpose: str = CONTROL) -> RequestChannel:
        """Return the connection to a broker, opened if need be.

        :raises BrokerUnreachableError: not in the cluster, refused, silent; or it failed a moment
            ago and the pause before the next attempt is not over.
        :raises HandshakeError: it is there, and TLS or authentication has failed three times.
        """
        tasks = self._tasks
        if tasks is None:
            raise ClosedError("the client is closed")
        slot = self._slot(broker_id, purpose)
        channel = slot.open_channel
        if channel is not None:
            return channel
        if slot.connecting is None:
            if slot.error is not None and asyncio.get_running_loop().time() < slot.retry_at:
                raise slot.failure
            slot.connects(tasks.spawn(f"connect {broker_id}", self._connect(slot)))
        connecting = slot.connecting
        assert connecting is not None
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if tasks.closed and connecting.cancelled():
                raise ClosedError("the client was closed") from None
            raise
        channel = slot.open_channel
        if channel is None:
            raise slot.failure
        return channel

    def adopt(self, seed: Address, channel: RequestChannel, found: Identity) -> None:
        """Keep a bootstrap connection if it leads to where that broker advertises itself."""
        for broker in self._cluster.brokers.values():
            if broker.address == seed and not misfit(Identity("", broker.broker_id), found):
                self._attach(self._slot(broker.broker_id, CONTROL), channel)
                return
        channel.close("bootstrap done")

    def _slot(self, broker_id: int, purpose: str) -> ConnectionSlot:
        broker = self._cluster.brokers.get(broker_id)
        if broker is None:
            raise BrokerUnreachableError(broker_id, "?", "not in the cluster at the moment")
        slot = self._slots.get((broker_id, purpose))
        if slot is None or slot.address != broker.address:
            if slot is not None and slot.channel is not None:
                slot.channel.close("the broker moved to another address")
            slot = ConnectionSlot(
                broker_id, broker.address, self._new_backoff(f"{broker_id}/{purpose}")
            )
            self._slots[broker_id, purpose] = slot
        return slot

    async def _connect(self, slot: ConnectionSlot) -> None:
        try:
            timeout_s = self._options.connect_timeout_ms / 1000
            meant = self._cluster.identity(slot.broker_id)
            channel = await open_channel(
                slot.address, self._options.client_id, timeout_s, meant, self._dialer
            )
        except (OSError, TimeoutError, ProtocolError, ApiError) as error:
            self._counters.connection_failed()
            before = slot.error
            refusal = self.refusals.judge(slot.address, error)
            failure = refusal or self._unreachable(slot, error)
            slot.failed(failure, asyncio.get_running_loop().time())
            misled = refusal is not None or isinstance(error, RebootstrapRequiredError)
            if misled and str(before) != str(slot.error):
                logger.warning("%s: %s", self._options.client_id, slot.error)
            self.blame(slot.address, error)
        else:
            if any(kept is slot for kept in self._slots.values()):
                self._attach(slot, channel)
            else:  # the broker left or moved meanwhile: nobody would ever close this one
                channel.close("the broker left the cluster or moved")
                slot.gone(self._unreachable(slot, OSError("it left the cluster or moved")))
        finally:
            slot.attempt_over()

    def _attach(self, slot: ConnectionSlot, channel: RequestChannel) -> None:
        slot.attach(channel)
        self._counters.connection_opened()
        self._reached[slot.address] = None
        self.blamed.pop(slot.address, None)
        self.refusals.ended(slot.address)
        self.silence.ended()
        channel.on_close.append(partial(self._lost, slot.address))
        channel.on_throttle.append(self._counters.throttled)

    def blame(self, address: Address, error: BaseException) -> None:
        """Note that requests to this address fail: others come first."""
        self.blamed[address] = asyncio.get_running_loop().time()
        self.silence.failed(address, reason_of(error), none_left=not self.open_count)

    def _lost(self, address: Address, cause: BaseException | None) -> None:
        """Note that a connection ended; the next attempt shows whether the broker did too."""
        if self._tasks is None:
            return
        if cause is None:
            self.blamed[address] = asyncio.get_running_loop().time()
            return
        self.blame(address, cause)
        if self.silence.since is not None:
            self._on_silence()

    def _unreachable(self, slot: ConnectionSlot, error: BaseException) -> BrokerUnreachableError:
        is_seed = slot.address in self._options.addresses
        note = hint(error, is_known=is_seed or slot.address in self._reached)
        result = BrokerUnreachableError(slot.broker_id, str(slot.address), reason_of(error), note)
        result.__cause__ = error
        return result
