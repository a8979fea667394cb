"""Totals are held against the reviews, whatever Faust made of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kafka_suites import faust, records
from kafka_suites.faust import COUNT, TOTALS, Kitchen
from kafka_suites.kit import Kit
from kafka_suites.verdict import NotAsExpectedError
from oncelog import Record
from oncelog_cli.local.cluster import LocalCluster


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[records.Keyed]:
    """Return what is written."""
    rows: list[records.Keyed] = []
    monkeypatch.setattr(records, "write", lambda servers, topic, more: rows.extend(more))
    return rows


@pytest.fixture
def kitchen(
    tmp_path: Path, written: list[records.Keyed], monkeypatch: pytest.MonkeyPatch
) -> Kitchen:
    """Some reviews were written."""
    monkeypatch.setattr(faust, "environment", lambda listed, report: tmp_path)
    kitchen = Kitchen(Kit("there:1", "here:1", tmp_path, print, LocalCluster(tmp_path)))
    kitchen.review()
    assert len(written) == COUNT
    return kitchen


def totals(rows: list[records.Keyed]) -> list[Record]:
    """Return what is right for these reviews."""
    sums: Counter[bytes] = Counter()
    told: list[Record] = []
    for dish, stars in rows:
        assert dish is not None
        sums[dish] += int(stars)
        told.append(Record(TOTALS, 0, len(told), 0, dish, b"%d" % sums[dish], ()))
    return told


@pytest.mark.parametrize(
    ("lost", "doubled", "is_right"), [((), (), True), ((7,), (), False), ((), (7,), False)]
)
def test_a_review_that_is_lost_or_doubled_is_told(
    lost: tuple[int, ...],
    doubled: tuple[int, ...],
    is_right: bool,
    kitchen: Kitchen,
    written: list[records.Keyed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = [row for number, row in enumerate(written) if number not in lost]
    told = totals([*kept, *(written[number] for number in doubled)])
    monkeypatch.setattr(records, "read", lambda servers, topic, enough: told)
    if is_right:
        kitchen.check()
    else:
        with pytest.raises(NotAsExpectedError, match="not"):
            kitchen.check()


@pytest.mark.parametrize(
    ("policy", "last", "is_right"),
    [("compact", b"", True), ("delete", b"", False), ("compact", b"0", False)],
)
def test_a_table_that_is_otherwise_is_told(
    policy: str,
    last: bytes,
    is_right: bool,
    kitchen: Kitchen,
    written: list[records.Keyed],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [row._replace(key=b'"%s"' % row.key) for row in totals(written) if row.key]
    if last:
        rows.append(rows[-1]._replace(value=last))
    monkeypatch.setattr(records, "setting", lambda servers, topic, name: policy)
    monkeypatch.setattr(records, "read", lambda servers, topic, enough: rows)
    if is_right:
        kitchen.check_table()
    else:
        with pytest.raises(NotAsExpectedError, match="stars-stars-changelog"):
            kitchen.check_table()
