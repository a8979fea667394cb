"""Sums per customer in SQLite, every payment counted once: the offsets are in the database too.

    python examples/offsets_in_the_store.py payments balances.db

A sum cannot be written over itself: counting a payment twice would change it. So how far we have
read is stored in the same transaction as the sums, and reading begins where the database says.
After a crash both are there, or neither. Should another process read the same partition at the same
time, the database refuses the one that comes late.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys

from oncelog import Consumer, bootstrap_servers
from oncelog.errors import ClosedError
from oncelog.stores import OffsetTable, ResumeFromStore, StaleOffsetError

TABLE = "CREATE TABLE IF NOT EXISTS balances (customer TEXT PRIMARY KEY, cents INTEGER NOT NULL)"
ADD = """
INSERT INTO balances VALUES (?, ?)
ON CONFLICT (customer) DO UPDATE SET cents = cents + excluded.cents"""


async def add_up(consumer: Consumer, topic: str, database: sqlite3.Connection) -> None:
    """Until the consumer is closed."""
    offsets = OffsetTable(database, job="balances")
    with database:
        database.execute(TABLE)
        offsets.create()
    resume = ResumeFromStore(consumer, offsets.load)
    consumer.subscribe([topic], listener=resume)
    while True:
        taken = await consumer.getmany(timeout_ms=1000)
        for tp, records in taken.items():
            try:
                with database:  # commits, or rolls back if something is raised
                    offsets.advance(tp, records[0].offset, records[-1].offset + 1)
                    database.executemany(
                        ADD, [((r.key or b"").decode(), int(r.value or b"0")) for r in records]
                    )
            except StaleOffsetError as error:
                print(error, file=sys.stderr)
                await resume.resume([tp])
            else:
                print(f"{len(records)} payments", flush=True)


async def main(topic: str, path: str) -> None:
    """One reader. The group shares the partitions; its offsets show the lag and decide nothing."""
    async with Consumer(bootstrap_servers=bootstrap_servers(), group_id="balances") as consumer:
        consumer.stop_on_signals()
        try:
            await add_up(consumer, topic, sqlite3.connect(path))
        except ClosedError:
            pass  # Ctrl+C or SIGTERM closed it


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
