"""Replication declares here what it needs from outside, and its settings.

The room knows neither the controller nor addresses: the application hands in an ``IsrPort`` (where
ISR changes are asked for) and a ``LeaderConnector`` (how another broker is reached). A partition
does not know sessions: it has readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from oncelog_protocol.messages.replication import AlterPartitionItem, AlterPartitionResponse
from oncelog_protocol.types import NO_EPOCH

Buffer = bytes | bytearray | memoryview


class IsrPort(Protocol):
    """It is the way to the controller."""

    async def alter_partition(self, items: list[AlterPartitionItem]) -> AlterPartitionResponse:
        """Ask the controller for new ISRs.

        :raises OSError, TimeoutError, ApiError: the outcome is not known.
        """
        ...


ReplyCallback = Callable[[Any, BaseException | None], None]


class LeaderChannel(Protocol):
    """It is an open connection to a leader, as the fetch loop uses it; ``RequestChannel`` is
    one."""

    @property
    def closed(self) -> bool:
        """Return whether it can carry no more requests."""
        ...

    def send(
        self, request: Any, payload: Sequence[Buffer] = (), *, callback: ReplyCallback
    ) -> None:
        """Send a request; ``callback(reply, error)`` is called once, in order, synchronously."""
        ...

    def close(self, reason: str = "") -> None:
        """Close the connection; callbacks still open are called with an error."""
        ...


class FetchPosition(NamedTuple):
    """A fetcher says this about its own copy."""

    fetch_offset: int
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1


class PartitionReader(Protocol):
    """A reader of a partition wants to hear of news. Calls must be cheap."""

    def data_ready(self) -> None:
        """Take note that the leader's log has grown."""
        ...

    def watermark_moved(self, stable_moved: bool) -> None:
        """Take note that the high watermark, or the log start, has moved. ``stable_moved`` tells
        whether the last stable offset or the log start has: otherwise a reader at read_committed
        need not look."""
        ...

    def role_changed(self) -> None:
        """Take note that the leader epoch is another one, or that the replica has failed or
        gone."""
        ...


class LeaderConnector(Protocol):
    """It opens connections to the internal listeners of other brokers."""

    async def open(self, broker_id: int) -> LeaderChannel:
        """Connect to a broker.

        :raises OSError, TimeoutError, OncelogError: not reachable, or not known.
        """
        ...


@dataclass(slots=True, kw_only=True)
class ReplicaConfig:
    """These settings are named as Kafka names them. Times are in ms, sizes in bytes. Those that may
    change while the broker runs change in place."""

    replica_lag_time_max_ms: int
    """A follower that was not caught up for longer leaves the ISR. (Kafka: 30 s.)"""
    replica_fetch_wait_max_ms: int
    """A leader parks a follower's fetch so long when there is no news."""
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    """One fetch takes so much of one partition; one batch is always sent whole."""
    replica_catch_up_min_bytes_per_second: int
    """Replicas that are far behind fetch at least so much, all together."""
    replica_catch_up_max_bytes_per_second: int
    """They fetch at most so much; 0: as much as the broker can do beside its other work."""
    replica_fetch_response_max_bytes: int
    """One answer has at most so many bytes. It bounds the receive buffer of a fetch connection."""
    replica_fetch_backoff_ms: int = 20
    """It is the first delay after an error of a partition or a failed connect; it doubles up to the
    maximum."""
    replica_fetch_backoff_max_ms: int = 1_000
    replica_near_bytes: int = 16 * 1024 * 1024
    """A replica that lacks less than this is fetched with those that are in sync."""
    isr_change_backoff_ms: int = 50
    """It is the first delay before an unanswered ISR change is asked for again; it doubles up to
    the maximum."""
    isr_change_backoff_max_ms: int = 1_000
    isr_change_timeout_ms: int = 10_000
