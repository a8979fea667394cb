"""Each attack of the table meets a real broker, which defends itself; a bystander goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.hostile.attack import Attack
from integration.hostile.attacker import Attacker
from integration.hostile.attacks import ATTACKS
from integration.hostile.bystander import Bystander
from integration.hostile.secured_cluster import SecuredCluster
from support.waiting import eventually


@pytest.fixture(scope="module")
def attacker() -> Iterator[Attacker]:
    with Attacker() as made:
        yield made


@pytest.mark.parametrize(
    "attack",
    [pytest.param(each, id=str(each), marks=pytest.mark.hostile(each.row)) for each in ATTACKS],
)
async def test_an_attack_comes_to_nothing_and_a_bystander_goes_on(
    attack: Attack,
    attacker: Attacker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    record_property: Any,
    request: pytest.FixtureRequest,
) -> None:
    async with SecuredCluster(tmp_path, **attack.settings) as cluster:
        ca_file = cluster.papers.ca_file
        async with Bystander(cluster.addresses["external"], ca_file) as bystander:
            await bystander.goes_on(request.config.getoption("--quiet-laps"))
            record_property("quiet_ms", bystander.laps_ms())
            caplog.clear()
            await attacker.attack(str(attack), cluster.addresses, cluster.papers)
            await bystander.goes_on()
            record_property("laps_ms", bystander.laps_ms())
            listeners = cluster.brokers[1].listeners
            await eventually(lambda: listeners["internal"].newcomer_count() == 0)
            await eventually(lambda: len(listeners["external"].connections) == 1)
            await eventually(lambda: not listeners["certified"].connections)
        assert [line.getMessage() for line in caplog.records if line.levelname == "ERROR"] == []
