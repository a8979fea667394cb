"""``job.toml`` is read into a job: this knows its keys, and what their values may be. Pure but for
reading.

::

    name = "delays"
    bootstrap_servers = "127.0.0.1:9092"
    checkpoint = "checkpoints/delays"
    trigger = "10 seconds"

    [sources.flights]
    subscribe = "flights"
    startingOffsets = "earliest"

    [query]
    sql = "SELECT key, value FROM flights"

    [sink]
    topic = "delays"

Rules: a key that is not known is a problem with a suggestion; relative paths start at the file's
directory; environment variables are not expanded, so that a file means the same everywhere.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyspark_oncelog.runner.job import (
    APPEND,
    FORMAT,
    IMMEDIATELY,
    Job,
    JobError,
    Query,
    Sink,
    Source,
    SparkSettings,
    Watermark,
)
from pyspark_oncelog.security_options import OWN_PREFIX

JOB_KEYS = (
    "name", "bootstrap_servers", "security", "checkpoint", "trigger", "sources", "query", "sink",
    "spark",
)  # fmt: skip
SOURCE_KEYS = ("format", "batch", "schema", "select", "watermark")
QUERY_KEYS = ("sql", "sql_file", "function", "args")
SINK_KEYS = ("format", "output_mode", "key")
SPARK_KEYS = ("master", "deploy_mode", "conf", "py_files", "archives", "log_level")


def load_job(path: Path | str) -> Job:
    """Read the job in a file.

    :raises JobError: it cannot be read, or does not describe a job.
    """
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise JobError([f"cannot be read: {reason}"], where=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        raise JobError([f"is not TOML: {error}"], where=str(path)) from None
    try:
        return job_from(document, directory=path.parent, name=path.stem)
    except JobError as error:
        raise JobError(error.problems, where=str(path)) from None


def job_from(
    document: Mapping[str, Any], *, directory: Path | str = ".", name: str | None = None
) -> Job:
    """Return the job that a document of the same structure as the file describes.

    ``query.function`` may be a function.

    :param directory: where relative paths start.
    :param name: the job's name, if the document has none.
    :raises JobError: with every problem that was found.
    """
    return _DocumentReader(Path(directory)).job(document, name)


class _DocumentReader:
    """A document is read by this object, which collects its problems."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._problems: list[str] = []

    def job(self, document: Mapping[str, Any], name: str | None) -> Job:
        self._known(document, JOB_KEYS, "")
        chosen = self._text(document, "name", "") or name
        if chosen is None:
            self._problems.append("name is missing")
        checkpoint = self._text(document, "checkpoint", "")
        if checkpoint is None:
            self._problems.append(
                'checkpoint is missing: a directory of this job\'s own, as in checkpoint = "state"'
            )
        sources = self._table(document, "sources", "")
        try:
            job = Job(
                name=chosen or "job",
                sources=tuple(self._source(key, item) for key, item in sources.items()),
                query=self._query(self._table(document, "query", "", required=True)),
                sink=self._sink(self._table(document, "sink", "", required=True)),
                checkpoint=self._place(checkpoint or "none"),
                trigger=self._text(document, "trigger", "") or IMMEDIATELY,
                bootstrap_servers=self._servers(document),
                security=self._security(self._table(document, "security", "")),
                spark=self._spark(self._table(document, "spark", "")),
                directory=str(self._directory),
            )
        except JobError as error:
            raise JobError([*self._problems, *error.problems]) from None
        if self._problems:
            raise JobError(self._problems)
        return job

    # ------------------------------------------------------------------ tables

    def _source(self, name: str, table: Any) -> Source:
        where = f"[sources.{name}] "
        if not isinstance(table, Mapping):
            self._problems.append(f"{where}must be a table")
            return Source(name, {})
        made_of = self._text(table, "format", where) or FORMAT
        batch = table.get("batch", False)
        if not isinstance(batch, bool):
            self._problems.append(f"{where}batch must be true or false")
        return Source(
            name,
            self._options(table, SOURCE_KEYS, made_of, where),
            format=made_of,
            batch=batch is True,
            schema=self._text(table, "schema", where),
            select=self._texts(table.get("select", ()), f"{where}select"),
            watermark=self._watermark(table, where),
        )

    def _watermark(self, table: Mapping[str, Any], where: str) -> Watermark | None:
        given = table.get("watermark")
        if given is None:
            return None
        if (
            not isinstance(given, Mapping)
            or set(given) != {"column", "delay"}
            or not all(isinstance(value, str) for value in given.values())
        ):
            self._problems.append(
                f'{where}watermark must be {{ column = "NAME", delay = "1 hour" }}'
            )
            return None
        return Watermark(given["column"], given["delay"])

    def _query(self, table: Mapping[str, Any]) -> Query:
        where = "[query] "
        self._known(table, QUERY_KEYS, where)
        function = table.get("function")
        if not (function is None or isinstance(function, str) or callable(function)):
            self._problems.append(f'{where}function must be "module:name"')
            function = None
        sql = self._text(table, "sql", where)
        file = self._text(table, "sql_file", where)
        if file is not None:
            if sql is not None:
                self._problems.append(f"{where}has both sql and sql_file")
            sql = self._sql_of(file)
        return Query(sql, function, dict(self._table(table, "args", where)))

    def _sql_of(self, file: str) -> str:
        path = self._directory / file
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._problems.append(f"[query] sql_file {path} cannot be read: {reason}")
            return "SELECT"  # anything but empty: one problem is enough

    def _sink(self, table: Mapping[str, Any]) -> Sink:
        where = "[sink] "
        made_of = self._text(table, "format", where) or FORMAT
        key = table.get("key", ())
        keys = (key,) if isinstance(key, str) else key
        return Sink(
            self._options(table, SINK_KEYS, made_of, where),
            format=made_of,
            output_mode=(self._text(table, "output_mode", where) or APPEND).lower(),
            key=self._texts(keys, f"{where}key"),
        )

    def _security(self, table: Mapping[str, Any]) -> dict[str, str]:
        """Return the table as options of the data source: ``ca_file`` is one's ``ca.file``."""
        found: dict[str, str] = {}
        for key, value in table.items():
            if isinstance(value, str) and key.endswith("_file"):
                value = self._place(value)
            try:
                found[OWN_PREFIX + key.replace("_", ".")] = option_text(value)
            except JobError as error:
                self._problems += [f"[security] {key} {problem}" for problem in error.problems]
        return found

    def _spark(self, table: Mapping[str, Any]) -> SparkSettings:
        where = "[spark] "
        self._known(table, SPARK_KEYS, where)
        conf = self._table(table, "conf", where)
        places = {
            key: tuple(map(self._place, self._texts(table.get(key, ()), f"{where}{key}")))
            for key in ("py_files", "archives")
        }
        return SparkSettings(
            master=self._text(table, "master", where),
            deploy_mode=self._text(table, "deploy_mode", where),
            conf={key: option_text(value) for key, value in _flat(conf)},
            log_level=self._text(table, "log_level", where),
            **places,
        )

    # ------------------------------------------------------------------ values

    def _options(
        self, table: Mapping[str, Any], own: Iterable[str], made_of: str, where: str
    ) -> dict[str, str]:
        """Return everything that is not the runner's own, as text."""
        options: dict[str, str] = {}
        for key, value in table.items():
            if key in own:
                continue
            # The data source's options have no underscores, the client's (oncelog.x.y) have dots.
            plain = made_of == FORMAT and "." not in key
            name = key.replace("_", "") if plain else key
            try:
                options[name] = option_text(value)
            except JobError as error:
                self._problems += [f"{where}{key} {problem}" for problem in error.problems]
        return options

    def _known(self, table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
        known = list(keys)
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(key, known, 1)
                hint = (
                    f": did you mean {close[0]!r}?" if close else f": there are {', '.join(known)}"
                )
                self._problems.append(f"{where}{key!r} is not known{hint}")

    def _text(self, table: Mapping[str, Any], key: str, where: str) -> str | None:
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            self._problems.append(f"{where}{key} must be text in quotes")
            return None
        return value

    def _texts(self, value: Any, what: str) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            self._problems.append(f"{what} must be a list of texts")
            return ()
        return tuple(value)

    def _table(
        self, table: Mapping[str, Any], key: str, where: str, *, required: bool = False
    ) -> Mapping[str, Any]:
        value = table.get(key, None if required else {})
        if value is None:
            self._problems.append(f"{where}[{key}] is missing")
            return {}
        if not isinstance(value, Mapping):
            self._problems.append(f"{where}{key} must be a table: [{key}]")
            return {}
        return value

    def _servers(self, document: Mapping[str, Any]) -> str | None:
        value = document.get("bootstrap_servers")
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return ",".join(value)
        return self._text(document, "bootstrap_servers", "")

    def _place(self, path: str) -> str:
        """Return a path or URI; relative ones start at the job's directory."""
        if "://" in path or path.startswith(("/", "file:", "hdfs:")):
            return path
        return str(self._directory.resolve() / path)


def option_text(value: Any) -> str:
    """Return a TOML value as the text of an option: lists have commas, tables are JSON.

    :raises JobError: a value that no option takes.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, Mapping):
        return json.dumps(value, separators=(",", ":"))
    raise JobError([f"has a value that is no option: {value!r}"])


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """``spark.sql.x = 1`` without quotes makes tables of tables: put the names together again."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found
