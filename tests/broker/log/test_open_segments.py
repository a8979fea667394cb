"""These tests check the bounded set of open segments."""

from __future__ import annotations

import errno

import pytest

from oncelog_broker.log.open_segments import OpenSegments
from oncelog_runtime.files import File
from oncelog_testing.memory.files import MemoryFiles


class Holder:
    """It is what the set sees of a segment."""

    def __init__(self, pool: OpenSegments, name: str) -> None:
        self.pool = pool
        self.name = name
        self.used = False
        self.dirty = False
        self.file: File | None = None

    def open(self) -> None:
        self.file = self.pool.open(self, f"/d/{self.name}", create=True)

    def park(self) -> None:
        file, self.file = self.file, None
        assert file is not None
        self.pool.retire(self, file)


def holders(pool: OpenSegments, count: int) -> list[Holder]:
    made = [Holder(pool, f"f{number}") for number in range(count)]
    for holder in made:
        holder.open()
    return made


def open_names(made: list[Holder]) -> list[str]:
    return [holder.name for holder in made if holder.file is not None]


def test_the_bound_holds_and_the_oldest_goes_first() -> None:
    pool = OpenSegments(MemoryFiles("/d"), 4)
    made = holders(pool, 6)
    assert len(pool) == 4
    assert open_names(made) == ["f2", "f3", "f4", "f5"]


def test_use_gives_a_second_chance() -> None:
    pool = OpenSegments(MemoryFiles("/d"), 4)
    made = holders(pool, 4)
    made[0].used = True
    Holder(pool, "more").open()
    assert open_names(made) == ["f0", "f2", "f3"]
    assert made[0].used is False


def test_when_all_are_used_one_still_goes() -> None:
    pool = OpenSegments(MemoryFiles("/d"), 4)
    made = holders(pool, 4)
    for holder in made:
        holder.used = True
    Holder(pool, "more").open()
    assert len(open_names(made)) == 3


def test_dirty_ones_stay_whatever_the_bound() -> None:
    pool = OpenSegments(MemoryFiles("/d"), 4)
    made = holders(pool, 4)
    for holder in made:
        holder.dirty = True
    more = Holder(pool, "more")
    more.open()
    assert len(open_names([*made, more])) == 5


def test_nothing_is_closed_under_a_running_sync() -> None:
    pool = OpenSegments(MemoryFiles("/d"), 4)
    made = holders(pool, 1)
    file = made[0].file
    assert file is not None
    pool.sync_began()
    made[0].park()
    file.append([b"x"])  # still open
    pool.sync_ended()
    with pytest.raises(OSError):
        file.append([b"x"])


def test_when_the_process_may_hold_no_more_half_of_them_go() -> None:
    files = MemoryFiles("/d")
    pool = OpenSegments(files, 100)
    made = holders(pool, 20)
    files.fail("open", "/d/more", error=errno.EMFILE)
    more = Holder(pool, "more")
    more.open()
    assert more.file is not None
    assert len(pool) == 10
    holders(pool, 3)
    assert len(pool) == 10
    assert len(made) == 20


def test_other_errors_are_raised() -> None:
    files = MemoryFiles("/d")
    pool = OpenSegments(files, 4)
    files.fail("open", "/d/x", error=errno.EIO)
    with pytest.raises(OSError):
        Holder(pool, "x").open()
    assert len(pool) == 0


class Looked(Holder):
    """It counts how often somebody asks whether it may go."""

    looks = 0

    @property
    def dirty(self) -> bool:
        self.looks += 1
        return self.busy

    @dirty.setter
    def dirty(self, busy: bool) -> None:
        self.busy = busy


def test_where_all_are_dirty_nobody_looks_again_before_a_sync_has_ended() -> None:
    """With more partitions that are written than may be open, each write would look at all."""
    pool = OpenSegments(MemoryFiles("/d"), 4)
    made = [Looked(pool, f"f{number}") for number in range(50)]
    for holder in made:
        holder.dirty = True
        holder.open()
    assert len(pool) == 50
    assert sum(holder.looks for holder in made) <= 2 * 4
    pool.sync_began()
    for holder in made:
        holder.dirty = False
    pool.sync_ended()
    pool.trim()
    assert len(pool) == 4


def test_the_look_out_goes_on_where_it_stopped() -> None:
    pool = OpenSegments(MemoryFiles("/d"), 100)
    made = [Looked(pool, f"f{number}") for number in range(300)]
    for holder in made:
        holder.dirty = False
        holder.open()
        holder.used = True
    assert len(pool) == 100
    assert sum(holder.looks for holder in made) <= 3 * len(made)
