"""The two marks of a move say after a crash what they were told, or as little as they can."""

from __future__ import annotations

from oncelog_broker.log.move_marks import (
    MOVED_MARK,
    NOWHERE,
    SWAP_MARK,
    SwapMark,
    future_name,
    is_future,
    is_swapped,
    read_moved,
    read_swap,
    remove_moved,
    remove_swap,
    write_moved,
    write_swap,
)
from oncelog_protocol.types import TopicPartition
from oncelog_testing.memory.files import MemoryFiles

DIRECTORY = "/data/t-0"
UNIQUE = "0123456789abcdef" * 2
MARK = SwapMark("id", 40, 7, 38, [(10, 1000), (20, 2000)])


def files_of_a_log() -> MemoryFiles:
    files = MemoryFiles("/data")
    files.make_dirs(DIRECTORY)
    files.sync_dir("/data")
    return files


def test_what_was_written_outlives_a_power_cut() -> None:
    files = files_of_a_log()
    assert read_moved(files, DIRECTORY) is None
    assert not is_swapped(files, DIRECTORY)
    write_moved(files, DIRECTORY, "other")
    write_swap(files, DIRECTORY, MARK)
    after = files.image("none")
    assert read_moved(after, DIRECTORY) == "other"
    assert read_swap(after, DIRECTORY) == MARK


def test_what_was_removed_does_not_come_back() -> None:
    files = files_of_a_log()
    write_moved(files, DIRECTORY, "other")
    write_swap(files, DIRECTORY, MARK)
    remove_moved(files, DIRECTORY)
    remove_swap(files, DIRECTORY)
    remove_swap(files, DIRECTORY)
    after = files.image("none")
    assert read_moved(after, DIRECTORY) is None
    assert read_swap(after, DIRECTORY) is None


def test_a_mark_that_cannot_be_read_is_there_and_says_nothing() -> None:
    files = files_of_a_log()
    for name in (MOVED_MARK, SWAP_MARK):
        files.open(f"{DIRECTORY}/{name}", create=True).append([b"\0\0\0"])
    assert read_moved(files, DIRECTORY) == NOWHERE
    assert is_swapped(files, DIRECTORY)
    assert read_swap(files, DIRECTORY) is None


def test_names_of_copies_are_told_from_names_of_logs() -> None:
    assert is_future(future_name(TopicPartition("t", 3), UNIQUE))
    assert len(future_name(TopicPartition("t" * 249, 12345), UNIQUE)) <= 255
    assert not is_future("my-future-0")
    assert not is_future("my-future")
