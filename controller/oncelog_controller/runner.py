"""Every broker process runs the controller: it campaigns, serves a term, watches whoever won.

Rules
-----
* Only a registered broker campaigns: its own registration must stand, in this session [Z5].
* Whoever is not controller keeps a connection to the controller's process. When it breaks and the
  host refuses a new one, the process is dead: it is deposed by one multi, and all elect. No
  time-out is waited for on that path. Who was never connected, or was wrong before, asks first
  (see ``evidence`` and ``accusations``).
* Who was deposed and lives, or stepped down because most brokers refuse it, sits out for a while,
  longer each time in a row: it watches whoever wins, and runs only when the time is up, or when it
  is the only one. So does who cannot reach a controller that lives.
* Whoever is out of service stands back in the same way while another broker is in service, and for
  ``STAND_BACK_S`` at most while nobody becomes controller [M21].
* A ``/controller`` that names this broker in another session is from its earlier life, and goes.
* A term that fails by a bug is logged; the next campaign waits a little, so that a bug which stays
  does not spin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from oncelog_controller import accusations, znodes
from oncelog_controller.broker_settings import BrokerSettings
from oncelog_controller.campaign import Campaign, Incumbent, Won
from oncelog_controller.config import ControllerConfig
from oncelog_controller.evidence import Evidence
from oncelog_controller.link import BrokerLink, meant
from oncelog_controller.loader import prepare_store
from oncelog_controller.replies import refusal
from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.stats import ControllerStats
from oncelog_controller.store import (
    MetadataStore,
    NodeStat,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
)
from oncelog_controller.term import ControllerTerm
from oncelog_protocol.errors import NotControllerError
from oncelog_protocol.identity import NO_CLUSTER
from oncelog_protocol.messages.base import Request
from oncelog_protocol.types import NO_BROKER, NO_EPOCH
from oncelog_runtime.channel import RequestChannel
from oncelog_runtime.clock import WallClock
from oncelog_runtime.dialer import PLAIN, Dialer
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)

FAILURE_PAUSE_S = 1.0
"""The pause before campaigning again after a bug ended a term."""

SIT_OUT_S = 1.0
"""The pause after a first term that others ended, or had better end; it doubles with each further
one."""

SIT_OUT_MAX_S = 60.0

CUT_OFF_S = 10.0
"""The controller sits out so long after an objection; the next comes sooner, if it is still out of
reach."""

STAND_BACK_S = 10.0
"""A cluster without a controller is worse than one whose controller is out of service."""

ACCUSERS_S = 5.0
"""Who has accused this broker within that time cannot reach it."""


class ControllerRunner:
    """It is the controller of one broker process, active or not."""

    def __init__(
        self,
        *,
        broker_id: int,
        store: MetadataStore,
        clock: WallClock,
        entropy: Entropy,
        config: ControllerConfig,
        tasks: Tasks,
        dialer: Dialer = PLAIN,
        safeguards: ControllerSafeguards = SAFE,
        settings: BrokerSettings | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._config = config
        self._dialer = dialer
        self._safeguards = safeguards
        self._settings = settings
        self._tasks = tasks
        self.stats = ControllerStats()
        self._campaign = Campaign(store, broker_id)
        self._links = Tasks(f"controller-{broker_id}-follow")
        self._wake = asyncio.Event()
        self._node_changed = False
        self._prepared = False
        self._term: ControllerTerm | None = None
        self._cluster_id = NO_CLUSTER
        self._known_id = NO_BROKER
        self._known_epoch = NO_EPOCH
        self._refused: set[tuple[int, int]] = set()
        self._evidence = Evidence()
        self._accusers: dict[int, float] = {}
        self._sit_out_until = 0.0
        self._sit_outs = 0
        """In a row."""
        self._vacant_since: float | None = None
        """Since then there is no controller, and this broker has not run (loop's clock)."""
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    # ---- the face

    async def start(self, cluster_id: str = NO_CLUSTER) -> None:
        """Begin to campaign; returns at once. The broker should be registered, or soon be.

        :param cluster_id: whose brokers are to be found at the registered addresses; "": not known.
        """
        self._cluster_id = self._safeguards.cluster(cluster_id)
        self._store.on_session.append(self._changed)
        self._task = self._tasks.spawn("controller", self._run())
        defence = accusations.Defence(self._store, self._broker_id, self._accused)
        self._links.spawn("defence", defence.run())

    async def stop(self) -> None:
        """Step down, if controller, so that others can elect at once."""
        self._stopping = True
        self._wake.set()
        if self._term is not None:
            self._term.resign("this broker stops")
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._links.close()
        if self._changed in self._store.on_session:
            self._store.on_session.remove(self._changed)

    async def handle(self, request: Request, *, internal: bool = False, asker: str = "") -> Any:
        """Serve a request of ``asker`` as controller; NOT_CONTROLLER inside the response where we
        are not."""
        if self._term is None:
            return refusal(request, NotControllerError.code)
        return await self._term.handle(request, internal=internal, asker=asker)

    @property
    def is_active(self) -> bool:
        """Return whether this broker is controller, as far as it knows."""
        return self._term is not None

    @property
    def epoch(self) -> int:
        """Return the newest controller epoch that this broker knows of, -1 for none."""
        return self._known_epoch

    @property
    def controller_id(self) -> int:
        """Return who is controller, as far as known, -1 for nobody."""
        return self._known_id

    @property
    def term(self) -> ControllerTerm | None:
        """Return the running term, for reading."""
        return self._term

    # ---- the loop

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._step()
            except StoreDisconnectedError:
                await self._pause_unless_changed()
            except SessionExpiredError:
                continue
            except Exception as error:
                logger.error("controller_failed", broker_id=self._broker_id, exc_info=error)
                if not self._stopping:
                    await asyncio.sleep(FAILURE_PAUSE_S)

    async def _step(self) -> None:
        if not await self._may_campaign():
            return
        self._node_changed = False
        outcome: Won | Incumbent | None
        now = asyncio.get_running_loop().time()
        stands_back = await self._stands_back(now)
        if stands_back or now < self._sit_out_until:
            outcome = await self._campaign.look(self._controller_watch)
        else:
            outcome = await self._campaign.run(self._controller_watch)
        if outcome is not None:
            self._vacant_since = None
        elif self._vacant_since is None:
            self._vacant_since = now
        if outcome is None:
            await self._let_others_run(stands_back)
        elif isinstance(outcome, Won):
            await self._lead(outcome)
        else:
            self._known_id, self._known_epoch = outcome.broker_id, outcome.controller_epoch
            await self._follow(outcome)

    async def _may_campaign(self) -> bool:
        """Return whether it is connected, and registered in this session; wait for what is
        missing."""
        if self._store.state is not SessionState.CONNECTED:
            self._known_id = NO_BROKER
            await self._sleep()
            return False
        if not self._prepared:
            await prepare_store(self._store)
            self._prepared = True
        stat = await self._store.exists(znodes.broker_path(self._broker_id), self._changed)
        if stat is None or stat.ephemeral_owner != self._store.session_id:
            await self._sleep()
            return False
        return True

    # ---- as controller

    async def _lead(self, won: Won) -> None:
        logger.info(
            "controller_elected", broker_id=self._broker_id, controller_epoch=won.controller_epoch
        )
        self._known_id, self._known_epoch = self._broker_id, won.controller_epoch
        refused, self._refused = frozenset(self._refused), set()
        term = ControllerTerm(
            broker_id=self._broker_id,
            store=self._store,
            clock=self._clock,
            entropy=self._entropy.fork(f"term-{won.controller_epoch}"),
            config=self._config,
            won=won,
            suspected=refused,
            evidence=self._evidence,
            cluster_id=self._cluster_id,
            dialer=self._dialer,
            safeguards=self._safeguards,
            stats=self.stats,
            settings=self._settings,
        )
        self.stats.term_began()
        self._term = term
        since, session = asyncio.get_running_loop().time(), self._store.session_id
        if self._stopping:
            term.resign("this broker stops")  # it was told while the campaign was on its way
        try:
            reason = await term.run()
            logger.info(
                "controller_resigned",
                broker_id=self._broker_id,
                controller_epoch=won.controller_epoch,
                reason=reason,
            )
        finally:
            self._term = None
            self._known_id = NO_BROKER
            held = self._store.session_id == session  # the session may still stand
            if term.must_sit_out and held and self._store.state is not SessionState.EXPIRED:
                self._sit_out(since)
            if self._store.state is SessionState.CONNECTED:
                await self._campaign.step_down(won)

    def _sit_out(self, since: float) -> None:
        now = asyncio.get_running_loop().time()
        if now - since > SIT_OUT_MAX_S:
            self._sit_outs = 0
        pause_s = min(SIT_OUT_S * 2**self._sit_outs, SIT_OUT_MAX_S)
        self._sit_outs = min(self._sit_outs + 1, 10)
        self._sit_out_until = now + pause_s
        logger.warning("controller_sits_out", broker_id=self._broker_id, seconds=round(pause_s))

    async def _stands_back(self, now: float) -> bool:
        """Return whether this broker is out of service, and leaves the office to others."""
        if self._vacant_since is not None and now - self._vacant_since > STAND_BACK_S:
            return False
        taken = set(await self._store.children(znodes.BROKER_STATES))
        if str(self._broker_id) not in taken:
            return False
        return bool(set(await self._store.children(znodes.BROKER_IDS)) - taken)

    async def _let_others_run(self, stands_back: bool) -> None:
        """Wait while this broker sits out, or stands back; when there are no others, it stops
        sitting out."""
        if await self._store.children(znodes.BROKER_IDS) == [str(self._broker_id)]:
            self._sit_out_until = 0.0
            return
        soon = asyncio.get_running_loop().time() + SIT_OUT_S
        await self._sleep(until=soon if stands_back else min(soon, self._sit_out_until))

    def _accused(self, accusers: list[int]) -> None:
        now = asyncio.get_running_loop().time()
        self._accusers.update(dict.fromkeys(accusers, now))
        for broker_id, at in list(self._accusers.items()):
            if now - at > ACCUSERS_S:
                del self._accusers[broker_id]
        if self._term is not None:
            self._term.accused(self._accusers)

    # ---- as one of the others

    async def _follow(self, incumbent: Incumbent) -> None:
        """Until ``/controller`` changes, the session does, or its process is known to be dead."""
        if incumbent.broker_id == self._broker_id:
            logger.info("former_controller_node")
            await self._campaign.depose(incumbent)
            return
        path = znodes.broker_path(incumbent.broker_id)
        try:
            data, stat = await self._store.get(path)
        except NoNodeError:
            # Its session is ending; /controller goes with it.
            await self._wait_for_change(incumbent, None)
            return
        if await self._wait_for_change(incumbent, (data, stat)):
            self._refused.add((incumbent.broker_id, stat.czxid))
            self._known_id = NO_BROKER
            await self._campaign.depose(incumbent)

    async def _wait_for_change(
        self, incumbent: Incumbent, registration: tuple[bytes, NodeStat] | None
    ) -> bool:
        """Return whether its process was found dead before anything else changed."""
        dead = False
        steady = self._store.session_id

        def on_dead() -> None:
            nonlocal dead
            dead = True
            self._wake.set()

        link = None
        if registration is not None:
            link = self._link(incumbent, *registration, on_dead)
        try:
            while not (dead or self._node_changed or self._stopping):
                if self._store.state is SessionState.EXPIRED or self._store.session_id != steady:
                    return False
                await self._sleep()
        finally:
            if link is not None:
                link.cancel()
        connected = self._store.state is SessionState.CONNECTED
        return dead and not self._node_changed and not self._stopping and connected

    def _link(
        self, incumbent: Incumbent, data: bytes, stat: NodeStat, on_dead: Callable[[], None]
    ) -> asyncio.Task[None] | None:
        broker = znodes.decode_broker(incumbent.broker_id, data, stat)
        life = (incumbent.broker_id, stat.czxid)
        loop, evidence = asyncio.get_running_loop(), self._evidence

        def on_up(_: RequestChannel) -> None:
            evidence.met(*life, loop.time())

        def on_refused() -> None:
            if not self._safeguards.hears(not evidence.proves(*life, loop.time())):
                on_dead()
            elif evidence.asks(*life, loop.time()):
                self._links.spawn(f"ask controller-{life[0]}", self._ask(*life, on_dead))

        address = broker.listener(self._config.inter_broker_listener)
        if address is None:
            return None
        link = BrokerLink(
            address.host,
            address.port,
            client_id=f"broker-{self._broker_id}-controller-watch",
            meant=meant(self._cluster_id, incumbent.broker_id),
            own_broker_id=self._broker_id,
            connect_timeout_s=self._config.connect_timeout_ms / 1000,
            dialer=self._dialer,
            on_up=on_up,
            on_down=lambda: None,
            on_refused=on_refused,
        )
        return self._links.spawn(f"controller-{incumbent.broker_id}", link.run())

    async def _ask(self, broker_id: int, epoch: int, on_dead: Callable[[], None]) -> None:
        """Hold the refusal against it; without an objection it is dead."""
        try:
            objected = await accusations.objects(self._store, self._broker_id, broker_id, epoch)
        except (StoreError, asyncio.CancelledError) as error:
            self._evidence.unasked(broker_id, epoch)
            if isinstance(error, StoreError):
                return
            raise
        now = asyncio.get_running_loop().time()
        if objected:
            self._evidence.objected(broker_id, epoch, now)
            self._sit_out_until = max(self._sit_out_until, now + CUT_OFF_S)
        else:
            self._evidence.silent(broker_id, epoch)
            on_dead()

    # ---- waiting

    def _changed(self, _: WatchEvent | SessionState) -> None:
        self._wake.set()

    def _controller_watch(self, _: WatchEvent) -> None:
        self._node_changed = True
        if self._term is not None:
            self._term.controller_changed()
        self._wake.set()

    async def _sleep(self, *, until: float | None = None) -> None:
        """Wait until something changes, or ``until`` on the loop's clock."""
        if not self._stopping:
            try:
                async with asyncio.timeout_at(until):
                    await self._wake.wait()
            except TimeoutError:
                pass
        self._wake.clear()

    async def _pause_unless_changed(self) -> None:
        """The store failed a call; it says so by its state, too, sooner or later."""
        if self._store.state is SessionState.CONNECTED and not self._stopping:
            await asyncio.sleep(0.01)
