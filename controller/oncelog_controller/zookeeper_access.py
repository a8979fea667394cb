"""This says how a session reaches ZooKeeper, as whom, and who may touch what it makes.

An identity is a digest of a user and a password, or the certificate that TLS has shown. ZooKeeper
itself says what the identity is that an access list names: it alone knows how it makes digests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions

from oncelog_runtime.tls_contexts import ClientTls

AccessList = list[Any]
"""It is one of kazoo's: of each identity, what it may do to a node."""

CREATOR: AccessList = CREATOR_ALL_ACL
"""Who sets this may do everything, and nobody else may do anything."""
EVERYBODY: AccessList = OPEN_ACL_UNSAFE
"""Everybody may do everything."""
CHANGES = Permissions.WRITE | Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAccess:
    """It is all that a session needs beside the address. By default it is nobody, without TLS."""

    tls: ClientTls | None = None
    """With it servers are verified, and shown the certificate that it may have."""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    """ZooKeeper is told user and password in clear."""
    creator_only: bool = False
    """True: what is made is for its creator's identity alone; False: for everybody."""

    def options(self) -> dict[str, Any]:
        """Return what kazoo's client is given for it."""
        options: dict[str, Any] = {}
        if self.user is not None:
            options["auth_data"] = [("digest", f"{self.user}:{self.password}")]
        if self.creator_only:
            options["default_acl"] = CREATOR
        return options


def lets_everybody_write(acl: AccessList) -> bool:
    """Return whether everybody may change a node with this access list."""
    return any(entry.id.scheme == "world" and entry.perms & CHANGES for entry in acl)
