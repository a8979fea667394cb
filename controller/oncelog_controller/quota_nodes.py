"""The nodes of quotas have their paths and contents here. Pure.

All quotas of one entity are one node, ``/security/quotas/KIND/NAME``: its names in base64url, those
of a user and a client id with a ``.`` between them, and ``~`` for the default. It is written in
multis that set ``/security/version``.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_controller import security_nodes, znodes
from oncelog_controller.security import ClusterSecurity
from oncelog_controller.store import Op
from oncelog_protocol.errors import InvalidRequestError
from oncelog_protocol.quotas import (
    ADDRESSES,
    CLIENTS,
    DEFAULT_ENTITY,
    QUOTA_KINDS,
    USER_CLIENTS,
    USERS,
    QuotaEntity,
    check_value,
)

QUOTAS = "/security/quotas"
QUOTA_PARENTS = tuple(f"{QUOTAS}/{kind}" for kind in QUOTA_KINDS)
"""All nodes of quotas are below these, which are made before them."""

DEFAULT_NODE = "~"
"""It stands for ``DEFAULT_ENTITY`` in a path; base64url has no such character, and no ``.``."""

_PLACES = {USERS: (0,), CLIENTS: (1,), USER_CLIENTS: (0, 1), ADDRESSES: (2,)}
"""An entity of each kind has names at these places."""


def quotas_path(entity: QuotaEntity) -> str:
    """Return the path of one entity's quotas."""
    names = [
        security_nodes.encode_name(name) or DEFAULT_NODE for name in entity if name is not None
    ]
    return f"{QUOTAS}/{entity.kind}/{'.'.join(names)}"


def entity_of(path: str) -> QuotaEntity:
    """Return whose quotas are at ``path``.

    :raises CorruptNodeError: nobody has such a path.
    """
    kind, _, node = path.removeprefix(QUOTAS + "/").partition("/")
    names = [
        DEFAULT_ENTITY if each == DEFAULT_NODE else security_nodes.decode_name(path, each)
        for each in node.split(".")
    ]
    places = _PLACES.get(kind, ())
    parts: list[str | None] = [None, None, None]
    try:
        if len(names) != len(places):
            raise InvalidRequestError(f"{kind} have names of another form")
        for place, name in zip(places, names, strict=True):
            parts[place] = name
        entity = QuotaEntity(*parts).checked()
        if quotas_path(entity) != path:
            raise InvalidRequestError("it is spelled otherwise")
    except InvalidRequestError as error:
        raise znodes.CorruptNodeError(f"{path}: no entity can have this name: {error}") from None
    return entity


def encode_quotas(values: Mapping[str, float]) -> bytes:
    """Encode the quotas of one entity."""
    return znodes.dump({"quotas": dict(values)})


def decode_quotas(path: str, data: bytes) -> dict[str, float]:
    """Return the quotas of the entity at ``path``, by their keys.

    :raises CorruptNodeError: they are damaged, or of a release of tomorrow.
    """
    entity = entity_of(path)
    values = znodes.load(path, data).get("quotas")
    try:
        if not isinstance(values, dict):
            raise TypeError("quotas is not an object")
        for key, value in values.items():
            entity.check_key(key)
            check_value(key, value)
        return {key: float(value) for key, value in values.items()}
    except (InvalidRequestError, TypeError) as exc:
        raise znodes.CorruptNodeError(f"{path}: {exc}") from None


def write_quotas(
    security: ClusterSecurity, changes: Mapping[QuotaEntity, Mapping[str, float]]
) -> list[Op]:
    """Return what writes the quotas of entities as they are to be."""
    ops: list[Op] = [security_nodes.set_version(security.version)]
    for entity, values in changes.items():
        data = encode_quotas(values) if values else None
        ops += security_nodes.write_node(quotas_path(entity), data, security.quotas.get(entity))
    return ops
