"""A broker goes through these phases, from its first to its last moment. Pure."""

from __future__ import annotations

from enum import Enum, unique


@unique
class BrokerPhase(Enum):
    """The value tells a person the phase. A broker goes through them in this order and never
    back."""

    NEW = "not started"
    BINDING = "taking its ports and looking at its directories"
    CONNECTING = "connecting to ZooKeeper"
    LOADING = "loading its logs"
    REGISTERING = "registering in ZooKeeper"
    WAITING = "waiting for a controller to describe the cluster"
    SERVING = "serving"
    STOPPING = "stopping"
    STOPPED = "stopped"

    @property
    def label(self) -> str:
        """Return the name for metrics and programs."""
        return self.name.lower()
