"""Another store can hold results and offsets together, so that each record counts exactly once.

Rules
-----
* What was read and how far it was read are written in *one* transaction of the store, so that
  after a crash both are there or neither is. Nothing is committed to a group for that; a group may
  be used to share partitions, and its offsets to show lag.
* Reading begins where the store says, whatever a group has committed.
* Two may take themselves for the reader of a partition for a moment. The store decides: an advance
  that begins before what is already in the store is refused, and the transaction with it.

Stores whose rows can be keyed by (topic, partition, offset) and written over need nothing of this:
at least once is once there. ``docs/exactly-once.md`` shows both ways.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from oncelog.consumer.consumer import Consumer
from oncelog.consumer.group.listener import RebalanceListener
from oncelog.errors import ClientError, ConfigurationError
from oncelog_protocol.types import TopicPartition

__all__ = ["Connection", "Load", "OffsetTable", "ResumeFromStore", "StaleOffsetError"]

Offsets = Mapping[TopicPartition, int]
Load = Callable[[Sequence[TopicPartition]], Offsets | Awaitable[Offsets]]
"""It returns the offset to be read next of each partition that the store knows."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?", re.ASCII)


class StaleOffsetError(ClientError):
    """The store's offset is ahead of the reader's: another reader has written to the store.

    *What to do*: roll back, and read on from what the store says (``ResumeFromStore.resume``).
    """

    def __init__(self, partition: TopicPartition, begins: int) -> None:
        super().__init__(
            f"{partition}: offset {begins} is in the store already; another reader wrote it"
        )
        self.partition = partition
        self.begins = begins


class Connection(Protocol):
    """A database connection (PEP 249) has at least this; ``sqlite3.Connection`` does."""

    def cursor(self) -> Any:
        """Return a cursor with ``execute``, ``fetchall`` and ``rowcount``."""
        ...


class OffsetTable:
    """A table of a SQL database keeps the offsets: SQLite from 3.24 on, or PostgreSQL.

    Other databases serve if they know ``INSERT .. ON CONFLICT .. DO UPDATE .. WHERE``. Nothing here
    begins, commits or rolls back a transaction: the application does so.

    :param job: whose offsets these are; several jobs may share a table.
    :param mark: what stands for a parameter in the driver's SQL: "?" or "%s".
    :raises ConfigurationError: a table name that is none.
    """

    def __init__(
        self,
        connection: Connection,
        job: str,
        *,
        table: str = "oncelog_offsets",
        mark: Literal["?", "%s"] = "?",
    ) -> None:
        if not _NAME.fullmatch(table):
            raise ConfigurationError(f"table={table!r:.80}: must be the plain name of a table")
        self._connection = connection
        self._job = job
        self._table = table
        self._mark = mark

    def create(self) -> None:
        """Create the table, unless it exists."""
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (job TEXT NOT NULL, topic TEXT NOT NULL,"
            " partition_number INTEGER NOT NULL, next_offset BIGINT NOT NULL,"
            " PRIMARY KEY (job, topic, partition_number))"
        )

    def load(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset to be read next, of each partition that has one."""
        rows = self._execute(
            f"SELECT topic, partition_number, next_offset FROM {self._table} WHERE job = ?",
            self._job,
        ).fetchall()
        stored = {
            TopicPartition(str(topic), int(number)): int(next_) for topic, number, next_ in rows
        }
        return {tp: stored[tp] for tp in partitions if tp in stored}

    def advance(self, partition: TopicPartition, begins: int, next_offset: int) -> None:
        """Note in the open transaction the records from ``begins`` to ``next_offset`` - 1.

        :raises StaleOffsetError: the store had some of them already; roll back.
        """
        table = self._table
        cursor = self._execute(
            f"INSERT INTO {table} (job, topic, partition_number, next_offset) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (job, topic, partition_number) DO UPDATE"
            f" SET next_offset = excluded.next_offset WHERE {table}.next_offset <= ?",
            self._job,
            partition.topic,
            partition.partition,
            next_offset,
            begins,
        )
        if cursor.rowcount != 1:
            raise StaleOffsetError(partition, begins)

    def _execute(self, statement: str, *parameters: object) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement.replace("?", self._mark), parameters)
        return cursor


class ResumeFromStore(RebalanceListener):
    """The listener makes every partition begin at the offset in the store.

    Use it as ``consumer.subscribe(topics, listener=ResumeFromStore(consumer, table.load))``, or as
    ``await resume.assign(partitions)``.

    :param load: see ``Load``; may be a coroutine function.
    :param otherwise: where a partition begins that the store does not know.
    """

    def __init__(
        self,
        consumer: Consumer,
        load: Load,
        *,
        otherwise: Literal["earliest", "latest"] = "earliest",
    ) -> None:
        if otherwise not in ("earliest", "latest"):
            raise ConfigurationError(f"otherwise={otherwise!r}: must be earliest or latest")
        self._consumer = consumer
        self._load = load
        self._otherwise = otherwise

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions to the consumer, and begin at the offsets in the store."""
        wanted = [TopicPartition(*tp) for tp in partitions]
        self._consumer.assign(wanted)
        await self.resume(wanted)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Seek in the partitions that a rebalance brought."""
        await self.resume(partitions)

    async def resume(self, partitions: Sequence[TopicPartition] | None = None) -> None:
        """Seek to the offsets in the store, also in the middle of reading: after a rollback.

        :param partitions: of those that are assigned; default: all.
        """
        wanted = self._consumer.assignment() if partitions is None else list(partitions)
        loaded = self._load(wanted)
        stored = await loaded if inspect.isawaitable(loaded) else loaded
        unknown = [tp for tp in wanted if tp not in stored]
        for tp in wanted:
            if tp in stored:
                self._consumer.seek(tp, stored[tp])
        if unknown and self._otherwise == "earliest":
            await self._consumer.seek_to_beginning(*unknown)
        elif unknown:
            await self._consumer.seek_to_end(*unknown)
