"""The three questions of a probe are answered here, from a broker in any state. No I/O.

* *live*: the event loop turns. That an answer comes is the answer. A broker that recovers, that has
  lost ZooKeeper, or that fails is alive, and restarting it would only make it recover again.
* *started*: it has served once. Before that the answer says how far recovery has come.
* *ready*: clients may be sent here: it is registered in a session that stands, its logs are loaded,
  its listeners are open, it is not stopping, and it does not refuse clients because it cannot know
  what was revoked. Lost contact to ZooKeeper alone is no reason: the broker goes on until its
  session has expired, when it counts as fenced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from oncelog_broker.app import Broker
from oncelog_broker.phases import BrokerPhase
from oncelog_controller.store import SessionState


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """A verdict answers one probe."""

    ok: bool
    status: str
    """The status is said in one word."""
    reasons: list[str] = field(default_factory=list)
    """The reasons say why not, in words for a person; they are empty when ok."""
    warnings: list[str] = field(default_factory=list)
    """The warnings name what is wrong without being a reason."""


def live() -> ProbeVerdict:
    """Return "live": that this runs on the loop is the answer."""
    return ProbeVerdict(True, "live")


def started(broker: Broker) -> ProbeVerdict:
    """Return whether the broker has begun to serve; it stays so until it is stopped."""
    if broker.phase in (BrokerPhase.SERVING, BrokerPhase.STOPPING):
        return ProbeVerdict(True, "started")
    return ProbeVerdict(False, broker.phase.label, [start_progress(broker)])


def start_progress(broker: Broker) -> str:
    """Say what the start is doing, with the progress of recovery."""
    phase = broker.phase
    if phase is not BrokerPhase.LOADING:
        return str(phase.value)
    return "; ".join([phase.value, *(each.describe() for each in broker.logs.progress)])


def ready(broker: Broker) -> ProbeVerdict:
    """Return whether clients and other brokers may count on this one now."""
    warnings = [
        f"log directory {each.path} is offline: {each.failure}"
        for each in broker.logs.dirs
        if not each.online
    ]
    if broker.failed.done() and not broker.failed.cancelled():
        return ProbeVerdict(False, "failed", [f"it fails: {broker.failed.exception()}"], warnings)
    if broker.phase is not BrokerPhase.SERVING:
        return ProbeVerdict(False, broker.phase.label, [start_progress(broker)], warnings)
    store = broker.metadata_store
    if store.state is SessionState.DISCONNECTED:
        warnings.append("no contact with ZooKeeper; serving until the session expires")
    if broker.lifecycle is None or not broker.lifecycle.is_registered:
        expired = store.state is SessionState.EXPIRED
        why = "the ZooKeeper session has expired" if expired else "it is registering again"
        return ProbeVerdict(False, "fenced", [why], warnings)
    refusal = broker.security_watch.refusal
    if refusal:
        why = f"clients are refused, since rights may have been taken back: {refusal}"
        return ProbeVerdict(False, "stale", [why], warnings)
    return ProbeVerdict(True, "ready", [], warnings)


def document(broker: Broker, verdict: ProbeVerdict) -> dict[str, Any]:
    """Return the verdict, to be told as JSON."""
    told: dict[str, Any] = {
        "status": verdict.status,
        "ok": verdict.ok,
        "broker_id": broker.broker_id,
    }
    if verdict.reasons:
        told["reasons"] = verdict.reasons
    if verdict.warnings:
        told["warnings"] = verdict.warnings
    return told
