"""A cluster in use is secured by rolling restarts, as docs/upgrading.md says, and nobody notices.

Three brokers without any security become, one restart after the other, brokers with TLS, passwords
and ACLs, while an idempotent producer, a group and a transactional copier are at work. Nothing is
lost, nothing comes twice, and no client sees an error. By night all goes back again as well.
"""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from integration.copied import read_all
from integration.migrating import Applications
from integration.processes import Processes
from oncelog import Consumer, Producer, Security
from oncelog.errors import ApiError
from oncelog_cli.local import secured
from oncelog_cli.local.process import free_port
from oncelog_cli.local.toml_writer import Value, to_toml
from support.shell import Shown, oncelog
from support.waiting import in_thread

pytestmark = [
    pytest.mark.integration,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

TOPIC, COPIES = "orders", "copies"
PARTITIONS = 3
PLAIN = ("internal", "external")
ADDED = ("internal-tls", "tls", "users")


@dataclass(frozen=True)
class Step:
    """All brokers have these settings when a step is done."""

    listeners: Sequence[str]
    between_brokers: str
    second: str | None = None
    settings: dict[str, Value] = field(default_factory=dict)


ACLS: dict[str, Value] = {"authorizer": "acl", "super_users": ["User:admin"]}
AT_FIRST = Step(PLAIN, "internal")
TLS = Step([*PLAIN, "internal-tls", "tls"], "internal", "internal-tls")
MOVED = Step(["internal", "internal-tls", "tls", "users"], "internal-tls", "internal")
SECURED = Step(["internal-tls", "tls", "users"], "internal-tls", None, ACLS)


class Migrated(Processes):
    """It starts without security; each step writes other settings for brokers that restart."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.listener = "external"
        self._ports: dict[tuple[int, str], int] = {}
        """By broker and listener; those of the first two are the cluster's own."""

    @property
    def bootstrap(self) -> str:
        """Return the addresses of the listener that clients use now."""
        return self.bootstrap_of(self.listener)

    def bootstrap_of(self, listener: str) -> str:
        return ",".join(f"127.0.0.1:{self._port(each, listener)}" for each in self.broker_ids)

    def use(self, listener: str, security: Security | None) -> None:
        """Have this side use a listener from now on, as this user."""
        self.listener, self.security = listener, security

    def _port(self, broker_id: int, listener: str) -> int:
        broker = self.cluster.broker(broker_id)
        own = {"internal": broker.internal_port, "external": broker.port}
        if listener in own:
            return own[listener]
        while (broker_id, listener) not in self._ports:
            port = free_port()
            if port not in self._ports.values():
                self._ports[broker_id, listener] = port
        return self._ports[broker_id, listener]

    async def roll(self, step: Step, topics: Sequence[str]) -> None:
        """Restart one broker after the other with the settings of a step."""
        for broker_id in self.broker_ids:
            await self.stop_cleanly(broker_id)
            await in_thread(self._write, broker_id, step)
            await self.restart(broker_id)
            for topic in topics:
                await self.wait_isr(topic, 3)

    def _write(self, broker_id: int, step: Step) -> None:
        path = self.cluster.broker(broker_id).config_path
        known: dict[str, Any] = tomllib.loads(path.read_text())
        for setting in ("inter_broker_listener_second", *ACLS):
            known.pop(setting, None)
        second = {} if step.second is None else {"inter_broker_listener_second": step.second}
        listeners: list[Value] = [self._listener(broker_id, name) for name in step.listeners]
        moved: dict[str, Value] = {
            "inter_broker_listener": step.between_brokers,
            "listeners": listeners,
        }
        path.write_text(to_toml({**known, **moved, **second, **step.settings}))

    def _listener(self, broker_id: int, name: str) -> dict[str, Value]:
        by_certificate, by_password = secured.listener_settings(self.cluster.directory, broker_id)
        tls = {key: by_password[key] for key in ("tls_certificate_file", "tls_key_file")}
        more = {"internal-tls": by_certificate, "tls": tls, "users": by_password}.get(name, {})
        return {"name": name, "host": "127.0.0.1", "port": self._port(broker_id, name), **more}


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Migrated]:
    running = Migrated(tmp_path / "cluster")
    await in_thread(running.cluster.start)
    try:
        yield running
    finally:
        await in_thread(running.cluster.stop)


async def command(cluster: Migrated, *arguments: str) -> Shown:
    """Run a command as this side is known now."""
    options: dict[str, object] = {}
    if cluster.security is not None:
        fields = ("ca_file", "username", "password_file")
        options = {each: getattr(cluster.security, each) for each in fields}
    given = [part for key, value in options.items() if value for part in ("-X", f"{key}={value}")]
    shown = await oncelog(*arguments, *given, bootstrap=cluster.bootstrap)
    assert shown.code == 0, shown.err
    return shown


def user(cluster: Migrated, name: str) -> Security:
    """Return how a user says who it is; its password's file is made if it is not there."""
    path = cluster.cluster.directory / f"{name}.password"
    if not path.exists():
        path.write_text(f"the password of {name}")
        path.chmod(0o600)
    return Security(ca_file=ca_of(cluster), username=name, password_file=path)


def ca_of(cluster: Migrated) -> Path:
    return secured.tls_directory(cluster.cluster.directory) / "ca.pem"


async def add_users_and_acls(cluster: Migrated) -> None:
    """Make them while everybody may do everything still."""
    for name in ("admin", "app"):
        password_file = user(cluster, name).password_file
        await command(cluster, "users", "add", name, "--password-file", str(password_file))
    topics = ("--topic", TOPIC, "--topic", COPIES)
    add = ("acls", "add", "--allow", "User:app")
    await command(cluster, *add, "--producer", *topics, "--transactional-id", "copier")
    groups = ("--group", "readers", "--group", "copiers")
    await command(cluster, *add, "--consumer", *topics, *groups)
    anonymous = ("acls", "add", "--allow", "User:ANONYMOUS", "--consumer", "--topic", TOPIC)
    await command(cluster, *anonymous, "--group", "late")
    explained = await command(cluster, "acls", "explain", "User:app", "WRITE", f"topic:{TOPIC}")
    assert "allowed: User:app may WRITE" in explained.out
    assert "authorizer=none" in explained.err


async def check_the_latecomer(cluster: Migrated) -> None:
    """A client that shows nothing but comes by TLS is ANONYMOUS, with the rights of that user."""
    given: dict[str, Any] = {"security": Security(ca_file=ca_of(cluster))}
    bootstrap = cluster.bootstrap_of("tls")
    async with Consumer(
        TOPIC, bootstrap_servers=bootstrap, group_id="late", auto_offset_reset="earliest", **given
    ) as consumer:
        await consumer.getone()
    async with Producer(bootstrap, **given) as producer:
        with pytest.raises(ApiError):
            await producer.send(TOPIC, b"not allowed", partition=0)


async def secure(cluster: Migrated, applications: Applications) -> None:
    """Go from nothing to TLS, passwords and ACLs."""
    topics = [TOPIC, COPIES]
    await in_thread(secured.make_missing, cluster.cluster.directory, cluster.broker_ids)
    await cluster.roll(TLS, topics)
    cluster.use("tls", Security(ca_file=ca_of(cluster)))
    await applications.move(cluster.bootstrap, cluster.security)
    await cluster.roll(MOVED, topics)
    await add_users_and_acls(cluster)
    cluster.use("users", user(cluster, "admin"))
    await applications.move(cluster.bootstrap, user(cluster, "app"))
    await cluster.roll(SECURED, topics)
    await applications.wait_for(100)


async def go_back(cluster: Migrated, applications: Applications) -> None:
    """Take every step back, in the other order."""
    topics = [TOPIC, COPIES]
    await cluster.roll(MOVED, topics)
    cluster.use("tls", Security(ca_file=ca_of(cluster)))
    await applications.move(cluster.bootstrap, cluster.security)
    await cluster.roll(TLS, topics)
    cluster.use("external", None)
    await applications.move(cluster.bootstrap, None)
    await cluster.roll(AT_FIRST, topics)
    await applications.wait_for(100)


async def check(cluster: Migrated, applications: Applications) -> None:
    """Nothing failed, was lost or came twice, for any of the three."""
    load = applications.load
    assert load.failed == []
    assert load.acknowledged == load.sent
    assert applications.not_committed == []
    await load.verify(await cluster.replicas(TOPIC))
    wanted = await read_all(cluster.bootstrap, TOPIC, PARTITIONS, cluster.security)
    assert sum(map(len, wanted.values())) == load.acknowledged
    assert applications.read == wanted
    assert await read_all(cluster.bootstrap, COPIES, PARTITIONS, cluster.security) == wanted


@pytest.mark.parametrize("back", [False, pytest.param(True, marks=pytest.mark.nightly)])
async def test_nobody_notices_that_a_cluster_is_secured(cluster: Migrated, back: bool) -> None:
    for topic in (TOPIC, COPIES):
        await cluster.create_topic(topic, PARTITIONS)
    applications = Applications(cluster.bootstrap, TOPIC, COPIES, PARTITIONS)
    async with applications:
        await secure(cluster, applications)
        await check_the_latecomer(cluster)
        if back:
            await go_back(cluster, applications)
        await applications.finish()
    cluster.use(cluster.listener, None if back else user(cluster, "admin"))
    await check(cluster, applications)
