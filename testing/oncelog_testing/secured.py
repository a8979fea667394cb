"""A secured cluster for tests knows its users by passwords, and decides by ACLs what they may.

Clients authenticate by SCRAM over loopback sockets that are not encrypted; nobody may do what no
ACL allows, but for one super user. Between brokers all is as without security: they share this
process. What a certificate or a token proves is not to be tried here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog import Security
from oncelog_controller.first_users import add_user
from oncelog_controller.user_nodes import SECRET_BYTES
from oncelog_protocol.messages.users import CREATE, UserWish
from oncelog_protocol.sasl.credential import (
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_HASHES,
    ScramCredential,
)
from oncelog_protocol.sasl.user import CredentialRow
from oncelog_runtime.entropy import Entropy
from oncelog_testing.memory.store import MemoryMetadataStore
from oncelog_testing.memory.zookeeper import MemoryZooKeeper

__all__ = ["ADMIN", "ITERATIONS", "LISTENERS", "SETTINGS", "SecuredUsers"]

ADMIN = "admin"
"""This user may do everything."""
ITERATIONS = ITERATIONS_MIN
"""Passwords cost as little as is allowed: tests make many users."""
SETTINGS: Mapping[str, Any] = {"authorizer": "acl", "super_users": [f"User:{ADMIN}"]}
LISTENERS: Mapping[str, Mapping[str, Any]] = {
    "external": {"sasl_mechanisms": [str(each) for each in SCRAM_HASHES]}
}
"""Every listener has this beside its address."""
PASSWORD_BYTES = 16


class SecuredUsers:
    """It knows the passwords of the users that a test makes."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self.admin = self.security_of(ADMIN, self.new_password())
        """What a client is given that may do everything."""

    def new_password(self) -> str:
        """Return a password that nobody has yet."""
        return self._entropy.token(PASSWORD_BYTES).hex()

    def security_of(self, name: str, password: str) -> Security:
        """Return what a client of a user is given."""
        return Security(username=name, password=password)

    async def begin(self, zookeeper: MemoryZooKeeper) -> None:
        """Make the super user, before the first broker starts, as ``--add-user`` does."""
        assert self.admin.password is not None
        rows = [
            CredentialRow.of(
                ScramCredential.make(
                    each, self.admin.password, self._entropy.token(SALT_BYTES), ITERATIONS
                )
            )
            for each in SCRAM_HASHES
        ]
        store = MemoryMetadataStore(zookeeper)
        await store.start()
        wish = UserWish(ADMIN, CREATE, rows)
        await add_user(store, wish, self._entropy.token(SECRET_BYTES))
        await store.close()
