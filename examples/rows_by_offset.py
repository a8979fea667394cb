"""Orders into SQLite, each once: rows are keyed by where their record lies in the log.

    python examples/rows_by_offset.py orders orders.db

Records are read at least once: the group commits what is in the database, and after a crash what
was read since the last commit is read again. The second time the same rows are written over
themselves. Nothing else is needed, and several processes may do it at once.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys

from oncelog import Consumer, bootstrap_servers
from oncelog.errors import ClosedError

TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    topic TEXT NOT NULL, partition_number INTEGER NOT NULL, record_offset INTEGER NOT NULL,
    customer TEXT, item TEXT,
    PRIMARY KEY (topic, partition_number, record_offset)
)"""
UPSERT = """
INSERT INTO orders VALUES (?, ?, ?, ?, ?)
ON CONFLICT (topic, partition_number, record_offset)
DO UPDATE SET customer = excluded.customer, item = excluded.item"""


async def copy(consumer: Consumer, database: sqlite3.Connection) -> None:
    """Until the consumer is closed."""
    with database:
        database.execute(TABLE)
    while True:
        taken = await consumer.getmany(timeout_ms=1000)
        rows = [
            (*tp, r.offset, (r.key or b"").decode(), (r.value or b"").decode())
            for tp, records in taken.items()
            for r in records
        ]
        if not rows:
            continue
        with database:  # commits, or rolls back if something is raised
            database.executemany(UPSERT, rows)
        # Only now: a crash before this line means that the rows are written once more.
        await consumer.commit()
        print(f"{len(rows)} rows", flush=True)


async def main(topic: str, path: str) -> None:
    """One reader of the group."""
    async with Consumer(
        topic,
        bootstrap_servers=bootstrap_servers(),
        group_id="orders-to-sqlite",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.stop_on_signals()
        try:
            await copy(consumer, sqlite3.connect(path))
        except ClosedError:
            pass  # Ctrl+C or SIGTERM closed it


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
