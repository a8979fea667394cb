"""With these commands, tellers open, fill and settle transactions, and brokers show what they know.

A teller is a process with a producer that has a transactional id. Nothing of it happens by itself,
so that the scenario says when what happens. ``late-send`` and ``late-end`` are requests of an older
transaction that come out of the network late, over a connection of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog import Producer
from oncelog_broker.coordinator.transaction.records import SavedTransaction
from oncelog_broker.coordinator.transaction.transaction import TransactionMetadata
from oncelog_protocol.coordinators import TRANSACTION_TOPIC, coordinator_partition
from oncelog_protocol.errors import error_for
from oncelog_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from oncelog_protocol.messages.transactions import EndTxnRequest
from oncelog_protocol.records.batch import parse_header
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.records.control import decode_marker
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import NO_LEADER, Acks, TopicPartition
from scenarios.commands_clients import EXPECTED, ask_one, describe
from scenarios.grammar import CommandError, command
from scenarios.world import World
from simulation.cluster import EPOCH_MS
from simulation.loop import Process


@dataclass
class Teller:
    """It is one producer with a transactional id."""

    process: Process
    producer: Producer

    def bury(self) -> None:
        """It is gone, and nobody mourns for what it has not closed."""
        self.process.kill()
        self.producer._closed = True


@command("teller NAME id=WORD [timeout=TIME] [within=TIME]")
async def teller(
    world: World, name: str, id: str, timeout: float | None, within: float | None
) -> str:
    """Start a producer with a transactional id, which fences whoever had it; prints its identity.
    ``within``: how long its sends and ends are tried, 3 s unless told."""
    if name in world.tellers:
        raise CommandError(f"{name!r} is a teller already")
    process = world.client(f"teller-{name}")

    async def work() -> Producer:
        producer = Producer(
            world.cluster.bootstrap,
            transactional_id=id,
            transaction_timeout_ms=int(1000 * (timeout or 60)),
            linger_ms=0,
            request_timeout_ms=1000,
            delivery_timeout_ms=int(1000 * (within or 3)),
            connect_timeout_ms=500,
            entropy=world.cluster.entropy.fork(process.name),
            clock=world.cluster.clocks[1],
            history=world.recorder(process, "producer"),
        )
        await producer.start()
        return producer

    try:
        made = await process.call(work(), name)
    except EXPECTED as error:
        process.kill()
        return describe(error)
    world.tellers[name] = Teller(process, made)
    return _identity(made)


def _identity(producer: Producer) -> str:
    transactions = producer._transactions
    assert transactions is not None
    producer_id, epoch = transactions.identity
    return f"producer {producer_id}, epoch {epoch}"


def _teller(world: World, name: str) -> Teller:
    if name not in world.tellers:
        raise CommandError(f"there is no teller {name!r}")
    found: Teller = world.tellers[name]
    return found


@command("open NAME")
async def open_(world: World, name: str) -> str | None:
    """A teller begins a transaction; why it cannot, if it cannot."""
    found = _teller(world, name)
    try:
        await found.process.call(found.producer.begin_transaction(), "begin")
    except EXPECTED as error:
        return describe(error)
    return None


@command("book NAME PARTITION VALUE...")
async def book(world: World, name: str, partition: TopicPartition, values: list[str]) -> str:
    """A teller sends values in its transaction; their offsets, or why not."""
    found = _teller(world, name)
    told: list[str] = []
    for value in values:
        sending = found.producer.send(
            partition.topic, value=value.encode(), partition=partition.partition
        )
        try:
            meta = await found.process.call(sending, "send")
        except EXPECTED as error:
            return " ".join([*told, describe(error)])
        told.append(f"{value}@{meta.offset}")
    return " ".join(told)


@command("settle NAME commit|abort")
async def settle(world: World, name: str, how: str) -> str:
    """A teller ends its transaction; its next identity, or why not."""
    found = _teller(world, name)
    producer = found.producer
    ending = producer.commit_transaction() if how == "commit" else producer.abort_transaction()
    try:
        await found.process.call(ending, how)
    except EXPECTED as error:
        return describe(error)
    return f"{'committed' if how == 'commit' else 'aborted'}; next is {_identity(producer)}"


@command("crash-teller NAME")
async def crash_teller(world: World, name: str) -> None:
    """Kill its process, as kill -9 does."""
    world.tellers.pop(name).bury()


@command("freeze-teller NAME")
async def freeze_teller(world: World, name: str) -> None:
    """Stop its process, as SIGSTOP does."""
    _teller(world, name).process.pause()


@command("thaw-teller NAME")
async def thaw_teller(world: World, name: str) -> None:
    """Let it go on, as SIGCONT does."""
    _teller(world, name).process.resume()


# ---- what comes late


@command("late-end WORD producer=IDENTITY how=commit|abort")
async def late_end(world: World, id: str, producer: tuple[int, int, int], how: str) -> str:
    """An EndTxn of an older transaction reaches the coordinator now; what it is answered."""
    request = EndTxnRequest(id, producer[0], producer[1], how == "commit")
    coordinator = _coordinator(world, id)
    if coordinator is None:
        raise CommandError(f"nobody coordinates {id}")
    answer = await ask_one(world, coordinator, request, patience_s=5.0)
    if answer.error_code:
        return describe(error_for(answer.error_code))
    return f"ok: producer {answer.producer_id}, epoch {answer.producer_epoch}"


@command("late-send PARTITION VALUE id=WORD producer=IDENTITY")
async def late_send(
    world: World, partition: TopicPartition, value: str, id: str, producer: tuple[int, int, int]
) -> str:
    """A Produce of an older transaction reaches the leader now; what it is answered."""
    producer_id, epoch, sequence = producer
    batch = bytes(
        encode_batch(
            [value.encode()],
            timestamps=EPOCH_MS,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
    )
    topics = [
        ProduceTopic(partition.topic, [ProducePartition(partition.partition, Span(0, len(batch)))])
    ]
    request = ProduceRequest(id, Acks.ALL, 3000, topics)
    leader = world.stored(partition).state.leader
    world.outside = True
    message = await ask_one(world, leader, request, [batch], patience_s=8.0)
    answer = message.topics[0].partitions[0]
    if answer.error_code:
        return describe(error_for(answer.error_code))
    return f"{value}@{answer.base_offset}"


# ---- looking


def _coordinator(world: World, id: str) -> int | None:
    """Return the broker that leads the id's partition, by the store."""
    world.invariants.store.update()
    partitions = world.invariants.store.partitions
    count = sum(name.topic == TRANSACTION_TOPIC for name in partitions)
    if not count:
        return None
    name = TopicPartition(TRANSACTION_TOPIC, coordinator_partition(id, count))
    leader = partitions[name].state.leader
    return None if leader == NO_LEADER else leader


def _found(world: World, id: str) -> TransactionMetadata | None:
    """Return the id as its coordinator knows it, once it has loaded it."""
    broker = world.cluster.brokers.get(_coordinator(world, id) or 0)
    if broker is None or broker.transactions.engine.refusal(id):
        return None
    found = broker.transactions.engine.all_shards(lambda shard: shard.transactions.get(id))
    return next((each for each in found if each is not None), None)


@command("transaction WORD")
async def transaction(world: World, id: str) -> str:
    """Tell a transactional id as its coordinator knows it."""
    found = _found(world, id)
    saved = None if found is None else found.saved
    if saved is None:
        return "nobody knows it"
    head = saved.state.label
    if isinstance(saved, SavedTransaction):
        head += f"; producer {saved.producer_id}, epoch {saved.producer_epoch}"
        if saved.partitions:
            head += f"; {' '.join(map(str, saved.partitions))}"
    return head


@command("records PARTITION")
async def records(world: World, partition: TopicPartition) -> str:
    """Tell what the leader's log holds, by batch: whose, of which epoch, and its end."""
    view = world.log_of(world.stored(partition).state.leader, partition)
    lines = []
    for index, batch in enumerate(() if view is None else view.batches):
        assert view is not None
        data = view.batch_bytes(index)
        header = parse_header(data)
        who = "" if header.producer_id < 0 else f" of {header.producer_id}/{header.producer_epoch}"
        if header.is_control:
            what = decode_marker(data).control_type.name
        else:
            what = " ".join((v or b"").decode() for v in decode_batch(data).values)
        lines.append(f"{batch.base}: {what}{who}")
    return "\n".join(lines) or "empty"


@command("stable PARTITION")
async def stable(world: World, partition: TopicPartition) -> str:
    """Tell up to where the leader's log is committed, and up to where it is decided."""
    leader = world.running(world.stored(partition).state.leader)
    replica = leader.replicas.partition(partition)
    return (
        f"high watermark {replica.high_watermark}, last stable offset {replica.last_stable_offset}"
    )


@command("wait transaction WORD is WORD [within=TIME]")
async def wait_transaction(world: World, id: str, state: str, within: float | None) -> None:
    """Wait until the coordinator says so."""

    def holds() -> bool:
        found = _found(world, id)
        return found is not None and found.saved is not None and found.saved.state.label == state

    await world.until(holds, f"transaction {id}: {state}", within)


@command("kill-coordinator-of WORD")
async def kill_coordinator_of(world: World, id: str) -> None:
    """Kill the broker that coordinates a transactional id, as kill -9 does; ``start-coordinator``
    starts it again."""
    broker_id = _coordinator(world, id)
    if broker_id is None:
        raise CommandError(f"nobody coordinates {id}")
    world.killed_coordinator = broker_id
    world.cluster.crash_broker(broker_id)


@command("wait coordinator-of WORD is WORD [within=TIME]")
async def wait_coordinator_of(world: World, id: str, who: str, within: float | None) -> None:
    """Wait until another broker than before coordinates an id and has loaded it ("another")."""
    if who != "another":
        raise CommandError('only "wait coordinator-of ID is another" can be said')

    def moved() -> bool:
        now = _coordinator(world, id)
        return now not in (None, world.killed_coordinator) and _found(world, id) is not None

    await world.until(moved, f"another coordinator of {id}", within)
