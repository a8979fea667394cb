"""A term runs the machine between the store, the brokers and the askers.

Rules
-----
* One event at a time. Its store writes are in flight together; their results go to the machine
  before anything else does.
* Nothing is done while the store is not connected; an expired session ends the term [Z5] [Z6].
  The broker may have the next session before the term has come to its end: nothing is written in
  that one.
* Watches and suspicions leave marks; what they are about is read when their turn comes [Z11].
  They go before requests.
* When the machine has lost track, the epoch is checked and everything read again. When that does
  not help, the term ends: the next controller starts from the store.
* A controller that most brokers refuse steps down (see ``suspicions``), as does one that most
  brokers cannot reach: they say so through the store (see ``accusations``).
* At the end every asker is told: not handled, or handled with unknown outcome.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Any

from oncelog_controller import accusations, znodes
from oncelog_controller.broker_gateway import BrokerGateway
from oncelog_controller.broker_settings import BrokerSettings
from oncelog_controller.campaign import Won
from oncelog_controller.config import ControllerConfig
from oncelog_controller.effects import (
    ConnectBrokers,
    Effect,
    Reload,
    Resign,
    SendOrders,
    SendReply,
    WriteStore,
)
from oncelog_controller.events import (
    BrokersRead,
    ClusterLoaded,
    Event,
    GoOn,
    RequestReceived,
    StorageFailed,
    TimeReached,
    WriteFailed,
    WriteSucceeded,
)
from oncelog_controller.evidence import Evidence
from oncelog_controller.loader import load_brokers, load_cluster
from oncelog_controller.machine import ControllerMachine
from oncelog_controller.replies import refusal
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.stats import ControllerStats
from oncelog_controller.store import (
    MetadataStore,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
)
from oncelog_controller.suspicions import Suspicions
from oncelog_controller.user_nodes import SECRET_BYTES
from oncelog_protocol.errors import NotControllerError, RequestTimedOutError
from oncelog_protocol.identity import NO_CLUSTER
from oncelog_protocol.messages.admin import CreateTopicsRequest
from oncelog_protocol.messages.base import Request
from oncelog_runtime.clock import WallClock
from oncelog_runtime.dialer import PLAIN, Dialer
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

RELOADS_MAX = 5
"""Reloads without an event handled in between before the term gives up."""

CONFIRM_S = 2.0
"""The store has this time to say that this controller still is one, when a broker says otherwise.
"""

REQUESTS_MAX = 10_000
"""Requests that wait; above it new ones are refused with NOT_CONTROLLER, which is retriable."""


class _Over(Exception):
    """The term ends; the reason is its text."""


class ControllerTerm:
    """A term lasts from an election won to its loss."""

    def __init__(
        self,
        *,
        broker_id: int,
        store: MetadataStore,
        clock: WallClock,
        entropy: Entropy,
        config: ControllerConfig,
        won: Won,
        suspected: frozenset[tuple[int, int]],
        evidence: Evidence,
        cluster_id: str = NO_CLUSTER,
        dialer: Dialer = PLAIN,
        safeguards: ControllerSafeguards = SAFE,
        stats: ControllerStats | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.won = won
        self.must_sit_out = False
        """Whether others should run for controller first."""
        self._broker_id = broker_id
        self._store = store
        self._session_id = store.session_id
        self._clock = clock
        self._entropy = entropy
        self._suspected = suspected
        self._loop = asyncio.get_running_loop()
        self._secret = entropy.fork("secret").token(SECRET_BYTES) if config.security else None
        self._machine = ControllerMachine(broker_id, config, safeguards, stats, settings)
        self._tasks = Tasks(f"controller-{broker_id}-suspicions")
        self._gateway = BrokerGateway(
            controller_id=broker_id,
            controller_epoch=won.controller_epoch,
            cluster_id=cluster_id,
            config=config,
            dialer=dialer,
            report=self._report,
            suspicions=self._suspicions(evidence, safeguards),
            on_fenced=self._fenced,
            on_failed=self.resign,
        )
        self._writers = Tasks(f"controller-{broker_id}-writes")
        self._wake = asyncio.Event()
        self._facts: deque[Event] = deque()
        self._requests: deque[Event] = deque()
        self._brokers_changed = False
        self._controller_changed = False
        self._storage_changed = False
        self._doubted = False
        self._reload: str | None = None
        self._over: str | None = None
        self._ended = False
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._asked: dict[int, Request] = {}
        self._begun: set[int] = set()
        self._next_id = 0

    def _suspicions(self, evidence: Evidence, safeguards: ControllerSafeguards) -> Suspicions:
        return Suspicions(
            controller_id=self._broker_id,
            evidence=evidence,
            ask=partial(accusations.objects, self._store, self._broker_id),
            report=self._report,
            step_down=self.step_down,
            tasks=self._tasks,
            safeguards=safeguards,
        )

    # ---- the face

    async def run(self) -> str:
        """Be controller; returns why it ended."""
        self._store.on_session.append(self._session_changed)
        try:
            self._reload = "elected"
            while True:
                await self._turn()
        except _Over as over:
            return str(over)
        except SessionExpiredError:
            return "the session expired"
        finally:
            self._ended = True
            if self._session_changed in self._store.on_session:
                self._store.on_session.remove(self._session_changed)
            self._refuse_all()
            await self._writers.close()
            await self._tasks.close()
            await self._gateway.close()

    def resign(self, reason: str) -> None:
        """End the term at its next step."""
        self._over = self._over or reason
        self._wake.set()

    def step_down(self, reason: str) -> None:
        """End the term at its next step: somebody else will do better."""
        self.must_sit_out = True
        self.resign(reason)

    def accused(self, accusers: Collection[int]) -> None:
        """Those brokers cannot connect to this one. When most of the others say so, nobody can
        have an ISR changed, or anything else."""
        others = set(self._machine.cluster.brokers) - {self._broker_id}
        count = len(others.intersection(accusers))
        if len(others) > 1 and 2 * count > len(others):
            self.step_down("most brokers cannot reach it")

    async def handle(self, request: Request, *, internal: bool = False, asker: str = "") -> Any:
        """Serve one request of ``asker``, a principal. Refusals are inside the response.

        :raises TypeError: the request is none of the controller's.
        """
        refused = refusal(request, NotControllerError.code)
        if self._ended or len(self._futures) >= REQUESTS_MAX:
            return refused
        ids: tuple[str, ...] = ()
        if isinstance(request, CreateTopicsRequest):
            ids = tuple(self._entropy.uuid() for _ in request.topics)
        self._next_id += 1
        request_id = self._next_id
        future: asyncio.Future[Any] = self._loop.create_future()
        self._futures[request_id] = future
        self._asked[request_id] = request
        now_ms = self._clock.now_ms()
        self._requests.append(RequestReceived(request_id, request, ids, internal, asker, now_ms))
        self._wake.set()
        try:
            return await future
        finally:
            self._futures.pop(request_id, None)
            self._asked.pop(request_id, None)
            self._begun.discard(request_id)

    def controller_changed(self) -> None:
        """``/controller`` is not what it was."""
        self._controller_changed = True
        self._wake.set()

    @property
    def machine(self) -> ControllerMachine:
        """Return the machine, for reading."""
        return self._machine

    # ---- what comes in

    def _fenced(self, broker_id: int) -> None:
        """A broker knows a newer controller. The store says whether there is one."""
        logger.warning(
            "order_fenced", broker_id=broker_id, controller_epoch=self.won.controller_epoch
        )
        self._doubted = True
        self.controller_changed()

    def _report(self, event: Event) -> None:
        self._facts.append(event)
        self._wake.set()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.resign("the session expired")
        # We may have been deposed while we were cut off: look before anything else is done.
        self._controller_changed = True
        self._wake.set()

    def _registrations_changed(self, _: WatchEvent) -> None:
        self._brokers_changed = True
        self._wake.set()

    def _storage_failures_changed(self, _: WatchEvent) -> None:
        self._storage_changed = True
        self._wake.set()

    # ---- the loop

    async def _turn(self) -> None:
        """One step: wait for something to do, and do it."""
        if self._over is not None:
            raise _Over(self._over)
        if self._store.state is SessionState.EXPIRED:
            raise SessionExpiredError
        if self._store.state is not SessionState.CONNECTED:
            await self._sleep(None)
            return
        try:
            if self._reload is not None:
                await self._load()
            elif self._controller_changed:
                await self._check_controller()
            elif self._brokers_changed:
                self._brokers_changed = False
                brokers = await load_brokers(self._store, self._registrations_changed)
                await self._process(BrokersRead(brokers))
            elif self._storage_changed:
                await self._hear_storage_failures()
            else:
                await self._handle_next()
        except StoreDisconnectedError as error:
            # What was being done may be half done: read everything when the store is back.
            self._reload = str(error)

    async def _handle_next(self) -> None:
        due = self._machine.wake_at
        if self._facts:
            await self._process(self._facts.popleft())
        elif due is not None and due <= self._loop.time():
            await self._process(TimeReached())
        elif self._requests:
            event = self._requests.popleft()
            assert isinstance(event, RequestReceived)
            if event.request_id in self._futures:
                self._begun.add(event.request_id)
                await self._process(event)
        else:
            await self._sleep(due)

    async def _sleep(self, until: float | None) -> None:
        """Wait until something comes in, or ``until`` on the loop's clock."""
        timer = None if until is None else self._loop.call_at(until, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self._wake.clear()

    async def _process(self, event: Event) -> None:
        """Hand one event to the machine and carry out what follows, to the end."""
        writes: deque[tuple[int, asyncio.Task[StoreError | None]]] = deque()
        self._execute(self._machine.handle(event, self._loop.time()), writes)
        while self._machine.unfinished:
            await asyncio.sleep(0)
            self._execute(self._machine.handle(GoOn(), self._loop.time()), writes)
        while writes:
            write_id, task = writes.popleft()
            error = await task
            outcome = WriteSucceeded(write_id) if error is None else WriteFailed(write_id, error)
            self._execute(self._machine.handle(outcome, self._loop.time()), writes)

    def _execute(
        self, effects: list[Effect], writes: deque[tuple[int, asyncio.Task[StoreError | None]]]
    ) -> None:
        for effect in effects:
            if isinstance(effect, WriteStore):
                coro = self._write(effect)
                name = f"write-{effect.write_id}"
                writes.append((effect.write_id, self._writers.spawn(name, coro)))
            elif isinstance(effect, SendOrders):
                self._gateway.send(effect.broker_id, effect.broker_epoch, effect.orders)
            elif isinstance(effect, SendReply):
                future = self._futures.get(effect.request_id)
                if future is not None and not future.done():
                    future.set_result(effect.response)
            elif isinstance(effect, ConnectBrokers):
                self._gateway.connect(effect.brokers)
            elif isinstance(effect, Reload):
                self._reload = effect.reason
            elif isinstance(effect, Resign):
                self.resign(effect.reason)

    async def _write(self, effect: WriteStore) -> StoreError | None:
        try:
            self._hold_to_session()
            await self._store.multi(list(effect.ops))
        except StoreError as error:
            return error
        return None

    def _hold_to_session(self) -> None:
        """Refuse a write in another session than the one that the election was won in.

        :raises SessionExpiredError: another session has begun.
        """
        if self._store.session_id != self._session_id:
            raise SessionExpiredError

    # ---- reading

    async def _load(self) -> None:
        """Make sure that we are controller, read everything, and let the machine begin anew."""
        logger.info(
            "controller_loads", controller_epoch=self.won.controller_epoch, why=self._reload
        )
        for _ in range(RELOADS_MAX):
            self._reload = None
            self._brokers_changed = False
            self._storage_changed = True
            await self._check_controller()
            cluster = await load_cluster(
                self._store,
                self.won.controller_epoch,
                self.won.epoch_version,
                self._registrations_changed,
                secret=self._secret,
            )
            await self._process(ClusterLoaded(cluster, self._suspected))
            self._suspected = frozenset()
            if self._settled() or self._store.state is not SessionState.CONNECTED:
                return
        raise _Over(f"reading everything again does not help: {self._reload}")

    async def _hear_storage_failures(self) -> None:
        """Brokers leave a node each; it goes when the machine has heard of it."""
        self._storage_changed = False
        names = await self._store.children(znodes.STORAGE_FAILURES, self._storage_failures_changed)
        failed = tuple(sorted(int(name) for name in names if name.isdecimal()))
        if not failed:
            return
        logger.warning("log_dirs_reported_failed", brokers=list(failed))
        await self._process(StorageFailed(failed))
        for broker_id in failed:
            self._hold_to_session()
            try:
                await self._store.delete(znodes.storage_failure_path(broker_id))
            except NoNodeError:
                pass

    def _settled(self) -> bool:
        return self._reload is None or self._over is not None

    async def _check_controller(self) -> None:
        """``/controller`` is ours and the epoch is the one that we won, or the term is over."""
        self._controller_changed = False
        try:
            async with asyncio.timeout(CONFIRM_S if self._doubted else None):
                data, stat = await self._store.get(znodes.CONTROLLER, self._controller_watch)
                _, epoch_stat = await self._store.get(znodes.CONTROLLER_EPOCH)
        except TimeoutError:
            raise _Over("a broker knows a newer controller, and the store is silent") from None
        except NoNodeError:
            self.must_sit_out = len(self._machine.cluster.brokers) > 1  # taken for dead
            raise _Over("/controller is gone") from None
        broker_id, epoch = znodes.decode_controller(data)
        ours = broker_id == self._broker_id and stat.ephemeral_owner == self._store.session_id
        if not ours or epoch != self.won.controller_epoch:
            raise _Over(f"broker {broker_id} is controller of epoch {epoch}")
        if epoch_stat.version != self.won.epoch_version:
            raise _Over("/controller_epoch has moved on")
        self._doubted = False

    def _controller_watch(self, _: WatchEvent) -> None:
        self.controller_changed()

    # ---- the end

    def _refuse_all(self) -> None:
        """Tell all askers that it is over: what was begun may have had its effect, what was not had
        none."""
        for request_id, future in sorted(self._futures.items()):
            if not future.done():
                begun = request_id in self._begun
                error = RequestTimedOutError if begun else NotControllerError
                future.set_result(refusal(self._asked[request_id], error.code))
