"""``oncelog acls`` runs against real brokers here, and says of them what they do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from oncelog import Producer, Security
from oncelog.errors import TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from support.cluster import Cluster
from support.shell import Shown, oncelog
from support.tls_cluster import TlsCluster


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Start one broker that decides by ACLs, and lets whoever asks here do everything."""
    async with Cluster(tmp_path, authorizer="acl", super_users=["User:ANONYMOUS"]) as cluster:
        await cluster.create_topic("orders")
        yield cluster


async def run(cluster: Any, line: str, code: int = 0, **options: Any) -> Shown:
    shown = await oncelog("acls", *line.split(), bootstrap=cluster.bootstrap, **options)
    assert shown.code == code, shown.err or shown.out
    return shown


async def test_what_add_has_added_delete_takes_back(cluster: Cluster) -> None:
    words = "--allow User:app --producer --topic orders --transactional-id pay --prefix"
    assert (await run(cluster, f"add {words} --dry-run")).out.startswith("would add: User:app may")
    assert (await run(cluster, "list")).out == ""
    await run(cluster, f"add {words}")
    await run(cluster, "add --allow User:app --operation READ --topic orders")
    listed = (await run(cluster, "list --user app")).out.splitlines()
    assert listed == [
        "User:app may READ topic orders from anywhere",
        "User:app may WRITE and DESCRIBE every topic whose name begins with orders from anywhere",
        "User:app may WRITE and DESCRIBE every transactional id whose name begins with pay"
        " from anywhere",
    ]
    refused = await run(cluster, f"delete {words}", code=2)
    assert "Nobody is there to ask" in refused.err
    assert len((await run(cluster, "list --json")).document["acls"]) == 5
    gone = (await run(cluster, f"delete {words} --yes")).out
    assert gone.count("deleted: ") == 2
    assert (await run(cluster, "list")).out == f"{listed[0]}\n"
    assert cluster.brokers[1].acls.state is not None
    assert len(list(cluster.brokers[1].acls.state)) == 1


async def test_what_counts_for_a_topic(cluster: Cluster) -> None:
    await run(cluster, "add --allow User:app --operation READ --topic orders")
    await run(cluster, "add --allow User:* --operation DESCRIBE --topic ord --prefix")
    await run(cluster, "add --allow User:app --operation DELETE --topic *")
    await run(cluster, "add --allow User:other --operation ALTER --topic orders")
    await run(cluster, "add --allow User:app --operation READ --group orders")

    async def operations(line: str) -> list[str]:
        found = (await run(cluster, f"list --json {line}")).document["acls"]
        return sorted(each["operation"] for each in found)

    assert await operations("--topic orders") == ["ALTER", "READ"]
    assert await operations("--topic orders --user app") == ["READ"]
    assert await operations("--topic orders --user app --effective") == [
        "DELETE",
        "DESCRIBE",
        "READ",
    ]
    assert await operations("--group orders") == ["READ"]
    assert "for what?" in (await run(cluster, "list --effective", code=2)).err


async def test_a_file_is_applied(cluster: Cluster, tmp_path: Path) -> None:
    await run(cluster, "add --allow User:app --producer --topic orders")
    await run(cluster, "add --deny User:* --operation ALL --group secret --host 10.0.0.0/8")
    exported = (await run(cluster, "export")).out
    file = tmp_path / "acls.toml"
    file.write_text(exported)
    await run(cluster, "delete --user app --yes")
    await run(cluster, "add --allow User:new --consumer --topic orders")
    tried = await run(cluster, f"apply {file} --prune --dry-run")
    assert tried.out == (
        "would add: User:app may WRITE and DESCRIBE topic orders from anywhere\n"
        "would delete: User:new may READ and DESCRIBE topic orders from anywhere\n"
    )
    applied = await run(cluster, "apply -", stdin=exported.encode())
    assert applied.out == "added: User:app may WRITE and DESCRIBE topic orders from anywhere\n"
    assert "2 ACLs not in the file" in applied.err
    assert "Nobody is there to ask" in (await run(cluster, f"apply {file} --prune", code=2)).err
    pruned = await run(cluster, f"apply {file} --prune --yes")
    assert pruned.out.startswith("deleted: User:new may READ")
    assert (await run(cluster, "export")).out == exported
    assert "nothing to do" in (await run(cluster, f"apply {file} --prune")).out


async def test_where_something_is_refused_nothing_is_deleted(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The controller refuses more of one pattern than its room."""
    await run(cluster, "add --allow User:app --operation READ --group kept")
    many = "".join(
        f'[[acls]]\nallow = "User:{"x" * 200}{n}"\noperations = ["READ"]\ntopic = "orders"\n'
        for n in range(400)
    )
    file = tmp_path / "acls.toml"
    file.write_text(many)
    refused = await run(cluster, f"apply {file} --prune --yes", code=1)
    assert "would have more than" in refused.err
    assert "User:app may READ group kept" in (await run(cluster, "list --user app")).out


@pytest.mark.parametrize(
    ("question", "decision"),
    [
        ("User:app WRITE topic:orders", "allowed: User:app may WRITE topic orders from anywhere"),
        ("app describe topic:orders", "allowed: User:app may WRITE topic orders from anywhere"),
        ("app idempotent-write cluster", "from anywhere, which implies it"),
        ("User:app READ topic:orders", "denied: no ACL allows it"),
        ("User:app READ group:g --host 10.1.2.3", "denied: Everybody may not READ every group"),
        ("User:app READ group:g --host 11.1.2.3", "denied: no ACL allows it"),
        ("User:ANONYMOUS ALTER cluster", "allowed: super_users of every broker name User:ANONYMOU"),
    ],
)
async def test_decisions_are_explained(cluster: Cluster, question: str, decision: str) -> None:
    await run(cluster, "add --allow User:app --producer --topic orders")
    await run(cluster, "add --deny User:* --operation READ --group * --host 10.0.0.0/8")
    assert decision in (await run(cluster, f"explain {question}")).out


async def test_the_explanation_agrees_with_what_brokers_do(tmp_path: Path) -> None:
    """A producer is refused, allowed by the command that the explanation names, then denied."""
    async with TlsCluster(tmp_path, 1, authorizer="acl", super_users=["User:admin"]) as cluster:
        certificate, key = cluster.papers.issue("admin")
        files = {"ca_file": cluster.papers.ca_file, "certificate_file": certificate}
        as_admin = [f"-X{name}={path}" for name, path in {**files, "key_file": key}.items()]
        app = cluster.papers.issue("app")
        security = Security(
            ca_file=cluster.papers.ca_file, certificate_file=app[0], key_file=app[1]
        )

        async def acls(line: str, group: str = "acls") -> Shown:
            words = [group, *line.split(), *as_admin]
            shown = await oncelog(*words, bootstrap=cluster.bootstrap)
            assert shown.code == 0, shown.err
            return shown

        async def writes() -> bool:
            try:
                async with Producer(
                    cluster.bootstrap, security=security, enable_idempotence=False
                ) as producer:
                    await producer.send("orders", b"v", partition=0)
            except (TopicAuthorizationFailedError, UnknownTopicOrPartitionError):
                return False
            return True

        async def explained() -> str:
            return (await acls("explain User:app WRITE topic:orders")).out.partition(":")[0]

        await acls("create orders", "topics")
        assert (await explained(), await writes()) == ("denied", False)
        told = (await acls("explain User:app WRITE topic:orders")).err
        command = told.partition("oncelog acls ")[2]
        await acls(command)
        assert (await explained(), await writes()) == ("allowed", True)
        await acls("add --deny User:* --operation WRITE --topic or --prefix")
        assert (await explained(), await writes()) == ("denied", False)


async def test_a_super_user_of_one_broker_alone(tmp_path: Path) -> None:
    async with Cluster(
        tmp_path, authorizer="acl", super_users=["User:ANONYMOUS", "User:app"]
    ) as cluster:
        await cluster.start_broker(2, super_users=["User:ANONYMOUS"])
        await cluster.converged()
        shown = await run(cluster, "explain User:app READ topic:t")
        assert shown.out == "denied: no ACL allows it\n"
        assert "note: broker 1 allows it: its super_users name the principal" in shown.err
        await cluster.stop_broker(2)
        await cluster.start_broker(2, authorizer="none")
        await cluster.converged()
        shown = await run(cluster, "explain User:other READ topic:t")
        assert "broker 2 has authorizer=none" in shown.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("explain app FROB cluster", "'FROB' is no operation"),
        ("explain app READ orders", "topic:NAME"),
        ("explain app READ topic:t --host 10.0.0.0/8", "is a block"),
        ("explain app READ topic:t --host here", "is no host"),
        ("apply /no/such/file", "cannot be read"),
        ("delete", "which?"),
    ],
)
async def test_a_wrong_command_line_asks_nobody(line: str, said: str) -> None:
    shown = await oncelog("acls", *line.split(), bootstrap="127.0.0.1:1")
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err
