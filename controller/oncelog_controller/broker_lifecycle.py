"""Any broker comes to belong to the cluster here: its id, its registration, its broker epoch.

Rules
-----
* The registration is an ephemeral node; its czxid is the broker epoch, new with each life.
* A registration that is in the way and belongs to a session that this broker remembers is its own,
  from an earlier life, or that of the process whose directory this is a copy of. So its address is
  asked: refused, or another life there, and the registration goes; that very life, and this process
  is a duplicate; silence, and the session is waited out. One of anybody else is a duplicate broker
  id, which is fatal [Z5].
* The session is remembered before the node is made: a crash between the two must not leave a node
  that nobody owns up to.
* What the broker says of its data is asked for anew before each registration, and was made durable
  by whoever says it: no later life may claim more (see ``DataClaim``).
* A release that does not know a feature of the cluster does not register (``features``).
* Disconnected is not expired [Z6]: only after expiry, or when the node has vanished, the broker
  registers again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from oncelog_controller import znodes
from oncelog_controller.features import KNOWN, check_features
from oncelog_controller.life import AskLife, Life, ask_life
from oncelog_controller.loader import prepare_store
from oncelog_controller.state import DataClaim
from oncelog_controller.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    SessionExpiredError,
    SessionState,
    StoreDisconnectedError,
    StoreError,
    WatchEvent,
)
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.identity import Identity
from oncelog_protocol.messages.metadata import ListenerAddress
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)


ASKED_AGAIN = 2
ASKED_PAUSE_S = 0.05
"""A process that registered a moment ago may not know its epoch yet: who answers as another life of
this broker at an address that is not our own is asked so often again, after such a pause."""

ASK_AGAIN_S = 0.25
"""The pause between two questions to a registered process that did not answer."""

SESSIONS_WAITED = 3
"""Session time-outs for which a silent process is waited for: a session that lives on so long has
somebody who keeps it alive."""


class DuplicateBrokerIdError(OncelogError):
    """Another live process is registered under this broker id."""


class BrokerLifecycle:
    """It is one broker's place in the cluster."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        broker_id: int,
        listeners: Sequence[ListenerAddress],
        rack: str | None,
        http: str = "",
        wants: Collection[str] = (),
        cluster_id_hint: str,
        previous_session: int | None,
        remember_session: Callable[[int], None],
        claim_data: Callable[[Mapping[str, int]], DataClaim] = lambda losses: DataClaim(),
        inter_broker_listener: str,
        session_timeout_s: float,
        ask: AskLife = ask_life,
    ) -> None:
        """
        :param http: where this broker's metrics are, as ``host:port``; "" when it serves none.
        :param wants: features that this broker wants to use, once all brokers know them.
        :param previous_session: the session that the data directory remembers.
        :param claim_data: is told what the store remembers of directories that failed: by id, the
            broker epoch under which they did.
        :param inter_broker_listener: where an earlier registration is asked whether it lives.
        :param session_timeout_s: of sessions with the store, in seconds.
        :param ask: how that is asked.
        """
        self._store = store
        self._broker_id = broker_id
        self._listeners = tuple(listeners)
        self._rack = rack
        self._http = http
        self._wants = frozenset(wants)
        self._claim_data = claim_data
        self._cluster_id_hint = cluster_id_hint
        self._own_sessions = [] if previous_session is None else [previous_session]
        self._inherited_session = previous_session
        self._inter_broker_listener = inter_broker_listener
        self._session_timeout_s = session_timeout_s
        self._ask = ask
        self._remember_session = remember_session
        self._path = znodes.broker_path(broker_id)
        self._tasks = Tasks(f"membership-{broker_id}", self._failed)
        self._registering = False
        self._renewing = False
        self._renew_again = False
        """Something happened to the registration or the session while it was being renewed."""
        self._leaving = False
        self._wake = asyncio.Event()
        self.features: frozenset[str] = frozenset()
        """The cluster uses these, as this broker last heard."""
        self.broker_epoch = -1
        self.registrations = 0
        """How often this broker has registered."""
        self.on_registered: list[Callable[[int], None]] = []
        """Called with the broker epoch after each registration."""
        self.on_failed: list[Callable[[BaseException], None]] = []
        """Called when the broker cannot register again: it has to stop."""

    @property
    def is_registered(self) -> bool:
        """Return whether this broker counts as registered: not before the first time, not while it
        registers again, and not once it has begun to leave. Losing contact alone changes nothing.
        """
        expired = self._store.state is SessionState.EXPIRED
        return self.broker_epoch >= 0 and not (expired or self._renewing or self._leaving)

    def uses(self, feature: str) -> bool:
        """Return whether the cluster uses a feature, as far as this broker has heard."""
        return feature in self.features

    async def cluster_id(self) -> str:
        """Return the cluster's id; the first broker to ask makes it from its hint."""
        self._listen()
        while True:
            try:
                await prepare_store(self._store)
                data, _ = await self._store.get(znodes.CLUSTER_ID)
                return znodes.decode_cluster_id(data)
            except NoNodeError:
                await self._make_cluster_id()
            except StoreDisconnectedError:
                await self._connected()

    async def _make_cluster_id(self) -> None:
        data = znodes.encode_cluster_id(self._cluster_id_hint)
        try:
            await self._store.create(znodes.CLUSTER_ID, data, make_parents=True)
            logger.info("cluster_created", cluster_id=self._cluster_id_hint)
        except (NodeExistsError, StoreDisconnectedError):
            pass  # read it again: somebody's, perhaps ours, is there

    async def register(self) -> int:
        """Register, and stay registered until ``close``; returns the broker epoch.

        :raises DuplicateBrokerIdError: somebody else has this id.
        :raises UnknownFeatureError: the cluster uses what this release does not know.
        :raises SessionExpiredError: at the first registration only; later ones renew the session.
        """
        if self._store.state is SessionState.EXPIRED and not self._registering:
            # It ran out while the logs were being loaded: nothing of ours was in it.
            await self._store.restart_session()
        self._registering = True
        self._listen()
        while True:
            try:
                await prepare_store(self._store)
                stat = await self._try()
                if stat is not None:
                    await self._read_features()
            except StoreDisconnectedError:
                await self._connected()
                continue
            if stat is not None:
                break
        if stat.czxid != self.broker_epoch:
            self.broker_epoch = stat.czxid
            self.registrations += 1
            logger.info(
                "broker_registration_written", broker_id=self._broker_id, broker_epoch=stat.czxid
            )
            for callback in list(self.on_registered):
                callback(stat.czxid)
        return self.broker_epoch

    async def _try(self) -> NodeStat | None:
        """Return the stat of our registration, None to try again."""
        session = self._store.session_id
        stat = await self._store.exists(self._path, self._node_changed)
        if stat is not None:
            if stat.ephemeral_owner == session:
                return stat  # a reply was lost: it is ours
            if stat.ephemeral_owner not in self._own_sessions:
                raise DuplicateBrokerIdError(
                    f"broker id {self._broker_id} is registered by another process (session "
                    f"{stat.ephemeral_owner:#x}); every broker needs an id of its own"
                )
            if stat.ephemeral_owner == self._inherited_session and not await self._has_ended(stat):
                return None
            logger.info("former_registration_removed")
            try:
                await self._store.delete(self._path, stat.version)
            except (NoNodeError, BadVersionError):
                return None
        if session is not None and session not in self._own_sessions:
            self._remember_session(session)
            self._own_sessions.append(session)
        await check_features(self._store)
        losses = await self._losses()
        claim = self._claim_data(losses)
        data = znodes.encode_broker(
            self._listeners, self._rack, claim, self._http, KNOWN, self._wants
        )
        try:
            await self._store.create(self._path, data, ephemeral=True)
        except NodeExistsError:
            return None  # look whose it is
        return None  # read it with a watch, and its epoch

    async def _read_features(self) -> None:
        """Learn which features are in use, and be told of others."""
        self.features = await check_features(self._store, watch=self._features_changed)

    def _features_changed(self, _: WatchEvent) -> None:
        if not self._leaving and not self._tasks.closed:
            self._tasks.spawn("features", self._read_features_again())

    async def _read_features_again(self) -> None:
        while not self._leaving:
            try:
                await self._connected()
                return await self._read_features()
            except StoreDisconnectedError:
                continue
            except SessionExpiredError:
                return None  # who registers again reads them as well
        return None

    async def _losses(self) -> dict[str, int]:
        try:
            data, _ = await self._store.get(znodes.lossy_directories_path(self._broker_id))
        except NoNodeError:
            return {}
        return znodes.decode_lossy(self._broker_id, data)

    async def report_loss(self, directory_id: str) -> None:
        """Have the store remember that a directory of this broker has failed and may have lost what
        had counted there unsynced; returns when it does. The next life hears of it before it
        registers, whatever its directories say."""
        path = znodes.lossy_directories_path(self._broker_id)
        self._listen()
        while not self._leaving:
            try:
                await prepare_store(self._store)
                losses = await self._losses() | {directory_id: self.broker_epoch}
                stat = await self._store.exists(path)
                if stat is None:
                    await self._store.create(path, znodes.encode_lossy(losses))
                else:
                    await self._store.set(path, znodes.encode_lossy(losses), stat.version)
                return
            except (NodeExistsError, NoNodeError, BadVersionError):
                continue
            except (StoreDisconnectedError, SessionExpiredError):
                await self._contact()

    async def _contact(self) -> None:
        """A call was lost: return when it is worth while to repeat it."""
        self._wake.clear()
        if self._store.state is SessionState.CONNECTED:
            await asyncio.sleep(0.01)
        else:
            await self._wake.wait()

    async def _has_ended(self, registered: NodeStat) -> bool:
        """Return whether the life that made the registration is over; False when the node has
        changed meanwhile, and is to be looked at anew.

        :raises DuplicateBrokerIdError: that life answers, or its session outlives our patience.
        """
        loop = asyncio.get_running_loop()
        begun, waits = loop.time(), False
        while True:
            try:
                data, stat = await self._store.get(self._path)
            except NoNodeError:
                return False
            if stat.czxid != registered.czxid:
                return False
            broker = znodes.decode_broker(self._broker_id, data, stat)
            address = broker.listener(self._inter_broker_listener)
            life = await self._life_at(address, stat.czxid)
            if life in (Life.GONE, Life.OTHER):
                now = await self._store.exists(self._path)
                return now is not None and now.czxid == registered.czxid
            where = "?" if address is None else f"{address.host}:{address.port}"
            if life is Life.HERE:
                raise DuplicateBrokerIdError(
                    f"broker id {self._broker_id} is registered by a process that is alive at "
                    f"{where}, and the data directory is that of this process or a copy of it; "
                    "stop that process first, or give this one an id and directories of its own"
                )
            waited_s = loop.time() - begun
            if waited_s > SESSIONS_WAITED * self._session_timeout_s:
                raise DuplicateBrokerIdError(
                    f"broker id {self._broker_id} is registered by a process at {where} that does "
                    f"not answer, and whose session is still alive after {waited_s:.0f} s; "
                    "end that process, or mend the way to it"
                )
            if not waits:
                waits = True
                logger.warning("former_life_silent", broker_id=self._broker_id, host=where)
            await asyncio.sleep(ASK_AGAIN_S)

    async def _life_at(self, address: ListenerAddress | None, broker_epoch: int) -> Life:
        """Return who is at the address of a registration. A process that has registered a moment
        ago may not know its epoch yet: another life than ours is asked more than once."""
        if address is None:
            return Life.SILENT
        try:
            data, _ = await self._store.get(znodes.CLUSTER_ID)
            broker = Identity(znodes.decode_cluster_id(data), self._broker_id)
        except NoNodeError:
            broker = Identity(broker_id=self._broker_id)
        life = await self._ask(address, broker, broker_epoch)
        for _ in range(0 if address in self._listeners else ASKED_AGAIN):
            if life is not Life.OTHER:
                break
            await asyncio.sleep(ASKED_PAUSE_S)
            life = await self._ask(address, broker, broker_epoch)
        return life

    async def report_storage_failure(self) -> None:
        """Tell the controller that a log directory of this broker failed; returns when the notice
        is in the store. The controller asks which replicas are concerned, and takes leadership
        and ISR membership from them."""
        self._listen()
        while not self._leaving:
            try:
                await prepare_store(self._store)
                await self._store.create(znodes.storage_failure_path(self._broker_id), b"")
                return
            except NodeExistsError:
                return  # not heard yet
            except (StoreDisconnectedError, SessionExpiredError):
                await self._contact()

    async def close(self) -> None:
        """Leave: the registration goes at once, if the store can be reached."""
        self._leaving = True
        self._wake.set()
        if self._session_changed in self._store.on_session:
            self._store.on_session.remove(self._session_changed)
        await self._tasks.close()
        if self._store.state is not SessionState.CONNECTED or self.broker_epoch < 0:
            return
        try:
            stat = await self._store.exists(self._path)
            if stat is not None and stat.ephemeral_owner == self._store.session_id:
                await self._store.delete(self._path, stat.version)
        except StoreError as error:
            logger.info("registration_stays", error=error)

    # ---- staying registered

    def _listen(self) -> None:
        if self._session_changed not in self._store.on_session:
            self._store.on_session.append(self._session_changed)

    def _session_changed(self, state: SessionState) -> None:
        self._wake.set()
        if state is SessionState.EXPIRED and self._registering:
            logger.warning("session_expired", broker_id=self._broker_id)
            self._renew()

    def _node_changed(self, _: WatchEvent) -> None:
        self._renew()

    def _renew(self) -> None:
        self._renew_again = True
        if not self._leaving and not self._renewing and not self._tasks.closed:
            self._renewing = True
            self._tasks.spawn("renew", self._register_again())

    async def _register_again(self) -> None:
        try:
            while self._renew_again and not self._leaving:
                # What comes from here on may be newer than what is about to be read.
                self._renew_again = False
                logger.info("broker_registers_again", broker_id=self._broker_id)
                try:
                    if self._store.state is SessionState.EXPIRED:
                        await self._store.restart_session()
                    await self.register()
                except SessionExpiredError:
                    self._renew_again = True
        finally:
            self._renewing = False

    async def _connected(self) -> None:
        """Wait until the store answers again."""
        if self._store.state is SessionState.EXPIRED:
            raise SessionExpiredError
        await self._contact()

    def _failed(self, name: str, error: BaseException) -> None:
        for callback in list(self.on_failed):
            callback(error)
