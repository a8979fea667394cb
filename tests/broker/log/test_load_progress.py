"""Loading tells a person of its progress."""

from __future__ import annotations

from oncelog_broker.log.load_progress import LoadProgress


def test_what_a_person_is_told() -> None:
    progress = LoadProgress("/data", logs_total=90, logs_done=16)
    assert progress.done is False
    progress.begin("/data/orders-3", 7)
    for _ in range(2):
        progress.one_segment()
    assert progress.describe() == "/data: log 17 of 90 (orders-3, segment 2 of 7)"
    progress.logs_done = 90
    assert bool(progress.done)
    assert progress.describe() == "/data: 90 logs loaded"
    assert progress.segments_seen == 2
