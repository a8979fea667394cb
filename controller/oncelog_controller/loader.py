"""The cluster is read here from the store, whole or in part. Nothing is remembered here.

Reads are many and small, so they are in flight together, some hundreds at a time. A node that goes
between listing and reading is one that is no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from oncelog_controller import move_nodes, quota_nodes, security_nodes, user_nodes, znodes
from oncelog_controller.events import ClusterRead, TombstoneRead, TopicRead
from oncelog_controller.move_nodes import PieceRead, PlanRead
from oncelog_controller.security import ClusterSecurity, StoredAcls, StoredQuotas, StoredUser
from oncelog_controller.state import (
    UNKNOWN_PRODUCER_IDS,
    BrokerRegistration,
    DynamicConfig,
    OutOfService,
    PartitionState,
)
from oncelog_controller.store import MetadataStore, NodeExistsError, NoNodeError, Watch
from oncelog_protocol.acls import AclPattern
from oncelog_protocol.messages.broker_states import DRAINING
from oncelog_protocol.quotas import QuotaEntity
from oncelog_protocol.sasl.user import ScramUser
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

READS_MAX = 256
"""Reads in flight together."""

T = TypeVar("T")
R = TypeVar("R")


async def prepare_store(store: MetadataStore) -> None:
    """Make the persistent parents. Safe to repeat and to race."""
    for path in znodes.BASE_PATHS:
        if await store.exists(path) is None:
            await make_node(store, path)


async def make_node(store: MetadataStore, path: str, data: bytes = b"") -> None:
    """Make a node with its parents, unless it is there."""
    try:
        await store.create(path, data, make_parents=True)
    except NodeExistsError:
        pass


async def load_brokers(
    store: MetadataStore, watch: Watch | None = None
) -> tuple[BrokerRegistration, ...]:
    """Return the registrations by id; the watch fires at the next change of the list."""
    names = await store.children(znodes.BROKER_IDS, watch)

    async def one(name: str) -> BrokerRegistration | None:
        try:
            data, stat = await store.get(f"{znodes.BROKER_IDS}/{name}")
            return znodes.decode_broker(int(name), data, stat)
        except NoNodeError:
            return None
        except (znodes.CorruptNodeError, ValueError) as error:
            logger.warning("registration_ignored", broker_id=name, error=error)
            return None

    found = [broker for broker in await _each(names, one) if broker is not None]
    return tuple(sorted(found, key=lambda broker: broker.broker_id))


async def load_cluster(
    store: MetadataStore,
    controller_epoch: int,
    epoch_version: int,
    watch: Watch,
    *,
    secret: bytes | None = None,
) -> ClusterRead:
    """Return everything; ``watch`` fires when a broker comes or goes. With a ``secret`` that is
    also users, ACLs and quotas: it becomes the cluster's secret if there is none yet.

    :raises CorruptNodeError: nobody can say which features are in use.
    """
    brokers = await load_brokers(store, watch)
    names = await store.children(znodes.TOPICS)
    topics = [topic for topic in await _each(names, partial(_topic, store)) if topic is not None]
    graves = await store.children(znodes.DELETED_TOPICS)
    tombstones = [
        grave for grave in await _each(graves, partial(_grave, store)) if grave is not None
    ]
    known = set(names)
    strays: dict[str, int] = {}
    for name in await store.children(znodes.TOPIC_CONFIGS):
        if name not in known:
            stat = await store.exists(znodes.config_path(name))
            if stat is not None:
                strays[name] = stat.version
    producer_ids, producer_ids_version = await _producer_ids(store)
    return ClusterRead(
        controller_epoch,
        epoch_version,
        brokers,
        tuple(topics),
        tuple(tombstones),
        strays,
        producer_ids,
        producer_ids_version,
        await _broker_configs(store),
        None if secret is None else await load_security(store, secret),
        await load_plans(store),
        *await _features(store),
        out_of_service=await _out_of_service(store),
    )


async def load_plans(store: MetadataStore) -> tuple[PlanRead, ...]:
    """Return what is wanted to move, by plan. A plan that cannot be read is left where it is."""
    names = await store.children(znodes.MOVES)
    found = await _each(names, partial(_plan, store))
    return tuple(plan for plan in found if plan is not None)


async def _plan(store: MetadataStore, name: str) -> PlanRead | None:
    path = move_nodes.plan_path(name)
    try:
        data, stat = await store.get(path)
        head, wishes = move_nodes.decode_plan(name, data)
        pieces = [PieceRead(0, stat.version, wishes)]
        for child in sorted(await store.children(path), key=int):
            data, stat = await store.get(f"{path}/{child}")
            wishes = move_nodes.decode_wishes(name, int(child), data)
            pieces.append(PieceRead(int(child), stat.version, wishes))
    except NoNodeError:
        return None
    except (znodes.CorruptNodeError, ValueError) as error:
        logger.error("move_plan_ignored", plan_id=name, error=error)
        return None
    return PlanRead(head, tuple(pieces))


async def _features(store: MetadataStore) -> tuple[frozenset[str], int | None]:
    """Return the features that are in use, and their node's version. :raises CorruptNodeError:"""
    try:
        data, stat = await store.get(znodes.FEATURES)
    except NoNodeError:
        return frozenset(), None
    return frozenset(znodes.decode_features(data)), stat.version


async def _broker_configs(store: MetadataStore) -> dict[int, DynamicConfig]:
    found: dict[int, DynamicConfig] = {}
    for name in await store.children(znodes.BROKER_CONFIGS):
        try:
            data, stat = await store.get(f"{znodes.BROKER_CONFIGS}/{name}")
            broker_id, overrides = znodes.decode_broker_config(name, data)
        except NoNodeError:
            continue
        except znodes.CorruptNodeError as error:
            logger.error("broker_settings_corrupt", broker_name=name, error=error)
            continue
        found[broker_id] = DynamicConfig(overrides, stat.version)
    return dict(sorted(found.items()))


async def _out_of_service(store: MetadataStore) -> dict[int, OutOfService]:
    """Return what was made of brokers by their ids. One whose node cannot be read is draining: that
    takes nothing from anybody."""
    found: dict[int, OutOfService] = {}
    for name in await store.children(znodes.BROKER_STATES):
        path = f"{znodes.BROKER_STATES}/{name}"
        try:
            broker_id = znodes.broker_id_of(path)
            data, stat = await store.get(path)
        except NoNodeError:
            continue
        except znodes.CorruptNodeError as error:
            logger.error("broker_state_unreadable", path=path, error=error)
            continue
        try:
            found[broker_id] = znodes.decode_broker_state(path, data, stat)
        except znodes.CorruptNodeError as error:
            logger.error("broker_state_unreadable", path=path, error=error)
            found[broker_id] = OutOfService(DRAINING, 0, "", stat.version)
    return dict(sorted(found.items()))


async def load_users(store: MetadataStore) -> ClusterSecurity | None:
    """Return users, secret and version as the store has them, and no ACLs; None while no controller
    has made them. Nothing is written."""
    try:
        _, stat = await store.get(security_nodes.VERSION)
        secret = await _secret(store)
        if secret is None:
            return None
        names = await store.children(user_nodes.USERS)
    except NoNodeError:
        return None
    paths = [f"{user_nodes.USERS}/{name}" for name in names]
    found = [each for each in await _each(paths, partial(_user, store)) if each is not None]
    users = {each.user.name: each for each in found}
    return ClusterSecurity(stat.version, users=users, secret=secret)


async def load_security(store: MetadataStore, secret: bytes | None = None) -> ClusterSecurity:
    """Return what brokers decide by, also quotas, and with a ``secret`` the users.

    The version is read first. What is changed meanwhile may be read already: the change will list
    all of it once more.
    """
    for path in (*security_nodes.ACL_PARENTS, *quota_nodes.QUOTA_PARENTS):
        await make_node(store, path)
    await make_node(store, security_nodes.VERSION, security_nodes.encode_version(0))
    _, stat = await store.get(security_nodes.VERSION)
    read = ClusterSecurity(stat.version)
    if secret is not None:
        await make_node(store, user_nodes.USERS)
        await _make_secret(store, secret)
        read = await load_users(store) or read
    for parent in security_nodes.ACL_PARENTS:
        paths = [f"{parent}/{name}" for name in await store.children(parent)]
        found = await _each(paths, partial(_acls, store))
        read.acls.update(each for each in found if each is not None)
    for parent in quota_nodes.QUOTA_PARENTS:
        paths = [f"{parent}/{name}" for name in await store.children(parent)]
        quotas = await _each(paths, partial(_quotas, store))
        read.quotas.update(each for each in quotas if each is not None)
    return read


async def _make_secret(store: MetadataStore, secret: bytes) -> None:
    """Have a secret that can be read. Nothing is lost with one that cannot: names without a user
    get other salts."""
    data = user_nodes.encode_secret(secret)
    await make_node(store, user_nodes.SECRET, data)
    if await _secret(store) is None:
        await store.set(user_nodes.SECRET, data)


async def _secret(store: MetadataStore) -> bytes | None:
    data, _ = await store.get(user_nodes.SECRET)
    try:
        return user_nodes.decode_secret(data)
    except znodes.CorruptNodeError as error:
        logger.error("secret_unreadable", error=error)
        return None


async def _user(store: MetadataStore, path: str) -> StoredUser | None:
    try:
        name = user_nodes.user_of(path)
        data, stat = await store.get(path)
    except NoNodeError:
        return None
    except znodes.CorruptNodeError as error:
        logger.error("user_unreadable", path=path, error=error)
        return None
    try:
        user = user_nodes.decode_user(path, data)
    except znodes.CorruptNodeError as error:
        logger.error("user_unreadable", path=path, error=error)
        user = ScramUser(name, 0, ())
    return StoredUser(user, stat.version)


async def _acls(store: MetadataStore, path: str) -> tuple[AclPattern, StoredAcls] | None:
    try:
        data, stat = await store.get(path)
        pattern = security_nodes.pattern_of(path)
    except NoNodeError:
        return None
    except znodes.CorruptNodeError as error:
        logger.error("acls_unreadable", path=path, error=error)
        return None
    try:
        entries = security_nodes.decode_acls(path, data)
    except znodes.CorruptNodeError as error:
        logger.error("acls_unreadable", path=path, error=error)
        entries = security_nodes.closed(pattern)
    return pattern, StoredAcls(entries, stat.version)


async def _quotas(store: MetadataStore, path: str) -> tuple[QuotaEntity, StoredQuotas] | None:
    """Return an entity's quotas. What cannot be read bounds nobody, and may be written over."""
    try:
        entity = quota_nodes.entity_of(path)
        data, stat = await store.get(path)
    except NoNodeError:
        return None
    except znodes.CorruptNodeError as error:
        logger.error("quotas_unreadable", path=path, error=error)
        return None
    try:
        values = quota_nodes.decode_quotas(path, data)
    except znodes.CorruptNodeError as error:
        logger.error("quotas_unreadable", path=path, error=error)
        values = {}
    return entity, StoredQuotas(values, stat.version)


async def _producer_ids(store: MetadataStore) -> tuple[int, int]:
    data, stat = await store.get(znodes.PRODUCER_IDS)
    try:
        return znodes.decode_producer_ids(data), stat.version
    except znodes.CorruptNodeError as error:
        logger.error("producer_id_blocks_unreadable", error=error)
        return UNKNOWN_PRODUCER_IDS, stat.version


async def _topic(store: MetadataStore, name: str) -> TopicRead | None:
    try:
        data, stat = await store.get(znodes.topic_path(name))
        topic_id, assignment = znodes.decode_topic(name, data)
        overrides, config_version = await _config(store, name)
        states = await _each(range(len(assignment)), partial(_state, store, name))
    except NoNodeError:
        return None
    except znodes.CorruptNodeError as error:
        logger.error("topic_ignored", topic=name, error=error)
        return None
    bare = await _bare(store, name, states) if None in states else frozenset[int]()
    return TopicRead(
        name, topic_id, assignment, stat.version, overrides, config_version, states, bare
    )


async def _config(store: MetadataStore, name: str) -> tuple[dict[str, str], int | None]:
    try:
        data, stat = await store.get(znodes.config_path(name))
    except NoNodeError:
        return {}, None
    try:
        return znodes.decode_config(name, data), stat.version
    except znodes.CorruptNodeError as error:
        logger.error("topic_config_unreadable", topic=name, error=error)
        return {}, stat.version


async def _state(store: MetadataStore, name: str, index: int) -> PartitionState | None:
    try:
        data, stat = await store.get(znodes.state_path(name, index))
    except NoNodeError:
        return None
    return znodes.decode_state(name, index, data, stat)


async def _bare(
    store: MetadataStore, name: str, states: Sequence[PartitionState | None]
) -> frozenset[int]:
    """Return the partitions whose node is there, but not its state."""
    try:
        present = set(await store.children(znodes.partitions_path(name)))
    except NoNodeError:
        return frozenset()
    return frozenset(i for i, state in enumerate(states) if state is None and str(i) in present)


async def _grave(store: MetadataStore, name: str) -> TombstoneRead | None:
    try:
        data, _ = await store.get(f"{znodes.DELETED_TOPICS}/{name}")
        return TombstoneRead(*znodes.decode_tombstone(name, data))
    except NoNodeError:
        return None
    except znodes.CorruptNodeError as error:
        logger.error("deletion_ignored", topic=name, error=error)
        return None


async def _each(items: Sequence[T], read: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do ``read`` for every item, in order, with up to READS_MAX in flight."""
    results: list[R] = []
    for start in range(0, len(items), READS_MAX):
        results += await asyncio.gather(*(read(item) for item in items[start : start + READS_MAX]))
    return results
