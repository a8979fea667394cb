"""Oncelog is a source and a sink of Apache Spark: ``spark.readStream.format("oncelog")``.

PySpark looks through every top-level package named ``pyspark_*`` for a ``DefaultSource``, once in a
session, so nothing has to be registered. Rules: importing this package costs nothing and never
fails, for one package that fails takes this way from all others; the class is pickled by its name,
so the package must be installed on the executors too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_oncelog.data_source import DefaultSource

__all__ = ["DefaultSource", "register"]


def register(spark: SparkSession) -> None:
    """Make ``format("oncelog")`` known to ``spark`` by hand.

    Only for sessions that find no sources by themselves: some other ``pyspark_*`` package fails
    when it is imported. Registering twice does no harm.
    """
    from pyspark_oncelog.data_source import DefaultSource

    spark.dataSource.register(DefaultSource)


def __getattr__(name: str) -> Any:
    if name != "DefaultSource":
        raise AttributeError(f"module 'pyspark_oncelog' has no attribute {name!r}")
    from pyspark_oncelog.data_source import DefaultSource

    return DefaultSource
