"""Every phase meets every cause: the tables list what happens, and nothing else does."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog_controller.transitions import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    IllegalTransitionError,
    PartitionCause,
    PartitionPhase,
    ReplicaCause,
    ReplicaPhase,
    next_partition_phase,
    next_replica_phase,
)


@pytest.mark.parametrize(("phase", "cause"), list(product(PartitionPhase, PartitionCause)))
def test_partitions(phase: PartitionPhase, cause: PartitionCause) -> None:
    wanted = PARTITION_TRANSITIONS.get((phase, cause))
    if wanted is None:
        with pytest.raises(IllegalTransitionError, match=phase.value):
            next_partition_phase(phase, cause)
    else:
        assert next_partition_phase(phase, cause) is wanted


@pytest.mark.parametrize(("phase", "cause"), list(product(ReplicaPhase, ReplicaCause)))
def test_replicas(phase: ReplicaPhase, cause: ReplicaCause) -> None:
    wanted = REPLICA_TRANSITIONS.get((phase, cause))
    if wanted is None:
        with pytest.raises(IllegalTransitionError, match=phase.value):
            next_replica_phase(phase, cause)
    else:
        assert next_replica_phase(phase, cause) is wanted


def test_what_is_deleted_stays_deleted() -> None:
    assert not any(phase is PartitionPhase.DELETED for phase, _ in PARTITION_TRANSITIONS)
    gone = {
        after for (phase, _), after in REPLICA_TRANSITIONS.items() if phase is ReplicaPhase.GONE
    }
    assert gone == {ReplicaPhase.GONE}


def test_every_phase_can_be_reached() -> None:
    assert set(PARTITION_TRANSITIONS.values()) | {PartitionPhase.NEW} == set(PartitionPhase)
    assert set(REPLICA_TRANSITIONS.values()) == set(ReplicaPhase)
