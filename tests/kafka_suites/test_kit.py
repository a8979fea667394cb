"""Programs of others run beside a suite, and are told to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_suites.kit import Kit, Running
from oncelog_cli.local.cluster import LocalCluster
from support.waiting import eventually

ENDS = "trap 'echo bye; exit 3' TERM; echo here; while :; do sleep 0.01; done"
STAYS = "trap '' TERM; echo here; while :; do sleep 0.01; done"


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return Kit("there:1", "here:1", tmp_path, print, LocalCluster(tmp_path))


def printed(running: Running) -> Callable[[], bool]:
    return lambda: running.so_far.output == "here\n"


async def test_a_program_stops_when_it_is_told(kit: Kit) -> None:
    with kit.running("service", ["sh", "-c", ENDS]) as service:
        await eventually(printed(service))
        assert service.so_far.code is None
        ended = service.stop(60.0)
    assert (ended.code, ended.output) == (3, "here\nbye\n")
    assert (kit.folder / "service.log").read_text() == "here\nbye\n"


async def test_one_that_does_not_stop_is_killed(kit: Kit) -> None:
    with kit.running("service", ["sh", "-c", STAYS]) as service:
        await eventually(printed(service))
        ended = service.stop(0.01)
        assert ended.code is None
        assert ended.tail == "it did not end in time: here"
        assert service.so_far.code == -9


async def test_none_is_left_behind(kit: Kit) -> None:
    with pytest.raises(ValueError, match="oh"), kit.running("service", ["sh", "-c", STAYS]) as left:
        raise ValueError("oh")
    assert left.so_far.code == -9
