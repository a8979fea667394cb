"""What brokers are told by UpdateSecurity is put together here. Pure.

Rules
-----
* The first order to a broker's life has everything; each later one has the changes of one version
  to the next. Changes that follow each other are merged into one.
* Whatever is changed is listed as it is to be, so that of two changes of the same thing the newer
  one is enough.
* A broker that finds a gap asks for everything. So what does not fit together need not be sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import TypeVar

from oncelog_protocol.acls import AclBinding, AclPattern
from oncelog_protocol.messages.security import FULL, PatternAcls, UpdateSecurityRequest
from oncelog_protocol.quotas import EntityQuotas, QuotaEntity
from oncelog_protocol.sasl.user import ScramUser, UserRow
from oncelog_protocol.schema import Shared

SLICE_CHARS = 100_000
"""A slice is full with so many characters of ACLs: some 5 ms to encode."""

ENTRY_CHARS = 50
"""An entry counts as much besides its names, and a pattern."""

SLICE_USERS = 250
"""Users of one message: at most some 150 KB, and 2 ms to encode."""

SLICE_QUOTAS = 500
"""Entities with quotas of one message: some 5 ms to encode."""

Slice = tuple[Shared[PatternAcls], Shared[UserRow], Shared[EntityQuotas]]
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class SecurityOrder:
    """It leads from version ``base`` to ``version``; ``base`` FULL: it is everything. Must not be
    changed once it was made."""

    base: int
    version: int
    acls: Mapping[AclPattern, Collection[AclBinding]]
    """The patterns that changed have all of their entries here; none ends one."""
    users: Mapping[str, ScramUser | None] = field(default_factory=dict)
    """The users that changed; None ends one."""
    secret: bytes = field(default=b"", repr=False)
    """It is told with everything."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """The entities whose quotas changed have all of them here; none ends one."""
    _slices: list[Slice] = field(default_factory=list, init=False)

    @property
    def full(self) -> bool:
        """Return whether it is everything."""
        return self.base == FULL

    def merged_with(self, newer: SecurityOrder | None) -> SecurityOrder:
        """Return both as one; what is newer counts."""
        if newer is None or newer.version < self.version:
            return self
        if newer.full:
            return newer
        if newer.version == self.version:
            return self
        if newer.base != self.version:
            return newer  # the broker will ask for everything
        return SecurityOrder(
            self.base,
            newer.version,
            {**self.acls, **newer.acls},
            {**self.users, **newer.users},
            self.secret,
            {**self.quotas, **newer.quotas},
        )

    def requests(self, head: tuple[int, int, int]) -> list[UpdateSecurityRequest]:
        """Return it as messages: everything in slices, a change in one, since it is one."""
        if not self._slices:
            self._slices.extend(self._sliced() if self.full else [self._listed()])
        count = len(self._slices)
        return [
            UpdateSecurityRequest(
                *head,
                self.base,
                self.version,
                acls,
                first=number == 1,
                last=number == count,
                users=users,
                secret=self.secret,
                quotas=quotas,
            )
            for number, (acls, users, quotas) in enumerate(self._slices, start=1)
        ]

    def _listed(self) -> Slice:
        return (
            Shared(_listed(self.acls)),
            Shared(starmap(_row, self.users.items())),
            Shared(starmap(_quotas, self.quotas.items())),
        )

    def _sliced(self) -> list[Slice]:
        acls = _sliced(self.acls)
        users = _portions(list(starmap(_row, self.users.items())), SLICE_USERS)
        quotas = _portions(list(starmap(_quotas, self.quotas.items())), SLICE_QUOTAS)
        count = max(len(acls), len(users), len(quotas))
        return list(
            zip(_filled(acls, count), _filled(users, count), _filled(quotas, count), strict=True)
        )


def told(request: UpdateSecurityRequest) -> SecurityOrder:
    """Return what a message says that is not a slice of several."""
    acls = {
        AclPattern(each.resource_type, each.pattern_type, each.name): tuple(each.entries)
        for each in request.acls
    }
    users = {row.name: row.checked() for row in request.users}
    quotas = {each.entity: each.checked() for each in request.quotas}
    return SecurityOrder(request.base, request.version, acls, users, request.secret, quotas)


def weight(request: UpdateSecurityRequest) -> int:
    """Return how many entries a message lists, and patterns, users and entities with quotas."""
    acls = sum(1 + len(each.entries) for each in request.acls)
    return acls + len(request.users) + len(request.quotas)


def _row(name: str, user: ScramUser | None) -> UserRow:
    return UserRow(name) if user is None else UserRow.of(user)


def _quotas(entity: QuotaEntity, values: Mapping[str, float]) -> EntityQuotas:
    return EntityQuotas.of(entity, values.items())


def _portions(rows: Sequence[T], count_max: int) -> list[Shared[T]]:
    return [Shared(rows[start : start + count_max]) for start in range(0, len(rows), count_max)]


def _filled(slices: Sequence[Shared[T]], count: int) -> list[Shared[T]]:
    """Return ``count`` slices: these, and then one without anything, again and again."""
    return [*slices, *[Shared[T]()] * (count - len(slices))]


def _listed(acls: Mapping[AclPattern, Collection[AclBinding]]) -> Iterable[PatternAcls]:
    return (PatternAcls(*pattern, list(entries)) for pattern, entries in acls.items())


def _sliced(acls: Mapping[AclPattern, Collection[AclBinding]]) -> list[Shared[PatternAcls]]:
    slices: list[list[PatternAcls]] = [[]]
    room = SLICE_CHARS
    for each in _listed(acls):
        chars = ENTRY_CHARS + sum(
            ENTRY_CHARS + len(entry.name) + len(entry.principal) + len(entry.host)
            for entry in each.entries
        )
        if chars > room and slices[-1]:
            slices.append([])
            room = SLICE_CHARS
        slices[-1].append(each)
        room -= chars
    return [Shared(some) for some in slices]
