"""Some things are done to a cluster's store by hand, with a broker's settings, and no broker runs.

A cluster whose brokers authenticate by passwords cannot be asked for its first users: they are made
here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TextIO

from oncelog_broker.config import BrokerConfig
from oncelog_broker.controller_settings import keeps_users
from oncelog_broker.zookeeper_settings import zookeeper_store
from oncelog_controller.first_users import add_user as make_user
from oncelog_controller.user_nodes import SECRET_BYTES
from oncelog_controller.zookeeper import ZooKeeperStore
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


@asynccontextmanager
async def _opened(config: BrokerConfig) -> AsyncIterator[ZooKeeperStore]:
    store = zookeeper_store(config)
    await store.start()
    try:
        yield store
    finally:
        await store.close()
