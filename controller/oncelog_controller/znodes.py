"""This module knows the paths of the store and what their nodes hold: readable JSON. Pure.

Every value has ``"version": 1``, so that a later release can tell what it reads. Nodes stay far
below ZooKeeper's 1 MB: each partition's state is a node of its own [Z17].

=========================================  =======================================================
/cluster/id                                the cluster's id, written once
/cluster/features                          what is in use that an older release would misread
                                           (``features``); no node: nothing
/controller                                ephemeral: who is controller
/controller_epoch                          its *version* is checked by every write
/brokers/ids/N                             ephemeral: listeners, rack, where its metrics are, what
                                           is left of its data, the features that it knows, and
                                           those that it wants; its czxid is the broker epoch
/brokers/states/N                          broker N is out of service: its state, who wanted it, and
                                           since when; no node: it is active
/brokers/clocks/N                          ephemeral: what broker N's wall clock said lately
/brokers/topics/T                          topic id, and replicas by partition as they were made
/brokers/topics/T/partitions/P/state       leader, leader epoch, ISR, ELR, replicas, how they
                                           move; changed by version
/config/topics/T                           overrides; the node's version is the config version
/config/brokers/N, /config/brokers/<default>
                                           settings of one broker, or of all, that hold while they
                                           run (KIP-226)
/producer_ids                              the first producer id that no broker was given
/admin/delete_topics/T.ID                  a deleted topic whose replicas are not all gone yet
/admin/moves/ID, /admin/moves/ID/N         what somebody wants to move (``move_nodes``)
/admin/storage_failures/N                  broker N lost a log directory; gone when it was heard
/accusations/N/M                           ephemeral: broker M takes this life of broker N for dead;
                                           gone when N has objected
/admin/lossy_directories/N                 which directories of broker N have failed, and may have
                                           lost what counted there unsynced; under which epoch
/security/...                              ACLs, and the version of all that is below, where
                                           brokers decide by ACLs (``security_nodes``), and
                                           quotas (``quota_nodes``); users
                                           and the cluster's secret, where somebody may
                                           authenticate (``user_nodes``)
=========================================  =======================================================
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from oncelog_controller.state import (
    BrokerRegistration,
    DataClaim,
    DataLoss,
    KeptPartitions,
    OutOfService,
    PartitionState,
    Placement,
)
from oncelog_controller.store import NodeStat
from oncelog_protocol.errors import OncelogError
from oncelog_protocol.messages.broker_states import STATES
from oncelog_protocol.messages.metadata import ACTIVE, ListenerAddress
from oncelog_protocol.messages.replication import BROKER_DEFAULT
from oncelog_protocol.types import NO_EPOCH

CLUSTER_ID = "/cluster/id"
FEATURES = "/cluster/features"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
BROKER_STATES = "/brokers/states"
CLOCKS = "/brokers/clocks"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
BROKER_CONFIGS = "/config/brokers"
DEFAULT_NAME = "<default>"
BROKER_ID_MAX = 2**31 - 1
DELETED_TOPICS = "/admin/delete_topics"
MOVES = "/admin/moves"
STORAGE_FAILURES = "/admin/storage_failures"
LOSSY_DIRECTORIES = "/admin/lossy_directories"
PRODUCER_IDS = "/producer_ids"
ACCUSATIONS = "/accusations"
BASE_PATHS = (
    "/cluster",
    BROKER_IDS,
    BROKER_STATES,
    CLOCKS,
    TOPICS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    DELETED_TOPICS,
    MOVES,
    STORAGE_FAILURES,
    LOSSY_DIRECTORIES,
    PRODUCER_IDS,
    ACCUSATIONS,
)
"""Persistent parents, made before anything else."""

FORMAT_VERSION = 1


class CorruptNodeError(OncelogError):
    """A node does not hold what its path promises; the error names the path."""


def broker_path(broker_id: int) -> str:
    """Return the path of a broker's registration."""
    return f"{BROKER_IDS}/{broker_id}"


def broker_state_path(broker_id: int) -> str:
    """Return the path of what was made of a broker's service."""
    return f"{BROKER_STATES}/{broker_id}"


def clock_path(broker_id: int) -> str:
    """Return the path of what a broker's wall clock says."""
    return f"{CLOCKS}/{broker_id}"


def topic_path(topic: str) -> str:
    """Return the path of a topic's assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """Return the parent of a topic's partitions."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    """Return the parent of one partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    """Return the path of one partition's state."""
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(topic: str) -> str:
    """Return the path of a topic's overrides."""
    return f"{TOPIC_CONFIGS}/{topic}"


def broker_config_path(broker_id: int) -> str:
    """Return the path of what is set for a broker while it runs; -1 for all of them."""
    name = DEFAULT_NAME if broker_id == BROKER_DEFAULT else str(broker_id)
    return f"{BROKER_CONFIGS}/{name}"


def tombstone_path(topic: str, topic_id: str) -> str:
    """Return the path of a deletion; the id keeps two deletions of one name apart."""
    return f"{DELETED_TOPICS}/{topic}.{topic_id}"


def storage_failure_path(broker_id: int) -> str:
    """Return the path of a broker's notice that a log directory failed."""
    return f"{STORAGE_FAILURES}/{broker_id}"


def accusations_path(broker_id: int) -> str:
    """Return the parent of what is held against a broker."""
    return f"{ACCUSATIONS}/{broker_id}"


def accusation_path(broker_id: int, accuser_id: int) -> str:
    """Return the path of what one broker holds against another."""
    return f"{ACCUSATIONS}/{broker_id}/{accuser_id}"


def encode_accusation(broker_epoch: int) -> bytes:
    """Encode /accusations/N/M: the life that is meant."""
    return dump({"broker_epoch": broker_epoch})


def decode_accusation(path: str, data: bytes) -> int:
    """Return the broker epoch that is meant. :raises CorruptNodeError:"""
    return _int(load(path, data), "broker_epoch", path)


def lossy_directories_path(broker_id: int) -> str:
    """Return the path of what a broker says of its directories that failed."""
    return f"{LOSSY_DIRECTORIES}/{broker_id}"


def encode_lossy(epochs: Mapping[str, int]) -> bytes:
    """Encode /admin/lossy_directories/N: by directory id, the broker epoch under which it
    failed."""
    return dump({"directories": dict(epochs)})


def decode_lossy(broker_id: int, data: bytes) -> dict[str, int]:
    """Return broker epochs by directory id. :raises CorruptNodeError:"""
    path = lossy_directories_path(broker_id)
    directories = load(path, data).get("directories")
    if not isinstance(directories, dict):
        raise CorruptNodeError(f"{path}: directories are not there")
    return {name: _int(directories, name, path) for name in directories}


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode /cluster/id."""
    return dump({"id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    """Return the id. :raises CorruptNodeError:"""
    return _text(load(CLUSTER_ID, data), "id", CLUSTER_ID)


def encode_features(names: Collection[str]) -> bytes:
    """Encode /cluster/features."""
    return dump({"features": _features(names)})


def _features(names: Collection[str]) -> dict[str, int]:
    """Return features with their versions: there is one of each so far."""
    return dict.fromkeys(sorted(names), 1)


def decode_features(data: bytes) -> list[str]:
    """Return the names of the features that are in use, sorted. :raises CorruptNodeError:"""
    features = load(FEATURES, data).get("features")
    if not isinstance(features, dict):
        raise CorruptNodeError(f"{FEATURES}: features are not there")
    return sorted(features)


def encode_broker_state(taken: OutOfService) -> bytes:
    """Encode /brokers/states/N; the version is the node's own."""
    return dump({"state": taken.state, "since_ms": taken.since_ms, "by": taken.by})


def decode_broker_state(path: str, data: bytes, stat: NodeStat) -> OutOfService:
    """Return what was made of a broker. :raises CorruptNodeError:"""
    value = load(path, data)
    state = _text(value, "state", path)
    if state not in STATES or state == ACTIVE:
        raise CorruptNodeError(f"{path}: a broker cannot be {state!r}")
    return OutOfService(
        state, _int(value, "since_ms", path), _text(value, "by", path), stat.version
    )


def broker_id_of(path: str) -> int:
    """Return the broker that a node is of, by the last part of its path.

    :raises CorruptNodeError: it is no broker id.
    """
    name = path.rpartition("/")[2]
    if not (name.isascii() and name.isdecimal()) or not int(name[:11]) <= BROKER_ID_MAX:
        raise CorruptNodeError(f"{path}: not a broker id")
    return int(name)


def encode_clock(now_ms: int) -> bytes:
    """Encode /brokers/clocks/N, in milliseconds since 1970."""
    return dump({"now_ms": now_ms})


def decode_clock(name: str, data: bytes) -> int:
    """Return milliseconds since 1970. :raises CorruptNodeError:"""
    path = f"{CLOCKS}/{name}"
    return _int(load(path, data), "now_ms", path)


def encode_controller(broker_id: int, controller_epoch: int) -> bytes:
    """Encode /controller."""
    return dump({"broker_id": broker_id, "controller_epoch": controller_epoch})


def decode_controller(data: bytes) -> tuple[int, int]:
    """Return (broker id, controller epoch). :raises CorruptNodeError:"""
    value = load(CONTROLLER, data)
    return _int(value, "broker_id", CONTROLLER), _int(value, "controller_epoch", CONTROLLER)


def encode_producer_ids(next_producer_id: int) -> bytes:
    """Encode /producer_ids."""
    return dump({"next_producer_id": next_producer_id})


def decode_producer_ids(data: bytes) -> int:
    """Return the first id that was not given; 0 of the empty node that a new cluster has.

    :raises CorruptNodeError: ids might be given twice if that were guessed.
    """
    if not data:
        return 0
    return _int(load(PRODUCER_IDS, data), "next_producer_id", PRODUCER_IDS)


def encode_epoch(controller_epoch: int) -> bytes:
    """Encode /controller_epoch."""
    return dump({"controller_epoch": controller_epoch})


def decode_epoch(data: bytes) -> int:
    """Return the epoch. :raises CorruptNodeError:"""
    return _int(load(CONTROLLER_EPOCH, data), "controller_epoch", CONTROLLER_EPOCH)


def encode_broker(
    listeners: Sequence[ListenerAddress],
    rack: str | None,
    data: DataClaim | None = None,
    http: str = "",
    features: Collection[str] = (),
    wants: Collection[str] = (),
) -> bytes:
    """Encode /brokers/ids/N; ``http`` is ``host:port`` of the broker's metrics, "" without;
    ``features`` are those that its release knows, and ``wants`` those that it wants to use."""
    addresses = [{"name": a.name, "host": a.host, "port": a.port} for a in listeners]
    claim = DataClaim() if data is None else data
    value: dict[str, Any] = {
        "listeners": addresses,
        "rack": rack,
        "http": http,
        "data_since": claim.since,
        "data_until": claim.until,
        "data_loss": claim.loss.value,
        "features": _features(features),
    }
    if wants:
        value["wants"] = sorted(wants)
    if claim.listed:
        value["data_listed"] = [
            {
                "since": listed.since,
                "until": listed.until,
                "partitions": {
                    name: sorted(numbers) for name, numbers in listed.partitions.items()
                },
            }
            for listed in claim.listed
        ]
    return dump(value)


def decode_broker(broker_id: int, data: bytes, stat: NodeStat) -> BrokerRegistration:
    """Return a registration with its epoch. One of an older release says nothing of its data, and
    is not believed to have kept any; nor does it say where its metrics are, or which features it
    knows or wants. :raises CorruptNodeError:"""
    path = broker_path(broker_id)
    value = load(path, data)
    rack = value.get("rack")
    listeners = value.get("listeners")
    if not isinstance(listeners, list) or not (rack is None or isinstance(rack, str)):
        raise CorruptNodeError(f"{path}: listeners or rack are not there")
    addresses = []
    for entry in listeners:
        if not isinstance(entry, dict):
            raise CorruptNodeError(f"{path}: a listener is not an object")
        addresses.append(
            ListenerAddress(
                _text(entry, "name", path), _text(entry, "host", path), _int(entry, "port", path)
            )
        )
    claim, http = _data_claim(value, path), _text({"http": "", **value}, "http", path)
    features = value.get("features", {})
    if not isinstance(features, dict):
        raise CorruptNodeError(f"{path}: features is not an object")
    wants = value.get("wants", [])
    if not isinstance(wants, list) or not all(isinstance(name, str) for name in wants):
        raise CorruptNodeError(f"{path}: wants is not a list of names")
    return BrokerRegistration(
        broker_id,
        stat.czxid,
        tuple(addresses),
        rack,
        claim,
        http,
        frozenset(features),
        frozenset(wants),
    )


def _data_claim(value: dict[str, Any], path: str) -> DataClaim:
    since, until = value.get("data_since"), value.get("data_until")
    if not all(epoch is None or type(epoch) is int for epoch in (since, until)):
        raise CorruptNodeError(f"{path}: data_since or data_until is not a broker epoch")
    try:
        loss = DataLoss(value.get("data_loss", DataLoss.ALL.value))
    except ValueError as exc:
        raise CorruptNodeError(f"{path}: {exc}") from None
    return DataClaim(since, until, loss, _listed(value, path))


def _listed(value: dict[str, Any], path: str) -> tuple[KeptPartitions, ...]:
    try:
        found = []
        for entry in value.get("data_listed", []):
            since, until, partitions = entry["since"], entry["until"], entry["partitions"]
            numbers = [number for each in partitions.values() for number in each]
            epochs = [since] if until is None else [since, until]
            if not all(type(number) is int for number in (*epochs, *numbers)):
                raise ValueError("a number is not one")
            named = {str(name): frozenset(each) for name, each in partitions.items()}
            found.append(KeptPartitions(since, until, named))
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise CorruptNodeError(f"{path}: data_listed: {exc!r}") from None
    return tuple(found)


def encode_topic(topic_id: str, assignment: Sequence[Sequence[int]]) -> bytes:
    """Encode /brokers/topics/T."""
    return dump({"topic_id": topic_id, "replicas": [list(replicas) for replicas in assignment]})


def decode_topic(topic: str, data: bytes) -> tuple[str, list[list[int]]]:
    """Return (topic id, replicas by partition). :raises CorruptNodeError:"""
    path = topic_path(topic)
    value = load(path, data)
    return _text(value, "topic_id", path), _assignment(value, path)


def encode_state(state: PartitionState) -> bytes:
    """Encode .../state; the version is the node's own. What is said of a move is left out while
    there is none."""
    value: dict[str, Any] = {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "controller_epoch": state.controller_epoch,
        "elr": list(state.elr),
        "last_known_elr": list(state.last_known_elr),
        "broker_epochs": {str(member): epoch for member, epoch in state.admitted},
        "unclean_epoch": state.unclean_epoch,
    }
    placement = state.placement
    if placement is not None:
        value["replicas"] = list(placement.replicas)
        moving: dict[str, Any] = {
            "origin": list(placement.origin),
            "target": list(placement.target),
            "leaving": list(placement.leaving),
            "move": placement.move,
        }
        value |= {key: each for key, each in moving.items() if each}
    return dump(value)


def decode_state(topic: str, partition: int, data: bytes, stat: NodeStat) -> PartitionState:
    """Return a partition's state. One of an older release has no broker epochs: its members were
    complete when it was written, at the node's mzxid; nor does it name replicas. :raises
    CorruptNodeError:"""
    path = state_path(topic, partition)
    value = load(path, data)
    isr = tuple(_ints(value.get("isr"), path))
    epochs = value.get("broker_epochs", {str(member): stat.mzxid for member in isr})
    if not isinstance(epochs, dict) or not all(
        key.isdecimal() and len(key) <= 10 and type(epoch) is int for key, epoch in epochs.items()
    ):
        raise CorruptNodeError(f"{path}: broker_epochs is not an object of epochs by broker id")
    return PartitionState(
        leader=_int(value, "leader", path),
        leader_epoch=_int(value, "leader_epoch", path),
        isr=isr,
        controller_epoch=_int(value, "controller_epoch", path),
        version=stat.version,
        elr=tuple(_ints(value.get("elr", []), path)),
        last_known_elr=tuple(_ints(value.get("last_known_elr", []), path)),
        admitted=tuple(sorted((int(key), epoch) for key, epoch in epochs.items())),
        unclean_epoch=_int({"unclean_epoch": NO_EPOCH, **value}, "unclean_epoch", path),
        placement=_placement(value, path),
    )


def _placement(value: dict[str, Any], path: str) -> Placement | None:
    if "replicas" not in value:
        return None
    lists = ("replicas", "origin", "target", "leaving")
    replicas, origin, target, leaving = (tuple(_ints(value.get(key, []), path)) for key in lists)
    return Placement(replicas, origin, target, leaving, _text({"move": "", **value}, "move", path))


def encode_config(overrides: Mapping[str, str]) -> bytes:
    """Encode /config/topics/T or /config/brokers/N."""
    return dump({"config": {key: overrides[key] for key in sorted(overrides)}})


def decode_config(topic: str, data: bytes) -> dict[str, str]:
    """Return overrides by key. :raises CorruptNodeError:"""
    return _config(config_path(topic), data)


def decode_broker_config(name: str, data: bytes) -> tuple[int, dict[str, str]]:
    """Return (broker id, settings by key) of a node of /config/brokers. :raises
    CorruptNodeError:"""
    path = f"{BROKER_CONFIGS}/{name}"
    overrides = _config(path, data)
    if name == DEFAULT_NAME:
        return BROKER_DEFAULT, overrides
    return broker_id_of(path), overrides


def _config(path: str, data: bytes) -> dict[str, str]:
    config = load(path, data).get("config")
    if not isinstance(config, dict) or not all(
        isinstance(key, str) and isinstance(text, str) for key, text in config.items()
    ):
        raise CorruptNodeError(f"{path}: config is not an object of texts")
    return dict(config)


def encode_tombstone(topic: str, topic_id: str, assignment: Sequence[Sequence[int]]) -> bytes:
    """Encode /admin/delete_topics/T.ID."""
    replicas = [list(each) for each in assignment]
    return dump({"topic": topic, "topic_id": topic_id, "replicas": replicas})


def decode_tombstone(name: str, data: bytes) -> tuple[str, str, list[list[int]]]:
    """Return (topic, topic id, replicas by partition). :raises CorruptNodeError:"""
    path = f"{DELETED_TOPICS}/{name}"
    value = load(path, data)
    return _text(value, "topic", path), _text(value, "topic_id", path), _assignment(value, path)


def dump(value: dict[str, Any]) -> bytes:
    """Encode a node, with the version of its format."""
    return json.dumps({"version": FORMAT_VERSION, **value}, separators=(",", ":")).encode()


def load(path: str, data: bytes) -> dict[str, Any]:
    """Return what a node holds. :raises CorruptNodeError:"""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise CorruptNodeError(f"{path}: not JSON: {exc}") from None
    if not isinstance(value, dict):
        raise CorruptNodeError(f"{path}: not an object")
    if value.get("version") != FORMAT_VERSION:
        raise CorruptNodeError(
            f"{path}: format {value.get('version')!r}, known is {FORMAT_VERSION}"
        )
    return value


def _int(value: dict[str, Any], key: str, path: str) -> int:
    number = value.get(key)
    if type(number) is not int:
        raise CorruptNodeError(f"{path}: {key} is not an integer")
    return number


def _text(value: dict[str, Any], key: str, path: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise CorruptNodeError(f"{path}: {key} is not a text")
    return text


def _ints(value: Any, path: str) -> list[int]:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise CorruptNodeError(f"{path}: a list of broker ids does not hold integers")
    return value


def _assignment(value: dict[str, Any], path: str) -> list[list[int]]:
    replicas = value.get("replicas")
    if not isinstance(replicas, list):
        raise CorruptNodeError(f"{path}: replicas is not a list")
    return [_ints(each, path) for each in replicas]
