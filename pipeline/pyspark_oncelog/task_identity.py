"""A Spark task finds out for which query and micro-batch it works, and which attempt it is.

Rules: all of it is read from what Spark gives every task, on the executor; on the driver none of it
is known when a write is planned. Two attempts never have the same name. Only for a courtesy is the
query looked up in its checkpoint (``query_of``), where the driver can.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark_oncelog.option_values import OptionError

if TYPE_CHECKING:
    from oncelog import Ticket
    from pyspark_oncelog.sink_options import SinkOptions

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"
"""A query's jobs are one group, named by the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIdentity:
    """``query_id`` and ``batch_id`` are None in a batch job that is no foreachBatch."""

    query_id: str | None
    batch_id: int | None
    run_id: str | None
    stage_id: int
    partition_id: int
    attempt_number: int
    task_attempt_id: int

    @property
    def attempt(self) -> str:
        """Return a name for people who look at a transaction's writers."""
        return (
            f"stage-{self.stage_id}.partition-{self.partition_id}.attempt-{self.attempt_number}"
            f".task-{self.task_attempt_id}"
        )

    @property
    def in_query(self) -> bool:
        """Return whether a streaming query runs this task, by its sink or by foreachBatch."""
        return self.query_id is not None

    def ticket(self, options: SinkOptions, ordinal: int) -> Ticket:
        """Return the ticket for the transaction of this query's batch.

        :raises OptionError: no streaming query runs this task.
        """
        from oncelog import Ticket

        if self.query_id is None or self.batch_id is None:
            raise OptionError(
                "sinkId is for writes in foreachBatch: it tells a micro-batch that is done again,"
                " and here is none. Leave it out"
            )
        return Ticket(
            options.bootstrap_servers,
            transactional_id(self.query_id, options.sink_id),
            ordinal,
            self.batch_id,
            options.transaction_timeout_ms,
        )


def transactional_id(query_id: str, sink_id: str | None) -> str:
    """Return the transactional id of one sink of a query.

    It always has the query's id: another query, or the same one with a new checkpoint, counts its
    batches from 0 again.
    """
    return f"spark-{query_id}" if sink_id is None else f"spark-{query_id}-{sink_id}"


def query_of(checkpoint: str | None) -> str | None:
    """Return the id of the query that keeps its state in a folder which this machine can read.

    It is None when the machine cannot, or nobody knows the folder. Spark writes the file before the
    first batch.
    """
    if checkpoint is None:
        return None
    if checkpoint.startswith("file:"):
        checkpoint = unquote(urlsplit(checkpoint).path)
    try:
        found = json.loads((Path(checkpoint) / "metadata").read_text("utf-8"))["id"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None


def this_task() -> TaskIdentity:
    """Return the task that runs here.

    :raises RuntimeError: none does.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("no Spark task runs here")
    batch_id = context.getLocalProperty(BATCH_ID)
    return TaskIdentity(
        query_id=context.getLocalProperty(QUERY_ID),
        batch_id=None if batch_id is None else int(batch_id),
        run_id=context.getLocalProperty(RUN_ID),
        stage_id=context.stageId(),
        partition_id=context.partitionId(),
        attempt_number=context.attemptNumber(),
        task_attempt_id=context.taskAttemptId(),
    )
