"""The whole folder has one Spark session and one cluster of real processes.

A session costs about eight seconds and most of a core, so nobody else starts one: tests that need a
driver of their own (to kill it) start a process.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.processes import Processes
from pyspark_oncelog import connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOMS = Path(__file__).parents[2]

CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.python.worker.reuse": "true",
    # A process that Spark starts has to call back in this time, also on a machine that is busy.
    "spark.python.authenticate.socketTimeout": "120s",
}


@pytest.fixture
def fresh_connections() -> Iterator[None]:
    """This test has its own connections; those of others are none of its brokers'."""
    before = list(connections._here)
    connections._here.clear()
    yield
    for made in connections._here:
        made.stop()
    connections._here[:] = before


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session has two local cores. It finds the source by itself, as a user's does."""
    from pyspark.sql import SparkSession

    # Spark's workers are Python programs: they get what pytest put on this one's path.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = tmp_path_factory.mktemp("spark")
    builder = SparkSession.builder.master("local[2]").appName("oncelog-tests")
    for key, value in CONFIGURATION.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(home / "local"))
    builder = builder.config("spark.sql.warehouse.dir", str(home / "warehouse"))
    with warnings.catch_warnings():
        # py4j and pyspark leave sockets to the collector.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three brokers and a ZooKeeper are started, and ended at the end."""
    running = Processes(tmp_path_factory.mktemp("cluster"))
    running.cluster.start()
    yield running
    running.cluster.stop()
