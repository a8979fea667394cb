"""PySpark's own cost is shown by a source and a sink that do nothing.

``bench_prebuilt`` hands out record batches that were built once per process, with the columns of a
topic: what is measured is Spark's transfer of them. ``bench_discard`` takes Arrow batches and drops
them. Executors import this module by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

PREBUILT = "bench_prebuilt"
DISCARD = "bench_discard"
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
BATCH_ROWS = 10_000
PARTITIONS = 2


def register(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    spark.dataSource.register(PrebuiltSource)
    spark.dataSource.register(DiscardSink)


@cache
def _batch(rows: int, value_bytes: int) -> Any:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    columns = [
        pa.nulls(rows, pa.binary()),
        pa.array([b"x" * value_bytes] * rows, pa.binary()),
        pa.array(["bench"] * rows, pa.string()),
        pa.array([0] * rows, pa.int32()),
        pa.array(range(rows), pa.int64()),
        pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
        pa.array([[]] * rows, pa.list_(header)),
    ]
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "headers"]
    return pa.RecordBatch.from_arrays(columns, names)


class Rows(InputPartition):
    """One task gets this number of rows."""

    def __init__(self, count: int, value_bytes: int) -> None:
        super().__init__((count, value_bytes))

    def batches(self) -> Iterator[Any]:
        """Yield prebuilt batches."""
        count, value_bytes = self.value
        whole = _batch(BATCH_ROWS, value_bytes)
        for first in range(0, count, BATCH_ROWS):
            yield whole.slice(0, min(BATCH_ROWS, count - first))


class _Prebuilt:
    """Tables and streams of prebuilt rows have this in common."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._rows = int(options["rows"])
        self._value_bytes = int(options["valuebytes"])

    def _shared_out(self, rows: int) -> list[InputPartition]:
        """Return one partition for each core."""
        return [Rows(rows // PARTITIONS, self._value_bytes)] * PARTITIONS

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition, in an executor."""
        assert isinstance(partition, Rows)
        return partition.batches()


class _StubReader(_Prebuilt, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return self._shared_out(self._rows)


class _StreamReader(_Prebuilt, DataSourceStreamReader):
    """Rows come as time goes by: each look finds so many more."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return an offset of nothing yet."""
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        """Return an end that is ``rows`` further."""
        return {"rows": start["rows"] + self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self._shared_out(end["rows"] - start["rows"])


class PrebuiltSource(DataSource):
    """The source has two options: ``rows`` and ``valuebytes``.

    ``rows`` counts all rows of a table, or those of each look at a stream.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return PREBUILT

    def schema(self) -> str:
        """Return the columns of a topic."""
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of a table of ``rows`` rows."""
        return _StubReader(self.options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of ``rows`` more at each look."""
        return _StreamReader(self.options)


class _Dropping:
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Drop the rows, in an executor."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


class _StubWriter(_Dropping, DataSourceArrowWriter):
    """A table's rows are dropped."""


class _StreamWriter(_Dropping, DataSourceStreamArrowWriter):
    """A stream's rows are dropped."""


class DiscardSink(DataSource):
    """The sink has no options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return DISCARD

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer that takes Arrow batches."""
        return _StubWriter()

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: Any, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return a writer that takes Arrow batches."""
        return _StreamWriter()
