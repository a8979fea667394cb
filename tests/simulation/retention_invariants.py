"""[I24]: nothing goes that is younger than its retention, by true time, whatever clocks say

A campaign lasts minutes and its topics keep what they have for a day at least; nobody deletes
records by request. So every log begins where it began.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog_broker.app import Broker
from simulation.store_view import InvariantViolation

__all__ = ["check"]


def check(brokers: Mapping[int, Broker]) -> None:
    """Look at every log of the running brokers. :raises InvariantViolation: [I24]."""
    for broker_id, broker in brokers.items():
        for log in broker.logs.all():
            if log.log_start_offset > 0:
                raise InvariantViolation(
                    "I24",
                    f"{log.topic_partition} on broker {broker_id} begins at {log.log_start_offset}:"
                    f" records are gone that are younger than {log.config.retention_ms} ms",
                )
