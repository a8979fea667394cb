"""Requests for topics are checked here for what they may ask. Pure checks that raise the error to
answer with.

Every refusal happens before anything is written, and says what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oncelog_controller.config import ControllerConfig
from oncelog_controller.state import ClusterState
from oncelog_protocol import limits
from oncelog_protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    InvalidTopicError,
    TopicAlreadyExistsError,
)
from oncelog_protocol.messages.admin import ConfigEntry, CreatableTopic
from oncelog_protocol.topic_config import TopicConfig, normalise_key, parse_topic_config
from oncelog_protocol.types import INTERNAL_TOPICS
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

USE_DEFAULT = -1


def check_name(name: str, *, internal: bool) -> None:
    """Require a legal name, and not one of the cluster's own unless the cluster asks.

    :raises InvalidTopicError:
    """
    if not limits.is_legal_topic(name):
        raise InvalidTopicError(
            f"{name[:60]!r} is not a legal topic name: 1 to {limits.TOPIC_CHARS_MAX} letters, "
            "digits, '.', '_' or '-', and not '.' or '..'"
        )
    if name in INTERNAL_TOPICS and not internal:
        raise InvalidTopicError(f"{name} is the cluster's own topic")


def check_new_name(name: str, existing: Iterable[str], *, internal: bool) -> None:
    """Check as :func:`check_name` does, and refuse a name that is taken, or the same as another but
    for '.' and '_', which metrics cannot tell apart.

    :raises InvalidTopicError, TopicAlreadyExistsError:
    """
    check_name(name, internal=internal)
    flat = name.replace(".", "_")
    for other in existing:
        if other == name:
            raise TopicAlreadyExistsError(f"topic {name!r} exists")
        if other.replace(".", "_") == flat:
            raise InvalidTopicError(
                f"topic {name!r} collides with topic {other!r}: '.' and '_' are the same"
            )


def check_once(names: Sequence[str]) -> set[str]:
    """Return the names that occur more than once; each such item is refused with
    INVALID_REQUEST."""
    seen: set[str] = set()
    twice: set[str] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice


def refuse_twice(name: str, twice: set[str]) -> None:
    """:raises InvalidRequestError: when the request names ``name`` more than once."""
    if name in twice:
        raise InvalidRequestError(f"{name} is named more than once in the request")


def sizes(new: CreatableTopic, config: ControllerConfig, brokers: int) -> tuple[int, int]:
    """Return (partition count, replication factor) with defaults filled in; both follow from an
    assignment where there is one.

    :raises InvalidPartitionsError, InvalidReplicationFactorError, InvalidRequestError:
    """
    if new.assignment is not None:
        if new.partition_count != USE_DEFAULT or new.replication_factor != USE_DEFAULT:
            raise InvalidRequestError(
                "an assignment excludes partition_count and replication_factor; both must be -1"
            )
        check_partition_count(len(new.assignment))
        return len(new.assignment), len(new.assignment[0])
    count = config.num_partitions if new.partition_count == USE_DEFAULT else new.partition_count
    check_partition_count(count)
    factor = new.replication_factor
    if factor == USE_DEFAULT:
        factor = config.default_replication_factor
    if not 1 <= factor <= brokers:
        raise InvalidReplicationFactorError(
            f"replication factor {factor}: 1 to {brokers}, the number of live brokers, is possible"
        )
    return count, factor


def check_partition_count(count: int) -> None:
    """:raises InvalidPartitionsError: out of bounds."""
    if not 1 <= count <= limits.PARTITION_COUNT_MAX:
        raise InvalidPartitionsError(
            f"{count} partitions: 1 to {limits.PARTITION_COUNT_MAX} are possible"
        )


def check_assignment(
    assignment: Sequence[Sequence[int]],
    cluster: ClusterState,
    *,
    replication_factor: int | None = None,
) -> None:
    """Every partition has the same number of different, registered brokers.

    :raises InvalidReplicaAssignmentError:
    """
    for index, replicas in enumerate(assignment):
        if not replicas:
            raise InvalidReplicaAssignmentError(f"entry {index} of the assignment is empty")
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(f"entry {index} repeats a broker: {list(replicas)}")
        unknown = [broker_id for broker_id in replicas if broker_id not in cluster.brokers]
        if unknown:
            raise InvalidReplicaAssignmentError(f"entry {index} names unknown brokers {unknown}")
        retiring = [broker_id for broker_id in replicas if cluster.retires(broker_id)]
        if retiring:
            raise InvalidReplicaAssignmentError(
                f"entry {index} names brokers {retiring}, which are being decommissioned"
            )
        wanted = len(assignment[0]) if replication_factor is None else replication_factor
        if len(replicas) != wanted:
            raise InvalidReplicaAssignmentError(
                f"entry {index} has {len(replicas)} replicas, not {wanted}"
            )


def altered(overrides: Mapping[str, str], entries: Sequence[ConfigEntry]) -> dict[str, str]:
    """Return ``overrides`` with ``entries`` applied, keys in their own spelling; None removes.

    :raises InvalidConfigError: an unknown key, a repeated one, or a value with control characters.
    """
    result = dict(overrides)
    seen: set[str] = set()
    for entry in entries:
        key = normalise_key(entry.key)
        if key in seen:
            raise InvalidConfigError(f"{key} is named more than once")
        seen.add(key)
        if entry.value is None:
            result.pop(key, None)
        elif not entry.value.isprintable():
            raise InvalidConfigError(f"{key}: the value holds control characters")
        else:
            result[key] = entry.value
    return result


def check_settings(
    overrides: Mapping[str, str], defaults: Mapping[str, str], replication_factor: int
) -> TopicConfig:
    """Return the typed settings. An own min_insync_replicas above the replication factor would
    refuse every write, and is refused here; one that is inherited is not.

    :raises InvalidConfigError:
    """
    settings = parse_topic_config(overrides, defaults)
    if "min_insync_replicas" in overrides and settings.min_insync_replicas > replication_factor:
        raise InvalidConfigError(
            f"min_insync_replicas={settings.min_insync_replicas} is above the replication factor "
            f"{replication_factor}: no write with acks=all could succeed"
        )
    return settings


def settled(topic: str, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> TopicConfig:
    """Return the typed settings of a topic that exists; own ones that are not valid, as a newer
    release may have written them, are left out."""
    try:
        return parse_topic_config(overrides, defaults)
    except InvalidConfigError as error:
        logger.warning("topic_config_ignored", topic=topic, error=error)
        return parse_topic_config({}, defaults)
