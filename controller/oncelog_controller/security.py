"""What the cluster has for its security is known here as the store has it. Pure.

It has one version, which grows with every change, whatever was changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from oncelog_protocol.acls import AclBinding, AclPattern
from oncelog_protocol.quotas import QuotaEntity
from oncelog_protocol.sasl.user import ScramUser


@dataclass(frozen=True, slots=True)
class StoredAcls:
    """They are the entries of one pattern; ``version`` is that of their node."""

    entries: tuple[AclBinding, ...]
    version: int


@dataclass(frozen=True, slots=True)
class StoredUser:
    """It is one user; ``version`` is that of its node. One that cannot be read has no passwords."""

    user: ScramUser
    version: int


@dataclass(frozen=True, slots=True)
class StoredQuotas:
    """They are the quotas of one entity, by their keys; ``version`` is that of their node."""

    values: Mapping[str, float]
    version: int


@dataclass(slots=True)
class ClusterSecurity:
    """It is what the store holds below ``/security``."""

    version: int = 0
    acls: dict[AclPattern, StoredAcls] = field(default_factory=dict)
    users: dict[str, StoredUser] = field(default_factory=dict)
    secret: bytes = field(default=b"", repr=False)
    """Names without a user get their salts from it; empty where nobody authenticates by names."""
    quotas: dict[QuotaEntity, StoredQuotas] = field(default_factory=dict)

    def entries(self) -> list[AclBinding]:
        """Return all ACLs, by pattern."""
        return [entry for pattern in sorted(self.acls) for entry in self.acls[pattern].entries]

    def of(self, pattern: AclPattern) -> tuple[AclBinding, ...]:
        """Return the ACLs of one pattern."""
        stored = self.acls.get(pattern)
        return () if stored is None else stored.entries

    def quotas_of(self, entity: QuotaEntity) -> Mapping[str, float]:
        """Return the quotas of one entity, by their keys."""
        stored = self.quotas.get(entity)
        return {} if stored is None else stored.values

    def usable_users(self) -> list[ScramUser]:
        """Return the users with a password, by name: all that brokers are told of."""
        users = [self.users[name].user for name in sorted(self.users)]
        return [user for user in users if user.credentials]

    def take(self, changes: Mapping[AclPattern, Collection[AclBinding]]) -> None:
        """Note in memory what one multi has written."""
        self.version += 1
        for pattern, entries in changes.items():
            known = self.acls.pop(pattern, None)
            if entries:
                version = 0 if known is None else known.version + 1
                self.acls[pattern] = StoredAcls(tuple(entries), version)

    def take_users(self, changes: Mapping[str, ScramUser | None]) -> None:
        """Note in memory what one multi has written; None deletes a user."""
        self.version += 1
        for name, user in changes.items():
            known = self.users.pop(name, None)
            if user is not None:
                self.users[name] = StoredUser(user, 0 if known is None else known.version + 1)

    def take_quotas(self, changes: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Note in memory what one multi has written; no value ends an entity's quotas."""
        self.version += 1
        for entity, values in changes.items():
            known = self.quotas.pop(entity, None)
            if values:
                version = 0 if known is None else known.version + 1
                self.quotas[entity] = StoredQuotas(values, version)
