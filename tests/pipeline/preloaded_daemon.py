"""Spark's Python daemon has imported what its workers need before it forks them.

A worker of the ordinary daemon imports pyarrow, pandas and the data source by itself, which takes
seconds of CPU; tests that start many queries start dozens. Named by ``spark.python.daemon.module``.
"""

from __future__ import annotations

import importlib

PRELOADED = (
    "pyarrow",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.datasource",
    "pyspark.sql.pandas.serializers",
    "oncelog",
    "pyspark_oncelog.data_source",
    "pipeline.faulty_sink",
)


def main() -> None:
    """Import, then serve as the daemon."""
    from pyspark.daemon import manager

    for name in PRELOADED:
        importlib.import_module(name)
    manager()


if __name__ == "__main__":
    main()
