"""The quotas of the cluster are known here, as the controller or the store has told them.

They are a state with a version that only grows, as ACLs and users are. Whoever counts by them is
told all of them after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from oncelog_protocol.quotas import Quota, QuotaEntity
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

UNKNOWN_VERSION = -1

QuotasChanged = Callable[[Sequence[Quota]], None]
"""It is called with all quotas that there are now."""

Values = Mapping[str, float]
"""They are the quotas of one entity, by their keys."""


class KnownQuotas:
    """It knows the quotas of all entities."""

    def __init__(self, *followers: QuotasChanged) -> None:
        """Make it without quotas; ``followers`` are called after each change."""
        self._version = UNKNOWN_VERSION
        self._values: dict[QuotaEntity, Values] = {}
        self._followers = followers

    @property
    def version(self) -> int:
        """Return the version of the quotas, -1 while none are known."""
        return self._version

    @property
    def values(self) -> Mapping[QuotaEntity, Values]:
        """Return the quotas of each entity that has some."""
        return self._values

    def replace(self, version: int, quotas: Mapping[QuotaEntity, Values]) -> bool:
        """Know these quotas, and no others, from now on.

        Return whether they are newer than the present ones; if not, nothing has changed.
        """
        if version <= self._version:
            return False
        self._swap(version, {entity: values for entity, values in quotas.items() if values})
        return True

    def change(self, base: int, version: int, changes: Mapping[QuotaEntity, Values]) -> bool:
        """Know from now on the present quotas with these changes: all that has changed from version
        ``base`` to ``version``. An entity has all of its quotas there; none ends them.

        Return whether that could be done, or was not needed since ``version`` is not newer; if not,
        all quotas are to be asked for.
        """
        if version <= self._version:
            return True
        if self._version == UNKNOWN_VERSION or base > self._version:
            return False
        if not changes:
            self._version = version
            return True
        changed = {**self._values, **changes}
        self._swap(version, {entity: values for entity, values in changed.items() if values})
        return True

    def _swap(self, version: int, values: dict[QuotaEntity, Values]) -> None:
        before, self._values, self._version = self._values, values, version
        if values == before:
            return
        quotas = [
            Quota(entity.user, entity.client_id, key, value, entity.address)
            for entity, some in values.items()
            for key, value in some.items()
        ]
        logger.info("quotas_changed", version=version, quotas=len(quotas))
        for follower in self._followers:
            follower(quotas)
