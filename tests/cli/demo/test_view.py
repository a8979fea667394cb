"""The demo's view is tried with a terminal and without one."""

from __future__ import annotations

import io

from oncelog_cli.demo.view import (
    DemoSnapshot,
    PartitionLine,
    PlainView,
    isr_summary,
    make_view,
    table,
)


def snapshot(*, elapsed_s: float = 10.0, isr: tuple[int, ...] = (1, 2, 3)) -> DemoSnapshot:
    line = PartitionLine(0, 1, 4, isr, (1, 2, 3), 5000)
    return DemoSnapshot([line], 2, 1200, 336_776, 4321.0, elapsed_s)


def test_without_a_terminal_the_view_is_plain() -> None:
    assert isinstance(make_view(io.StringIO()), PlainView)


def test_plain_progress_comes_every_few_seconds_and_not_more_often() -> None:
    out = io.StringIO()
    view = PlainView(out)
    for elapsed_s in (0.0, 1.0, 4.9, 5.0, 9.0):
        view.show(snapshot(elapsed_s=elapsed_s))
    lines = out.getvalue().splitlines()
    assert lines == ["    1,200 of 336,776 acknowledged, 4,321 records/s, all in sync"] * 2


def test_partitions_that_lack_replicas_are_counted() -> None:
    assert isr_summary(snapshot(isr=(1, 3))) == "1 of 1 partitions under-replicated"


def test_the_live_table_names_leader_isr_and_high_watermark() -> None:
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=100).print(table(snapshot(isr=(1, 3))))
    text = out.getvalue()
    assert "1,200 of 336,776 flights acknowledged" in text
    assert "1, 3" in text
    assert "5,000" in text
    assert "controller: broker 2" in text
