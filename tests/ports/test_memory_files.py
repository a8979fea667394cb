"""The memory file system forgets what a machine would forget, and fails where it is told to.

That it otherwise behaves like a real one is checked by the contract suite in test_files.py.
"""

from __future__ import annotations

import errno

import pytest

from support.memory_files import CrashView, MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles("/data")


def write(files: MemoryFiles, path: str, *pieces: bytes, sync: bool = False) -> None:
    file = files.open(path, create=True)
    for piece in pieces:
        file.append([piece])
    if sync:
        file.sync()
    file.close()


def test_a_power_cut_keeps_what_was_synced(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    file.append([b"synced"])
    file.sync()
    files.sync_dir("/data")
    file.append([b" and not"])
    assert files.durable_bytes("/data/a") == b"synced"
    files.crash()
    assert files.read_bytes("/data/a") == b"synced"


def test_a_killed_process_loses_nothing_until_the_power_goes_too(files: MemoryFiles) -> None:
    write(files, "/data/a", b"unsynced")
    files.crash("all")
    assert files.read_bytes("/data/a") == b"unsynced"
    files.crash("none")
    assert files.list_dir("/data") == []


def test_a_name_is_kept_only_by_syncing_its_directory(files: MemoryFiles) -> None:
    write(files, "/data/a", b"bytes", sync=True)
    files.crash()
    assert not files.exists("/data/a")

    files.make_dirs("/data/d")
    write(files, "/data/d/a", b"bytes", sync=True)
    files.sync_dir("/data/d")
    files.crash()
    assert not files.exists("/data/d")


def test_rename_and_remove_are_undone_by_a_power_cut(files: MemoryFiles) -> None:
    write(files, "/data/a", b"a", sync=True)
    write(files, "/data/b", b"b", sync=True)
    files.sync_dir("/data")
    files.rename("/data/a", "/data/c")
    files.remove("/data/b")
    files.crash()
    assert files.list_dir("/data") == ["a", "b"]
    files.rename("/data/a", "/data/c")
    files.sync_dir("/data")
    files.crash()
    assert files.list_dir("/data") == ["b", "c"]


def test_a_truncation_is_undone_unless_synced(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    file.append([b"0123456789"])
    file.sync()
    files.sync_dir("/data")
    file.truncate(6)
    file.truncate(4)
    file.append([b"new"])
    assert files.durable_bytes("/data/a") == b"0123456789"
    file.sync()
    assert files.durable_bytes("/data/a") == b"0123new"
    files.crash()
    assert files.read_bytes("/data/a") == b"0123new"


def test_a_function_chooses_what_is_left(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    file.append([b"one"])
    file.sync()
    file.append([b"two"])
    file.append([b"three"])
    seen: list[CrashView] = []

    def torn(view: CrashView) -> bytes:
        seen.append(view)
        return view.current[: view.boundaries[0] + 2]

    files.crash(torn)
    assert seen == [CrashView("/data/a", b"one", b"onetwothree", (6, 11))]
    assert files.read_bytes("/data/a") == b"onetwoth"


def test_handles_and_locks_die_with_the_machine(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    files.lock("/data/.lock")
    files.crash("all")
    with pytest.raises(OSError, match="dead"):
        file.append([b"from beyond"])
    assert files.read_bytes("/data/a") == b""
    files.lock("/data/.lock").release()


def test_reborn_leaves_the_old_view_dead(files: MemoryFiles) -> None:
    write(files, "/data/a", b"bytes")
    successor = files.reborn("all")
    with pytest.raises(OSError, match="crashed"):
        files.open("/data/b", create=True)
    with pytest.raises(OSError, match="crashed"):
        files.list_dir("/data")
    assert successor.read_bytes("/data/a") == b"bytes"


def test_a_failed_sync_loses_bytes_for_good(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    files.sync_dir("/data")
    file.append([b"good"])
    file.sync()
    file.append([b"lost"])
    files.fail("sync", "/data")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.append([b"late"])
    file.sync()  # "succeeds", as kernels have it
    assert file.read_at(0, 100) == b"goodlostlate"
    files.crash()
    assert files.read_bytes("/data/a") == b"good\0\0\0\0late"


def test_a_failed_append_leaves_a_part(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    files.fail("append", "/data/a", keep_bytes=3)
    with pytest.raises(OSError, match="Input/output error"):
        file.append([b"01", b"2345"])
    assert file.read_at(0, 100) == b"012"
    file.append([b"x"])
    assert file.size() == 4


def test_faults_are_counted_and_bound_to_a_place(files: MemoryFiles) -> None:
    files.make_dirs("/data/d")
    there = files.open("/data/d/a", create=True)
    elsewhere = files.open("/data/a", create=True)
    files.fail("append", "/data/d", times=2, error=errno.EROFS)
    for _ in range(2):
        with pytest.raises(OSError, match="Read-only"):
            there.append([b"x"])
    elsewhere.append([b"x"])
    there.append([b"x"])
    files.fail("read", times=None)
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            there.read_at(0, 1)
    files.heal()
    assert there.read_at(0, 1) == b"x"


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        ("open", lambda files: files.open("/data/a")),
        ("rename", lambda files: files.rename("/data/a", "/data/b")),
        ("remove", lambda files: files.remove("/data/a")),
        ("make_dirs", lambda files: files.make_dirs("/data/d")),
        ("sync_dir", lambda files: files.sync_dir("/data")),
        ("truncate", lambda files: files.open("/data/a").truncate(0)),
    ],
)
def test_every_operation_can_fail(files: MemoryFiles, operation: str, call: object) -> None:
    write(files, "/data/a", b"bytes")
    files.fail(operation)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="Input/output"):
        call(files)  # type: ignore[operator]
    assert files.list_dir("/data") == ["a"]
    assert files.read_bytes("/data/a") == b"bytes"


def test_the_disk_fills_up_at_a_byte(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    files.set_free_bytes(10)
    file.append([b"01234567"])
    assert files.disk_space("/data").free_bytes == 2
    with pytest.raises(OSError, match="No space left"):
        file.append([b"89abc"])
    assert file.read_at(0, 100) == b"0123456789"
    file.truncate(8)
    assert files.disk_space("/data").free_bytes == 2
    file.append([b"x"])


def test_bits_rot(files: MemoryFiles) -> None:
    write(files, "/data/a", b"abc", sync=True)
    files.corrupt("/data/a", 1, 0x01)
    assert files.read_bytes("/data/a") == b"acc"


def test_an_atomic_write_is_old_or_new_at_every_step() -> None:
    class Stop(Exception):
        pass

    outcomes: set[bytes] = set()
    for stop_at in range(20):
        files = MemoryFiles("/data")
        files.write_atomic_now("/data/a", b"old")
        steps = 0

        def step(operation: str, path: str, stop_at: int = stop_at) -> None:
            nonlocal steps
            if steps == stop_at:
                raise Stop
            steps += 1

        files.before_change = step
        try:
            files.write_atomic_now("/data/a", b"new")
        except Stop:
            pass
        files.before_change = None
        files.crash("none")
        outcomes.add(files.read_bytes("/data/a"))
        if steps < stop_at:
            break
    else:
        pytest.fail("an atomic write has more steps than expected")
    assert outcomes == {b"old", b"new"}
