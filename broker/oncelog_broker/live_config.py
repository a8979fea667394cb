"""The settings in force are those that the broker was started with, and those set while it runs.

Each room has one object with its settings. It is changed in place, and rooms look at it whenever
they need it; ``on_change`` renews what a room has derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, NamedTuple

from oncelog_broker import room_configs
from oncelog_broker.config import BrokerConfig, dynamic, report
from oncelog_broker.config.layers import is_map
from oncelog_protocol.messages.replication import BROKER_DEFAULT, BrokerOverrides
from oncelog_protocol.topic_config import TOPIC_SETTINGS, normalise_key
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

DYNAMIC_BROKER = "dynamic_broker"
DYNAMIC_DEFAULT = "dynamic_default"
BROKER = "broker"
DEFAULT = "default"


class Described(NamedTuple):
    """It is one setting as it is told to who asks; a secret has no value."""

    key: str
    value: str | None
    source: str
    read_only: bool


class LiveConfig:
    """It keeps the settings of one broker. ``take`` is called with what the controller says,
    whole."""

    def __init__(self, config: BrokerConfig) -> None:
        self.given = config
        """The broker was started with these."""
        self.current = config
        self.log = room_configs.log_config(config)
        self.replicas = room_configs.replica_config(config)
        self.groups = room_configs.group_config(config)
        self.transactions = room_configs.transaction_config(config)
        self.connections = room_configs.connection_limits(config)
        self.on_change: list[Callable[[], None]] = []
        """They are called after ``current`` and the rooms' objects have changed."""
        self._default: dict[str, str] = {}
        self._own: dict[str, str] = {}
        self._taken: list[BrokerOverrides] = []

    def take(self, configs: Iterable[BrokerOverrides]) -> None:
        """Apply what is set for all brokers and for this one; a setting that is not named is not
        set any more. An invalid one is logged and left out."""
        taken = [c for c in configs if c.broker_id in (BROKER_DEFAULT, self.given.broker_id)]
        if taken == self._taken:
            return
        self._taken = taken
        texts = {c.broker_id: dict(zip(c.keys, c.values, strict=True)) for c in taken}
        before = self.current
        self.current, self._default, self._own, faults = dynamic.tolerant(
            self.given, texts.get(BROKER_DEFAULT, {}), texts.get(self.given.broker_id, {})
        )
        for fault in faults:
            logger.error("setting_left_out", error=fault)
        self._log_changes(before)
        self._refresh()
        for callback in list(self.on_change):
            callback()

    def _log_changes(self, before: BrokerConfig) -> None:
        for key, field in BrokerConfig.model_fields.items():
            old, new = getattr(before, key), getattr(self.current, key)
            if old != new:
                logger.info(
                    "setting_changed",
                    key=key,
                    before=report.masked(field, old),
                    value=report.masked(field, new),
                )

    def _refresh(self) -> None:
        config = self.current
        put_in_force(self.log, room_configs.log_config(config))
        put_in_force(self.replicas, room_configs.replica_config(config))
        put_in_force(self.groups, room_configs.group_config(config))
        put_in_force(self.transactions, room_configs.transaction_config(config))
        put_in_force(self.connections, room_configs.connection_limits(config))

    # ---- what is told to who asks

    def described(self) -> list[Described]:
        """Return every setting in force, by key; maps come entry by entry."""
        rows: list[Described] = []
        for key, field in BrokerConfig.model_fields.items():
            if key == "listeners":
                rows += self._described_listeners()
                continue
            value = getattr(self.current, key)
            read_only = not dynamic.may_change(key)
            given = field.is_required() or getattr(self.given, key) != field.default
            parts: dict[str, Any] = {key: value}
            if is_map(key) and value:
                parts = {f"{key}.{name}": value[name] for name in sorted(value)}
            for name, part in parts.items():
                source = self._source(name) or (BROKER if given else DEFAULT)
                text = report.as_text(part)
                secret = report.masked(field, part) != text
                rows.append(Described(name, None if secret else text, source, read_only))
        return sorted(rows)

    def _described_listeners(self) -> list[Described]:
        return [
            Described(
                f"listeners.{listener.name}.{part}",
                report.as_text(value),
                BROKER if part in listener.model_fields_set else DEFAULT,
                True,
            )
            for listener in self.given.listeners
            for part, value in listener.model_dump(exclude={"name"}).items()
        ]

    def described_default(self) -> list[Described]:
        """Return what is set for all brokers while they run."""
        rows = []
        for key, text in sorted(self._default.items()):
            field = BrokerConfig.model_fields[key.partition(".")[0]]
            secret = report.masked(field, text) != text
            rows.append(Described(key, None if secret else text, DYNAMIC_DEFAULT, False))
        return rows

    def topic_default(self, key: str) -> tuple[str, str]:
        """Return a pair (value, source) of a topic setting here, for topics that do not say."""
        default = TOPIC_SETTINGS[key].default
        texts = {normalise_key(k): v for k, v in self.current.topic_default_texts().items()}
        text = texts.get(key, default)
        source = self._source(f"topic_defaults.{key}") or self._source(key)
        if source is not None:
            return text, source
        return text, DEFAULT if text == default else BROKER

    def _source(self, key: str) -> str | None:
        if key in self._own:
            return DYNAMIC_BROKER
        return DYNAMIC_DEFAULT if key in self._default else None


def put_in_force(target: Any, fresh: Any) -> None:
    """Make a room's settings say what ``fresh`` says. They stay the same object, and so do their
    parts, so that the room sees it wherever it looks."""
    for field in fields(fresh):
        old, new = getattr(target, field.name), getattr(fresh, field.name)
        if old == new:
            continue
        if hasattr(new, "__dataclass_fields__"):
            put_in_force(old, new)
        else:
            setattr(target, field.name, new)
