"""The machine's version and the memory version keep the contract of the ``Files`` port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oncelog_runtime.files import FileLockedError, Files, SystemFiles
from oncelog_testing.memory.files import MemoryFiles

Case = tuple[Files, str]


def system(directory: Path) -> Case:
    return SystemFiles(), str(directory)


def memory(_: Path) -> Case:
    return MemoryFiles("/data"), "/data"


@pytest.fixture(params=[system, memory], ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """Each test gets the file system and an empty directory on it."""
    make: Callable[[Path], Case] = request.param
    return make(tmp_path)


def test_append_and_read_at(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    assert file.path == f"{root}/a"
    assert file.size() == 0
    assert file.append([b"hello", bytearray(b" "), memoryview(b"world")]) == 11
    assert file.append([b"!"]) == 1
    assert file.size() == 12
    assert file.read_at(0, 12) == b"hello world!"
    assert file.read_at(6, 5) == b"world"
    assert type(file.read_at(0, 5)) is bytes
    file.close()
    assert files.size(f"{root}/a") == 12


def test_append_of_nothing(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    assert file.append([]) == 0
    assert file.append([b"", b""]) == 0
    assert file.size() == 0
    file.close()


def test_append_of_more_pieces_than_one_system_call_takes(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    pieces = [b"%04d" % number for number in range(3000)]
    assert file.append(pieces) == 12_000
    assert file.read_at(0, 12_000) == b"".join(pieces)
    file.close()


def test_read_is_short_only_at_the_end(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    assert file.read_at(8, 100) == b"89"
    assert file.read_at(10, 1) == b""
    assert file.read_at(1000, 1) == b""
    assert file.read_at(3, 0) == b""
    file.close()


def test_read_of_a_negative_offset_is_refused(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    with pytest.raises(OSError, match="Invalid argument"):
        file.read_at(-1, 1)
    file.close()


def test_truncate_then_append(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.size() == 4
    file.append([b"x"])
    assert file.read_at(0, 100) == b"0123x"
    file.truncate(0)
    assert file.read_at(0, 100) == b""
    file.close()


@pytest.mark.parametrize("size", [-1, 11])
def test_truncate_never_grows(case: Case, size: int) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    with pytest.raises(ValueError, match="cannot cut 10 bytes"):
        file.truncate(size)
    assert file.size() == 10
    file.close()


def test_rewrite_changes_nothing_that_is_read(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    content = bytes(range(256)) * 10_000  # more than one piece
    file.append([content])
    file.rewrite(100, len(content) - 300)
    file.rewrite(0, len(content))
    file.rewrite(7, 0)
    assert file.size() == len(content)
    file.append([b"end"])
    assert files.read_bytes(f"{root}/a") == content + b"end"
    file.sync()
    file.close()


@pytest.mark.parametrize(("offset", "length"), [(-1, 2), (5, -1), (5, 6), (11, 0)])
def test_rewrite_keeps_to_the_file(case: Case, offset: int, length: int) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.append([b"0123456789"])
    with pytest.raises(ValueError, match="of 10 bytes"):
        file.rewrite(offset, length)
    file.close()


def test_rewrite_writes_through_no_other_name(tmp_path: Path) -> None:
    """It opens the file again by its path, as the descriptor that appends cannot write elsewhere;
    should the path be another file's by now, that one is not touched."""
    files = SystemFiles()
    file = files.open(f"{tmp_path}/a", create=True)
    file.append([b"mine"])
    files.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    files.write_atomic_now(f"{tmp_path}/a", b"another's")
    with pytest.raises(OSError, match="another file has this name"):
        file.rewrite(0, 4)
    file.close()
    assert files.read_bytes(f"{tmp_path}/a") == b"another's"


def test_an_existing_file_is_opened_at_its_end(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.append([b"one"])
    file.sync()
    file.close()
    again = files.open(f"{root}/a", create=True)
    assert again.size() == 3
    again.append([b"two"])
    again.close()
    assert files.read_bytes(f"{root}/a") == b"onetwo"


def test_open_of_a_missing_file(case: Case) -> None:
    files, root = case
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/nowhere/a", create=True)


def test_open_of_a_directory(case: Case) -> None:
    files, root = case
    with pytest.raises(IsADirectoryError):
        files.open(root)


def test_a_closed_file_refuses(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor|dead"):
        file.append([b"x"])
    with pytest.raises(OSError, match="Bad file descriptor|dead"):
        file.read_at(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor|dead"):
        file.sync()
    with pytest.raises(OSError, match="Bad file descriptor|dead"):
        file.rewrite(0, 0)


def test_two_handles_see_one_file(case: Case) -> None:
    files, root = case
    writer = files.open(f"{root}/a", create=True)
    writer.append([b"0123456789"])
    reader = files.open(f"{root}/a")
    assert reader.read_at(2, 3) == b"234"
    reader.close()
    writer.close()


def test_names(case: Case) -> None:
    files, root = case
    for name in ("c", "a", "b"):
        files.open(f"{root}/{name}", create=True).close()
    files.make_dirs(f"{root}/d/e")
    files.make_dirs(f"{root}/d/e")
    assert files.list_dir(root) == ["a", "b", "c", "d"]
    assert files.list_dir(f"{root}/d") == ["e"]
    assert files.exists(f"{root}/a")
    assert files.exists(f"{root}/d/e")
    assert not files.exists(f"{root}/x")
    assert not files.exists(f"{root}/a/x")
    assert files.is_dir(f"{root}/d")
    assert not files.is_dir(f"{root}/a")
    assert not files.is_dir(f"{root}/x")
    files.sync_dir(root)


def test_make_dirs_over_a_file(case: Case) -> None:
    files, root = case
    files.open(f"{root}/a", create=True).close()
    with pytest.raises(FileExistsError):
        files.make_dirs(f"{root}/a")


@pytest.mark.parametrize(
    "call",
    [
        lambda files, path: files.size(path),
        lambda files, path: files.list_dir(path),
        lambda files, path: files.remove(path),
        lambda files, path: files.read_bytes(path),
        lambda files, path: files.sync_dir(path),
        lambda files, path: files.disk_space(path),
        lambda files, path: files.rename(path, path + ".new"),
    ],
)
def test_what_is_missing_is_said_to_be(case: Case, call: Callable[[Files, str], object]) -> None:
    files, root = case
    with pytest.raises(FileNotFoundError):
        call(files, f"{root}/missing")


def test_rename_replaces(case: Case) -> None:
    files, root = case
    for name in ("a", "b"):
        file = files.open(f"{root}/{name}", create=True)
        file.append([name.encode()])
        file.close()
    files.rename(f"{root}/a", f"{root}/b")
    assert files.list_dir(root) == ["b"]
    assert files.read_bytes(f"{root}/b") == b"a"


def test_rename_of_a_directory(case: Case) -> None:
    files, root = case
    files.make_dirs(f"{root}/d")
    files.open(f"{root}/d/a", create=True).close()
    files.rename(f"{root}/d", f"{root}/e")
    assert files.list_dir(f"{root}/e") == ["a"]
    files.make_dirs(f"{root}/full")
    files.open(f"{root}/full/x", create=True).close()
    with pytest.raises(OSError, match="not empty"):
        files.rename(f"{root}/e", f"{root}/full")


def test_an_open_file_outlives_its_name(case: Case) -> None:
    files, root = case
    file = files.open(f"{root}/a", create=True)
    file.append([b"kept"])
    files.rename(f"{root}/a", f"{root}/b")
    file.append([b"!"])
    assert files.read_bytes(f"{root}/b") == b"kept!"
    files.remove(f"{root}/b")
    assert file.read_at(0, 10) == b"kept!"
    file.close()


def test_disk_space(case: Case) -> None:
    files, root = case
    space = files.disk_space(root)
    assert 0 < space.free_bytes <= space.total_bytes


def test_lock_excludes_until_released(case: Case) -> None:
    files, root = case
    lock = files.lock(f"{root}/.lock")
    with pytest.raises(FileLockedError):
        files.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    again = files.lock(f"{root}/.lock")
    lock.release()  # the old one: must not let go of the new one
    with pytest.raises(FileLockedError):
        files.lock(f"{root}/.lock")
    again.release()


def test_boot_id(case: Case) -> None:
    files, _ = case
    assert files.boot_id() == files.boot_id()
    if isinstance(files, MemoryFiles):
        before = files.boot_id()
        assert files.image("all").boot_id() == before
        assert files.image("none").boot_id() != before
        files = files.reborn("all")
        assert files.boot_id() == before, "the process was killed, the machine was not"
        assert files.reborn("none").boot_id() != before
    else:
        assert "\n" not in files.boot_id()


def test_is_writable(case: Case) -> None:
    files, root = case
    assert files.is_writable(root)
    assert not files.is_writable(f"{root}/missing")


@pytest.mark.parametrize("now", [False, True], ids=["awaited", "now"])
async def test_write_atomic(case: Case, now: bool) -> None:
    files, root = case

    async def write(data: bytes) -> None:
        if now:
            files.write_atomic_now(f"{root}/a", data)
        else:
            await files.write_atomic(f"{root}/a", data)

    await write(b"one, which is longer")
    await write(b"two")
    assert files.read_bytes(f"{root}/a") == b"two"
    assert await files.read_file(f"{root}/a") == b"two"
    assert files.list_dir(root) == ["a"]
    await write(b"")
    assert files.read_bytes(f"{root}/a") == b""


async def test_write_atomic_replaces_a_leftover(case: Case) -> None:
    files, root = case
    leftover = files.open(f"{root}/a.tmp", create=True)
    leftover.append([b"a write that a crash cut short"])
    leftover.close()
    await files.write_atomic(f"{root}/a", b"new")
    assert files.read_bytes(f"{root}/a") == b"new"
    assert files.list_dir(root) == ["a"]


async def test_write_atomic_into_a_missing_directory(case: Case) -> None:
    files, root = case
    with pytest.raises(FileNotFoundError):
        await files.write_atomic(f"{root}/missing/a", b"x")
    with pytest.raises(FileNotFoundError):
        await files.read_file(f"{root}/missing")


async def test_remove_tree(case: Case) -> None:
    files, root = case
    files.make_dirs(f"{root}/d/e")
    files.open(f"{root}/d/e/a", create=True).close()
    files.open(f"{root}/b", create=True).close()
    await files.remove_tree(f"{root}/d")
    await files.remove_tree(f"{root}/b")
    await files.remove_tree(f"{root}/missing")
    files.remove_tree_now(f"{root}/missing")
    assert files.list_dir(root) == []


def test_remove_takes_files_only(case: Case) -> None:
    files, root = case
    files.open(f"{root}/a", create=True).close()
    files.remove(f"{root}/a")
    assert files.list_dir(root) == []
    files.make_dirs(f"{root}/d")
    with pytest.raises(OSError):
        files.remove(f"{root}/d")
