"""The streaming sink: every micro-batch is one shared transaction, committed once.

The transactional id is the query's id (with the option ``sinkId``, if given, behind it) and the tag
is the number of the micro-batch, so that a batch that Spark replays after a crash is known again.

Rules
-----
* Spark makes this object anew for every step, in other processes. What one step knows reaches the
  next in what Spark carries: this object, pickled for the tasks, and their messages for the commit.
* The driver asks for an ordinal when the tasks get this object, before any of them runs: an attempt
  that an older run left behind has a smaller one, and the broker refuses it. The process that
  commits asks for none.
* Which query and which batch it is, only tasks can see; the first of them binds the ordinal.
* A commit names its winners: the attempts whose messages Spark has chosen. What other attempts
  wrote becomes invisible in the same moment.
* A commit that is repeated changes nothing, nor does an abort after it: Spark aborts when the
  answer to a commit was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_oncelog.commit_message import count_rows, transaction_of
from pyspark_oncelog.sink_schema import layout_of
from pyspark_oncelog.sink_transaction import abort, abort_planned, commit, planned
from pyspark_oncelog.task_identity import query_of, this_task, transactional_id

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyspark_oncelog.sink_options import SinkOptions

logger = logging.getLogger(__name__)


class StreamWriter(DataSourceStreamArrowWriter):
    """A stream writer handles one micro-batch, in one of its steps.

    :param overwrite: output mode "complete", whose whole result is appended every time: a log
        has nothing to replace.
    :raises SinkSchemaError: the data frame cannot be written as records.
    """

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool = False) -> None:
        self._options = options
        self._layout = layout_of(
            schema, topic=options.topic, include_headers=options.include_headers
        )
        self._ordinal: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for the tasks. Spark pickles twice; the ordinal is the same.

        :raises NoBrokersAvailableError, DeadlineExceededError: nobody gave one in time.
        """
        if self._options.exactly_once and self._ordinal is None:
            self._ordinal = planned(self._options)
        return self.__dict__.copy()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one attempt at a task, on an executor.

        :raises OncelogError: another attempt may do better; of fencing, none will.
        """
        from pyspark_oncelog.task_writer import write_at_once, write_in_transaction

        if not self._options.exactly_once:
            return write_at_once(iterator, self._options, self._layout)
        assert self._ordinal is not None
        task = this_task()
        ticket = task.ticket(self._options, self._ordinal)
        return write_in_transaction(
            iterator, self._options, self._layout, ticket, attempt=task.attempt
        )

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Make the batch visible, all at once; the driver calls this.

        :raises ProducerFencedError: a newer run of the query has taken over, or the transaction was
            aborted by its time-out: the query fails, and its restart does the batch again.
        :raises TransactionOutcomeUnknownError: nobody answered in time; the restart finds out.
        """
        found = transaction_of(messages)
        if found is None:
            return
        ticket, receipts = found
        if ticket.tag != batch_id:
            raise RuntimeError(f"the tasks wrote batch {ticket.tag}, Spark commits {batch_id}")
        commit(self._options, ticket, receipts)
        logger.info("batch %d: %d rows committed", batch_id, count_rows(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Make the batch invisible, unless it is committed; the driver calls this.

        Where no task could tell its ticket, the checkpoint tells the query; else the next run or
        the time-out ends it. Only what this driver has planned is ended, and what is older: see
        ``driver_notes``.
        """
        found = transaction_of(messages)
        if found is not None:
            abort(self._options, found[0])
            return
        query_id = query_of(self._options.checkpoint)
        tasks_wrote = any(message is None for message in messages)
        if self._options.exactly_once and tasks_wrote and query_id is not None:
            name = transactional_id(query_id, self._options.sink_id)
            abort_planned(self._options, name, batch_id)
