"""A batch is written in one shared transaction; in foreachBatch it is the micro-batch's.

Rules
-----
* The rows of a batch job become visible all at once or not at all. A job that is run again writes
  again: nothing but its author knows whether that is a repetition. Its transaction has an id of its
  own and the last of all tags, after which nothing is ever committed under the id, so that brokers
  may forget it.
* A write in foreachBatch is repeated by Spark after a crash, and is exactly once by the option
  ``sinkId``, which tells it from the other writes of the same micro-batch. Without it such a write
  is refused, rather than doubled in silence. So is a second write under the same name.
* Only tasks can see which of both it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_oncelog import driver_notes
from pyspark_oncelog.commit_message import TaskMessage, transaction_of
from pyspark_oncelog.option_values import OptionError
from pyspark_oncelog.sink_schema import layout_of
from pyspark_oncelog.sink_transaction import abort, begin, commit
from pyspark_oncelog.task_identity import this_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from oncelog import Ticket
    from pyspark_oncelog.sink_options import SinkOptions


COMMITTED = "committed"
"""The kind of note that holds the last batch of a sink in foreachBatch, and its run."""


class SinkIdTwiceError(RuntimeError):
    """Two writes of one foreachBatch function have the same ``sinkId``."""


class BatchWriter(DataSourceArrowWriter):
    """The writer handles one write of a data frame.

    :raises SinkSchemaError: the data frame cannot be written as records.
    :raises OptionError: ``overwrite``, which a log cannot do.
    """

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool = False) -> None:
        if overwrite:
            raise OptionError(
                "a log only grows: use mode('append'), and delete the topic first"
                " if it shall begin anew"
            )
        self._options = options
        self._layout = layout_of(
            schema, topic=options.topic, include_headers=options.include_headers
        )
        self._job_id = f"spark-batch-{uuid.uuid4().hex}"
        self._ordinal: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for the tasks and for the commit, which get the same object.

        :raises NoBrokersAvailableError, DeadlineExceededError: nobody gave an ordinal in time.
        """
        if self._options.exactly_once and self._ordinal is None:
            self._ordinal = begin(self._options)
        return self.__dict__.copy()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one attempt at a task, on an executor.

        :raises OncelogError: another attempt may do better; of fencing, none will.
        :raises OptionError: in foreachBatch without ``sinkId``, or elsewhere with it.
        """
        from pyspark_oncelog.task_writer import write_at_once, write_in_transaction

        if not self._options.exactly_once:
            return write_at_once(iterator, self._options, self._layout)
        task = this_task()
        if self._options.sink_id is not None:
            assert self._ordinal is not None
            ticket = task.ticket(self._options, self._ordinal)
        elif task.in_query:
            raise OptionError(
                "a write in foreachBatch needs .option('sinkId', name), another name for each write"
                " of the function, so that a micro-batch that is done again is known; or"
                " deliveryGuarantee=at-least-once, if it may be doubled then"
            )
        else:
            ticket = self._own_ticket()
        message = write_in_transaction(
            iterator, self._options, self._layout, ticket, attempt=task.attempt
        )
        return replace(message, run_id=task.run_id)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows visible, all at once; the driver calls this.

        :raises ProducerFencedError: the transaction was aborted by its time-out, or in foreachBatch
            a newer run of the query has taken over.
        :raises TransactionOutcomeUnknownError: nobody answered in time.
        :raises SinkIdTwiceError: another write of this micro-batch has the same ``sinkId``.
        """
        self._check_is_repetition(messages)
        found = transaction_of(messages)
        if found is None:
            return
        commit(self._options, *found)
        run_ids = {message.run_id for message in messages if isinstance(message, TaskMessage)}
        if self._options.sink_id is not None:
            ticket = found[0]
            driver_notes.leave(COMMITTED, (ticket.transactional_id,), [ticket.tag, *run_ids])

    def _check_is_repetition(self, messages: list[WriterCommitMessage | None]) -> None:
        """A batch that is committed already is done again after a crash, by another run of the
        query. In the same run it is another write with the same name.

        :raises SinkIdTwiceError: it is one.
        """
        from oncelog import Ticket

        for message in messages:
            if not isinstance(message, TaskMessage) or message.repeats is None:
                continue
            ticket = Ticket.from_json(message.repeats)
            noted = driver_notes.find(COMMITTED, (ticket.transactional_id,))
            if message.run_id is not None and noted == [ticket.tag, message.run_id]:
                raise SinkIdTwiceError(
                    f"two writes of one micro-batch have sinkId={self._options.sink_id!r}: the"
                    " first one is committed, the rows of the second are not written. Give each"
                    " write of the foreachBatch function a sinkId of its own"
                )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make the rows invisible, unless they are committed; the driver calls this."""
        found = transaction_of(messages)
        if found is not None:
            abort(self._options, found[0])
        elif self._options.exactly_once and self._options.sink_id is None:
            abort(self._options, self._own_ticket())  # no task got so far as to say that it wrote

    def _own_ticket(self) -> Ticket:
        from oncelog import Ticket
        from oncelog.shared_transactions.transaction import LAST_TAG

        assert self._ordinal is not None
        options = self._options
        return Ticket(
            options.bootstrap_servers,
            self._job_id,
            self._ordinal,
            LAST_TAG,
            options.transaction_timeout_ms,
        )
