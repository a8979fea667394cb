"""The producer's calls send in a transaction, and only while it is open."""

from __future__ import annotations

import pytest

from oncelog.errors import NoTransactionError
from oncelog.producer.transactions.sending import Sending
from oncelog.producer.transactions.transaction import Transaction
from support.fake_cluster import values_of
from support.transactional import started


async def send_by_all(sending: Sending) -> None:
    await sending.send("t", b"sent", partition=0)
    await sending.enqueue("t", b"enqueued", partition=0)
    sending.send_nowait("t", b"at once", partition=0)
    await sending.send_many("t", [b"many"], partition=0)
    await sending.enqueue_many("t", [b"in line"], partition=0)
    await sending.flush()


async def test_all_of_them_write_in_order() -> None:
    async with started() as (cluster, producer):
        async with producer.transaction() as block:
            await send_by_all(block)
        assert values_of(cluster, "t")[0] == [b"sent", b"enqueued", b"at once", b"many", b"in line"]


async def refuses_all(block: Transaction) -> None:
    for call in (
        block.send("t", b""),
        block.enqueue("t", b""),
        block.send_many("t", [b""]),
        block.enqueue_many("t", [b""]),
        block.flush(),
    ):
        with pytest.raises(NoTransactionError):
            await call
    with pytest.raises(NoTransactionError):
        block.send_nowait("t", b"")


async def test_none_of_them_after_the_end_even_in_the_next_transaction() -> None:
    async with started() as (_, producer):
        async with producer.transaction() as block:
            await block.send("t", b"sent")
        async with producer.transaction():
            await refuses_all(block)
