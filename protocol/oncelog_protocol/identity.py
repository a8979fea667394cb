"""Both ends of a connection say in the first exchange who they are, and a misfit is noticed.

Rules
-----
* What is not known (a cluster id "", a broker id -1) fits everything.
* Each end compares what the asker meant with what is there, so that one of them notices also where
  the other is of an older release.
* Pure; the machines of ``connection`` ask this file.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog_protocol.types import NO_BROKER

NO_CLUSTER = ""
"""It stands instead of a cluster id that is not known."""


@dataclass(frozen=True, slots=True)
class Identity:
    """It names a broker of a cluster, as far as it is known."""

    cluster_id: str = NO_CLUSTER
    broker_id: int = NO_BROKER

    @property
    def whole(self) -> bool:
        """Return whether both are known."""
        return self.cluster_id != NO_CLUSTER and self.broker_id != NO_BROKER

    def __str__(self) -> str:
        cluster = f"cluster {self.cluster_id!r}" if self.cluster_id else ""
        broker = f"broker {self.broker_id}" if self.broker_id != NO_BROKER else ""
        return " of ".join(filter(None, (broker, cluster))) or "any broker"


UNKNOWN = Identity()
"""Nothing is known of it."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """It is what the asker said in the first exchange of a connection, as the answering end keeps
    it."""

    own_broker_id: int = NO_BROKER
    """The asker's own; -1: a client."""
    addressed: bool = False
    """Whether it named the answering broker and its cluster, both, and rightly."""


@dataclass(frozen=True, slots=True)
class Recognition:
    """It is what the answering end says of the asker: who it is, and by what that is known. All of
    it is empty before the asker is known."""

    principal: str = ""
    authenticated_by: str = ""
    """It is a mechanism of SASL, or CERTIFICATE; "": nothing was proved."""
    listener: str = ""
    """The asker came by the listener of this name."""
    authorizer: str = ""
    """It is what decides who may do what: "none" or "acl"."""


UNRECOGNISED = Recognition()
"""The asker is not known yet, or the answering end does not say."""


def misfit(meant: Identity, found: Identity) -> str:
    """Return what is wrong when ``meant`` was looked for and ``found`` is there; "" if they fit."""
    clusters = (meant.cluster_id, found.cluster_id)
    brokers = (meant.broker_id, found.broker_id)
    strange = NO_CLUSTER not in clusters and clusters[0] != clusters[1]
    if strange or (NO_BROKER not in brokers and brokers[0] != brokers[1]):
        return f"expected {meant}, found {found}"
    return ""
