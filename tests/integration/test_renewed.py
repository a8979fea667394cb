"""Certificates are renewed and their CA is changed under load, and revoked users are gone at once.

The cluster is one that ``oncelog up --secure`` has started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.comers import Comers
from integration.processes import Processes
from integration.workload import Workload
from oncelog import Security
from oncelog.config import Address
from oncelog.core.connection import open_channel
from oncelog_cli.local.secured import HOSTS, broker_name, client_security, tls_directory
from oncelog_protocol.errors import SaslAuthenticationFailedError
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_runtime.channel import ChannelClosedError, RequestChannel
from oncelog_runtime.tls_errors import TlsError
from support.shell import oncelog
from support.waiting import eventually, in_thread

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

TOPIC, FRESH = "orders", "fresh"
PARTITIONS = 3
RENEWALS = 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """Three secured brokers run."""
    running = Processes(tmp_path_factory.mktemp("renewed") / "cluster", secure=True)
    running.cluster.start()
    yield running
    running.cluster.stop()


@pytest_asyncio.fixture
async def topics(cluster: Processes) -> AsyncIterator[None]:
    await cluster.create_topic(TOPIC, PARTITIONS)
    await cluster.create_topic(FRESH, 1)
    yield
    await cluster.delete_topic(TOPIC)
    await cluster.delete_topic(FRESH)


async def done(*arguments: str) -> None:
    shown = await oncelog(*arguments)
    assert shown.code == 0, shown.err


def names(cluster: Processes) -> list[str]:
    return [broker_name(broker_id) for broker_id in cluster.broker_ids]


def hang_up(cluster: Processes) -> None:
    """Have every broker look at its files now."""
    for broker in cluster.cluster.brokers.values():
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGHUP)


def lines(cluster: Processes, text: str) -> list[int]:
    """Return how often each broker has logged this."""
    return [
        sum(text in line for line in broker.log_path.read_text().splitlines())
        for broker in cluster.cluster.brokers.values()
    ]


async def take_files(cluster: Processes, change: Callable[[], object]) -> None:
    """Change files, and wait until every broker has those for its connections to others too."""
    told = "listener='to other brokers'"
    before = lines(cluster, told)
    await in_thread(change)
    hang_up(cluster)
    await eventually(lambda: all(a > b for a, b in zip(lines(cluster, told), before, strict=True)))


async def is_shown(cluster: Processes, broker_id: int, ca: Path) -> bool:
    """Return whether a broker shows the certificate that is in its file."""
    context = ssl.create_default_context(cafile=str(ca))
    port = cluster.cluster.broker(broker_id).port
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    path = tls_directory(cluster.cluster.directory) / f"{broker_name(broker_id)}.pem"
    return bool(shown == ssl.PEM_cert_to_DER_cert(path.read_text()))


def replace_file(path: Path, content: bytes) -> None:
    """Put a whole file in a file's place, with its rights."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    beside.chmod(path.stat().st_mode)
    beside.replace(path)


async def check(cluster: Processes, load: Workload) -> None:
    """Nothing failed, and everything is there once and in order, on every replica."""
    assert load.failed == []
    assert load.acknowledged == load.sent
    await cluster.wait_isr(TOPIC, 3)
    await load.verify(await cluster.replicas(TOPIC))


async def test_ten_renewed_certificates_are_taken_under_load(
    cluster: Processes, topics: None
) -> None:
    security = cluster.security
    assert security is not None
    tls = tls_directory(cluster.cluster.directory)
    load = Workload(cluster.bootstrap, TOPIC, PARTITIONS, security=security)
    renew = [part for name in names(cluster) for part in ("--renew", name)]
    refused = lines(cluster, "tls_files_refused")
    async with load, Comers(cluster.bootstrap, FRESH, security) as comers:
        for _ in range(RENEWALS):
            await done("tls", "make", "--dir", str(tls), *renew)
            await take_files(cluster, lambda: None)
            for broker_id in cluster.broker_ids:
                assert await is_shown(cluster, broker_id, tls / "ca.pem")
            await comers.wait_for(1)
    assert comers.served >= RENEWALS
    assert lines(cluster, "tls_files_refused") == refused
    await check(cluster, load)


async def test_the_ca_is_changed_under_load(
    cluster: Processes, topics: None, tmp_path: Path
) -> None:
    """First both are trusted, then certificates come from the new one, then it is trusted alone."""
    security = cluster.security
    assert security is not None
    tls, new = tls_directory(cluster.cluster.directory), tmp_path / "new"
    old_ca = (tls / "ca.pem").read_bytes()
    hosts = ",".join(HOSTS)
    brokers = [part for name in names(cluster) for part in ("--broker", f"{name}={hosts}")]
    await done("tls", "make", "--dir", str(new), *brokers)
    new_ca = (new / "ca.pem").read_bytes()

    def trust(content: bytes) -> None:
        replace_file(tls / "ca.pem", content)

    def move_certificates() -> None:
        for name in names(cluster):
            for ending in ("key", "pem"):
                file = f"{name}.{ending}"
                replace_file(tls / file, (new / file).read_bytes())

    load = Workload(cluster.bootstrap, TOPIC, PARTITIONS, security=security)
    async with load, Comers(cluster.bootstrap, FRESH, security) as comers:
        await take_files(cluster, lambda: trust(old_ca + new_ca))
        await comers.wait_for(2)
        await take_files(cluster, move_certificates)
        for broker_id in cluster.broker_ids:
            assert await is_shown(cluster, broker_id, new / "ca.pem")
        await comers.wait_for(2)
        await take_files(cluster, lambda: trust(new_ca))
        await comers.wait_for(2)
        for broker_id in cluster.broker_ids:
            # Its connections to the others are made anew, by what is trusted now.
            await cluster.stop_cleanly(broker_id)
            await cluster.restart(broker_id)
            await cluster.wait_isr(TOPIC, 3)
        await comers.wait_for(2)
    await check(cluster, load)
    old = tmp_path / "old.pem"
    old.write_bytes(old_ca)
    with pytest.raises(TlsError):
        await connected(cluster, 1, Security(ca_file=old, username="admin", password="any"))


async def connected(cluster: Processes, broker_id: int, security: Security) -> RequestChannel:
    """Return a connection of a client, which has authenticated on it."""
    address = Address("127.0.0.1", cluster.cluster.broker(broker_id).port)
    return await open_channel(address, "test", 10.0, dialer=security.dialer())


# -- revocation ----------------------------------------------------------------------------------


async def by_admin(cluster: Processes, *arguments: str) -> None:
    options = client_security(cluster.cluster.directory).items()
    given = [part for name, value in options for part in ("-X", f"{name}={value}")]
    shown = await oncelog(*arguments, *given, bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err


def secret(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.mark.hostile(35)
@pytest.mark.parametrize("how", ["delete", "disable", "password"])
async def test_a_revoked_user_is_gone_within_a_second(
    cluster: Processes, topics: None, tmp_path: Path, how: str
) -> None:
    """Its connections end while fetches wait on them, on every broker, and it makes no new one."""
    user = f"app-{how}"
    password, other = secret(tmp_path / "old", "the old one"), secret(tmp_path / "other", "another")
    await by_admin(cluster, "users", "add", user, "--password-file", password)
    rights = ("--consumer", "--topic", TOPIC, "--group", "g")
    await by_admin(cluster, "acls", "add", "--allow", f"User:{user}", *rights)
    ca_file = tls_directory(cluster.cluster.directory) / "ca.pem"
    security = Security(ca_file=ca_file, username=user, password_file=password)
    waiting = []
    for partition in range(PARTITIONS):
        channel = await connected(cluster, await cluster.leader(TOPIC, partition), security)
        wanted = [FetchTopic(TOPIC, [FetchPartition(partition, 0, 1 << 20)])]
        request = FetchRequest(-1, -1, 20_000, 1, 1 << 22, 0, -1, wanted)
        waiting.append(asyncio.create_task(channel.call(request, timeout_s=25)))
    done_now, _ = await asyncio.wait(waiting, timeout=0.5)
    assert done_now == set(), "the fetches wait"
    more = {"password": ("--password-file", other), "delete": ("--yes",)}
    await by_admin(cluster, "users", how, user, *more.get(how, ()))
    async with asyncio.timeout(1):  # the bound that docs/security.md promises
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in ends] == [ChannelClosedError] * PARTITIONS
    for broker_id in cluster.broker_ids:
        with pytest.raises(SaslAuthenticationFailedError):
            await connected(cluster, broker_id, security)
