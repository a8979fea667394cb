"""The controller's rules can be switched off, so that tests can prove that they are needed.

Production code never changes one: the default is the only safe value. Each switch names the rule of
which it deprives the controller; a test that turns it must see records lost, or two controllers at
work.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerSafeguards:
    """Every field at its default is Oncelog as it is meant to run."""

    trust_only_complete_replicas: bool = True
    """A replica whose broker registers without all data that counted leaves ISR and ELR, and is
    elected only where unclean elections are allowed (KIP-966, [K18] [I9]). Off: it stays, and leads
    with what it has."""

    check_broker_epochs: bool = True
    """AlterPartition is refused when the asker or a member has registered anew since (KIP-841,
    KIP-903) [K22]. Off: what was true of a broker's earlier life lets its next one into the ISR."""

    check_identity: bool = True
    """Orders go only to who answers as the broker of the cluster that is meant. Off: to whoever
    listens at the registered address."""

    ask_registered_life: bool = True
    """A registration that a directory remembers as its own is taken over only when its process does
    not live any more: its address is asked. Off: a copy of the directory deposes the original."""

    expire_hung_loops: bool = True
    """The client of the store falls silent for a loop that does not turn (``dead_man``), so that
    its session expires. Off: kazoo's thread keeps it for ever, and the broker leads."""

    check_controller_epoch: bool = True
    """Every write fails once there is a newer controller ([Z3], KAFKA-6082). Off: a controller that
    was paused goes on writing beside its successor."""

    hear_the_accused: bool = True
    """A refused connection proves a death only to who was connected to that very life; else the
    accused may object through the store, and a controller that most brokers refuse steps down. Off:
    every refusal counts at once, and one broker behind a firewall deposes every controller."""
