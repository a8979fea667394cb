"""A secured cluster at level debug shows none of its secrets, wherever one looks.

Users come and go, log in and fail to, produce, consume, alter ACLs and are refused, by the SDK and
by the command line, and a support bundle is made. Then everything that was written anywhere is
searched for every secret there is, in each form in which it could have got there [S7].
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oncelog import Consumer
from oncelog.admin.users import UserAlteration
from oncelog.errors import AuthenticationFailedError, UnknownTopicOrPartitionError
from oncelog.security import Security
from oncelog_protocol.messages.authentication import AuthenticateRequest, AuthenticateResponse
from oncelog_protocol.messages.security import UpdateSecurityRequest
from oncelog_protocol.messages.users import CREATE, AlterUsersRequest, UserWish
from oncelog_protocol.sasl.credential import Mechanism
from oncelog_protocol.sasl.user import CredentialRow, UserRow
from support.http_get import get
from support.observed import Observed, observed
from support.sasl import CREDENTIALS, SECRET
from support.scram_cluster import ScramCluster
from support.shell import Shown, oncelog

PASSWORD = "correct-horse-battery-staple"
WRONG = "wrong-horse-battery-staple"
SECOND = "another-horse-battery-staple"
TOKEN = "token-of-the-metrics-port-0123456789"


def forms(secret: bytes) -> Iterator[str]:
    """Yield how a secret may have been written."""
    coded = base64.b64encode(secret).decode()
    yield from (coded, coded.rstrip("="), base64.urlsafe_b64encode(secret).decode().rstrip("="))
    yield from (secret.hex(), repr(secret)[2:-1])
    yield secret.decode("latin-1")


class Outputs:
    """It knows what was written, by the place."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def add(self, where: str, text: str) -> None:
        self.texts[where] = self.texts.get(where, "") + text

    def found(self, secrets: dict[str, bytes]) -> list[tuple[str, str]]:
        """Return (where, which secret) of all that should not be there."""
        return [
            (where, name)
            for where, text in self.texts.items()
            for name, secret in secrets.items()
            if any(form in text for form in forms(secret))
        ]


class World(Observed):
    """It is a secured cluster, and a shell beside it."""

    def __init__(self, seen: Observed, directory: Path, outputs: Outputs) -> None:
        super().__init__(seen.cluster)
        self.endpoints = seen.endpoints
        self.outputs = outputs
        self.directory = directory
        assert isinstance(seen.cluster, ScramCluster)
        self.scram = seen.cluster

    def file(self, name: str, text: str) -> str:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    async def shell(self, *command: str, by: Sequence[str], listener: str = "external") -> Shown:
        options = [part for each in by for part in ("-X", each)]
        shown = await oncelog(*command, *options, bootstrap=self.scram.servers(listener))
        self.outputs.add(f"oncelog {command[0]}", shown.out + shown.err)
        return shown

    async def as_admin(self, *command: str) -> Shown:
        certificate, key = self.scram.papers.issue("admin")
        by = [
            f"ca_file={self.scram.papers.ca_file}",
            f"certificate_file={certificate}",
            f"key_file={key}",
        ]
        return await self.shell(*command, by=by, listener="internal")

    async def as_user(self, password: str, *command: str) -> Shown:
        by = [f"ca_file={self.scram.papers.ca_file}", "username=app", f"password={password}"]
        return await self.shell(*command, by=by)


async def use(world: World) -> None:
    """Have users come and go, and be let in and refused."""
    cluster, password_file = world.scram, world.file("password", PASSWORD)
    await cluster.create_topic("t")
    assert (await world.as_user(WRONG, "topics", "list")).code == 1
    added = await world.as_admin("users", "add", "app", "--password-file", password_file)
    assert added.code == 0, added.err
    assert (await world.as_user(WRONG, "topics", "list")).code == 1
    assert (await world.as_user(PASSWORD, "produce", "t")).code == 1, "it has no rights"
    wish = ("--allow", "User:app", "--topic", "t")
    for more in (("--producer",), ("--consumer", "--group", "g")):
        assert (await world.as_admin("acls", "add", *wish, *more)).code == 0
    for command in (("users", "list"), ("acls", "list"), ("configs", "describe", "--broker", "1")):
        await world.as_admin(*command)
    assert (await world.as_user(PASSWORD, "whoami")).code == 0
    async with cluster.producer(PASSWORD) as producer:
        await producer.send("t", b"v", partition=0)
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer.send("hidden", b"v", partition=0)
    security = Security(ca_file=cluster.papers.ca_file, username="app", password_file=password_file)
    servers = cluster.servers("external")
    async with Consumer(
        "t",
        bootstrap_servers=servers,
        security=security,
        group_id="g",
        auto_offset_reset="earliest",
    ) as reader:
        await reader.getone()
    with pytest.raises(AuthenticationFailedError) as failed:
        async with cluster.producer(SECOND):
            pass
    world.outputs.add("the SDK", f"{failed.value!r} {failed.value} {security!r}")
    async with cluster.admin() as admin:
        changed = UserAlteration.set_password("app", SECOND, iterations=4096)
        (await admin.alter_users([changed])).raise_for_errors()
        world.outputs.add("the SDK", repr(changed))


async def look(world: World) -> None:
    """Look at everything that can be looked at."""
    for broker_id in (1, 2):
        address = world.endpoints[broker_id].address
        world.outputs.add("metrics", (await get(address, "/metrics")).text)
        shown = await get(address, "/metrics", header=f"Authorization: Bearer {TOKEN}")
        assert shown.status == 200
        world.outputs.add("metrics", shown.text)
    bundle = world.directory / "bundle.zip"
    made = await world.as_admin("support-bundle", "-o", str(bundle), "--dir", str(bundle.parent))
    assert made.code == 0, made.err
    with zipfile.ZipFile(bundle) as parts:
        for name in parts.namelist():
            world.outputs.add(f"bundle: {name}", parts.read(name).decode("latin-1"))


def secrets_of(world: World) -> dict[str, bytes]:
    """Return all that nobody may see, by what it is."""
    cluster = world.scram
    found = {name: name.encode() for name in (PASSWORD, WRONG, SECOND, TOKEN)}
    broker = cluster.brokers[1]
    found["cluster secret"] = broker.users.secret
    for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        kept = broker.users.look_up(mechanism, "app")
        if kept is not None:
            found[f"{mechanism} stored key"] = kept.stored_key
            found[f"{mechanism} server key"] = kept.server_key
            hash_name = "sha256" if mechanism is Mechanism.SCRAM_SHA_256 else "sha512"
            salted = hashlib.pbkdf2_hmac(hash_name, SECOND.encode(), kept.salt, kept.iterations)
            found[f"{mechanism} salted password"] = salted
    for path in cluster.papers.directory.glob("*.key"):
        for line in re.findall(r"^[A-Za-z0-9+/=]{40,}$", path.read_text(), re.MULTILINE):
            found[f"{path.name}: {line[:8]}"] = line.encode()
    return found


async def test_no_output_has_a_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    outputs = Outputs()
    token_file = tmp_path / "metrics.token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    settings = {"metrics_token_file": str(token_file)}
    async with observed(tmp_path / "data", 2, kind=ScramCluster, **settings) as seen:
        world = World(seen, tmp_path, outputs)
        await use(world)
        first = secrets_of(world)
        await look(world)
        secrets = {**first, **secrets_of(world)}
    outputs.add("log", caplog.text + "".join(map(repr, (each.__dict__ for each in caplog.records))))
    streams = capfd.readouterr()
    outputs.add("standard streams", streams.out + streams.err)
    assert len(secrets) > 10
    assert "audit_authentication_failed" in outputs.texts["log"]
    assert "users_changed" in outputs.texts["log"]
    assert outputs.found(secrets) == []
    outputs.add("a careless line", f"password={PASSWORD} key={secrets['cluster secret'].hex()}")
    assert len(outputs.found(secrets)) == 2, "the search finds what it looks for"


def test_messages_with_secrets_do_not_show_them() -> None:
    outputs = Outputs()
    rows = [CredentialRow.of(each) for each in CREDENTIALS.values()]
    user = UserRow("app", 1, False, rows)
    for shown in (
        AuthenticateRequest("PLAIN", PASSWORD.encode()),
        AuthenticateResponse(data=PASSWORD.encode()),
        AlterUsersRequest([UserWish("app", CREATE, rows)]),
        UpdateSecurityRequest(1, 1, 1, -1, 1, users=[user], secret=SECRET),
        Security(ca_file="ca.pem", username="app", password=PASSWORD),
        UserAlteration.create("app", PASSWORD),
        *CREDENTIALS.values(),
    ):
        outputs.add(type(shown).__name__, f"{shown!r} {shown}")
    secrets = {"password": PASSWORD.encode(), "cluster secret": SECRET}
    for each in CREDENTIALS.values():
        secrets[f"{each.mechanism} stored key"] = each.stored_key
        secrets[f"{each.mechanism} server key"] = each.server_key
    assert outputs.found(secrets) == []
