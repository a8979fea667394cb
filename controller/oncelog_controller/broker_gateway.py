"""Tells brokers what the machine ordered, and the machine what becomes of brokers.

Rules
-----
* One outlet per life of a broker (id and epoch), one connection each. Orders leave in the order in
  which they were given; what waits is one bundle, in which newer orders replace older ones.
* An order is retried in place until it is answered, on this connection or the next; none is skipped
  (Z12). An order that the broker could not carry out closes the connection: it and all after it go
  out again on the next one.
* STALE_BROKER_EPOCH ends the outlet: the broker has restarted and will be told anew (K21).
  STALE_CONTROLLER_EPOCH ends the term (Z4).
* Refused connections are reported as suspicion, once until the broker answers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oncelog_controller import logged
from oncelog_controller.config import ControllerConfig
from oncelog_controller.events import BrokerCleared, BrokerSuspected, Event, OrdersAnswered
from oncelog_controller.link import BrokerLink
from oncelog_controller.orders import OrderRequest, Orders, bundle
from oncelog_controller.state import BrokerRegistration
from oncelog_protocol.errors import (
    ERRORS,
    NO_ERROR,
    BrokerNotAvailableError,
    OncelogError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
)
from oncelog_protocol.messages.replication import UpdateMetadataRequest
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.tasks import Tasks

logger = logged.get_logger(__name__)

UNANSWERED_MAX = 6
"""Orders of one broker on their way; what comes meanwhile is bundled."""

Report = Callable[[Event], None]


class BrokerGateway:
    """All outlets of one term."""

    def __init__(
        self,
        *,
        controller_id: int,
        controller_epoch: int,
        config: ControllerConfig,
        report: Report,
        on_fenced: Callable[[str], None],
    ) -> None:
        self._head = (controller_id, controller_epoch)
        self._config = config
        self._report = report
        self._on_fenced = on_fenced
        self._outlets: dict[int, _Outlet] = {}
        self._tasks = Tasks(f"controller-{controller_id}-gateway", self._failed)

    def connect(self, brokers: Sequence[BrokerRegistration]) -> None:
        """Keep connections to exactly these lives of brokers."""
        wanted = {broker.broker_id: broker for broker in brokers}
        for broker_id, outlet in list(self._outlets.items()):
            if wanted.get(broker_id) != outlet.broker:
                outlet.close()
                del self._outlets[broker_id]
        for broker_id, broker in sorted(wanted.items()):
            address = broker.listener(self._config.inter_broker_listener)
            if broker_id in self._outlets:
                continue
            if address is None:
                logger.warning(logged.BROKER_WITHOUT_LISTENER, broker_id)
                continue
            outlet = _Outlet(
                broker, self._head, self._config.order_timeout_ms / 1000, self._report, self._fenced
            )
            link = BrokerLink(
                address.host,
                address.port,
                client_id=f"controller-{self._head[0]}",
                connect_timeout_s=self._config.connect_timeout_ms / 1000,
                on_up=outlet.up,
                on_down=outlet.down,
                on_refused=outlet.refused,
            )
            outlet.task = self._tasks.spawn(f"broker-{broker_id}", link.run())
            self._outlets[broker_id] = outlet

    def send(self, broker_id: int, broker_epoch: int, orders: Orders) -> None:
        """Queue orders; those for another life than the connected one are dropped."""
        outlet = self._outlets.get(broker_id)
        if outlet is not None and outlet.broker.broker_epoch == broker_epoch:
            outlet.add(orders)

    async def close(self) -> None:
        """Drop all connections and everything that waits."""
        for outlet in self._outlets.values():
            outlet.close()
        self._outlets.clear()
        await self._tasks.close()

    def _fenced(self, reason: str) -> None:
        self._on_fenced(reason)

    def _failed(self, name: str, error: BaseException) -> None:
        self._on_fenced(f"{name} failed: {error!r}")


class _Outlet:
    """One life of one broker."""

    def __init__(
        self,
        broker: BrokerRegistration,
        head: tuple[int, int],
        order_timeout_s: float,
        report: Report,
        on_fenced: Callable[[str], None],
    ) -> None:
        self.broker = broker
        self.task: asyncio.Task[None] | None = None
        self._head = head
        self._order_timeout_s = order_timeout_s
        self._report = report
        self._on_fenced = on_fenced
        self._loop = asyncio.get_running_loop()
        self._waiting: Orders | None = None
        self._unanswered: deque[OrderRequest] = deque()
        self._channel: RequestChannel | None = None
        self._suspected = False
        self._over = False
        self._watchdog: asyncio.TimerHandle | None = None

    def add(self, orders: Orders) -> None:
        """Queue, and send if possible."""
        if self._over or orders.empty:
            return
        self._waiting = orders if self._waiting is None else self._waiting.merged_with(orders)
        self._flush()

    def close(self) -> None:
        """No more orders."""
        self._over = True
        self._waiting = None
        self._unanswered.clear()
        self._stop_watch()
        if self.task is not None:
            self.task.cancel()

    # ---- the link's side

    def up(self, channel: RequestChannel) -> None:
        """A connection stands."""
        self._channel = channel
        self._suspected = False
        self._report(BrokerCleared(self.broker.broker_id, self.broker.broker_epoch))
        self._flush()

    def down(self) -> None:
        """It broke: what was not answered is to be sent again, below what came since."""
        self._channel = None
        self._stop_watch()
        if self._over:
            return
        unanswered, self._unanswered = list(self._unanswered), deque()
        self._put_back(unanswered)

    def refused(self) -> None:
        """Nobody listens there any more."""
        if not self._suspected and not self._over:
            self._suspected = True
            self._report(BrokerSuspected(self.broker.broker_id, self.broker.broker_epoch))

    # ---- sending

    def _flush(self) -> None:
        channel = self._channel
        if channel is None or channel.closed or self._waiting is None:
            return
        if len(self._unanswered) >= UNANSWERED_MAX:
            return
        orders, self._waiting = self._waiting, None
        for request in orders.requests(*self._head, self.broker.broker_epoch):
            try:
                channel.send(request, callback=partial(self._answered, channel, request))
            except OncelogError as error:
                # Nothing was sent: the order breaks the wire's rules. Sending it again cannot help.
                logger.error(logged.ORDER_NOT_SENT, self.broker.broker_id, error)
                continue
            self._unanswered.append(request)
        self._watch()

    def _answered(
        self,
        channel: RequestChannel,
        request: OrderRequest,
        reply: Any,
        error: BaseException | None,
    ) -> None:
        if self._over or channel is not self._channel or error is not None:
            return  # a dead channel: `down` puts back what was not answered
        assert self._unanswered[0] is request
        code = reply.message.error_code
        if code == NO_ERROR:
            self._unanswered.popleft()
            self._watch()
            if not isinstance(request, UpdateMetadataRequest):
                broker = self.broker
                self._report(
                    OrdersAnswered(broker.broker_id, broker.broker_epoch, request, reply.message)
                )
            self._flush()
        elif code == StaleControllerEpochError.code:
            self._on_fenced(f"broker {self.broker.broker_id} knows a newer controller")
        elif code == StaleBrokerEpochError.code:
            logger.info(logged.ORDERS_VOID, self.broker.broker_id)
            self._waiting = None
            self._unanswered.clear()
            self._over = True
            self._stop_watch()
        else:
            # What was sent after it must not overtake it: all are sent again, on a new connection.
            name = ERRORS[code].name if code in ERRORS else str(code)
            # A broker that has just registered may not know its own epoch yet: no cause for alarm.
            level = logging.INFO if code == BrokerNotAvailableError.code else logging.WARNING
            logger.log(level, logged.ORDER_FAILED, self.broker.broker_id, name)
            channel.close(f"order failed: {name}")

    def _put_back(self, requests: Sequence[OrderRequest]) -> None:
        older = bundle(requests)
        if older is None:
            return
        self._waiting = older if self._waiting is None else older.merged_with(self._waiting)

    def _watch(self) -> None:
        """The oldest unanswered order has a deadline; past it the connection counts as dead."""
        self._stop_watch()
        if self._unanswered and not self._over:
            self._watchdog = self._loop.call_later(self._order_timeout_s, self._overdue)

    def _overdue(self) -> None:
        self._watchdog = None
        if self._channel is not None:
            self._channel.close(f"no answer to an order within {self._order_timeout_s} s")

    def _stop_watch(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
