"""An error of the files means something for the call, for the log, for its directory."""

from __future__ import annotations

import errno

import pytest

from oncelog_protocol.errors import CorruptMessageError, StorageError
from oncelog_protocol.records.batch import CorruptBatchError
from oncelog_testing.memory.files import MemoryFiles
from support.logs import make_log


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EINTR])
def test_what_says_nothing_about_the_disk_fails_the_call_alone(number: int) -> None:
    log = make_log(MemoryFiles())
    with pytest.raises(StorageError, match="roll failed"):
        log.failed("roll", OSError(number, "no"))
    assert log.log_dir.online
    assert not log.damage


def test_an_error_of_the_disk_stops_the_directory() -> None:
    log = make_log(MemoryFiles())
    with pytest.raises(StorageError):
        log.failed("roll", OSError(errno.EIO, "broken"))
    assert not log.log_dir.online
    with pytest.raises(StorageError, match="offline: roll"):
        log.refuse()


@pytest.mark.parametrize("error", [CorruptBatchError("rot"), CorruptMessageError("rot")])
def test_bytes_that_do_not_hold_are_damage_of_the_log(error: Exception) -> None:
    log = make_log(MemoryFiles())
    with pytest.raises(StorageError, match="rot"):
        log.failed("truncate", error)
    assert log.damage == "rot"
    assert log.log_dir.online
    with pytest.raises(StorageError, match="rot"):
        log.refuse()


def test_a_full_disk_refuses_writes_and_goes_on() -> None:
    log = make_log(MemoryFiles())
    with pytest.raises(StorageError, match="is full"):
        log.append_failed(log.segments.active, OSError(errno.ENOSPC, "full"))
    assert log.log_dir.full
    assert log.log_dir.online


def test_an_end_that_cannot_be_cut_off_stops_the_directory() -> None:
    files = MemoryFiles()
    log = make_log(files)
    log.segments.active.write((b"torn",))
    files.fail("truncate", error=errno.ENOSPC)
    with pytest.raises(StorageError, match="append failed"):
        log.append_failed(log.segments.active, OSError(errno.ENOSPC, "full"))
    assert not log.log_dir.online
