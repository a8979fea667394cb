"""A start finds copies of a log in several directories, and knows which one counts."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_broker.log.checkpoint import PARTITION_META
from oncelog_broker.log.dir_making import LogDirError
from oncelog_broker.log.found_copies import (
    FoundLogs,
    in_two_directories,
    look,
    look_closer,
    sort_out,
)
from oncelog_broker.log.move_marks import SwapMark, future_name, write_moved, write_swap
from oncelog_broker.log.partition_meta import PartitionMeta
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles

TP = TopicPartition("t", 0)


def copy(path: str, moved_to: str | None = None, *, swapped: bool = False) -> FoundLogs:
    """Return a directory whose id is its path, with one copy."""
    found = FoundLogs(path, path, {TP: "t-0"}, metas={TP: PartitionMeta()})
    if moved_to is not None:
        found.moved[TP] = moved_to
    if swapped:
        found.swapped.add(TP)
    return found


def counting(*found: FoundLogs) -> list[str]:
    assert not sort_out(found)
    return [each.path for each in found if TP in each.names]


def test_a_look_tells_logs_from_what_goes() -> None:
    files = MemoryFiles("/d")
    future = future_name(TP, "0" * 32)
    for name in ("t-0", "t-1", "u-future-0", future, "t-2.ff-delete", "lost+found"):
        files.make_dirs(f"/d/{name}")
    files.open("/d/t-3", create=True)
    write_moved(files, "/d/t-0", "other")
    write_swap(files, "/d/t-1", SwapMark("id", 1, 0, 0, []))
    found = look(files, "/d", "own")
    assert sorted(found.names.values()) == ["t-0", "t-1", "u-future-0"]
    assert sorted(found.doomed) == sorted([future, "t-2.ff-delete"])
    assert found.moved == {TP: "other"}
    assert found.swapped == {TopicPartition("t", 1)}


def test_the_log_went_on_where_no_mark_is() -> None:
    old, new = copy("/a", "/b"), copy("/b", swapped=True)
    assert counting(old, new) == ["/b"]
    assert old.stale == {TP: "t-0"}
    # It has moved on since, and the first directory has failed meanwhile and is back.
    assert counting(copy("/a", "/b"), FoundLogs("/b", "/b"), copy("/c")) == ["/c"]


def test_a_move_that_did_not_come_so_far_leaves_the_log_where_it_is() -> None:
    alone = copy("/a", "/b")
    assert counting(alone, FoundLogs("/b", "/b")) == ["/a"]
    assert alone.stays == [TP]


@pytest.mark.parametrize("others", [[], [FoundLogs("/c", "/c")]])
def test_a_log_whose_new_directory_is_not_here_is_away(others: list[FoundLogs]) -> None:
    old = copy("/a", "/b")
    assert sort_out([old, *others]) == {TP: "/a/t-0"}
    assert old.away == {TP: "t-0"}
    assert not old.names
    assert not old.stale


def test_a_copy_that_never_was_the_log_goes() -> None:
    here, copied = copy("/a"), copy("/b", swapped=True)
    assert counting(here, copied) == ["/a"]
    assert copied.stale == {TP: "t-0"}


def test_of_copies_that_all_went_on_the_last_counts() -> None:
    first, last = copy("/a", "/b"), copy("/b", "/c", swapped=True)
    assert counting(first, last, FoundLogs("/c", "/c")) == ["/b"]
    assert last.stays == [TP]
    first, last = copy("/a", "/b"), copy("/b", "/c")
    assert sort_out([first, last]) == {TP: "/b/t-0"}


def test_a_copy_that_was_put_aside_is_nobody_s() -> None:
    files = MemoryFiles("/d")
    stray = f"t-0.{'0' * 32}-stray"
    for name in (stray, "t-stray-0"):
        files.make_dirs(f"/d/{name}")
    write_moved(files, f"/d/{stray}", "gone")
    found = look(files, "/d", "own")
    assert list(found.names.values()) == ["t-stray-0"]
    assert (found.strays, found.doomed, found.moved) == ({TP: {"gone"}}, [], {})
    assert not sort_out([found])


def test_a_copy_that_was_taken_for_lost_is_not_thrown_away_when_it_is_back() -> None:
    began_anew, back = copy("/a"), copy("/b", swapped=True)
    began_anew.strays[TP] = {"/b"}
    with pytest.raises(LogDirError, match="t-0 is in /a and in /b"):
        sort_out([began_anew, back])
    began_anew, other = copy("/a"), copy("/c", swapped=True)
    began_anew.strays[TP] = {"/b"}
    assert counting(began_anew, other) == ["/a"]


def test_two_copies_of_which_nothing_is_known_stop_the_start() -> None:
    with pytest.raises(LogDirError, match="t-0 is in /a and in /b"):
        sort_out([copy("/a"), copy("/b")])


def test_a_directory_that_never_became_a_log_is_no_copy() -> None:
    """The disk had no room for ``partition.json``, in one directory or in both."""
    files = MemoryFiles("/a", "/b")
    for directory in ("/a/t-0", "/b/t-0", "/b/t-1"):
        files.make_dirs(directory)
        files.open(f"{directory}/{PARTITION_META}", create=True)
    files.open(f"/a/t-0/{0:020d}.log", create=True).append([b"x"])
    a, b = look(files, "/a", "a"), look(files, "/b", "b")
    doubled = in_two_directories([a, b])
    assert doubled == {TP}
    for each in (a, b):
        look_closer(files, each, doubled)
    assert (a.names, b.doomed) == ({TP: "t-0"}, ["t-0"])
    assert not sort_out([a, b])
    write_moved(files, "/a/t-0", "b")
    files.remove(f"/a/t-0/{0:020d}.log")
    marked = look(files, "/a", "a")
    look_closer(files, marked, doubled)
    assert marked.names == {TP: "t-0"}, "what has a mark was a log"
    look_closer(files, a, doubled)
    assert (a.names, a.doomed) == ({}, ["t-0"])
    assert not sort_out([a, b])


def test_a_disk_that_cannot_be_read_does_not_say_that_there_never_was_a_log() -> None:
    files = MemoryFiles("/d")
    files.make_dirs("/d/t-0")
    files.open(f"/d/t-0/{PARTITION_META}", create=True)
    files.open(f"/d/t-0/{0:020d}.log", create=True)
    found = look(files, "/d", "d")
    files.fail("read", "/d", times=None)
    with pytest.raises(OSError):
        look_closer(files, found, {TP})
    assert found.names == {TP: "t-0"}


def of_topic(path: str, topic_id: str, epoch: int, number: int, **marks: Any) -> FoundLogs:
    found = copy(path, **marks)
    found.metas[TP] = PartitionMeta(topic_id, epoch, number)
    return found


@pytest.mark.parametrize("made", [(9, 1), (10, 1)])
def test_a_log_of_a_deleted_topic_goes_beside_one_that_was_made_later(
    made: tuple[int, int],
) -> None:
    old = of_topic("/a", "deleted", *made)
    # The newer log has moved since: without the topics it would pass for a copy of the older one.
    assert counting(old, of_topic("/b", "made again", 10, 2, swapped=True)) == ["/b"]
    assert (old.outlived, old.stale) == ({TP: "t-0"}, {})


def test_a_log_of_a_deleted_topic_says_nothing_of_where_the_newer_one_is() -> None:
    old = of_topic("/a", "deleted", 9, 1, moved_to="/c")
    here, there = of_topic("/b", "made again", 10, 1, moved_to="/c"), FoundLogs("/c", "/c")
    assert counting(old, here, there) == ["/b"]
    assert (here.stays, old.outlived, old.moved) == ([TP], {TP: "t-0"}, {})
    old, here = of_topic("/a", "deleted", 9, 1), of_topic("/b", "made again", 10, 1, moved_to="/c")
    assert sort_out([old, here]) == {TP: "/b/t-0"}
    assert (here.away, old.outlived) == ({TP: "t-0"}, {TP: "t-0"})


@pytest.mark.parametrize(
    "other", [("id", 10, 1), ("", 10, 1), ("other", -1, 1), ("other", 10, 2)], ids=str
)
def test_where_nobody_knows_which_topic_is_the_newer_the_start_stops(
    other: tuple[str, int, int],
) -> None:
    with pytest.raises(LogDirError, match="t-0 is in /a and in /b"):
        sort_out([of_topic("/a", "id", 10, 2), of_topic("/b", *other)])
