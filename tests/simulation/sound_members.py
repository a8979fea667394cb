"""Each controller's view of who was sound is kept, as it was when it looked at the end of a move.

The store does not tell whom a controller suspected at that moment. So it is taken where the
controller decides, through its safeguards, and nothing is changed there.
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog_controller.safeguards import SAFE, ControllerSafeguards
from oncelog_controller.state import ClusterPartition
from oncelog_protocol.types import TopicPartition


class Counted(NamedTuple):
    """A controller knew this when it looked whether a move may end."""

    sound: frozenset[int]
    min_insync_replicas: int
    """The setting of the topic."""
    hasty: bool = False
    """The plan gives up what replicas hold that were added, should the move turn back."""


class SoundMembers:
    """It keeps what the controllers of one cluster knew."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, TopicPartition, int], Counted] = {}

    def known_to(self, broker_id: int, name: TopicPartition, version: int) -> Counted | None:
        """Return what the controller of a broker knew when the state of a partition had a version;
        None: it never looked."""
        return self._known.get((broker_id, name, version))

    def watching(self, broker_id: int, safeguards: ControllerSafeguards = SAFE) -> Watching:
        """Return the same safeguards, for one broker, that keep what they are told."""
        kind = type("Watched", (Watching, type(safeguards)), {})
        watching: Watching = kind()
        watching.broker_id, watching.members = broker_id, self
        return watching

    def note(self, broker_id: int, partition: ClusterPartition, sound: frozenset[int]) -> None:
        """Keep what a controller takes for sound."""
        assert partition.state is not None
        key = broker_id, partition.topic_partition, partition.state.version
        self._known[key] = Counted(sound, partition.topic.settings.min_insync_replicas)


class Watching(ControllerSafeguards):
    """It keeps who is sound, and then decides as its other parent does."""

    broker_id: int
    members: SoundMembers

    def counted(self, partition: ClusterPartition, sound: frozenset[int]) -> frozenset[int]:
        """Keep it."""
        self.members.note(self.broker_id, partition, sound)
        return super().counted(partition, sound)
