"""Settings of topics, of running brokers and of all brokers are altered by this change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog_cli.documents.answer import Answer
from oncelog_cli.documents.configs import altered_configs, described_configs, resource_label
from oncelog_cli.options import UsageError, set_and_deleted
from oncelog_console import commands
from oncelog_console.changes.change import (
    ChangeKind,
    ClusterChange,
    Desk,
    FormError,
    FormField,
    Preview,
    ShownColumn,
    Table,
    Values,
    all_sound,
    number_of,
    own_topic,
)
from oncelog_console.changes.topics import lines_of
from oncelog_console.commands import CommandLine
from oncelog_console.rendering import segment

COLUMNS = (
    ShownColumn("SETTING", "key", "code"),
    ShownColumn("BEFORE", "before", "code"),
    ShownColumn("FROM", "source"),
    ShownColumn("AFTER", "after", "code"),
    ShownColumn("MEANING", "documentation"),
)


@dataclass(frozen=True, slots=True)
class AlterConfigs(ClusterChange):
    """Settings of one topic, of one broker or, with neither, of all brokers get other values."""

    entries: Mapping[str, str | None]
    """None takes a setting back to what holds without."""
    topic: str | None = None
    broker: int | None = None
    kind = "alter-configs"

    @property
    def subject(self) -> str:
        if self.topic is not None:
            return f"settings of topic {self.topic}"
        return f"settings of {resource_label('broker', self._broker_name)}"

    @property
    def _broker_name(self) -> str:
        return "" if self.broker is None else str(self.broker)

    @property
    def page(self) -> str:
        if self.topic is not None:
            return f"/topics/{segment(self.topic)}?tab=configs"
        return "/brokers" if self.broker is None else f"/brokers/{self.broker}"

    def command(self, seen: Preview) -> CommandLine:
        return commands.alter_configs(self.entries, topic=self.topic, broker=self.broker)

    @property
    def _topics(self) -> Sequence[str]:
        return () if self.topic is None else (self.topic,)

    @property
    def _brokers(self) -> Sequence[int | None]:
        return () if self.topic is not None else (self.broker,)

    async def look(self, desk: Desk) -> Preview:
        described = await described_configs(desk.admin, self._topics, self._brokers, every=True)
        known = {row["key"]: row for row in all_sound(described).document["configs"]}
        checked = all_sound(await self._altered(desk, dry_run=True))
        rows, facts = [], {}
        for key, value in self.entries.items():
            row = known.get(key, {"value": None, "source": "not set", "documentation": ""})
            after = "what holds without it" if value is None else value
            rows.append(
                {
                    "key": key,
                    "before": row["value"],
                    "source": row["source"].replace("_", " "),
                    "after": after,
                    "documentation": row["documentation"],
                }
            )
            facts[f"the value of {key}"] = row["value"]
            facts[f"where {key} comes from"] = row["source"]
        sentence = (
            "The brokers have checked the new values, and would take them."
            " They hold at once, and after restarts."
        )
        return Preview(checked, facts, [sentence], [Table(f"Of {self._label}", COLUMNS, rows)])

    @property
    def _label(self) -> str:
        if self.topic is not None:
            return resource_label("topic", self.topic)
        return resource_label("broker", self._broker_name)

    async def _altered(self, desk: Desk, *, dry_run: bool) -> Answer:
        return await altered_configs(
            desk.admin, self.entries, self._topics, self._brokers, dry_run=dry_run
        )

    async def carry_out(self, desk: Desk, seen: Preview) -> Answer:
        return await self._altered(desk, dry_run=False)

    async def arrived(self, desk: Desk, seen: Preview) -> bool:
        described = await described_configs(desk.admin, self._topics, self._brokers, every=True)
        own = "topic" if self.topic is not None else "dynamic"
        set_now = {
            row["key"]: row["value"]
            for row in described.document["configs"]
            if row["source"].startswith(own)
        }
        return all(set_now.get(key) == value for key, value in self.entries.items())


def _parse(values: Values, now_ms: int) -> AlterConfigs:
    try:
        entries = set_and_deleted(lines_of(values["set"]), lines_of(values["delete"]))
    except UsageError as error:
        raise FormError(str(error)) from None
    if not entries:
        raise FormError("set: say which settings to change, one KEY=VALUE a line")
    if values["of"] == "topic":
        return AlterConfigs(entries, topic=own_topic(values, "name"))
    if values["of"] == "broker":
        broker = number_of(values, "name", most=2**31 - 1)
        if broker is None:
            raise FormError("name: the id of a broker is needed")
        return AlterConfigs(entries, broker=broker)
    if values["name"]:
        raise FormError("name: all brokers have none; leave it empty")
    return AlterConfigs(entries)


ALTER_CONFIGS = ChangeKind(
    "alter-configs",
    "Alter settings",
    "Settings of a topic or of running brokers get other values; those not named stay.",
    (
        FormField(
            "of",
            "Of",
            "choice",
            choices=(("topic", "a topic"), ("broker", "a broker"), ("all", "all brokers")),
            default="topic",
        ),
        FormField("name", "Topic, or id of the broker", help="Empty for all brokers."),
        FormField("set", "Set", "area", "One KEY=VALUE a line: retention_ms=86400000"),
        FormField("delete", "Back to what holds without", "area", "One KEY a line."),
    ),
    _parse,
)
KINDS = (ALTER_CONFIGS,)
