"""A bar shows how far a plan is, goes forward only, and is full when nothing moves any more."""

from __future__ import annotations

from typing import Any

from oncelog_cli.move_progress import MoveProgress


def planned(number: int, size: int | None, result: str = "planned") -> dict[str, Any]:
    adding = [] if size == 0 else [3]
    name = {"topic": "t", "partition": number}
    return {**name, "bytes_to_copy": size, "adding": adding, "result": result}


def moving(number: int, done: int | None, total: int | None, phase: str = "copying") -> Any:
    name = {"topic": "t", "partition": number}
    return {**name, "bytes_done": done, "bytes_total": total, "phase": phase}


def test_bytes_are_counted_where_they_are_known() -> None:
    progress = MoveProgress([planned(0, 100), planned(1, 300), planned(2, 0)])
    assert (progress.counts_bytes, progress.total) == (True, 400)
    queued = [moving(n, None, None, "queued") for n in (1, 2)]
    progress.see([moving(0, 50, 100), *queued, moving(9, 1, 2)])
    assert (progress.done, progress.percent) == (50, 12)
    progress.see([moving(0, 20, 100), *queued])
    assert progress.done == 50, "it does not go back"
    progress.see([moving(1, 200, 400), moving(0, None, None, "leaving")])
    assert (progress.done, progress.percent) == (250, 62)
    progress.see([])
    assert (progress.done, progress.percent) == (400, 100)


def test_partitions_are_counted_otherwise() -> None:
    progress = MoveProgress([planned(0, None), planned(1, 300), planned(2, 5, "refused")])
    assert (progress.counts_bytes, progress.total) == (False, 2)
    progress.see([moving(1, 1, 2)])
    assert (progress.done, progress.percent) == (1, 50)


def test_nothing_is_all() -> None:
    assert MoveProgress([]).percent == 100
