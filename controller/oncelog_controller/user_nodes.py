"""The nodes of users, and the cluster's secret, have their paths and contents here. Pure.

A user is one node, ``/security/users/NAME``, its name in base64url. It is written in multis that
set ``/security/version``, and has the version that it brought as its generation.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from oncelog_controller import security_nodes, znodes
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.store import Op
from oncelog_protocol.errors import UnacceptableCredentialError
from oncelog_protocol.sasl.credential import Mechanism, ScramCredential
from oncelog_protocol.sasl.gs2 import is_legal_user
from oncelog_protocol.sasl.user import ScramUser

USERS = "/security/users"
SECRET = "/security/secret"
SECRET_BYTES = 32


def user_path(name: str) -> str:
    """Return the path of a user."""
    return f"{USERS}/{security_nodes.encode_name(name)}"


def user_of(path: str) -> str:
    """Return the name of the user at ``path``.

    :raises CorruptNodeError: no user has such a path.
    """
    name = security_nodes.decode_name(path, path.removeprefix(USERS + "/"))
    if not is_legal_user(name) or user_path(name) != path:
        raise znodes.CorruptNodeError(f"{path}: no user can have this name")
    return name


def encode_user(user: ScramUser) -> bytes:
    """Encode a user."""
    rows = [
        {
            "mechanism": str(each.mechanism),
            "salt": _text(each.salt),
            "iterations": each.iterations,
            "stored_key": _text(each.stored_key),
            "server_key": _text(each.server_key),
        }
        for each in user.credentials
    ]
    return znodes.dump(
        {"generation": user.generation, "disabled": user.disabled, "credentials": rows}
    )


def decode_user(path: str, data: bytes) -> ScramUser:
    """Return the user at ``path``.

    :raises CorruptNodeError: it is damaged, or of a release of tomorrow. The error shows no key.
    """
    name = user_of(path)
    content = znodes.load(path, data)
    try:
        generation, disabled = content["generation"], content["disabled"]
        if type(generation) is not int or type(disabled) is not bool:
            raise TypeError("generation is no number, or disabled no truth value")
        credentials = [_credential(row) for row in content["credentials"]]
        return ScramUser.made_of(name, generation, credentials, disabled)
    except (KeyError, TypeError, ValueError, UnacceptableCredentialError) as exc:
        raise znodes.CorruptNodeError(f"{path}: {type(exc).__name__}: {exc}") from None


def encode_secret(secret: bytes) -> bytes:
    """Encode the cluster's secret."""
    return znodes.dump({"secret": _text(secret)})


def decode_secret(data: bytes) -> bytes:
    """Return the cluster's secret. :raises CorruptNodeError: it cannot be read."""
    try:
        secret = _bytes(znodes.load(SECRET, data)["secret"])
    except (KeyError, TypeError, ValueError):
        raise znodes.CorruptNodeError(f"{SECRET}: there is no secret in it") from None
    if len(secret) != SECRET_BYTES:
        raise znodes.CorruptNodeError(f"{SECRET}: the secret has {len(secret)} bytes")
    return secret


def write_users(security: ClusterSecurity, changes: Mapping[str, ScramUser | None]) -> list[Op]:
    """Return what writes the users as they are to be; None deletes one."""
    ops: list[Op] = [security_nodes.set_version(security.version)]
    for name, user in changes.items():
        data = None if user is None else encode_user(user)
        ops += security_nodes.write_node(user_path(name), data, security.users.get(name))
    return ops


def _credential(row: Any) -> ScramCredential:
    iterations = row["iterations"]
    if type(iterations) is not int:
        raise TypeError("iterations is no number")
    return ScramCredential(
        Mechanism(row["mechanism"]),
        _bytes(row["salt"]),
        iterations,
        _bytes(row["stored_key"]),
        _bytes(row["server_key"]),
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
