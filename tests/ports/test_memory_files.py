"""The memory file system forgets what a machine would forget, and fails where it is told to.

That it otherwise behaves like a real one is checked by the contract suite in test_files.py.
"""

from __future__ import annotations

import errno

import pytest

from oncelog_runtime.files import File
from oncelog_testing.memory.files import CrashView, MemoryFiles


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
    (view,) = seen
    assert (view.path, view.durable, view.current) == ("/data/a", b"one", b"onetwothree")
    assert (view.boundaries, view.common, view.operations) == ((6, 11), 3, 2)
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


def with_lost_bytes(files: MemoryFiles) -> File:
    """Make a file with a hole that reads do not show: one sync failed and the next "succeeded"."""
    file = files.open("/data/a", create=True)
    files.sync_dir("/data")
    file.append([b"good"])
    file.sync()
    file.append([b"lost"])
    files.fail("sync", "/data")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.append([b"late"])
    file.sync()
    return file


@pytest.mark.parametrize("killed", [False, True])
def test_what_was_lost_is_durable_once_it_was_written_again_and_synced(
    files: MemoryFiles, killed: bool
) -> None:
    file = with_lost_bytes(files)
    if killed:
        files = files.reborn("all")
        file = files.open("/data/a")
    file.rewrite(5, 2)
    assert files.image("none").read_bytes("/data/a") == b"good\0\0\0\0late", "not synced yet"
    file.sync()
    assert files.image("none").read_bytes("/data/a") == b"good\0os\0late"
    file.rewrite(0, 12)
    file.sync()
    assert files.image("none").read_bytes("/data/a") == b"goodlostlate"


def test_what_was_written_again_is_lost_again_with_the_next_failed_sync(
    files: MemoryFiles,
) -> None:
    file = with_lost_bytes(files)
    file.rewrite(0, 12)
    files.fail("sync", "/data")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert files.image("none").read_bytes("/data/a").startswith(b"good\0\0\0\0")
    file.rewrite(0, 12)
    file.sync()
    assert files.image("none").read_bytes("/data/a") == b"goodlostlate"


def test_writing_again_what_is_merely_unsynced_makes_nothing_durable(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    files.sync_dir("/data")
    file.append([b"good"])
    file.sync()
    file.append([b"more"])
    file.rewrite(0, 8)
    assert files.common_bytes("/data/a") == 4
    assert files.image("none").read_bytes("/data/a") == b"good"
    file.sync()
    assert files.image("none").read_bytes("/data/a") == b"goodmore"


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
        ("rewrite", lambda files: files.open("/data/a").rewrite(0, 5)),
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


def test_the_bytes_of_a_removed_file_are_free_again(files: MemoryFiles) -> None:
    write(files, "/data/a", b"0123456789")
    write(files, "/data/b", b"01234")
    files.set_free_bytes(0)
    files.rename("/data/b", "/data/a")
    assert files.disk_space("/data").free_bytes == 10
    files.remove("/data/a")
    assert files.disk_space("/data").free_bytes == 15
    files.heal()
    assert files.disk_space("/data").free_bytes == files.disk_space("/data").total_bytes


def test_a_power_cut_frees_what_it_takes(files: MemoryFiles) -> None:
    write(files, "/data/a", b"0123456789")
    before = files.disk_space("/data").free_bytes
    files.crash("none")
    assert files.disk_space("/data").free_bytes == before + 10


def test_a_read_only_disk_is_read_through_open_handles(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    file.append([b"bytes"])
    files.set_read_only()
    assert not files.is_writable("/data")
    for change in (
        lambda: file.append([b"x"]),
        lambda: file.truncate(0),
        file.sync,
        lambda: files.open("/data/a"),
        lambda: files.remove("/data/a"),
        lambda: files.rename("/data/a", "/data/b"),
        lambda: files.make_dirs("/data/d"),
        lambda: files.sync_dir("/data"),
        lambda: files.lock("/data/.lock"),
    ):
        with pytest.raises(OSError, match="Read-only"):
            change()
    assert file.read_at(0, 10) == files.read_bytes("/data/a") == b"bytes"
    files.set_read_only(False)
    file.append([b"!"])
    assert files.is_writable("/data")


def test_handles_are_counted_and_may_run_out(files: MemoryFiles) -> None:
    handles = [files.open(f"/data/{number}", create=True) for number in range(3)]
    assert files.open_count == 3
    files.set_open_max(3)
    with pytest.raises(OSError, match="Too many open files"):
        files.open("/data/0")
    handles[0].close()
    handles[0].close()
    handles[1] = files.open("/data/0")
    files.set_open_max(None)
    files.lock("/data/.lock")
    assert files.open_count == 4
    files.crash("all")
    assert files.open_count == 0
    files.lock("/data/.lock").release()
    assert files.open_count == 0


def test_operations_take_their_time_and_somebody_is_told(files: MemoryFiles) -> None:
    file = files.open("/data/a", create=True)
    files.stall("/data", 5.0, times=2)
    files.stall("/data/a", 0.5, operation="append")
    file.append([b"x"])
    assert files.take_delay() == 0.5
    file.sync()
    file.sync()
    file.sync()
    assert files.take_delay() == 10.0
    assert files.take_delay() == 0.0
    files.fail("sync", "/data/a")
    files.stall("/data/a", 1.0, times=1)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    assert files.take_delay() == 1.0
    files.heal()
    file.append([b"x"])
    assert files.take_delay() == 0.0


def test_files_are_listed_by_the_beginning_of_their_paths(files: MemoryFiles) -> None:
    files.make_dirs("/data/t-0")
    files.make_dirs("/data/t-1")
    for name in ("t-0/b", "t-0/a", "t-1/a", "meta"):
        write(files, f"/data/{name}", name.encode())
    assert files.paths() == ["/data/meta", "/data/t-0/a", "/data/t-0/b", "/data/t-1/a"]
    assert files.paths("/data/t-0/") == ["/data/t-0/a", "/data/t-0/b"]
    assert files.paths("/data/t-") == ["/data/t-0/a", "/data/t-0/b", "/data/t-1/a"]
    assert files.paths("/data/x/") == files.paths("/data/meta/") == []
    assert files.contents()["/data/t-0/a"] == b"t-0/a"
    assert files.contents()["/data/t-0/"] == b""


def test_what_is_durable_can_be_had_without_a_crash(files: MemoryFiles) -> None:
    write(files, "/data/a", b"bytes", sync=True)
    write(files, "/data/b", b"bytes")
    assert files.durable_contents("/data") == {}
    files.sync_dir("/data")
    write(files, "/data/a", b"more")
    assert files.durable_contents() == {"/data/a": b"bytes", "/data/b": b""}
    assert files.common_bytes("/data/a") == 5
    assert files.durable_contents("/data/nowhere") == {}


def test_a_tree_goes_one_name_at_a_time() -> None:
    files = MemoryFiles("/data/d/e")
    for name in ("d/a", "d/e/b"):
        write(files, f"/data/{name}", b"x")
    steps: list[str] = []
    files.before_change = lambda operation, path: steps.append(f"{operation} {path}")
    files.remove_tree_now("/data/d")
    assert steps == [f"remove /data/{name}" for name in ("d/a", "d/e/b", "d/e", "d")]


def test_a_volume_that_is_mounted_again_forgets_while_the_machine_runs_on() -> None:
    files = MemoryFiles("/a", "/b")
    boot = files.boot_id()
    for path in ("/a/f", "/b/f"):
        file = files.open(path, create=True)
        file.append([b"synced"])
        file.sync()
        files.sync_dir(path[:2])
        file.append([b", and not"])
    files = files.reborn("none", remount="/a")
    assert files.read_bytes("/a/f") == b"synced"
    assert files.read_bytes("/b/f") == b"synced, and not"
    assert files.durable_bytes("/b/f") == b"synced"
    assert files.boot_id() == boot


def test_what_a_failed_sync_dropped_may_shorten_the_file() -> None:
    files = MemoryFiles("/a")
    file = files.open("/a/f", create=True)
    file.append([b"synced"])
    file.sync()
    files.sync_dir("/a")
    file.append([b", and not"])
    files.fail("sync", "/a")
    with pytest.raises(OSError):
        file.sync()
    file.sync()
    zeros = files.image(lambda view: view.durable)
    assert zeros.read_bytes("/a/f") == b"synced" + bytes(len(b", and not"))
    files.crash(lambda view: view.shortened)
    assert files.read_bytes("/a/f") == b"synced"
