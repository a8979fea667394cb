"""``oncelog produce`` makes records of lines, or of JSON lines.

Rules: order is kept; the first record that fails stops the reading, what is under way is waited
for, and the count of what was acknowledged is exact. A progress bar shows only to a person who is
not the one who types the lines. With ``--transactional-id`` all lines are one transaction: they
become visible together at the end, or none does. With ``--ticket`` they are one writer's part of a
shared transaction, whose owner gets the receipt.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from oncelog_cli import clients, typed
from oncelog_cli.cluster import NamedCluster
from oncelog_cli.documents.production import Tally
from oncelog_cli.group_offsets import duration_ms
from oncelog_cli.line_source import LineSource, LineTooLongError
from oncelog_cli.options import TopicArgument, UsageError, complete_transactional_ids, parsed
from oncelog_cli.progress import ProgressBar
from oncelog_cli.record_text import Headers, InputRecord, parse_json_line
from oncelog_cli.render import Column, Output, counted
from oncelog_cli.runner import run
from oncelog_cli.tickets import TicketOption, read_ticket

if TYPE_CHECKING:
    from oncelog import Delivery, Producer
    from oncelog.shared_transactions.transaction import Ticket
    from oncelog.shared_transactions.writer import SharedWriter

STEPS_A_SECOND = 20
"""With a rate: so often records are sent."""
LINES_AT_ONCE = 1000
"""After so many lines the loop looks for acknowledgements."""

COLUMNS = (
    Column("PARTITION", "partition", right=True),
    Column("RECORDS", "records", right=True),
    Column("FIRST", "first_offset", right=True),
    Column("LAST", "last_offset", right=True),
)


class AcksChoice(StrEnum):
    """A record counts when these replicas have it."""

    ALL = "all"
    LEADER = "1"
    NOBODY = "0"


class Encoding(StrEnum):
    """The bytes of a record stand in a line in this way."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"

    def decode(self, text: bytes) -> bytes:
        """Return the bytes that are meant.

        :raises ValueError: the text is not written so.
        """
        try:
            if self is Encoding.HEX:
                return bytes.fromhex(text.decode("ascii"))
            if self is Encoding.BASE64:
                return base64.b64decode(text, validate=True)
        except ValueError as error:
            raise ValueError(f"not {self.value}: {error}") from None
        return text


class Compression(StrEnum):
    """Batches are compressed in this way."""

    NONE = "none"
    GZIP = "gzip"
    LZ4 = "lz4"
    ZSTD = "zstd"


FileOption = Annotated[
    Path | None,
    typed.Option("--file", "-i", metavar="PATH", help="Read this file. Default: standard input."),
]
JsonLinesOption = Annotated[
    bool,
    typed.Option(
        "--json-lines",
        "-j",
        help="Each line is an object with value, key, headers, partition, timestamp, as"
        " 'consume --format json' prints them. A key or value that is an object or an array is"
        " sent as its JSON text.",
    ),
]
KeySeparatorOption = Annotated[
    str | None,
    typed.Option(
        "--key-separator", "-K", metavar="TEXT", help="What is before it is the key. \\t is a tab."
    ),
]
KeyOption = Annotated[
    str | None,
    typed.Option("--key", "-k", metavar="TEXT", help="Key of every record that has none."),
]
HeaderOption = Annotated[
    list[str] | None,
    typed.Option("--header", "-H", metavar="KEY=VALUE", help="For every record; repeatable."),
]
PartitionOption = Annotated[
    int | None,
    typed.Option("--partition", "-p", min=0, metavar="N", help="Where every record goes."),
]
RepartitionOption = Annotated[
    bool,
    typed.Option("--repartition", help="Do not look at the partition of JSON lines."),
]
EncodingOption = Annotated[
    Encoding,
    typed.Option(
        "--encoding", metavar="text|hex|base64", help="How keys and values of lines are written."
    ),
]
RateOption = Annotated[
    float | None,
    typed.Option("--rate", metavar="N", help="At most so many records a second."),
]
TombstoneOption = Annotated[
    bool, typed.Option("--tombstone", "-Z", help="An empty value becomes a tombstone (null).")
]
AcksOption = Annotated[
    AcksChoice,
    typed.Option("--acks", metavar="all|1|0", help="Who must have a record before it counts."),
]
CompressionOption = Annotated[
    Compression,
    typed.Option(
        "--compression", "-z", metavar="none|gzip|lz4|zstd", help="How batches are compressed."
    ),
]
TransactionalIdOption = Annotated[
    str | None,
    typed.Option(
        "--transactional-id",
        metavar="ID",
        help="All lines are one transaction of this id, committed at their end; a failure aborts"
        " it. Fences whoever else uses the id.",
        autocompletion=complete_transactional_ids,
    ),
]
TransactionTimeoutOption = Annotated[
    str,
    typed.Option(
        "--transaction-timeout",
        metavar="DURATION",
        help="With --transactional-id: after so long the brokers abort it.",
    ),
]
WriterOption = Annotated[
    str | None,
    typed.Option(
        "--writer", metavar="NAME", help="With --ticket: this attempt at a part of the work."
    ),
]


@dataclass(frozen=True, slots=True)
class Within:
    """The records belong to this transaction, if to any."""

    transactional_id: str | None = None
    timeout_ms: int = 60_000
    ticket: Ticket | None = None
    writer: str = ""


@dataclass(frozen=True, slots=True)
class LineRules:
    """A line becomes a record by these rules."""

    json_lines: bool = False
    key_separator: bytes | None = None
    key: bytes | None = None
    tombstones: bool = False
    headers: Headers = ()
    partition: int | None = None
    repartition: bool = False
    encoding: Encoding = Encoding.TEXT

    def parse(self, line: bytes) -> InputRecord:
        """Return the record of one line.

        :raises ValueError: the line is none; the text says why.
        """
        if self.json_lines:
            record = parse_json_line(line)
        else:
            record = InputRecord(*self._split(line))
        value = record.value
        if self.tombstones and value == b"":
            value = None
        partition = None if self.repartition else record.partition
        return InputRecord(
            value,
            self.key if record.key is None else record.key,
            self.headers + record.headers,
            partition if self.partition is None else self.partition,
            record.timestamp_ms,
        )

    def _split(self, line: bytes) -> tuple[bytes, bytes | None]:
        if self.key_separator is None:
            return self.encoding.decode(line), None
        key, separator, value = line.partition(self.key_separator)
        if not separator:
            raise ValueError(f"there is no key separator {self.key_separator.decode()!r}")
        return self.encoding.decode(value), self.encoding.decode(key)


def produce(
    output: Output,
    cluster: NamedCluster,
    topic: TopicArgument,
    file: FileOption = None,
    json_lines: JsonLinesOption = False,
    key_separator: KeySeparatorOption = None,
    key: KeyOption = None,
    header: HeaderOption = None,
    partition: PartitionOption = None,
    repartition: RepartitionOption = False,
    tombstones: TombstoneOption = False,
    encoding: EncodingOption = Encoding.TEXT,
    rate: RateOption = None,
    acks: AcksOption = AcksChoice.ALL,
    compression: CompressionOption = Compression.NONE,
    transactional_id: TransactionalIdOption = None,
    transaction_timeout: TransactionTimeoutOption = "5m",
    ticket: TicketOption = None,
    writer: WriterOption = None,
) -> None:
    """Send one record a line, from standard input or a file, and say where they went.

    Stops at the first record that fails, with exit code 1; a transaction is aborted then.
    """
    _check_lines(key_separator, json_lines, encoding, rate)
    rules = LineRules(
        json_lines=json_lines,
        key_separator=None if key_separator is None else _separator(key_separator),
        key=None if key is None else os.fsencode(key),
        tombstones=tombstones,
        headers=parse_headers(header or ()),
        partition=partition,
        repartition=repartition,
        encoding=encoding,
    )
    within = _within(transactional_id, transaction_timeout, ticket, writer)
    servers = _servers(cluster, within)
    settings = {"acks": acks.value, "compression_type": compression.value}
    with opened(file) as source:
        tally = run(_produce(topic, source, rules, output, servers, settings, within, rate))
    if tally.failure is not None:
        fate = "not written" if getattr(tally.failure, "definite", False) else "perhaps written"
        output.fail(
            "", f"{counted(tally.failed, 'record')} not acknowledged, {fate}: {tally.failure}"
        )
    _tell(topic, tally, output, wanted=source.is_terminal or tally.records > 0)


def _tell(topic: str, tally: Tally, output: Output, *, wanted: bool) -> None:
    """Tell what became of the records, and with ``wanted`` print a table too."""
    rows = tally.rows()
    if wanted:
        output.table(COLUMNS, rows)
    output.note(f"{counted(tally.records, 'record')} in {topic}{_ENDED[tally.committed]}")
    if tally.receipt is not None:
        output.line(json.dumps(tally.receipt))
    output.finish(tally.document(topic))


def _check_lines(
    key_separator: str | None, json_lines: bool, encoding: Encoding, rate: float | None
) -> None:
    """Raise UsageError for options that make no sense, or not together."""
    if json_lines and encoding is not Encoding.TEXT:
        raise UsageError("--encoding is for plain lines: JSON lines say themselves what is base64")
    if rate is not None and not 0 < rate < float("inf"):
        raise UsageError("--rate must be more than 0")
    if json_lines and key_separator is not None:
        raise UsageError("--key-separator is for plain lines, not for --json-lines")
    if key_separator == "":
        raise UsageError("--key-separator must not be empty")


def _separator(text: str) -> bytes:
    """The bytes of a key separator: a shell hands ``\\t`` over as two characters, and who types it
    means one. A backslash before anything else stands for itself."""
    return os.fsencode(text.replace("\\t", "\t").replace("\\0", "\0"))


_ENDED = {None: "", True: ", committed", False: ", aborted: none of them can be seen"}


def _within(
    transactional_id: str | None, timeout: str, ticket: str | None, writer: str | None
) -> Within:
    """Return the options' transaction; raise UsageError for options that contradict each other."""
    if transactional_id is not None and ticket is not None:
        raise UsageError("--transactional-id and --ticket: a ticket names its transaction")
    if (ticket is None) != (writer is None):
        raise UsageError("--ticket and --writer: give both, or none")
    timeout_ms = parsed("--transaction-timeout", duration_ms, timeout)
    if ticket is None:
        return Within(transactional_id, timeout_ms)
    return Within(ticket=read_ticket(ticket), writer=writer or "")


def _servers(cluster: NamedCluster, within: Within) -> str:
    if within.ticket is not None and cluster.named is None:
        return within.ticket.bootstrap_servers
    return cluster.servers


def parse_headers(items: Any) -> Headers:
    """Parse ``["a=1"]`` into headers; names may repeat.

    :raises UsageError: an item without '='.
    """
    headers = []
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--header {item!r}: expected KEY=VALUE")
        headers.append((name, os.fsencode(value)))
    return tuple(headers)


@contextmanager
def opened(file: Path | None) -> Iterator[LineSource]:
    """Open the source of the lines.

    :raises OSError: the file cannot be read.
    """
    if file is None or str(file) == "-":
        yield LineSource(sys.stdin.fileno())
        return
    with file.open("rb", buffering=0) as stream:
        yield LineSource(stream.fileno())


async def _produce(
    topic: str,
    source: LineSource,
    rules: LineRules,
    output: Output,
    servers: str,
    settings: dict[str, Any],
    within: Within,
    rate: float | None,
) -> Tally:
    tally = Tally()

    async def send(producer: Producer | SharedWriter) -> bool:
        """Send the records; return whether all were acknowledged."""
        await producer.partitions_for(topic)  # a topic that does not exist is told at once
        with ProgressBar(f"to {topic}", source.size_bytes, wanted=not source.is_terminal) as bar:
            sender = _Sender(producer, topic, rules, deque(), tally, rate)
            await sender.send_all(source, output, bar)
            await sender.settle_all()
        return tally.failure is None and not output.errors

    if within.ticket is not None:
        await _as_writer(servers, settings, within, tally, send)
        return tally
    async with clients.producer(
        servers,
        transactional_id=within.transactional_id,
        transaction_timeout_ms=within.timeout_ms,
        **settings,
    ) as producer:
        if within.transactional_id is None:
            await send(producer)
        else:
            await _in_transaction(producer, tally, send)
    return tally


async def _in_transaction(
    producer: Producer, tally: Tally, send: Callable[[Producer], Awaitable[bool]]
) -> None:
    """Everything becomes visible at once, or nothing does."""
    tally.ended(committed=False)
    await producer.begin_transaction()
    try:
        complete = await send(producer)
    except BaseException:
        await producer.abort_transaction()
        raise
    if complete:
        await producer.commit_transaction()
        tally.ended(committed=True)
    else:
        await producer.abort_transaction()


async def _as_writer(
    servers: str,
    settings: dict[str, Any],
    within: Within,
    tally: Tally,
    send: Callable[[SharedWriter], Awaitable[bool]],
) -> None:
    """Write a part of a shared transaction; without a receipt it can never be seen.

    :raises UsageError: acks=all is what a transaction needs.
    """
    from oncelog.shared_transactions.writer import join

    if within.ticket is None or settings["acks"] != AcksChoice.ALL.value:
        raise UsageError("--acks: in a transaction all replicas must have a record")
    options = clients.settings_for(
        join, client_id=clients.CLIENT_ID, compression_type=settings["compression_type"]
    )
    ticket = replace(within.ticket, bootstrap_servers=servers)
    writer = await join(ticket, writer=within.writer, **options)
    async with writer:
        complete = await send(writer)
    if complete:
        tally.handed_over(asdict(writer.receipt))


@dataclass(slots=True)
class _Sender:
    """The sender puts lines in line, and looks at what became of them."""

    producer: Producer | SharedWriter
    topic: str
    rules: LineRules
    pending: deque[Delivery]
    tally: Tally
    rate: float | None = None
    """Records a second, at most."""
    line_number: int = 0
    began_s: float = 0.0

    async def send_all(self, source: LineSource, output: Output, bar: ProgressBar) -> None:
        """Send until the source ends, or something fails."""
        at_once = LINES_AT_ONCE
        if self.rate is not None:
            at_once = min(max(int(self.rate / STEPS_A_SECOND), 1), at_once)
            self.began_s = asyncio.get_running_loop().time()
        try:
            async for lines in source.chunks():
                for start in range(0, len(lines), at_once):
                    await self._pace()
                    if not await self._send(lines[start : start + at_once], output.fail):
                        return
                    self._settle()
                    if self.tally.failure is not None:
                        return
                    bar.show(source.read_bytes, counted(self.tally.records, "record"))
                if source.is_terminal:
                    await self.settle_all()
        except LineTooLongError as error:
            output.fail(f"line {self.line_number + 1}", error)

    async def _pace(self) -> None:
        """Wait until the next record is due."""
        if self.rate is not None:
            due_s = self.began_s + self.line_number / self.rate
            await asyncio.sleep(max(due_s - asyncio.get_running_loop().time(), 0))

    async def _send(self, lines: list[bytes], fail: Callable[[str, Exception], None]) -> bool:
        from oncelog import OncelogError

        producer, topic, rules, pending = self.producer, self.topic, self.rules, self.pending
        for line in lines:
            self.line_number += 1
            if rules.json_lines and not line.strip():
                continue
            try:
                value, key, headers, partition, timestamp_ms = rules.parse(line)
                delivery = await producer.enqueue(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                )
            except (ValueError, OncelogError) as error:
                fail(f"line {self.line_number}", error)
                return False
            pending.append(delivery)
        return True

    def _settle(self) -> None:
        """Count what is done, from the oldest on."""
        pending, settle = self.pending, self.tally.settle
        while pending and pending[0].done():
            settle(pending.popleft())

    async def settle_all(self) -> None:
        """Wait for everything that is under way, and count it."""
        from oncelog import OncelogError

        while self.pending:
            delivery = self.pending.popleft()
            try:
                await delivery
            except (OncelogError, OSError):
                pass  # counted right below, with the others of its batch
            self.tally.settle(delivery)
