"""The fault atlas knows where bits may rot and disks be lost without losing what was committed.

After TigerBeetle's. A fault that takes the last good copy of something committed is a disaster and
proves nothing about the product. Rules:

- a *good copy* of a partition is one on durable storage, every checksum of it sound, that reaches
  at least to where the partition is committed, and agrees batch for batch below that with every
  other copy (of logs that compact, in every record that both still have). If nobody says what is
  committed, it must reach as far as the longest copy does;
- a broker may lose or rot what it holds of a partition only while another broker has a good copy,
  and one that may lead: a copy that nobody may elect saves nothing;
- and only while no other broker that is counted on (of ISR or ELR, or on the way there) has a bad
  copy. With two bad copies of three that nobody knows of, the broker with the good one need only
  stop: it leaves an ISR of two, which is large enough to go on without it. What is acknowledged by
  two survives the loss of one;
- a whole disk may go only when that holds for every partition on any disk;
- a log and the checkpoints that say how far it was synced do not rot at the same time: with both
  gone a broker cannot tell rot from the torn tail of a power cut. Where power cuts are to be had,
  logs rot only as far as these say (``synced_only``).

Nothing is remembered: what rotted and is not yet repaired is found again by its checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from oncelog_broker.log import checkpoint
from oncelog_broker.log.index_file import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from oncelog_broker.log.recovery import TRUNCATION_MARK
from oncelog_broker.log.segment import LOG_SUFFIX
from oncelog_protocol.records.batch import (
    CRC_OFFSET,
    CorruptBatchError,
    iter_headers,
    verify_crc,
)
from oncelog_protocol.records.decode import decode_batch
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.crashes import Random
from oncelog_testing.memory.files import MemoryFiles

__all__ = ["FaultAtlas", "Rot"]

_CACHES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, checkpoint.LEADER_EPOCH)
_OF_THE_DIRECTORY = (checkpoint.RECOVERY_POINT, checkpoint.HIGH_WATERMARK, checkpoint.LOG_START)
"""Not its meta.json: without that the directory is refused until a person has looked at it."""

_ATTEMPTS = 20
_ALL = 2**63 - 1


class Rot(NamedTuple):
    """One byte that was changed at rest."""

    broker: int
    path: str
    offset: int
    mask: int
    batch: range = range(0)
    """The batch's place in a log; empty in other files."""

    def __str__(self) -> str:
        return f"broker {self.broker}: bits {self.mask:#04x} of byte {self.offset} of {self.path}"


class _Batch(NamedTuple):
    next_offset: int
    epoch: int
    content: bytes


@dataclass(slots=True)
class _Copy:
    """One broker durably holds this of a partition, up to the first thing that does not hold."""

    batches: dict[int, _Batch]
    start: int
    end: int
    sound: bool


class FaultAtlas:
    """It decides over the disks of a cluster. ``disks`` is looked at anew each time.

    ``committed(partition)`` is an offset below which everything is committed, and
    ``eligible(partition)`` the brokers that may lead (the ISR, or with the ELR); a partition is
    "topic-number". Without them a good copy must be as long as any, and every broker may lead.
    ``trusted(partition)`` gives the brokers that are counted on: True for those that must hold all
    that is committed, False for those that may lack the end. Without it nobody is.
    """

    def __init__(
        self,
        disks: Mapping[int, MemoryFiles],
        *,
        committed: Callable[[str], int] | None = None,
        eligible: Callable[[str], Collection[int]] | None = None,
        trusted: Callable[[str], Mapping[int, bool]] | None = None,
        compacts: Callable[[str], bool] | None = None,
    ) -> None:
        self._disks = disks
        self._committed = committed
        self._eligible = eligible
        self._trusted = trusted
        self._compacts = compacts
        self.rotten: list[Rot] = []
        """Every bit flipped so far."""

    # ---- what may be

    def good_copies(self, partition: str) -> list[int]:
        """Return the brokers that hold all that is committed, durably and soundly, and may lead."""
        copies = self._copies(partition)
        if not copies:
            return []
        needed = self._needed(partition, copies)
        start = max(copy.start for copy in copies.values())
        eligible = copies if self._eligible is None else self._eligible(partition)
        return [
            broker
            for broker, copy in copies.items()
            if broker in eligible
            and copy.sound
            and copy.end >= needed
            and all(self._agree(partition, copy, other, start, needed) for other in copies.values())
        ]

    def _needed(self, partition: str, copies: Mapping[int, _Copy]) -> int:
        if self._committed is None:
            return max(copy.end for copy in copies.values())
        return self._committed(partition)

    def betrayed(self, partition: str) -> list[int]:
        """Return the brokers that are counted on and have a bad copy, or none.

        What is in the page cache counts: only what the kernel has lost is lost.
        """
        if self._trusted is None or not (copies := self._copies(partition)):
            return []
        needed = self._needed(partition, copies)
        found = []
        for broker, whole in self._trusted(partition).items():
            copy = copies.get(broker)
            if copy is None:
                bad = whole and self._end_shown(broker, partition) < needed
            else:
                start = max(copy.start for copy in copies.values())
                bad = not copy.sound or not all(
                    self._agree(partition, copy, other, start, min(copy.end, other.end))
                    for other in copies.values()
                )
                short = whole and copy.end < needed
                bad = bad or (short and self._end_shown(broker, partition) < needed)
            if bad:
                found.append(broker)
        return found

    def _end_shown(self, broker: int, partition: str) -> int:
        """Return where a broker's copy ends for those who read it, synced or not."""
        logs = [
            (int(path.rpartition("/")[2].removesuffix(LOG_SUFFIX)), content)
            for path, content in sorted(self._disks[broker].contents().items())
            if _is_segment(path) and _partition_of(path) == partition
        ]
        return _read_copy(logs).end if logs else 0

    def _agree(self, partition: str, copy: _Copy, other: _Copy, start: int, end: int) -> bool:
        if self._compacts is not None and self._compacts(partition):
            return _agree_in_records(copy, other, start, end)
        return _agree(copy, other, start, end)

    def may_corrupt(self, broker: int, path: str) -> bool:
        """Return whether any byte of this file of that broker may change."""
        partition = _partition_of(path)
        if partition is not None:
            return self._may_lose_copy(broker, partition)
        if not path.endswith(_OF_THE_DIRECTORY):
            return False
        directory = path.rpartition("/")[0] + "/"
        found = [_partition_of(each) for each in self._disks[broker].paths(directory)]
        names = [name for name in found if name is not None]
        sound = all(copy.sound for name in names for copy in self._copies_on(broker, name))
        return sound and self._may_lose(broker, names)

    def may_wipe(self, broker: int) -> bool:
        """Return whether that broker may come back with empty disks."""
        names = [_partition_of(path) for disk in self._disks.values() for path in disk.paths()]
        return self._may_lose(broker, [name for name in names if name is not None])

    def unsound(self) -> list[tuple[int, str]]:
        """Return (broker, partition) of every copy that does not hold, or not agree with others."""
        found = []
        names = {_partition_of(path) for disk in self._disks.values() for path in disk.paths()}
        for name in sorted(name for name in names if name is not None):
            copies = self._copies(name)
            start = max([copy.start for copy in copies.values()], default=0)
            for broker, copy in copies.items():
                end = copy.end
                agrees = all(
                    self._agree(name, copy, other, start, end) for other in copies.values()
                )
                if not (copy.sound and agrees):
                    found.append((broker, name))
        return found

    def _may_lose(self, broker: int, partitions: list[str]) -> bool:
        for partition in sorted(set(partitions)):
            if broker not in self._copies(partition):
                continue  # nothing durable of it to lose
            if not self._may_lose_copy(broker, partition):
                return False
        return True

    def _may_lose_copy(self, broker: int, partition: str) -> bool:
        saved = any(each != broker for each in self.good_copies(partition))
        return saved and all(each == broker for each in self.betrayed(partition))

    # ---- what is done

    def rot(
        self,
        random: Random,
        *,
        broker: int | None = None,
        logs_only: bool = False,
        synced_only: bool = False,
    ) -> Rot | None:
        """Flip one durable bit of a log, an index or a checkpoint, drawn, where that may be.

        ``broker`` fixes whose. Of a log only what the checkpoints beside it know to be synced, when
        asked. None when no place was found.
        """
        brokers = sorted(self._disks) if broker is None else [broker]
        for _ in range(_ATTEMPTS):
            victim = brokers[random.randint(0, len(brokers) - 1)]
            disk = self._disks[victim]
            paths = [path for path in disk.paths() if _may_rot(path, logs_only)]
            if not paths:
                continue
            path = paths[random.randint(0, len(paths) - 1)]
            below = _ALL
            partition = _partition_of(path)
            if path.endswith(LOG_SUFFIX) and partition is not None and synced_only:
                below = _synced_for_sure(disk, path, partition)
            places = _places(disk, path, below)
            if not places or not self.may_corrupt(victim, path):
                continue
            place = places[random.randint(0, len(places) - 1)]
            offset = place[random.randint(0, len(place) - 1)]
            is_log = path.endswith(LOG_SUFFIX)
            batch = range(place.start - CRC_OFFSET, place.stop) if is_log else range(0)
            rot = Rot(victim, path, offset, 1 << random.randint(0, 7), batch)
            disk.corrupt(path, rot.offset, rot.mask)
            self.rotten.append(rot)
            return rot
        return None

    # ---- reading disks

    def _copies(self, partition: str) -> dict[int, _Copy]:
        copies = {}
        for broker in sorted(self._disks):
            logs = self._logs_of(self._disks[broker], partition)
            if logs:
                copies[broker] = _read_copy(logs)
        return copies

    def _copies_on(self, broker: int, partition: str) -> list[_Copy]:
        logs = self._logs_of(self._disks[broker], partition)
        return [_read_copy(logs)] if logs else []

    @staticmethod
    def _logs_of(disk: MemoryFiles, partition: str) -> list[tuple[int, bytes]]:
        directories = {
            path.rpartition("/")[0]
            for path in disk.paths()
            if _is_segment(path) and _partition_of(path) == partition
        }
        return [
            (int(path.rpartition("/")[2].removesuffix(LOG_SUFFIX)), content)
            for directory in sorted(directories)
            for path, content in disk.durable_contents(directory).items()
            if _is_segment(path)
        ]


def _read_copy(logs: list[tuple[int, bytes]]) -> _Copy:
    batches: dict[int, _Batch] = {}
    start = end = logs[0][0]
    sound = True
    for base, content in logs:
        if batches and base < end:
            continue  # a compacted segment has replaced it, and a start will remove it
        if base != end:
            sound = False
            break
        read = 0
        try:
            for position, header in iter_headers(content):
                batch = content[position : position + header.size_bytes]
                verify_crc(batch)
                if header.base_offset != end:
                    raise CorruptBatchError(f"offset {header.base_offset}, not {end}")
                batches[end] = _Batch(header.next_offset, header.leader_epoch, batch)
                end, read = header.next_offset, position + header.size_bytes
        except CorruptBatchError:
            sound = False
        if not sound or read != len(content):
            sound = False
            break
    return _Copy(batches, start, end, sound)


def _agree(copy: _Copy, other: _Copy, start: int, end: int) -> bool:
    """Return whether two copies agree from ``start`` to ``end``, where both have batches."""
    return all(
        copy.batches.get(base) == batch
        for base, batch in other.batches.items()
        if base >= start and batch.next_offset <= end
    )


def _agree_in_records(copy: _Copy, other: _Copy, start: int, end: int) -> bool:
    """Do the same for logs that compact: a record that both have is one and the same. Batches keep
    their base offsets, but for holes, which have no records."""
    for base, batch in other.batches.items():
        mine = copy.batches.get(base)
        if base < start or batch.next_offset > end or mine is None or mine == batch:
            continue
        try:
            records, others = _records(mine), _records(batch)
        except CorruptBatchError:
            return False
        if any(records.get(offset, record) != record for offset, record in others.items()):
            return False
    return True


def _records(batch: _Batch) -> dict[int, tuple[int, bytes | None, bytes | None]]:
    """Return epoch, key and value by offset."""
    columns = decode_batch(batch.content, verify=False)
    keys = columns.keys or [None] * len(columns)
    return {
        offset: (batch.epoch, key, value)
        for offset, key, value in zip(columns.offsets(), keys, columns.values, strict=True)
    }


def _is_segment(path: str) -> bool:
    """Return whether a file is one of a log as it is, not one that compaction is still making."""
    name = path.rpartition("/")[2]
    return name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdecimal()


def _may_rot(path: str, logs_only: bool) -> bool:
    if path.endswith(LOG_SUFFIX):
        return _is_segment(path)
    return not logs_only and path.endswith((*_CACHES, *_OF_THE_DIRECTORY))


def _synced_for_sure(disk: MemoryFiles, path: str, partition: str) -> int:
    """Return below which offset a broker knows after a power cut that a log was synced."""
    directory = path.rpartition("/")[0]
    topic, _, number = partition.rpartition("-")
    known = _ALL
    try:
        for name in (checkpoint.RECOVERY_POINT, checkpoint.HIGH_WATERMARK):
            data = disk.durable_bytes(f"{directory.rpartition('/')[0]}/{name}")
            offsets = checkpoint.decode_offsets(name, data)
            known = min(known, offsets.get(TopicPartition(topic, int(number)), 0))
        if disk.exists(f"{directory}/{TRUNCATION_MARK}"):
            data = disk.durable_bytes(f"{directory}/{TRUNCATION_MARK}")
            known = min(known, int(checkpoint.decode_document(TRUNCATION_MARK, data)["offset"]))
    except (OSError, checkpoint.CheckpointError):
        return 0
    return known


def _places(disk: MemoryFiles, path: str, below: int) -> list[range]:
    """Return stretches of a file that may rot. Of a log: what is durable and under a checksum, as
    Kafka's format leaves base offset, length and epoch without one; and what ends at or below an
    offset."""
    if not path.endswith(LOG_SUFFIX):
        size = disk.size(path)
        return [range(size)] if size else []
    content = disk.durable_bytes(path)[: disk.common_bytes(path)]
    try:
        return [
            range(position + CRC_OFFSET, position + header.size_bytes)
            for position, header in iter_headers(content)
            if header.next_offset <= below
        ]
    except CorruptBatchError:
        return []


def _partition_of(path: str) -> str | None:
    """Return the partition in whose directory a file lies, or None, also for deleted ones."""
    name = path.rpartition("/")[0].rpartition("/")[2]
    topic, dash, number = name.rpartition("-")
    return name if topic and dash and number.isdigit() else None
