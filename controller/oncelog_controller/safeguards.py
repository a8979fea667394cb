"""The controller's rules without which records are lost, or two controllers work, are methods here.

Each is the safe decision, and the only one that the product has: most return what they are told, as
it stands. Tests hand in others, to see that the loss is noticed: ``tests/unsafe`` has them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from oncelog_controller.election import Decision
from oncelog_controller.life import AskLife
from oncelog_controller.moving import Obstacle
from oncelog_controller.state import BrokerRegistration, ClusterPartition, Placement
from oncelog_controller.store import Op


class ControllerSafeguards:
    """It decides for the controller of a broker, and for the broker's registration."""

    __slots__ = ()

    def untrusted(self, incomplete: frozenset[int]) -> frozenset[int]:
        """Return the replicas that leave ISR and ELR: those whose broker registered without all
        data that counted. They are elected only where unclean elections are allowed (KIP-966,
        [K18] [I9])."""
        return incomplete

    def witnesses(
        self, brokers: Mapping[int, BrokerRegistration]
    ) -> Mapping[int, BrokerRegistration]:
        """Return the brokers whose registrations a new state must agree with [I9]."""
        return brokers

    def is_of_earlier_life(self, other: bool) -> bool:
        """Return whether an AlterPartition is refused as its asker or a member has registered anew
        since (KIP-841, KIP-903) [K22]."""
        return other

    def cluster(self, cluster_id: str) -> str:
        """Return the cluster to which whoever is given orders must belong."""
        return cluster_id

    def asking(self, ask: AskLife) -> AskLife:
        """Return how a registration that a directory remembers as its own is asked whether its
        process lives: a copy of the directory must not depose the original."""
        return ask

    def fence(self, check: Op) -> tuple[Op, ...]:
        """Return what goes before every write: a check that there is no newer controller ([Z3],
        KAFKA-6082). One that was paused would go on writing beside its successor."""
        return (check,)

    def ignored(self) -> Collection[Obstacle]:
        """Return what does not keep a move from its end though it should [M5]: nothing."""
        return ()

    def counted(self, partition: ClusterPartition, sound: frozenset[int]) -> frozenset[int]:
        """Return who of the members of an ISR counts when a move may end: those that are sound
        [M5]. A broker that is dead, or believed to be, would lead otherwise."""
        return sound

    def ended(self, decision: Decision, placement: Placement) -> Decision:
        """Return who leads and who is in sync after a move: a part of the former ISR [M6]. Others
        may lack what is committed."""
        return decision

    def epoch_of_move(self, grown: int) -> int:
        """Return the leader epoch in which a move begins or ends: one more than before [M2]. A
        leader counts its followers anew in a new epoch only."""
        return grown

    def stops(self, written: bool) -> bool:
        """Return whether brokers that are to be no replicas any more may be told to delete what
        they have: when the store says so [M7]. The write may fail, or the controller die."""
        return written

    def remembered(self, leaving: tuple[int, ...]) -> tuple[int, ...]:
        """Return who of those that have data yet, and are no replicas any more, stands in the
        state [M8]. Nobody would ever tell the others again to delete it."""
        return leaving

    def hears(self, accused: bool) -> bool:
        """Return whether somebody whose connection was refused, which proves nothing, may object
        through the store, and a controller that most brokers refuse steps down. One broker behind a
        firewall would depose every controller otherwise."""
        return accused


SAFE = ControllerSafeguards()
"""A controller runs with these."""
