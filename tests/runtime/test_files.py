"""Only the machine's file system has these: short writes, descriptors, locks between processes.

The contract that it shares with the memory version is in tests/ports/test_files.py.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from oncelog_runtime.files import Buffer, FileLockedError, SystemFile, SystemFiles


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.writev

    def writev(fd: int, pieces: Sequence[Buffer]) -> int:
        return real(fd, [b"".join(pieces)[:3]])

    monkeypatch.setattr(os, "writev", writev)
    file = SystemFiles().open(str(tmp_path / "a"), create=True)
    assert file.append([b"01", b"", bytearray(b"2345"), memoryview(b"6789")]) == 10
    assert file.read_at(0, 100) == b"0123456789"
    assert file.size() == 10
    file.close()


def test_a_failed_write_leaves_the_true_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.writev
    calls = 0

    def writev(fd: int, pieces: Sequence[Buffer]) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, [b"".join(pieces)[:3]])

    monkeypatch.setattr(os, "writev", writev)
    file = SystemFiles().open(str(tmp_path / "a"), create=True)
    with pytest.raises(OSError, match="No space"):
        file.append([b"0123456789"])
    assert file.size() == 3
    file.truncate(0)
    file.close()


def test_a_write_without_progress_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "writev", lambda fd, pieces: 0)
    file = SystemFiles().open(str(tmp_path / "a"), create=True)
    with pytest.raises(OSError, match="no progress"):
        file.append([b"x"])
    file.close()


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, offset: real(fd, min(length, 3), offset))
    file = SystemFiles().open(str(tmp_path / "a"), create=True)
    file.append([b"0123456789"])
    assert file.read_at(1, 8) == b"12345678"
    assert file.read_at(1, 80) == b"123456789"
    file.close()


def test_pieces_are_counted_in_bytes(tmp_path: Path) -> None:
    file = SystemFiles().open(str(tmp_path / "a"), create=True)
    wide = memoryview(b"01234567").cast("I")
    assert len(wide) == 2
    assert file.append([wide]) == 8
    assert file.size() == 8
    assert isinstance(file, SystemFile)
    assert repr(file) == f"<SystemFile {tmp_path}/a 8 bytes>"
    file.close()


def test_descriptors_are_not_inherited(tmp_path: Path) -> None:
    files = SystemFiles()
    before = set(os.listdir("/proc/self/fd"))
    file = files.open(str(tmp_path / "a"), create=True)
    lock = files.lock(str(tmp_path / "lock"))
    opened = sorted(int(fd) for fd in set(os.listdir("/proc/self/fd")) - before)
    inheritable = [fd for fd in opened if os.path.exists(f"/proc/self/fd/{fd}")]
    assert inheritable
    assert not any(os.get_inheritable(fd) for fd in inheritable)
    lock.release()
    file.close()


def test_another_process_holds_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(FileLockedError):
            SystemFiles().lock(path)
        other.kill()
    SystemFiles().lock(path).release()


async def test_remove_tree_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    await SystemFiles().remove_tree(str(tmp_path / "link"))
    assert sorted(os.listdir(tmp_path)) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["file"]


async def test_a_large_atomic_write(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    files = SystemFiles()
    await files.write_atomic(str(tmp_path / "a"), data)
    assert await files.read_file(str(tmp_path / "a")) == data
    files.write_atomic_now(str(tmp_path / "b"), data)
    assert files.read_bytes(str(tmp_path / "b")) == data
