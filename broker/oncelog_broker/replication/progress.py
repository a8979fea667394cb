"""The leader sees a follower so, within one leader epoch. Pure.

* ``durable_offset``: the follower holds, synced, everything below it. It is learnt only from
  fetches made in this leader epoch [K5] and is ``UNKNOWN_OFFSET`` before the first.
* ``caught_up_s``: the newest moment of which we know that the follower then held all that the
  leader held at that moment. A follower lags by time, not by records: one that is always a little
  behind a fast producer keeps up (KAFKA-2988).

How the moment is found without work per record or per idle partition: while the follower is at the
leader's end it is caught up as of the last sign of life of its session (``Contact``, one object
for all partitions of a connection). When the leader's end moves on, or is found ahead, a *mark*
(leader end, time) is set; once the follower reaches the mark's offset it was caught up at the
mark's time, and the next mark is set.
"""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN_OFFSET = -1
NEVER_S = float("-inf")


@dataclass(slots=True, eq=False)
class Contact:
    """It has the loop time of the last fetch on the follower's connection."""

    at_s: float

    def heard(self, now: float) -> None:
        """Note that the connection has brought a fetch."""
        self.at_s = now


class FollowerProgress:
    """The leader knows this of one follower. ``now`` is loop time in seconds throughout."""

    __slots__ = (
        "broker_epoch",
        "caught_up_s",
        "contact",
        "durable_offset",
        "log_start_offset",
        "mark_offset",
        "mark_s",
        "replica_id",
    )

    def __init__(self, replica_id: int, *, in_sync: bool, leader_end: int, now: float) -> None:
        self.replica_id = replica_id
        self.broker_epoch = -1
        self.durable_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        # A member of the ISR gets the whole lag time to find its new leader; others prove
        # themselves.
        self.caught_up_s = now if in_sync else NEVER_S
        self.mark_offset = leader_end
        self.mark_s = now
        self.contact = Contact(now)

    def fetched(
        self,
        durable_offset: int,
        *,
        broker_epoch: int,
        log_start_offset: int,
        leader_end: int,
        contact: Contact,
        now: float,
    ) -> None:
        """Note that the follower asked for more and holds everything below ``durable_offset``."""
        self.durable_offset = durable_offset
        self.broker_epoch = broker_epoch
        self.log_start_offset = log_start_offset
        self.contact = contact
        if durable_offset >= leader_end:
            self.caught_up_s = now
        elif durable_offset >= self.mark_offset:
            self.caught_up_s = max(self.caught_up_s, self.mark_s)
        else:
            return
        self.mark_offset = leader_end
        self.mark_s = now

    def left_behind(self, leader_end: int, now: float) -> None:
        """Note that the leader appended while the follower was at its end."""
        self.caught_up_s = max(self.caught_up_s, self.contact.at_s)
        self.mark_offset = leader_end
        self.mark_s = now

    def held(self, leader_end: int, since_s: float) -> bool:
        """Return whether the follower holds all that the leader held at ``since_s``."""
        return self.durable_offset >= leader_end or self.caught_up_s >= since_s

    def lags(self, leader_end: int, now: float, lag_s_max: float) -> bool:
        """Return whether the follower has not kept up for longer than ``lag_s_max``."""
        if self.durable_offset >= leader_end:
            return False
        return now - self.caught_up_s > lag_s_max

    def __repr__(self) -> str:
        return (
            f"<FollowerProgress {self.replica_id} durable={self.durable_offset}"
            f" broker_epoch={self.broker_epoch}>"
        )
