"""Spark asks the data source ``oncelog``, and each part of this package answers some questions.

Rules
-----
* Spark makes this object in many processes and throws it away again: it holds nothing but options,
  and every import that costs is made where it is needed.
* Options are checked when the schema is asked for, which is before anything runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
"""Spark imports it in the process that pushes filters down, and in no other."""


class DefaultSource(DataSource):
    """Topics of Oncelog are tables and streams of Spark, both ways."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` takes."""
        return "oncelog"

    def schema(self) -> str:
        """Return the columns of the source, as DDL.

        :raises OptionError: an option is missing, wrong, or not for this source.
        """
        from pyspark_oncelog.options import SourceOptions, names_a_source
        from pyspark_oncelog.schema import source_ddl

        # A table that is only written to has the schema of the data that is written: Spark asks
        # for one all the same (``CREATE TABLE ... USING oncelog``).
        parsed = SourceOptions.parse(self.options) if names_a_source(self.options) else None
        return source_ddl(parsed)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the source of one batch query."""
        from pyspark_oncelog.batch_reader import BatchReader, PushdownReader
        from pyspark_oncelog.options import SourceOptions

        # A reader that takes filters is refused where the session does not push any, and Spark does
        # not say whether it does.
        kind = PushdownReader if PUSHDOWN_WORKER in sys.modules else BatchReader
        return kind(SourceOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the source of one streaming query."""
        from pyspark_oncelog.options import SourceOptions
        from pyspark_oncelog.stream_reader import StreamReader

        return StreamReader(SourceOptions.parse(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the sink of one batch query."""
        from pyspark_oncelog.batch_writer import BatchWriter
        from pyspark_oncelog.sink_options import SinkOptions

        return BatchWriter(SinkOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Make the sink of one micro-batch."""
        from pyspark_oncelog.sink_options import SinkOptions
        from pyspark_oncelog.stream_writer import StreamWriter

        return StreamWriter(SinkOptions.parse(self.options), schema, overwrite)
