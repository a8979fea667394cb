"""Each API and version of Kafka that is refused is logged once for each software of clients."""

from __future__ import annotations

from typing import Final

from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

REMEMBERED_MAX: Final = 1000
"""So many lines are written at most: clients may call themselves anything."""


class RefusedApis:
    """It remembers what was logged."""

    def __init__(self) -> None:
        self._logged: set[tuple[int, int, str]] = set()

    def note(self, api_key: int, version: int, software: str) -> None:
        """Log that this was refused, unless it has been."""
        refused = (api_key, version, software)
        if refused in self._logged or len(self._logged) >= REMEMBERED_MAX:
            return
        self._logged.add(refused)
        logger.info("kafka_api_refused", api_key=api_key, api_version=version, software=software)
