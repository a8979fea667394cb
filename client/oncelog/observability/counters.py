"""A client counts in plain integers, by batch and by request, never by record.

Rules: counting may not be seen on the record paths, so nothing is counted where a single record
passes. Whoever wants to know reads a snapshot (``metrics``); nobody is told of changes.
"""

from __future__ import annotations

from oncelog_runtime.observe import Histogram

__all__ = ["TOPICS_MAX", "Counters", "TopicCounts"]

TOPICS_MAX = 1_000
"""Topics that are counted by themselves; the records of others are in the sums only."""


class TopicCounts:
    """Records of one topic are counted here."""

    __slots__ = ("errors", "records")

    def __init__(self) -> None:
        self.records = 0
        """Acknowledged, or handed out."""
        self.errors = 0
        """Given up."""


class Counters:
    """One client counts these; which of them move depends on what it is."""

    __slots__ = (
        *("connections", "connection_failures", "metadata_refreshes"),
        *("throttles", "throttled_s"),
        *("records_sent", "bytes_sent", "batches_sent", "record_errors", "record_retries"),
        *("produce_requests", "request_latency", "delivery_latency"),
        "batches_skipped",
        *("records_consumed", "bytes_fetched", "fetches", "fetch_errors", "fetch_latency"),
        *("transaction_commits", "transaction_aborts"),
        *("commits", "commit_errors", "commit_latency", "rebalances", "topics"),
    )

    def __init__(self) -> None:
        self.connections = 0
        self.connection_failures = 0
        self.metadata_refreshes = 0
        self.throttles = 0
        self.throttled_s = 0.0

        self.records_sent = 0
        """Acknowledged."""
        self.bytes_sent = 0
        """Of batches, encoded; with every attempt."""
        self.batches_sent = 0
        """Acknowledged."""
        self.record_errors = 0
        self.record_retries = 0
        """Records in batches that went out again, each time."""
        self.produce_requests = 0
        self.request_latency = Histogram()
        self.delivery_latency = Histogram()

        self.transaction_commits = 0
        self.transaction_aborts = 0
        """Known to have ended so, as this client heard of it."""

        self.records_consumed = 0
        """Made ready for the application; a snapshot leaves out what it has not come for."""
        self.batches_skipped = 0
        self.bytes_fetched = 0
        self.fetches = 0
        self.fetch_errors = 0
        self.fetch_latency = Histogram()

        self.commits = 0
        self.commit_errors = 0
        self.commit_latency = Histogram()
        self.rebalances = 0
        self.topics: dict[str, TopicCounts] = {}

    def _of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic; for one beyond TOPICS_MAX some that nobody reads."""
        counts = self.topics.get(topic)
        if counts is None:
            counts = TopicCounts()
            if len(self.topics) < TOPICS_MAX:
                self.topics[topic] = counts
        return counts

    def connection_opened(self) -> None:
        """Note that a connection to a broker is open."""
        self.connections += 1

    def connection_failed(self) -> None:
        """Note that an attempt to connect failed."""
        self.connection_failures += 1

    def metadata_refreshed(self) -> None:
        """Note that a broker answered with metadata."""
        self.metadata_refreshes += 1

    def throttled(self, seconds: float) -> None:
        """Note that an answer told to wait, by ``seconds`` longer than was known."""
        self.throttles += 1
        self.throttled_s += seconds

    def produce_sent(self) -> None:
        """Note that a produce request goes out."""
        self.produce_requests += 1

    def batch_sent(self, size: int, records_again: int) -> None:
        """Note that a batch of ``size`` bytes goes out, with so many records once again."""
        self.bytes_sent += size
        self.record_retries += records_again

    def sent(self, topic: str, records: int, seconds: float) -> None:
        """Note that a batch was acknowledged, ``seconds`` after it was begun."""
        self.records_sent += records
        self.batches_sent += 1
        self.delivery_latency.observe(seconds)
        self._of(topic).records += records

    def given_up(self, topic: str, records: int) -> None:
        """Note that a batch failed for good."""
        self.record_errors += records
        self._of(topic).errors += records

    def fetched(self, size: int, seconds: float) -> None:
        """Note that a fetch was answered with ``size`` bytes, after ``seconds``."""
        self.fetches += 1
        self.bytes_fetched += size
        self.fetch_latency.observe(seconds)

    def fetch_failed(self) -> None:
        """Note that a fetch failed as a whole."""
        self.fetch_errors += 1

    def batch_skipped(self) -> None:
        """Note that a corrupt batch was left out."""
        self.batches_skipped += 1

    def committed(self, seconds: float) -> None:
        """Note that a commit was acknowledged, after ``seconds``."""
        self.commits += 1
        self.commit_latency.observe(seconds)

    def commit_failed(self) -> None:
        """Note that a commit failed, after retries."""
        self.commit_errors += 1

    def rebalanced(self) -> None:
        """Note that a generation of the group was joined."""
        self.rebalances += 1

    def transaction_ended(self, commit: bool) -> None:
        """Note that a transaction is known to be committed, or aborted."""
        self.transaction_commits += commit
        self.transaction_aborts += not commit

    def consumed(self, topic: str, records: int) -> None:
        """Note that records are being handed out; a negative number takes some back."""
        self.records_consumed += records
        self._of(topic).records += records
