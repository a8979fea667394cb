"""A value that is a table of Arrow or Parquet is read by a program of its own, and shown as text.

Rules: a table may say that it is larger than any machine, so that whoever reads it has limits. It
is shown by its schema and its first rows; without pyarrow it is said what would read it.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict

from oncelog_console.decoding import SHOWN_BYTES_MAX, Form, table_kind, visible
from oncelog_console.process_limits import ProcessLimits, end_text
from oncelog_console.workers import TooManyWorkersError, Workers

WORKER = "oncelog_console.table_worker"
READERS_MAX = 2
PATIENCE_S = 10.0
LIMITS = ProcessLimits(memory_bytes=2 << 30, cpu_s=5)


class Tables:
    """They are read for one console."""

    def __init__(self, limits: ProcessLimits = LIMITS) -> None:
        self._limits = limits
        self._workers = Workers(READERS_MAX, "tables")

    async def form_of(self, data: bytes) -> Form | None:
        """Return schema and first rows of a table, or why they cannot be had; None: it is none."""
        kind = table_kind(data)
        if kind is None:
            return None
        try:
            worker = self._workers.take()
        except TooManyWorkersError as error:
            return Form("table", f"{kind}: {error}")
        head = {"kind": kind, "bytes": len(data), "limits": asdict(self._limits)}
        orders = json.dumps(head).encode() + b"\n" + data
        try:
            async with worker.running(WORKER, orders) as said, asyncio.timeout(PATIENCE_S):
                text = await said.read(SHOWN_BYTES_MAX)
                while part := await said.read(SHOWN_BYTES_MAX):
                    text = (text + part)[:SHOWN_BYTES_MAX]
                code, complaint = await worker.result()
        except TimeoutError:
            return Form("table", f"{kind}: it could not be read within {PATIENCE_S:.0f} s")
        if code:
            why = complaint.rpartition("\n")[2] if code > 0 else end_text(code, self._limits)
            return Form("table", f"{kind}: {visible(why)}")
        return Form("table", visible(text.decode(errors="replace")))
