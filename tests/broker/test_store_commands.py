"""What is done to the store by hand is there when brokers start."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.store_commands import (
    add_user,
    open_zookeeper,
    password_from,
    secure_zookeeper,
)
from oncelog_broker.zookeeper_settings import zookeeper_store
from oncelog_cli.local.zookeeper import ZooKeeperServer
from oncelog_controller.loader import load_users
from oncelog_controller.store import AccessDeniedError
from oncelog_protocol.errors import SecurityDisabledError
from oncelog_protocol.sasl.credential import SCRAM_HASHES
from oncelog_runtime.entropy import SeededEntropy
from oncelog_runtime.secret_files import SecretFileError

NUMBERS = itertools.count()


def config(connect: str, **settings: Any) -> BrokerConfig:
    return BrokerConfig(broker_id=1, log_dirs=["/d"], zookeeper_connect=connect, **settings)


def test_a_password_comes_from_a_file_from_stdin_or_from_a_person(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pencil\n")
    file.chmod(0o600)
    assert password_from(str(file), io.StringIO(), None) == "pencil"
    assert password_from("-", io.StringIO("pencil\n"), None) == "pencil"
    asked = []

    def ask(question: str) -> str:
        asked.append(question)
        return "pencil"

    assert password_from(None, io.StringIO(), ask) == "pencil"
    assert len(asked) == 2


def test_what_is_no_password_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pencil\n")
    file.chmod(0o644)
    with pytest.raises(SecretFileError, match="everybody may read"):
        password_from(str(file), io.StringIO(), None)
    with pytest.raises(SecretFileError, match="empty"):
        password_from("-", io.StringIO("\n"), None)
    answers = iter(["pencil", "pen"])
    with pytest.raises(SecretFileError, match="differ"):
        password_from(None, io.StringIO(), lambda _: next(answers))
    with pytest.raises(SecretFileError, match="nobody to ask"):
        password_from(None, io.StringIO("pencil\n"), None)


@pytest.mark.zookeeper
async def test_a_user_is_in_the_store_with_both_mechanisms(zookeeper: ZooKeeperServer) -> None:
    settings = config(f"{zookeeper.address}/commands/{next(NUMBERS)}", authorizer="acl")
    await add_user(settings, SeededEntropy(1), "admin", "pencil")
    store = zookeeper_store(settings)
    await store.start()
    known = await load_users(store)
    await store.close()
    assert known is not None
    credentials = known.users["admin"].user.credentials
    assert [each.mechanism for each in credentials] == list(SCRAM_HASHES)
    assert all(each.check("pencil") for each in credentials)
    assert len({each.salt for each in credentials}) == 2


async def test_settings_without_users_are_refused_before_the_store_is_asked() -> None:
    with pytest.raises(SecurityDisabledError, match="sasl_mechanisms"):
        await add_user(config("127.0.0.1:1"), SeededEntropy(1), "admin", "pencil")


@pytest.mark.zookeeper
async def test_a_tree_goes_to_the_brokers_and_back(
    zookeeper: ZooKeeperServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    password = tmp_path / "password"
    password.write_text("pencil")
    password.chmod(0o600)
    place = f"{zookeeper.address}/commands{next(NUMBERS)}"
    identity = {"zookeeper_user": "oncelog", "zookeeper_password_file": str(password)}
    before = config(place, authorizer="acl")
    closed = config(place, authorizer="acl", zookeeper_acl="creator", **identity)
    await add_user(before, SeededEntropy(1), "admin", "pencil")
    walked = await secure_zookeeper(closed)
    assert walked.changed > 3
    assert "zookeeper_root_open" not in caplog.text
    with pytest.raises(AccessDeniedError):
        await add_user(before, SeededEntropy(1), "app", "pencil")
    await add_user(closed, SeededEntropy(1), "app", "pencil")
    opened = config(place, authorizer="acl", **identity)
    assert (await open_zookeeper(opened)).changed == walked.changed + 1
    await add_user(before, SeededEntropy(1), "third", "pencil")


async def test_what_brokers_would_undo_is_refused() -> None:
    identity = {"zookeeper_user": "u", "zookeeper_password_file": "/p"}
    with pytest.raises(ConfigError, match="creator first"):
        await secure_zookeeper(config("127.0.0.1:1", **identity))
    with pytest.raises(ConfigError, match="open first"):
        await open_zookeeper(config("127.0.0.1:1", zookeeper_acl="creator", **identity))
