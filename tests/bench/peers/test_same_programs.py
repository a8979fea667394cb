"""The same programs run on both clusters: tests see whose turn it is, and what rows tell.

The clusters themselves are started by ``make bench-peers``.
"""

from __future__ import annotations

import io

import pytest

from oncelog_bench.__main__ import main
from oncelog_bench.peers.same_programs import (
    OURS,
    PRODUCE,
    THEIRS,
    Side,
    Turn,
    in_turns,
    row_name,
    tell,
)
from oncelog_bench.report import Report, ReportRow

SIDES = (Side(OURS, "127.0.0.1:1", [1]), Side(THEIRS, "127.0.0.1:2", [2]))


def told(ours: list[Turn], theirs: list[Turn], size: int = 100) -> dict[str, ReportRow]:
    """Return the rows of one program, by name."""
    report = Report(io.StringIO())
    tell(report, "aiokafka", PRODUCE, size, {OURS: ours, THEIRS: theirs})
    return {row.name: row for row in report.rows}


def test_sides_take_turns_and_who_was_last_begins() -> None:
    order: list[str] = []

    def work(side: Side) -> Turn:
        order.append(side.name)
        return Turn(1, float(len(order)), 0.0)

    taken = in_turns(SIDES, 3, work)
    assert order == [OURS, THEIRS, THEIRS, OURS, OURS, THEIRS]
    assert [turn.rate for turn in taken[OURS]] == [1.0, 4.0, 5.0]
    assert [turn.rate for turn in taken[THEIRS]] == [2.0, 3.0, 6.0]


def test_a_turn_tells_mebibytes_and_cpu_of_a_million_records() -> None:
    turn = Turn(records=500_000, rate=104_857.6, cpu_s=0.75)
    assert turn.mebibytes(1000) == pytest.approx(100.0)
    assert turn.cpu_per_million == pytest.approx(1.5)


def test_rows_are_medians_and_ours_stand_beside_kafkas() -> None:
    ours = [Turn(1_000_000, rate, cpu) for rate, cpu in ((300e3, 0.4), (900e3, 0.5), (600e3, 9.0))]
    rows = told(ours, [Turn(1_000_000, 400e3, 1.25)])
    our_name, their_name = (row_name(side, "aiokafka", PRODUCE, 100) for side in (OURS, THEIRS))
    rate, cpu = rows[our_name], rows[f"{our_name}, CPU"]
    assert (rate.value, rate.unit, rate.against) == (600e3, "rec/s", their_name)
    assert rate.ratio == pytest.approx(1.5)
    assert (cpu.value, cpu.unit, cpu.against) == (0.5, "s/M records", f"{their_name}, CPU")
    assert cpu.ratio == pytest.approx(2.5), "half of Kafka's CPU is 2 times better"
    volume = rows[f"{our_name}, MiB"]
    assert (volume.value, volume.ratio) == pytest.approx((600e3 * 100 / 2**20, 1.5))
    assert rows[their_name].ratio is None


def test_a_row_says_what_was_configured() -> None:
    ours, theirs = (row_name(side, "Java", PRODUCE, 1000) for side in (OURS, THEIRS))
    assert ours == "Oncelog: Java produce 1 KB RF 3 acks=all synced"
    assert theirs == "Kafka: Java produce 1 KB RF 3 acks=all unsynced"


def test_the_group_is_refused_without_kafka_beside(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "kafka"])
    assert "needs --peers" in capsys.readouterr().err
