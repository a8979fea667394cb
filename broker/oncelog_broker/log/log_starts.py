"""The disk of a directory says where the logs in it begin; this is what it would say now.

A log begins where retention, its leader, or a request to delete records has put it; memory knows
that at once, the disk with the next checkpoint, or with the mark of a truncation. Rules:

- ``durable`` never claims more than a start after a power cut would find: who was told that records
  are gone must not see them again;
- who waits for it makes the next checkpoint come at once, and those who come together share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from oncelog_broker.log.hosted_log import HostedLog

HURRY_S = 0.05
"""A checkpoint that somebody waits for is put off for so long, so that others can join."""


class LogStarts:
    """It knows the log starts that the checkpoint and the marks of truncations hold on one disk."""

    def __init__(self, checkpoint_due: Callable[[], None]) -> None:
        """``checkpoint_due`` has the starts written down."""
        self._checkpoint_due = checkpoint_due
        self._on_disk: dict[str, int] = {}
        """They stand here by directory of the log; an absent one is 0."""
        self._waiting: dict[HostedLog, dict[Callable[[], None], None]] = {}
        self._hurry = asyncio.Event()

    def loaded(self, log: HostedLog, on_disk: int) -> None:
        """Note a log that was loaded, and whose disk says that it begins at ``on_disk``. If it does
        not begin there, as the first segments had gone already, the disk is told soon."""
        self._on_disk[log.directory] = on_disk
        if log.log_start_offset > on_disk:
            self._checkpoint_due()

    def marked(self, directory: str, offset: int) -> None:
        """Note that the mark of a truncation says where the log begins, whatever the checkpoint
        says."""
        self._on_disk[directory] = offset

    def forget(self, log: HostedLog) -> None:
        """Forget a log that is gone; nobody waits for it."""
        self._on_disk.pop(log.directory, None)
        self._waiting.pop(log, None)

    def give_up(self, log: HostedLog) -> list[Callable[[], None]]:
        """Forget a log that goes to another directory; return who waits for its start."""
        self._on_disk.pop(log.directory, None)
        return list(self._waiting.pop(log, ()))

    def take_over(
        self, log: HostedLog, on_disk: int, waiting: Iterable[Callable[[], None]]
    ) -> None:
        """Note a log that came from another directory, with those who wait for its start."""
        self._on_disk[log.directory] = on_disk
        for callback in waiting:
            self.when_durable(log, callback)

    def durable(self, log: HostedLog) -> int:
        """Return the start that the log would have after a power cut, or one below that."""
        return min(log.log_start_offset, self._on_disk.get(log.directory, 0))

    def when_durable(self, log: HostedLog, callback: Callable[[], None]) -> None:
        """Write down soon where the log begins, and call back when something was written: once, and
        not at all when the directory fails. The same callback waits once only."""
        self._waiting.setdefault(log, {})[callback] = None
        self._checkpoint_due()
        self._hurry.set()

    # ---- for the directory's checkpoints

    async def pause(self, longest_s: float) -> None:
        """Wait between a change and its checkpoint: so long, or shorter when somebody waits."""
        try:
            async with asyncio.timeout(longest_s):
                await self._hurry.wait()
                await asyncio.sleep(HURRY_S)
        except TimeoutError:
            pass
        self._hurry.clear()

    def written(self, logs: Iterable[HostedLog], starts: dict[str, int]) -> None:
        """Note that a checkpoint with ``starts``, by directory of the log, is durable, and that
        marks which it makes needless are gone."""
        for log in logs:
            if log.truncation_mark == 0:
                self._on_disk[log.directory] = starts.get(log.directory, 0)
        waiting, self._waiting = self._waiting, {}
        loop = asyncio.get_running_loop()
        for callbacks in waiting.values():
            for callback in callbacks:
                loop.call_soon(callback)
