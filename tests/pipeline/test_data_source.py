"""Spark's workers see the data source like this."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import pyspark_oncelog
from pyspark_oncelog.batch_reader import BatchReader, PushdownReader
from pyspark_oncelog.data_source import PUSHDOWN_WORKER, DefaultSource
from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.stream_reader import StreamReader

OPTIONS = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}
VALUE = StructType([StructField("value", BinaryType())])


def test_it_is_found_by_name() -> None:
    assert pyspark_oncelog.DefaultSource is DefaultSource
    assert DefaultSource.name() == "oncelog"
    assert pickle.loads(pickle.dumps(DefaultSource)) is DefaultSource
    with pytest.raises(AttributeError, match="Nothing"):
        _ = pyspark_oncelog.Nothing


def test_importing_the_package_is_light() -> None:
    """It is imported in each PySpark session, also in those that never use it."""
    program = (
        "import sys, pyspark_oncelog\n"
        "heavy = {'pyspark', 'pyarrow', 'oncelog', 'asyncio'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)


def test_the_schema_needs_no_broker() -> None:
    assert DefaultSource(OPTIONS).schema().startswith("key BINARY")
    assert "headers" in DefaultSource({"topic": "out"}).schema()
    with pytest.raises(OptionError):
        DefaultSource({"subscribe": "t"}).schema()


def test_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, PUSHDOWN_WORKER, raising=False)
    source = DefaultSource(OPTIONS)
    assert type(source.reader(VALUE)) is BatchReader
    assert type(source.streamReader(VALUE)) is StreamReader
    # Spark refuses a reader that takes filters in a session that pushes none.
    monkeypatch.setitem(sys.modules, PUSHDOWN_WORKER, sys)
    assert type(source.reader(VALUE)) is PushdownReader


def test_what_only_one_kind_of_query_may_be_told() -> None:
    with pytest.raises(OptionError, match="would find nothing"):
        DefaultSource(OPTIONS | {"startingOffsets": "latest"}).reader(VALUE)
    with pytest.raises(OptionError, match="a stream has no end"):
        DefaultSource(OPTIONS | {"endingOffsets": "latest"}).streamReader(VALUE)


def test_readers_travel() -> None:
    source = DefaultSource(OPTIONS)
    for reader in (source.reader(VALUE), source.streamReader(VALUE)):
        assert type(pickle.loads(pickle.dumps(reader))) is type(reader)
