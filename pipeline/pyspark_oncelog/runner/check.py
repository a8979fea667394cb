"""A job is checked before it runs; each point is a line, good or bad.

Rules: nothing is changed anywhere. Without ``with_plan`` Spark is not started, so a check takes a
second; with it Spark analyses the query, and the columns of the result are checked too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyspark_oncelog.runner import environment
from pyspark_oncelog.runner.functions import SESSION, arguments_of, find_function
from pyspark_oncelog.runner.job import FORMAT, Job, JobError, Source

if TYPE_CHECKING:
    from oncelog import Admin

T = TypeVar("T")
CLUSTER_DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding is one point of a check."""

    ok: bool
    about: str
    text: str

    def as_line(self) -> str:
        """Return the finding as one line for people."""
        return f"{'ok   ' if self.ok else 'ERROR'}  {self.about:<11}  {self.text}"


def check(job: Job, *, with_plan: bool = False, submitted: bool = False) -> list[Finding]:
    """Look at the machine, the options, the query, the cluster and the checkpoint.

    :param with_plan: start Spark and let it analyse the query.
    :param submitted: Spark will run it by ``spark-submit``.
    """
    found = [*_machine(submitted), *_options(job), *_function(job)]
    found += [*asyncio.run(_cluster(job)), _checkpoint(job)]
    if with_plan and all(finding.ok for finding in found):
        found += _plan(job)
    return found


def _try(about: str, work: Callable[[], str], *errors: type[Exception]) -> Finding:
    try:
        return Finding(True, about, work())
    except errors as error:
        return Finding(False, about, str(error))


def _machine(submitted: bool) -> Iterable[Finding]:
    def java() -> str:
        found = environment.find_java()
        return f"version {found.major}, {found.program}"

    problem = environment.EnvironmentProblem
    yield _try("PySpark", environment.pyspark_version, problem)
    yield _try("Java", java, problem)
    if submitted:
        yield _try("spark-submit", environment.spark_submit, problem)


def _options(job: Job) -> Iterable[Finding]:
    """Check the options by the data source's own parsers, which need no Spark."""
    from pyspark_oncelog.ddl import check_ddl
    from pyspark_oncelog.options import SourceOptions
    from pyspark_oncelog.sink_options import SinkOptions

    for source in job.sources:
        if source.schema is not None:
            yield _options_finding(source.name, partial(check_ddl, "schema"), source.schema)
        if source.format == FORMAT:
            parse = partial(SourceOptions.parse, streaming=not source.batch)
            yield _options_finding(source.name, parse, job.source_options(source))
    if job.sink.format == FORMAT:
        yield _options_finding("sink", SinkOptions.parse, job.sink_options())


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in options.items()}


def _options_finding(about: str, parse: Callable[[T], object], given: T) -> Finding:
    try:
        parse(given)
    except Exception as error:
        return Finding(False, about, str(error) or type(error).__name__)
    return Finding(True, about, "options are understood")


def _function(job: Job) -> Iterable[Finding]:
    if job.query.function is None:
        return

    def work() -> str:
        function = find_function(job)
        arguments = arguments_of(function, {s.name: None for s in job.sources} | {SESSION: None})
        return f"function {getattr(function, '__name__', 'given')}({', '.join(arguments)})"

    yield _try("query", work, JobError)


async def _cluster(job: Job) -> list[Finding]:
    if not job.reads_cluster:
        return []
    if not job.bootstrap_servers:
        return [Finding(False, "cluster", 'no brokers are named: bootstrap_servers = "HOST:PORT"')]
    from oncelog import Admin
    from oncelog.errors import OncelogError
    from pyspark_oncelog.option_values import OptionError
    from pyspark_oncelog.security_options import parse_security

    try:
        found = parse_security(job.security, job.bootstrap_servers)
        security = None if found is None else found.here()
        admin = Admin(job.bootstrap_servers, security=security)
        async with asyncio.timeout(CLUSTER_DEADLINE_S), admin:
            return await _topics(job, admin)
    except TimeoutError:
        text = f"{job.bootstrap_servers} did not answer within {CLUSTER_DEADLINE_S:g} s"
        return [Finding(False, "cluster", text)]
    except (OncelogError, OSError, OptionError) as error:
        return [Finding(False, "cluster", str(error))]


async def _topics(job: Job, admin: Admin) -> list[Finding]:
    there = set(await admin.list_topics())
    found = [Finding(True, "cluster", f"{job.bootstrap_servers} answers")]
    for source in job.sources:
        found += [_topic(topic, source.name, there) for topic in topics_of(source)]
    if job.sink.format == FORMAT:
        named = _lowered(job.sink_options()).get("topic")
        if named:
            found.append(_topic(named, "sink", there))
    return found


def _topic(topic: str, about: str, there: set[str]) -> Finding:
    if topic in there:
        return Finding(True, about, f"topic {topic} is there")
    text = f"there is no topic {topic}. Remedy: oncelog topics create {topic} --partitions N"
    return Finding(False, about, text)


def topics_of(source: Source) -> list[str]:
    """Return the topics that a source names outright; a pattern names none."""
    if source.format != FORMAT:
        return []
    options = _lowered(source.options)
    if "assign" in options:
        try:
            assigned = json.loads(options["assign"])
        except ValueError:
            return []  # the options' own check says so
        return sorted(assigned) if isinstance(assigned, dict) else []
    topics = options.get("subscribe", "")
    return [topic.strip() for topic in topics.split(",") if topic.strip()]


def _checkpoint(job: Job) -> Finding:
    about = "checkpoint"
    place = job.checkpoint.removeprefix("file://")
    if "://" in place:
        return Finding(True, about, f"{job.checkpoint} (not looked at)")
    path = Path(place)
    try:
        metadata = json.loads((path / "metadata").read_text(encoding="utf-8"))
        done = [int(p.name) for p in sorted((path / "commits").iterdir()) if p.name.isdecimal()]
    except FileNotFoundError:
        if path.is_file():
            return Finding(False, about, f"{path} is a file")
        return Finding(True, about, f"{path} is new: the job begins at its starting offsets")
    except (OSError, ValueError) as error:
        return Finding(False, about, f"{path} cannot be read: {error}")
    last = f"after batch {max(done)}" if done else "before its first batch ended"
    return Finding(True, about, f"{path}: query {metadata['id']} goes on {last}")


def _plan(job: Job) -> list[Finding]:
    from pyspark.errors import PySparkException

    from pyspark_oncelog.runner.dataflow import plan
    from pyspark_oncelog.runner.failures import explain
    from pyspark_oncelog.runner.session import make_session

    environment.prepare()
    spark = make_session(job)
    try:
        result = plan(job, spark)
    except (JobError, PySparkException) as error:
        return [Finding(False, "plan", line) for line in explain(error)]
    finally:
        spark.stop()
    columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in result.schema.fields)
    return [Finding(True, "plan", f"the sink gets {columns}")]
