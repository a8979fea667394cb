"""One search runs in this program: ``python -m oncelog_console.search_worker``.

Its orders are one line of JSON on standard input, with credentials among them: nothing secret is on
the command line or in the environment. It ends when standard input does. On standard output are
lines of JSON, four a second and no more, but for the first record, which is told at once::

    {"rows": [...], "progress": {...}}    what was found since the last line, and how far it is
    {"done": "end" | "rows"}              the range is read, or enough rows were found
    {"failed": "why"}                     the search is over

With ``"kind": "lines"`` there are the records alone, as ``oncelog consume --json`` prints them, and
why it failed is on standard error. With ``"kind": "tail"`` each line is a tick of ``tail.py``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, BinaryIO, Literal

from oncelog import Security
from oncelog_cli.exits import EXIT_FAILED, EXIT_OK, CommandError
from oncelog_cli.internal_records import decoded
from oncelog_cli.offset_range import Base, RangePoint
from oncelog_cli.record_text import json_line
from oncelog_console.clients import ClusterClients
from oncelog_console.message_range import Places, WantedRecords
from oncelog_console.process_limits import EXIT_MEMORY, ProcessLimits
from oncelog_console.reading import FoundRecords, Reading, Row
from oncelog_console.tail import ticks
from oncelog_protocol.errors import OncelogError

TOLD_S = 0.25
"""What is found is told so often."""
FETCH_BYTES = 4 << 20
"""A leader sends so much of a partition at once: more than is looked through in one turn of the
loop, so that the next answer is there when this one is done with."""


Kind = Literal["rows", "lines", "tail"]


@dataclass(frozen=True, slots=True)
class SearchOrders:
    """A search is told all this."""

    clients: ClusterClients
    wanted: WantedRecords
    limits: ProcessLimits
    kind: Kind = "rows"
    """``rows``, ``lines``: the records themselves, or ``tail``: rows of what comes from now on."""
    records_max: int | None = None
    """So many are enough; None: as many as rows are wanted."""


def encode_orders(orders: SearchOrders) -> bytes:
    """Return orders as one line.

    :raises ValueError: credentials that only a running program has, such as a function.
    """
    security = orders.clients.security
    document = {
        "servers": orders.clients.servers,
        "security": None if security is None else secrets_of(security),
        "options": dict(orders.clients.options),
        "wanted": asdict(orders.wanted),
        "limits": asdict(orders.limits),
        "kind": orders.kind,
        "records_max": orders.records_max,
    }
    return json.dumps(document, default=_plain).encode() + b"\n"


def secrets_of(security: Security) -> dict[str, Any]:
    """Return what was said about security, secrets among it, as JSON can hold it.

    :raises ValueError: it holds what only this process has.
    """
    said = {
        name: getattr(security, name)
        for name in Security.__dataclass_fields__
        if getattr(security, name) is not None
    }
    for name, value in said.items():
        if isinstance(value, os.PathLike):
            said[name] = os.fspath(value)
        elif not isinstance(value, str | bool):
            raise ValueError(f"security: a search cannot be given {name}, use a file")
    return said


def _plain(value: Any) -> Any:
    if isinstance(value, Base):
        return value.name
    raise TypeError(f"{type(value).__name__} in the orders of a search")


def decode_orders(line: bytes) -> SearchOrders:
    """Return the orders of a line that ``encode_orders`` has made."""
    document = json.loads(line)
    security = document["security"]
    wanted = document["wanted"]
    wanted["partitions"] = tuple(wanted["partitions"])
    for name in ("start", "end"):
        wanted[name] = _point(wanted[name])
    return SearchOrders(
        ClusterClients(
            document["servers"],
            None if security is None else Security(**security),
            document["options"],
        ),
        WantedRecords(**wanted),
        ProcessLimits(**document["limits"]),
        document["kind"],
        document["records_max"],
    )


def _point(document: Any) -> RangePoint | Places | None:
    if document is None:
        return None
    if "offsets" in document:
        return Places(tuple((number, offset) for number, offset in document["offsets"]))
    return RangePoint(Base[document["base"]], document["number"])


class WorkerSearch:
    """It reads, and writes what it finds.

    :param out: lines go there; writing may wait for the reader.
    """

    def __init__(self, orders: SearchOrders, out: BinaryIO) -> None:
        self._orders = orders
        self._out = out
        self._rows: list[Row] = []
        self._told_s = float("-inf")
        self._has_told_rows = False

    async def run(self) -> None:
        """Search until the end of the range, or until there is enough.

        :raises OncelogError: the cluster does not answer, or refuses.
        :raises CommandError: there is no such partition.
        """
        orders = self._orders
        if orders.kind == "tail":
            async for tick in ticks(orders.wanted, orders.clients.consumer):
                self._say(tick.document())
            return
        left = orders.records_max or orders.wanted.rows
        make = partial(orders.clients.consumer, max_partition_fetch_bytes=FETCH_BYTES)
        async with Reading(orders.wanted, make) as reading:
            async for found in reading.found():
                found = FoundRecords(found.records[:left], found.states[:left], found.markers)
                left -= len(found.records)
                if orders.kind == "lines":
                    self._write_lines(found)
                else:
                    self._rows += found.rows(decodes=orders.wanted.decodes)
                    self._tell(reading)
                if left == 0:
                    break
            if orders.kind == "rows":
                self._say({"rows": self._taken(), "progress": asdict(reading.progress)})
                self._say({"done": "end" if left else "rows"})
        self._out.flush()

    def _write_lines(self, found: FoundRecords) -> None:
        decodes = self._orders.wanted.decodes
        for record in found.records:
            self._out.write(json_line(decoded(record) if decodes else record))

    def _tell(self, reading: Reading) -> None:
        now_s = asyncio.get_running_loop().time()
        is_first = bool(self._rows) and not self._has_told_rows
        if now_s - self._told_s < TOLD_S and not is_first:
            return
        self._told_s = now_s
        self._has_told_rows |= is_first
        self._say({"rows": self._taken(), "progress": asdict(reading.progress)})

    def _taken(self) -> list[dict[str, Any]]:
        rows = [row.document() for row in self._rows]
        self._rows.clear()
        return rows

    def _say(self, document: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(document).encode() + b"\n")
        self._out.flush()


async def _until_input_ends(work: asyncio.Task[None]) -> None:
    """Stop working when nobody is there any more who wants to know."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    work.cancel()


async def _work(orders: SearchOrders, out: BinaryIO) -> None:
    work = asyncio.create_task(WorkerSearch(orders, out).run())
    watching = asyncio.create_task(_until_input_ends(work))
    try:
        await work
    finally:
        watching.cancel()


def main() -> int:
    """Run the search of standard input; return the exit code."""
    orders = decode_orders(sys.stdin.buffer.readline())
    orders.limits.apply()
    out = sys.stdout.buffer
    try:
        asyncio.run(_work(orders, out))
    except MemoryError:
        return EXIT_MEMORY
    except (OncelogError, CommandError) as error:
        text = str(error) or type(error).__name__
        if orders.kind == "lines":
            sys.stderr.write(text + "\n")
            return EXIT_FAILED
        out.write(json.dumps({"failed": text}).encode() + b"\n")
        out.flush()
    except (asyncio.CancelledError, BrokenPipeError):
        return EXIT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
