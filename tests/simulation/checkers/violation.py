"""Checkers share the broken promise, what a run promises, and the list of anomalies.

Rules: a checker is a pure function of a history (or of replicas, log lines, watermarks) and of the
run's :class:`Rules`; it walks once; it returns violations in an order that depends on nothing but
its arguments. What a run permits is decided by its rules, never by leaving a checker out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from simulation.history import Key, Op

Holes = Mapping[Key, Collection[int]]
"""Offsets of a partition that hold no record for readers (control records, aborted, compacted)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """A run promises this, by its options and by the faults it permits itself."""

    idempotent: bool = False
    """Producers are: a value is stored once."""
    acks_all: bool = True
    """Producers wait for all in-sync replicas; otherwise an acknowledgement proves nothing."""
    loss_permitted: bool = False
    """Committed records may be lost: power loss with flush=interval, an unclean election."""
    ordered: bool = True
    """Acknowledged sends of one producer to one partition keep their order."""
    offsets_told: bool = False
    """Every acknowledgement tells where the record is: no retry comes too late to be known."""
    subscribed: bool = False
    """Assignments change behind the consumers' backs: between polls they may skip and repeat."""
    resets_permitted: bool = False
    """Positions may fall out of range: retention, deletion of records."""
    read_committed: bool = True
    """Consumers hide open and aborted transactions."""
    final_polls: bool = True
    """The run ended with polls up to the end of every partition."""
    complete: bool = True
    """Every writer is in the history: a value that nobody sent came from nowhere."""
    groups: Mapping[str, Collection[Key]] = field(default_factory=dict)
    """The partitions that each group must have read to their ends by the end of the run."""
    offsets_expire_after_s: float | None = None
    """A group without a sign of life for so long may lose its committed offsets; None: never."""
    sessions_expire_after_s: float | None = None
    """A group without a sign of life for so long may be empty, and is forgotten if it has no
    offsets; None: never."""
    superseded: Mapping[Key, Collection[int]] = field(default_factory=dict)
    """Offsets that compaction may have taken away: a newer record of the same key is committed."""
    deletions_may_be_missed: bool = False
    """Tombstones are kept for less than a replica may be away: it goes on with what was deleted."""
    log_starts: Mapping[Key, int] = field(default_factory=dict)
    """Retention has left the logs here: what lay below need not be seen."""
    allowed_log_lines: tuple[str, ...] = ()
    """Regular expressions of alarms in logs that this run's faults explain."""

    def may_be_gone(self, key: Key, offset: int) -> bool:
        """Return whether retention or compaction explains that nobody reads an offset."""
        return offset < self.log_starts.get(key, 0) or offset in self.superseded.get(key, ())

    @property
    def acks_count(self) -> bool:
        """Return whether an acknowledgement proves that the record is there for good."""
        return self.acks_all and not self.loss_permitted


@dataclass(frozen=True, slots=True)
class Violation:
    """It is a promise broken, and by what."""

    anomaly: str
    """Its number in the list of anomalies, such as "A3"."""
    promise: str
    """The checker's name."""
    text: str
    partition: Key | None = None
    offsets: tuple[int, ...] = ()
    ops: tuple[int, ...] = ()
    """Indexes of operations in the history."""

    @property
    def report_only(self) -> bool:
        """Return whether this is normal, in a log without write isolation or in a group that reads
        at least once, and only worth a mention."""
        return self.anomaly in REPORT_ONLY

    def __str__(self) -> str:
        place = f" {name_of(self.partition)}" if self.partition else ""
        ops = f" (ops {', '.join(map(str, self.ops[:10]))})" if self.ops else ""
        return f"{self.anomaly} {self.promise}{place}: {self.text}{ops}"


REPORT_ONLY = frozenset({"A10", "A17"})


def name_of(key: Key) -> str:
    """Return a partition as people write it."""
    return f"{key[0]}-{key[1]}"


def shown(value: bytes | None) -> str:
    """Return a value as a sentence shows it."""
    return "null" if value is None else value.decode("ascii", "backslashreplace")[:60]


def some(items: Sequence[object], most: int = 5) -> str:
    """Return the first few, and how many more there are."""
    listed = ", ".join(str(item) for item in items[:most])
    return f"{listed} and {len(items) - most} more" if len(items) > most else listed


def indexes(*ops: Op | None) -> tuple[int, ...]:
    """Return indexes of some operations, each once, in order."""
    return tuple(sorted({op.index for op in ops if op is not None}))
