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
    """The way to the controller."""

    async def alter_partition(self, items: list[AlterPartitionItem]) -> AlterPartitionResponse:
        """Ask the controller for new ISRs.

        :raises OSError, TimeoutError, ApiError: the outcome is not known.
        """
        ...


ReplyCallback = Callable[[Any, BaseException | None], None]


class LeaderChannel(Protocol):
    """An open connection to a leader, as the fetch loop uses it; ``RequestChannel`` is one."""

    @property
    def closed(self) -> bool:
        """Whether it can carry no more requests."""
        ...

    def send(
        self, request: Any, payload: Sequence[Buffer] = (), *, callback: ReplyCallback
    ) -> None:
        """Send; ``callback(reply, error)`` is called once, in order, synchronously."""
        ...

    def close(self, reason: str = "") -> None:
        """Close; callbacks still open are called with an error."""
        ...


class FetchPosition(NamedTuple):
    """What a fetcher says about its own copy."""

    fetch_offset: int
    leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = -1


class Reader(Protocol):
    """Somebody who reads a partition and wants to hear of news. Calls must be cheap."""

    def data_ready(self) -> None:
        """The leader's log has grown."""
        ...

    def watermark_moved(self, stable_moved: bool) -> None:
        """The high watermark, or the log start, has moved. ``stable_moved``: so has the last stable
        offset, or the log start; nobody need look who reads what is decided only."""
        ...

    def role_changed(self) -> None:
        """The leader epoch is another one, or the replica has failed or gone."""
        ...


class LeaderConnector(Protocol):
    """Opens connections to the internal listeners of other brokers."""

    async def open(self, broker_id: int) -> LeaderChannel:
        """Connect to a broker.

        :raises OSError, TimeoutError, OncelogError: not reachable, or not known.
        """
        ...


@dataclass(slots=True)
class ReplicaConfig:
    """Settings, named as Kafka names them. Times in ms, sizes in bytes.
    Those that may change while the broker runs change in place."""

    replica_lag_time_max_ms: int = 10_000
    """A follower that was not caught up for longer leaves the ISR. (Kafka: 30 s.)"""
    replica_fetch_wait_max_ms: int = 500
    """How long a leader parks a follower's fetch when there is no news."""
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 4 * 1024 * 1024
    """Of one partition per fetch; one batch is always sent whole."""
    replica_fetch_response_max_bytes: int = 8 * 1024 * 1024
    """Of one answer. It bounds the receive buffer of a fetch connection."""
    replica_fetch_backoff_ms: int = 20
    """First delay after an error of a partition or a failed connect; doubles up to the maximum."""
    replica_fetch_backoff_max_ms: int = 1_000
    isr_change_backoff_ms: int = 50
    """First delay before an unanswered ISR change is asked for again; doubles up to the maximum."""
    isr_change_backoff_max_ms: int = 1_000
    isr_change_timeout_ms: int = 10_000
