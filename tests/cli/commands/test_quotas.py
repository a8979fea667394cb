"""``oncelog quotas`` runs against a real broker here, which counts by what was set."""

from __future__ import annotations

import json
from pathlib import Path

from oncelog import QuotaEntity
from support.cluster import Cluster
from support.shell import oncelog

APP = QuotaEntity("app")


async def test_quotas_from_beginning_to_end(tmp_path: Path) -> None:
    async with Cluster(tmp_path, authorizer="acl", super_users=["User:ANONYMOUS"]) as cluster:
        servers, known = cluster.bootstrap, cluster.brokers[1].known_quotas

        async def run(line: str, code: int = 0) -> str:
            shown = await oncelog(*line.split(), bootstrap=servers)
            assert shown.code == code, shown.err
            return shown.out + shown.err

        assert await run("quotas set --user app --produce 10MiB/s --requests 100") == (
            "set producer_byte_rate of user app to 10.0 MiB/s\n"
            "set request_rate of user app to 100/s\n"
        )
        assert known.values == {APP: {"producer_byte_rate": 10 * 1024**2, "request_rate": 100}}
        await run("quotas set --any-user --produce 1MiB/s --consume 2MiB/s")
        shown = await run("quotas list --effective User:app --json")
        assert [(each["key"], each["of"]) for each in json.loads(shown)["quotas"]] == [
            ("producer_byte_rate", "user app"),
            ("consumer_byte_rate", "any user"),
            ("request_rate", "user app"),
        ]
        assert "any user" not in await run("quotas list --user app")
        await run("quotas delete --user app", 2)
        assert await run("quotas delete --user app --key request_rate --dry-run") == (
            "would delete request_rate of user app\n"
        )
        await run("quotas delete --user app --key request_rate --yes")
        assert known.values[APP] == {"producer_byte_rate": 10 * 1024**2}
        await run("quotas delete --user app --yes")
        assert APP not in known.values
        assert await run("quotas delete --user app --yes") == "there is no such quota\n"
        refused = await run("quotas set --user app --connections 5", 1)
        assert "'connections' of users: not one of" in refused
