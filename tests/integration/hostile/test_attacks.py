"""Each attack of the table meets a real broker, which defends itself; a bystander goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integration.hostile.attack import Attack
from integration.hostile.attacks import ATTACKS
from integration.hostile.bystander import Bystander
from integration.hostile.target import SecuredCluster, Target
from support.waiting import eventually


@pytest.mark.parametrize(
    "attack",
    [pytest.param(each, id=str(each), marks=pytest.mark.hostile(each.row)) for each in ATTACKS],
)
async def test_an_attack_comes_to_nothing_and_a_bystander_goes_on(
    attack: Attack, tmp_path: Path, caplog: pytest.LogCaptureFixture, record_property: Any
) -> None:
    async with SecuredCluster(tmp_path, **attack.settings) as cluster:
        papers = cluster.papers
        async with Bystander(cluster.addresses["external"], papers.ca_file) as bystander:
            caplog.clear()
            async with Target(cluster.addresses, papers) as target:
                await attack.on(target)
            await bystander.goes_on()
            listeners = cluster.brokers[1].listeners
            assert listeners["internal"].newcomer_count() == 0
            await eventually(lambda: len(listeners["external"].connections) == 1)
            await eventually(lambda: not listeners["certified"].connections)
        record_property("laps_ms", bystander.laps_ms())
        assert [line.getMessage() for line in caplog.records if line.levelname == "ERROR"] == []


async def test_a_bystander_of_a_quiet_broker(tmp_path: Path, record_property: Any) -> None:
    """`make security-check` compares with it how long bystanders of attacks wait."""
    async with SecuredCluster(tmp_path) as cluster:
        ca_file = cluster.papers.ca_file
        async with Bystander(cluster.addresses["external"], ca_file) as bystander:
            for _ in range(100):
                await bystander.goes_on()
        record_property("laps_ms", bystander.laps_ms())
