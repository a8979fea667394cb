"""The quotas of the cluster are known here, as the controller or the store has told them.

They are a state with a version that only grows, as ACLs and users are. Whoever counts by them is
told what has changed. There may be thousands of them, and a change of one takes no longer for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog_protocol.quotas import QuotaEntity
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

UNKNOWN_VERSION = -1

NOTHING: dict[str, float] = {}

Values = Mapping[str, float]
"""They are the quotas of one entity, by their keys."""

QuotasChanged = Callable[[Mapping[QuotaEntity, Values]], None]
"""It is called with the entities whose quotas have changed. Each has all that are its own now, and
none of them where they have ended."""


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
        gone: dict[QuotaEntity, Values] = {
            entity: {} for entity in self._values if entity not in quotas
        }
        self._apply(version, {**gone, **quotas})
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
        self._apply(version, changes)
        return True

    def _apply(self, version: int, wanted: Mapping[QuotaEntity, Values]) -> None:
        self._version = version
        changes = {
            entity: values
            for entity, values in wanted.items()
            if values != self._values.get(entity, NOTHING)
        }
        if not changes:
            return
        for entity, values in changes.items():
            if values:
                self._values[entity] = values
            else:
                del self._values[entity]
        logger.info("quotas_changed", version=version, quotas=sum(map(len, self._values.values())))
        for follower in self._followers:
            follower(changes)
