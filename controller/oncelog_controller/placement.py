"""Replicas are placed on brokers here. Pure.

Replica j of partition i is on broker (start + i + j) mod n, over brokers listed so that racks
alternate; a broker whose rack already holds a replica is stepped over while another rack holds
none. ``start`` rotates from topic to topic. So leaders differ by at most one partition between
brokers, a partition never has two replicas on one broker, and it has them on as many racks as there
can be. When one broker has no rack, racks are left out of it, as in Kafka (KIP-36).
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog_protocol.errors import InvalidReplicationFactorError

Brokers = Sequence[tuple[int, str | None]]
"""(broker id, rack)."""


def place_replicas(
    brokers: Brokers, *, first: int, count: int, replication_factor: int, start: int
) -> list[list[int]]:
    """Return the replicas of partitions ``first`` to ``first + count - 1``; the first replica of
    each is its preferred leader.

    :raises InvalidReplicationFactorError: above the number of brokers, or below 1.
    """
    if not 1 <= replication_factor <= len(brokers):
        raise InvalidReplicationFactorError(
            f"replication factor {replication_factor}, but {len(brokers)} brokers are live"
        )
    racks = racks_of(brokers)
    ring = _ring(brokers)
    return [
        _place_one(ring, racks, start + index, replication_factor)
        for index in range(first, first + count)
    ]


def racks_of(brokers: Brokers) -> dict[int, str]:
    """Return the rack of each broker; nothing when one of them has none, as racks do not count
    then (KIP-36)."""
    racks = {broker_id: rack for broker_id, rack in brokers if rack is not None}
    return racks if len(racks) == len(brokers) else {}


def start_at(brokers: Brokers, broker_id: int) -> int:
    """Return the ``start`` that puts partition 0 on ``broker_id``; 0 when it is not among
    ``brokers``."""
    ring = _ring(brokers)
    return ring.index(broker_id) if broker_id in ring else 0


def _ring(brokers: Brokers) -> list[int]:
    racks = racks_of(brokers)
    if racks:
        return _alternate_racks(racks)
    return sorted(broker_id for broker_id, _ in brokers)


def _place_one(
    ring: Sequence[int], racks: dict[int, str], start: int, replication_factor: int
) -> list[int]:
    count = len(ring)
    chosen: list[int] = []
    rack_count = len(set(racks.values()))
    used: set[str | None] = set()
    for step in range(count):  # first round: new racks only
        broker_id = ring[(start + step) % count]
        rack = racks.get(broker_id)
        if racks and rack in used and len(used) < rack_count:
            continue
        chosen.append(broker_id)
        used.add(rack)
        if len(chosen) == replication_factor:
            return chosen
    for step in range(count):  # second round: the brokers that were stepped over
        broker_id = ring[(start + step) % count]
        if broker_id not in chosen:
            chosen.append(broker_id)
            if len(chosen) == replication_factor:
                break
    return chosen


def _alternate_racks(racks: dict[int, str]) -> list[int]:
    """Return brokers rack by rack in turn: one of each rack, then the second of each, and so on."""
    by_rack: dict[str, list[int]] = {}
    for broker_id, rack in sorted(racks.items()):
        by_rack.setdefault(rack, []).append(broker_id)
    ring: list[int] = []
    depth = 0
    while len(ring) < len(racks):
        columns = [by_rack[rack] for rack in sorted(by_rack)]
        ring.extend(column[depth] for column in columns if depth < len(column))
        depth += 1
    return ring
