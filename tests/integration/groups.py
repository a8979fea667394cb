"""A test starts, kills and judges a consumer group of real processes.

Members note what they do in files; all of them, and the workload, use the machine's monotonic
clock, so that what they noted makes one history, in order of time.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from integration.member import MemberOptions
from oncelog.history_events import HistoryEvent, event_of
from oncelog_cli.local.process import ManagedProcess, start_process
from simulation.checkers.verdict import failures, summary, verdict
from simulation.checkers.violation import Rules
from simulation.history import History, Key

DEADLINE_S = 40.0
POLL_S = 0.02
CRASH_NUMBER = 10**9
"""Number of the event that says that a member died: none of its own."""

LIBRARIES = Path(__file__).parents[1]


class Member:
    """It is one process, and what it has noted so far."""

    def __init__(self, options: MemberOptions, directory: Path) -> None:
        self.options = options
        self.name = options.name
        self.ended_by_us = False
        self._events: list[HistoryEvent] = []
        self._read = 0
        self._path = Path(options.history)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(LIBRARIES), *filter(None, sys.path)]),
        }
        self.process: ManagedProcess = start_process(
            [sys.executable, "-m", "integration.member", options.to_json()],
            log_path=directory / f"{options.name}.log",
            environment=environment,
        )

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return self.process.is_alive()

    def events(self) -> list[HistoryEvent]:
        """Return what it has noted. A torn last line is not there yet."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return self._events
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        self._events += [event_of(line) for line in whole.decode("ascii").splitlines()]
        return self._events

    def owned(self) -> set[Key]:
        """Return the partitions that it has, by what it noted."""
        return owned_by(self.events())

    def kill(self) -> None:
        """Send SIGKILL; its history says that it died."""
        self.process.kill()
        self.note_death()

    def note_death(self) -> None:
        """Note in its history that the process is gone."""
        whose = (self.name, self.options.client, CRASH_NUMBER)
        self.events().append(HistoryEvent(time.monotonic(), *whose, "info", "crash", (), "killed"))

    async def stop(self) -> int | None:
        """Send SIGTERM; it must end by itself. Returns its exit code."""
        assert await asyncio.to_thread(self.process.stop), self.process.log_tail()
        return self.process.exit_code

    async def ended(self) -> int | None:
        """Wait until it ends by itself; returns its exit code."""
        assert await asyncio.to_thread(self.process.wait, DEADLINE_S), self.process.log_tail()
        return self.process.exit_code


class Group:
    """It has the members of one group, those that are dead too. ``async with``: all are ended."""

    def __init__(
        self, directory: Path, bootstrap: str, topic: str, partitions: int, **options: Any
    ) -> None:
        self.id = f"group-{directory.name}"
        self.members: list[Member] = []
        self._directory = directory
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = {(topic, number) for number in range(partitions)}
        self._options = options

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *exc: object) -> None:
        for member in self.members:
            if member.is_alive:
                member.kill()

    # ---- members

    def start(self, name: str, instance: str | None = None, **options: Any) -> Member:
        """Start a member; ``name`` is its own, also among those that are dead."""
        member = Member(
            MemberOptions(
                self._bootstrap,
                [self._topic],
                self.id,
                name,
                str(self._directory / f"{name}.jsonl"),
                instance,
                **{**self._options, **options},
            ),
            self._directory,
        )
        self.members.append(member)
        return member

    async def start_all(self, count: int, *, static: bool = False, life: int = 1) -> list[Member]:
        """Start members 0 to ``count`` in their ``life``-th life, and wait until they share."""
        names = range(count)
        started = [
            self.start(f"member-{n}.{life}", f"instance-{n}" if static else None) for n in names
        ]
        await self.wait_shared()
        return started

    @property
    def living(self) -> list[Member]:
        """Return the members whose process runs."""
        return [member for member in self.members if member.is_alive]

    # ---- facts

    def events(self) -> list[HistoryEvent]:
        """Return what all members noted, in order of time."""
        return in_order(event for member in self.members for event in member.events())

    def polled(self) -> int:
        """Count the records read, repeated ones too."""
        return sum(sum(counts.values()) for counts in polled_offsets(self.events()).values())

    async def wait_shared(self) -> None:
        """Wait until the living members have all partitions, each at one of them, and each has
        some."""

        def shared() -> bool:
            owned = [member.owned() for member in self.living]
            return (
                all(owned)
                and sum(map(len, owned)) == len(self._partitions)
                and set().union(*owned) == self._partitions
            )

        await self.eventually(shared, "the group shares all partitions")

    async def wait_polled(self, more: int) -> None:
        """Wait until so many more records were read than now."""
        goal = self.polled() + more
        await self.eventually(lambda: self.polled() >= goal, f"{more} more records read")

    async def wait_all_polled(self, ends: dict[Key, int]) -> None:
        """Wait until the group has read every partition up to its end."""

        def all_polled() -> bool:
            polled = polled_offsets(self.events())
            return all(not end or end - 1 in polled.get(key, {}) for key, end in ends.items())

        await self.eventually(all_polled, "the group has read everything")

    async def eventually(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition; say what the members said if it never holds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DEADLINE_S
        while not condition():
            if loop.time() >= deadline:
                owned = {m.name: sorted(m.owned()) for m in self.living}
                tails = "\n".join(f"{m.name}:\n{m.process.log_tail()}" for m in self.members)
                raise AssertionError(f"not in time: {what}; owned: {owned}\n{tails}")
            await asyncio.sleep(POLL_S)

    # ---- judgement

    def judge(self, others: Iterable[HistoryEvent], *, once: bool) -> None:
        """Hold everything that was noted to the promises of a group, by the simulator's checkers:
        nothing is left out, nothing that was committed is read again, no partition has two owners.

        :param others: events of the workload.
        :param once: no member died, so nothing may have been read twice either.
        """
        mine = self.events()
        rules = Rules(subscribed=True, final_polls=False, groups={self.id: self._partitions})
        history = History.from_events(in_order([*others, *mine]))
        found = failures(verdict(history, rules))
        assert not found, summary(found)
        if once:
            twice = read_twice(mine)
            assert not twice, f"read twice: {twice}"


def in_order(events: Iterable[HistoryEvent]) -> list[HistoryEvent]:
    """Sort by time; what one process noted at one time stays in its order."""
    return sorted(events, key=lambda event: event.time_s)


def owned_by(events: Iterable[HistoryEvent]) -> set[Key]:
    """Return the partitions that one member has after these events."""
    owned: set[Key] = set()
    for event in events:
        keys = {(mop.topic, mop.partition) for mop in event.mops if mop.kind == "own"}
        if event.f == "assigned":
            owned |= keys
        elif event.f in ("revoked", "lost"):
            owned -= keys
        elif event.f == "crash":
            owned.clear()
    return owned


def polled_offsets(events: Iterable[HistoryEvent]) -> dict[Key, Counter[int]]:
    """Count how often each offset of each partition was read."""
    found: dict[Key, Counter[int]] = {}
    for event in events:
        if event.f == "poll" and event.type == "ok":
            for mop in event.mops:
                if mop.offset is not None:
                    found.setdefault((mop.topic, mop.partition), Counter())[mop.offset] += 1
    return found


def read_twice(events: Iterable[HistoryEvent]) -> dict[Key, list[int]]:
    """Return offsets that were read more than once, by partition."""
    twice = {
        key: sorted(offset for offset, count in counts.items() if count > 1)
        for key, counts in polled_offsets(events).items()
    }
    return {key: offsets for key, offsets in twice.items() if offsets}


def moves_of(events: Iterable[HistoryEvent]) -> list[HistoryEvent]:
    """Return partitions that were taken away."""
    return [event for event in events if event.f in ("revoked", "lost") and event.mops]
