"""The real sink has gates in it here: a data source named ``oncelog_chaos``, for tests only.

All work is done by the real writer; this one lets it pass the gates of a folder, and fails or kills
task attempts by chance if told to. Points, each named ``<query>.<point>``:

====================  ============================================================================
``write-start``       in a task, before anything is written
``write-middle``      in a task, when half of its rows are handed over
``write-end``         in a task, when all its rows are in the log, before Spark hears of it
``before-commit``     in the driver's commit, before the broker is asked
``after-commit``      in the driver's commit, when the broker has decided; Spark's log does not know
``abort``             in the driver's abort
====================  ============================================================================
"""

from __future__ import annotations

import os
import random
import signal
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pipeline.gates import GateError, Gates

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.types import StructType

FORMAT = "oncelog_chaos"
PREFIX = "chaos."
KILLS = "task-kills"
"""A folder with one empty file for each task attempt that was killed or made to fail."""


def register(spark: SparkSession) -> None:
    """Make the format known to a session; executors import this module by its name."""
    spark.dataSource.register(FaultySink)


def options_of(directory: Path, query: str, fail_part: float = 0.0) -> dict[str, str]:
    """Return what ``writeStream`` is given beside the real sink's options.

    :param fail_part: of the task attempts; they fail, or their process dies, at one of the points.
    """
    return {
        f"{PREFIX}directory": str(directory),
        f"{PREFIX}query": query,
        f"{PREFIX}failpart": str(fail_part),
    }


def task_kills(directory: Path) -> int:
    """Count the task attempts that were killed or made to fail by chance."""
    return sum(1 for _ in (directory / KILLS).glob("*"))


class FaultySink(DataSource):
    """It makes the real data source with its options, less ours."""

    @classmethod
    def name(cls) -> str:
        """Return the format."""
        return FORMAT

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the real writer, between gates."""
        from pyspark_oncelog import DefaultSource

        ours = {k.lower()[len(PREFIX) :]: v for k, v in self.options.items() if _is_ours(k)}
        kept = CaseInsensitiveDict({k: v for k, v in self.options.items() if not _is_ours(k)})
        inner = DefaultSource(kept).streamWriter(schema, overwrite)
        return FaultyWriter(inner, ours)


def _is_ours(key: str) -> bool:
    return key.lower().startswith(PREFIX)


class FaultyWriter(DataSourceStreamArrowWriter):
    """It is pickled with the real writer in it, whose own pickling begins its transaction."""

    def __init__(self, inner: Any, ours: Mapping[str, str]) -> None:
        self._inner = inner
        self._directory = Path(ours["directory"])
        self._query = ours["query"]
        self._fail_part = float(ours["failpart"])

    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        """Write in an executor."""
        context = TaskContext.get()
        assert context is not None
        batch = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        harm = random.SystemRandom()
        unlucky = harm.choice(_POINTS) if harm.random() < self._fail_part else None

        def at(point: str) -> None:
            self._at(point, batch, context.attemptNumber())
            if point == unlucky:
                self._hurt(harm, f"{point}, batch {batch}")

        at("write-start")
        # All input is taken first: what happens to Spark then is no matter to this task.
        rows = _halves(list(iterator), lambda: at("write-middle"))
        try:
            message = self._inner.write(rows)
        except GateError:
            raise
        except Exception as error:
            self._gates.tell(f"{self._query}.write", f"batch {batch}: {error!r}")
            raise
        self._gates.tell(f"{self._query}.wrote", f"batch {batch}: {message!r}")
        at("write-end")
        assert isinstance(message, WriterCommitMessage)
        return message

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit in the driver."""
        self._at("before-commit", batch_id)
        self._inner.commit(messages, batch_id)
        self._at("after-commit", batch_id)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Abort in the driver."""
        self._at("abort", batch_id)
        self._inner.abort(messages, batch_id)

    def _at(self, point: str, batch: int, attempt: int = 0) -> None:
        self._gates.pass_through(f"{self._query}.{point}", batch=batch, attempt=attempt)

    @property
    def _gates(self) -> Gates:
        return Gates(self._directory)

    def _hurt(self, harm: random.SystemRandom, where: str) -> None:
        kills = self._directory / KILLS
        kills.mkdir(parents=True, exist_ok=True)
        (kills / uuid.uuid4().hex).touch()
        if harm.random() < 0.3:
            os.kill(os.getpid(), signal.SIGKILL)
        raise GateError(f"{where}: by chance")


_POINTS = ("write-start", "write-middle", "write-end")


def _halves(batches: list[RecordBatch], in_the_middle: Any) -> Iterator[RecordBatch]:
    """Return the rows in two parts, with a call in between."""
    rows = sum(batch.num_rows for batch in batches)
    passed = 0
    is_behind = rows < 2
    for batch in batches:
        if not is_behind and passed + batch.num_rows > rows // 2:
            cut = rows // 2 - passed
            yield batch.slice(0, cut)
            in_the_middle()
            is_behind = True
            yield batch.slice(cut)
        else:
            yield batch
        passed += batch.num_rows
