"""Leaders are elected by these changes: preferred ones, or any where nobody leads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog import TopicPartition
from oncelog.admin.results import PartitionDescription, ReplicaDescription
from oncelog_cli.documents.answer import Answer, Row
from oncelog_cli.documents.partitions import elected_leaders, needed_elections
from oncelog_cli.group_offsets import Chosen, parse_partitions
from oncelog_console import commands
from oncelog_console.changes.change import (
    ChangeKind,
    ClusterChange,
    Desk,
    FormError,
    FormField,
    Preview,
    RefusedError,
    ShownColumn,
    Table,
    Values,
    needed_number,
    own_topic,
)
from oncelog_console.changes.topics import described
from oncelog_console.commands import CommandLine
from oncelog_console.rendering import segment

NOBODY = "nobody"


def _partitions(rows: Sequence[Row]) -> list[tuple[str, int]]:
    return [(row["topic"], row["partition"]) for row in rows]


# ------------------------------------------------------------------------------ preferred ones


@dataclass(frozen=True, slots=True)
class ElectPreferred(ClusterChange):
    """The first replicas of partitions lead again, where they are in sync and alive."""

    chosen: Chosen | None = None
    """None: all partitions that need it."""
    kind = "elect-preferred"

    @property
    def subject(self) -> str:
        return "preferred leaders"

    @property
    def page(self) -> str:
        topics = {*(self.chosen.topics if self.chosen else ())}
        topics |= {name for name, _ in (self.chosen.partitions if self.chosen else ())}
        return f"/topics/{segment(topics.pop())}" if len(topics) == 1 else "/brokers"

    def command(self, seen: Preview) -> CommandLine:
        return commands.elect_leaders(_partitions(seen.work))

    async def look(self, desk: Desk) -> Preview:
        document = await needed_elections(desk.admin, self.chosen, unclean=False)
        needed = [row for row in document["partitions"] if row["result"] == "needed"]
        if not needed:
            raise RefusedError("every partition that is meant is led by its preferred replica")
        rows = [{**row, "leader": NOBODY if row["leader"] < 0 else row["leader"]} for row in needed]
        facts = {
            f"the leader of {row['topic']}-{row['partition']}": (row["leader"], row["preferred"])
            for row in needed
        }
        columns = (
            ShownColumn("TOPIC", "topic"),
            ShownColumn("PARTITION", "partition", "number"),
            ShownColumn("LED BY", "leader"),
            ShownColumn("WOULD BE LED BY", "preferred"),
        )
        sentence = (
            f"{len(needed):,} partitions would be led by other brokers. Clients find them within"
            " moments; a preferred replica that is not in sync or not alive does not lead."
        )
        table = Table("Partitions that are led by another broker than preferred", columns, rows)
        return Preview(Answer(document), facts, [sentence], [table], work=needed)

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await elected_leaders(desk.admin, seen.work, unclean=False)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        known = desk.seen()
        for row in seen.work:
            topic = known.topic(row["topic"])
            led = {} if topic is None else {p.partition: p.leader for p in topic.partitions}
            if led.get(row["partition"]) != row["preferred"]:
                return False
        return True


def _preferred(values: Values, now_ms: int) -> ElectPreferred:
    words = values["partitions"].split()
    if not words:
        return ElectPreferred()
    try:
        chosen = parse_partitions(words)
    except ValueError as error:
        raise FormError(f"partitions: {error}") from None
    for name in (*chosen.topics, *(name for name, _ in chosen.partitions)):
        own_topic({"topic": name})
    return ElectPreferred(chosen)


ELECT_PREFERRED = ChangeKind(
    "elect-preferred",
    "Elect preferred leaders",
    "Partitions are led again by the first of their replicas, so that load is spread as planned.",
    (
        FormField(
            "partitions",
            "Topics and partitions",
            help="As orders or orders:0,2, with spaces between. Empty: all that need it.",
        ),
    ),
    _preferred,
)


# ------------------------------------------------------------------------------ unclean ones


@dataclass(frozen=True, slots=True)
class ElectUnclean(ClusterChange):
    """A partition without a leader gets one that may lack committed records."""

    topic: str
    partition: int
    kind = "elect-unclean"

    @property
    def name(self) -> str:
        """Return the partition's name, which is typed to confirm."""
        return f"{self.topic}-{self.partition}"

    @property
    def subject(self) -> str:
        return f"partition {self.name}"

    @property
    def typed(self) -> str:
        return self.name

    @property
    def page(self) -> str:
        return f"/topics/{segment(self.topic)}"

    def command(self, seen: Preview) -> CommandLine:
        return commands.elect_leaders([(self.topic, self.partition)], unclean=True)

    async def look(self, desk: Desk) -> Preview:
        topic = await described(desk, self.topic)
        items = {item.partition: item for item in topic.partitions}
        if self.partition not in items:
            raise RefusedError(f"topic {self.topic} has no partition {self.partition}")
        item = items[self.partition]
        if item.leader >= 0:
            raise RefusedError(f"{self.name} is led by broker {item.leader}: nothing is needed")
        chosen = Chosen(partitions=((self.topic, self.partition),))
        document = await needed_elections(desk.admin, chosen, unclean=True)
        held = await self._held(desk)
        committed = self._committed(desk, held)
        rows = [_replica(item, broker, held.get(broker), committed) for broker in item.replicas]
        able = [row for row in rows if row["end"] is not None]
        if not able:
            raise RefusedError(f"no replica of {self.name} is alive: start one of its brokers")
        likely = min(able, key=lambda row: (row["rank"], item.replicas.index(row["broker"])))
        loss = likely["loss"]
        sentences = [
            f"Nobody leads {self.name}. The controller would let a live replica lead; replicas that"
            f" are complete come first. Broker {likely['broker']} is the likely one.",
            f"At least {loss:,} committed records are lost for good then."
            if loss
            else "No loss is known; but a replica that is away may have more, and nobody can say.",
            "Replicas that come back are cut to what the new leader has. If a broker with all"
            " records can be started, start it instead: no record is lost then.",
        ]
        facts = {
            "the leader": item.leader,
            "the leader epoch": item.leader_epoch,
            "the ISR": item.isr,
            "the ELR": item.elr,
            "the last known ELR": item.last_known_elr,
            "live replicas and their ends": tuple((row["broker"], row["end"]) for row in able),
        }
        columns = (
            ShownColumn("REPLICA", "broker", "number"),
            ShownColumn("WAS", "was"),
            ShownColumn("ENDS AT", "end", "number"),
            ShownColumn("COMMITTED RECORDS THAT IT LACKS, AT LEAST", "loss", "number"),
        )
        table = Table(f"Replicas of {self.name}", columns, rows)
        return Preview(Answer(document), facts, sentences, [table], work=document["partitions"])

    async def _held(self, desk: Desk) -> dict[int, ReplicaDescription]:
        """Return what each live broker has of the partition."""
        tp = TopicPartition(self.topic, self.partition)
        return {
            directory.broker_id: replica
            for directory in await desk.admin.describe_log_dirs(topics=[self.topic])
            for replica in directory.replicas
            if replica.partition == tp
        }

    def _committed(self, desk: Desk, held: dict[int, ReplicaDescription]) -> int:
        """Return up to where records are known to be committed: by who lives, or led last."""
        remembered = desk.seen().committed.get(TopicPartition(self.topic, self.partition), 0)
        return max([remembered, *(each.high_watermark for each in held.values())])

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await elected_leaders(desk.admin, seen.work, unclean=True)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        topic = desk.seen().topic(self.topic)
        led = {} if topic is None else {p.partition: p.leader for p in topic.partitions}
        return led.get(self.partition, -1) >= 0


def _replica(
    item: PartitionDescription, broker: int, held: ReplicaDescription | None, committed: int
) -> Row:
    """Return a replica's row; ``rank`` says how early an election takes it."""
    kinds = (
        ("in sync", item.isr),
        ("complete beside the ISR (ELR)", item.elr),
        ("complete once (last known ELR)", item.last_known_elr),
    )
    was = [(rank, words) for rank, (words, members) in enumerate(kinds) if broker in members]
    rank, words = was[0] if was else (len(kinds), "behind")
    end = None if held is None else held.log_end_offset
    loss = None if end is None else max(0, committed - end)
    shown = words if held is not None else f"{words}; its broker is away"
    return {"broker": broker, "was": shown, "rank": rank, "end": end, "loss": loss}


def _unclean(values: Values, now_ms: int) -> ElectUnclean:
    return ElectUnclean(own_topic(values), needed_number(values, "partition", most=2**31 - 1))


ELECT_UNCLEAN = ChangeKind(
    "elect-unclean",
    "Elect a leader uncleanly",
    "A partition that nobody leads gets a leader that may lack committed records.",
    (
        FormField("topic", "Topic", required=True),
        FormField("partition", "Partition", required=True),
    ),
    _unclean,
)
KINDS = (ELECT_PREFERRED, ELECT_UNCLEAN)
