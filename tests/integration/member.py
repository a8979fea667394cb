"""One member of a consumer group is a process of its own: ``python -m integration.member OPTIONS``.

OPTIONS is the JSON of :class:`MemberOptions`. The member reads, commits and notes what it does in a
history, line by line and unbuffered, so that kill -9 takes nothing back. SIGTERM closes it cleanly.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Literal, TextIO

import uvloop

from oncelog import Consumer, HistoryRecorder
from oncelog.errors import CommitFailedError, FencedInstanceIdError
from oncelog.history_events import json_lines

EXIT_FENCED = 3
"""Another process has taken the instance id over."""

POLL_MS = 100
"""How long a poll waits for records: SIGTERM is heard in between."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """They tell a member what to do. Times in milliseconds."""

    bootstrap: str
    topics: list[str]
    group: str
    name: str
    """The process has this name in its history."""
    history: str
    """The file for it."""
    instance: str | None = None
    session_timeout_ms: int = 20_000
    heartbeat_interval_ms: int = 200
    strategies: list[str] = field(default_factory=lambda: ["cooperative-sticky"])
    commits: Literal["auto", "each"] = "auto"
    """The consumer commits in the background, or after every poll."""
    auto_commit_interval_ms: int = 200
    records_per_poll: int = 50
    crash_in_commit_after: int = 0
    """Die of SIGKILL with a commit under way, once so many records were read; 0: live on."""

    @property
    def client(self) -> str:
        """Return its name in the history; "static" tells the checkers who takes over from whom."""
        return "consumer" if self.instance is None else "static"

    def to_json(self) -> str:
        """Return the text that the program takes."""
        return json.dumps(asdict(self))


async def run(options: MemberOptions, lines: TextIO) -> int:
    """Read until SIGTERM; returns the exit code."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    recorder = HistoryRecorder(
        options.name, json_lines(lines), time.monotonic, client=options.client
    )
    try:
        async with _consumer(options, recorder) as consumer:
            await _read(consumer, options, stop)
    except FencedInstanceIdError as error:
        print(f"fenced: {error}", flush=True)
        return EXIT_FENCED
    return 0


def _consumer(options: MemberOptions, recorder: HistoryRecorder) -> Consumer:
    return Consumer(
        *options.topics,
        bootstrap_servers=options.bootstrap,
        client_id=options.name,
        group_id=options.group,
        group_instance_id=options.instance,
        enable_auto_commit=options.commits == "auto",
        auto_commit_interval_ms=options.auto_commit_interval_ms,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        partition_assignment_strategy=tuple(options.strategies),
        auto_offset_reset="earliest",
        history=recorder,
    )


async def _read(consumer: Consumer, options: MemberOptions, stop: asyncio.Event) -> None:
    count = 0
    while not stop.is_set():
        polled = await consumer.getmany(max_records=options.records_per_poll, timeout_ms=POLL_MS)
        count += sum(len(records) for records in polled.values())
        if 0 < options.crash_in_commit_after <= count:
            await _die_while_committing(consumer)
        if polled and options.commits == "each":
            await _commit(consumer)
    # Closing takes only what a later poll has shown to be done with; here all is.
    await _commit(consumer)


async def _commit(consumer: Consumer) -> None:
    try:
        await consumer.commit()
    except CommitFailedError:
        pass  # a rebalance took them away: whoever has them now reads them again


async def _die_while_committing(consumer: Consumer) -> None:
    """The request is on its way, nobody waits for the answer."""
    consumer.commit_async()
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = MemberOptions(**json.loads(arguments[0]))
    with open(options.history, "w", buffering=1, encoding="ascii") as lines:
        return uvloop.run(run(options, lines))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
