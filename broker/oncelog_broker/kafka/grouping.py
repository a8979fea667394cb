"""Items that name a topic each are put together by their topics, as Kafka lists them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class OfTopic(Protocol):
    """It belongs to one topic."""

    topic: str


T = TypeVar("T", bound=OfTopic)


def by_topic(items: Iterable[T]) -> dict[str, list[T]]:
    """Return the items by topic, in the order in which they came."""
    topics: dict[str, list[T]] = {}
    for item in items:
        topics.setdefault(item.topic, []).append(item)
    return topics
