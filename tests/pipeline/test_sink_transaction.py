"""The owner's side on the driver: lost answers, repeats, and aborts that come too late."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oncelog import Receipt, Ticket
from oncelog.errors import (
    DeadlineExceededError,
    NoBrokersAvailableError,
    NotCoordinatorError,
    ProducerFencedError,
)
from oncelog_protocol.messages.base import ApiKey
from pipeline.spark_task import SCHEMA, beside, rows, sink_options
from pyspark_oncelog.sink_schema import layout_of
from pyspark_oncelog.sink_transaction import abort, abort_planned, begin, commit
from pyspark_oncelog.task_writer import write_in_transaction
from support.fake_cluster import Action, FakeCluster, committed_of

LAYOUT = layout_of(SCHEMA, topic="t")


def end(cluster: FakeCluster, ticket: Ticket, receipts: Sequence[Receipt]) -> None:
    commit(sink_options(cluster.bootstrap), ticket, receipts)


def give_up(cluster: FakeCluster, ticket: Ticket) -> None:
    abort(sink_options(cluster.bootstrap), ticket)


def write(cluster: FakeCluster, value: bytes, tag: int = 0) -> tuple[Ticket, list[Receipt]]:
    options = sink_options(cluster.bootstrap)
    ticket = Ticket(cluster.bootstrap, "spark-q", begin(options), tag)
    message = write_in_transaction([rows(value)], options, LAYOUT, ticket, attempt="w")
    assert message.receipt is not None
    return ticket, [Receipt.from_json(message.receipt)]


async def test_a_lost_answer_to_a_commit_harms_nothing() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            written = write(cluster, b"v")
            cluster.rule(ApiKey.END_SHARED_TXN, Action.DROP_AFTER)
            end(cluster, *written)
            end(cluster, *written)
            give_up(cluster, written[0])
            cluster.rule(ApiKey.END_SHARED_TXN, Action.ERROR, error=NotCoordinatorError)
            end(cluster, *write(cluster, b"w", 1))

        await beside(work)
        assert committed_of(cluster, "t") == [b"v", b"w"]


async def test_an_abort_makes_invisible_and_is_repeated_at_will() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")

        def work() -> None:
            ticket, receipts = write(cluster, b"aborted")
            give_up(cluster, ticket)
            give_up(cluster, ticket)
            with pytest.raises(ProducerFencedError) as caught:
                end(cluster, ticket, receipts)
            assert "transactionTimeoutMs" in "".join(caught.value.__notes__)
            end(cluster, *write(cluster, b"again"))
            give_up(cluster, ticket)  # somebody else's by now

        await beside(work)
        assert committed_of(cluster, "t") == [b"again"]


async def test_an_abort_that_fails_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        nobody = sink_options("127.0.0.1:1")
        abort(nobody, Ticket("127.0.0.1:1", "spark-q", 1, 0))
        with pytest.raises((NoBrokersAvailableError, DeadlineExceededError)):
            begin(nobody)
        abort_planned(nobody, "spark-r", 4)  # nothing was planned

    await beside(work)
    assert "spark-q, batch 0: not aborted" in caplog.text
    assert "spark-r" not in caplog.text
