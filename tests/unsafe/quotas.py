"""A connection lacks a rule of quotas here, for tests that prove that the rule is needed."""

from __future__ import annotations

from oncelog_broker.server.connection import ServerChannel
from oncelog_protocol.quotas import NEVER_HELD


class DropsOverQuota(ServerChannel):
    """It drops what comes while a quota holds the connection, and serves it never."""

    def _may_start(self) -> bool:
        while self.state.held_until and self._backlog:
            if self._backlog[0].api_key in NEVER_HELD:
                break
            self._backlog.popleft().release()
        return bool(self._backlog) and super()._may_start()
