"""A place in the log has each topic's id, and each partition's next offset. Pure.

Rules
-----
* Spark keeps a place as text and compares texts: one place has one text, always. Topics are in the
  order of their names, partitions in that of their numbers.
* The topic's id is in it, for a topic that was deleted and made again has other records at the same
  offsets (KIP-516 names the problem).
* The end of a query's first micro-batch holds its beginning too (``from``). Spark keeps only ends,
  and asks for the beginning again when the first micro-batch is planned, and again when it is done
  over after a crash: by then "latest" is somewhere else.
* Checkpoints outlive releases: the text has a version, and a newer one is refused, not guessed at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VERSION = 1


class SourcePartition(NamedTuple):
    """A partition of one topic is equal to, and as good as, the client's TopicPartition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Each partition of one topic has a next offset here."""

    topic_id: str
    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """A place in some topics is kept by Spark in its checkpoint."""

    topics: Mapping[str, TopicOffsets] = field(default_factory=dict)
    initial: bool = False
    """Whether a new query begins here."""
    begin: LogOffsets | None = None
    """The end of a query's first micro-batch says here where that batch begins."""

    def get(self, partition: SourcePartition) -> int | None:
        """Return the offset in ``partition``; None when it is not among them."""
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.offsets.get(partition.partition)

    def topic_id(self, topic: str) -> str:
        """Return the id of ``topic``; empty when it is not among them."""
        return self.topics[topic].topic_id if topic in self.topics else ""

    def __iter__(self) -> Iterator[tuple[SourcePartition, int]]:
        for name in sorted(self.topics):
            for number, offset in sorted(self.topics[name].offsets.items()):
                yield SourcePartition(name, number), offset

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps; equal places are equal texts."""
        topics = {
            name: {
                "id": topic.topic_id,
                "offsets": {str(number): topic.offsets[number] for number in sorted(topic.offsets)},
            }
            for name, topic in sorted(self.topics.items())
        }
        told: dict[str, Any] = {"version": VERSION, "topics": topics}
        if self.initial:
            told["initial"] = True
        if self.begin is not None:
            told["from"] = self.begin.to_json()
        return told

    @classmethod
    def from_json(cls, text: Mapping[str, Any]) -> LogOffsets:
        """Read a place from a checkpoint.

        :raises ValueError: it is not one that this release understands.
        """
        version = text.get("version")
        if version != VERSION:
            raise ValueError(
                f"the checkpoint's offsets have version {version!r}, this release of"
                f" pyspark_oncelog reads {VERSION}: {str(text)[:200]}"
            )
        try:
            return cls(
                {
                    name: TopicOffsets(
                        str(entry["id"]),
                        {int(number): int(offset) for number, offset in entry["offsets"].items()},
                    )
                    for name, entry in text["topics"].items()
                },
                bool(text.get("initial", False)),
                cls.from_json(text["from"]) if "from" in text else None,
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"no offsets of this source: {str(text)[:200]}") from error


def make_offsets(ids: Mapping[str, str], offsets: Mapping[SourcePartition, int]) -> LogOffsets:
    """Make the place with these offsets, in topics with these ids."""
    topics: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.items():
        topics.setdefault(topic, {})[number] = offset
    return LogOffsets(
        {
            topic: TopicOffsets(ids[topic], dict(sorted(numbers.items())))
            for topic, numbers in sorted(topics.items())
        }
    )
