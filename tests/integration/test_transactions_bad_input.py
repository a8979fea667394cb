"""Idempotence and transactions get bad input at a broker that serves a canary meanwhile.

Each line is a test with its exact answer. The canary is a transactional producer and a reader of
committed records beside it: neither notices, and the broker's memory stays bounded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from integration.group_peer import resident_mb
from integration.txn_peer import Pair, TxnPeer
from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog_cli.local.cluster import LocalCluster
from oncelog_protocol import limits
from oncelog_protocol.messages.base import ApiKey, Request
from oncelog_protocol.messages.transaction_admin import AbortTransactionRequest
from oncelog_protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitPidRequest,
    TxnMarker,
    TxnOffsetCommitPartition,
    TxnTopic,
    WriteTxnMarkersRequest,
)
from support.server import RawPeer, frame, request_head

# One loop for the module: the canary sings through all of it.
pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

TOPIC = "victim"
SONG = "song"
GROUP = "victims"
INT64_MAX = 2**63 - 1
MAX_TIMEOUT_MS = 900_000
NEVER_ISSUED = 10**15
GROWTH_MB_MAX = 160
IDS = 2 * limits.TRANSACTIONAL_IDS_MAX
"""The hundred thousand of the list would tell no more: all beyond the bound are refused alike."""

OK = 0
INVALID_REQUEST = 42
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
INVALID_MAPPING = 49
INVALID_TIMEOUT = 50
FENCED = 90
TRANSACTION_ABORTABLE = 120


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker and a ZooKeeper are running; all transactional ids are in one place."""
    settings = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 1}
    cluster = LocalCluster(tmp_path_factory.mktemp("bad-input"), brokers=1, settings=settings)
    cluster.start()
    yield cluster
    cluster.stop()


class TxnCanary:
    """``async with TxnCanary(...)``: writes transactions, reads them, and must not be disturbed."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.seen = 0

    async def __aenter__(self) -> TxnCanary:
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]
        await self.still_sings()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self) -> None:
        async with Producer(self._bootstrap, transactional_id="canary", linger_ms=0) as producer:
            while True:
                async with producer.transaction() as txn:
                    await txn.send(SONG, b"tweet")
                await asyncio.sleep(0.01)

    async def _read(self) -> None:
        async with Consumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(SONG, 0)])
            async for record in consumer:
                assert record.value == b"tweet"
                self.seen += 1

    async def still_sings(self) -> None:
        """Wait until more has come through than now."""
        before = self.seen
        async with asyncio.timeout(20):
            while self.seen < before + 3:
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def singing(broker: LocalCluster) -> AsyncIterator[TxnCanary]:
    """The whole module has one canary."""
    async with Admin(broker.bootstrap) as admin:
        topics = [NewTopic(TOPIC, 2, 1), NewTopic(SONG, 1, 1)]
        (await admin.create_topics(topics)).raise_for_errors()
    async with TxnCanary(broker.bootstrap) as canary:
        yield canary


@pytest_asyncio.fixture(loop_scope="module")
async def canary(singing: TxnCanary) -> AsyncIterator[TxnCanary]:
    """It must still sing when the test is over."""
    yield singing
    await singing.still_sings()


@pytest_asyncio.fixture(loop_scope="module")
async def peer(broker: LocalCluster, canary: TxnCanary) -> AsyncIterator[TxnPeer]:
    """Each test has a connection of its own."""
    connected = TxnPeer(broker.broker(1).port)
    async with connected:
        await connected.ready(GROUP)
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def victim(broker: LocalCluster, peer: TxnPeer) -> AsyncIterator[Pair]:
    """It is a producer with an open transaction, which can be committed when the test is over, and
    holds what was written in it, once."""
    pair = await peer.init("victim")
    before = await visible(broker)
    assert await peer.produce(TOPIC, pair, value=b"mine") == (0, 0)
    yield pair
    assert (await peer.end(pair, commit=True)).error_code == 0
    after = await visible(broker)
    assert after - before == Counter([b"mine"])


async def visible(broker: LocalCluster) -> Counter[bytes]:
    """Return what a reader of committed records sees in the victim's topic, when no transaction is
    open there."""
    found: Counter[bytes] = Counter()
    every = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
    async with (
        Consumer(
            bootstrap_servers=broker.bootstrap, isolation_level="read_uncommitted"
        ) as uncommitted,
        Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer,
        asyncio.timeout(20),
    ):
        consumer.assign(every)
        while (ends := await uncommitted.end_offsets(every)) != await consumer.end_offsets(every):
            await asyncio.sleep(0.02)
        while any([await consumer.position(tp) < ends[tp] for tp in every]):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found.update(record.value or b"" for record in records)
    return found


def by_name(rows: list[tuple[Any, ...]]) -> Any:
    """Return the rows of a table as parameters, named by their first column."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


def pid_of(broker: LocalCluster) -> int:
    pid = broker.broker(1).pid
    assert pid is not None
    return pid


# ------------------------------------------------------------------------------ identities

STRANGERS: list[tuple[str, dict[str, Any], int, int]] = [
    ("67 an id never issued", {"producer_id": NEVER_ISSUED}, INVALID_MAPPING, INVALID_MAPPING),
    ("67 the id of another producer", {"producer_id": 0}, INVALID_MAPPING, INVALID_MAPPING),
    ("67 no id", {"producer_id": -1}, INVALID_MAPPING, INVALID_MAPPING),
    ("68 a lower epoch", {"lower": 1}, FENCED, FENCED),
    ("68 a higher epoch", {"lower": -1}, FENCED, FENCED),
    ("68 epoch -1", {"producer_epoch": -1}, FENCED, FENCED),
    ("68 the highest epoch", {"producer_epoch": 32767}, FENCED, FENCED),
    ("71 another's transactional id", {"transactional_id": "canary"}, INVALID_MAPPING, 0),
    ("71 a transactional id of nobody", {"transactional_id": "nobody"}, INVALID_MAPPING, 0),
]


def stranger(victim: Pair, changes: dict[str, Any]) -> Pair:
    """Return the victim's pair with something wrong."""
    given = dict(changes)
    epoch = given.pop("producer_epoch", victim.producer_epoch - given.pop("lower", 0))
    return Pair(
        given.get("transactional_id", victim.transactional_id),
        given.get("producer_id", victim.producer_id),
        epoch,
    )


@pytest.mark.parametrize(("changes", "ended", "offsets"), by_name(STRANGERS))
async def test_identities_that_are_refused(
    peer: TxnPeer, victim: Pair, changes: dict[str, Any], ended: int, offsets: int
) -> None:
    """EndTxn, AddPartitionsToTxn, AddOffsetsToTxn and TxnOffsetCommit alike refuse them."""
    wrong = stranger(victim, changes)
    named = (wrong.transactional_id, wrong.producer_id, wrong.producer_epoch)
    for commit in (True, False):
        assert (await peer.ask(EndTxnRequest(*named, commit))).error_code == ended
    assert await peer.add_partitions(wrong, [TxnTopic(TOPIC, [0])]) == ended
    assert (await peer.ask(AddOffsetsToTxnRequest(*named, GROUP))).error_code == ended
    item = TxnOffsetCommitPartition(0, 5)
    refused = offsets or ended
    if wrong.producer_id < 0 or wrong.producer_epoch < 0:
        refused = INVALID_REQUEST
    assert await peer.commit_offset(wrong, GROUP, TOPIC, item) == (refused, 0)


PRODUCED: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("67 an id never issued", {"producer_id": NEVER_ISSUED}, (0, INVALID_MAPPING)),
    ("68 a lower epoch", {"lower": 1}, (0, INVALID_PRODUCER_EPOCH)),
    ("68 a higher epoch", {"lower": -1}, (0, FENCED)),
    ("71 another's transactional id", {"transactional_id": "canary"}, (0, INVALID_MAPPING)),
]


@pytest.mark.parametrize(("changes", "codes"), by_name(PRODUCED))
async def test_batches_of_strangers(
    peer: TxnPeer, victim: Pair, changes: dict[str, Any], codes: tuple[int, int]
) -> None:
    """They go to a partition that the victim has not written to, so that the coordinator is asked;
    and to the one in which its transaction is open."""
    wrong = stranger(victim, changes)
    if "lower" not in changes or changes["lower"] < 0:
        assert await peer.produce(TOPIC, wrong, partition=1, value=b"other's") == codes
    if "transactional_id" not in changes:  # an open transaction is known by its producer alone
        whole, code = await peer.produce(TOPIC, wrong, sequence=1, value=b"other's")
        assert whole or code


async def test_an_epoch_that_is_none(broker: LocalCluster, canary: TxnCanary) -> None:
    """32,768 does not fit: the frame is no request."""
    await refused_by_the_frame(broker, ApiKey.END_TXN, ["victim", 1, 32768, True])


# ------------------------------------------------------------------------------ names

NAMES: list[tuple[str, Request, int]] = [
    ("empty, InitPid", InitPidRequest("", 60_000), INVALID_REQUEST),
    ("reserved, InitPid", InitPidRequest("__ordinals", 60_000), INVALID_REQUEST),
    ("empty, EndTxn", EndTxnRequest("", 1, 0, True), INVALID_REQUEST),
    ("empty, AddOffsetsToTxn", AddOffsetsToTxnRequest("", 1, 0, GROUP), INVALID_REQUEST),
    ("null with a producer id", InitPidRequest(None, 0, 7, 0), INVALID_REQUEST),
]


@pytest.mark.parametrize(("request_", "code"), by_name(NAMES))
async def test_names_that_are_refused(peer: TxnPeer, request_: Request, code: int) -> None:
    assert (await peer.ask(request_)).error_code == code


async def test_null_is_a_producer_without_transactions(peer: TxnPeer) -> None:
    answer = await peer.ask(InitPidRequest(None, 0))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)


FRAMES: list[tuple[str, int, list[Any]]] = [
    ("10 KiB", ApiKey.INIT_PID, ["x" * 10_240, 60_000, -1, -1]),
    ("not UTF-8", ApiKey.INIT_PID, [b"\xff\xfe", 60_000, -1, -1]),
    ("a number", ApiKey.INIT_PID, [7, 60_000, -1, -1]),
    ("null in EndTxn", ApiKey.END_TXN, [None, 1, 0, True]),
    ("10 KiB in EndTxn", ApiKey.END_TXN, ["x" * 10_240, 1, 0, True]),
]


@pytest.mark.parametrize(("key", "body"), by_name(FRAMES))
async def test_names_that_end_the_connection(
    broker: LocalCluster, canary: TxnCanary, key: int, body: list[Any]
) -> None:
    await refused_by_the_frame(broker, key, body)


async def refused_by_the_frame(broker: LocalCluster, key: int, body: list[Any]) -> None:
    """The connection is closed."""
    raw = await RawPeer.connect(("127.0.0.1", broker.broker(1).port), hello=True)
    raw.send(frame(request_head(key, body)))
    assert await raw.closed_within(5)
    await raw.close()


# ------------------------------------------------------------------------------ ends


async def test_an_end_without_a_beginning(peer: TxnPeer) -> None:
    """Nothing can be committed. An abort is granted, and raises the epoch: batches of which the
    coordinator has not heard may be under way."""
    pair = await peer.init("empty")
    assert (await peer.end(pair, commit=True)).error_code == INVALID_TXN_STATE
    answer = await peer.end(pair, commit=False)
    assert (answer.error_code, answer.producer_epoch) == (0, pair.producer_epoch + 1)


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
async def test_two_ends_that_differ(peer: TxnPeer, commit: bool) -> None:
    pair = await peer.init(f"twice-{commit}")
    assert await peer.produce(TOPIC, pair, value=b"twice") == (0, 0)
    first = await peer.end(pair, commit=commit)
    assert first.error_code == 0
    assert await peer.end(pair, commit=commit) == first
    assert (await peer.end(pair, commit=not commit)).error_code == INVALID_TXN_STATE
    following = Pair(pair.transactional_id, first.producer_id, first.producer_epoch)
    assert await peer.produce(TOPIC, following, value=b"next") == (0, 0)
    for result in (True, False):  # the next one has begun: too late for either
        assert (await peer.end(pair, commit=result)).error_code == FENCED
    assert (await peer.end(following, commit=False)).error_code == 0


# ------------------------------------------------------------------------------ batches

BATCHES: list[tuple[str, dict[str, Any], tuple[int, int]]] = [
    ("no transactional id", {"transactional_id": None}, (0, INVALID_REQUEST)),
    ("not transactional, in a transaction", {"transactional": False}, (0, INVALID_REQUEST)),
    ("acks=1", {"acks": 1}, (21, 0)),
    ("a gap", {"sequence": 7}, (0, 45)),
    ("a control batch", {"control": True}, (0, 87)),
    (
        "not transactional at all, by a producer in a transaction",
        {"transactional": False, "transactional_id": None, "sequence": 1},
        (0, INVALID_TXN_STATE),
    ),
]


@pytest.mark.parametrize(("changes", "codes"), by_name(BATCHES))
async def test_batches_that_do_not_belong(
    peer: TxnPeer, victim: Pair, changes: dict[str, Any], codes: tuple[int, int]
) -> None:
    assert await peer.produce(TOPIC, victim, value=b"stray", **changes) == codes


async def test_a_batch_that_nobody_added_is_added_by_its_leader(
    broker: LocalCluster, peer: TxnPeer
) -> None:
    """No client need ask: the leader does, before it appends (KIP-890)."""
    pair = await peer.init("unadded")
    assert await peer.produce(TOPIC, pair, value=b"unadded") == (0, 0)
    async with Admin(broker.bootstrap) as admin:
        described = (await admin.describe_transactions(["unadded"]))[0]
    assert described.state == "Ongoing"
    assert list(described.partitions) == [TopicPartition(TOPIC, 0)]
    assert (await peer.end(pair, commit=False)).error_code == 0


async def test_a_batch_of_a_transaction_that_is_over(broker: LocalCluster, peer: TxnPeer) -> None:
    """It is refused where its marker has come and where none came, and nothing hangs."""
    pair = await peer.init("over")
    assert await peer.produce(TOPIC, pair, value=b"over") == (0, 0)
    assert (await peer.end(pair, commit=False)).error_code == 0
    before = await visible(broker)
    late = await peer.produce(TOPIC, pair, sequence=1, value=b"late")
    assert late == (0, INVALID_PRODUCER_EPOCH)
    # Of the very last transaction: that is no reason to give up a producer.
    elsewhere = await peer.produce(TOPIC, pair, partition=1, value=b"late")
    assert elsewhere == (0, TRANSACTION_ABORTABLE)
    following = Pair(pair.transactional_id, pair.producer_id, pair.producer_epoch + 1)
    assert await peer.produce(TOPIC, following, value=b"next") == (0, 0)
    assert (await peer.end(following, commit=False)).error_code == 0
    later = await peer.produce(TOPIC, pair, partition=1, value=b"late")
    assert later == (0, FENCED)
    assert await visible(broker) == before


# ------------------------------------------------------------------------------ offsets


async def test_offsets_of_no_group(peer: TxnPeer, victim: Pair) -> None:
    """That a principal may not read of a group is refused is tested with the handler: no broker has
    access lists yet."""
    named = (victim.transactional_id, victim.producer_id, victim.producer_epoch)
    assert (await peer.ask(AddOffsetsToTxnRequest(*named, ""))).error_code == 24
    item = TxnOffsetCommitPartition(0, 5)
    assert await peer.commit_offset(victim, "", TOPIC, item) == (24, 0)


OFFSETS: list[tuple[str, TxnOffsetCommitPartition, dict[str, Any], tuple[int, int]]] = [
    ("offset -1", TxnOffsetCommitPartition(0, -1), {}, (INVALID_REQUEST, 0)),
    ("the largest offset", TxnOffsetCommitPartition(0, INT64_MAX), {}, (0, 0)),
    ("beyond the log's end", TxnOffsetCommitPartition(0, 10**12), {}, (0, 0)),
    ("metadata too large", TxnOffsetCommitPartition(0, 5, -1, "x" * 4097), {}, (0, 12)),
    ("metadata of 4,096", TxnOffsetCommitPartition(0, 5, -1, "x" * 4096), {}, (0, 0)),
    ("unknown partition", TxnOffsetCommitPartition(99, 5), {}, (0, 3)),
    ("partition -1", TxnOffsetCommitPartition(-1, 5), {}, (0, 3)),
    ("unknown member", TxnOffsetCommitPartition(0, 5), {"member_id": "nobody"}, (25, 0)),
    ("a generation", TxnOffsetCommitPartition(0, 5), {"generation_id": 9}, (25, 0)),
]


@pytest.mark.parametrize(("item", "changes", "codes"), by_name(OFFSETS))
async def test_offsets_in_a_transaction(
    peer: TxnPeer,
    victim: Pair,
    item: TxnOffsetCommitPartition,
    changes: dict[str, Any],
    codes: tuple[int, int],
) -> None:
    assert await peer.commit_offset(victim, GROUP, TOPIC, item, **changes) == codes


async def test_offsets_are_for_readers_to_judge(broker: LocalCluster, peer: TxnPeer) -> None:
    """An offset beyond the end may be committed, as in Kafka; who reads there is told."""
    pair = await peer.init("far")
    item = TxnOffsetCommitPartition(0, INT64_MAX)
    assert await peer.commit_offset(pair, "far", TOPIC, item) == (0, 0)
    assert (await peer.end(pair, commit=True)).error_code == 0
    async with Admin(broker.bootstrap) as admin:
        found = await admin.list_group_offsets("far", require_stable=True)
    known = found[TopicPartition(TOPIC, 0)]
    assert known is not None
    assert known.offset == INT64_MAX


# ------------------------------------------------------------------------------ time-outs

TIMEOUTS = [(0, INVALID_TIMEOUT), (-1, INVALID_TIMEOUT), (MAX_TIMEOUT_MS + 1, INVALID_TIMEOUT)]


@pytest.mark.parametrize(("timeout_ms", "code"), [*TIMEOUTS, (-(2**31), INVALID_TIMEOUT)])
async def test_time_outs_that_are_refused(peer: TxnPeer, timeout_ms: int, code: int) -> None:
    await peer.init("timed")
    answer = await peer.ask(InitPidRequest("timed", timeout_ms))
    assert answer.error_code == code


async def test_the_longest_time_out(peer: TxnPeer) -> None:
    await peer.init("timed", MAX_TIMEOUT_MS)


# ------------------------------------------------------------------------------ markers


async def test_markers_from_a_client(broker: LocalCluster, victim: Pair) -> None:
    """They are refused on a listener for clients, whoever asks, and the connection ends."""
    topics = [TxnTopic(TOPIC, [0])]
    marker = TxnMarker(victim.producer_id, victim.producer_epoch + 1, 1000, False, topics)
    async with TxnPeer(broker.broker(1).port) as forger:
        await forger.ready(GROUP)
        assert (await forger.ask(WriteTxnMarkersRequest([marker]))).error_code == 31


async def test_an_abort_of_what_is_not_open(peer: TxnPeer, victim: Pair) -> None:
    """Operators may abort what hangs (KIP-664): the right producer, the right epoch, or nothing."""
    request = AbortTransactionRequest(TOPIC, 0, victim.producer_id, victim.producer_epoch + 5)
    assert (await peer.ask(request)).error_code == INVALID_PRODUCER_EPOCH
    request = AbortTransactionRequest(TOPIC, 0, NEVER_ISSUED, 0)
    assert (await peer.ask(request)).error_code == INVALID_TXN_STATE
    request = AbortTransactionRequest(TOPIC, 99, victim.producer_id, victim.producer_epoch)
    assert (await peer.ask(request)).error_code == 3


# ------------------------------------------------------------------------------ very many


async def test_very_many_transactional_ids(
    broker: LocalCluster, peer: TxnPeer, canary: TxnCanary
) -> None:
    """A coordinator keeps so many and no more; the others are refused, and ids that it has already
    go on."""
    known = await peer.init("known")
    before = resident_mb(pid_of(broker))
    codes: Counter[int] = Counter()
    for first in range(0, IDS, 500):
        requests = [InitPidRequest(f"flood-{n}", 60_000) for n in range(first, first + 500)]
        codes.update(answer.error_code for answer in await peer.ask_all(requests))
    assert set(codes) == {0, 44}
    assert codes[0] <= limits.TRANSACTIONAL_IDS_MAX
    assert codes[44] >= IDS - limits.TRANSACTIONAL_IDS_MAX
    assert resident_mb(pid_of(broker)) - before < GROWTH_MB_MAX
    assert await peer.produce(TOPIC, known, value=b"known") == (0, 0)
    assert (await peer.end(known, commit=True)).error_code == 0
    await canary.still_sings()
