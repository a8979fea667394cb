"""A secured cluster's certificates are made once, and one profile names them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from oncelog_cli.exits import UsageError
from oncelog_cli.local import secured
from oncelog_cli.local.cluster import LocalCluster
from oncelog_cli.profiles import Profile, Profiles
from oncelog_cli.tls.authority import hosts_of, read_certificates, user_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cluster" / "tls"


def test_what_is_missing_is_made_and_the_rest_stays(place: Path) -> None:
    assert secured.make_missing(place, [1, 2]) == ["ca", "broker-1", "broker-2", "admin"]
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    assert secured.make_missing(place, [1, 2]) == []
    (place / "broker-2.key").unlink()
    assert secured.make_missing(place, [1, 2, 3]) == ["broker-2", "broker-3"]
    changed = {name for name, content in before.items() if (place / name).read_bytes() != content}
    assert changed == {"broker-2.pem", "broker-2.key"}


def test_certificates_are_what_the_settings_name(place: Path) -> None:
    secured.make_missing(place, [7])
    listener, client = secured.listener_settings(place, 7), secured.client_security(place)
    assert all(Path(str(path)).is_file() for name, path in listener.items() if "_file" in name)
    assert all(Path(path).is_file() for path in client.values())
    (broker,) = read_certificates(Path(str(listener["tls_certificate_file"])))
    assert (user_of(broker), "127.0.0.1" in hosts_of(broker)) == ("broker-7", True)
    (admin,) = read_certificates(Path(client["certificate_file"]))
    assert secured.security_settings()["super_users"] == [f"User:{user_of(admin)}"]


def test_without_the_package_there_is_no_secured_cluster(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog_cli.extras.CERTIFICATES", ("no_such_module",))
    with pytest.raises(UsageError, match=r"oncelog\[local\]"):
        secured.make_missing(place, [1])


def test_every_listener_of_a_secured_cluster_has_tls(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster", brokers=1, base_port=21_000, secure=True)
    cluster.save()
    loaded = LocalCluster.load(cluster.directory)
    assert loaded.secure
    assert loaded.status()["secure"] is True
    broker = loaded.broker(1)
    more = secured.listener_settings(loaded.tls_directory, 1)
    broker.write_config("zk:1", secured.security_settings(), more)
    written = tomllib.loads(broker.config_path.read_text())
    assert [each["tls_client_auth"] for each in written["listeners"]] == ["required"] * 2
    assert [each["tls_min_version"] for each in written["listeners"]] == ["1.3"] * 2
    assert written["super_users"] == ["User:admin"]


# -- profiles ------------------------------------------------------------------------------------


def written(profiles: Profiles, place: Path, bootstrap: str = "a:1") -> tuple[Profiles, str]:
    return secured.with_profile_for(profiles, place.parent, place, bootstrap)


def test_the_first_profile_is_used(place: Path) -> None:
    profiles, name = written(Profiles(), place)
    assert (profiles.current, name) == ("cluster", "cluster")
    profile = profiles.profiles[name]
    assert (profile.bootstrap, profile.security) == ("a:1", secured.client_security(place))
    assert "User:admin" in profile.description


def test_a_profile_in_use_stays_in_use(place: Path) -> None:
    before = Profiles("prod", None, {"prod": Profile("p:1"), "cluster": Profile("c:1")})
    profiles, name = written(before, place)
    assert (profiles.current, name) == ("prod", "cluster-2")
    assert {each: profiles.profiles[each] for each in before.profiles} == before.profiles


def test_the_profile_of_a_cluster_is_found_again_and_keeps_what_was_added(place: Path) -> None:
    own = Profile("old:1", "mine", {"acks": "1"}, {**secured.client_security(place), "tls": True})
    profiles, name = written(Profiles(None, None, {"renamed": own}), place)
    assert (name, profiles.current) == ("renamed", "renamed")
    assert profiles.profiles[name] == Profile("a:1", "mine", own.options, own.security)
    assert secured.profile_of(profiles, place) == "renamed"
    assert secured.profile_of(profiles, place.parent / "other") is None


@pytest.mark.parametrize(
    ("directory", "name"),
    [("a b", "a-b"), (".hidden", "hidden"), ("...", "local"), ("x" * 80, "x" * 48)],
)
def test_a_profile_is_called_as_the_directory(tmp_path: Path, directory: str, name: str) -> None:
    place = tmp_path / directory / "tls"
    assert written(Profiles(), place)[1] == name
