"""The coordinators' internal topics are made on first use, by whichever broker is asked first.

Rules:

- the controller is asked, once at a time per topic; who needs it meanwhile is told to come again;
- as many replicas as the settings say. While fewer brokers are up there is no topic, and who needs
  it is told why and to come again: one with fewer replicas would stay so when the others come, and
  lose what groups and transactions have committed with its only broker. min.insync.replicas is
  lowered to the number of replicas, since nothing could ever be written otherwise;
- how many partitions a topic has is what the cluster's metadata says, never the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from oncelog_broker.coordinator.engine import CoordinatorEngine
from oncelog_broker.server.controller_channel import ControllerChannel
from oncelog_broker.server.metadata_image import MetadataImage
from oncelog_broker.server.topic_creation import create_topic
from oncelog_protocol import limits
from oncelog_protocol.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from oncelog_protocol.errors import CoordinatorNotAvailableError, OncelogError
from oncelog_protocol.messages.admin import ConfigEntry, CreatableTopic
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """An internal topic is to be like this."""

    topic: str
    partition_count: int
    replication_factor: int
    setting: str
    """This setting of the broker says so."""
    configs: dict[str, str] = field(default_factory=dict)


def group_topic(partition_count: int, replication_factor: int, segment_bytes: int) -> InternalTopic:
    """Return the topic in which groups and their offsets are kept, by Kafka's settings but for the
    size of a batch: one must hold a group of ``group_max_size`` members."""
    configs = _configs(segment_bytes)
    setting = "offsets_topic_replication_factor"
    return InternalTopic(GROUP_TOPIC, partition_count, replication_factor, setting, configs)


def transaction_topic(
    partition_count: int, replication_factor: int, segment_bytes: int
) -> InternalTopic:
    """Return the topic in which transactional ids are kept. One batch must hold a shared
    transaction of many writers. A decision must not be undone by an election."""
    configs = {**_configs(segment_bytes), "unclean_leader_election_enable": "false"}
    setting = "transaction_state_log_replication_factor"
    return InternalTopic(TRANSACTION_TOPIC, partition_count, replication_factor, setting, configs)


def _configs(segment_bytes: int) -> dict[str, str]:
    return {
        "cleanup_policy": "compact",
        "compression_type": "producer",
        "max_message_bytes": str(limits.BATCH_BYTES_MAX),
        "segment_bytes": str(segment_bytes),
    }


class InternalTopics:
    """It knows the internal topics and asks the controller for those that are not there.

    :param min_insync_replicas: what the broker's settings say now for topics that do not say.
    """

    def __init__(
        self,
        topics: Iterable[InternalTopic],
        *,
        image: MetadataImage,
        channel: ControllerChannel,
        tasks: Tasks,
        min_insync_replicas: Callable[[], int],
    ) -> None:
        self._wanted = {each.topic: each for each in topics}
        self._image = image
        self._channel = channel
        self._tasks = tasks
        self._min_insync_replicas = min_insync_replicas
        self._pending: set[str] = set()

    def partition_count(self, topic: str) -> int | None:
        """Return how many partitions ``topic`` has; None while it is not there, or not as a
        whole."""
        known = self._image.topics.get(topic)
        if known is None or not self._image.updated:
            return None
        count = len(known.partitions)
        # Numbers begin at 0: a gap means that the metadata are still on their way.
        return count if max(known.partitions) == count - 1 else None

    def follow(self, engine: CoordinatorEngine[Any]) -> Callable[[], None]:
        """Keep ``engine`` informed of its topic's partition count; return what ends that."""

        def changed() -> None:
            engine.set_partition_count(self.partition_count(engine.topic))

        self._image.on_change.append(changed)
        changed()
        return lambda: self._image.on_change.remove(changed)

    def ensure(self, topic: str) -> None:
        """Return if ``topic`` is there; else the controller is asked for it, if it can be made.

        :raises CoordinatorNotAvailableError: it is not there yet; says what it waits for.
        """
        if topic in self._image.topics:
            return
        wanted, alive = self._wanted[topic], len(self._image.brokers)
        if alive < wanted.replication_factor:
            logger.warning(
                "internal_topic_waits",
                topic=topic,
                replicas=wanted.replication_factor,
                setting=wanted.setting,
                brokers=alive,
            )
            raise CoordinatorNotAvailableError(
                f"{topic} cannot be made: it is to have {wanted.replication_factor} replicas"
                f" ({wanted.setting}), and brokers that are up: {alive}"
            )
        if topic not in self._pending and not self._tasks.closed:
            self._pending.add(topic)
            self._tasks.spawn(f"create {topic}", self._create(wanted))
        raise CoordinatorNotAvailableError(f"{topic} is being made")

    def _design(self, wanted: InternalTopic) -> CreatableTopic:
        replicas = wanted.replication_factor
        configs = dict(wanted.configs)
        if replicas < self._min_insync_replicas():
            configs.setdefault("min_insync_replicas", str(replicas))
        entries = [ConfigEntry(key, configs[key]) for key in sorted(configs)]
        return CreatableTopic(wanted.topic, wanted.partition_count, replicas, None, entries)

    async def _create(self, wanted: InternalTopic) -> None:
        try:
            code = await create_topic(self._channel, self._design(wanted))
            if code:
                logger.warning("internal_topic_refused", topic=wanted.topic, error_code=code)
            else:
                logger.info("internal_topic_ready", topic=wanted.topic)
        except (OSError, TimeoutError, OncelogError) as error:
            logger.warning("internal_topic_failed", topic=wanted.topic, error=error)
        finally:
            self._pending.discard(wanted.topic)
