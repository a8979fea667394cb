"""Commands of those who use the cluster speak through the client library, each as a process of its
own, and what they are told goes into the history. ``to=BROKER`` asks one broker, once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from oncelog import Admin, Consumer, NewTopic, Producer, Record
from oncelog.admin.results import Results
from oncelog.errors import (
    ApiError,
    LogTruncationError,
    OncelogError,
    PartialSendError,
    error_for,
    is_definite,
)
from oncelog_protocol.connection import ClientConnection
from oncelog_protocol.messages import admin as wire
from oncelog_protocol.messages.base import Request
from oncelog_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from oncelog_protocol.records.builder import encode_batch
from oncelog_protocol.schema import Span
from oncelog_protocol.types import Acks, TopicPartition
from oncelog_runtime.channel import RequestChannel
from scenarios.grammar import CommandError, command, parse_call
from scenarios.world import World
from simulation.cluster import EPOCH_MS
from simulation.loop import Process

DELIVERY_S = 3.0
READ_S = 10.0
QUIET_MS = 2000
"""A poll that brings nothing for so long has come to the end."""

EXTERNAL_PORT = 9002
EXPECTED = (OncelogError, OSError, TimeoutError)
ACKS: dict[str | None, Any] = {None: "all", "all": "all", "1": 1, "0": 0}


def describe(error: BaseException) -> str:
    """Tell an error in the words of the protocol, without numbers that change."""
    if isinstance(error, PartialSendError):
        return describe(error.failures[0][1])
    if not isinstance(error, ApiError) and isinstance(error.__cause__, ApiError):
        error = error.__cause__
    return error.name if isinstance(error, ApiError) else type(error).__name__


def _fate(error: BaseException) -> str:
    """Return what is known of a write that was not acknowledged."""
    return f"{'not written' if is_definite(error) else 'unknown'}: {describe(error)}"


def _shown(records: list[Record]) -> str:
    return " ".join(f"{(r.value or b'').decode()}@{r.offset}" for r in records)


# ---- beside the scenario


@command("begin NAME REST")
async def begin(world: World, name: str, rest: str) -> None:
    """Begin a command and go on; ``end NAME`` waits for it and prints what it says."""
    if name in world.begun:
        raise CommandError(f"{name!r} is under way already")
    call = parse_call(rest)

    async def course() -> str:
        return await call.handler(world, *call.values, **call.options) or "ok"

    world.begun[name] = world.loop.create_task(course(), name=name)
    await asyncio.sleep(0.02)  # it has sent what it begins with


@command("end NAME")
async def end(world: World, name: str) -> str:
    """Wait for what was begun."""
    if name not in world.begun:
        raise CommandError(f"{name!r} was not begun")
    return await world.begun.pop(name)


# ---- administration


async def administer(world: World, ask: Any) -> str | None:
    """Ask as an administrator; None when it was done, else why not."""

    async def work(process: Process) -> None:
        entropy = world.cluster.entropy.fork(process.name)
        async with Admin(
            world.cluster.bootstrap, entropy=entropy, request_timeout_ms=5000
        ) as admin:
            results = await ask(admin)
            if isinstance(results, Results):
                results.raise_for_errors()

    try:
        await world.as_client(work)
    except EXPECTED as error:
        return describe(error)
    return None


@command("create TOPIC replicas=BROKERS [partitions=COUNT] [to=BROKER] [within=TIME]")
async def create(
    world: World,
    topic: str,
    replicas: list[int],
    partitions: int | None,
    to: int | None,
    within: float | None,
) -> str | None:
    """Create a topic; each of its partitions has these replicas, the preferred leader first."""
    assignment = [replicas] * (partitions or 1)
    patience_s = within or READ_S
    timeout_ms = int(patience_s * 1000)
    if to is None:
        new = NewTopic(topic, assignment=assignment)
        return await administer(world, lambda a: a.create_topics([new], timeout_ms=timeout_ms))
    request = wire.CreateTopicsRequest(
        [wire.CreatableTopic(topic, -1, -1, assignment, [])], timeout_ms
    )
    try:
        message = await ask_one(world, to, request, patience_s=patience_s + 1)
    except EXPECTED as error:
        return describe(error)
    code = message.error_code or message.topics[0].error_code
    return describe(error_for(code)) if code else None


@command("grow TOPIC to=COUNT")
async def grow(world: World, topic: str, to: int) -> str | None:
    """Give a topic more partitions, so many in all; the controller places them."""
    return await administer(world, lambda a: a.create_partitions({topic: to}))


@command("delete TOPIC")
async def delete(world: World, topic: str) -> str | None:
    """Delete a topic."""
    refused = await administer(world, lambda a: a.delete_topics([topic]))
    if refused is None:
        world.deleted(topic)
    return refused


@command("alter TOPIC NAME=VALUE...")
async def alter(world: World, topic: str, settings: dict[str, str]) -> str | None:
    """Change settings of a topic."""
    if settings.get("unclean_leader_election_enable") == "true":
        world.invariants.rules.unclean_election = True
    return await administer(world, lambda a: a.alter_configs({topic: settings}))


@command("set all NAME=VALUE...")
async def set_all(world: World, settings: dict[str, str]) -> str | None:
    """Set what holds for all brokers while they run; a dash takes a setting back."""
    refused = await _set(world, None, settings)
    value = settings.get("min_insync_replicas", "")
    if refused is None and value:
        started_with = world.cluster.knobs.min_insync_replicas
        world.invariants.rules.min_insync_replicas = int(value) if value != "-" else started_with
    return refused


@command("set BROKER NAME=VALUE...")
async def set_one(world: World, broker_id: int, settings: dict[str, str]) -> str | None:
    """Set it at one broker."""
    return await _set(world, broker_id, settings)


async def _set(world: World, broker_id: int | None, settings: dict[str, str]) -> str | None:
    wanted = {key: None if value == "-" else value for key, value in settings.items()}
    return await administer(world, lambda a: a.alter_broker_configs({broker_id: wanted}))


@command("elect preferred|unclean PARTITION")
async def elect(world: World, kind: str, partition: TopicPartition) -> str | None:
    """Ask for an election: of the first replica, or of whoever is there."""
    unclean = kind == "unclean"
    if unclean:
        world.invariants.rules.unclean_election = True
    return await administer(world, lambda a: a.elect_leaders([partition], unclean=unclean))


# ---- producing


@command("produce PARTITION VALUE... [acks=all|1|0] [to=BROKER] [producer=IDENTITY] [within=TIME]")
async def produce(
    world: World,
    partition: TopicPartition,
    values: list[str],
    acks: str | None,
    to: int | None,
    producer: tuple[int, int, int] | None,
    within: float | None,
) -> str:
    """Send values as one batch and print their offsets, or what is known of them. With ``to``, the
    batch may say whose it is and which of theirs."""
    patience_s = within or DELIVERY_S
    data = [value.encode() for value in values]
    if to is not None:
        world.outside = True
        batch = _batch_of(data, producer)
        offset, error = await _produce_to(world, to, partition, batch, acks, patience_s)
        if error is not None:
            return _fate(error)
    else:
        try:
            offset = await _produce(world, partition, data, acks, patience_s)
        except EXPECTED as raised:
            return _fate(raised)
    return " ".join(f"{value}@{offset + index}" for index, value in enumerate(values))


async def _produce(
    world: World,
    partition: TopicPartition,
    data: list[bytes],
    acks: str | None,
    patience_s: float,
) -> int:
    async def work(process: Process) -> int:
        async with _producer(world, process, acks, patience_s) as producer:
            sent = await producer.send_many(partition.topic, data, partition=partition.partition)
            return sent.ranges[0].base_offset

    return await world.as_client(work)


def _producer(world: World, process: Process, acks: str | None, patience_s: float) -> Producer:
    counts = acks in (None, "all")
    world.outside = world.outside or not counts
    return Producer(
        world.cluster.bootstrap,
        acks=ACKS[acks],
        linger_ms=0,
        delivery_timeout_ms=int(patience_s * 1000),
        connect_timeout_ms=500,
        entropy=world.cluster.entropy.fork(process.name),
        clock=world.cluster.clocks[1],
        history=world.recorder(process, "producer") if counts else None,
    )


def _batch_of(data: list[bytes], producer: tuple[int, int, int] | None) -> bytes:
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    batch = encode_batch(
        data,
        timestamps=EPOCH_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return bytes(batch)


async def _produce_to(
    world: World,
    broker_id: int,
    partition: TopicPartition,
    batch: bytes,
    acks: str | None,
    patience_s: float,
) -> tuple[int, BaseException | None]:
    """Send one request to one broker; return (offset, None) or (-1, why not)."""
    item = ProducePartition(partition.partition, Span(0, len(batch)))
    code = Acks.ALL if acks in (None, "all") else Acks(int(acks or "0"))
    topics = [ProduceTopic(partition.topic, [item])]
    request = ProduceRequest(None, code, int(patience_s * 1000), topics)
    try:
        message = await ask_one(world, broker_id, request, [batch], patience_s=patience_s + 1)
    except EXPECTED as error:
        return -1, error
    answer = message.topics[0].partitions[0]
    if answer.error_code:
        return -1, error_for(answer.error_code)
    return answer.base_offset, None


async def ask_one(
    world: World,
    broker_id: int,
    request: Request,
    payload: list[bytes] | None = None,
    *,
    patience_s: float,
) -> Any:
    """Send one request to one broker's clients' listener; its answer."""
    host = world.cluster.network.hosts[world.cluster.host(broker_id)]

    async def work(process: Process) -> Any:
        channel = await RequestChannel.open(
            host.address, EXTERNAL_PORT, ClientConnection(process.name), connect_timeout_s=1.0
        )
        try:
            reply = await channel.call(request, payload or [], timeout_s=patience_s)
            return reply.message
        finally:
            channel.close("done")

    return await world.as_client(work)


@command("produce-steadily PARTITION COUNT every=TIME")
async def produce_steadily(
    world: World, partition: TopicPartition, count: int, every: float
) -> str:
    """One producer with the settings that producers have by default sends so many records, one
    after the other; prints how many were acknowledged, and the first error if there was one."""

    async def work(process: Process) -> str:
        acknowledged, failed = 0, ""
        async with Producer(
            world.cluster.bootstrap,
            entropy=world.cluster.entropy.fork(process.name),
            clock=world.cluster.clocks[1],
            history=world.recorder(process, "producer"),
        ) as producer:
            for number in range(count):
                try:
                    value = f"{process.name}/{number}".encode()
                    await producer.send(partition.topic, value=value, partition=partition.partition)
                    acknowledged += 1
                except EXPECTED as error:
                    failed = failed or describe(error)
                await asyncio.sleep(every)
        problem = f", the first failure: {failed}" if failed else ""
        return f"{acknowledged} of {count} acknowledged{problem}"

    return await world.as_client(work)


# ---- consuming


def _consumer(world: World, process: Process) -> Consumer:
    return Consumer(
        bootstrap_servers=world.cluster.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
        request_timeout_ms=1000,
        connect_timeout_ms=500,
        max_block_ms=60_000,
        entropy=world.cluster.entropy.fork(process.name),
        history=world.recorder(process, "consumer"),
    )


async def _read(consumer: Consumer) -> list[Record]:
    """Read everything from the position on, until a poll brings nothing."""
    records: list[Record] = []
    while found := await consumer.getmany(timeout_ms=QUIET_MS):
        records += [record for batch in found.values() for record in batch]
    return records


@command("consume PARTITION from OFFSET")
async def consume(world: World, partition: TopicPartition, offset: int) -> str:
    """Read a partition from an offset to its end, as a new consumer."""

    async def work(process: Process) -> str:
        async with _consumer(world, process) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, offset)
            return _shown(await _read(consumer)) or "nothing"

    try:
        return await world.as_client(work)
    except EXPECTED as error:
        return describe(error)


@command("reader NAME reads PARTITION")
async def reader(world: World, name: str, partition: TopicPartition) -> None:
    """Open a consumer that stays, at the beginning of a partition."""
    if name in world.readers:
        raise CommandError(f"{name!r} is a reader already")
    process = world.client(f"reader-{name}")

    async def work() -> Consumer:
        consumer = _consumer(world, process)
        await consumer.start()
        consumer.assign([partition])
        return consumer

    world.readers[name] = process, await process.call(work(), name)


@command("poll NAME")
async def poll(world: World, name: str) -> str:
    """Tell what a reader is handed next, to the end; or the error that it is handed."""
    if name not in world.readers:
        raise CommandError(f"there is no reader {name!r}")
    process, consumer = world.readers[name]

    async def work() -> str:
        try:
            return _shown(await _read(consumer)) or "nothing"
        except LogTruncationError as error:
            return (
                f"truncated: read up to {error.offset}, the log agrees up to"
                f" {error.divergence_offset}"
            )

    course: Coroutine[Any, Any, str] = work()
    try:
        return str(await process.call(course, name))
    except EXPECTED as error:
        return describe(error)
