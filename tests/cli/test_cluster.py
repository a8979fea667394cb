"""A command line's cluster is looked for when it is needed, and asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncelog_cli.cluster import NamedCluster
from oncelog_cli.exits import UsageError
from support import cluster


def test_it_is_looked_for_when_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_DIR", str(tmp_path))
    monkeypatch.delenv("ONCELOG_BOOTSTRAP", raising=False)
    meant = NamedCluster(None)
    with pytest.raises(UsageError, match="which cluster"):
        meant.ask(lambda admin: admin.list_topics())
    monkeypatch.setenv("ONCELOG_BOOTSTRAP", "a:1,b:2")
    assert meant.servers == "a:1,b:2"
    assert NamedCluster("c:3").servers == "c:3"


async def test_it_answers_a_question(tmp_path: Path) -> None:
    async with cluster.Cluster(tmp_path) as brokers:
        await brokers.create_topic("orders")
        meant = NamedCluster(brokers.bootstrap)
        # Commands have no loop; in a thread this has none either.
        found = await asyncio.to_thread(meant.ask, lambda admin: admin.list_topics())
    assert found == ["orders"]
