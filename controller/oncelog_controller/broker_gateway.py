"""The gateway tells brokers what the machine ordered, and the machine what becomes of brokers.

Rules
-----
* One outlet per life of a broker (id and epoch), one connection each. Orders leave in the order in
  which they were given; what waits is one bundle, in which newer orders replace older ones.
* An order is retried in place until it is answered, on this connection or the next; none is skipped
  [Z12]. An order that the broker could not carry out closes the connection: it and all after it go
  out again on the next one.
* STALE_BROKER_EPOCH ends the outlet: the broker has restarted and will be told anew [K21].
* STALE_CONTROLLER_EPOCH makes the term look whether it is over [Z4]: the store knows, a single
  broker may have been told nonsense. If it goes on, so does the order.
* Long orders go some a turn of the loop, over all brokers: a new controller describes everything to
  everybody.
* What refused connections mean is judged by ``suspicions``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from oncelog_controller.config import ControllerConfig
from oncelog_controller.events import Event, OrdersAnswered
from oncelog_controller.link import BrokerLink, meant
from oncelog_controller.orders import OrderRequest, Orders, bundle, is_slice, weight
from oncelog_controller.state import BrokerRegistration
from oncelog_controller.suspicions import Suspicions
from oncelog_protocol.errors import (
    ERRORS,
    NO_ERROR,
    BrokerNotAvailableError,
    OncelogError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
)
from oncelog_protocol.identity import NO_CLUSTER
from oncelog_protocol.messages.replication import UpdateMetadataRequest
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.dialer import PLAIN, Dialer
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

UNANSWERED_MAX = 6
"""Orders of one broker on their way; what comes meanwhile is bundled."""

PARTITIONS_PER_TURN = 1500
"""About so many partitions are sent in one turn of the loop, over all requests: some 10 ms."""

ORDER_COST = 50
"""A request costs as much as so many partitions besides: the live brokers in it, and the socket."""

SLICED_VERSION = 2
"""From this version of UpdateMetadata on a description comes in slices."""

Report = Callable[[Event], None]


class BrokerGateway:
    """It owns all outlets of one term."""

    def __init__(
        self,
        *,
        controller_id: int,
        controller_epoch: int,
        cluster_id: str = NO_CLUSTER,
        config: ControllerConfig,
        dialer: Dialer = PLAIN,
        report: Report,
        suspicions: Suspicions,
        on_fenced: Callable[[int], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Make a gateway; ``on_fenced`` is told which broker knows a newer controller,
        ``on_failed`` of a bug."""
        self._head = (controller_id, controller_epoch)
        self._cluster_id = cluster_id
        self._config = config
        self._dialer = dialer
        self._report = report
        self._suspicions = suspicions
        self._on_fenced = on_fenced
        self._outlets: dict[int, _Outlet] = {}
        self._pace = _Pace()
        self._tasks = Tasks(
            f"controller-{controller_id}-gateway",
            lambda name, error: on_failed(f"{name} failed: {error!r}"),
        )

    def connect(self, brokers: Sequence[BrokerRegistration]) -> None:
        """Keep connections to exactly these lives of brokers."""
        wanted = {broker.broker_id: broker for broker in brokers}
        self._suspicions.watch(brokers)
        for broker_id, outlet in list(self._outlets.items()):
            if wanted.get(broker_id) != outlet.broker:
                outlet.close()
                del self._outlets[broker_id]
        for broker_id, broker in sorted(wanted.items()):
            address = broker.listener(self._config.inter_broker_listener)
            if broker_id in self._outlets:
                continue
            if address is None:
                logger.warning("broker_without_listener", broker_id=broker_id)
                continue
            outlet = _Outlet(
                broker,
                self._head,
                self._config.order_timeout_ms / 1000,
                self._report,
                self._suspicions,
                self._on_fenced,
                self._pace,
            )
            link = BrokerLink(
                address.host,
                address.port,
                client_id=f"controller-{self._head[0]}",
                meant=meant(self._cluster_id, broker_id),
                own_broker_id=self._head[0],
                connect_timeout_s=self._config.connect_timeout_ms / 1000,
                dialer=self._dialer,
                on_up=outlet.up,
                on_down=outlet.down,
                on_refused=outlet.refused,
            )
            outlet.task = self._tasks.spawn(f"broker-{broker_id}", link.run())
            self._outlets[broker_id] = outlet

    def send(self, broker_id: int, broker_epoch: int, orders: Orders) -> None:
        """Queue the orders; those for another life than the connected one are dropped."""
        outlet = self._outlets.get(broker_id)
        if outlet is not None and outlet.broker.broker_epoch == broker_epoch:
            outlet.add(orders)

    async def close(self) -> None:
        """Drop all connections and everything that waits."""
        for outlet in self._outlets.values():
            outlet.close()
        self._outlets.clear()
        await self._tasks.close()


class _Pace:
    """It bounds how much is sent in one turn of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._left = PARTITIONS_PER_TURN
        self._timed = False
        self._later: dict[_Outlet, None] = {}

    def may_send(self, outlet: _Outlet, request: OrderRequest) -> bool:
        """Return whether the request may go in this turn; if not, the outlet is asked to go on in a
        later one."""
        if self._left <= 0:
            self._later[outlet] = None
            return False
        self._left -= weight(request) + ORDER_COST
        if not self._timed:
            self._timed = True
            self._loop.call_soon(self._turn)
        return True

    def _turn(self) -> None:
        self._timed = False
        self._left = PARTITIONS_PER_TURN
        later, self._later = self._later, {}
        for outlet in later:
            outlet.flush()


class _Outlet:
    """An outlet belongs to one life of one broker."""

    def __init__(
        self,
        broker: BrokerRegistration,
        head: tuple[int, int],
        order_timeout_s: float,
        report: Report,
        suspicions: Suspicions,
        on_fenced: Callable[[int], None],
        pace: _Pace,
    ) -> None:
        self.broker = broker
        self.task: asyncio.Task[None] | None = None
        self._head = head
        self._order_timeout_s = order_timeout_s
        self._report = report
        self._suspicions = suspicions
        self._on_fenced = on_fenced
        self._loop = asyncio.get_running_loop()
        self._pace = pace
        self._waiting: Orders | None = None
        self._unsent: deque[OrderRequest] = deque()
        """Of the bundle that is being sent."""
        self._unanswered: deque[OrderRequest] = deque()
        self._described: Orders | None = None
        """What slices that are not answered, or not sent, are of."""
        self._channel: RequestChannel | None = None
        self._over = False
        self._watchdog: asyncio.TimerHandle | None = None

    def add(self, orders: Orders) -> None:
        """Queue, and send if possible."""
        if self._over or orders.empty:
            return
        self._waiting = orders if self._waiting is None else self._waiting.merged_with(orders)
        self.flush()

    def close(self) -> None:
        """Take no more orders."""
        self._end()
        if self.task is not None:
            self.task.cancel()

    # ---- the link's side

    def up(self, channel: RequestChannel) -> None:
        """A connection stands."""
        self._channel = channel
        self._suspicions.up(self.broker.broker_id, self.broker.broker_epoch)
        self.flush()

    def down(self) -> None:
        """It broke: what was not answered is to be sent again, below what came since."""
        self._channel = None
        self._stop_watch()
        if self._over:
            return
        again = [*self._unanswered, *self._unsent]
        self._unanswered.clear()
        self._unsent.clear()
        older = bundle(again, self._described)
        self._described = None
        if older is not None:
            self._waiting = older if self._waiting is None else older.merged_with(self._waiting)

    def refused(self) -> None:
        """Nobody listens there, or somebody on the way says so."""
        if not self._over:
            self._suspicions.refused(self.broker.broker_id, self.broker.broker_epoch)

    # ---- sending

    def flush(self) -> None:
        """Send what may be sent now."""
        channel = self._channel
        if self._over or channel is None or channel.closed:
            return
        before = len(self._unanswered)
        while len(self._unanswered) < UNANSWERED_MAX and (self._unsent or self._take(channel)):
            request = self._unsent[0]
            if not self._pace.may_send(self, request):
                break
            self._unsent.popleft()
            try:
                channel.send(request, callback=partial(self._answered, channel, request))
            except OncelogError as error:
                # Nothing was sent: the order breaks the wire's rules. Sending it again cannot help.
                logger.error("order_not_sent", broker_id=self.broker.broker_id, error=error)
                continue
            self._unanswered.append(request)
        if len(self._unanswered) > before:
            self._watch()

    def _take(self, channel: RequestChannel) -> bool:
        """Take the next bundle, and return whether there is one."""
        orders, self._waiting = self._waiting, None
        if orders is None:
            return False
        sliced = channel.versions.get(UpdateMetadataRequest.api_key, 0) >= SLICED_VERSION
        self._unsent.extend(orders.requests(*self._head, self.broker.broker_epoch, sliced=sliced))
        if any(map(is_slice, self._unsent)):
            whole = orders.description()
            known = self._described
            self._described = whole if known is None else known.merged_with(whole)
        return bool(self._unsent)

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
            if not any(map(is_slice, (*self._unanswered, *self._unsent))):
                self._described = None
            if not isinstance(request, UpdateMetadataRequest):
                broker = self.broker
                self._report(
                    OrdersAnswered(broker.broker_id, broker.broker_epoch, request, reply.message)
                )
            self.flush()
        elif code == StaleControllerEpochError.code:
            self._on_fenced(self.broker.broker_id)
            channel.close("the broker knows a newer controller")
        elif code == StaleBrokerEpochError.code:
            logger.info("orders_void", broker_id=self.broker.broker_id)
            self._end()
        else:
            # What was sent after it must not overtake it: all are sent again, on a new connection.
            name = ERRORS[code].name if code in ERRORS else str(code)
            # A broker that has just registered may not know its own epoch yet: no cause for alarm.
            level = logging.INFO if code == BrokerNotAvailableError.code else logging.WARNING
            logger.log(level, "order_failed", broker_id=self.broker.broker_id, error=name)
            channel.close(f"order failed: {name}")

    def _end(self) -> None:
        self._over = True
        self._waiting = self._described = None
        self._unsent.clear()
        self._unanswered.clear()
        self._stop_watch()

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
