"""The store says which version the cluster's security has, to brokers that were told it or not."""

from __future__ import annotations

import asyncio

from oncelog_controller import security_nodes
from oncelog_controller.store import MetadataStore, StoreError
from oncelog_runtime.structured_logging import get_logger

logger = get_logger(__name__)

ANSWER_S = 2.0
"""The store is silent when it does not answer for so long."""


class StoredSecurityVersion:
    """It reads the version."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def version(self) -> int | None:
        """Return the version that the store has, -1 if it has none, None without an answer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                stat = await self._store.exists(security_nodes.VERSION)
        except (StoreError, TimeoutError) as error:
            logger.debug("security_version_not_read", error=error)
            return None
        return -1 if stat is None else stat.version
