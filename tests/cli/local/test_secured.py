"""A secured cluster's certificates and its admin are made once, and one profile names them."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from oncelog_broker.config import load_config
from oncelog_cli.exits import UsageError
from oncelog_cli.local import secured
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.local.process import LocalClusterError
from oncelog_cli.profiles import Profile, Profiles
from oncelog_cli.tls.authority import hosts_of, read_certificates, user_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cluster"


def test_what_is_missing_is_made_and_the_rest_stays(directory: Path) -> None:
    place = secured.tls_directory(directory)
    assert secured.make_missing(directory, [1, 2]) == ["ca", "broker-1", "broker-2"]
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    assert secured.make_missing(directory, [1, 2]) == []
    (place / "broker-2.key").unlink()
    assert secured.make_missing(directory, [1, 2, 3]) == ["broker-2", "broker-3"]
    changed = {name for name, content in before.items() if (place / name).read_bytes() != content}
    assert changed == {"broker-2.pem", "broker-2.key"}


def test_certificates_are_what_the_settings_name(directory: Path) -> None:
    secured.make_missing(directory, [7])
    for listener in secured.listener_settings(directory, 7):
        files = [path for name, path in listener.items() if "_file" in name]
        assert len(files) > 1
        assert all(Path(str(path)).is_file() for path in files)
        (broker,) = read_certificates(Path(str(listener["tls_certificate_file"])))
        assert (user_of(broker), "127.0.0.1" in hosts_of(broker)) == ("broker-7", True)


def test_without_the_package_there_is_no_secured_cluster(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog_cli.extras.CERTIFICATES", ("no_such_module",))
    with pytest.raises(UsageError, match=r"oncelog\[local\]"):
        secured.make_missing(directory, [1])


def test_brokers_show_certificates_and_clients_passwords(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster", brokers=1, base_port=21_000, secure=True)
    cluster.save()
    loaded = LocalCluster.load(cluster.directory)
    assert loaded.secure
    assert loaded.status()["secure"] is True
    broker = loaded.broker(1)
    internal, external = secured.listener_settings(loaded.directory, 1)
    settings = secured.security_settings()
    broker.write_config("zk:1", settings, internal=internal, external=external)
    assert len(load_config(str(broker.config_path)).listeners) == 2
    loaded.serve_kafka()
    broker.place(21_001, 21_002, 0, 21_003)
    broker.write_config("zk:1", settings, internal=internal, external=external)
    between_brokers, for_clients, for_kafka = load_config(str(broker.config_path)).listeners
    assert (for_kafka.protocol, for_kafka.port) == ("kafka", 21_003)
    assert for_kafka.sasl_mechanisms == for_clients.sasl_mechanisms
    assert for_kafka.tls_certificate_file == for_clients.tls_certificate_file
    assert between_brokers.tls_client_auth == "required"
    assert between_brokers.sasl_mechanisms == []
    assert for_clients.tls_client_auth == "none"
    assert for_clients.sasl_mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert {between_brokers.tls_min_version, for_clients.tls_min_version} == {"1.3"}
    written = tomllib.loads(broker.config_path.read_text())
    assert (written["authorizer"], written["super_users"]) == ("acl", ["User:admin"])


# -- ZooKeeper -----------------------------------------------------------------------------------


def test_the_brokers_have_a_password_for_zookeeper_that_is_drawn_once(directory: Path) -> None:
    unconfirmed = directory / "zookeeper.password.new"
    unconfirmed.parent.mkdir(parents=True, exist_ok=True)
    unconfirmed.write_text("a part")
    secured.make_zookeeper_password(directory)
    file = secured.zookeeper_password_file(directory)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    drawn = file.read_text()
    assert len(drawn) > 24
    secured.make_zookeeper_password(directory)
    assert file.read_text() == drawn
    assert not unconfirmed.exists()
    assert file in secured.owned(directory)


def test_only_a_zookeeper_of_our_own_is_closed(tmp_path: Path) -> None:
    own = LocalCluster(tmp_path / "own", brokers=1, secure=True)
    assert own.zookeeper_connect.endswith("/oncelog")
    assert own._broker_settings()["zookeeper_acl"] == "creator"
    plain = LocalCluster(tmp_path / "plain", brokers=1)
    assert not plain.zookeeper_connect.endswith("/oncelog")
    assert "zookeeper_acl" not in plain._broker_settings()
    foreign = LocalCluster(tmp_path / "foreign", brokers=1, secure=True, zookeeper="zk:1")
    assert foreign.zookeeper_connect == "zk:1"
    assert "zookeeper_acl" not in foreign._broker_settings()


# -- the admin -----------------------------------------------------------------------------------


class Users:
    """They are in a store; a start may be cut off when one has been made."""

    def __init__(self) -> None:
        self.passwords: dict[str, str] = {}
        self.cut_off = False

    def add(self, name: str, password: Path) -> bool:
        is_new = name not in self.passwords
        if is_new:
            self.passwords[name] = password.read_text().strip()
        if self.cut_off:
            raise LocalClusterError("cut off")
        return is_new


def test_the_admin_gets_a_password_that_nobody_else_may_read(directory: Path) -> None:
    users = Users()
    assert secured.make_admin(directory, users.add)
    place = secured.password_file(directory)
    assert place.read_text().strip() == users.passwords["admin"]
    assert len(users.passwords["admin"]) >= 32
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert not secured.make_admin(directory, users.add), "it is made once"
    others = Users()
    secured.make_admin(directory.with_name("other"), others.add)
    assert others.passwords != users.passwords


def test_a_start_that_was_cut_off_leaves_the_password_to_the_next(directory: Path) -> None:
    users = Users()
    users.cut_off = True
    with pytest.raises(LocalClusterError, match="cut off"):
        secured.make_admin(directory, users.add)
    assert not secured.password_file(directory).exists()
    users.cut_off = False
    assert secured.make_admin(directory, users.add)
    assert secured.password_file(directory).read_text().strip() == users.passwords["admin"]
    assert [path for path in secured.owned(directory) if path.exists()] == [
        secured.password_file(directory)
    ]


def test_an_admin_whose_password_is_not_known_is_no_one_for_us(directory: Path) -> None:
    users = Users()
    users.passwords["admin"] = "of an earlier cluster"
    for _ in range(2):
        with pytest.raises(LocalClusterError, match="earlier cluster.*HOST:PORT/NAME"):
            secured.make_admin(directory, users.add)
        assert not any(path.exists() for path in secured.owned(directory))


# -- profiles ------------------------------------------------------------------------------------


def written(profiles: Profiles, directory: Path, bootstrap: str = "a:1") -> tuple[Profiles, str]:
    return secured.with_profile_for(profiles, directory, bootstrap)


def test_the_first_profile_is_used(directory: Path) -> None:
    profiles, name = written(Profiles(), directory)
    assert (profiles.current, name) == ("cluster", "cluster")
    profile = profiles.profiles[name]
    assert (profile.bootstrap, profile.security) == ("a:1", secured.client_security(directory))
    assert "User:admin" in profile.description


def test_a_profile_in_use_stays_in_use(directory: Path) -> None:
    before = Profiles("prod", None, {"prod": Profile("p:1"), "cluster": Profile("c:1")})
    profiles, name = written(before, directory)
    assert (profiles.current, name) == ("prod", "cluster-2")
    assert {each: profiles.profiles[each] for each in before.profiles} == before.profiles


def test_the_profile_of_a_cluster_is_found_again_and_keeps_what_was_added(directory: Path) -> None:
    own = Profile(
        "old:1", "mine", {"acks": "1"}, {**secured.client_security(directory), "tls": True}
    )
    profiles, name = written(Profiles(None, None, {"renamed": own}), directory)
    assert (name, profiles.current) == ("renamed", "renamed")
    assert profiles.profiles[name] == Profile("a:1", "mine", own.options, own.security)
    assert secured.profile_of(profiles, directory) == "renamed"
    assert secured.profile_of(profiles, directory / "other") is None


def test_the_profile_of_another_user_is_not_the_one_of_the_cluster(directory: Path) -> None:
    app = {**secured.client_security(directory), "username": "app", "password_file": "/p"}
    before = Profiles("app", None, {"app": Profile("old:1", "", {}, app)})
    profiles, name = written(before, directory)
    assert (name, profiles.current) == ("cluster", "app")
    assert profiles.profiles["app"] == before.profiles["app"]


@pytest.mark.parametrize(
    ("directory", "name"),
    [("a b", "a-b"), (".hidden", "hidden"), ("...", "local"), ("x" * 80, "x" * 48)],
)
def test_a_profile_is_called_as_the_directory(tmp_path: Path, directory: str, name: str) -> None:
    assert written(Profiles(), tmp_path / directory)[1] == name
