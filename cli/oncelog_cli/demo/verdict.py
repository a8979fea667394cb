"""The demo's judge compares what was acknowledged with what was read back. Pure.

A record is *lost* when it was acknowledged and never read. It is *duplicated* when it was read
more often than once. It is *out of order* when, of two records of one partition, the one sent
later was read first (repeats of a record already read do not count twice).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """The verdict is the demo's last line; ``ok`` means that nothing was lost or disordered.

    It is false when anything acknowledged was lost, or anything came back twice or out of order.
    """

    sent: int
    acknowledged: int
    read: int
    lost: int
    duplicated: int
    out_of_order: int
    leaders_killed: int
    failover_seconds: float | None
    ok: bool

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name, for JSON."""
        return asdict(self)


class Ledger:
    """The ledger has rows as they are sent, acknowledged and read.

    They are numbered in the order of sending.
    """

    def __init__(self) -> None:
        self._acknowledged: set[int] = set()
        self._read: set[int] = set()
        self._newest: dict[int, int] = {}
        self.sent = 0
        self.read = 0
        self.duplicated = 0
        self.out_of_order = 0

    @property
    def acknowledged(self) -> int:
        """Return how many rows were acknowledged."""
        return len(self._acknowledged)

    def on_sent(self) -> None:
        """One more row went into the producer."""
        self.sent += 1

    def on_acknowledged(self, row: int) -> None:
        """Note that the brokers promised to keep ``row``."""
        self._acknowledged.add(row)

    def on_read(self, partition: int, row: int) -> None:
        """``row`` came back as the next record of ``partition``."""
        self.read += 1
        if row in self._read:
            self.duplicated += 1
            return
        self._read.add(row)
        if row < self._newest.get(partition, -1):
            self.out_of_order += 1
        else:
            self._newest[partition] = row

    def verdict(self, *, leaders_killed: int, failover_seconds: float | None) -> DemoVerdict:
        """Judge what has been written down so far."""
        lost = len(self._acknowledged - self._read)
        complete = self.acknowledged == self.sent
        return DemoVerdict(
            sent=self.sent,
            acknowledged=self.acknowledged,
            read=self.read,
            lost=lost,
            duplicated=self.duplicated,
            out_of_order=self.out_of_order,
            leaders_killed=leaders_killed,
            failover_seconds=failover_seconds,
            ok=lost == self.duplicated == self.out_of_order == 0 and complete,
        )
