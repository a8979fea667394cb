"""A replica's invariants are checked here while it runs. Pure.

As in ``log.invariants``, a broken one takes the replica out of service (``Partition.break_down``).
They are checked where the numbers move, and for every replica with each lag check.

- ``log start <= last stable offset <= high watermark <= log end`` [I1];
- high watermark and last stable offset of a leader do not move back while it leads in one epoch
  [A23]. A follower's may, with its log: when it is truncated, or begun anew below the leader's log
  start (KAFKA-9491);
- a leader is in its own ISR, the maximal ISR holds the committed one, is the same while nothing is
  proposed, and all of it is waited for [I3];
- a follower has one fetcher, that of its leader and in its leader epoch; a leader, and a replica
  out of service, have none [I13].
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from oncelog_broker.log.invariants import InvariantError

__all__ = [
    "InvariantError",
    "check_fetchers",
    "check_isr",
    "check_offsets",
    "check_stable",
    "check_watermark",
]


def check_offsets(log_start: int, high_watermark: int, log_end: int) -> None:
    """Check the order of log start, high watermark and log end.

    :raises InvariantError: the three are out of order.
    """
    if not 0 <= log_start <= high_watermark <= log_end:
        raise InvariantError(
            f"log start {log_start}, high watermark {high_watermark}, log end {log_end}"
        )


def check_watermark(before: int, now: int) -> None:
    """Check that a leader's high watermark has not moved back within its epoch.

    :raises InvariantError: it has.
    """
    if now < before:
        raise InvariantError(f"the high watermark moved back from {before} to {now}")


def check_stable(before: int, now: int, high_watermark: int) -> None:
    """Check a leader's last stable offset.

    :raises InvariantError: it has moved back within its epoch, or lies above the high watermark.
    """
    if not before <= now <= high_watermark:
        raise InvariantError(
            f"last stable offset {now}, before {before}, high watermark {high_watermark}"
        )


def check_isr(
    broker_id: int,
    *,
    committed: Collection[int],
    maximal: Collection[int],
    counted: Collection[int],
    pending: bool,
) -> None:
    """Check that the high watermark waits for the whole ISR. ``counted`` are the followers that it
    waits for.

    :raises InvariantError: the high watermark could pass a member of the ISR.
    """
    if broker_id not in committed:
        raise InvariantError(f"leader {broker_id} is not in its isr {sorted(committed)}")
    missing = [member for member in committed if member not in maximal]
    if missing or (not pending and len(maximal) != len(committed)):
        raise InvariantError(
            f"isr {sorted(committed)}, maximal isr {sorted(maximal)},"
            f" {'a' if pending else 'no'} change pending"
        )
    unheeded = [member for member in committed if member != broker_id and member not in counted]
    if unheeded:
        raise InvariantError(f"the high watermark does not wait for {sorted(unheeded)}")


def check_fetchers(
    fetchers: Sequence[tuple[int, int | None]], wanted: Sequence[tuple[int, int]]
) -> None:
    """Check that the fetchers are those that must be. Both arguments are (broker fetched from,
    leader epoch).

    :raises InvariantError: they differ.
    """
    if list(fetchers) != list(wanted):
        raise InvariantError(f"fetched from {list(fetchers)} instead of {list(wanted)}")
