"""One broker is wired here: its rooms meet, and this one file knows the controller.

Start: bind the listeners (so that ports are known, and nothing is created when one is taken), look
at the directories, connect to the metadata store, learn the cluster id, load the logs, start
replication, serve the internal listener, register, run for controller, and serve clients once the
controller has described the cluster.

Stop [D10]: have the leaderships moved, resign, leave, give up the transactions and the groups,
close the listeners, stop replication, sync everything, write the clean-shutdown file with the
broker epoch.

Losing the session with the metadata store is not the end: the broker goes on serving, registers
again under a new broker epoch, and is told what to do by the controller. An error that does end a
broker comes out of :attr:`Broker.failed`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Collection, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING

from oncelog_broker.clock_watch import ClockWatch
from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.controller_settings import (
    ControllerSettings,
    controller_config,
    keeps_users,
    wanted_features,
)
from oncelog_broker.coordinator.safeguards import SAFE as SAFE_COORDINATORS
from oncelog_broker.coordinator.safeguards import CoordinatorSafeguards
from oncelog_broker.listening import elsewhere, spoken, take_address
from oncelog_broker.live_config import LiveConfig
from oncelog_broker.log.checkpoint import SESSION
from oncelog_broker.log.log_dir import LogDir, LogDirError
from oncelog_broker.log.log_manager import LogManager
from oncelog_broker.phases import BrokerPhase
from oncelog_broker.preflight import check_directories, known_cluster_id
from oncelog_broker.replication.replica_manager import ReplicaManager
from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.room_configs import advertised_http, advertised_listeners
from oncelog_broker.security import TlsWatch, inter_broker_dialer, listener_security
from oncelog_broker.security_watch import SecurityWatch
from oncelog_broker.server.acl_authorizer import AclAuthorizer
from oncelog_broker.server.address_quotas import AddressQuotas
from oncelog_broker.server.audit import Audit
from oncelog_broker.server.authorizer import AllowAllAuthorizer, Authorizer
from oncelog_broker.server.broker_calls import BrokerCalls
from oncelog_broker.server.broker_reporter import BrokerReporter
from oncelog_broker.server.client_quotas import ClientQuotas
from oncelog_broker.server.controller_channel import BrokerConnector, ControllerChannel, IsrChannel
from oncelog_broker.server.controller_fence import ControllerFence
from oncelog_broker.server.event_history import EventHistory
from oncelog_broker.server.giving_way import GivingWay
from oncelog_broker.server.group_coordination import GroupCoordination
from oncelog_broker.server.handler_table import install_handlers
from oncelog_broker.server.handlers.alter_users import GuardedUsers
from oncelog_broker.server.handlers.authenticate import AuthenticateHandler
from oncelog_broker.server.handlers.controller_requests import ControllerRequests
from oncelog_broker.server.internal_topics import InternalTopics, group_topic, transaction_topic
from oncelog_broker.server.known_quotas import KnownQuotas
from oncelog_broker.server.listener import Listener
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.mutation_quota import MutationQuota
from oncelog_broker.server.producer_ids import ProducerIds
from oncelog_broker.server.quotas import BytePool
from oncelog_broker.server.request_dispatcher import RequestDispatcher
from oncelog_broker.server.safeguards import SAFE as SAFE_SECURITY
from oncelog_broker.server.safeguards import SecuritySafeguards
from oncelog_broker.server.topic_creation import TopicCreation
from oncelog_broker.server.transaction_coordination import TransactionCoordination
from oncelog_broker.server.users import SECRET_BYTES, Users
from oncelog_broker.token_settings import takes_tokens, token_judge
from oncelog_controller.broker_lifecycle import BrokerLifecycle, DuplicateBrokerIdError
from oncelog_controller.campaign import elected_in
from oncelog_controller.clock_exchange import ClockExchange
from oncelog_controller.existence import is_deleted
from oncelog_controller.features import KAFKA_BATCHES, UnknownFeatureError
from oncelog_controller.life import ask_life
from oncelog_controller.loader import load_security, load_users
from oncelog_controller.runner import ControllerRunner
from oncelog_controller.safeguards import SAFE as SAFE_CONTROLLER
from oncelog_controller.safeguards import ControllerSafeguards
from oncelog_controller.state import DataClaim, DataLoss, KeptPartitions
from oncelog_controller.store import MetadataStore
from oncelog_controller.stored_security import StoredSecurityVersion
from oncelog_protocol.acl_state import AclState
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.identity import UNKNOWN, Identity
from oncelog_protocol.messages.metadata import MetadataRequest
from oncelog_protocol.messages.replication import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from oncelog_protocol.sasl.server_authentication import SaslPorts
from oncelog_runtime.clock import WallClock
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.files import Files
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

if TYPE_CHECKING:
    from oncelog_broker.server.oidc.token_judge import TokenJudge

logger = get_logger(__name__)

SESSION_FILE = SESSION
"""It holds the session that owns the registration, in the first log directory."""

STORE_STEP_S = 10.0
"""A step of stopping that needs the metadata store, which may be away, may take so long."""

CONTACT_S = 1.0
"""A controller that does not answer for so long is not there."""

SHUTDOWN_RETRY_S = 0.05
SHUTDOWN_RETRY_MAX_S = 0.5
SHUTDOWN_STUCK_S = 2.0
"""Leaderships that found no taker for so long stay: others are stopping too, or behind."""


class BrokerFailedError(OncelogError):
    """The broker cannot go on."""


class Broker:
    """It is one broker. Call ``start`` once and ``stop`` once; many may live in one process.

    :param metadata_store: not started yet; the broker starts and closes it.
    :param wants: features of the cluster that this broker wants in use (``features``).
    """

    tokens: TokenJudge | None = None
    """It judges tokens, from the start on, where a listener takes them."""
    _http_port: int | None = None
    """Its metrics and probes are served at this port."""
    lifecycle: BrokerLifecycle | None = None
    _stopping = False

    def __init__(
        self,
        config: BrokerConfig,
        *,
        files: Files,
        clock: WallClock,
        entropy: Entropy,
        metadata_store: MetadataStore,
        authorizer: Authorizer | None = None,
        safeguards: Safeguards = SAFE,
        controller_safeguards: ControllerSafeguards = SAFE_CONTROLLER,
        coordinator_safeguards: CoordinatorSafeguards = SAFE_COORDINATORS,
        security_safeguards: SecuritySafeguards = SAFE_SECURITY,
        wants: Collection[str] = (),
    ) -> None:
        self.config = config
        self._wants = wanted_features(config, wants)
        self.live = LiveConfig(config)  # the settings in force
        self.live.on_change.append(self._settings_changed)
        self.broker_id = config.broker_id
        self.addresses: dict[str, tuple[str, int]] = {}  # listeners accept here, from start on
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Ends with the exception after which this broker cannot go on."""
        self.failed.add_done_callback(_retrieve)
        self.phase = BrokerPhase.NEW  # how far it has come
        self.files = files
        self._safeguards, self._security_safeguards = safeguards, security_safeguards
        time = self.failed.get_loop().time
        self.clock = safeguards.log.clock(clock, time, lambda ms: self.clock_watch.leapt(ms))
        self._entropy, self._store = entropy, metadata_store
        self.audit = Audit()
        self.acls = AclAuthorizer(config.super_users, security_safeguards, audit=self.audit)
        self.authorizer = self._deciding() if authorizer is None else authorizer
        self.tasks = Tasks(f"broker-{config.broker_id}", self._task_failed)
        self.fence = ControllerFence(elected_in(metadata_store), safeguards)
        self.image = MetadataImage()
        self.clock_watch = self._make_clock_watch(clock)
        self.quotas, self.address_quotas, self.known_quotas = self._make_quotas()
        self.dispatcher = self._make_dispatcher()
        self.pool = BytePool(config.queued_max_bytes)
        self.listeners: dict[str, Listener] = {}
        self.logs = self._make_logs(safeguards)
        self._dialer = inter_broker_dialer(config, clock, entropy.fork("dialer"))
        self._wall_clock = clock
        self.users = self._make_users()
        self.tls_watch = TlsWatch(lambda: self.listeners.values(), self._dialer)
        self.security_watch = self._make_security_watch()
        self._connector = self._make_connector()
        self.runner = self._make_runner(controller_safeguards)
        self._isr_controller = self._controller_channel()
        self._admin_controller = self._controller_channel()
        self.replicas = self._make_replicas(safeguards)
        self.topics = self._make_internal_topics()
        self.producer_ids = self._make_producer_ids()
        self._contact = BrokerCalls(self._connector)
        self._giving_way = self._make_giving_way()
        self.coordination = self._make_coordination(coordinator_safeguards)
        self.transactions = self._make_transactions(coordinator_safeguards)

    def _deciding(self) -> Authorizer:
        return self.acls if self.config.authorizer == "acl" else AllowAllAuthorizer()

    def _make_producer_ids(self) -> ProducerIds:
        return ProducerIds(self.broker_id, self._admin_controller, self.fence, self.tasks)

    def _make_giving_way(self) -> GivingWay:
        calls = BrokerCalls(self._connector)
        return GivingWay(self.logs, self.replicas, calls, safeguards=self._safeguards)

    def _make_clock_watch(self, wall: WallClock) -> ClockWatch:
        return ClockWatch(
            self.clock,
            ClockExchange(self._store, self.broker_id, wall),
            self.image,
            broker_id=self.broker_id,
            interval_ms=self.config.log_retention_check_interval_ms,
        )

    def _make_quotas(self) -> tuple[ClientQuotas, AddressQuotas, KnownQuotas]:
        clients = ClientQuotas(asyncio.get_running_loop().time, self.config.super_users)
        addresses = AddressQuotas()
        return clients, addresses, KnownQuotas(clients.take, addresses.take)

    def _make_users(self) -> Users:
        secret = self._entropy.fork("users").token(SECRET_BYTES)
        users = Users(secret, self._security_safeguards)
        users.on_change(self._users_changed)
        return users

    def _make_logs(self, safeguards: Safeguards) -> LogManager:
        return LogManager(
            files=self.files,
            clock=self.clock,
            entropy=self._entropy.fork("logs"),
            config=self.live.log,
            broker_id=self.broker_id,
            on_dir_offline=self._directory_failed,
            safeguards=safeguards.log,
        )

    def _make_connector(self) -> BrokerConnector:
        listener, safeguards = self.config.inter_broker_listener, self._safeguards
        return BrokerConnector(
            self.broker_id, self.image, listener, dialer=self._dialer, safeguards=safeguards
        )

    def _make_dispatcher(self) -> RequestDispatcher:
        """Make the dispatcher; clusters for tests put their faults in front of it."""
        return RequestDispatcher(
            self.tasks,
            self.authorizer,
            audit=self.audit,
            quotas=self.quotas,
            safeguards=self._safeguards,
        )

    def _make_runner(self, safeguards: ControllerSafeguards) -> ControllerRunner:
        self._ask_life = safeguards.asking(partial(ask_life, dialer=self._dialer))
        return ControllerRunner(
            broker_id=self.broker_id,
            store=self._store,
            clock=self.clock,
            entropy=self._entropy.fork("controller"),
            config=controller_config(self.config),
            tasks=self.tasks,
            dialer=self._dialer,
            safeguards=safeguards,
            settings=ControllerSettings(self.config),
        )

    def _make_replicas(self, safeguards: Safeguards) -> ReplicaManager:
        isr_channel = IsrChannel(
            self.broker_id, lambda: self.fence.broker_epoch, self._isr_controller, self.tasks
        )
        return ReplicaManager(
            broker_id=self.broker_id,
            logs=self.logs,
            clock=self.clock,
            entropy=self._entropy.fork("replication"),
            config=self.live.replicas,
            isr_port=isr_channel,
            connector=self._connector,
            safeguards=safeguards,
            on_failure=self._task_failed,
            on_broken_replica=self._report_storage_failure,
            is_known=lambda tp: self.image.partition(tp) is not None,
        )

    @cached_property
    def _reporter(self) -> BrokerReporter:
        return BrokerReporter(
            self.broker_id,
            files=self.files,
            logs=self.logs,
            replicas=self.replicas,
            image=self.image,
            epoch=self.fence,
            controller=self._admin_controller,
            interval_ms=lambda: self.live.current.broker_report_interval_ms,
            warm=lambda: sorted((*self.coordination.gateway.warm, *self.transactions.gateway.warm)),
        )

    def _make_internal_topics(self) -> InternalTopics:
        config = self.config
        return InternalTopics(
            [
                group_topic(
                    config.offsets_topic_num_partitions,
                    config.offsets_topic_replication_factor,
                    config.offsets_topic_segment_bytes,
                ),
                transaction_topic(
                    config.transaction_state_log_num_partitions,
                    config.transaction_state_log_replication_factor,
                    config.transaction_state_log_segment_bytes,
                ),
            ],
            image=self.image,
            channel=self._admin_controller,
            tasks=self.tasks,
            min_insync_replicas=lambda: int(self.live.topic_default("min_insync_replicas")[0]),
        )

    def _make_coordination(self, safeguards: CoordinatorSafeguards) -> GroupCoordination:
        return GroupCoordination(
            broker_id=self.broker_id,
            config=self.live.groups,
            topics=self.topics,
            commit_timeout_ms=self.config.offset_commit_timeout_ms,
            replicas=self.replicas,
            image=self.image,
            connector=self._connector,
            clock=self.clock,
            entropy=self._entropy.fork("groups"),
            tasks=self.tasks,
            safeguards=safeguards,
        )

    def _make_transactions(self, safeguards: CoordinatorSafeguards) -> TransactionCoordination:
        return TransactionCoordination(
            broker_id=self.broker_id,
            config=self.live.transactions,
            topics=self.topics,
            commit_timeout_ms=self.config.offset_commit_timeout_ms,
            replicas=self.replicas,
            groups=self.coordination.groups,
            producer_ids=self.producer_ids,
            image=self.image,
            connector=self._connector,
            clock=self.clock,
            tasks=self.tasks,
            is_deleted=partial(is_deleted, self._store),
            safeguards=safeguards,
        )

    def _controller_channel(self) -> ControllerChannel:
        return ControllerChannel(self.broker_id, self.image, self._connector, self.runner)

    @property
    def identity(self) -> Identity:
        """Return what this broker answers to; unknown before it has learned its cluster."""
        if not self.image.cluster_id:
            return UNKNOWN
        return self._safeguards.meant(Identity(self.image.cluster_id, self.broker_id))

    @property
    def metadata_store(self) -> MetadataStore:
        """Return where the cluster's state is kept; for reading what its session is."""
        return self._store

    @property
    def broker_epoch(self) -> int:
        """Return the czxid of the registration; -1 before it."""
        return self.fence.broker_epoch

    # -- start -------------------------------------------------------------------------------

    @cached_property
    def events(self) -> EventHistory:
        """It has what happened here lately; whoever runs this broker as a process records it."""
        return EventHistory(self._wall_clock.now_ms())

    def observed_at(self, port: int) -> None:
        """Its metrics and probes are served at this port; a registration from now on tells it."""
        self._http_port = port

    async def start(self) -> None:
        """Return when the broker serves clients.

        :raises ConfigError: ports, directories or ids do not allow it; nothing was created.
        :raises OncelogError, OSError: it failed for another reason. Stopped again in both cases.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop(clean=False)
            raise

    async def _start(self) -> None:
        self.phase = BrokerPhase.BINDING
        await self._bind()
        check_directories(self.files, self.config)
        if takes_tokens(self.config):
            self.tokens = await token_judge(self.config, self.files, self._wall_clock)
            self.tasks.spawn("token keys", self.tokens.run())
        self.phase = BrokerPhase.CONNECTING
        await self._store.start()
        self.lifecycle = lifecycle = self._make_lifecycle()
        self.image.begin(await lifecycle.cluster_id())
        await self.clock_watch.look()
        self.phase = BrokerPhase.LOADING
        await self._load_logs()
        await self.replicas.start()
        self._install_handlers(lifecycle)
        await self._learn_security()
        for name in self.config.broker_listeners:
            await self.listeners[name].serve(self.identity)
        self.phase = BrokerPhase.REGISTERING
        await self._register(lifecycle)
        await self.runner.start(self.image.cluster_id)
        self.phase = BrokerPhase.WAITING
        await self._first_metadata()
        self.tasks.spawn("clock watch", self.clock_watch.run())
        if any(listener.security.tls is not None for listener in self.listeners.values()):
            self.tasks.spawn("tls files", self.tls_watch.run())
        self.tasks.spawn("first block of producer ids", self.producer_ids.stock())
        self.tasks.spawn("giving way", self._giving_way.run())
        self.tasks.spawn("reports", self._reporter.run())
        if keeps_users(self.config):
            self.tasks.spawn("security watch", self.security_watch.run())
        self.dispatcher.serve_clients()
        for name, listener in self.listeners.items():
            if name not in self.config.broker_listeners:
                await listener.serve(self.identity)
        self.phase = BrokerPhase.SERVING
        logger.info(
            "broker_serves",
            broker_id=self.broker_id,
            cluster_id=self.image.cluster_id,
            broker_epoch=self.broker_epoch,
        )

    async def _bind(self) -> None:
        for index, wanted in enumerate(self.config.listeners):
            internal = wanted.name in self.config.broker_listeners
            security = listener_security(self.config, wanted.name, self._wall_clock)
            dispatcher, speaks = spoken(wanted.protocol, self, security.sasl)
            listener = Listener(
                wanted.name,
                internal=internal,
                dispatcher=dispatcher,
                speaks=speaks,
                elsewhere=elsewhere(self.config.listeners, wanted.protocol),
                limits=self.live.connections,
                pool=self.pool,
                security=security,
                audit=self.audit,
                wall_clock=self._wall_clock,
                addresses=None if internal else self.address_quotas,
                safeguards=self._safeguards,
                security_safeguards=self._security_safeguards,
            )
            await take_address(listener, wanted, index)
            self.listeners[wanted.name], self.addresses[wanted.name] = listener, listener.address

    async def _load_logs(self) -> None:
        try:
            await self.logs.start(self.image.cluster_id)
        except LogDirError as exc:
            problem, _, remedy = str(exc).rpartition("; ")
            raise ConfigError("log_dirs", problem or str(exc), _sentence(remedy)) from exc
        if not any(d.online for d in self.logs.dirs):
            # To register now would say to the controller that the data is gone.
            raise BrokerFailedError("no log directory is usable: see what was logged of each")

    async def _learn_security(self) -> None:
        """Decide by what the store holds until the controller says more."""
        if not keeps_users(self.config):
            return
        known = await load_security(self._store)
        quotas = {entity: stored.values for entity, stored in known.quotas.items()}
        self.known_quotas.replace(known.version, quotas)
        if self.config.authorizer == "acl":
            self.acls.replace(AclState.made_of(known.version, known.entries()))
        users = await load_users(self._store)
        if users is not None:
            self.users.replace(users.version, users.secret, users.usable_users())

    def _make_security_watch(self) -> SecurityWatch:
        return SecurityWatch(
            StoredSecurityVersion(self._store),
            self._security_version,
            stale_max_ms=self.config.security_stale_max_ms,
            in_touch=self._in_touch,
            refuse=self._refuse_clients,
        )

    def _security_version(self) -> int:
        """Return the version by which this broker decides, or authenticates."""
        acls = self.config.authorizer == "acl"
        return self.acls.version if acls else self.users.version

    async def _in_touch(self) -> bool:
        """Return whether the controller's broker answers, and still takes itself for that."""
        controller = self.image.controller_id
        if controller == self.broker_id:
            return True
        try:
            async with asyncio.timeout(CONTACT_S):
                heard = await self._contact.call(
                    controller, MetadataRequest([]), timeout_s=CONTACT_S
                )
        except (OSError, TimeoutError, OncelogError):
            return False
        return bool(heard.controller_id == controller)

    def _refuse_clients(self, stale: bool) -> None:
        refused = self._security_safeguards.refuses_clients(stale)
        self.dispatcher.suspend_clients(refused)
        self.acls.suspend(refused)

    def _make_lifecycle(self) -> BrokerLifecycle:
        return BrokerLifecycle(
            self._store,
            broker_id=self.broker_id,
            listeners=advertised_listeners(self.config, self.addresses),
            rack=self.config.rack,
            http=advertised_http(self.config, self._http_port),
            wants=self._wants,
            cluster_id_hint=known_cluster_id(self.files, self.config) or self._entropy.uuid(),
            previous_session=self._previous_session(),
            remember_session=self._remember_session,
            claim_data=self._claim_data,
            inter_broker_listener=self.config.inter_broker_listener,
            session_timeout_s=self.config.zookeeper_session_timeout_ms / 1000,
            ask=self._ask_life,
        )

    async def _register(self, lifecycle: BrokerLifecycle) -> None:
        lifecycle.on_registered.append(self._registered)
        lifecycle.on_failed.append(self._fail)
        try:
            await lifecycle.register()
        except DuplicateBrokerIdError as exc:
            problem, _, remedy = str(exc).partition("; ")
            raise ConfigError("broker_id", problem, _sentence(remedy)) from exc
        except UnknownFeatureError as exc:
            problem, _, remedy = str(exc).partition("; ")
            raise ConfigError("", problem, _sentence(remedy)) from exc

    def _install_handlers(self, lifecycle: BrokerLifecycle) -> None:
        creation, admin = None, self._admin_controller
        if self.config.auto_create_topics_enable:
            creation = TopicCreation(admin, self.tasks, self.authorizer, self.audit)
        quota = MutationQuota(self.quotas, self.image, lambda: self.live.current.num_partitions)
        install_handlers(
            self.dispatcher,
            broker_id=self.broker_id,
            identity=self.identity,
            files=self.files,
            logs=self.logs,
            replicas=self.replicas,
            image=self.image,
            events=self.events,
            fence=self.fence,
            requests=ControllerRequests(self.runner, self.authorizer, quota, admin),
            creation=creation,
            topics=self.topics,
            coordination=self.coordination,
            transactions=self.transactions,
            producer_ids=self.producer_ids,
            settings=self.live,
            take_settings=self.live.take,
            authorizer=self.authorizer,
            authorizer_name=self.config.authorizer,
            acls=self.acls,
            users=self.users,
            known_quotas=self.known_quotas,
            guarded=GuardedUsers(self.config.super_users, self.config.broker_principal),
            quotas=self.quotas,
            takes_kafka=partial(lifecycle.uses, KAFKA_BATCHES),
            authenticate=self.make_authenticate_handler(),
            safeguards=self._security_safeguards,
        )

    def make_authenticate_handler(self) -> AuthenticateHandler:
        """Make the handler that authenticates peers by the users of the cluster."""
        return AuthenticateHandler(
            self._sasl,
            users=self.users,
            entropy=self._entropy.fork("authentication"),
            clock=self._wall_clock,
            reauth_ms_max=self.config.connections_max_reauth_ms,
            tokens=self.tokens,
            audit=self.audit,
        )

    def _users_changed(self, names: frozenset[str]) -> None:
        for listener in self.listeners.values():
            listener.close_users(self._security_safeguards.ends(names))

    def _sasl(self, listener: str) -> SaslPorts | None:
        mechanisms = self.listeners[listener].security.sasl
        if not mechanisms:
            return None
        return SaslPorts(mechanisms, self.users.look_up, self.users.secret)

    async def _first_metadata(self) -> None:
        """Wait for a controller to describe the cluster, or for the broker to fail."""
        if self.image.updated:
            return
        described = asyncio.get_running_loop().create_future()

        def changed() -> None:
            if self.image.updated and not described.done():
                described.set_result(None)

        self.image.on_change.append(changed)
        self.failed.add_done_callback(lambda _: described.cancel())
        try:
            await described
        except asyncio.CancelledError:
            if self.failed.done():
                await self.failed
            raise
        finally:
            self.image.on_change.remove(changed)

    # -- while it runs -----------------------------------------------------------------------

    def _registered(self, broker_epoch: int) -> None:
        """Take over a new registration, at start or after the session expired."""
        if broker_epoch > self.fence.broker_epoch:
            self.logs.continuity.registered(broker_epoch)
            logger.info("broker_registered", broker_id=self.broker_id, broker_epoch=broker_epoch)
            self.fence.registered(broker_epoch)
            self.replicas.registered(broker_epoch)
            self.clock_watch.hurry()

    def _claim_data(self, losses: Mapping[str, int]) -> DataClaim:
        continuity = self.logs.continuity
        continuity.heard(losses)
        kept = continuity.claim()
        listed = tuple(KeptPartitions(k.since, k.until, k.partitions) for k in continuity.listed)
        return DataClaim(kept.since, kept.until, DataLoss(kept.loss.value), listed)

    def _settings_changed(self) -> None:
        self.pool.resize(self.live.current.queued_max_bytes)
        self.logs.settings_changed()
        self.replicas.settings_changed()
        self._reporter.hurry()

    def _previous_session(self) -> int | None:
        path = f"{self.config.log_dirs[0]}/{SESSION_FILE}"
        try:
            session = json.loads(self.files.read_bytes(path))["session_id"]
            return session if isinstance(session, int) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _remember_session(self, session_id: int) -> None:
        """Write the session down; otherwise the next start waits for its expiry."""
        try:
            self.files.write_atomic_now(
                f"{self.config.log_dirs[0]}/{SESSION_FILE}",
                json.dumps({"session_id": session_id}).encode(),
            )
        except OSError as exc:
            logger.warning("session_not_remembered", error=exc)

    def _directory_failed(self, directory: LogDir) -> None:
        """Stop the replicas there, and have the controller take their roles from them [D9]; without
        any directory left, the broker stops."""
        self.logs.continuity.note_failed(directory)
        self.replicas.directory_failed(directory)
        if not self._stopping:
            self.tasks.spawn("noting a failure", self._note_failure(directory))

    async def _note_failure(self, directory: LogDir) -> None:
        """Put on record what may be lost with a directory before the broker ends for it, or the
        next life would not know. Without the store that life could not register either."""
        lossy = await self.logs.continuity.directory_failed(directory)
        if lossy and self.lifecycle is not None and self.broker_epoch >= 0:
            await self.lifecycle.report_loss(lossy)
        if not any(d.online for d in self.logs.dirs):
            self._fail(BrokerFailedError("no log directory is usable any more"))
        else:
            self._report_storage_failure()

    def _report_storage_failure(self) -> None:
        """Have the controller ask which replicas here have failed."""
        if self.lifecycle is not None and not self._stopping:
            report = self.lifecycle.report_storage_failure()
            self.tasks.spawn("reporting failed replicas", report)

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._stopping or self.failed.done():
            return
        logger.critical("broker_failed", broker_id=self.broker_id, error=error)
        self.failed.set_exception(error)

    # -- stop --------------------------------------------------------------------------------

    async def stop(self, clean: bool = True) -> None:
        """Stop; may be called after a failed start. ``clean`` moves leaderships away first and
        vouches for the logs with the clean-shutdown file."""
        if self._stopping:
            return
        self._stopping = True
        self.phase = BrokerPhase.STOPPING
        self._reporter.stop()
        if clean and self.config.controlled_shutdown_enable:
            await self._step("controlled shutdown", self._controlled_shutdown())
        await self._step("resigning", self.runner.stop(), timeout_s=STORE_STEP_S)
        if self.lifecycle is not None:
            await self._step("leaving", self.lifecycle.close(), timeout_s=STORE_STEP_S)
        await self._step("giving up the transactions", self.transactions.stop())
        await self._step("giving up the groups", self.coordination.stop())
        for listener in self.listeners.values():
            await self._step("closing a listener", listener.close())
        await self._step("stopping replication", self.replicas.stop())
        self._isr_controller.close()
        self._giving_way.close()
        self._contact.close()
        self._admin_controller.close()
        await self._step("stopping tasks", self.tasks.close())
        vouched, epoch = clean and self.broker_epoch >= 0, self.broker_epoch
        await self._step("closing the logs", self.logs.stop(clean=vouched, broker_epoch=epoch))
        await self._step("closing the session", self._store.close(), timeout_s=STORE_STEP_S)
        self.pool.close()
        self.audit.close()
        self.failed.cancel()
        self.phase = BrokerPhase.STOPPED
        logger.info("broker_stopped", broker_id=self.broker_id, clean=clean)

    async def _step(
        self, name: str, work: Awaitable[None], *, timeout_s: float | None = None
    ) -> None:
        """Carry out a step; its failure must not keep the next from flushing (KAFKA-13315)."""
        try:
            async with asyncio.timeout(timeout_s):
                await work
        except asyncio.CancelledError:
            raise
        except TimeoutError:
            logger.error("stop_step_late", broker_id=self.broker_id, step=name, timeout_s=timeout_s)
        except Exception:
            logger.exception("stop_step_failed", broker_id=self.broker_id, step=name)

    async def _controlled_shutdown(self) -> None:
        """Ask the controller to move our leaderships until none is left or the time is up."""
        if not self.image.updated or self.broker_epoch < 0:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.config.controlled_shutdown_timeout_ms / 1000
        request = ControlledShutdownRequest(self.broker_id, self.broker_epoch)
        remaining, since, pause_s = -1, loop.time(), SHUTDOWN_RETRY_S
        while loop.time() < deadline:
            try:
                response: ControlledShutdownResponse = await self._admin_controller.call(
                    request, timeout_s=deadline - loop.time()
                )
            except TimeoutError:
                break
            if response.error_code:
                logger.warning("controlled_shutdown_refused", error_code=response.error_code)
                return
            if response.remaining == 0:
                return
            if response.remaining != remaining:
                remaining, since = response.remaining, loop.time()
            if (
                set(self.image.brokers) <= {self.broker_id}
                or loop.time() - since > SHUTDOWN_STUCK_S
            ):
                break
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, SHUTDOWN_RETRY_MAX_S)
        alone = set(self.image.brokers) <= {self.broker_id}
        level = logging.INFO if alone else logging.WARNING
        logger.log(level, "controlled_shutdown_incomplete", leaderships=remaining)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _retrieve(future: asyncio.Future[None]) -> None:
    """Take the exception, or asyncio warns of it where nobody looks at ``failed``."""
    if not future.cancelled():
        future.exception()
