"""A client's counters are read as snapshots: ``producer.metrics()``, ``consumer.metrics()``.

Rules: a snapshot is a value, taken at once and without asking the cluster. Names are those of
Kafka's client metrics in snake case; ``*_total`` only grows while the client lives. Times are in
seconds. With uvloop the loop's clock counts whole milliseconds, and so do they.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.consumer.reading import RecordReader
from oncelog.consumer.subscription import Subscription
from oncelog.core.router import Router
from oncelog.observability.counters import Counters
from oncelog.producer.accumulator import Accumulator
from oncelog.producer.sender import Sender
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.observe import Histogram

__all__ = [
    "ClientMetrics",
    "ConsumerMetrics",
    "Latency",
    "ProducerMetrics",
    "client_metrics",
    "consumer_metrics",
    "producer_metrics",
]


@dataclass(frozen=True, slots=True)
class Latency:
    """A histogram says how long something took. Times are in seconds."""

    count: int
    sum_s: float
    buckets: tuple[tuple[float, int], ...]
    """(upper bound in seconds, how many took at most that) grow; ``count`` is the number of all."""

    @classmethod
    def of(cls, histogram: Histogram) -> Latency:
        """Return the present content of a histogram."""
        *counts, count = histogram.cumulative()
        buckets = tuple(zip(histogram.BOUNDS_S, counts, strict=True))
        return cls(count, histogram.sum_s, buckets)

    @property
    def mean_s(self) -> float | None:
        """Return the mean in seconds; None while nothing was measured."""
        return self.sum_s / self.count if self.count else None

    def quantile_s(self, q: float) -> float | None:
        """Return an upper bound of the ``q`` quantile (0 to 1), good to a factor of two.

        It is None while nothing was measured, and infinity beyond the last bucket.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"q={q!r}: must be between 0 and 1")
        if not self.count:
            return None
        return next(
            (bound for bound, count in self.buckets if count >= q * self.count), float("inf")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetrics:
    """Every client counts these."""

    client_id: str
    connection_count: int
    """This many connections are open now."""
    connection_creation_total: int
    connection_failure_total: int
    """This many attempts to connect failed."""
    metadata_refresh_total: int
    """This many answers had metadata."""
    throttled_response_total: int
    """This many answers told to wait, as a quota was exceeded."""
    throttle_seconds_total: float
    """Brokers had connections held for so long, in seconds, summed over connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics(ClientMetrics):
    """A producer counts these besides."""

    record_send_total: int
    """This many records were acknowledged."""
    record_error_total: int
    """This many records were given up."""
    record_retry_total: int
    """It counts records in batches that went out again, each time."""
    batch_total: int
    """This many batches were acknowledged."""
    outgoing_byte_total: int
    """It counts the bytes of encoded batches, with every attempt."""
    request_total: int
    """This many Produce requests were sent."""
    requests_in_flight: int
    record_queue_count: int
    """This many records were taken and are not acknowledged."""
    buffer_total_bytes: int
    buffer_used_bytes: int
    waiting_senders: int
    """This many calls wait for room in the buffer."""
    request_latency: Latency
    """It is measured from a produce request to its answer."""
    delivery_latency: Latency
    """It is measured from a batch's first record to its acknowledgement, retries included."""
    transaction_commit_total: int
    transaction_abort_total: int
    topic_record_totals: Mapping[str, int]
    """It is ``record_send_total`` by topic."""
    topic_error_totals: Mapping[str, int]
    """It is ``record_error_total`` by topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMetrics(ClientMetrics):
    """A consumer counts these besides."""

    records_consumed_total: int
    """This many records were handed out."""
    batches_skipped_total: int
    """This many corrupt batches were left out (``corrupt_batches="skip"``)."""
    bytes_consumed_total: int
    """It counts the bytes of fetched batches, as they are in the log."""
    fetch_total: int
    """This many fetches were answered."""
    fetch_error_total: int
    """This many fetches failed as a whole: a connection lost, an error of the broker."""
    assigned_partitions: int
    paused_partitions: int
    buffered_bytes: int
    """This many bytes were fetched in advance."""
    records_lag: Mapping[TopicPartition, int]
    """It counts the offsets between the position and the high watermark of the last fetch."""
    records_lag_max: int | None
    """It is the greatest lag of all partitions; None while none is known."""
    commit_total: int
    """This many commits were acknowledged."""
    commit_error_total: int
    """This many commits failed, after retries."""
    rebalance_total: int
    """This many generations of the group were joined."""
    fetch_latency: Latency
    """It is measured from a fetch to its answer; at the end of the log it waits for records."""
    commit_latency: Latency
    topic_record_totals: Mapping[str, int]
    """It is ``records_consumed_total`` by topic."""


def client_metrics(router: Router) -> ClientMetrics:
    """Return the figures that every client has counted."""
    return ClientMetrics(**_of_client(router))  # type: ignore[arg-type]


def producer_metrics(
    router: Router, accumulator: Accumulator, sender: Sender | None
) -> ProducerMetrics:
    """Return the figures that a producer has counted."""
    counters = router.counters
    return ProducerMetrics(
        **_of_client(router),  # type: ignore[arg-type]
        record_send_total=counters.records_sent,
        record_error_total=counters.record_errors,
        record_retry_total=counters.record_retries,
        batch_total=counters.batches_sent,
        outgoing_byte_total=counters.bytes_sent,
        request_total=counters.produce_requests,
        requests_in_flight=0 if sender is None else sender.requests_in_flight,
        record_queue_count=accumulator.record_count,
        buffer_total_bytes=accumulator.buffer_memory,
        buffer_used_bytes=accumulator.used,
        waiting_senders=accumulator.waiting_count,
        request_latency=Latency.of(counters.request_latency),
        delivery_latency=Latency.of(counters.delivery_latency),
        transaction_commit_total=counters.transaction_commits,
        transaction_abort_total=counters.transaction_aborts,
        topic_record_totals=_by_topic(counters, 0),
        topic_error_totals={t: c.errors for t, c in counters.topics.items() if c.errors},
    )


def consumer_metrics(
    router: Router, subscription: Subscription, reader: RecordReader
) -> ConsumerMetrics:
    """Return the figures that a consumer has counted, and where it stands."""
    states = subscription.states
    counters = router.counters
    reader.settle()
    topic, left = reader.not_handed_out
    lag = {
        tp: max(state.high_watermark - state.offset, 0)
        for tp, state in states.items()
        if state.high_watermark >= 0 and state.offset is not None
    }
    return ConsumerMetrics(
        **_of_client(router),  # type: ignore[arg-type]
        records_consumed_total=counters.records_consumed - left,
        batches_skipped_total=counters.batches_skipped,
        bytes_consumed_total=counters.bytes_fetched,
        fetch_total=counters.fetches,
        fetch_error_total=counters.fetch_errors,
        assigned_partitions=len(states),
        paused_partitions=sum(state.paused for state in states.values()),
        buffered_bytes=sum(state.buffered for state in states.values()),
        records_lag=lag,
        records_lag_max=max(lag.values(), default=None),
        commit_total=counters.commits,
        commit_error_total=counters.commit_errors,
        rebalance_total=counters.rebalances,
        fetch_latency=Latency.of(counters.fetch_latency),
        commit_latency=Latency.of(counters.commit_latency),
        topic_record_totals=_by_topic(counters, left, topic),
    )


def _of_client(router: Router) -> dict[str, object]:
    counters = router.counters
    return {
        "client_id": router.options.client_id,
        "connection_count": router.connections.open_count,
        "connection_creation_total": counters.connections,
        "connection_failure_total": counters.connection_failures,
        "metadata_refresh_total": counters.metadata_refreshes,
        "throttled_response_total": counters.throttles,
        "throttle_seconds_total": counters.throttled_s,
    }


def _by_topic(counters: Counters, left: int, topic: str = "") -> dict[str, int]:
    """Return record counts by topic, without those of ``topic`` that are ``left``."""
    found = {name: counts.records for name, counts in counters.topics.items()}
    if left and topic in found:
        found[topic] -= left
    return {name: records for name, records in found.items() if records}
