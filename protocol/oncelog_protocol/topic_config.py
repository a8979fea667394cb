"""A topic has these settings: names, defaults, what is allowed, and the typed values.

Names are Kafka's in snake case; the dotted spelling (``min.insync.replicas``) is accepted too.
Values travel and are kept as text, and become a :class:`TopicConfig` here. What is set for a
topic goes before the broker's default, which goes before the default of this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from oncelog_protocol import limits
from oncelog_protocol.errors import InvalidConfigError

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Setting:
    """It is one row of the table.

    ``check`` turns the text into the value, and raises ``ValueError`` when it is not ``allowed``.
    """

    name: str
    kind: str
    default: str
    allowed: str
    check: Callable[[str], Any]
    documentation: str

    @property
    def dotted(self) -> str:
        """Return Kafka's spelling."""
        return self.name.replace("_", ".")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """It is what holds for one topic. Times in milliseconds, sizes in bytes, -1 for no bound."""

    cleanup_policy: frozenset[str]
    compression_type: str
    delete_retention_ms: int
    flush: str
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_type: str
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int
    unclean_leader_election_enable: bool
    file_delete_delay_ms: int

    @property
    def is_compacted(self) -> bool:
        """Return whether the newest value per key is kept for ever."""
        return "compact" in self.cleanup_policy

    @property
    def deletes_old(self) -> bool:
        """Return whether retention by time and size applies."""
        return "delete" in self.cleanup_policy

    @property
    def uses_append_time(self) -> bool:
        """Return whether the leader's clock sets the timestamps."""
        return self.message_timestamp_type == "LogAppendTime"


class _Check(NamedTuple):
    """It is a parser, the kind of what it returns, and what it allows, in words."""

    kind: str
    parse: Callable[[str], Any]
    allowed: str


def _integer(low: int, high: int) -> _Check:
    def parse(text: str) -> int:
        # int() alone would take "1_000", " 7" and digits of other scripts.
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
            raise ValueError(text)
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    names = {_INT32_MAX: "2^31-1", _INT64_MAX: "2^63-1"}
    kind = "int" if high <= _INT32_MAX else "long"
    return _Check(kind, parse, f"an integer from {low} to {names.get(high, high)}")


def _share() -> _Check:
    def parse(text: str) -> float:
        # float() alone would take "nan", "1e-1", "1_0" and digits of other scripts.
        if not text.isascii() or not text.replace(".", "", 1).isdigit() or len(text) > 19:
            raise ValueError(text)
        value = float(text)
        if not 0.0 <= value <= 1.0:
            raise ValueError(text)
        return value

    return _Check("double", parse, "a number from 0 to 1")


def _choice(*allowed: str) -> _Check:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return _Check("string", parse, "one of " + ", ".join(allowed))


def _boolean() -> _Check:
    def parse(text: str) -> bool:
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"

    return _Check("boolean", parse, "true or false")


def _policies() -> _Check:
    def parse(text: str) -> frozenset[str]:
        policies = [word.strip() for word in text.split(",")]
        if len(set(policies)) != len(policies) or not {"delete", "compact"}.issuperset(policies):
            raise ValueError(text)
        return frozenset(policies)

    return _Check("list", parse, 'delete, compact, or "compact,delete"')


def _row(name: str, default: str, check: _Check, documentation: str) -> Setting:
    return Setting(name, check.kind, default, check.allowed, check.parse, documentation)


_ROWS = (
    _row(
        "cleanup_policy",
        "delete",
        _policies(),
        "What happens to old records: delete (retention), compact (the newest value per key stays),"
        " or both.",
    ),
    _row(
        "compression_type",
        "producer",
        _choice("producer", "none", "gzip", "lz4", "zstd"),
        "The codec that producers of the topic are asked to use. Brokers keep batches as they come"
        " (they never compress), so this is checked and shown, not enforced.",
    ),
    _row(
        "delete_retention_ms",
        "86400000",
        _integer(0, _INT64_MAX),
        "How long compaction keeps a tombstone (a record without value) after everything older with"
        " its key has gone. A reader must get from the beginning to the end within this time to be"
        " sure of hearing of every deletion; a replica that was away for longer is fetched anew.",
    ),
    _row(
        "file_delete_delay_ms",
        "60000",
        _integer(0, _INT64_MAX),
        "How long the files of a deleted segment stay under another name, for reads under way.",
    ),
    _row(
        "flush",
        "commit",
        _choice("commit", "interval"),
        "commit: a record counts, for the high watermark and acknowledgements, when it is synced to"
        " disk on every in-sync replica. interval: when it is written; a loss of power on all"
        " replicas at once may take acknowledged records.",
    ),
    _row(
        "index_interval_bytes",
        "4096",
        _integer(0, _INT32_MAX),
        "Bytes of log between two entries of the offset index.",
    ),
    _row(
        "max_compaction_lag_ms",
        str(_INT64_MAX),
        _integer(1, _INT64_MAX),
        "In a compacted topic: after so long a record may be compacted at the latest, whatever"
        " min_cleanable_dirty_ratio says, and in an idle topic too (KIP-354).",
    ),
    _row(
        "max_message_bytes",
        "1048588",
        _integer(limits.BATCH_HEADER_BYTES, limits.BATCH_BYTES_MAX),
        "Largest record batch, as it is on the wire (compressed).",
    ),
    _row(
        "message_timestamp_after_max_ms",
        "3600000",
        _integer(0, _INT64_MAX),
        "How far a record's timestamp may lie after the broker's clock. A timestamp in the far"
        " future would keep its segment from ever being deleted.",
    ),
    _row(
        "message_timestamp_before_max_ms",
        str(_INT64_MAX),
        _integer(0, _INT64_MAX),
        "How far a record's timestamp may lie before the broker's clock.",
    ),
    _row(
        "message_timestamp_type",
        "CreateTime",
        _choice("CreateTime", "LogAppendTime"),
        "Whether the producer or the leader sets the timestamps of records.",
    ),
    _row(
        "min_cleanable_dirty_ratio",
        "0.5",
        _share(),
        "In a compacted topic: compaction begins when this share of a partition's bytes was written"
        " since the last time. Lower means less space, and more work.",
    ),
    _row(
        "min_compaction_lag_ms",
        "0",
        _integer(0, _INT64_MAX),
        "In a compacted topic: how long every record stays, also one that a newer one replaces.",
    ),
    _row(
        "min_insync_replicas",
        "1",
        _integer(1, _INT32_MAX),
        "How many in-sync replicas must hold a record before it is committed; with fewer, writes"
        " with acks=all are refused.",
    ),
    _row(
        "retention_bytes",
        "-1",
        _integer(-1, _INT64_MAX),
        "Size of one partition above which its oldest segments are deleted; -1: no bound.",
    ),
    _row(
        "retention_ms",
        "604800000",
        _integer(-1, _INT64_MAX),
        "Age of a segment's newest record above which the segment is deleted; -1: no bound.",
    ),
    _row(
        "segment_bytes",
        str(_GIB),
        _integer(1024, _INT32_MAX),
        "Size at which the active segment is closed and a new one begun.",
    ),
    _row(
        "segment_ms",
        "604800000",
        _integer(1, _INT64_MAX),
        "Age at which the active segment is closed and a new one begun, also when it is small.",
    ),
    _row(
        "unclean_leader_election_enable",
        "false",
        _boolean(),
        "Whether a replica that is not in sync may lead when no other is left. Loses committed"
        " records.",
    ),
)

TOPIC_SETTINGS: Mapping[str, Setting] = MappingProxyType({row.name: row for row in _ROWS})
"""Every setting by its name, in order of name."""


def normalise_key(key: str) -> str:
    """Return the name of the setting that ``key`` spells, with dots or underscores.

    :raises InvalidConfigError: there is no such setting.
    """
    name = key.replace(".", "_")
    if name not in TOPIC_SETTINGS:
        raise InvalidConfigError(
            f"{key[:100]!r} is not a setting of topics; there are: {', '.join(TOPIC_SETTINGS)}"
        )
    return name


def parse_topic_config(
    overrides: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> TopicConfig:
    """Return the settings of a topic with these ``overrides``, on a broker with these ``defaults``.

    :raises InvalidConfigError: an unknown key, a key twice (in two spellings), or a value that is
        not allowed; the message names the key, the value and what is allowed.
    """
    texts = {name: setting.default for name, setting in TOPIC_SETTINGS.items()}
    texts.update(_normalised(defaults or {}))
    texts.update(_normalised(overrides))
    values: dict[str, Any] = {}
    for name, setting in TOPIC_SETTINGS.items():
        try:
            values[name] = setting.check(texts[name])
        except ValueError:
            raise InvalidConfigError(
                f"{name}={texts[name][:100]!r} is not allowed: it must be {setting.allowed}"
            ) from None
    return TopicConfig(**values)


def _normalised(settings: Mapping[str, str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for key, text in settings.items():
        name = normalise_key(key)
        if name in texts:
            raise InvalidConfigError(f"{name} is set twice, in two spellings")
        texts[name] = text
    return texts
