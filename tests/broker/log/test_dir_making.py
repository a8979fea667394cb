"""A directory becomes a log directory when it may, and a new one survives a power cut."""

from __future__ import annotations

import errno

import pytest

from oncelog_broker.log import checkpoint
from oncelog_broker.log.dir_making import LogDirError, check_usable, make_dir
from oncelog_testing.memory.files import MemoryFiles


def test_a_new_directory_and_those_above_it_survive_a_power_cut() -> None:
    files = MemoryFiles("/data")
    make_dir(files, "/data/a/b")
    files.crash("none")
    assert files.is_dir("/data/a/b")


def test_what_cannot_be_made_is_refused() -> None:
    files = MemoryFiles("/data")
    files.fail("make_dirs", "/data", error=errno.EACCES)
    with pytest.raises(LogDirError, match="cannot be made"):
        make_dir(files, "/data/a")


def test_what_may_be_used() -> None:
    files = MemoryFiles("/empty", "/ours", "/foreign", "/failed")
    for path in (f"/ours/{checkpoint.META}", "/ours/t-0", f"/failed/{checkpoint.SESSION}"):
        files.open(path, create=True).close()
    for path in ("/empty", "/ours", "/failed"):
        check_usable(files, path)
    files.open("/foreign/letters.txt", create=True).close()
    with pytest.raises(LogDirError, match="'letters.txt'"):
        check_usable(files, "/foreign")
    with pytest.raises(LogDirError, match="is not a directory"):
        check_usable(files, "/foreign/letters.txt")
    files.set_read_only()
    with pytest.raises(LogDirError, match="not writable"):
        check_usable(files, "/empty")
