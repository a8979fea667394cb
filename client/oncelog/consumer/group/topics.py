"""Each member knows its own subscription, and the leader knows what all members read.

Rules
-----
* A pattern is matched here, against every topic there is that is not internal; the whole name must
  match. Names have at most 249 characters, so what a pattern can cost is bounded by its writer.
* A topic that does not exist yet is no error: its partitions are shared out when they are there.
  The log says so, once.
* The leader remembers the partition counts that it shared out (of all members' topics, also of
  those that it does not read itself); when metadata shows others, the group must rebalance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from oncelog.core.router import Router
from oncelog.errors import (
    ConfigurationError,
    InvalidTopicError,
    UnknownTopicOrPartitionError,
)
from oncelog_protocol import limits
from oncelog_protocol.consumer_protocol import ConsumerSubscription


class GroupTopics:
    """A member knows the topics of its group from here.

    :raises ConfigurationError: the pattern is not a regular expression.
    :raises InvalidTopicError: a name that no topic can have.
    """

    def __init__(
        self, router: Router, topics: Iterable[str], pattern: str | re.Pattern[str] | None
    ) -> None:
        self._router = router
        self._named = tuple(dict.fromkeys(topics))
        self._told: dict[str, None] = {}
        self._shared_out: dict[str, int] | None = None
        try:
            self._pattern = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise ConfigurationError(f"pattern={pattern!r:.200}: {error}") from None
        for topic in self._named:
            router.want(topic)
        router.want_all(self._pattern is not None)
        if self._pattern is not None:
            router.refresh_soon()
        self.subscribed = self._matching()
        """What the member says that it reads."""

    @property
    def by_pattern(self) -> bool:
        """Return whether the topics come from a pattern."""
        return self._pattern is not None

    def _matching(self) -> tuple[str, ...]:
        pattern = self._pattern
        if pattern is None:
            return self._named
        cluster = self._router.cluster
        return tuple(
            name
            for name in sorted(cluster.topics)
            if not cluster.topics[name].internal
            and name not in cluster.errors
            and pattern.fullmatch(name) is not None
        )

    def newly_missing(self) -> list[str]:
        """Return the named topics that turned out not to exist; each is returned once."""
        cluster = self._router.cluster
        missing = [
            topic
            for topic in self._named
            if topic not in self._told
            and topic not in cluster.topics
            and isinstance(cluster.errors.get(topic), UnknownTopicOrPartitionError)
        ]
        self._told.update(dict.fromkeys(missing))
        return missing

    def look_again(self) -> bool:
        """Match the pattern again, and return whether the subscription has changed."""
        found = self._matching()
        changed = found != self.subscribed
        self.subscribed = found
        return changed

    # ------------------------------------------------------------------------------ the leader

    async def partition_counts(self, members: Mapping[str, ConsumerSubscription]) -> dict[str, int]:
        """Return the partition count of each topic that any member reads, and watch the counts."""
        topics = sorted({topic for member in members.values() for topic in member.topics})
        for topic in topics:
            if limits.is_legal_topic(topic):
                self._router.want(topic)
        cluster = self._router.cluster
        if any(topic not in cluster.topics and topic not in cluster.errors for topic in topics):
            await self._router.refresh()
        self._shared_out = self._counts(topics)
        return {topic: count for topic, count in self._shared_out.items() if count}

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        views = self._router.cluster.topics
        return {topic: views[topic].partition_count if topic in views else 0 for topic in topics}

    def grown(self) -> list[str]:
        """Return the topics whose partitions differ from those that were shared out."""
        if self._shared_out is None:
            return []
        counts = self._counts(self._shared_out)
        return [topic for topic, count in self._shared_out.items() if counts[topic] != count]

    def led_by_another(self) -> None:
        """Stop watching partition counts: another member leads now, and watches them."""
        self._shared_out = None


def checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the topics without duplicates; raise InvalidTopicError for what no topic is called."""
    if isinstance(topics, str):
        topics = [topics]
    names = tuple(dict.fromkeys(topics))
    for name in names:
        if type(name) is not str or not limits.is_legal_topic(name):
            raise InvalidTopicError(f"{name!r:.80} is not a legal topic name")
    return names
