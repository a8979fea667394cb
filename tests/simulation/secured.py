"""A secured cluster has users and ACLs in its store before its first broker starts.

Brokers authenticate to each other, and clients to them, by SCRAM on plain sockets: TLS would draw
OpenSSL's chance. The users of a run are the brokers, a super user who changes rights (*the
warden*), the application (*app*), which may do everything that an ACL can allow, and the subjects,
whose rights faults change.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from typing import Any

from oncelog.security import Security
from oncelog_controller import security_nodes, user_nodes
from oncelog_controller.loader import load_security
from oncelog_controller.store import MetadataStore
from oncelog_protocol.acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    DENY,
    GROUP,
    LITERAL,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    AclBinding,
)
from oncelog_protocol.sasl.credential import ITERATIONS_MIN, SALT_BYTES, Mechanism, ScramCredential
from oncelog_protocol.sasl.user import ScramUser
from oncelog_runtime.entropy import Entropy

MECHANISM = Mechanism.SCRAM_SHA_256
BROKERS_PASSWORD = "of the brokers"
WARDEN, APP = "warden", "app"
SUBJECTS = ("ann", "bob")
"""They may read and write the workload's topic from the beginning."""
GUEST = "eve"
"""She may authenticate, and nothing else from the beginning."""
RIGHTS = (READ, WRITE)


@cache
def password_file() -> str:
    """Return the path of a real file with the brokers' password, which ends with this process."""
    descriptor, path = tempfile.mkstemp(prefix="oncelog-simulation-")
    with os.fdopen(descriptor, "w") as file:
        file.write(BROKERS_PASSWORD)
    atexit.register(os.unlink, path)
    return path


def broker_settings(broker_id: int, stale_max_ms: int) -> dict[str, Any]:
    """Return what goes into ``BrokerConfig`` besides the mechanisms of its listeners."""
    return {
        "authorizer": "acl",
        "super_users": [f"User:{WARDEN}"],
        "inter_broker_user": f"broker-{broker_id}",
        "inter_broker_password_file": password_file(),
        "security_stale_max_ms": stale_max_ms,
    }


def first_password(user: str) -> str:
    """Return the password with which a user begins."""
    return BROKERS_PASSWORD if user.startswith("broker-") else f"{user}-1"


def security_of(user: str, password: str | None = None) -> Security:
    """Return what a client of a user is given."""
    password = first_password(user) if password is None else password
    return Security(username=user, password=password, mechanism="SCRAM-SHA-256")


def credential(password: str, entropy: Entropy) -> ScramCredential:
    """Return what a cluster keeps of a password; it is cheap to compute, as such things go."""
    return ScramCredential.make(MECHANISM, password, entropy.token(SALT_BYTES), ITERATIONS_MIN)


def acl(user: str, topic: str, operation: str, permission: str = ALLOW) -> AclBinding:
    """Return an entry on one topic."""
    return AclBinding(TOPIC, LITERAL, topic, f"User:{user}", "*", operation, permission)


def may_everything(user: str) -> list[AclBinding]:
    """Return the entries of a user who may do all that an entry can allow."""
    names = {TOPIC: "*", GROUP: "*", TRANSACTIONAL_ID: "*", CLUSTER: CLUSTER_NAME}
    return [
        AclBinding(kind, LITERAL, name, f"User:{user}", "*", ALL, ALLOW)
        for kind, name in names.items()
    ]


async def secure(
    store: MetadataStore, entropy: Entropy, broker_ids: Sequence[int], topic: str
) -> None:
    """Write the users and ACLs with which a cluster begins, as ``--add-user`` does."""
    secret = entropy.token(user_nodes.SECRET_BYTES)
    read = await load_security(store, secret)
    names = [*(f"broker-{id}" for id in broker_ids), WARDEN, APP, *SUBJECTS, GUEST]
    generation = read.version + 1
    users: dict[str, ScramUser | None] = {
        name: ScramUser.made_of(name, generation, [credential(first_password(name), entropy)])
        for name in names
    }
    await store.multi(user_nodes.write_users(read, users))
    read.take_users(users)
    entries = may_everything(APP)
    entries += [acl(user, topic, right) for user in SUBJECTS for right in RIGHTS]
    changes: dict[Any, list[AclBinding]] = {}
    for entry in entries:
        changes.setdefault(entry.pattern, []).append(entry)
    await store.multi(security_nodes.write(read, changes, 0))


__all__ = [
    "APP",
    "DENY",
    "GUEST",
    "RIGHTS",
    "SUBJECTS",
    "WARDEN",
    "acl",
    "broker_settings",
    "credential",
    "first_password",
    "secure",
    "security_of",
]
