"""Each phase of a broker has one label, fit for programs."""

from __future__ import annotations

from oncelog_broker.phases import BrokerPhase


def test_labels() -> None:
    labels = [phase.label for phase in BrokerPhase]
    assert labels[0] == "new"
    assert labels[-1] == "stopped"
    assert len(set(labels)) == len(labels)
    assert all(label.isidentifier() and label == label.lower() for label in labels)
