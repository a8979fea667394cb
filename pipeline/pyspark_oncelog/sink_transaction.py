"""The driver owns a sink's transaction: it begins it, commits it and aborts it.

Rules: every call has a deadline and goes over connections that this process keeps. What is decided
stays decided, so that each may be repeated; a lost answer harms nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark_oncelog import driver_notes
from pyspark_oncelog.sink_options import SinkOptions

if TYPE_CHECKING:
    from oncelog import Receipt, SharedTransaction, Ticket

logger = logging.getLogger(__name__)

BEGIN_TIMEOUT_S = 60.0
END_TIMEOUT_S = 120.0
PLANNED = "planned"
"""The kind of note that holds a micro-batch's ordinal."""
SLACK_S = 10.0
"""The client gives up before the call does: its error says more."""


def begin(options: SinkOptions) -> int:
    """Return an ordinal, greater than all that were given before in the cluster.

    :raises NoBrokersAvailableError, DeadlineExceededError: nobody gave one in time.
    """
    from pyspark_oncelog import connections

    return connections.call(_next_ordinal, options, timeout_s=BEGIN_TIMEOUT_S + SLACK_S)


def commit(options: SinkOptions, ticket: Ticket, receipts: Sequence[Receipt]) -> None:
    """Make what the winners wrote visible; may be repeated.

    :raises ProducerFencedError: a newer run has taken over, or the transaction was aborted.
    :raises TransactionOutcomeUnknownError: nobody answered in time.
    """
    from oncelog.errors import ProducerFencedError
    from pyspark_oncelog import connections

    try:
        connections.call(_commit, options, ticket, receipts, timeout_s=END_TIMEOUT_S + SLACK_S)
    except ProducerFencedError as error:
        error.add_note(
            f"{ticket.transactional_id}, batch {ticket.tag}: another run of this query has taken"
            f" over, or the batch took longer than transactionTimeoutMs={ticket.timeout_ms} and was"
            " aborted. Nothing of it is visible; a restart does it again."
        )
        raise


def abort(options: SinkOptions, ticket: Ticket) -> None:
    """Make everything invisible, unless it is committed. Only a courtesy to readers, which need not
    wait for the time-out: failures are logged, as Spark has an error of its own to tell."""
    from oncelog.errors import OncelogError, ProducerFencedError
    from pyspark_oncelog import connections

    try:
        end = connections.call(_abort, options, ticket, timeout_s=END_TIMEOUT_S + SLACK_S)
    except ProducerFencedError:
        return  # a newer run has aborted it
    except (OncelogError, OSError, TimeoutError) as error:
        logger.warning("%s, batch %d: not aborted: %s", ticket.transactional_id, ticket.tag, error)
        return
    if end:
        logger.info("%s: batch %d is committed", ticket.transactional_id, ticket.tag)


def planned(options: SinkOptions) -> int:
    """Return the ordinal of a planned micro-batch, and note it for the process that may abort it.

    :raises NoBrokersAvailableError, DeadlineExceededError: nobody gave one in time.
    """
    ordinal = begin(options)
    driver_notes.leave(PLANNED, _sink(options), ordinal)
    return ordinal


def abort_planned(options: SinkOptions, transactional_id: str, tag: int) -> None:
    """Make invisible what is open under this id, when no task has told its ticket: with the ordinal
    that this driver has planned the batch with. A newer driver's batch, which has a greater one, is
    left alone; without a note nothing is done. Failures are logged."""
    from oncelog import Ticket

    ordinal = driver_notes.find(PLANNED, _sink(options))
    if ordinal is not None:
        abort(options, Ticket(options.bootstrap_servers, transactional_id, ordinal, tag))


def _sink(options: SinkOptions) -> tuple[str | None, ...]:
    """Return what identifies a sink within one driver, as all of its processes can tell it."""
    return options.bootstrap_servers, options.checkpoint, options.sink_id


# ------------------------------------------------------------------------------ on the loop


async def _next_ordinal(options: SinkOptions) -> int:
    from oncelog import SharedTransaction
    from pyspark_oncelog import connections

    admin = await connections.started_admin(options)
    return await SharedTransaction.next_ordinal(
        bootstrap_servers=options.bootstrap_servers,
        over=admin,
        max_block_ms=int(BEGIN_TIMEOUT_S * 1000),
    )


async def _commit(options: SinkOptions, ticket: Ticket, receipts: Sequence[Receipt]) -> None:
    await (await _owner(options, ticket)).commit(receipts)


async def _abort(options: SinkOptions, ticket: Ticket) -> bool:
    """Abort the transaction; return whether it is committed."""
    return (await (await _owner(options, ticket)).abort()).committed


async def _owner(options: SinkOptions, ticket: Ticket) -> SharedTransaction:
    from oncelog import SharedTransaction
    from pyspark_oncelog import connections

    admin = await connections.started_admin(options)
    return SharedTransaction(ticket, over=admin, max_block_ms=int(END_TIMEOUT_S * 1000))
