"""A fence asks no store here, for tests of what comes behind it."""

from __future__ import annotations

from oncelog_broker.replication.safeguards import SAFE, Safeguards
from oncelog_broker.server.controller_fence import ControllerFence


async def _nobody() -> tuple[int, int]:
    return -1, -1


class OpenFence(ControllerFence):
    """Whoever says that it is controller is believed."""

    def __init__(self, safeguards: Safeguards = SAFE) -> None:
        super().__init__(_nobody, safeguards)

    async def admit(self, controller_id: int, controller_epoch: int, broker_epoch: int) -> None:
        """Check without asking."""
        self.check(controller_id, controller_epoch, broker_epoch)
