"""``oncelog whoami`` says how brokers know who asks."""

from __future__ import annotations

from pathlib import Path

from support.cluster import Cluster
from support.shell import oncelog
from support.tls_cluster import TlsCluster


async def test_nobody_in_particular(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster:
        shown = await oncelog("whoami", bootstrap=cluster.bootstrap)
    lines = dict(line.split(maxsplit=1) for line in shown.out.splitlines())
    assert lines["principal"] == "User:ANONYMOUS"
    assert lines["known"] == "by    nothing: you are anonymous"
    assert lines["authorizer"] == "none: everybody may do everything"


async def test_who_shows_a_certificate(tmp_path: Path) -> None:
    """Nobody needs a right to ask it."""
    async with TlsCluster(tmp_path, 1, authorizer="acl") as cluster:
        certificate, key = cluster.papers.issue("app")
        files = {"ca_file": cluster.papers.ca_file, "certificate_file": certificate}
        words = [f"-X{name}={path}" for name, path in {**files, "key_file": key}.items()]
        shown = await oncelog("whoami", "--json", *words, bootstrap=cluster.bootstrap)
        assert shown.code == 0, shown.err
        document, address = shown.document, cluster.bootstrap
    assert document["principal"] == "User:app"
    assert document["authenticated_by"] == "CERTIFICATE"
    assert document["authorizer"] == "acl"
    assert document["address"] == address
