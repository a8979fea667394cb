"""Shared transactions, the owner's side: tickets, winners, tags, repeats, unknown ends."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from oncelog import Admin, Receipt, SharedTransaction, Ticket, join
from oncelog.errors import (
    ConfigurationError,
    DeadlineExceededError,
    InvalidRequestError,
    InvalidTxnStateError,
    NoBrokersAvailableError,
    ProducerFencedError,
    TransactionAlreadyCommittedError,
    TransactionOutcomeUnknownError,
)
from oncelog_protocol.errors import CoordinatorNotAvailableError, NotCoordinatorError
from oncelog_protocol.messages.base import ApiKey
from oncelog_runtime.entropy import SeededEntropy
from support.fake_cluster import Action, FakeCluster, committed_of
from support.histories import ListHistory
from support.waiting import eventually

ID = "etl"


async def begin(cluster: FakeCluster, tag: int = 0, **options: Any) -> SharedTransaction:
    given: dict[str, Any] = {"max_block_ms": 3_000, "entropy": SeededEntropy(1), **options}
    return await SharedTransaction.begin(
        bootstrap_servers=cluster.bootstrap, transactional_id=ID, tag=tag, **given
    )


async def write(ticket: Ticket, name: str, *values: bytes, **options: Any) -> Receipt:
    writer = await join(ticket, writer=name, linger_ms=0, entropy=SeededEntropy(2), **options)
    async with writer:
        for value in values:
            await writer.enqueue("t", value)
    return writer.receipt


async def test_winners_are_seen_all_at_once_and_nobody_else_ever() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t", 3)
        txn = await begin(cluster)
        receipts = [
            await write(txn.ticket, f"part-{number}", b"%d" % number, b"%d" % number)
            for number in range(4)
        ]
        await write(txn.ticket, "part-2-again", b"loser")
        assert committed_of(cluster, "t") == []
        assert await txn.commit(receipts) == (True, False)
        assert sorted(map(str, committed_of(cluster, "t"))) == sorted(
            str(b"%d" % number) for number in range(4) for _ in range(2)
        )
        assert await txn.commit(receipts) == (True, True)
        assert await txn.abort() == (True, True), "an abort of what is committed changes nothing"


async def test_tickets_and_receipts_travel() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        ticket = (await begin(cluster, 5)).ticket
        assert (ticket.tag, ticket.transactional_id, ticket.timeout_ms) == (5, ID, 60_000)
        for made in (pickle.loads(pickle.dumps(ticket)), Ticket.from_json(ticket.to_json())):
            assert made == ticket
        receipt = await write(ticket, "w", b"v")
        assert pickle.loads(pickle.dumps(receipt)) == Receipt.from_json(receipt.to_json())
        other = SharedTransaction(Ticket.from_json(ticket.to_json()))
        assert (await other.commit([receipt])).committed
        assert committed_of(cluster, "t") == [b"v"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"writer": 1}', '{"tag": 1, "ordinal": 2}']
)
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not a ticket"):
        Ticket.from_json(text)


@pytest.mark.parametrize(
    "changed",
    [
        {"tag": -1},
        {"tag": "1"},
        {"transactional_id": ""},
        {"timeout_ms": 0},
        {"transactional_id": "__ordinals"},
        {"transactional_id": None},
    ],
)
def test_tickets_are_checked(changed: dict[str, Any]) -> None:
    given = {"bootstrap_servers": "h", "transactional_id": ID, "ordinal": 1, "tag": 1}
    with pytest.raises(ConfigurationError):
        Ticket(**{**given, **changed})


async def test_a_committed_tag_is_never_committed_again() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster, 3)
        await txn.commit([await write(txn.ticket, "w", b"v")])
        for tag in (3, 2):
            again = await begin(cluster, tag)
            with pytest.raises(TransactionAlreadyCommittedError):
                await write(again.ticket, "w", b"again")
        following = await begin(cluster, 4)
        await following.commit([await write(following.ticket, "w", b"w")])
        assert committed_of(cluster, "t") == [b"v", b"w"]


async def test_a_newer_owner_fences() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        old, new = await begin(cluster), await begin(cluster)
        assert new.ticket.ordinal > old.ticket.ordinal
        receipt = await write(old.ticket, "w", b"old")
        await write(new.ticket, "w", b"new")
        with pytest.raises(ProducerFencedError):
            await old.commit([receipt])
        with pytest.raises(ProducerFencedError):
            await write(old.ticket, "x", b"old")
        assert committed_of(cluster, "t") == []


async def test_what_cannot_be_committed() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster)
        with pytest.raises(InvalidTxnStateError):
            await txn.commit([])
        await write(txn.ticket, "w", b"v")
        with pytest.raises(InvalidRequestError):
            await txn.commit([Receipt("nobody", 1)])
        with pytest.raises(TypeError):
            await txn.commit(["w"])  # type: ignore[list-item]
        await txn.commit([])
        assert committed_of(cluster, "t") == []


async def test_leaving_without_a_commit_aborts() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with await begin(cluster) as txn:
            receipt = await write(txn.ticket, "w", b"v")
        with pytest.raises(ProducerFencedError):
            await txn.commit([receipt])
        async with await begin(cluster) as txn:
            await txn.commit([await write(txn.ticket, "w", b"w")])
        assert committed_of(cluster, "t") == [b"w"]

        async def work() -> None:
            async with await begin(cluster, 7):
                cluster.rule(ApiKey.END_SHARED_TXN, Action.ERROR, error=InvalidRequestError)
                raise KeyError

        with pytest.raises(KeyError):
            await work()


async def test_ends_are_asked_for_until_they_are_answered() -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster)
        receipt = await write(txn.ticket, "w", b"v")
        cluster.rule(ApiKey.END_SHARED_TXN, Action.ERROR, error=NotCoordinatorError)
        cluster.rule(ApiKey.END_SHARED_TXN, Action.DROP_AFTER)
        assert await txn.commit([receipt]) == (True, True)


async def test_nobody_answers() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        txn = await begin(cluster, max_block_ms=300)
        receipt = await write(txn.ticket, "w", b"v")
        cluster.rule(ApiKey.END_SHARED_TXN, Action.DROP_AFTER, times=10**6)
        with pytest.raises(TransactionOutcomeUnknownError):
            await txn.commit([receipt])
        cluster.rules.clear()
        rule = {"error": CoordinatorNotAvailableError, "times": 10**6}
        cluster.rule(ApiKey.END_SHARED_TXN, Action.ERROR, **rule)
        with pytest.raises(DeadlineExceededError):
            await txn.commit([receipt])
        cluster.rules.clear()
        assert (await txn.commit([receipt])).committed
        servers = cluster.bootstrap
    with pytest.raises(NoBrokersAvailableError):
        await SharedTransaction.begin(bootstrap_servers=[servers], transactional_id=ID, tag=1)


async def test_no_connection_is_held_between_calls() -> None:
    async with FakeCluster() as cluster:
        await begin(cluster)
        await eventually(lambda: cluster.brokers[1].connection_count == 0)


async def test_the_history_names_winners_as_they_named_themselves() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        history = ListHistory()
        txn = await begin(cluster, history=history)
        receipt = await write(txn.ticket, "w", b"v", history=history)
        await write(txn.ticket, "loser", b"v", history=history)
        await txn.commit([receipt])
        aborted = await begin(cluster, 1, history=history)
        await aborted.abort()
    names = {event[1]: event[3] for event in history.events if event[2:3] == ("txn",)}
    owner, winner, loser, second = names
    assert names[owner] == names[second] == ID
    assert names[winner] != names[loser]
    (ending,) = [event for event in history.events if event[:2] == ("ending", owner)]
    assert ending[2:] == (True, [names[winner].encode()])
    sends = [event[-1] for event in history.events if event[2:3] == ("send",)]
    assert sends == [winner, loser]
    assert [
        event[0]
        for event in history.events
        if event[0] in ("ok", "fail") and event[1] in (owner, second)
    ] == ["ok", "fail"]


async def test_an_ordinal_becomes_a_ticket_where_the_rest_is_known() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        ask = SharedTransaction.next_ordinal
        first = await ask(bootstrap_servers=[cluster.bootstrap], entropy=SeededEntropy(1))
        second = await ask(bootstrap_servers=cluster.bootstrap, entropy=SeededEntropy(1))
        assert second > first
        late = await write(Ticket(cluster.bootstrap, ID, first, 0), "w", b"old")
        receipt = await write(Ticket(cluster.bootstrap, ID, second, 0), "w", b"new")
        owner = SharedTransaction(Ticket(cluster.bootstrap, ID, first, 0))
        with pytest.raises(ProducerFencedError):
            await owner.commit([late])
        assert await SharedTransaction(Ticket(cluster.bootstrap, ID, second, 0)).commit([receipt])
        assert committed_of(cluster, "t") == [b"new"]


async def test_an_owner_asks_over_the_connections_that_there_are() -> None:
    async with (
        FakeCluster(2) as cluster,
        Admin(cluster.bootstrap, entropy=SeededEntropy(1)) as admin,
    ):
        cluster.create_topic("t")
        txn = await begin(cluster, over=admin)
        receipt = await write(txn.ticket, "w", b"v")
        # Nobody listens where the ticket points to: what is asked goes over the admin client.
        elsewhere = replace(txn.ticket, bootstrap_servers="127.0.0.1:1")
        owner = SharedTransaction(elsewhere, over=admin)
        assert await owner.commit([receipt]) == (True, False)
        assert await owner.abort() == (True, True)
        assert await txn.commit([receipt]) == (True, True)
        assert committed_of(cluster, "t") == [b"v"]
