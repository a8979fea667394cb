"""A start finds the logs in its directories, and decides which copy of a moved one counts.

Rules:

- a copy with ``moved.json`` does not count beside another one: the log went on there;
- alone it counts, and loses the mark, if the directory that it names is here and has no copy: the
  move did not come so far. If that directory is not here, the log is *away*: the copy may lack what
  came since, so it neither counts nor goes [D16];
- if that directory is gone for good, what counted is lost with it, and the broker says so: the copy
  is put aside (``-stray``), keeps its mark, and is nobody's from then on. A start looks at it only
  to see that the directory which it names has come back with a copy;
- a copy with ``swap.json`` beside one that has no mark never was the log: the mark was taken away
  before the log went on where it was;
- a copy in the making (``-future``) never counts, and goes;
- nor does what was made for a log and never became one (``partition_meta``), which goes beside
  another copy: disks without room may leave one in each directory;
- of copies of different topics of one name, those go that are surely older [D18]: their topics
  were deleted while their directories were offline;
- any other log in two directories stops the start: neither copy is known to be the good one.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from oncelog_broker.log.dir_making import LogDirError
from oncelog_broker.log.move_marks import NOWHERE, is_future, is_swapped, read_moved
from oncelog_broker.log.partition_meta import PartitionMeta, known_meta, never_was_a_log
from oncelog_broker.log.segment import log_sizes
from oncelog_protocol.types import TopicPartition
from oncelog_runtime.files import Files

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
_PARTITION_DIR = re.compile(r"(.+)-(\d{1,9})")
_STRAY_NAME = re.compile(r"(.+)-(\d{1,9})\.[0-9a-f]{32}-stray")


@dataclass(slots=True)
class FoundLogs:
    """The names in one directory say this."""

    path: str
    directory_id: str
    names: dict[TopicPartition, str] = field(default_factory=dict)
    """Logs are in directories of these names."""
    doomed: list[str] = field(default_factory=list)
    """These names are of no log, and go."""
    metas: dict[TopicPartition, PartitionMeta] = field(default_factory=dict)
    """Copies of logs that are in two directories say this of themselves."""
    outlived: dict[TopicPartition, str] = field(default_factory=dict)
    """Logs of deleted topics are in directories of these names, and go."""
    moved: dict[TopicPartition, str] = field(default_factory=dict)
    """These logs go, or went, to the directories with these ids."""
    swapped: set[TopicPartition] = field(default_factory=set)
    """These came here by a move."""
    stays: list[TopicPartition] = field(default_factory=list)
    """These lose their mark: the move did not come so far."""
    stale: dict[TopicPartition, str] = field(default_factory=dict)
    """Another copy counts instead of those in directories of these names."""
    away: dict[TopicPartition, str] = field(default_factory=dict)
    """The newest copies here of logs that are away lie in directories of these names."""
    strays: dict[TopicPartition, set[str]] = field(default_factory=dict)
    """Copies that were put aside went to the directories with these ids, which were gone."""


def look(files: Files, path: str, directory_id: str) -> FoundLogs:
    """Return what is in a directory. Runs in a thread. Raises OSError."""
    found = FoundLogs(path, directory_id)
    for name in files.list_dir(path):
        directory = f"{path}/{name}"
        if not files.is_dir(directory):
            continue
        if name.endswith(DELETE_SUFFIX) or is_future(name):
            found.doomed.append(name)
        elif match := _STRAY_NAME.fullmatch(name):
            gone = found.strays.setdefault(TopicPartition(match[1], int(match[2])), set())
            gone.add(read_moved(files, directory) or NOWHERE)
        elif match := _PARTITION_DIR.fullmatch(name):
            topic_partition = TopicPartition(match[1], int(match[2]))
            found.names[topic_partition] = name
            moved_to = read_moved(files, directory)
            if moved_to is not None:
                found.moved[topic_partition] = moved_to
            if is_swapped(files, directory):
                found.swapped.add(topic_partition)
    return found


def in_two_directories(found: Sequence[FoundLogs]) -> set[TopicPartition]:
    """Return the logs that are in more than one directory."""
    return {tp for tp, copies in _places(found).items() if len(copies) > 1}


def look_closer(files: Files, found: FoundLogs, doubled: set[TopicPartition]) -> None:
    """Note what copies of ``doubled`` logs say of themselves. What never became a log goes. Runs
    in a thread. Raises OSError."""
    for topic_partition in sorted(doubled & found.names.keys()):
        directory = f"{found.path}/{found.names[topic_partition]}"
        meta = found.metas[topic_partition] = known_meta(files, directory)
        # Who has a mark of a move was a log.
        if topic_partition in found.moved or topic_partition in found.swapped:
            continue
        sizes = log_sizes(files, directory, files.list_dir(directory))
        if never_was_a_log(meta, sizes.values()):
            found.doomed.append(found.names.pop(topic_partition))


def sort_out(found: Sequence[FoundLogs], *, by_topic: bool = True) -> dict[TopicPartition, str]:
    """Note in ``found`` which copies count; return the logs that are away, with the paths of the
    copies that lie here. ``by_topic``: those of deleted topics are known as such [D18].

    Raises LogDirError for a log in two directories of which neither is known to be the good one.
    """
    here = {logs.directory_id for logs in found}
    away: dict[TopicPartition, str] = {}
    for topic_partition, every_copy in _places(found).items():
        copies = _not_outlived(topic_partition, every_copy) if by_topic else every_copy
        if len(copies) == 1 and topic_partition not in copies[0].moved:
            continue
        gone = {each for logs in found for each in logs.strays.get(topic_partition, ())}
        counts = _the_one(topic_partition, copies, gone)
        for logs in copies:
            if logs is not counts:
                logs.stale[topic_partition] = logs.names.pop(topic_partition)
        goes_to = counts.moved.get(topic_partition)
        if goes_to in here:
            counts.stays.append(topic_partition)
        elif goes_to is not None:
            counts.away[topic_partition] = counts.names.pop(topic_partition)
            away[topic_partition] = f"{counts.path}/{counts.away[topic_partition]}"
    return away


def _places(found: Sequence[FoundLogs]) -> dict[TopicPartition, list[FoundLogs]]:
    """Return where the copies of each log are."""
    places: dict[TopicPartition, list[FoundLogs]] = {}
    for logs in found:
        for topic_partition in logs.names:
            places.setdefault(topic_partition, []).append(logs)
    return places


def _not_outlived(topic_partition: TopicPartition, copies: list[FoundLogs]) -> list[FoundLogs]:
    """Return the copies that are not surely of a deleted topic; the others go [D18]."""
    if len(copies) == 1:
        return copies
    metas = [logs.metas[topic_partition] for logs in copies]
    left = []
    for logs, meta in zip(copies, metas, strict=True):
        if any(meta.is_outlived_by(other) for other in metas):
            logs.outlived[topic_partition] = logs.names.pop(topic_partition)
            logs.moved.pop(topic_partition, None)
            logs.swapped.discard(topic_partition)
        else:
            left.append(logs)
    return left


def _the_one(
    topic_partition: TopicPartition, copies: list[FoundLogs], gone: Container[str]
) -> FoundLogs:
    """Return where the newest copy is. Of one in a directory that was ``gone`` meanwhile nobody
    knows whether it is the log that began anew without it."""
    newest = [logs for logs in copies if topic_partition not in logs.moved]
    if len(newest) > 1 and not any(logs.directory_id in gone for logs in newest):
        newest = [logs for logs in newest if topic_partition not in logs.swapped]
    elif not newest:
        # It was moved more than once: the newest is the one that goes where no other copy is.
        ids = {logs.directory_id for logs in copies}
        newest = [logs for logs in copies if logs.moved[topic_partition] not in ids]
    if len(newest) != 1:
        paths = " and in ".join(logs.path for logs in copies)
        raise LogDirError(f"{topic_partition} is in {paths}; move one of the two away")
    return newest[0]
