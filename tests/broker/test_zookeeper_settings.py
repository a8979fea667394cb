"""The settings of ZooKeeper become a store."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.zookeeper_settings import zookeeper_store
from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller.zookeeper_access import lets_everybody_write
from support.certificates import Papers
from support.tls_zookeeper import TlsZooKeeper

NUMBERS = itertools.count()


@pytest.mark.zookeeper
async def test_the_store_takes_hosts_and_chroot_apart(zookeeper: ZooKeeperServer) -> None:
    address = zookeeper.address
    chroot = f"/settings/{next(NUMBERS)}"
    config = BrokerConfig(
        broker_id=1, log_dirs=["/d"], zookeeper_connect=f"{address},{address}{chroot}"
    )
    inside = zookeeper_store(config)
    outside = zookeeper_store(config.model_copy(update={"zookeeper_connect": address}))
    await inside.start()
    await outside.start()
    await inside.create("/here", b"x")
    assert (await outside.get(f"{chroot}/here"))[0] == b"x"
    await inside.close()
    await outside.close()


def secret(directory: Path, text: str = "a long password", mode: int = 0o600) -> str:
    path = directory / "zookeeper.password"
    path.write_text(text + "\n")
    path.chmod(mode)
    return str(path)


@pytest.mark.zookeeper
async def test_all_settings_reach_the_session(tls_zookeeper: TlsZooKeeper, tmp_path: Path) -> None:
    config = BrokerConfig.model_validate(
        {
            "broker_id": 1,
            "log_dirs": ["/d"],
            "zookeeper_connect": f"{tls_zookeeper.tls_address}/settings{next(NUMBERS)}",
            "zookeeper_user": "oncelog",
            "zookeeper_password_file": secret(tmp_path),
            "zookeeper_acl": "creator",
            **tls_zookeeper.settings("broker-1"),
        }
    )
    store = zookeeper_store(config)
    await store.start()
    await store.create("/here", b"x")
    found = await store.access_list("/here")
    await store.close()
    assert {entry.id.scheme for entry in found} == {"digest", "x509"}
    assert not lets_everybody_write(found)


def refusal(**settings: str) -> ConfigError:
    """Return why a broker with these settings does not start."""
    given = {"broker_id": 1, "log_dirs": ["/d"], "zookeeper_connect": "127.0.0.1:1", **settings}
    with pytest.raises(ConfigError) as caught:
        zookeeper_store(BrokerConfig.model_validate(given))
    return caught.value


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("pencil", 0o644, "everybody may read"),
        ("", 0o600, "is empty"),
        ("größe", 0o600, "other characters"),
        ("one\ntwo", 0o600, "other characters"),
    ],
)
def test_a_password_that_is_of_no_use(tmp_path: Path, text: str, mode: int, says: str) -> None:
    path = secret(tmp_path, text, mode)
    error = refusal(zookeeper_user="u", zookeeper_password_file=path)
    assert error.key == "zookeeper_password_file"
    assert says in error.problem


def test_files_of_tls_that_are_of_no_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert "cannot be read" in refusal(zookeeper_tls_ca_file=str(tmp_path / "none")).problem
    papers = Papers(tmp_path)
    certificate, key = papers.issue("broker-1")
    tls = {
        "zookeeper_tls_ca_file": papers.ca_file,
        "zookeeper_tls_certificate_file": certificate,
        "zookeeper_tls_key_file": key,
    }
    os.chmod(key, 0o644)
    error = refusal(**tls)
    assert (error.key, "everybody may read" in error.problem) == ("zookeeper_tls_key_file", True)
    os.chmod(key, 0o640)
    refusal(**{**tls, "zookeeper_tls_certificate_file": papers.issue("other")[0]})
    assert "key_readable_by_group" in caplog.text
