"""A snapshot is what is known of the cluster, each fact with its age and with what is missing.

Rules: a snapshot never changes. A fact that could not be asked again keeps its value, with the
reason beside it: nothing unknown is shown as 0 or as healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from oncelog import TopicPartition
from oncelog.admin.results import ClusterDescription, LogDirDescription, TopicDescription
from oncelog_cli.documents.answer import Answer, Failure, Row
from oncelog_cli.health import ClusterSnapshot, HealthCheck, HealthLimits, Status, check_all, worst
from oncelog_cli.open_moves import KnownMoves

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """One question was answered so, at a time."""

    value: T | None = None
    """It is None as long as nobody has ever answered."""
    asked_ms: int | None = None
    """Wall clock of the answer, in ms since 1970."""
    took_s: float = 0.0
    """Seconds from the question to its answer."""
    error: str = ""
    """Why the last question had no answer; the value is then that of one before."""
    missing: tuple[Failure, ...] = ()
    """These items have no figures: brokers that did not answer, for example."""
    refused: bool = False
    """Whether a broker answered the last question, and said an error."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So much comes in a second, by differences of high watermarks and sizes."""

    records: float
    bytes: float
    trend: tuple[float, ...] = ()
    """Records a second at the looks before, the oldest first."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """It is everything that is known at one moment."""

    began_ms: int | None = None
    """Wall clock of the first question; None: nothing was asked yet."""
    cluster: Fact[ClusterDescription] = Fact()
    topics: Fact[tuple[TopicDescription, ...]] = Fact()
    log_dirs: Fact[tuple[LogDirDescription, ...]] = Fact()
    min_isr: Fact[Mapping[str, int]] = Fact()
    moves: Fact[KnownMoves] = Fact()
    groups: Fact[Answer] = Fact()
    """It holds the document of ``groups list``."""
    described_groups: Fact[Answer] = Fact()
    """It holds the document of ``groups describe``, of the groups whose past is kept."""
    transactions: Fact[Answer] = Fact()
    """It holds the document of ``transactions list``."""
    hanging: Fact[Answer] = Fact()
    """It holds the document of ``transactions find-hanging``, of the whole cluster."""
    events: Fact[Answer] = Fact()
    """It holds the document of ``cluster events``, with as many as brokers keep."""
    checks: tuple[HealthCheck, ...] = ()
    """They are the checks of ``cluster health``; none while something that they need is unknown."""
    brokers_seen_ms: Mapping[int, int] = field(default_factory=dict)
    """When each broker was last listed as alive, by id."""
    rates: Mapping[str, Rate] = field(default_factory=dict)
    """So much comes in, by topic; a topic that was looked at once has none."""
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The high watermark that the last leader of each partition told, also one that is away now."""

    @property
    def status(self) -> Status | None:
        """Return the verdict of all checks; None: there is none, or nobody answers any more."""
        if not self.checks or self.cluster.error:
            return None
        return worst(self.all_checks)

    @property
    def all_checks(self) -> tuple[HealthCheck, ...]:
        """Return the checks of ``cluster health``, and that of transactions that hang.

        The command knows no such check: it would have to ask all leaders about all partitions.
        """
        places = tuple(
            f"{row['topic']}-{row['partition']}@{row['start_offset']}" for row in self.hanging_rows
        )
        status = Status.WARNING if places else Status.OK
        text = "readers at read_committed stop there" if places else ""
        return (*self.checks, HealthCheck("hanging_transactions", status, places, text))

    @property
    def silent_since_ms(self) -> int | None:
        """Return the time since which no broker has answered; None: one answers, or refuses."""
        if not self.cluster.error or self.cluster.refused:
            return None
        return self.began_ms if self.cluster.asked_ms is None else self.cluster.asked_ms

    @property
    def topic_list(self) -> tuple[TopicDescription, ...]:
        """Return the topics that are known; there are none while nobody has told them."""
        return self.topics.value or ()

    @property
    def group_rows(self) -> list[Row]:
        """Return the rows of ``groups list``; there are none while nobody has told them."""
        return [] if self.groups.value is None else list(self.groups.value.document["groups"])

    @property
    def transaction_rows(self) -> list[Row]:
        """Return the rows of ``transactions list``; none while nobody has told them."""
        if self.transactions.value is None:
            return []
        return list(self.transactions.value.document["transactions"])

    @property
    def hanging_rows(self) -> list[Row]:
        """Return the rows of ``transactions find-hanging``; none while nobody has looked."""
        return (
            [] if self.hanging.value is None else list(self.hanging.value.document["transactions"])
        )

    def topic(self, name: str) -> TopicDescription | None:
        """Return what is known of a topic; None: it is not known, or does not exist."""
        return next((each for each in self.topic_list if each.topic == name), None)

    def judged(self) -> Snapshot:
        """Return this with the checks of ``cluster health`` made anew."""
        cluster, topics, dirs = self.cluster.value, self.topics.value, self.log_dirs.value
        if cluster is None or topics is None or dirs is None or self.min_isr.value is None:
            return replace(self, checks=())
        seen = ClusterSnapshot(cluster, topics, self.min_isr.value, dirs, self.moves.value)
        return replace(self, checks=tuple(check_all(seen, HealthLimits())))


@dataclass(frozen=True, slots=True)
class Visible:
    """A user of the cluster may see these names, and no others."""

    topics: frozenset[str]
    groups: frozenset[str]
    transactional_ids: frozenset[str]
    cluster: bool
    """Whether the user may see brokers, log directories and events."""


def seen_by(snapshot: Snapshot, visible: Visible | None) -> Snapshot:
    """Return the part of a snapshot that a user may see; None may see everything."""
    if visible is None:
        return snapshot
    seen = replace(
        snapshot,
        topics=_part(snapshot.topics, lambda all_: _named(all_, visible.topics)),
        log_dirs=_part(snapshot.log_dirs, lambda all_: _directories(all_, visible)),
        min_isr=_part(
            snapshot.min_isr,
            lambda all_: {name: least for name, least in all_.items() if name in visible.topics},
        ),
        moves=_part(snapshot.moves, lambda moves: moves if visible.cluster else None),
        groups=_part(snapshot.groups, lambda answer: _rows(answer, "group", visible.groups)),
        described_groups=_part(
            snapshot.described_groups, lambda answer: _rows(answer, "group", visible.groups)
        ),
        transactions=_part(
            snapshot.transactions,
            lambda answer: _rows(answer, "transactional_id", visible.transactional_ids),
        ),
        hanging=_part(snapshot.hanging, lambda answer: _hanging(answer, visible)),
        events=_part(snapshot.events, lambda answer: answer if visible.cluster else None),
        rates={name: rate for name, rate in snapshot.rates.items() if name in visible.topics},
        committed={tp: n for tp, n in snapshot.committed.items() if tp.topic in visible.topics},
    )
    return seen.judged()


def _part(fact: Fact[T], chosen: Callable[[T], T | None]) -> Fact[T]:
    if fact.value is None:
        return fact
    of_brokers = tuple(each for each in fact.missing if each.item.startswith("broker "))
    return replace(fact, value=chosen(fact.value), missing=of_brokers)


def _named(
    topics: Sequence[TopicDescription], names: Collection[str]
) -> tuple[TopicDescription, ...]:
    return tuple(each for each in topics if each.topic in names)


def _directories(
    found: Sequence[LogDirDescription], visible: Visible
) -> tuple[LogDirDescription, ...] | None:
    if not visible.cluster:
        return None
    return tuple(
        replace(
            each, replicas=tuple(r for r in each.replicas if r.partition.topic in visible.topics)
        )
        for each in found
    )


def _rows(answer: Answer, field_name: str, names: Collection[str]) -> Answer:
    document = {
        key: [row for row in rows if row.get(field_name) in names]
        if isinstance(rows, list)
        else rows
        for key, rows in answer.document.items()
    }
    of_brokers = [each for each in answer.failures if each.item.startswith("broker ")]
    return replace(answer, document=document, failures=of_brokers)


def _hanging(answer: Answer, visible: Visible) -> Answer:
    """Return those that hang in visible topics; an id that is not visible is not told."""
    shown = _rows(answer, "topic", visible.topics)
    rows = [
        row if row["transactional_id"] in visible.transactional_ids
        else {**row, "transactional_id": None}
        for row in shown.document["transactions"]
    ]  # fmt: skip
    return replace(shown, document={"transactions": rows})
