"""Grafana takes the dashboard: panels do not overlap, and use the one data source that is provided.

That its queries bring something is ``test_prometheus``'s business. Grafana itself is not run here.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import yaml

from support.house import ROOT

GRAFANA = ROOT / "deploy/grafana"
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "dashboards/oncelog.json").read_text())


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    at = panel["gridPos"]
    return {(at["x"] + dx, at["y"] + dy) for dx in range(at["w"]) for dy in range(at["h"])}


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        own = cells(panel)
        assert not own & taken, panel["title"]
        assert max(x for x, _ in own) < 24, panel["title"]
        taken |= own
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert all(after > before for before, after in pairwise(ids))


def test_every_panel_asks_the_source_that_is_provided() -> None:
    source = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())
    (provided,) = source["datasources"]
    for panel in DASHBOARD["panels"]:
        if panel["type"] == "row":
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": provided["uid"]}
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            assert target["expr"]
            assert target["datasource"] == panel["datasource"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def test_the_provider_looks_where_the_dashboards_are_mounted() -> None:
    provider = yaml.safe_load((GRAFANA / "provisioning/dashboards/oncelog.yml").read_text())
    assert provider["providers"][0]["options"]["path"] == "/etc/grafana/dashboards"


def test_variables_are_used() -> None:
    text = json.dumps(DASHBOARD["panels"])
    for variable in DASHBOARD["templating"]["list"]:
        assert f"${variable['name']}" in text
