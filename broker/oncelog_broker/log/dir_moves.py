"""A broker keeps here which logs are to move between its directories, and which do.

Owns the wishes and the moves (``dir_move``). Rules:

- one move at a time for each pair of directories; the others wait in the order in which they came;
- a log that is moved to where it is stays there: a move of it elsewhere ends;
- another target ends the present move, and begins anew;
- a wish for a partition that has no log here is remembered until it is made (KIP-113);
- the bytes that moves have yet to bring into a directory are reserved there;
- wishes and moves are in memory: after a restart whoever wants the move asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from oncelog_broker.log.dir_move import CopyPace, DirMove, Household, MoveEndedError
from oncelog_broker.log.log_dir import LogDir
from oncelog_broker.log.move_marks import future_name
from oncelog_broker.log.partition_log import PartitionLog
from oncelog_broker.log.safeguards import LogSafeguards
from oncelog_protocol.errors import LogDirNotFoundError, ReplicaNotAvailableError, StorageError
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.structured_logging import get_logger
from oncelog_runtime.tasks import Tasks

logger = get_logger(__name__)


class FutureReplica(NamedTuple):
    """It is a log that moves, as it is going to be in its new directory."""

    topic_partition: TopicPartition
    path: str
    size_bytes: int
    """So much is copied."""
    end_offset: int
    """It is copied up to there."""
    phase: str


class DirMoves:
    """It keeps the moves of one broker."""

    def __init__(
        self,
        house: Household,
        dirs: Sequence[LogDir],
        *,
        entropy: Entropy,
        tasks: Tasks,
        doomed_name: Callable[[TopicPartition], str],
        safeguards: LogSafeguards,
    ) -> None:
        """``doomed_name`` gives the name that a directory has while it is removed."""
        self._house = house
        self._dirs = dirs
        self._entropy = entropy
        self._tasks = tasks
        self._doomed_name = doomed_name
        self._safeguards = safeguards
        self._pace: CopyPace | None = None
        self._moves: dict[TopicPartition, DirMove] = {}
        self._running: dict[TopicPartition, asyncio.Task[None]] = {}
        self._wanted: dict[TopicPartition, LogDir] = {}
        """Logs of these partitions are to be made there."""
        self._beginning = 0
        """So many wishes have yet to become moves."""
        self._ending = 0
        """So many moves are to end, and what they have copied is to go."""
        self._lanes: dict[tuple[str, str], asyncio.Lock] = {}
        self._on_moved: Callable[[PartitionLog], None] | None = None
        self.done = 0
        """So many moves have come to their end."""

    def go_by(self, pace: CopyPace, on_moved: Callable[[PartitionLog], None]) -> None:
        """Copy no faster than ``pace`` says from now on; tell ``on_moved`` of each log that lies in
        another directory."""
        self._pace, self._on_moved = pace, on_moved

    # ---- wishes

    def begin(self, topic_partition: TopicPartition, path: str, *, validate_only: bool) -> int:
        """Have a log moved into a directory; return how many bytes that is.

        Raises LogDirNotFoundError; ReplicaNotAvailableError when there is no such log, which is
        then made there once; StorageError when a directory is offline or has no room.
        """
        target = self._directory(path)
        log = self._house.get(topic_partition)
        if log is None:
            if not validate_only:
                self._wanted[topic_partition] = target
            raise ReplicaNotAvailableError(
                f"{topic_partition} has no replica here; if it gets one, that will be in {path}"
            )
        source, present = log.log_dir, self._moves.get(topic_partition)
        if not source.online:
            raise StorageError(f"{source.path} is offline")
        if target is source:
            if present is not None and not present.has_swapped and not validate_only:
                self._tasks.spawn(f"end move of {topic_partition}", self.end(topic_partition))
            return 0
        if present is not None and present.target is target:
            return present.future.bytes_left
        self._demand_room(target, log)
        if not validate_only:
            self._beginning += 1
            self._tasks.spawn(f"begin move of {topic_partition}", self._begin(log, target))
        return log.size_bytes

    def _directory(self, path: str) -> LogDir:
        for log_dir in self._dirs:
            if log_dir.path == (path.rstrip("/") or path):
                if not log_dir.online:
                    raise StorageError(f"{log_dir.path} is offline")
                return log_dir
        known = ", ".join(log_dir.path for log_dir in self._dirs)
        raise LogDirNotFoundError(f"{path} is none of the log directories: {known}")

    def _demand_room(self, target: LogDir, log: PartitionLog) -> None:
        try:
            room_bytes = target.room_bytes() - self.reserved_bytes(target)
        except OSError as error:
            raise StorageError(f"{target.path}: {error}") from error
        if room_bytes < log.size_bytes:
            raise StorageError(
                f"{target.path} has room for {max(0, room_bytes)} bytes,"
                f" {log.topic_partition} has {log.size_bytes}"
            )

    def wanted(self, topic_partition: TopicPartition) -> LogDir | None:
        """Return where a log that is about to be made is to be, and forget that."""
        log_dir = self._wanted.pop(topic_partition, None)
        return log_dir if log_dir is not None and log_dir.online else None

    def reserved_bytes(self, log_dir: LogDir) -> int:
        """Return how many bytes moves have yet to bring into a directory."""
        return sum(
            [
                move.future.bytes_left
                for move in self._moves.values()
                if move.target is log_dir and not move.has_swapped
            ]
        )

    def under_way(self) -> list[FutureReplica]:
        """Return what is going to be elsewhere, by partition."""
        return [
            FutureReplica(
                topic_partition,
                move.target.path,
                move.future.size_bytes,
                move.future.end_offset,
                move.phase,
            )
            for topic_partition, move in sorted(self._moves.items())
            if not move.has_swapped
        ]

    @property
    def is_idle(self) -> bool:
        """Return whether nothing moves, and nothing is left to tidy."""
        return not (self._moves or self._beginning or self._ending)

    # ---- moves

    async def _begin(self, log: PartitionLog, target: LogDir) -> None:
        topic_partition = log.topic_partition
        try:
            await self.end(topic_partition)
        finally:
            self._beginning -= 1
        if (
            self._house.get(topic_partition) is not log
            or log.log_dir is target
            or topic_partition in self._moves
        ):
            return  # something else has come first
        move = DirMove(
            log,
            target,
            names=(
                future_name(topic_partition, self._entropy.uuid().replace("-", "")),
                self._doomed_name(topic_partition),
            ),
            house=self._house,
            pace=self._pace,
            safeguards=self._safeguards,
        )
        self._moves[topic_partition] = move
        self._running[topic_partition] = self._tasks.spawn(
            f"move of {topic_partition} to {target.path}", self._run(move)
        )

    async def _run(self, move: DirMove) -> None:
        topic_partition = move.topic_partition
        lane = self._lanes.setdefault((move.source.path, move.target.path), asyncio.Lock())
        try:
            async with lane:
                logger.info(
                    "log_move_began",
                    partition=topic_partition,
                    source=move.source.path,
                    log_dir=move.target.path,
                )
                await move.run()
            self.done += 1
            if self._on_moved is not None and self._house.get(topic_partition) is move.log:
                self._on_moved(move.log)
        except MoveEndedError as error:
            logger.warning(
                "log_move_ended",
                partition=topic_partition,
                source=move.source.path,
                log_dir=move.target.path,
                reason=error,
            )
        finally:
            del self._moves[topic_partition], self._running[topic_partition]

    async def end(self, topic_partition: TopicPartition) -> None:
        """End the move of a log; if it lies in its new place already, wait until nothing is left
        of the old one."""
        move, task = self._moves.get(topic_partition), self._running.get(topic_partition)
        if move is None or task is None:
            return
        self._ending += 1
        try:
            if not move.has_swapped:
                task.cancel()
            await asyncio.gather(asyncio.shield(task), return_exceptions=True)
            if not move.has_swapped:
                await move.drop_copy()
        finally:
            self._ending -= 1
