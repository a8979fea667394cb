"""Some things are done to a cluster's store by hand, with a broker's settings.

A cluster whose brokers authenticate by passwords cannot be asked for its first users: they are made
here, while no broker runs. And a tree that was for everybody is given to the brokers alone, or
back, while they run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TextIO

from oncelog_broker.config import BrokerConfig, ConfigError
from oncelog_broker.controller_settings import keeps_users
from oncelog_broker.zookeeper_settings import zookeeper_store
from oncelog_controller.first_users import add_user as make_user
from oncelog_controller.user_nodes import SECRET_BYTES
from oncelog_controller.zookeeper import ZooKeeperStore
from oncelog_controller.zookeeper_tree import Walked, close_tree, open_tree
from oncelog_protocol.errors import SecurityDisabledError
from oncelog_protocol.messages.users import CREATE, UserWish
from oncelog_protocol.sasl.credential import SALT_BYTES, SCRAM_HASHES, ScramCredential
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_runtime.entropy import Entropy
from oncelog_runtime.secret_files import SECRET_BYTES_MAX, SecretFileError, read_secret

STDIN = "-"


def password_from(file: str | None, stdin: TextIO, ask: Callable[[str], str] | None) -> str:
    """Return the password in a file, or from standard input, without the line break at its end;
    without a file a person is asked for it, twice.

    :param ask: shows a person its argument and returns the answer; None: nobody is there.
    :raises SecretFileError: there is none, or everybody may read the file.
    """
    if file is not None and file != STDIN:
        return read_secret(file)
    if file == STDIN:
        password = stdin.read(SECRET_BYTES_MAX).rstrip("\r\n")
    elif ask is not None:
        password = ask("password: ")
        if ask("once more: ") != password:
            raise SecretFileError("the two passwords differ", "enter the same one twice")
    else:
        text = "there is nobody to ask for the password"
        raise SecretFileError(text, "name a file with it, or - for standard input")
    if not password:
        raise SecretFileError("the password is empty", "give one of 1 to 1,024 characters")
    return password


async def add_user(config: BrokerConfig, entropy: Entropy, name: str, password: str) -> None:
    """Make a user with a password, before the first broker of its cluster starts.

    :raises SecurityDisabledError: with these settings a cluster has no users.
    :raises PolicyViolationError, DuplicateResourceError, UnacceptableCredentialError, StoreError:
        see :func:`oncelog_controller.first_users.add_user`.
    """
    if not keeps_users(config):
        raise SecurityDisabledError(
            "with these settings there are no users: no listener has sasl_mechanisms, and the "
            "setting authorizer is not acl"
        )
    credentials = [
        ScramCredential.make(mechanism, password, entropy.token(SALT_BYTES))
        for mechanism in SCRAM_HASHES
    ]
    wish = UserWish(name, CREATE, [CredentialRow.of(each) for each in credentials])
    async with _opened(config) as store:
        await make_user(store, wish, entropy.token(SECRET_BYTES))


async def secure_zookeeper(config: BrokerConfig) -> Walked:
    """Leave all that the cluster keeps in ZooKeeper to the brokers' identity alone.

    :raises ConfigError: a broker with these settings would go on making nodes for everybody.
    :raises StoreError: see :func:`oncelog_controller.zookeeper_tree.close_tree`.
    """
    if config.zookeeper_acl != "creator":
        text = "is open, and brokers that have it so make nodes for everybody"
        raise ConfigError("zookeeper_acl", text, "Restart all brokers with creator first")
    async with _opened(_making_open_nodes(config)) as store:
        return await close_tree(store)


async def open_zookeeper(config: BrokerConfig) -> Walked:
    """Give all that the cluster keeps in ZooKeeper to everybody.

    :raises ConfigError: a broker with these settings would go on making nodes for itself.
    :raises StoreError: see :func:`oncelog_controller.zookeeper_tree.open_tree`.
    """
    if config.zookeeper_acl != "open":
        text = "is creator, and brokers that have it so make nodes for themselves alone"
        raise ConfigError("zookeeper_acl", text, "Restart all brokers with open first")
    async with _opened(config) as store:
        return await open_tree(store)


def _making_open_nodes(config: BrokerConfig) -> BrokerConfig:
    """Return settings for a session that does not warn of what it is there to change."""
    return config.model_copy(update={"zookeeper_acl": "open"})


@asynccontextmanager
async def _opened(config: BrokerConfig) -> AsyncIterator[ZooKeeperStore]:
    store = zookeeper_store(config)
    await store.start()
    try:
        yield store
    finally:
        await store.close()
