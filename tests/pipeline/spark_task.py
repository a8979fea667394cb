"""A test is a Spark task without Spark: it has the context that an executor gives, and clients end.

The context is PySpark's own object, filled as a worker fills it from what the JVM sends.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_oncelog import connections
from pyspark_oncelog.sink_options import SinkOptions
from pyspark_oncelog.task_identity import BATCH_ID, QUERY_ID, RUN_ID

T = TypeVar("T")

SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", BinaryType())])
QUERY = "4c5f5a4e"
RUN = "run-1"


@contextmanager
def spark_task(
    query_id: str | None = QUERY,
    batch_id: int | None = 0,
    partition: int = 0,
    attempt: int = 0,
    run_id: str | None = RUN,
) -> Iterator[None]:
    """Run a task in here."""
    context = object.__new__(TaskContext)
    context._stageId, context._partitionId = 4, partition
    context._attemptNumber, context._taskAttemptId = attempt, 100 + 10 * partition + attempt
    properties: dict[str, str] = {}
    if query_id is not None:
        properties[QUERY_ID] = query_id
    if batch_id is not None:
        properties[BATCH_ID] = str(batch_id)
    if run_id is not None:
        properties[RUN_ID] = run_id
    context._localProperties = properties
    TaskContext._setTaskContext(context)
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


def rows(*values: bytes | None, keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    """Return one Arrow batch of ``SCHEMA``."""
    given = [None] * len(values) if keys is None else keys
    arrays = [pa.array(given, pa.binary()), pa.array(values, pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["key", "value"])


def sink_options(bootstrap: str, **options: str) -> SinkOptions:
    """Return options of a sink that writes to ``t``, with short deadlines."""
    given = {
        "oncelog.bootstrap.servers": bootstrap,
        "topic": "t",
        "oncelog.max.block.ms": "5000",
        "oncelog.delivery.timeout.ms": "5000",
        "oncelog.request.timeout.ms": "2000",
        **options,
    }
    return SinkOptions.parse(given)


def carried(thing: T) -> T:
    """Return it as it arrives in another process."""
    arrived: T = pickle.loads(pickle.dumps(thing))
    return arrived


async def beside(work: Callable[[], T]) -> T:
    """Run what blocks beside the loop that the fake cluster lives on; its clients end with it."""

    def run() -> T:
        try:
            return work()
        finally:
            _end_clients()

    return await asyncio.to_thread(run)


def _end_clients() -> None:
    here = connections.here()
    clients: list[Any] = [connections.forget(key) for key in list(here._kept)]

    async def close(client: Any) -> None:
        await client.close()

    for client in clients:
        if client is not None:
            connections.call(close, client, timeout_s=10)
    here.stop()
    connections._here.clear()
