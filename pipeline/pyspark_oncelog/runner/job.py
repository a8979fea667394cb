"""A pipeline job has sources, one query, one sink, a trigger and a checkpoint. Pure.

Rules: a job is checked as a whole when it is made, and every problem is reported, not only the
first; whatever is not the runner's own goes to the data source as an option, spelled as in its
table of options (``startingOffsets``) or in snake case (``starting_offsets``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FORMAT = "oncelog"
BOOTSTRAP_OPTION = "oncelog.bootstrap.servers"

APPEND = "append"
UPDATE = "update"
COMPLETE = "complete"
OUTPUT_MODES = (APPEND, UPDATE, COMPLETE)

AVAILABLE_NOW = "available now"
IMMEDIATELY = "immediately"

_INTERVAL = re.compile(
    r"(\d+\s*(milliseconds?|ms|seconds?|minutes?|hours?|days?|weeks?)\s*)+", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

QueryFunction = Callable[..., Any]
"""It takes data frames by the names of the sources, and ``spark`` if it wants it, and returns one.
"""


class JobError(Exception):
    """A job cannot run as it is written; ``problems`` has one line for each reason."""

    def __init__(self, problems: Sequence[str], *, where: str = "") -> None:
        self.problems = list(problems)
        self.where = where
        prefix = f"{where}: " if where else ""
        super().__init__("\n".join(f"{prefix}{problem}" for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Watermark:
    """A row is late whose ``column`` is more than ``delay`` behind the newest one."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True)
class Source:
    """A source is a view that the query can name."""

    name: str
    options: Mapping[str, str]
    format: str = FORMAT
    batch: bool = False
    """Read once, as a table to join with, instead of as a stream."""
    schema: str | None = None
    """DDL, for formats that want one."""
    select: tuple[str, ...] = ()
    """SQL expressions that make the view's columns; none: all columns as they are."""
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A query is SQL over the sources' names, or a function; it is exactly one of them."""

    sql: str | None = None
    function: str | QueryFunction | None = None
    """The function itself, or ``module:name``."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Values of named parameters in the SQL (``:name``)."""


@dataclass(frozen=True, slots=True)
class Sink:
    """The result goes to this sink."""

    options: Mapping[str, str]
    format: str = FORMAT
    output_mode: str = APPEND
    key: tuple[str, ...] = ()
    """Columns that become the record's key, where the result has no column ``key``."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Spark is to run with these settings; only what is given is set."""

    master: str | None = None
    deploy_mode: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    log_level: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job is one pipeline. In ``directory`` relative paths start, and modules are looked for."""

    name: str
    sources: tuple[Source, ...]
    query: Query
    sink: Sink
    checkpoint: str
    trigger: str = IMMEDIATELY
    bootstrap_servers: str | None = None
    security: Mapping[str, str] = field(default_factory=dict)
    """Options of security, as the data source takes them: for those brokers."""
    spark: SparkSettings = field(default_factory=SparkSettings)
    directory: str = "."

    def __post_init__(self) -> None:
        problems = [*_problems_of_names(self), *_problems_of_query(self), *_problems_of_modes(self)]
        if problems:
            raise JobError(problems)

    @property
    def reads_cluster(self) -> bool:
        """Return whether any source, or the sink, is a topic."""
        return any(s.format == FORMAT for s in self.sources) or self.sink.format == FORMAT

    def trigger_arguments(self) -> dict[str, Any]:
        """Return the arguments of ``DataStreamWriter.trigger``; if empty it is not called."""
        return trigger_arguments(self.trigger)

    def source_options(self, source: Source) -> dict[str, str]:
        """Return the options of a source, with what the job adds.

        That is the brokers and how to connect to them, and the consumer group that shows progress
        (the job's name; with several streams, one group each).
        """
        options = dict(source.options)
        if source.format != FORMAT:
            return options
        self._add_cluster(options)
        if not source.batch and not _has(options, "groupId"):
            streams = [s for s in self.sources if s.format == FORMAT and not s.batch]
            options["groupId"] = self.name if len(streams) == 1 else f"{self.name}-{source.name}"
        return options

    def sink_options(self) -> dict[str, str]:
        """Return the options of the sink, with the brokers and how to connect to them."""
        options = dict(self.sink.options)
        if self.sink.format == FORMAT:
            self._add_cluster(options)
        return options

    def _add_cluster(self, options: dict[str, str]) -> None:
        """Whoever names brokers of its own says itself how to connect to them: what a password is
        for one cluster is not shown to another."""
        named = any(key.lower().replace(".", "").endswith("bootstrapservers") for key in options)
        if not named and self.bootstrap_servers:
            options[BOOTSTRAP_OPTION] = self.bootstrap_servers
            options |= {name: value for name, value in self.security.items() if name not in options}


def trigger_arguments(trigger: str) -> dict[str, Any]:
    """Parse ``"available now"``, ``"immediately"`` or an interval such as ``"10 seconds"``.

    :raises JobError: something else.
    """
    plain = " ".join(re.sub(r"(?<=[a-z])(?=[A-Z])|[-_]", " ", trigger).lower().split())
    if plain == AVAILABLE_NOW:
        return {"availableNow": True}
    if plain == IMMEDIATELY:
        return {}
    if _INTERVAL.fullmatch(trigger.strip()):
        return {"processingTime": " ".join(trigger.split())}
    remedy = f"say {AVAILABLE_NOW!r}, {IMMEDIATELY!r} or an interval such as '10 seconds'"
    if plain in ("once", "continuous", "real time"):
        raise JobError([f"trigger {trigger!r} is not supported: {remedy}"])
    raise JobError([f"trigger {trigger!r} is not understood: {remedy}"])


def _has(options: Mapping[str, str], name: str) -> bool:
    return any(key.lower() == name.lower() for key in options)


def _problems_of_names(job: Job) -> list[str]:
    problems = []
    if not job.name.strip():
        problems.append("name must not be empty")
    if not job.checkpoint.strip():
        problems.append("checkpoint must not be empty: it is where the pipeline's progress is kept")
    if not job.sources:
        problems.append('no sources: add a table [sources.NAME] with subscribe = "TOPIC"')
    elif all(source.batch for source in job.sources):
        problems.append("every source is batch = true: one must be a stream")
    seen: dict[str, str] = {}
    for source in job.sources:
        if not _NAME.fullmatch(source.name):
            problems.append(
                f"source {source.name!r} cannot be a view's name: letters, digits, underscores"
            )
        other = seen.setdefault(source.name.lower(), source.name)
        if other != source.name:
            problems.append(f"sources {other!r} and {source.name!r} are one name to Spark")
        if source.name == "spark":
            problems.append("source 'spark': functions know the session by that name")
    return problems


def _problems_of_query(job: Job) -> list[str]:
    query = job.query
    if (query.sql is None) == (query.function is None):
        return ["[query] wants one of sql, sql_file and function"]
    if query.sql is not None and not query.sql.strip():
        return ["[query] sql is empty"]
    if isinstance(query.function, str) and not re.fullmatch(r"[\w.]+:[A-Za-z_]\w*", query.function):
        return [f'[query] function {query.function!r}: expected "module:name"']
    if query.function is not None and query.args:
        return ["[query] args belong to sql; a function has values of its own"]
    return []


def _problems_of_modes(job: Job) -> list[str]:
    problems: list[str] = []
    try:
        trigger_arguments(job.trigger)
    except JobError as error:
        problems += error.problems
    if job.sink.output_mode not in OUTPUT_MODES:
        remedy = ", ".join(repr(mode) for mode in OUTPUT_MODES)
        problems.append(f"[sink] output_mode {job.sink.output_mode!r}: there are {remedy}")
    if job.sink.output_mode == UPDATE and job.sink.format != FORMAT:
        problems.append(f"[sink] output_mode 'update' is for topics, not {job.sink.format!r}")
    if job.bootstrap_servers is not None and not job.bootstrap_servers.strip():
        problems.append("bootstrap_servers is empty")
    return problems
