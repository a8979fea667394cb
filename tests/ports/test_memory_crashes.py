"""A crash may leave much of a disk in memory: every style is tried, and what no style ever does."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from oncelog_runtime.entropy import SeededEntropy
from oncelog_testing.memory.crashes import (
    BLOCK_BYTES,
    KILL,
    SECTOR_BYTES,
    Crash,
    CrashView,
    draw_crash,
    draw_power_cut,
    first_operations,
    length_only,
    some_sectors,
)
from oncelog_testing.memory.files import MemoryFiles

A = "/data/a"


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles("/data")


def left(files: MemoryFiles, keep: Callable[[CrashView], bytes]) -> bytes:
    """Return what such a crash would leave of the one file."""
    return files.image(Crash(keep, names=True)).read_bytes(A)


def test_operations_are_kept_from_the_oldest_on(files: MemoryFiles) -> None:
    file = files.open(A, create=True)
    file.append([b"synced"])
    file.sync()
    file.append([b" one"])
    file.truncate(3)
    file.append([b"two"])
    states = [left(files, partial(first_operations, count=number)) for number in range(4)]
    assert states == [b"synced", b"synced one", b"syn", b"syntwo"]
    assert left(files, lambda view: first_operations(view, 0, torn_bytes=2)) == b"synced o"
    # A truncation is not torn, and the last one has nothing behind it.
    assert left(files, lambda view: first_operations(view, 1, torn_bytes=2)) == b"synced one"
    assert left(files, lambda view: first_operations(view, 3, torn_bytes=2)) == b"syntwo"
    file.sync()
    assert left(files, lambda view: first_operations(view, 0)) == b"syntwo"


def test_a_length_without_data(files: MemoryFiles) -> None:
    file = files.open(A, create=True)
    file.append([b"synced"])
    file.sync()
    file.append([b"lost"])
    assert left(files, length_only) == b"synced\0\0\0\0"
    file.truncate(2)
    file.append([b"x"])
    assert left(files, length_only) == b"sy\0"


def test_sectors_are_torn_and_out_of_order(files: MemoryFiles) -> None:
    file = files.open(A, create=True)
    file.append([b"a" * 700])
    file.sync()
    file.append([b"b" * 1000])
    content = left(files, lambda view: some_sectors(view, lambda number: number == 2))
    assert content == b"a" * 700 + bytes(1024 - 700) + b"b" * 512 + bytes(1700 - 1536)
    assert left(files, lambda view: some_sectors(view, lambda _: True)) == b"a" * 700 + b"b" * 1000
    shorter = left(files, lambda view: some_sectors(view, lambda _: True, length=800))
    assert shorter == b"a" * 700 + b"b" * 100
    nothing = left(files, lambda view: some_sectors(view, lambda _: True, length=10))
    assert nothing == b"a" * 700, "what was synced stays"


def test_a_block_may_be_written_before_the_length(files: MemoryFiles) -> None:
    file = files.open(A, create=True)
    file.append([b"o" * (2 * BLOCK_BYTES)])
    file.sync()
    file.truncate(SECTOR_BYTES)
    file.append([b"n" * SECTOR_BYTES])

    def keep(view: CrashView) -> bytes:
        return some_sectors(view, lambda number: number < 3, cut=False)

    sector = SECTOR_BYTES
    expected = b"o" * sector + b"n" * sector + bytes(sector)
    # Its sectors behind the new end are zeros in the cache; the next block is as it was.
    assert left(files, keep) == expected + b"o" * (2 * BLOCK_BYTES - 3 * sector)


def test_what_a_failed_sync_dropped_is_in_no_style(files: MemoryFiles) -> None:
    file = files.open(A, create=True)
    file.append([b"lost"])
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    for keep in ("all", lambda view: view.current, lambda view: some_sectors(view, lambda _: True)):
        assert files.image(Crash(keep, names=True)).read_bytes(A) == bytes(4)
    assert files.image(KILL).read_bytes(A) == b"lost"


def test_changes_of_names_are_kept_from_the_oldest_on(files: MemoryFiles) -> None:
    for name in ("a", "b"):
        files.open(f"/data/{name}", create=True).close()
    files.sync_dir("/data")
    files.rename("/data/a", "/data/b")
    files.open("/data/c", create=True).close()
    files.remove("/data/b")
    names = [
        files.image(Crash("all", lambda _, n=n: n)).list_dir("/data")  # type: ignore[misc]
        for n in range(4)
    ]
    assert names == [["a", "b"], ["b"], ["b", "c"], ["c"]]


def test_a_new_directory_takes_what_is_in_it_along(files: MemoryFiles) -> None:
    files.make_dirs("/data/d")
    files.open("/data/d/x", create=True).close()
    files.sync_dir("/data/d")
    only_below = Crash("all", lambda view: 0 if view.path == "/data" else len(view.unsynced))
    assert files.image(only_below).list_dir("/data") == []
    only_above = Crash("all", lambda view: len(view.unsynced) if view.path == "/data" else 0)
    files.open("/data/d/y", create=True).close()
    assert files.image(only_above).list_dir("/data/d") == ["x"]


def test_a_kill_keeps_what_is_unsynced_unsynced(files: MemoryFiles) -> None:
    files.open("/data/old", create=True).close()
    files.sync_dir("/data")
    files.open("/data/gone", create=True).close()
    files.rename("/data/old", "/data/new")
    files.crash(KILL)
    assert files.list_dir("/data") == ["gone", "new"]
    files.crash("none")
    assert files.list_dir("/data") == ["old"]


def test_only_a_power_cut_ends_a_run_of_the_machine(files: MemoryFiles) -> None:
    boot_id = files.boot_id()
    files.crash(KILL)
    assert files.boot_id() == boot_id == files.image(KILL).boot_id()
    assert files.image("none").boot_id() != boot_id
    files.crash("none")
    assert files.boot_id() != boot_id


def test_an_image_is_apart(files: MemoryFiles) -> None:
    file = files.open(A, create=True)
    file.append([b"one"])
    images = [files.image("all"), files.image(Crash("all", names=True))]
    file.append([b"two"])
    for image in images:
        assert image.read_bytes(A) == b"one"
        image.open(A).append([b"!"])
    assert files.read_bytes(A) == b"onetwo"
    assert images[0].image("none").list_dir("/data") == []
    assert images[1].image("none").read_bytes(A) == b"one"


def history(files: MemoryFiles) -> tuple[list[bytes], int]:
    """Write synced sectors, then unsynced ones; return all states, and what is common."""
    file = files.open(A, create=True)
    content = bytes(range(1, 256)) * 6
    file.append([content])
    file.sync()
    files.sync_dir("/data")
    states = [content]
    for size, cut in ((300, None), (2000, None), (0, 1400), (700, None)):
        if cut is not None:
            file.truncate(cut)
            states.append(states[-1][:cut])
        else:
            file.append([b"\xff" * size])
            states.append(states[-1] + b"\xff" * size)
    return states, 1400


def test_whatever_is_drawn_the_untouched_part_stays() -> None:
    chance = random.Random(5)
    outcomes = set()
    labels = set()
    for _ in range(800):
        files = MemoryFiles("/data")
        states, common = history(files)
        crash = draw_power_cut(chance)
        labels.add(str(crash))
        files.crash(crash)
        content = files.read_bytes(A)
        assert content[:common] == states[0][:common]
        assert len(content) <= max(map(len, states))
        outcomes.add(content)
        files.crash("none")
        assert files.read_bytes(A) == content, "what was found once stays"
    assert states[0] in outcomes
    assert states[-1] in outcomes
    assert len(outcomes) > 100
    assert len(labels) > 20


def test_names_are_drawn_too() -> None:
    chance = SeededEntropy(3)
    outcomes = set()
    for _ in range(300):
        files = MemoryFiles("/data/d", "/data/e")
        for name in ("d/1", "e/1", "d/2", "e/2", "d/3"):
            files.open(f"/data/{name}", create=True).close()
        files.crash(draw_power_cut(chance))
        outcomes.add(tuple(path[6:] for path in files.paths()))
    assert () in outcomes
    assert ("d/1", "d/2", "d/3", "e/1", "e/2") in outcomes
    assert ("d/1", "d/2", "e/1") in outcomes, "up to a moment"
    assert len(outcomes) == 12, "each directory from its oldest change on, and nothing else"


def test_the_same_seed_draws_the_same() -> None:
    def run(seed: int) -> list[bytes]:
        chance = SeededEntropy(seed)
        found = []
        for _ in range(20):
            files = MemoryFiles("/data")
            history(files)
            files.crash(draw_power_cut(chance))
            found.append(files.read_bytes(A))
        return found

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_kills_are_drawn_as_often_as_is_said() -> None:
    chance = SeededEntropy(1)
    assert all(draw_crash(chance, kills=1.0) is KILL for _ in range(10))
    assert all(draw_crash(chance, kills=0.0) is not KILL for _ in range(10))
    assert str(KILL) == "kill"
    assert str(Crash()) == "a crash"


def test_what_is_written_again_is_there_by_sectors_and_nothing_else_is_touched() -> None:
    files = MemoryFiles("/data")
    file = files.open(A, create=True)
    files.sync_dir("/data")
    good, lost, late = (bytes([letter]) * SECTOR_BYTES for letter in b"abc")
    file.append([good])
    file.sync()
    file.append([lost, lost])
    files.fail("sync", A)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.append([late])
    file.sync()
    file.rewrite(0, file.size())
    hole = bytes(SECTOR_BYTES)
    assert left(files, length_only) == good + hole + hole + late
    assert left(files, lambda view: view.durable) == good + hole + hole + late
    assert left(files, lambda view: view.current) == good + lost + lost + late
    even = left(files, lambda view: some_sectors(view, lambda number: number % 2 == 0))
    assert even == good + hole + lost + late
    for seed in range(200):
        drawn = files.image(draw_power_cut(random.Random(seed))).contents().get(A, b"")
        if drawn:
            assert drawn[:SECTOR_BYTES] == good
            assert drawn[3 * SECTOR_BYTES :] == late
