"""Users are altered without a password on the wire, and every broker knows them afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog import Admin, UserAlteration
from oncelog.admin.users import MECHANISMS, password_in
from oncelog.errors import (
    ConfigurationError,
    DuplicateResourceError,
    ResourceNotFoundError,
    SecurityDisabledError,
    UnacceptableCredentialError,
)
from oncelog_protocol.sasl.credential import ITERATIONS_DEFAULT, Mechanism
from oncelog_runtime.entropy import SeededEntropy
from support.cluster import Cluster

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512


def secured(directory: Path) -> Cluster:
    return Cluster(directory, brokers=2, authorizer="acl", super_users=["User:ANONYMOUS"])


def make(cluster: Cluster) -> Admin:
    return Admin(cluster.bootstrap, entropy=SeededEntropy(1))


async def test_users_from_beginning_to_end(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, make(cluster) as admin:
        brokers = [cluster.brokers[each] for each in (1, 2)]
        created = await admin.alter_users(
            [
                UserAlteration.create("app", "pencil", iterations=4096),
                UserAlteration.create("one", "pencil", mechanisms=["SCRAM-SHA-512"]),
                UserAlteration.create("a b", "pencil", iterations=4096),
            ]
        )
        assert [outcome.name for outcome in created] == ["app", "one", "a b"]
        assert [type(outcome.error) for outcome in created][:2] == [type(None)] * 2
        assert isinstance(created[2].error, UnacceptableCredentialError)
        app, one = await admin.describe_users()
        assert (app.name, app.disabled) == ("app", False)
        assert app.mechanisms == dict.fromkeys(MECHANISMS, 4096)
        assert one.mechanisms == {"SCRAM-SHA-512": ITERATIONS_DEFAULT}
        for broker in brokers:
            for mechanism in (SHA_256, SHA_512):
                known = broker.users.look_up(mechanism, "app")
                assert known is not None
                assert known.check("pencil")
            assert broker.users.secret == brokers[0].users.secret
        (again,) = await admin.alter_users([UserAlteration.create("app", "pen")])
        assert isinstance(again.error, DuplicateResourceError)
        changed = await admin.alter_users(
            [
                UserAlteration.set_password("app", "pen", mechanisms=["SCRAM-SHA-256"]),
                UserAlteration.disable("one"),
            ]
        )
        changed.raise_for_errors()
        for broker in brokers:
            known = broker.users.look_up(SHA_256, "app")
            assert known is not None
            assert known.check("pen")
            assert broker.users.look_up(SHA_512, "app") is None, "the old password is gone"
            assert broker.users.look_up(SHA_512, "one") is None
        assert [user.disabled for user in await admin.describe_users(["one", "app"])] == [
            True,
            False,
        ]
        ended = await admin.alter_users(
            [UserAlteration.delete("app"), UserAlteration.enable("one")]
        )
        ended.raise_for_errors()
        for broker in brokers:
            assert broker.users.look_up(SHA_256, "app") is None
            assert broker.users.look_up(SHA_512, "one") is not None
        (gone,) = await admin.describe_users(["app"])
        assert isinstance(gone.error, ResourceNotFoundError)
        await cluster.stop_broker(2)
        await cluster.start_broker(2)
        assert cluster.brokers[2].users.look_up(SHA_512, "one") is not None


async def test_a_trial_changes_nothing(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, make(cluster) as admin:
        tried = await admin.alter_users(
            [UserAlteration.create("app", "pencil")], validate_only=True
        )
        tried.raise_for_errors()
        assert list(await admin.describe_users()) == []


async def test_what_cannot_be_is_not_sent(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster, make(cluster) as admin:
        good = UserAlteration.create("good", "pencil")
        for mechanisms in ([], ["PLAIN"], ["SCRAM-SHA-1", "SCRAM-SHA-256"]):
            bad = UserAlteration.create("bad", "pencil", mechanisms=mechanisms)
            with pytest.raises(ConfigurationError, match="one or more of SCRAM-SHA-256"):
                await admin.alter_users([good, bad])
        for password, iterations in (("", 4096), ("x" * 1025, 4096), ("pencil", 1)):
            bad = UserAlteration.set_password("bad", password, iterations=iterations)
            with pytest.raises(UnacceptableCredentialError):
                await admin.alter_users([good, bad])
        assert list(await admin.describe_users()) == []


async def test_a_cluster_without_users_says_so(tmp_path: Path) -> None:
    async with Cluster(tmp_path) as cluster, make(cluster) as admin:
        with pytest.raises(SecurityDisabledError):
            await admin.describe_users()
        with pytest.raises(SecurityDisabledError):
            await admin.alter_users([UserAlteration.delete("app")])


def test_a_password_is_not_shown() -> None:
    shown = repr(UserAlteration.create("app", "a long password"))
    assert "'app'" in shown
    assert "a long password" not in shown


def test_a_password_is_read_from_a_file_that_is_private(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pencil\r\n")
    file.chmod(0o600)
    assert password_in(str(file)) == "pencil"
    file.chmod(0o604)
    with pytest.raises(ConfigurationError, match="everybody may read"):
        password_in(str(file))
