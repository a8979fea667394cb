"""Receipts are held against the orders, whatever FastStream made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_suites import faststream, records
from kafka_suites.faststream import COUNT, PRICE_CENTS, Till
from kafka_suites.kit import Kit
from kafka_suites.verdict import NotAsExpectedError
from oncelog import Record
from oncelog_cli.local.cluster import LocalCluster


def receipt(number: int, cents: int | None = None) -> Record:
    total = number % 7 * PRICE_CENTS if cents is None else cents
    value = json.dumps({"item": f"cup {number}", "total_cents": total}).encode()
    return Record("receipts", 0, number, 0, None, value, ())


RIGHT = [receipt(number) for number in range(COUNT)]


@pytest.fixture
def till(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Till:
    """Some orders were written."""
    monkeypatch.setattr(faststream, "environment", lambda listed, report: tmp_path)
    monkeypatch.setattr(records, "write", lambda servers, topic, rows: None)
    till = Till(Kit("there:1", "here:1", tmp_path, print, LocalCluster(tmp_path)))
    till.order()
    return till


def test_a_receipt_for_each_order_is_right(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "read", lambda servers, topic, enough: RIGHT[::-1])
    till.check()


@pytest.mark.parametrize(
    "receipts",
    [RIGHT[1:], [*RIGHT, RIGHT[0]], [receipt(0, 1), *RIGHT[1:]], [*RIGHT, receipt(COUNT)]],
    ids=["lost", "doubled", "another sum", "nobody's"],
)
def test_any_other_is_told(
    receipts: Sequence[Record], till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "read", lambda servers, topic, enough: receipts)
    with pytest.raises(NotAsExpectedError, match="beyond it"):
        till.check()
