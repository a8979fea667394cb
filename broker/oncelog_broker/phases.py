"""How far a broker has come, from its first to its last moment. Pure."""

from __future__ import annotations

from enum import Enum, unique


@unique
class BrokerPhase(Enum):
    """The value says it to a person. A broker goes through them in this order and never back."""

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
        """For metrics and programs."""
        return self.name.lower()
