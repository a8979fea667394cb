"""The source's options, with Spark's names for Kafka, are checked and kept as one typed value.
Pure.

Rules
-----
* Names and meanings are those of Spark's Kafka source, so that a job moves by changing its format;
  options that are ours stand beside them. All are text, and their names come in lower case.
* What would break exactly-once reading is refused with the name of the option that does what was
  meant: positions are the checkpoint's, and columns are decoded by ``keyFormat``/``valueFormat``.
* An option that nobody knows is refused when it looks like one that exists, misspelt; otherwise it
  is somebody else's (Spark hands the sink's to tables too) and is left alone.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncelog import defaults
from pyspark_oncelog.ddl import check_json_ddl
from pyspark_oncelog.option_values import (
    LATEST,
    OffsetPoint,
    OptionError,
    parse_assignment,
    parse_bool,
    parse_choice,
    parse_count,
    parse_duration_ms,
    parse_names,
    parse_offsets,
    parse_pattern,
    parse_timestamps,
)
from pyspark_oncelog.security_options import SecurityOptions, parse_security

__all__ = ["OptionError", "SourceOptions", "find_bootstrap", "names_a_source"]

PREFIXES = ("kafka.", "oncelog.")
"""The prefixes of options that are the client's."""

FORMATS = ("binary", "string", "json")

NAMES = {
    name.lower(): name
    for name in (
        "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets",
        "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp",
        "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
        "failOnDataLoss", "includeHeaders", "includeMisfits", "groupId", "groupIdPrefix",
        "publishProgress", "isolationLevel", "keyFormat", "valueFormat", "keySchema", "valueSchema",
        "decodeMode", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs", "driverTimeoutMs", "latestOffsetWaitMs",
        "recordsPerArrowBatch", "fetchBytes",
    )
}  # fmt: skip
"""Every option of the source as it comes, and as it is written."""

_PARSED: dict[str, tuple[Any, ...]] = {
    "by_timestamp_strategy": (
        "startingOffsetsByTimestampStrategy", parse_choice, ("error", "latest"),
    ),
    "max_offsets_per_trigger": ("maxOffsetsPerTrigger", parse_count),
    "min_offsets_per_trigger": ("minOffsetsPerTrigger", parse_count),
    "max_trigger_delay_ms": ("maxTriggerDelay", parse_duration_ms),
    "min_partitions": ("minPartitions", parse_count, 1, 100_000),
    "max_records_per_partition": ("maxRecordsPerPartition", parse_count),
    "fail_on_data_loss": ("failOnDataLoss", parse_bool),
    "include_headers": ("includeHeaders", parse_bool),
    "include_misfits": ("includeMisfits", parse_bool),
    "isolation_level": ("isolationLevel", parse_choice, ("read_committed", "read_uncommitted")),
    "key_format": ("keyFormat", parse_choice, FORMATS),
    "value_format": ("valueFormat", parse_choice, FORMATS),
    "decode_mode": ("decodeMode", parse_choice, ("permissive", "failfast")),
    "poll_timeout_ms": ("kafkaConsumer.pollTimeoutMs", parse_duration_ms),
    "driver_timeout_ms": ("driverTimeoutMs", parse_duration_ms),
    "latest_offset_wait_ms": ("latestOffsetWaitMs", parse_duration_ms),
    "records_per_arrow_batch": ("recordsPerArrowBatch", parse_count, 1, 10_000_000),
    "fetch_bytes": ("fetchBytes", parse_count, 1, 1 << 30),
}  # fmt: skip
"""A field of the options is what a parser makes of the option of a name; without it the field has
its default."""

REFUSED = {
    "group.id": "a query's place is its checkpoint. To see its lag in a group, give groupId",
    "auto.offset.reset": "give startingOffsets; failOnDataLoss=false goes on after a loss",
    "enable.auto.commit": "a query's place is its checkpoint. publishProgress shows it in a group",
    "key.deserializer": "give keyFormat (binary, string or json)",
    "value.deserializer": "give valueFormat (binary, string or json)",
    "interceptor.classes": "transform the columns with Spark's functions",
    "max.poll.records": "give recordsPerArrowBatch",
    "assignment.strategy": "partitions are planned by Spark; give minPartitions",
}
"""The client's options that this source does not let through, and what to do instead."""

PASSED = {"isolation.level": "isolationLevel", "max.partition.fetch.bytes": "fetchBytes"}
"""The client's options that have a name of their own here."""

ONLY_BATCH = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


def names_a_source(options: Mapping[str, str]) -> bool:
    """Return whether topics to read are named."""
    lowered = {key.lower() for key in options}
    return not lowered.isdisjoint(("subscribe", "subscribepattern", "assign"))


def find_bootstrap(options: Mapping[str, str]) -> str:
    """Return the brokers' addresses.

    ``kafka.bootstrap.servers``, ``oncelog.bootstrap.servers`` and both without a prefix are one.

    :raises OptionError: they are missing, or two of these say different things.
    """
    lowered = {key.lower(): value for key, value in options.items()}
    names = [prefix + "bootstrap.servers" for prefix in ("", *PREFIXES)]
    names += ["bootstrapservers", "bootstrap_servers"]
    found = dict.fromkeys(lowered[name].strip() for name in names if name in lowered)
    if len(found) > 1:
        raise OptionError(f"bootstrap.servers is given twice, as {' and '.join(map(repr, found))}")
    if not found or not next(iter(found)):
        raise OptionError("oncelog.bootstrap.servers is missing: brokers as host:port,host:port")
    return next(iter(found))


@dataclass(frozen=True)
class SourceOptions:
    """One source was given these options; see ``docs/spark.md`` for the table."""

    bootstrap_servers: str
    security: SecurityOptions | None = None
    """How connections are secured, unless the addresses are a URL that says it."""
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str = ""
    assign: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    starting: OffsetPoint | None = None
    """The query starts here; None: latest for a stream, earliest for a batch query."""
    ending: OffsetPoint = field(default_factory=lambda: OffsetPoint("latest"))
    by_timestamp_strategy: str = "error"
    """The start of a stream in a partition that has no record at or after the time: ``error`` or
    ``latest``."""
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    include_misfits: bool = False
    group_id: str = ""
    """Progress is published to this group; empty: nowhere."""
    isolation_level: str = defaults.ISOLATION_LEVEL
    key_format: str = "binary"
    value_format: str = "binary"
    key_schema: str = ""
    value_schema: str = ""
    decode_mode: str = "permissive"
    poll_timeout_ms: int = 120_000
    """How long a task may go without a record that is there before it fails."""
    driver_timeout_ms: int = 60_000
    """The time-out of every question that the driver asks."""
    latest_offset_wait_ms: int = 200
    """How long an idle stream waits for records in one question for the latest offset."""
    records_per_arrow_batch: int = 100_000
    fetch_bytes: int = 2 * 1024 * 1024

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool | None = None) -> SourceOptions:
        """Parse the options of a source.

        :param streaming: whether it is one of a stream or of a batch query; None: not known yet.
        :raises OptionError: see the module's text.
        """
        given = {key.lower(): str(value) for key, value in options.items()}
        _refuse(given)
        servers = find_bootstrap(given)
        parsed = cls(
            bootstrap_servers=servers,
            security=parse_security(given, servers),
            **_topics(given),  # type: ignore[arg-type]
            starting=_point(given, "starting"),
            ending=_point(given, "ending") or OffsetPoint("latest"),
            **{
                field: parse(name, given[name.lower()], *more)
                for field, (name, parse, *more) in _PARSED.items()
                if name.lower() in given
            },
            group_id=_group(given),
            key_schema=given.get("keyschema", ""),
            value_schema=given.get("valueschema", ""),
        )
        parsed._check()
        parsed._check_mode(given, streaming)
        return parsed

    @property
    def begins_at_a_moment(self) -> bool:
        """Return whether a new stream begins somewhere else when it is asked again."""
        point = self.starting or OffsetPoint("latest")
        if point.kind == "offsets":
            return any(LATEST in numbers.values() for numbers in point.offsets.values())
        return point.kind != "earliest"

    def _check(self) -> None:
        for name in ("key", "value"):
            kind, ddl = getattr(self, f"{name}_format"), getattr(self, f"{name}_schema")
            if (kind == "json") is not bool(ddl.strip()):
                raise OptionError(
                    f"{name}Format={kind} and {name}Schema={ddl!r}: a schema in Spark's DDL, such"
                    ' as "id BIGINT, name STRING", goes with json, and json needs one'
                )
            if kind == "json":
                check_json_ddl(f"{name}Schema", ddl)
        low, high = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if low is not None and high is not None and low > high:
            raise OptionError(f"minOffsetsPerTrigger={low}: is above maxOffsetsPerTrigger={high}")

    def _check_mode(self, given: Mapping[str, str], streaming: bool | None) -> None:
        if streaming:
            for name in ONLY_BATCH:
                if name.lower() in given:
                    raise OptionError(
                        f"{name}: a stream has no end. Read a batch (spark.read), or run the"
                        " stream with trigger(availableNow=True)"
                    )
        elif streaming is False:
            if self.starting == OffsetPoint("latest"):
                raise OptionError("startingOffsets=latest: a batch query would find nothing")
            if self.ending == OffsetPoint("earliest"):
                raise OptionError("endingOffsets=earliest: a batch query would find nothing")
            _refuse_numbers("startingOffsets", self.starting, -1, "latest (-1)")
            _refuse_numbers("endingOffsets", self.ending, -2, "earliest (-2)")


def _refuse(given: dict[str, str]) -> None:
    """Judge the client's options and those that nobody knows; those with a name of their own here
    are put under it."""
    for key in list(given):
        prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")
        bare = key.removeprefix(prefix)
        if bare in REFUSED:
            raise OptionError(f"{key}: not supported by this source: {REFUSED[bare]}")
        if bare in PASSED:
            name = PASSED[bare].lower()
            if given.setdefault(name, given[key]) != given[key]:
                raise OptionError(f"{key}={given[key]!r}: and {PASSED[bare]}={given[name]!r}")
        elif key not in NAMES and not prefix:
            _refuse_misspelt(key)


def _refuse_misspelt(key: str) -> None:
    close = difflib.get_close_matches(key, NAMES, n=1, cutoff=0.88)
    if close:
        raise OptionError(f"{key}: there is no such option; did you mean {NAMES[close[0]]}?")


def _topics(given: Mapping[str, str]) -> dict[str, object]:
    named = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(named) != 1:
        told = f"{' and '.join(named)} are given" if named else "none is given"
        raise OptionError(f"give exactly one of subscribe, subscribePattern and assign: {told}")
    name = named[0]
    text = given[name.lower()]
    if name == "subscribe":
        return {"subscribe": parse_names(name, text)}
    if name == "assign":
        return {"assign": parse_assignment(name, text)}
    return {"subscribe_pattern": parse_pattern(name, text)}


def _point(given: Mapping[str, str], side: str) -> OffsetPoint | None:
    names = [f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"]
    named = [name for name in names if name.lower() in given]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)}: give one of them")
    if not named:
        return None
    name, text = named[0], given[named[0].lower()]
    if name.endswith("ByTimestamp"):
        return parse_timestamps(name, text)
    if name.endswith("Timestamp"):
        return OffsetPoint("timestamp", timestamp_ms=parse_count(name, text, 0))
    return parse_offsets(name, text)


def _group(given: Mapping[str, str]) -> str:
    """Return the group that shows the query's progress.

    Without ``groupId`` the name is made of what is read: Spark tells a source neither the query's
    name nor its checkpoint. Two queries that read the same then share it, and it shows whichever
    spoke last.
    """
    if not parse_bool("publishProgress", given.get("publishprogress", "true")):
        return ""
    named = given.get("groupid", "").strip()
    if "groupid" in given and not named:
        raise OptionError("groupId is empty; publishProgress=false publishes nothing")
    if named:
        return named
    read = [given.get(name, "") for name in ("subscribe", "subscribepattern", "assign")]
    digest = hashlib.sha256("\0".join(read).encode()).hexdigest()[:10]
    return f"{given.get('groupidprefix', '').strip() or 'spark-oncelog'}-{digest}"


def _refuse_numbers(name: str, point: OffsetPoint | None, number: int, told: str) -> None:
    if point is None or point.kind != "offsets":
        return
    if any(number in offsets.values() for offsets in point.offsets.values()):
        raise OptionError(f"{name}: {told} makes no sense in a batch query")
