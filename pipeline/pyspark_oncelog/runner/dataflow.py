"""A job as a running query: sources become views, the query a data frame, the sink takes it.

Rules
-----
* A result with a column ``value`` is written as it is. Any other becomes one: ``value`` is the
  row as JSON, ``key`` the columns that ``[sink] key`` names (text for one, JSON for several).
* ``headers`` that may be NULL become empty ones: a NULL array costs Spark's writer time that grows
  with the square of the batch.
* Output mode ``update`` goes through ``foreachBatch``, as Python sinks know no such mode; a sink
  id keeps it exactly once.
* Records of which something did not fit its schema are counted where they come in; the view that
  the query sees has no such column.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark_oncelog.runner.functions import SESSION, arguments_of, find_function, module_file
from pyspark_oncelog.runner.job import FORMAT, UPDATE, Job, JobError, Source
from pyspark_oncelog.runner.summary import MISFITS
from pyspark_oncelog.schema import MISFIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

VALUE = "value"
KEY = "key"
HEADERS = "headers"
SINK_ID = "updates"
"""The id tells this write from others of a foreachBatch; the query's id comes with it."""


def start(job: Job, spark: SparkSession) -> StreamingQuery:
    """Start the job's query in a session, and return it while it runs.

    :raises JobError: the query or its result does not fit.
    """
    result = plan(job, spark)
    writer = result.writeStream.queryName(job.name).option("checkpointLocation", job.checkpoint)
    if arguments := job.trigger_arguments():
        writer = writer.trigger(**arguments)
    if job.sink.output_mode == UPDATE:
        return _start_updates(job, writer)
    writer = writer.format(job.sink.format).outputMode(job.sink.output_mode)
    return writer.options(**job.sink_options()).start()


def plan(job: Job, spark: SparkSession) -> DataFrame:
    """Return the data frame that goes to the sink; Spark has analysed it, nothing runs.

    :raises JobError: as :func:`start`.
    """
    file = module_file(job)
    if file is not None:
        spark.sparkContext.addPyFile(str(file))
    frames = {source.name: read(job, source, spark) for source in job.sources}
    result = _result(job, frames, spark)
    if not result.isStreaming:
        raise JobError(["[query] the result has no stream in it: use one of the sources"])
    return outgoing(job, result) if job.sink.format == FORMAT else result


def read(job: Job, source: Source, spark: SparkSession) -> DataFrame:
    """Return one source as a data frame with its columns and its watermark."""
    reader: Any = spark.read if source.batch else spark.readStream
    reader = reader.format(source.format).options(**job.source_options(source))
    counted = _counts_misfits(job, source)
    if source.schema is not None:
        reader = reader.schema(f"{source.schema}, {MISFIT} STRING" if counted else source.schema)
    elif counted:
        reader = reader.option("includeMisfits", "true")
    frame: DataFrame = reader.load()
    if counted:
        frame = _counting(frame, source.name)
    if source.select:
        frame = frame.selectExpr(*source.select)
    if source.watermark is not None:
        _require(frame, [source.watermark.column], f"[sources.{source.name}] watermark")
        frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
    return frame


def _counts_misfits(job: Job, source: Source) -> bool:
    """Return whether the source decodes, and the user does not look at what did not fit."""
    if source.format != FORMAT:
        return False
    given = {name.lower(): value.lower() for name, value in job.source_options(source).items()}
    decodes = {given.get("keyformat"), given.get("valueformat")} & {"string", "json"}
    permissive = given.get("decodemode", "permissive") == "permissive"
    shown = given.get("includemisfits") == "true" or MISFIT in (source.schema or "")
    return bool(decodes) and permissive and not shown


def _counting(frame: DataFrame, name: str) -> DataFrame:
    """Spark counts the records that did not fit, and reports them with the query's progress."""
    from pyspark.sql import functions

    misfit = functions.col(MISFIT)
    counted = [functions.count(misfit).alias("records"), functions.min(misfit).alias("first")]
    return frame.observe(f"{MISFITS}{name}", *counted).drop(MISFIT)


def _result(job: Job, frames: dict[str, DataFrame], spark: SparkSession) -> DataFrame:
    if job.query.sql is not None:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        answer: DataFrame = spark.sql(job.query.sql, args=dict(job.query.args) or None)
        return answer
    function = find_function(job)
    result = function(**arguments_of(function, {**frames, SESSION: spark}))
    if not hasattr(result, "writeStream"):
        raise JobError([f"[query] the function returned {type(result).__name__}, no data frame"])
    made: DataFrame = result
    return made


def outgoing(job: Job, frame: DataFrame) -> DataFrame:
    """Return a data frame with the columns that a topic takes.

    :raises JobError: ``[sink] key`` names columns that are not there, or there is a key already.
    """
    from pyspark.sql import functions

    keys = job.sink.key
    if keys:
        _require(frame, keys, "[sink] key")
        if KEY in frame.columns and keys != (KEY,):
            raise JobError(["[sink] key is set, and the result has a column 'key' as well"])
    if VALUE not in frame.columns:
        packed = [_key(keys).alias(KEY)] if keys else []
        return frame.select(*packed, _json_of(frame.columns).alias(VALUE))
    if keys and keys != (KEY,):
        frame = frame.withColumn(KEY, _key(keys))
        frame = frame.drop(*(name for name in keys if name not in (KEY, VALUE)))
    if HEADERS in frame.columns:
        empty = functions.array().cast(frame.schema[HEADERS].dataType)
        frame = frame.withColumn(HEADERS, functions.coalesce(functions.col(HEADERS), empty))
    return frame


def _key(names: tuple[str, ...]) -> Any:
    from pyspark.sql import functions

    return functions.col(f"`{names[0]}`").cast("string") if len(names) == 1 else _json_of(names)


def _json_of(names: Iterable[str]) -> Any:
    from pyspark.sql import functions

    return functions.to_json(functions.struct(*(functions.col(f"`{name}`") for name in names)))


def _require(frame: DataFrame, names: Any, what: str) -> None:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        there = ", ".join(frame.columns)
        raise JobError([f"{what} {name!r}: no such column; there are {there}" for name in missing])


def _start_updates(job: Job, writer: DataStreamWriter) -> StreamingQuery:
    options = job.sink_options()
    if not any(name.lower() == "sinkid" for name in options):
        options["sinkId"] = SINK_ID

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.write.format(FORMAT).options(**options).mode("append").save()

    return writer.outputMode(UPDATE).foreachBatch(write).start()
