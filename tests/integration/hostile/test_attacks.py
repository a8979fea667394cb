"""Each attack of the table meets a real broker, which defends itself; a bystander goes on."""

from __future__ import annotations

from pathlib import Path

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
    attack: Attack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with SecuredCluster(tmp_path) as cluster:
        papers = cluster.papers
        async with Bystander(cluster.addresses["external"], papers.ca_file) as bystander:
            caplog.clear()
            async with Target(cluster.addresses, papers) as target:
                await attack.on(target)
            await bystander.goes_on()
            listeners = cluster.brokers[1].listeners
            assert listeners["internal"].newcomer_count() == 0
            await eventually(lambda: len(listeners["external"].connections) == 1)
            assert not listeners["certified"].connections
        assert [line.getMessage() for line in caplog.records if line.levelname == "ERROR"] == []
