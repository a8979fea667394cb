"""It is a worker of a shared transaction: ``python -m integration.shared_worker OPTIONS``.

OPTIONS is the JSON of :class:`WorkerOptions`. It joins with the ticket it was given, writes its
share to every partition, and prints its receipt, or that there is nothing to do. Told to linger, it
stops in the middle and waits for its end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from dataclasses import asdict, dataclass

import uvloop

from oncelog import Ticket, join
from oncelog.errors import TransactionAlreadyCommittedError

ALREADY = "already committed"
WROTE = "wrote half"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """They tell a worker what to do."""

    ticket: str
    topic: str
    partitions: int
    writer: str
    """The name of the attempt; its values begin with it."""
    records: int
    """The number in each partition."""
    linger: bool = False

    def to_json(self) -> str:
        """Return the text that the program takes."""
        return json.dumps(asdict(self))


async def run(options: WorkerOptions) -> None:
    """Write the share, half and half."""
    try:
        writer = await join(Ticket.from_json(options.ticket), writer=options.writer)
    except TransactionAlreadyCommittedError:
        print(ALREADY, flush=True)
        return
    async with writer:
        half = options.records // 2
        for numbers in (range(half), range(half, options.records)):
            for partition in range(options.partitions):
                values = [b"%s/%d" % (options.writer.encode(), number) for number in numbers]
                await writer.send_many(options.topic, values, partition=partition)
            if numbers.start == 0:
                print(WROTE, flush=True)
                if options.linger:
                    await asyncio.Event().wait()
        await writer.flush()
        print(writer.receipt.to_json(), flush=True)


def main(arguments: list[str]) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    uvloop.run(run(WorkerOptions(**json.loads(arguments[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
